// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/float16.h"

namespace hone::codec {
namespace {

std::vector<std::byte> Bytes(const std::vector<int>& values) {
  std::vector<std::byte> out;
  for (int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

template <typename T>
std::vector<std::byte> Raw(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::vector<float> Decode(const WeightView& view, std::int64_t begin, std::int64_t rows) {
  std::vector<float> out(static_cast<std::size_t>(rows * view.cols));
  DecodeRows(view, begin, rows, out.data());
  return out;
}

// A repeatable pseudo-random value in [-1, 1).
float Noise(std::uint32_t& state) {
  state = state * 1664525U + 1013904223U;
  return static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
}

TEST(WeightType, HasAName) {
  EXPECT_EQ(TypeName({Coding::kF32, 0}), "f32");
  EXPECT_EQ(TypeName({Coding::kInt4, 32}), "int4_block32");
  EXPECT_EQ(TypeName({Coding::kInt4, 0}), "int4");
  EXPECT_EQ(TypeName({Coding::kGgufQ4_1, 0}), "q4_1");
}

TEST(WeightType, FactsFollowTheOrderOfTheEnum) {
  EXPECT_STREQ(Facts(Coding::kF16).name, "f16");
  EXPECT_STREQ(Facts(Coding::kBf16).name, "bf16");
  EXPECT_STREQ(Facts(Coding::kInt8).name, "int8");
  EXPECT_STREQ(Facts(Coding::kGgufQ4_0).name, "q4_0");
  EXPECT_STREQ(Facts(Coding::kGgufQ8_0).name, "q8_0");
  EXPECT_EQ(Facts(Coding::kGgufQ4_1).minimum_at, 2);
  EXPECT_STREQ(Facts(Coding::kGgufQ6_K).name, "q6_k");
  EXPECT_EQ(Facts(Coding::kGgufQ4_0).minimum_at, -1);
  EXPECT_TRUE(Facts(Coding::kBf16).is_float);
}

TEST(WeightSizes, MatchTheLayouts) {
  EXPECT_EQ(CodesBytes({Coding::kF32, 0}, 3, 5), 60U);
  EXPECT_EQ(CodesBytes({Coding::kBf16, 0}, 3, 5), 30U);
  EXPECT_EQ(CodesBytes({Coding::kInt8, 0}, 3, 5), 15U);
  EXPECT_EQ(CodesBytes({Coding::kInt4, 0}, 3, 6), 9U);
  EXPECT_EQ(CodesBytes({Coding::kInt4, 32}, 3, 64), 96U);
  EXPECT_EQ(CodesBytes({Coding::kGgufQ4_0, 0}, 2, 64), 72U);
  EXPECT_EQ(CodesBytes({Coding::kGgufQ4_1, 0}, 2, 64), 80U);
  EXPECT_EQ(CodesBytes({Coding::kGgufQ8_0, 0}, 2, 64), 136U);
  EXPECT_EQ(ScalesBytes({Coding::kInt8, 0}, 3, 5), 12U);
  EXPECT_EQ(ScalesBytes({Coding::kInt4, 32}, 3, 64), 12U);
  EXPECT_EQ(ScalesBytes({Coding::kF16, 0}, 3, 5), 0U);
  EXPECT_EQ(ScalesBytes({Coding::kGgufQ8_0, 0}, 3, 64), 0U);
}

TEST(WeightShape, RefusesWhatTheTypeCannotHold) {
  EXPECT_TRUE(CheckShape({Coding::kInt8, 0}, 3, 5).ok());
  EXPECT_TRUE(CheckShape({Coding::kInt4, 0}, 3, 6).ok());
  EXPECT_TRUE(CheckShape({Coding::kInt4, 128}, 1, 256).ok());
  EXPECT_EQ(CheckShape({Coding::kInt4, 0}, 3, 5).code(), Code::kUnsupported);
  EXPECT_EQ(CheckShape({Coding::kInt4, 32}, 3, 48).code(), Code::kUnsupported);
  EXPECT_EQ(CheckShape({Coding::kInt4, 16}, 3, 48).code(), Code::kUnsupported);
  EXPECT_EQ(CheckShape({Coding::kInt4, -32}, 3, 64).code(), Code::kUnsupported);
  EXPECT_EQ(CheckShape({Coding::kInt8, 32}, 3, 64).code(), Code::kUnsupported);
  EXPECT_EQ(CheckShape({Coding::kGgufQ4_0, 0}, 3, 48).code(), Code::kUnsupported);
  EXPECT_EQ(CheckShape({Coding::kF32, 0}, 0, 4).code(), Code::kUnsupported);
  EXPECT_EQ(CheckShape({Coding::kF32, 0}, 4, -1).code(), Code::kUnsupported);
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_EQ(CheckShape({Coding::kF32, 0}, huge, huge).code(), Code::kUnsupported);
  EXPECT_EQ(CheckShape({Coding::kGgufQ4_1, 0}, huge, huge).code(), Code::kUnsupported);
}

TEST(WeightView, RefusesWrongByteCountsAndScales) {
  const auto codes = Bytes({1, 2, 3, 4});
  const auto scales = Raw<float>({1.0f, 2.0f});
  const WeightType type{Coding::kInt8, 0};
  EXPECT_TRUE(CheckView({type, 2, 2, codes, scales}).ok());
  EXPECT_EQ(CheckView({type, 2, 3, codes, scales}).code(), Code::kDataLoss);
  EXPECT_EQ(CheckView({type, 4, 1, codes, scales}).code(), Code::kDataLoss);
  const auto bad = Raw<float>({1.0f, std::numeric_limits<float>::infinity()});
  const Status status = CheckView({type, 2, 2, codes, bad});
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("scale 1"), std::string::npos);
  const auto nibbles = std::vector<std::byte>(16);
  EXPECT_TRUE(CheckView({{Coding::kInt4, 32}, 1, 32, nibbles, Raw<std::uint16_t>({0x3c00})}).ok());
  EXPECT_FALSE(CheckView({{Coding::kInt4, 32}, 1, 32, nibbles, Raw<std::uint16_t>({0x7e00})}).ok());
}

TEST(WeightView, RefusesScalesWhoseValuesOverflow) {
  const std::vector<std::byte> codes(2);
  const auto check = [&](Coding coding, float scale) {
    return CheckView({{coding, 0}, 1, 2, codes, Raw<float>({scale})});
  };
  EXPECT_TRUE(check(Coding::kInt8, 2e36f).ok());
  EXPECT_TRUE(check(Coding::kF8E4M3, 7e35f).ok());
  EXPECT_EQ(check(Coding::kInt8, -3e38f).code(), Code::kDataLoss);
  const Status status = check(Coding::kF8E4M3, 3e38f);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("scale 0"), std::string_view::npos) << status.message();
}

TEST(DecodeRows, ReadsFloatsAtAnyAlignment) {
  std::vector<std::byte> memory(1 + 6 * 4);
  const std::vector<float> values = {0.0f, -1.5f, 3.25f, 1e-30f, 65504.0f, -2.0f};
  std::memcpy(memory.data() + 1, values.data(), 24);
  const ByteSpan unaligned = ByteSpan(memory).subspan(1);
  EXPECT_EQ(Decode({{Coding::kF32, 0}, 2, 3, unaligned, {}}, 0, 2), values);
  EXPECT_EQ(Decode({{Coding::kF32, 0}, 2, 3, unaligned, {}}, 1, 1),
            std::vector<float>(values.begin() + 3, values.end()));
}

TEST(DecodeRows, ReadsHalves) {
  const auto f16 = Raw<std::uint16_t>({0x3c00, 0xc000, 0x0001, 0x7bff});
  EXPECT_EQ(Decode({{Coding::kF16, 0}, 1, 4, f16, {}}, 0, 1),
            (std::vector<float>{1.0f, -2.0f, 0x1p-24f, 65504.0f}));
  const auto bf16 = Raw<std::uint16_t>({0x3f80, 0xc000, 0x0001, 0x42f7});
  EXPECT_EQ(Decode({{Coding::kBf16, 0}, 2, 2, bf16, {}}, 0, 2),
            (std::vector<float>{1.0f, -2.0f, 0x1p-133f, 123.5f}));
}

TEST(DecodeRows, ReadsInt8WithTheScaleOfEachRow) {
  const auto codes = Bytes({0x7f, 0x80, 0xff, 1, 2, 3});
  const auto scales = Raw<float>({0.5f, 0.1f});
  EXPECT_EQ(Decode({{Coding::kInt8, 0}, 2, 3, codes, scales}, 0, 2),
            (std::vector<float>{63.5f, -64.0f, -0.5f, 0.1f, 0.1f * 2, 0.1f * 3}));
}

TEST(DecodeRows, ReadsInt4LowNibbleFirstAndMinusEight) {
  const auto codes = Bytes({0x80, 0x7f, 0x21});
  EXPECT_EQ(Decode({{Coding::kInt4, 0}, 1, 6, codes, Raw<float>({0.5f})}, 0, 1),
            (std::vector<float>{0.0f, -4.0f, -0.5f, 3.5f, 0.5f, 1.0f}));
}

TEST(DecodeRows, ReadsInt4BlocksWithTheirOwnScale) {
  std::vector<std::byte> codes(2 * 32, std::byte{0x21});
  const auto scales = Raw<std::uint16_t>({0x3c00, 0x4000, 0x3800, 0x4400});  // 1, 2, 0.5, 4
  const auto out = Decode({{Coding::kInt4, 32}, 2, 64, codes, scales}, 0, 2);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[31], 2.0f);
  EXPECT_EQ(out[32], 2.0f);
  EXPECT_EQ(out[64], 0.5f);
  EXPECT_EQ(out[127], 8.0f);
}

// The bytes are random; the values are what the Python package gguf makes of them.
TEST(DecodeRows, ReadsGgufQ40AsTheReferenceDoes) {
  const auto codes = Bytes({0x8b, 0x2b, 0xe5, 0xf1, 0xa9, 0x41, 0x06, 0xa0, 0x95, 0x6a, 0x26, 0xaf,
                            0xbc, 0xcd, 0xaf, 0xe5, 0x62, 0xf9});
  const std::vector<float> want = {
      -0x1.6a1p-3f, -0x1.a668p-2f, 0x1.e2cp-5f,  -0x1.a668p-2f, -0x1.e2cp-4f, -0x1.e2cp-2f,
      -0x1.6a1p-3f, 0x1.e2cp-4f,   -0x1.e2cp-4f, 0x1.a668p-2f,  0x1.e2cp-3f,  0x1.2db8p-2f,
      0x1.a668p-2f, -0x1.6a1p-3f,  -0x1.6a1p-2f, 0x1.e2cp-5f,   0x1.6a1p-2f,  0x1.a668p-2f,
      0x1.e2cp-4f,  -0x1.e2cp-3f,  -0x1.e2cp-2f, 0x1.e2cp-4f,   0x1.e2cp-5f,  -0x1.e2cp-4f,
      -0x1.6a1p-2f, 0x1.e2cp-4f,   0x1.6a1p-3f,  0x1.e2cp-3f,   0x1.e2cp-4f,  0x1.6a1p-2f,
      -0x1.e2cp-4f, 0x1.a668p-2f};
  EXPECT_EQ(Decode({{Coding::kGgufQ4_0, 0}, 1, 32, codes, {}}, 0, 1), want);
}

TEST(DecodeRows, ReadsGgufQ41AsTheReferenceDoes) {
  const auto codes = Bytes({0x5f, 0x2b, 0x93, 0xb1, 0x42, 0x27, 0x6a, 0xd5, 0xab, 0x2d,
                            0xa7, 0x39, 0x45, 0x51, 0x37, 0x0e, 0x99, 0xb2, 0xd7, 0x4c});
  const std::vector<float> want = {
      -0x1.e38p-5f, 0x1.d4dp-3f,  0x1.9b5p-2f,  0x1.d1ep-4f,  0x1.d648p-2f, 0x1.261cp-1f,
      0x1.d4dp-3f,  0x1.6058p-2f, 0x1.d1ep-4f,  -0x1.ddap-4f, 0x1.d4dp-3f,  0x1.4398p-1f,
      0x1.6058p-2f, -0x1.e38p-5f, 0x1.d4dp-3f,  0x1.08ap-1f,  0x1.ccp-5f,   -0x1.e38p-5f,
      0x1.5eep-3f,  0x1.261cp-1f, 0x1.9b5p-2f,  -0x1.e38p-5f, 0x1.9b5p-2f,  -0x1.78p-10f,
      0x1.ccp-5f,   0x1.d1ep-4f,  -0x1.78p-10f, -0x1.64cp-3f, 0x1.6058p-2f, 0x1.d648p-2f,
      0x1.261cp-1f, 0x1.ccp-5f};
  EXPECT_EQ(Decode({{Coding::kGgufQ4_1, 0}, 1, 32, codes, {}}, 0, 1), want);
}

TEST(DecodeRows, ReadsGgufQ80AsTheReferenceDoes) {
  const auto codes = Bytes({0x34, 0x24, 0xfa, 0x48, 0xd7, 0x32, 0xa1, 0xdf, 0x70, 0xac, 0xa1, 0xe9,
                            0x26, 0x11, 0x59, 0x01, 0xdd, 0x06, 0xf2, 0x7f, 0x8f, 0x06, 0x3c, 0xd2,
                            0x5e, 0x19, 0xa6, 0x21, 0xf9, 0xbd, 0x0c, 0xcc, 0x21, 0x39});
  const std::vector<float> want = {
      -0x1.938p-4f,  0x1.2eap+0f,  -0x1.58a8p-1f, 0x1.a45p-1f,   -0x1.8f4cp+0f, -0x1.1568p-1f,
      0x1.d6cp+0f,   -0x1.611p+0f, -0x1.8f4cp+0f, -0x1.82bp-2f,  0x1.3f7p-1f,   0x1.1ddp-2f,
      0x1.7614p+0f,  0x1.0dp-6f,   -0x1.2638p-1f, 0x1.938p-4f,   -0x1.d6cp-3f,  0x1.0ae6p+1f,
      -0x1.daf4p+0f, 0x1.938p-4f,  0x1.f86p-1f,   -0x1.82bp-1f,  0x1.8b18p+0f,  0x1.a45p-2f,
      -0x1.7a48p+0f, 0x1.1568p-1f, -0x1.d6cp-4f,  -0x1.199cp+0f, 0x1.938p-3f,   -0x1.b52p-1f,
      0x1.1568p-1f,  0x1.df28p-1f};
  EXPECT_EQ(Decode({{Coding::kGgufQ8_0, 0}, 1, 32, codes, {}}, 0, 1), want);
}

TEST(DecodeRows, ReadsTheSecondRowOfGgufBlocks) {
  std::vector<std::byte> codes(2 * 2 * 34);
  const std::uint16_t one = 0x3c00;
  for (std::size_t g = 0; g < 4; ++g) {
    std::memcpy(codes.data() + g * 34, &one, 2);
    codes[g * 34 + 2] = static_cast<std::byte>(g + 1);
  }
  const auto out = Decode({{Coding::kGgufQ8_0, 0}, 2, 64, codes, {}}, 1, 1);
  EXPECT_EQ(out[0], 3.0f);
  EXPECT_EQ(out[32], 4.0f);
}

TEST(DecodeRows, ReadsEightBitFloatsWithAScaleForEachRow) {
  // 1, -1, 448 (the largest), 2^-9 (the smallest), 0, 1.125 of row 0 and the same of row 1.
  const auto codes =
      Bytes({0x38, 0xb8, 0x7e, 0x01, 0x00, 0x39, 0x38, 0xb8, 0x7e, 0x01, 0x00, 0x39});
  const auto scales = Raw<float>({2.0f, 0.5f});
  const WeightView view{{Coding::kF8E4M3, 0}, 2, 6, codes, scales};
  ASSERT_TRUE(CheckView(view).ok());
  EXPECT_EQ(Decode(view, 0, 2), (std::vector<float>{2, -2, 896, 0x1p-8f, 0, 2.25f, 0.5f, -0.5f, 224,
                                                    0x1p-10f, 0, 0.5625f}));
}

TEST(DecodeRows, ReadsEightBitFloatsWithAScaleForEachSquare) {
  const std::vector<std::byte> codes(33 * 40, std::byte{0x38});  // ones
  const auto scales = Raw<float>({1, 2, 3, 4});                  // squares of 32, cut at the edges
  const WeightView view{{Coding::kF8E4M3, 32}, 33, 40, codes, scales};
  ASSERT_TRUE(CheckView(view).ok());
  const auto out = Decode(view, 31, 2);
  EXPECT_EQ(out[31], 1.0f);
  EXPECT_EQ(out[32], 2.0f);
  EXPECT_EQ(out[40], 3.0f);
  EXPECT_EQ(out[79], 4.0f);
  WeightView cut = view;
  cut.scales = cut.scales.first(12);
  EXPECT_FALSE(CheckView(cut).ok());
}

TEST(Float16, EveryEightBitFloatIsItsFormula) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15, mantissa = code & 7;
    const float value = Fp8E4M3ToFloat(static_cast<std::uint8_t>(code));
    if ((code & 127) == 127) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const double want =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    EXPECT_EQ(value, static_cast<float>(code < 128 ? want : -want)) << code;
  }
}

