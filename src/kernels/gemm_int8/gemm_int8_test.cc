// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int8/gemm_int8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/int_gemm_test_util.h"

namespace hone::kernels::gemm_int8 {
#if defined(__x86_64__)
// Of gemm_int8_avxvnni_evex_test.cc.
void gemm_i8_i8_f32__6x16c4__avxvnni_evex(const IntGemmArgs& args) noexcept;
#endif

namespace {

// Those that this processor runs, and the kernel of AVX-VNNI a second time where AVX-512 encodes
// its dot product.
std::vector<Kernel> TestKernels() {
  std::vector<Kernel> kernels = Runnable(Kernels());
#if defined(__x86_64__)
  constexpr const char* kName = "gemm_i8_i8_f32__6x16c4__avxvnni_evex";
  if (CanRun(kName, CpuTarget::kAvx512Vnni)) {
    for (const Kernel& kernel : Kernels()) {
      if (kernel.fn != &gemm_i8_i8_f32__6x16c4__avxvnni) continue;
      kernels.push_back(kernel);
      kernels.back().name = kName;
      kernels.back().fn = &gemm_i8_i8_f32__6x16c4__avxvnni_evex;
    }
  }
#endif
  return kernels;
}

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

void Compare(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k, bool with_bias,
             const Placement& at = {}) {
  const Matrix w(n, k, static_cast<std::uint32_t>(k));
  const IntRows rows(m, k, 11);
  const std::vector<float> bias = RandomFloats(n, 12);
  PlacedIntGemm call(rows, w.Pack(kernel, n, k), with_bias ? bias.data() : nullptr, n, at);
  call.args.panel_bytes = PanelBytes(k);
  kernel.fn(call.args);
  std::vector<float> want(static_cast<std::size_t>(m * n));
  IntGemmArgs twin = call.args;
  twin.y = want.data();
  twin.y_stride = n;
  Reference(twin, w.data(), w.scales.data());
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t r = 0; r < n; ++r) {
      const double expected = want[static_cast<std::size_t>(i * n + r)];
      const double product = expected - (with_bias ? bias[static_cast<std::size_t>(r)] : 0.0f);
      const double limit =
          kernel.tolerance * std::fabs(product) + std::fabs(expected) * 1.2e-7 + 1e-7 * with_bias;
      ASSERT_NEAR(call.args.y[i * call.args.y_stride + r], expected, limit)
          << kernel.name << " m " << m << " n " << n << " k " << k << " at " << i << ", " << r
          << at.Text();
    }
  }
  ASSERT_TRUE(call.Intact()) << kernel.name << " wrote beside y: m " << m << " n " << n << " k "
                             << k << at.Text();
}

TEST(GemmInt8, EqualsTheTwinForEveryShape) {
  for (const Kernel& kernel : TestKernels()) {
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

TEST(GemmInt8, TakesArraysAtAnyAddressAndTouchesNothingElse) {
  for (const Kernel& kernel : TestKernels()) {
    for (const Placement& at : kPlacements) {
      for (const std::int64_t m : {1, 3, 5, 7, 13, 29}) {
        for (const std::int64_t k : {1, 3, 17, 63, 65, 129}) Compare(kernel, m, 35, k, true, at);
      }
      for (const std::int64_t n : {1, 7, 15, 16, 17, 31, 49}) {
        Compare(kernel, 3, n, 67, false, at);
        Compare(kernel, 9, n, 64, true, at);
      }
    }
  }
}

TEST(GemmInt8, IndicesMayPass32Bits) {
  const std::int64_t n = 33, k = 65;
  const Matrix w(n, k, 7);
  for (const std::int64_t m : {1, 5, 13, 29}) {
    const IntRows rows(m, k, 9);
    for (const Kernel& kernel : TestKernels()) {
      const std::vector<std::byte> panels = w.Pack(kernel, n, k);
      std::vector<float> want(static_cast<std::size_t>(m * n));
      IntGemmArgs args = rows.args;
      args.w = panels.data();
      args.panel_bytes = PanelBytes(k);
      args.n = args.y_stride = n;
      args.y = want.data();
      kernel.fn(args);
      const std::vector<float> got = RunFarApart(kernel.fn, args);
      if (got.empty()) GTEST_SKIP() << "the system refuses the address space";
      ASSERT_EQ(got, want) << kernel.name << " m " << m;
    }
  }
}

// Columns of w are all -128 (code 0 with an offset) or all 127 (code 255), rows of x all -128 or
// all 127, each with the zero point at either end.
TEST(GemmInt8, LargestSumsDoNotOverflow) {
  const std::int64_t k = kMaxDepth, n = 3;
  Matrix w(n, k, 2);
  for (std::int64_t r = 0; r < n; ++r) {
    std::fill_n(w.codes.begin() + r * k, k, r % 2 == 0 ? std::byte{0x80} : std::byte{127});
    w.scales[static_cast<std::size_t>(r)] = 1.0f;
  }
  for (const std::int64_t m : {1, 4, 13}) {
    for (int first = 0; first < (m == 1 ? 4 : 1); ++first) {
      ExtremeRows rows(m, k, first);
      std::vector<float> y(static_cast<std::size_t>(m * n));
      rows.args.n = rows.args.y_stride = n;
      rows.args.panel_bytes = PanelBytes(k);
      rows.args.y = y.data();
      for (const Kernel& kernel : TestKernels()) {
        const std::vector<std::byte> panels = w.Pack(kernel, n, k);
        rows.args.w = panels.data();
        kernel.fn(rows.args);
        for (std::int64_t i = 0; i < m * n; ++i) {
          const int code = i % n % 2 == 0 ? -128 : 127, q = rows.args.x[i / n * rows.args.x_stride];
          const int product = code * (q - rows.args.x_zero[i / n]) * static_cast<int>(k);
          ASSERT_EQ(y[static_cast<std::size_t>(i)], static_cast<float>(product))
              << kernel.name << " m " << m << " w " << code << " x " << q << " zero "
              << rows.args.x_zero[i / n];
        }
      }
    }
  }
}

TEST(GemmInt8, ARowDoesNotDependOnItsNeighbours) {
  const std::int64_t m = 14, n = 33, k = 257;
  const Matrix w(n, k, 3);
  const std::vector<float> bias = RandomFloats(n, 4);
  for (const Kernel& kernel : TestKernels()) {
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

#if defined(__x86_64__)
TEST(GemmInt8, TheKernelOfAvxVnniIsTestedWhereverADotProductIs) {
  bool found = false;
  for (const Kernel& kernel : TestKernels()) {
    found = found || std::strstr(kernel.name, "__avxvnni") != nullptr;
  }
  EXPECT_EQ(found, CpuSupports(CpuTarget::kAvx512Vnni) || CpuSupports(CpuTarget::kAvxVnni));
}
#endif

}  // namespace
}  // namespace hone::kernels::gemm_int8
