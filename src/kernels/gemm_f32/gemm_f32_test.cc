// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_f32/gemm_f32.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/float16.h"
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
             std::int64_t shift) {
  const std::vector<std::byte> w = Weights(kernel.weight, n * k, 1);
  const std::vector<std::byte> panels = Pack(kernel, w, n, k);
  Shifted<float> x(RandomFloats(m * k, 2), shift), bias(RandomFloats(n, 3), shift);
  Shifted<float> y(std::vector<float>(static_cast<std::size_t>(m * n + 1), -7.0f), shift);
  std::vector<float> want(static_cast<std::size_t>(m * n));
  Args args;
  args.x = x.data();
  args.w = panels.data();
  args.bias = bias.data();
  args.y = y.data();
  args.m = m;
  args.n = n;
  args.k = k;
  args.y_stride = n;
  kernel.fn(args);
  Reference(kernel.weight, x.data(), w.data(), bias.data(), m, n, k, want.data());
  for (std::int64_t i = 0; i < m * n; ++i) {
    const double limit = kernel.tolerance * static_cast<double>(k + 1);
    ASSERT_NEAR(y.data()[i], want[static_cast<std::size_t>(i)], limit)
        << kernel.name << " m " << m << " n " << n << " k " << k << " shift " << shift << " at "
        << i;
  }
  ASSERT_EQ(y.data()[m * n], -7.0f) << kernel.name << " wrote past the end";
}

TEST(GemmF32, EqualsTheTwinForEveryShape) {
  for (const Kernel& kernel : Runnable(Kernels())) {
    for (const std::int64_t m : {1, 2, 3, 4, 11, 12, 13, 29}) {
      for (const std::int64_t k : {1, 2, 3, 31, 64, 97}) Compare(kernel, m, 17, k, m % 4);
    }
    for (const std::int64_t n : {1, 15, 16, 17, 37}) Compare(kernel, 5, n, 33, n % 4);
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