TEST(EncodeRowInt, RoundsHalfToEvenAndClamps) {
  const std::vector<float> x = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0.49f, 1e30f, -1e30f};
  const std::vector<float> one = {1.0f};
  std::vector<std::byte> codes(8);
  EncodeRowInt({Coding::kInt8, 0}, x, one, codes.data());
  EXPECT_EQ(codes, Bytes({0, 2, 2, 0, 0xfe, 0, 127, 0x81}));
  std::vector<std::byte> nibbles(4);
  EncodeRowInt({Coding::kInt4, 0}, x, one, nibbles.data());
  EXPECT_EQ(nibbles, Bytes({0x20, 0x02, 0x0e, 0x97}));
}

TEST(EncodeRowInt, EqualsTheFormulaOnManyValues) {
  std::uint32_t seed = 5;
  std::vector<float> x(4096);
  for (float& v : x) v = 3.0f * Noise(seed);
  for (float scale : {0.011f, 0.023622047f, 0.3f}) {
    std::vector<std::byte> codes(x.size());
    EncodeRowInt({Coding::kInt8, 0}, x, std::vector<float>{scale}, codes.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float want = std::min(127.0f, std::max(-127.0f, std::nearbyint(x[i] / scale)));
      ASSERT_EQ(std::to_integer<std::int8_t>(codes[i]), static_cast<int>(want)) << i;
    }
  }
}

