// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/gguf_blocks.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

namespace hone::codec {
namespace {

constexpr int kSuperBlock = 256;

float LoadHalf(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return Fp16ToFloat(bits);
}

unsigned Byte(const std::byte* p, int i) { return std::to_integer<unsigned>(p[i]); }
int LowNibble(const std::byte* p, int i) { return static_cast<int>(Byte(p, i) & 15U); }
int HighNibble(const std::byte* p, int i) { return static_cast<int>(Byte(p, i) >> 4); }
// Bits [shift, shift + 2) of a byte.
int TwoBits(const std::byte* p, int i, int shift) {
  return static_cast<int>((Byte(p, i) >> shift) & 3U);
}
int Bit(const std::byte* p, int i, int bit) { return static_cast<int>((Byte(p, i) >> bit) & 1U); }

// The fifth bits of a block of 32: value i has bit i of a 32-bit word.
int FifthBit(const std::byte* p, int i) { return Bit(p, i / 8, i % 8) << 4; }

// Q4_K and Q5_K keep eight scales and eight minimums of six bits in twelve bytes: the first four of
// each have bytes of their own, whose top bits are the top bits of the last four.
struct ScaleAndMin {
  float scale, min;
};
ScaleAndMin SixBits(const std::byte* p, int j) {
  if (j < 4) {
    return {static_cast<float>(Byte(p, j) & 63U), static_cast<float>(Byte(p, j + 4) & 63U)};
  }
  const unsigned scale = (Byte(p, j + 4) & 15U) | ((Byte(p, j - 4) >> 6) << 4);
  const unsigned min = (Byte(p, j + 4) >> 4) | ((Byte(p, j) >> 6) << 4);
  return {static_cast<float>(scale), static_cast<float>(min)};
}

}  // namespace

void DecodeQ40(const std::byte* p, float* out) {
  const float scale = LoadHalf(p);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(LowNibble(p + 2, i) - 8);
    out[i + 16] = scale * static_cast<float>(HighNibble(p + 2, i) - 8);
  }
}

void DecodeQ41(const std::byte* p, float* out) {
  const float scale = LoadHalf(p);
  const float minimum = LoadHalf(p + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(LowNibble(p + 4, i)) + minimum;
    out[i + 16] = scale * static_cast<float>(HighNibble(p + 4, i)) + minimum;
  }
}

void DecodeQ50(const std::byte* p, float* out) {
  const float scale = LoadHalf(p);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((LowNibble(p + 6, i) | FifthBit(p + 2, i)) - 16);
    out[i + 16] = scale * static_cast<float>((HighNibble(p + 6, i) | FifthBit(p + 2, i + 16)) - 16);
  }
}

void DecodeQ51(const std::byte* p, float* out) {
  const float scale = LoadHalf(p);
  const float minimum = LoadHalf(p + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(LowNibble(p + 8, i) | FifthBit(p + 4, i)) + minimum;
    out[i + 16] =
        scale * static_cast<float>(HighNibble(p + 8, i) | FifthBit(p + 4, i + 16)) + minimum;
  }
}

void DecodeQ80(const std::byte* p, float* out) {
  const float scale = LoadHalf(p);
  for (int i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(std::to_integer<std::int8_t>(p[2 + i]));
  }
}

// 16 bytes of scale (low) and minimum (high nibble), one for 16 values; 64 bytes of two-bit codes;
// fp16 scale of the scales, fp16 scale of the minimums.
void DecodeQ2K(const std::byte* p, float* out) {
  const std::byte* codes = p + 16;
  const float scale = LoadHalf(p + 80);
  const float min_scale = LoadHalf(p + 82);
  for (int i = 0; i < kSuperBlock; ++i) {
    const float d = scale * static_cast<float>(LowNibble(p, i / 16));
    const float m = min_scale * static_cast<float>(HighNibble(p, i / 16));
    const int code = TwoBits(codes, i / 128 * 32 + i % 32, i % 128 / 32 * 2);
    out[i] = d * static_cast<float>(code) - m;
  }
}

// 32 bytes of third bits (set: nothing is taken off), 64 bytes of two-bit codes, sixteen scales of
// six bits in 12 bytes, fp16 scale.
void DecodeQ3K(const std::byte* p, float* out) {
  const std::byte* codes = p + 32;
  const std::byte* packed = p + 96;
  const float scale = LoadHalf(p + 108);
  std::array<float, 16> scales{};
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? LowNibble(packed, j) : HighNibble(packed, j - 8);
    const int high = TwoBits(packed, 8 + j % 4, j / 4 * 2);
    scales[static_cast<std::size_t>(j)] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
  for (int i = 0; i < kSuperBlock; ++i) {
    const int code = TwoBits(codes, i / 128 * 32 + i % 32, i % 128 / 32 * 2);
    const int off = Bit(p, i % 32, i / 32) != 0 ? 0 : 4;
    out[i] = scales[static_cast<std::size_t>(i / 16)] * static_cast<float>(code - off);
  }
}

// fp16 scale of the scales, fp16 scale of the minimums, 12 bytes (SixBits), 128 bytes of codes: 32
// low nibbles, then their high nibbles.
void DecodeQ4K(const std::byte* p, float* out) {
  const float scale = LoadHalf(p);
  const float min_scale = LoadHalf(p + 2);
  const std::byte* codes = p + 16;
  for (int j = 0; j < 8; ++j) {
    const ScaleAndMin s = SixBits(p + 4, j);
    const float d = scale * s.scale;
    const float m = min_scale * s.min;
    for (int i = 0; i < 32; ++i) {
      const int at = j / 2 * 32 + i;
      const int code = j % 2 == 0 ? LowNibble(codes, at) : HighNibble(codes, at);
      out[j * 32 + i] = d * static_cast<float>(code) - m;
    }
  }
}

// As Q4_K with 32 bytes of fifth bits before the codes: bit j of byte i for value i of block j.
void DecodeQ5K(const std::byte* p, float* out) {
  const float scale = LoadHalf(p);
  const float min_scale = LoadHalf(p + 2);
  const std::byte* fifth = p + 16;
  const std::byte* codes = p + 48;
  for (int j = 0; j < 8; ++j) {
    const ScaleAndMin s = SixBits(p + 4, j);
    const float d = scale * s.scale;
    const float m = min_scale * s.min;
    for (int i = 0; i < 32; ++i) {
      const int at = j / 2 * 32 + i;
      const int low = j % 2 == 0 ? LowNibble(codes, at) : HighNibble(codes, at);
      out[j * 32 + i] = d * static_cast<float>(low + (Bit(fifth, i, j) << 4)) - m;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of two high bits, sixteen signed scales, fp16 scale.
void DecodeQ6K(const std::byte* p, float* out) {
  const std::byte* high = p + 128;
  const std::byte* scales = p + 192;
  const float scale = LoadHalf(p + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;  // of the half
    const int low_at = half * 64 + quarter % 2 * 32 + i % 32;
    const int low = quarter < 2 ? LowNibble(p, low_at) : HighNibble(p, low_at);
    const int code = (low | (TwoBits(high, half * 32 + i % 32, quarter * 2) << 4)) - 32;
    const float d = scale * static_cast<float>(std::to_integer<std::int8_t>(scales[i / 16]));
    out[i] = d * static_cast<float>(code);
  }
}

}  // namespace hone::codec
