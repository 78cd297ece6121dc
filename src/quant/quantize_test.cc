// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/float16.h"

namespace hone::quant {
namespace {

using codec::Coding;

constexpr Scheme kInt8MinMax{{Coding::kInt8, 0}, Algorithm::kMinMax};
constexpr Scheme kInt4Octav{{Coding::kInt4, 32}, Algorithm::kOctav};
constexpr Scheme kInt4MinMax{{Coding::kInt4, 32}, Algorithm::kMinMax};

struct Matrix {
  std::int64_t rows;
  std::int64_t cols;
  std::vector<float> values;
  model::Weight weight() const {
    model::Weight w;
    w.name = "layers.0.test.weight";
    w.view = {{Coding::kF32, 0},
              rows,
              cols,
              ByteSpan(reinterpret_cast<const std::byte*>(values.data()), values.size() * 4),
              {}};
    return w;
  }
};

// Roughly normal with a given deviation, a heavier tail in some columns, and repeatable.
Matrix RandomMatrix(std::int64_t rows, std::int64_t cols, float deviation, std::uint32_t seed) {
  Matrix m{rows, cols, {}};
  std::uint32_t state = seed;
  const auto uniform = [&] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8) / 16777216.0f;
  };
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    float sum = -6.0f;
    for (int k = 0; k < 12; ++k) sum += uniform();
    m.values.push_back(deviation * sum * (i % 61 == 0 ? 6.0f : 1.0f));
  }
  return m;
}

codec::WeightBuffer Quantize(const Matrix& m, const Scheme& scheme, int threads = 1) {
  ThreadPool pool(threads);
  auto result = QuantizeWeight(m.weight(), scheme, pool);
  EXPECT_TRUE(result.ok()) << result.message();
  return *std::move(result);
}

std::vector<float> Decode(const codec::WeightBuffer& buffer) {
  std::vector<float> out(static_cast<std::size_t>(buffer.rows * buffer.cols));
  codec::DecodeRows(buffer.view(), 0, buffer.rows, out.data());
  return out;
}

double SquaredError(const Matrix& m, const codec::WeightBuffer& buffer) {
  const std::vector<float> decoded = Decode(buffer);
  double sum = 0;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    sum += std::pow(static_cast<double>(decoded[i]) - static_cast<double>(m.values[i]), 2);
  }
  return sum;
}

// The published iteration over all blocks of a tensor at once, in double, with its early stop when
// no block moves by more than np.allclose allows.
std::vector<double> ReferenceOctavClips(const std::vector<float>& x, std::size_t block, int bits) {
  const double rounding = std::pow(4.0, -bits) / 3.0;
  std::vector<double> clips(x.size() / block, 1.0);
  for (int step = 0; step < 10; ++step) {
    bool close = true;
    for (std::size_t b = 0; b < clips.size(); ++b) {
      double sum = 0;
      double count = 0;
      for (std::size_t i = b * block; i < (b + 1) * block; ++i) {
        const double v = std::fabs(static_cast<double>(x[i]));
        if (v < clips[b]) continue;
        sum += v;
        count += 1;
      }
      const double next = sum / (rounding * static_cast<double>(block) + (1 - rounding) * count);
      close = close && std::fabs(clips[b] - next) <= 1e-8 + 1e-5 * std::fabs(next);
      clips[b] = next;
    }
    if (close) break;
  }
  return clips;
}

float RoundAsStored(double scale) {
  const float bf16 = Bf16ToFloat(FloatToBf16(static_cast<float>(scale)));
  return std::max(0x1p-14f, Fp16ToFloat(FloatToFp16(bf16)));
}

TEST(Scheme, HasAName) {
  EXPECT_EQ(SchemeName(Scheme{}), "f32");
  EXPECT_EQ(SchemeName(kInt8MinMax), "int8 min-max");
  EXPECT_EQ(SchemeName(kInt4Octav), "int4_block32 octav");
}

