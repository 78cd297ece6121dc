// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int8/gemm_int8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/int_gemm_test_util.h"

namespace hone::kernels::gemm_int8 {
namespace {

struct Matrix {
  Matrix(std::int64_t n, std::int64_t k, std::uint32_t seed)
      : codes(RandomBytes(n * k, seed)), scales(RandomFloats(n, seed + 1)) {}
  const std::int8_t* data() const { return reinterpret_cast<const std::int8_t*>(codes.data()); }
  std::vector<std::byte> Pack(const Kernel& kernel, std::int64_t n, std::int64_t k) const {
    std::vector<std::byte> panels(static_cast<std::size_t>(NumPanels(n) * PanelBytes(k)));
    for (std::int64_t row = 0; row < n; row += kPanelRows) {
      PackPanel(kernel, data() + row * k, scales.data() + row, std::min(kPanelRows, n - row), k,
                panels.data() + row / kPanelRows * PanelBytes(k));
    }
    return panels;
  }
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

void Compare(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k, bool with_bias) {
  const Matrix w(n, k, static_cast<std::uint32_t>(k));
  const std::vector<std::byte> panels = w.Pack(kernel, n, k);
  IntRows rows(m, k, 11);
  const std::vector<float> bias = RandomFloats(n, 12);
  std::vector<float> y(static_cast<std::size_t>(m * n + 1), -7.0f), want = y;
  IntGemmArgs args = rows.args;
  args.w = panels.data();
  args.panel_bytes = PanelBytes(k);
  args.bias = with_bias ? bias.data() : nullptr;
  args.n = n;
  args.y_stride = n;
  args.y = want.data();
  Reference(args, w.data(), w.scales.data());
  args.y = y.data();
  kernel.fn(args);
  for (std::int64_t i = 0; i < m * n; ++i) {
    const double expected = want[static_cast<std::size_t>(i)];
    const double product = expected - (with_bias ? bias[static_cast<std::size_t>(i % n)] : 0.0f);
    const double limit =
        kernel.tolerance * std::fabs(product) + std::fabs(expected) * 1.2e-7 + 1e-7 * with_bias;
    ASSERT_NEAR(y[static_cast<std::size_t>(i)], expected, limit)
        << kernel.name << " m " << m << " n " << n << " k " << k << " at " << i;
  }
  ASSERT_EQ(y.back(), -7.0f) << kernel.name << " wrote past the end";
}

TEST(GemmInt8, EqualsTheTwinForEveryShape) {
  for (const Kernel& kernel : Kernels()) {
    if (!CpuSupports(kernel.needs)) continue;
    for (const std::int64_t m : {1, 2, 3, 5, 6, 7, 11, 12, 13, 29}) {
      for (const std::int64_t k : {1, 3, 4, 5, 63, 64, 65, 97}) {
        Compare(kernel, m, 17, k, m % 2 == 0);
      }
    }
    for (const std::int64_t n : {1, 15, 16, 17, 37}) Compare(kernel, 5, n, 33, true);
    Compare(kernel, 1, 16, 8191, true);
    // Several strips of columns and chunks of k, with ends that fill none of them.
    for (const std::int64_t m : {1, 4, 13}) Compare(kernel, m, 131, 1029, true);
  }
}

TEST(GemmInt8, LargestSumsDoNotOverflow) {
  const std::int64_t k = kMaxDepth;
  for (const Kernel& kernel : Kernels()) {
    if (!CpuSupports(kernel.needs)) continue;
    IntRows rows(1, k, 1);
    std::fill(rows.q.begin(), rows.q.end(), std::int8_t{127});
    rows.zero[0] = -128;
    rows.sums[0] = 127 * kMaxDepth;
    rows.scale[0] = 1.0f;
    Matrix w(1, k, 2);
    std::fill(w.codes.begin(), w.codes.end(), std::byte{0x80});
    w.scales[0] = 1.0f;
    const std::vector<std::byte> panels = w.Pack(kernel, 1, k);
    float y = 0;
    rows.args.w = panels.data();
    rows.args.panel_bytes = PanelBytes(k);
    rows.args.n = rows.args.y_stride = 1;
    rows.args.y = &y;
    kernel.fn(rows.args);
    EXPECT_EQ(y, -128.0f * 255.0f * 65536.0f) << kernel.name;
  }
}

TEST(GemmInt8, ARowDoesNotDependOnItsNeighbours) {
  const std::int64_t m = 14, n = 33, k = 257;
  const Matrix w(n, k, 3);
  const std::vector<float> bias = RandomFloats(n, 4);
  for (const Kernel& kernel : Kernels()) {
    if (!CpuSupports(kernel.needs)) continue;
    const std::vector<std::byte> panels = w.Pack(kernel, n, k);
    IntRows rows(m, k, 5);
    std::vector<float> together(static_cast<std::size_t>(m * n)), alone = together;
    IntGemmArgs args = rows.args;
    args.w = panels.data();
    args.panel_bytes = PanelBytes(k);
    args.bias = bias.data();
    args.n = args.y_stride = n;
    args.y = together.data();
    kernel.fn(args);
    args.m = 1;
    for (std::int64_t i = 0; i < m; ++i) {
      args.x = rows.args.x + i * args.x_stride;
      args.x_scale = rows.args.x_scale + i;
      args.x_zero = rows.args.x_zero + i;
      args.x_sum = rows.args.x_sum + i;
      args.y = alone.data() + i * n;
      kernel.fn(args);
    }
    EXPECT_EQ(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)), 0)
        << kernel.name;
  }
}

}  // namespace
}  // namespace hone::kernels::gemm_int8