TEST(EncodeRowInt, RoundTripsEveryCode) {
  std::vector<float> x;
  for (int code = -127; code <= 127; ++code) x.push_back(0.0123f * static_cast<float>(code));
  WeightBuffer buffer{
      {Coding::kInt8, 0}, 1, 255, std::vector<std::byte>(255), Raw<float>({0.0123f})};
  EncodeRowInt(buffer.type, x, std::vector<float>{0.0123f}, buffer.codes.data());
  ASSERT_TRUE(CheckView(buffer.view()).ok());
  EXPECT_EQ(Decode(buffer.view(), 0, 1), x);
}

TEST(EncodeRowInt, RoundTripsInt4BlocksWithinHalfAScale) {
  std::uint32_t seed = 3;
  for (int block : {32, 64, 128}) {
    std::vector<float> x(256), scales;
    std::vector<std::uint16_t> stored;
    for (float& v : x) v = 0.7f * Noise(seed);
    for (int b = 0; b < 256 / block; ++b) {
      stored.push_back(FloatToFp16(0.1f + 0.01f * static_cast<float>(b)));
      scales.push_back(Fp16ToFloat(stored.back()));
    }
    WeightBuffer buffer{{Coding::kInt4, block}, 1, 256, std::vector<std::byte>(128), Raw(stored)};
    EncodeRowInt(buffer.type, x, scales, buffer.codes.data());
    ASSERT_TRUE(CheckView(buffer.view()).ok());
    const auto out = Decode(buffer.view(), 0, 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float scale = scales[i / static_cast<std::size_t>(block)];
      ASSERT_NEAR(out[i], x[i], 0.5001f * scale) << block << " " << i;
    }
  }
}

}  // namespace
}  // namespace hone::codec
