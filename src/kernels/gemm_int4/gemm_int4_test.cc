// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int4/gemm_int4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/float16.h"
#include "kernels/int_gemm_test_util.h"

namespace hone::kernels::gemm_int4 {
#if defined(__x86_64__)
// Of gemm_int4_avxvnni_evex_test.cc.
void gemm_i8_i4_f32__3x16c8__avxvnni_evex(const IntGemmArgs& args) noexcept;
#endif

namespace {

// Those that this processor runs, and the kernel of AVX-VNNI a second time where AVX-512 encodes
// its dot product.
std::vector<Kernel> TestKernels() {
  std::vector<Kernel> kernels = Runnable(Kernels());
#if defined(__x86_64__)
  constexpr const char* kName = "gemm_i8_i4_f32__3x16c8__avxvnni_evex";
  if (CanRun(kName, CpuTarget::kAvx512Vnni)) {
    for (const Kernel& kernel : Kernels()) {
      if (kernel.fn != &gemm_i8_i4_f32__3x16c8__avxvnni) continue;
      kernels.push_back(kernel);
      kernels.back().name = kName;
      kernels.back().fn = &gemm_i8_i4_f32__3x16c8__avxvnni_evex;
    }
  }
#endif
  return kernels;
}

struct Matrix {
  Matrix(std::int64_t n, std::int64_t k, std::int64_t block, std::uint32_t seed)
      : codes(RandomBytes(n * k / 2, seed)) {
    const std::int64_t count = block == 0 ? n : n * (k / block);
    std::int64_t i = 0;
    for (const float s : RandomFloats(count, seed + 1)) {
      // Zero, the smallest and a large scale among them.
      const float scale = i % 7 == 3 ? 0.0f : i % 7 == 5 ? 0x1p-24f : i % 7 == 6 ? 1000.0f : s;
      const std::uint16_t half = FloatToFp16(scale);
      const auto* bytes = reinterpret_cast<const std::byte*>(&half);
      if (block == 0) bytes = reinterpret_cast<const std::byte*>(&s);
      scales.insert(scales.end(), bytes, bytes + (block == 0 ? 4 : 2));
      magnitude = std::max(magnitude, std::fabs(block == 0 ? s : scale));
      ++i;
    }
  }
  std::vector<std::byte> Pack(std::int64_t n, std::int64_t k, std::int64_t block) const {
    const std::int64_t bytes = PanelBytes(k, block);
    std::vector<std::byte> panels(static_cast<std::size_t>(NumPanels(n) * bytes));
    const std::int64_t scale_bytes = block == 0 ? 4 : k / block * 2;
    for (std::int64_t row = 0; row < n; row += kPanelRows) {
      PackPanel(codes.data() + row * k / 2, scales.data() + row * scale_bytes,
                std::min(kPanelRows, n - row), k, block, panels.data() + row / kPanelRows * bytes);
    }
    return panels;
  }
  std::vector<std::byte> codes, scales;
  float magnitude = 0;  // the largest scale
};

// sx (sum |sw w q| + |z| sum |sw w|) of one output.
double Magnitude(const Matrix& w, const IntGemmArgs& a, std::int64_t i, std::int64_t r) {
  const std::int64_t block = a.block == 0 ? a.k : a.block;
  double total = 0;
  for (std::int64_t j = 0; j < a.k; ++j) {
    const auto byte = static_cast<unsigned>(w.codes[static_cast<std::size_t>((r * a.k + j) / 2)]);
    const int code = static_cast<int>((j % 2 == 0 ? byte & 15U : byte >> 4) ^ 8U) - 8;
    const std::size_t at = static_cast<std::size_t>(r * (a.k / block) + j / block);
    float scale;
    if (a.block == 0) {
      std::memcpy(&scale, w.scales.data() + at * 4, 4);
    } else {
      std::uint16_t half;
      std::memcpy(&half, w.scales.data() + at * 2, 2);
      scale = Fp16ToFloat(half);
    }
    total += std::fabs(static_cast<double>(scale) * code) *
             (std::abs(int{a.x[i * a.x_stride + j]}) + std::abs(a.x_zero[i]));
  }
  return total * a.x_scale[i];
}

void Compare(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k,
             std::int64_t block, bool with_bias, const Placement& at = {}) {
  const Matrix w(n, k, block, static_cast<std::uint32_t>(k + block));
  const IntRows rows(m, k, 11);
  const std::vector<float> bias = RandomFloats(n, 12);
  PlacedIntGemm call(rows, w.Pack(n, k, block), with_bias ? bias.data() : nullptr, n, at);
  call.args.panel_bytes = PanelBytes(k, block);
  call.args.block = block;
  kernel.fn(call.args);
  std::vector<float> want(static_cast<std::size_t>(m * n));
  IntGemmArgs twin = call.args;
  twin.y = want.data();
  twin.y_stride = n;
  Reference(twin, w.codes.data(), w.scales.data());
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t r = 0; r < n; ++r) {
      const double expected = want[static_cast<std::size_t>(i * n + r)];
      const double limit =
          kernel.tolerance * Magnitude(w, call.args, i, r) + 2.4e-7 * std::fabs(expected) + 1e-7;
      ASSERT_NEAR(call.args.y[i * call.args.y_stride + r], expected, limit)
          << kernel.name << " m " << m << " n " << n << " k " << k << " block " << block << " at "
          << i << ", " << r << at.Text();
    }
  }
  ASSERT_TRUE(call.Intact()) << kernel.name << " wrote beside y: m " << m << " n " << n << " k "
                             << k << " block " << block << at.Text();
}

