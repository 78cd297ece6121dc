// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/float16.h"
#include "kernels/elementwise.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

using codec::Coding;
using codec::WeightBuffer;
using codec::WeightType;

// A matrix of the type with seeded codes and scales that are safe for every coding.
WeightBuffer MakeWeight(WeightType type, std::int64_t n, std::int64_t k, std::uint32_t seed) {
  WeightBuffer w;
  w.type = type;
  w.rows = n;
  w.cols = k;
  w.codes = RandomBytes(static_cast<std::int64_t>(codec::CodesBytes(type, n, k)), seed);
  w.scales.resize(codec::ScalesBytes(type, n, k));
  const std::vector<float> values = RandomFloats(n * k, seed + 1);
  if (type.coding == Coding::kF32) {
    std::memcpy(w.codes.data(), values.data(), w.codes.size());
  } else if (type.coding == Coding::kF16 || type.coding == Coding::kBf16) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t h =
          type.coding == Coding::kF16 ? FloatToFp16(values[i]) : FloatToBf16(values[i]);
      std::memcpy(w.codes.data() + 2 * i, &h, 2);
    }
  } else if (codec::Facts(type.coding).interleaved_scale) {
    const codec::CodingFacts& facts = codec::Facts(type.coding);
    const auto group = static_cast<std::size_t>(facts.group_bytes);
    for (std::size_t g = 0; g < w.codes.size() / group; ++g) {
      std::size_t i = 2 * g;
      for (const int at : {facts.scale_at, facts.minimum_at}) {
        const std::uint16_t h = FloatToFp16(0.05f * values[i++]);
        if (at >= 0) std::memcpy(w.codes.data() + g * group + static_cast<std::size_t>(at), &h, 2);
      }
    }
  } else if (type.block == 0) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const float s = 0.01f + 0.01f * std::fabs(values[i]);
      std::memcpy(w.scales.data() + 4 * i, &s, 4);
    }
  } else {
    for (std::size_t i = 0; i < w.scales.size() / 2; ++i) {
      const std::uint16_t h = FloatToFp16(0.01f + 0.01f * std::fabs(values[i]));
      std::memcpy(w.scales.data() + 2 * i, &h, 2);
    }
  }
  return w;
}

// x as the kernels see it: quantized and back, in double.
std::vector<double> SeenInput(const PreparedRows& x) {
  std::vector<double> seen;
  for (std::int64_t i = 0; i < x.m(); ++i) {
    for (std::int64_t j = 0; j < x.k(); ++j) {
      seen.push_back(x.kind() == InputKind::kPlain
                         ? x.plain()[i * x.k() + j]
                         : (x.q8()[i * x.q8_stride() + j] - x.zero_point()[i]) *
                               static_cast<double>(x.scale()[i]));
    }
  }
  return seen;
}

void ExpectProduct(WeightType type, Compute compute, std::int64_t n, std::int64_t k,
                   double tolerance) {
  ThreadPool pool(2);
  const std::int64_t m = 3;
  const WeightBuffer w = MakeWeight(type, n, k, 1);
  auto linear = Linear::Pack(w.view(), compute, pool);
  ASSERT_TRUE(linear.ok()) << linear.message();
  EXPECT_EQ(linear->n(), n);
  EXPECT_EQ(linear->k(), k);
  const std::vector<float> x = RandomFloats(m * k, 2), bias = RandomFloats(n, 3);
  PreparedRows rows;
  rows.Prepare(linear->input_kind(), x.data(), m, k, pool);
  std::vector<float> y(static_cast<std::size_t>(m * n));
  linear->Run(rows, bias.data(), y.data(), pool);
  std::vector<float> decoded(static_cast<std::size_t>(n * k));
  codec::DecodeRows(w.view(), 0, n, decoded.data());
  const std::vector<double> seen = SeenInput(rows);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t r = 0; r < n; ++r) {
      double want = bias[static_cast<std::size_t>(r)], magnitude = 1;
      for (std::int64_t j = 0; j < k; ++j) {
        const double product = seen[static_cast<std::size_t>(i * k + j)] *
                               decoded[static_cast<std::size_t>(r * k + j)];
        want += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(y[static_cast<std::size_t>(i * n + r)], want, tolerance * magnitude)
          << codec::TypeName(type) << " " << linear->kernel_name() << " row " << i << " output "
          << r;
    }
  }
}