TEST(ChooseScales, MinMaxOfAChannelIsTheMaximumOver127) {
  const std::vector<float> row = {0.5f, -2.54f, 1.0f};
  EXPECT_EQ(ChooseScales(kInt8MinMax, row), std::vector<float>{2.54f / 127.0f});
}

TEST(ChooseScales, BlockScalesAreRoundedToBf16) {
  std::vector<float> row(64, 0.25f);
  row[7] = -1.0f;
  // 1/7 and 0.25/7 rounded to 8 bits of mantissa.
  EXPECT_EQ(ChooseScales(kInt4MinMax, row), (std::vector<float>{0.142578125f, 0.03564453125f}));
}

TEST(ChooseScales, AreNormalEvenForZeroAndTinyAndHugeBlocks) {
  std::vector<float> row(128, 0.0f);
  std::fill(row.begin() + 32, row.begin() + 64, 1e-7f);
  std::fill(row.begin() + 64, row.begin() + 96, 1e30f);
  std::fill(row.begin() + 96, row.end(), 0.0001f);
  for (const Scheme& scheme : {kInt4MinMax, kInt4Octav}) {
    EXPECT_EQ(ChooseScales(scheme, row),
              (std::vector<float>{0x1p-14f, 0x1p-14f, 65280.0f, 0x1p-14f}));
  }
  const std::vector<float> zeros(16, 0.0f);
  for (Algorithm algorithm : {Algorithm::kMinMax, Algorithm::kOctav}) {
    const float scale = ChooseScales({{Coding::kInt8, 0}, algorithm}, zeros)[0];
    EXPECT_TRUE(std::isnormal(scale));
    EXPECT_EQ(scale, 1e-9f / 127.0f);
  }
}

TEST(ChooseScales, OctavAgreesWithTheWholeTensorIteration) {
  for (std::size_t block : {32U, 64U, 128U}) {
    const Matrix m = RandomMatrix(64, 512, 0.02f, static_cast<std::uint32_t>(block));
    const std::vector<double> clips = ReferenceOctavClips(m.values, block, 4);
    std::size_t equal = 0;
    for (std::size_t b = 0; b < clips.size(); ++b) {
      const std::span<const float> x = std::span(m.values).subspan(b * block, block);
      double max = 0;
      for (float v : x) max = std::max(max, std::fabs(static_cast<double>(v)));
      const float want = RoundAsStored(std::min(max, clips[b]) / 7.0);
      const float got =
          ChooseScales({{Coding::kInt4, static_cast<int>(block)}, Algorithm::kOctav}, x)[0];
      equal += want == got ? 1 : 0;
      ASSERT_NEAR(got, want, want / 128) << "block " << b;  // at most the neighbouring bf16
    }
    // A different order of the sums can move a scale across a rounding border: rare.
    EXPECT_GE(equal + 1, clips.size()) << "blocks of " << block;
  }
}

TEST(ChooseScales, OctavRecoversFromTheFirstStepWithLargeAndSmallWeights) {
  for (float deviation : {1e-3f, 0.5f, 30.0f}) {
    const Matrix m = RandomMatrix(1, 128, deviation, 9);
    const float scale = ChooseScales({{Coding::kInt4, 128}, Algorithm::kOctav}, m.values)[0];
    EXPECT_GT(7.0f * scale, 1.5f * deviation);
    EXPECT_LT(7.0f * scale, 5.0f * deviation);
  }
}

TEST(QuantizeWeight, EncodesWithTheStoredScales) {
  const Matrix m = RandomMatrix(8, 96, 0.02f, 1);
  const codec::WeightBuffer buffer = Quantize(m, kInt4Octav);
  ASSERT_TRUE(codec::CheckView(buffer.view()).ok());
  const std::vector<float> decoded = Decode(buffer);
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, buffer.scales.data() + i / 32 * 2, 2);
    const float scale = Fp16ToFloat(half);
    const float code = std::clamp(std::nearbyint(m.values[i] / scale), -7.0f, 7.0f);
    ASSERT_EQ(decoded[i], code * scale) << i;
  }
}