TEST(GemmInt4, EqualsTheTwinWithBlockScales) {
  for (const Kernel& kernel : TestKernels()) {
    for (const std::int64_t block : {32, 64, 96, 128, 256}) {
      for (const std::int64_t blocks : {1, 2, 3}) {
        for (const std::int64_t m : {1, 3, 4, 5, 12, 13}) {
          Compare(kernel, m, 17, block * blocks, block, m % 2 == 0);
        }
      }
    }
    for (const std::int64_t m : {2, 6, 7, 8, 9, 10, 11, 29}) Compare(kernel, m, 16, 64, 32, true);
    for (const std::int64_t n : {1, 15, 16, 17, 37}) Compare(kernel, 5, n, 96, 32, true);
    Compare(kernel, 2, 5, 4096, 32, false);
    // Enough rows that a kernel may unpack first, in several pieces of k and passes.
    for (const std::int64_t block : {32, 96, 128, 384}) Compare(kernel, 61, 49, 1152, block, true);
    Compare(kernel, 48, 16, 1024, 1024, false);
    Compare(kernel, 301, 33, 64, 32, false);
    // Several strips of columns and chunks of k, with ends that fill none of them; a block longer
    // than a chunk.
    for (const std::int64_t m : {1, 4, 13}) Compare(kernel, m, 131, 96 * 11, 96, true);
    Compare(kernel, 3, 33, 1280, 640, false);
  }
}

TEST(GemmInt4, EqualsTheTwinWithRowScales) {
  for (const Kernel& kernel : TestKernels()) {
    for (const std::int64_t m : {1, 2, 3, 4, 5, 11, 12, 13, 29}) {
      for (const std::int64_t k : {2, 6, 8, 10, 30, 32, 34, 64, 194}) {
        Compare(kernel, m, 17, k, 0, m % 2 == 0);
      }
    }
    for (const std::int64_t n : {1, 15, 16, 37}) Compare(kernel, 5, n, 34, 0, true);
    for (const std::int64_t m : {1, 4, 13}) Compare(kernel, m, 131, 1034, 0, true);
    Compare(kernel, 1, 3, kMaxDepth, 0, false);
  }
}

TEST(GemmInt4, TakesArraysAtAnyAddressAndTouchesNothingElse) {
  for (const Kernel& kernel : TestKernels()) {
    for (const Placement& at : kPlacements) {
      for (const std::int64_t m : {1, 3, 5, 7, 13, 49}) {
        Compare(kernel, m, 33, 96, 32, true, at);
        Compare(kernel, m, 47, 288, 96, false, at);
      }
      for (const std::int64_t n : {1, 7, 15, 16, 17, 31}) Compare(kernel, 5, n, 128, 128, true, at);
      for (const std::int64_t k : {2, 6, 26, 34, 62, 66, 194}) {
        for (const std::int64_t m : {1, 3, 13}) Compare(kernel, m, 19, k, 0, k % 4 == 2, at);
      }
      Compare(kernel, 61, 49, 1152, 32, true, at);
      Compare(kernel, 3, 17, 1280, 640, true, at);
    }
  }
}

TEST(GemmInt4, IndicesMayPass32Bits) {
  const std::int64_t n = 33, k = 96;
  for (const std::int64_t block : {0, 32}) {
    const Matrix w(n, k, block, 7);
    const std::vector<std::byte> panels = w.Pack(n, k, block);
    for (const std::int64_t m : {1, 5, 13, 49}) {
      const IntRows rows(m, k, 9);
      std::vector<float> want(static_cast<std::size_t>(m * n));
      IntGemmArgs args = rows.args;
      args.w = panels.data();
      args.panel_bytes = PanelBytes(k, block);
      args.block = block;
      args.n = args.y_stride = n;
      args.y = want.data();
      for (const Kernel& kernel : TestKernels()) {
        kernel.fn(args);
        const std::vector<float> got = RunFarApart(kernel.fn, args);
        if (got.empty()) GTEST_SKIP() << "the system refuses the address space";
        ASSERT_EQ(got, want) << kernel.name << " m " << m << " block " << block;
      }
    }
  }
}