TEST(Linear, MultipliesWithEveryWeightType) {
  for (const Coding coding :
       {Coding::kF32, Coding::kF16, Coding::kBf16, Coding::kInt8, Coding::kInt4, Coding::kGgufQ4_0,
        Coding::kGgufQ4_1, Coding::kGgufQ8_0}) {
    ExpectProduct({coding, 0}, Compute::kF32, 37, 96, 1e-6);
  }
  for (const Coding coding :
       {Coding::kGgufQ5_0, Coding::kGgufQ5_1, Coding::kGgufQ2_K, Coding::kGgufQ3_K,
        Coding::kGgufQ4_K, Coding::kGgufQ5_K, Coding::kGgufQ6_K}) {
    ExpectProduct({coding, 0}, Compute::kF32, 5, 512, 1e-6);
  }
  for (const int block : {32, 64, 128}) {
    ExpectProduct({Coding::kInt4, block}, Compute::kF32, 21, 256, 1e-6);
    ExpectProduct({Coding::kInt4, block}, Compute::kQ8, 21, 256, 1e-6);
  }
  ExpectProduct({Coding::kInt4, 256}, Compute::kQ8, 21, 512, 1e-6);
  ExpectProduct({Coding::kInt4, 0}, Compute::kQ8, 37, 98, 1e-6);
  ExpectProduct({Coding::kInt8, 0}, Compute::kQ8, 37, 97, 1e-6);
  ExpectProduct({Coding::kGgufQ4_0, 0}, Compute::kQ8, 37, 96, 1e-6);
}

TEST(Linear, RoundsOtherWeightsToInt8ForEightBitCompute) {
  // Half a step of 127 for a row of uniform values.
  for (const Coding coding :
       {Coding::kF32, Coding::kF16, Coding::kBf16, Coding::kGgufQ4_1, Coding::kGgufQ8_0}) {
    ExpectProduct({coding, 0}, Compute::kQ8, 37, 96, 0.02);
  }
  for (const Coding coding : {Coding::kGgufQ5_0, Coding::kGgufQ4_K, Coding::kGgufQ6_K}) {
    ExpectProduct({coding, 0}, Compute::kQ8, 5, 512, 0.02);
  }
}

TEST(Linear, KeepsFloatWidths) {
  ThreadPool pool(1);
  for (const auto& [coding, bytes] :
       {std::pair{Coding::kF32, 4}, {Coding::kF16, 2}, {Coding::kBf16, 2}}) {
    const WeightBuffer w = MakeWeight({coding, 0}, 32, 64, 1);
    auto linear = Linear::Pack(w.view(), Compute::kF32, pool);
    ASSERT_TRUE(linear.ok());
    EXPECT_EQ(linear->packed_bytes(), static_cast<std::uint64_t>(32 * 64 * bytes));
  }
}

TEST(Linear, DoesNotDependOnThreadsOrOnOtherRows) {
  const std::int64_t m = 205, n = 75, k = 128;
  const std::vector<float> x = RandomFloats(m * k, 4), bias = RandomFloats(n, 5);
  for (const auto& [type, compute] : {std::pair{WeightType{Coding::kInt4, 32}, Compute::kQ8},
                                      {WeightType{Coding::kInt8, 0}, Compute::kQ8},
                                      {WeightType{Coding::kF32, 0}, Compute::kF32},
                                      {WeightType{Coding::kF16, 0}, Compute::kF32}}) {
    ThreadPool pool1(1), pool3(3);
    const WeightBuffer w = MakeWeight(type, n, k, 6);
    auto linear = Linear::Pack(w.view(), compute, pool1);
    ASSERT_TRUE(linear.ok()) << linear.message();
    std::vector<float> want(static_cast<std::size_t>(m * n)), got = want;
    PreparedRows rows;
    rows.Prepare(linear->input_kind(), x.data(), m, k, pool1);
    linear->Run(rows, bias.data(), want.data(), pool1);
    PreparedRows rows3;
    rows3.Prepare(linear->input_kind(), x.data(), m, k, pool3);
    linear->Run(rows3, bias.data(), got.data(), pool3);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
    std::fill(got.begin(), got.end(), 0.0f);
    for (std::int64_t i = 0; i < m; ++i) {
      rows.Prepare(linear->input_kind(), x.data() + i * k, 1, k, pool3);
      linear->Run(rows, bias.data(), got.data() + i * n, pool3);
    }
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
        << linear->kernel_name();
  }
}

