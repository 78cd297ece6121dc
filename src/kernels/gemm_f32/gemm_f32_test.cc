// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_f32/gemm_f32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/float16.h"
#include "kernels/test_memory.h"
#include "kernels/test_util.h"

namespace hone::kernels::gemm_f32 {
namespace {

std::vector<std::byte> Weights(WeightKind kind, std::int64_t count, std::uint32_t seed) {
  const std::vector<float> values = RandomFloats(count, seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * WeightBytes(kind)));
  for (std::int64_t i = 0; i < count; ++i) {
    const float v = values[static_cast<std::size_t>(i)];
    if (kind == WeightKind::kF32) {
      std::memcpy(bytes.data() + 4 * i, &v, 4);
    } else {
      const std::uint16_t h = kind == WeightKind::kF16 ? FloatToFp16(v) : FloatToBf16(v);
      std::memcpy(bytes.data() + 2 * i, &h, 2);
    }
  }
  return bytes;
}

std::vector<std::byte> Pack(const Kernel& kernel, const std::vector<std::byte>& w, std::int64_t n,
                            std::int64_t k) {
  std::vector<std::byte> panels(
      static_cast<std::size_t>(NumPanels(n) * PanelBytes(kernel.weight, k)));
  for (std::int64_t row = 0; row < n; row += kPanelRows) {
    PackPanel(kernel.weight, w.data() + row * k * WeightBytes(kernel.weight),
              std::min(kPanelRows, n - row), k,
              panels.data() + row / kPanelRows * PanelBytes(kernel.weight, k));
  }
  return panels;
}

void Compare(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k,
             const Placement& at = {}, bool with_bias = true) {
  const std::vector<std::byte> w = Weights(kernel.weight, n * k, 1);
  const std::vector<std::byte> panels = Pack(kernel, w, n, k);
  const std::vector<float> x_values = RandomFloats(m * k, 2), bias_values = RandomFloats(n, 3);
  const PlacedRows<float> x(x_values.data(), m * k, at), bias(bias_values.data(), n, at);
  const PlacedRows<float> y(nullptr, m, n, n, n + at.y_gap, at);
  // At the address of any weight.
  Placement panels_at = at;
  panels_at.shift *= WeightBytes(kernel.weight);
  const PlacedRows<std::byte> placed(panels.data(), static_cast<std::int64_t>(panels.size()),
                                     panels_at);
  std::vector<float> want(static_cast<std::size_t>(m * n));
  Args args;
  args.x = x.data();
  args.w = placed.data();
  args.bias = with_bias ? bias.data() : nullptr;
  args.y = y.data();
  args.m = m;
  args.n = n;
  args.k = k;
  args.y_stride = y.stride();
  kernel.fn(args);
  Reference(kernel.weight, x.data(), w.data(), args.bias, m, n, k, want.data());
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t r = 0; r < n; ++r) {
      const double limit = kernel.tolerance * static_cast<double>(k + 1);
      ASSERT_NEAR(y.row(i)[r], want[static_cast<std::size_t>(i * n + r)], limit)
          << kernel.name << " m " << m << " n " << n << " k " << k << " at " << i << ", " << r
          << at.Text();
    }
  }
  ASSERT_TRUE(x.Intact() && bias.Intact() && placed.Intact() && y.Intact())
      << kernel.name << " wrote beside y: m " << m << " n " << n << " k " << k << at.Text();
}

TEST(GemmF32, EqualsTheTwinForEveryShape) {
  for (const Kernel& kernel : Runnable(Kernels())) {
    for (const std::int64_t m : {1, 2, 3, 4, 11, 12, 13, 29}) {
      for (const std::int64_t k : {1, 2, 3, 31, 64, 97}) Compare(kernel, m, 17, k);
    }
    for (const std::int64_t n : {1, 15, 16, 17, 37}) Compare(kernel, 5, n, 33);
  }
}