// Columns of w are all -8 or all 7, in one block of the greatest depth or with one scale a row;
// rows of x all -128 or all 127, each with the zero point at either end.
TEST(GemmInt4, LargestSumsDoNotOverflow) {
  const std::int64_t k = kMaxDepth, n = 3;
  for (const std::int64_t block : {std::int64_t{0}, k}) {
    Matrix w(n, k, block, 2);
    for (std::int64_t r = 0; r < n; ++r) {
      std::fill_n(w.codes.begin() + r * k / 2, k / 2,
                  r % 2 == 0 ? std::byte{0x88} : std::byte{0x77});
      const float one = 1.0f;
      const std::uint16_t half = FloatToFp16(one);
      std::memcpy(w.scales.data() + r * (block == 0 ? 4 : 2),
                  block == 0 ? static_cast<const void*>(&one) : &half, block == 0 ? 4 : 2);
    }
    const std::vector<std::byte> panels = w.Pack(n, k, block);
    // Enough rows at last that a kernel may unpack first.
    for (const std::int64_t m : {1, 4, 13, 48}) {
      for (int first = 0; first < (m == 1 ? 4 : 1); ++first) {
        ExtremeRows rows(m, k, first);
        std::vector<float> y(static_cast<std::size_t>(m * n));
        rows.args.w = panels.data();
        rows.args.panel_bytes = PanelBytes(k, block);
        rows.args.block = block;
        rows.args.n = rows.args.y_stride = n;
        rows.args.y = y.data();
        for (const Kernel& kernel : TestKernels()) {
          kernel.fn(rows.args);
          for (std::int64_t i = 0; i < m * n; ++i) {
            const int code = i % n % 2 == 0 ? -8 : 7, q = rows.args.x[i / n * rows.args.x_stride];
            const int product = code * (q - rows.args.x_zero[i / n]) * static_cast<int>(k);
            ASSERT_EQ(y[static_cast<std::size_t>(i)], static_cast<float>(product))
                << kernel.name << " block " << block << " m " << m << " w " << code << " x " << q
                << " zero " << rows.args.x_zero[i / n];
          }
        }
      }
    }
  }
}

TEST(GemmInt4, ARowDoesNotDependOnItsNeighbours) {
  const std::int64_t n = 49, k = 1152;
  for (const auto& [m, block] : {std::pair<std::int64_t, std::int64_t>{14, 0},
                                 {2, 32},
                                 {5, 32},
                                 {14, 32},
                                 {14, 128},
                                 {61, 32},
                                 {61, 128}}) {
    const Matrix w(n, k, block, 3);
    const std::vector<std::byte> panels = w.Pack(n, k, block);
    for (const Kernel& kernel : TestKernels()) {
      IntRows rows(m, k, 5);
      std::vector<float> together(static_cast<std::size_t>(m * n)), alone = together;
      IntGemmArgs args = rows.args;
      args.w = panels.data();
      args.panel_bytes = PanelBytes(k, block);
      args.block = block;
      args.n = args.y_stride = n;
      args.y = together.data();
      kernel.fn(args);
      args.m = 1;
      for (std::int64_t i = 0; i < m; ++i) {
        args.x = rows.args.x + i * args.x_stride;
        args.x_offset = rows.args.x_offset + i * args.x_stride;
        args.x_scale = rows.args.x_scale + i;
        args.x_zero = rows.args.x_zero + i;
        args.x_sum = rows.args.x_sum + i;
        args.x_block_offsets = rows.args.x_block_offsets + i * args.offsets_stride;
        args.y = alone.data() + i * n;
        kernel.fn(args);
      }
      EXPECT_EQ(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)), 0)
          << kernel.name << " block " << block;
    }
  }
}

#if defined(__x86_64__)
TEST(GemmInt4, TheKernelOfAvxVnniIsTestedWhereverADotProductIs) {
  bool found = false;
  for (const Kernel& kernel : TestKernels()) {
    found = found || std::strstr(kernel.name, "__avxvnni") != nullptr;
  }
  EXPECT_EQ(found, CpuSupports(CpuTarget::kAvx512Vnni) || CpuSupports(CpuTarget::kAvxVnni));
}
#endif

}  // namespace
}  // namespace hone::kernels::gemm_int4