TEST(Linear, RefusesWhatItCannotCompute) {
  ThreadPool pool(1);
  WeightBuffer w = MakeWeight({Coding::kInt4, 16}, 2, 32, 7);
  auto linear = Linear::Pack(w.view(), Compute::kQ8, pool);
  ASSERT_FALSE(linear.ok());
  EXPECT_EQ(linear.code(), Code::kUnsupported);
  EXPECT_NE(linear.message().find("blocks of 16"), std::string_view::npos) << linear.message();
  w = MakeWeight({Coding::kInt8, 0}, 1, 65537, 8);
  linear = Linear::Pack(w.view(), Compute::kQ8, pool);
  ASSERT_FALSE(linear.ok());
  EXPECT_NE(linear.message().find("65537"), std::string_view::npos) << linear.message();
  w = MakeWeight({Coding::kInt8, 0}, 4, 64, 9);
  w.codes.pop_back();
  EXPECT_FALSE(Linear::Pack(w.view(), Compute::kQ8, pool).ok());
}

TEST(PreparedRows, GrowsAndShrinksWithoutStaleValues) {
  ThreadPool pool(2);
  PreparedRows rows;
  const std::vector<float> x = RandomFloats(40 * 100, 10);
  rows.Prepare(InputKind::kRowQ8, x.data(), 40, 100, pool);
  rows.Prepare(InputKind::kRowQ8, x.data(), 2, 33, pool);
  PreparedRows fresh;
  fresh.Prepare(InputKind::kRowQ8, x.data(), 2, 33, pool);
  ASSERT_EQ(rows.q8_stride(), 64);
  EXPECT_EQ(std::memcmp(rows.q8(), fresh.q8(), 128), 0);
  if (rows.block_offsets() != nullptr) {
    EXPECT_EQ(std::memcmp(rows.block_offsets(), fresh.block_offsets(), 16), 0);
  }
  if (rows.q8_offset() != nullptr) {
    EXPECT_EQ(std::memcmp(rows.q8_offset(), fresh.q8_offset(), 128), 0);
    EXPECT_EQ(rows.q8_offset()[63], 128);
  }
  for (std::int64_t j = 33; j < 64; ++j) EXPECT_EQ(rows.q8()[j], 0);
}

TEST(PreparedRows, NormedEqualsNormAndPrepare) {
  for (const std::int64_t m : {1, 70}) {
    const std::int64_t k = 577;
    const std::vector<float> x = RandomFloats(m * k, 20), weight = RandomFloats(k, 21);
    ThreadPool pool(3);
    std::vector<float> want(x.size()), got = x;
    RmsNorm(x.data(), weight.data(), 1e-5f, m, k, want.data(), pool);
    PreparedRows apart, fused;
    apart.Prepare(InputKind::kRowQ8, want.data(), m, k, pool);
    // In place, as a model without a residual would.
    fused.PrepareNormed(InputKind::kRowQ8, got.data(), weight.data(), 1e-5f, m, k, got.data(),
                        pool);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(fused.q8(), apart.q8(), static_cast<std::size_t>(m * apart.q8_stride())),
              0);
    for (std::int64_t i = 0; i < m; ++i) {
      EXPECT_EQ(fused.scale()[i], apart.scale()[i]);
      EXPECT_EQ(fused.zero_point()[i], apart.zero_point()[i]);
      EXPECT_EQ(fused.row_sum()[i], apart.row_sum()[i]);
    }
    fused.PrepareNormed(InputKind::kPlain, x.data(), weight.data(), 1e-5f, m, k, got.data(), pool);
    EXPECT_EQ(fused.plain(), got.data());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
  }
}