TEST(GemmF32, TakesArraysAtAnyAddressAndTouchesNothingElse) {
  for (const Kernel& kernel : Runnable(Kernels())) {
    for (const Placement& at : kPlacements) {
      for (const std::int64_t m : {1, 3, 5, 7, 13, 29}) {
        for (const std::int64_t k : {1, 3, 17, 64, 65}) Compare(kernel, m, 35, k, at, k % 2 == 0);
      }
      for (const std::int64_t n : {1, 7, 15, 16, 17, 31}) Compare(kernel, 3, n, 33, at);
    }
  }
}

TEST(GemmF32, IndicesMayPass32Bits) {
  const std::int64_t n = 33, k = 17, stride = (std::int64_t{1} << 30) + n;
  for (const Kernel& kernel : Runnable(Kernels())) {
    const std::vector<std::byte> panels = Pack(kernel, Weights(kernel.weight, n * k, 4), n, k);
    for (const std::int64_t m : {5, 13}) {
      const std::vector<float> x = RandomFloats(m * k, 5);
      std::vector<float> want(static_cast<std::size_t>(m * n));
      Args args;
      args.x = x.data();
      args.w = panels.data();
      args.m = m;
      args.n = args.y_stride = n;
      args.k = k;
      args.y = want.data();
      kernel.fn(args);
      const SparseMemory y(static_cast<std::uint64_t>(m * stride * 4));
      if (y.data() == nullptr) GTEST_SKIP() << "the system refuses the address space";
      args.y = reinterpret_cast<float*>(y.data());
      args.y_stride = stride;
      kernel.fn(args);
      for (std::int64_t i = 0; i < m; ++i) {
        ASSERT_EQ(std::memcmp(args.y + i * stride, want.data() + i * n, sizeof(float) * n), 0)
            << kernel.name << " row " << i;
      }
    }
  }
}

TEST(GemmF32, ARowDoesNotDependOnItsNeighbours) {
  const std::int64_t m = 14, n = 33, k = 257;
  for (const Kernel& kernel : Runnable(Kernels())) {
    const std::vector<std::byte> panels = Pack(kernel, Weights(kernel.weight, n * k, 4), n, k);
    const std::vector<float> x = RandomFloats(m * k, 5);
    std::vector<float> together(static_cast<std::size_t>(m * n)), alone = together;
    Args args;
    args.x = x.data();
    args.w = panels.data();
    args.y = together.data();
    args.m = m;
    args.n = n;
    args.k = k;
    args.y_stride = n;
    kernel.fn(args);
    args.m = 1;
    for (std::int64_t i = 0; i < m; ++i) {
      args.x = x.data() + i * k;
      args.y = alone.data() + i * n;
      kernel.fn(args);
    }
    EXPECT_EQ(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)), 0)
        << kernel.name;
  }
}

TEST(GemmF32, NanAndInfinityStayInTheirRow) {
  for (const Kernel& kernel : Runnable(Kernels())) {
    const std::int64_t m = 3, n = 17, k = 5;
    const std::vector<std::byte> panels = Pack(kernel, Weights(kernel.weight, n * k, 6), n, k);
    std::vector<float> x = RandomFloats(m * k, 7);
    x[k + 2] = INFINITY;
    x[2 * k] = NAN;
    std::vector<float> y(static_cast<std::size_t>(m * n));
    Args args;
    args.x = x.data();
    args.w = panels.data();
    args.y = y.data();
    args.m = m;
    args.n = n;
    args.k = k;
    args.y_stride = n;
    kernel.fn(args);
    for (std::int64_t r = 0; r < n; ++r) {
      EXPECT_TRUE(std::isfinite(y[static_cast<std::size_t>(r)])) << kernel.name;
      EXPECT_TRUE(std::isinf(y[static_cast<std::size_t>(n + r)])) << kernel.name;
      EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(2 * n + r)])) << kernel.name;
    }
  }
}

}  // namespace
}  // namespace hone::kernels::gemm_f32