TEST(QuantizeWeight, Int8IsWithinHalfAScaleOfEveryRow) {
  const Matrix m = RandomMatrix(7, 33, 0.05f, 2);
  const codec::WeightBuffer buffer = Quantize(m, kInt8MinMax);
  const std::vector<float> decoded = Decode(buffer);
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    float scale = 0;
    std::memcpy(&scale, buffer.scales.data() + i / 33 * 4, 4);
    ASSERT_NEAR(decoded[i], m.values[i], 0.50001f * scale) << i;
  }
}

TEST(QuantizeWeight, OctavHasLessErrorThanMinMax) {
  const Matrix m = RandomMatrix(32, 512, 0.02f, 3);
  for (int block : {0, 32, 64, 128, 256}) {
    const double min_max =
        SquaredError(m, Quantize(m, {{Coding::kInt4, block}, Algorithm::kMinMax}));
    const double octav = SquaredError(m, Quantize(m, {{Coding::kInt4, block}, Algorithm::kOctav}));
    EXPECT_LT(octav, min_max) << block;
  }
}

TEST(QuantizeWeight, GivesTheSameBytesForEveryThreadCount) {
  const Matrix m = RandomMatrix(301, 256, 0.02f, 4);
  for (const Scheme& scheme : {kInt4Octav, kInt8MinMax, Scheme{}}) {
    const codec::WeightBuffer one = Quantize(m, scheme, 1);
    for (int threads : {2, 3, 5}) {
      const codec::WeightBuffer many = Quantize(m, scheme, threads);
      EXPECT_TRUE(many.codes == one.codes && many.scales == one.scales) << threads;
    }
  }
}

TEST(QuantizeWeight, ARowDoesNotDependOnItsNeighbours) {
  const Matrix m = RandomMatrix(16, 128, 0.02f, 6);
  const codec::WeightBuffer all = Quantize(m, kInt4Octav);
  for (std::size_t r = 0; r < 16; ++r) {
    Matrix one{1,
               128,
               {m.values.begin() + static_cast<std::ptrdiff_t>(r * 128),
                m.values.begin() + static_cast<std::ptrdiff_t>((r + 1) * 128)}};
    const codec::WeightBuffer alone = Quantize(one, kInt4Octav);
    EXPECT_TRUE(std::equal(alone.codes.begin(), alone.codes.end(),
                           all.codes.begin() + static_cast<std::ptrdiff_t>(r * 64)));
    EXPECT_TRUE(std::equal(alone.scales.begin(), alone.scales.end(),
                           all.scales.begin() + static_cast<std::ptrdiff_t>(r * 8)));
  }
}

TEST(QuantizeRows, PartsMakeTheWhole) {
  const Matrix m = RandomMatrix(23, 96, 0.05f, 3);
  ThreadPool pool(2);
  for (const Scheme& scheme : {kInt8MinMax, kInt4Octav, Scheme{}}) {
    const codec::WeightBuffer whole = Quantize(m, scheme);
    codec::WeightBuffer joined;
    for (std::int64_t begin = 0; begin < m.rows; begin += 7) {
      auto part =
          QuantizeRows(m.weight(), scheme, begin, std::min<std::int64_t>(7, m.rows - begin), pool);
      ASSERT_TRUE(part.ok()) << part.message();
      joined.codes.insert(joined.codes.end(), part->codes.begin(), part->codes.end());
      joined.scales.insert(joined.scales.end(), part->scales.begin(), part->scales.end());
    }
    EXPECT_EQ(joined.codes, whole.codes);
    EXPECT_EQ(joined.scales, whole.scales);
  }
}

TEST(QuantizeWeight, KeepsFloat32AsItIs) {
  const Matrix m = RandomMatrix(5, 7, 1.0f, 7);
  EXPECT_EQ(Decode(Quantize(m, Scheme{})), m.values);
}