struct Packed {
  Packed(WeightType type, Compute compute, std::int64_t n, std::int64_t k, std::uint32_t seed,
         ThreadPool& pool)
      : linear(*Linear::Pack(MakeWeight(type, n, k, seed).view(), compute, pool)),
        bias(RandomFloats(n, seed + 7)) {}
  Linear linear;
  std::vector<float> bias;
};

TEST(RunLinears, EqualsSingleRunsForAnyMixAndThreads) {
  ThreadPool pool1(1);
  const std::int64_t k = 256;
  std::vector<Packed> packed;
  packed.emplace_back(WeightType{Coding::kInt4, 32}, Compute::kQ8, 333, k, 1u, pool1);
  packed.emplace_back(WeightType{Coding::kInt8, 0}, Compute::kQ8, 1, k, 2u, pool1);
  packed.emplace_back(WeightType{Coding::kF32, 0}, Compute::kF32, 100, k, 3u, pool1);
  packed.emplace_back(WeightType{Coding::kInt4, 128}, Compute::kQ8, 48, k, 4u, pool1);
  for (const std::int64_t m : {1, 5, 40}) {
    const std::vector<float> x = RandomFloats(m * k, 9);
    PreparedRows plain, q8;
    plain.Prepare(InputKind::kPlain, x.data(), m, k, pool1);
    q8.Prepare(InputKind::kRowQ8, x.data(), m, k, pool1);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      std::vector<LinearCall> calls;
      std::vector<std::vector<float>> got, want;
      for (const Packed& p : packed) {
        const auto size = static_cast<std::size_t>(m * p.linear.n());
        want.emplace_back(size, 5.0f);
        got.emplace_back(size, 6.0f);
      }
      for (std::size_t i = 0; i < packed.size(); ++i) {
        const Linear& linear = packed[i].linear;
        const PreparedRows& rows = linear.input_kind() == InputKind::kPlain ? plain : q8;
        const float* bias = i == 1 ? nullptr : packed[i].bias.data();
        linear.Run(rows, bias, want[i].data(), pool1);
        calls.push_back({&linear, &rows, bias, got[i].data()});
      }
      RunLinears(calls, pool);
      for (std::size_t i = 0; i < packed.size(); ++i) {
        EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), got[i].size() * sizeof(float)), 0)
            << packed[i].linear.kernel_name() << " m " << m << " threads " << threads;
      }
    }
  }
}

TEST(RunGated, EqualsTwoRunsAndTheActivation) {
  ThreadPool pool1(1);
  const std::int64_t k = 128, n = 700;
  const Packed gate({Coding::kInt4, 32}, Compute::kQ8, n, k, 1, pool1);
  const Packed up({Coding::kInt8, 0}, Compute::kQ8, n, k, 2, pool1);
  for (const std::int64_t m : {1, 3, 300}) {
    const std::vector<float> x = RandomFloats(m * k, 9);
    PreparedRows rows;
    rows.Prepare(InputKind::kRowQ8, x.data(), m, k, pool1);
    const auto size = static_cast<std::size_t>(m * n);
    std::vector<float> gates(size), ups(size);
    gate.linear.Run(rows, gate.bias.data(), gates.data(), pool1);
    up.linear.Run(rows, nullptr, ups.data(), pool1);
    for (const GateActivation activation :
         {GateActivation::kSilu, GateActivation::kGeluTanh, GateActivation::kGelu}) {
      const auto mul = activation == GateActivation::kSilu       ? SiluMul
                       : activation == GateActivation::kGeluTanh ? GeluTanhMul
                                                                 : GeluErfMul;
      std::vector<float> want(size);
      mul(gates.data(), ups.data(), m * n, want.data(), pool1);
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        std::vector<float> y(size), scratch(size);
        RunGated({&gate.linear, &rows, gate.bias.data(), y.data()},
                 {&up.linear, &rows, nullptr, scratch.data()}, activation, pool);
        EXPECT_EQ(std::memcmp(y.data(), want.data(), size * sizeof(float)), 0)
            << "m " << m << " threads " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace hone::kernels