TEST(QuantizeWeight, AllZeroMatrixBecomesZeroCodes) {
  const Matrix m{4, 64, std::vector<float>(256, 0.0f)};
  for (const Scheme& scheme : {kInt4Octav, kInt4MinMax, kInt8MinMax}) {
    const codec::WeightBuffer buffer = Quantize(m, scheme);
    EXPECT_EQ(Decode(buffer), m.values);
    EXPECT_TRUE(std::all_of(buffer.codes.begin(), buffer.codes.end(),
                            [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(QuantizeWeight, NamesTensorCountAndFirstIndexOfNonFiniteValues) {
  Matrix m = RandomMatrix(200, 512, 1.0f, 8);
  m.values[512 * 150 + 3] = std::numeric_limits<float>::infinity();
  m.values[512 * 20 + 5] = std::numeric_limits<float>::quiet_NaN();
  ThreadPool pool(3);
  for (const Scheme& scheme : {kInt4Octav, Scheme{}}) {
    auto result = QuantizeWeight(m.weight(), scheme, pool);
    ASSERT_EQ(result.code(), Code::kDataLoss);
    const std::string message(result.message());
    EXPECT_NE(message.find("layers.0.test.weight: 2 values"), std::string::npos) << message;
    EXPECT_NE(message.find("index 10245 (row 20, column 5)"), std::string::npos) << message;
  }
}

TEST(QuantizeWeight, AllowNonFiniteKeepsTheRestOfTheRow) {
  Matrix m{1, 32, std::vector<float>(32, 0.5f)};
  m.values[0] = std::numeric_limits<float>::quiet_NaN();
  m.values[1] = -std::numeric_limits<float>::infinity();
  m.values[2] = 1.0f;
  ThreadPool pool(1);
  auto result = QuantizeWeight(m.weight(), kInt8MinMax, pool, true);
  ASSERT_TRUE(result.ok());
  const std::vector<float> decoded = Decode(*result);
  EXPECT_EQ(decoded[0], 0.0f);
  EXPECT_NEAR(decoded[1], -1.0f, 1e-6f);
  EXPECT_NEAR(decoded[2], 1.0f, 1e-6f);
  EXPECT_NEAR(decoded[3], 0.5f, 0.004f);
}

TEST(QuantizeWeight, RefusesBlocksThatNoScaleCanReach) {
  Matrix m = RandomMatrix(4, 64, 1.0f, 11);
  m.values[2 * 64 + 40] = 1e6f;  // fp16 ends at 65504, a code at 7
  ThreadPool pool(2);
  auto min_max = QuantizeWeight(m.weight(), {{Coding::kInt4, 32}, Algorithm::kMinMax}, pool);
  ASSERT_EQ(min_max.code(), Code::kDataLoss);
  EXPECT_NE(min_max.message().find("row 2, column 32"), std::string_view::npos)
      << min_max.message();
  m.values[2 * 64 + 40] = 4e5f;
  EXPECT_TRUE(QuantizeWeight(m.weight(), {{Coding::kInt4, 32}, Algorithm::kMinMax}, pool).ok());
}

TEST(QuantizeWeight, RefusesABlockThatDoesNotDivideAndUnknownTypes) {
  const Matrix m = RandomMatrix(2, 48, 1.0f, 9);
  ThreadPool pool(1);
  auto result = QuantizeWeight(m.weight(), kInt4Octav, pool);
  ASSERT_EQ(result.code(), Code::kUnsupported);
  EXPECT_NE(result.message().find("layers.0.test.weight"), std::string_view::npos);
  EXPECT_EQ(QuantizeWeight(m.weight(), {{Coding::kGgufQ4_0, 0}, Algorithm::kMinMax}, pool).code(),
            Code::kUnsupported);
  EXPECT_EQ(QuantizeWeight(m.weight(), {{Coding::kBf16, 0}, Algorithm::kMinMax}, pool).code(),
            Code::kUnsupported);
}

}  // namespace
}  // namespace hone::quant
