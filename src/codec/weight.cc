// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "codec/weight.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/float16.h"
#include "codec/gguf_blocks.h"

namespace hone::codec {
namespace {

// In the order of Coding.
constexpr CodingFacts kFacts[] = {
    {"f32", 32, 1, 4, true, false, -1, -1},
    {"f16", 16, 1, 2, true, false, -1, -1},
    {"bf16", 16, 1, 2, true, false, -1, -1},
    {"int8", 8, 1, 1, false, false, -1, -1},
    {"int4", 4, 2, 1, false, false, -1, -1},
    {"q4_0", 4, 32, kQ40Bytes, false, true, 0, -1},
    {"q4_1", 4, 32, kQ41Bytes, false, true, 0, 2},
    {"q8_0", 8, 32, kQ80Bytes, false, true, 0, -1},
    {"q5_0", 5, 32, kQ50Bytes, false, true, 0, -1},
    {"q5_1", 5, 32, kQ51Bytes, false, true, 0, 2},
    {"q2_k", 2, 256, kQ2KBytes, false, true, 80, 82},
    {"q3_k", 3, 256, kQ3KBytes, false, true, 108, -1},
    {"q4_k", 4, 256, kQ4KBytes, false, true, 0, 2},
    {"q5_k", 5, 256, kQ5KBytes, false, true, 0, 2},
    {"q6_k", 6, 256, kQ6KBytes, false, true, 208, -1},
    {"f8_e4m3", 8, 1, 1, false, false, -1, -1},
};

template <typename T>
T Load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

int LowNibble(std::byte b) { return std::to_integer<int>(b) & 15; }
int HighNibble(std::byte b) { return std::to_integer<int>(b) >> 4; }
// Two's complement of four bits: 8..15 mean -8..-1.
int SignedNibble(int nibble) { return (nibble ^ 8) - 8; }

void DecodeHalf(const std::byte* p, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = Fp16ToFloat(Load<std::uint16_t>(p + 2 * i));
}

void DecodeBf16(const std::byte* p, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = Bf16ToFloat(Load<std::uint16_t>(p + 2 * i));
}

void DecodeInt8(const std::byte* p, std::int64_t n, float scale, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = scale * static_cast<float>(std::to_integer<std::int8_t>(p[i]));
  }
}

// n is even.
void DecodeInt4(const std::byte* p, std::int64_t n, float scale, float* out) {
  for (std::int64_t i = 0; i < n; i += 2) {
    const std::byte b = p[i / 2];
    out[i] = scale * static_cast<float>(SignedNibble(LowNibble(b)));
    out[i + 1] = scale * static_cast<float>(SignedNibble(HighNibble(b)));
  }
}

void DecodeInt4Row(const WeightView& view, std::int64_t row, float* out) {
  const std::byte* codes = view.codes.data() + row * view.cols / 2;
  if (view.type.block == 0) {
    DecodeInt4(codes, view.cols, Load<float>(view.scales.data() + 4 * row), out);
    return;
  }
  const std::int64_t block = view.type.block;
  const std::int64_t blocks = view.cols / block;
  const std::byte* scales = view.scales.data() + 2 * row * blocks;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float scale = Fp16ToFloat(Load<std::uint16_t>(scales + 2 * b));
    DecodeInt4(codes + b * block / 2, block, scale, out + b * block);
  }
}

std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void DecodeFp8Row(const WeightView& view, std::int64_t row, float* out) {
  const std::byte* codes = view.codes.data() + row * view.cols;
  const std::int64_t block = view.type.block == 0 ? view.cols : view.type.block;
  const std::int64_t scale_row = view.type.block == 0 ? row : row / block;
  const std::byte* scales = view.scales.data() + 4 * scale_row * CeilDiv(view.cols, block);
  for (std::int64_t c = 0; c < view.cols; ++c) {
    out[c] = Load<float>(scales + 4 * (c / block)) *
             Fp8E4M3ToFloat(std::to_integer<std::uint8_t>(codes[c]));
  }
}

void DecodeBlocks(const WeightView& view, std::int64_t row, BlockDecoder decode, float* out) {
  const CodingFacts& facts = Facts(view.type.coding);
  const std::int64_t blocks = view.cols / facts.group_values;
  const std::byte* p = view.codes.data() + row * blocks * facts.group_bytes;
  for (std::int64_t b = 0; b < blocks; ++b) {
    decode(p + b * facts.group_bytes, out + b * facts.group_values);
  }
}

void DecodeRow(const WeightView& view, std::int64_t row, float* out) {
  const std::int64_t cols = view.cols;
  const std::byte* codes = view.codes.data();
  switch (view.type.coding) {
    case Coding::kF32:
      std::memcpy(out, codes + 4 * row * cols, static_cast<std::size_t>(4 * cols));
      return;
    case Coding::kF16:
      return DecodeHalf(codes + 2 * row * cols, cols, out);
    case Coding::kBf16:
      return DecodeBf16(codes + 2 * row * cols, cols, out);
    case Coding::kInt8:
      return DecodeInt8(codes + row * cols, cols, Load<float>(view.scales.data() + 4 * row), out);
    case Coding::kInt4:
      return DecodeInt4Row(view, row, out);
    case Coding::kGgufQ4_0:
      return DecodeBlocks(view, row, DecodeQ40, out);
    case Coding::kGgufQ4_1:
      return DecodeBlocks(view, row, DecodeQ41, out);
    case Coding::kGgufQ8_0:
      return DecodeBlocks(view, row, DecodeQ80, out);
    case Coding::kGgufQ5_0:
      return DecodeBlocks(view, row, DecodeQ50, out);
    case Coding::kGgufQ5_1:
      return DecodeBlocks(view, row, DecodeQ51, out);
    case Coding::kGgufQ2_K:
      return DecodeBlocks(view, row, DecodeQ2K, out);
    case Coding::kGgufQ3_K:
      return DecodeBlocks(view, row, DecodeQ3K, out);
    case Coding::kGgufQ4_K:
      return DecodeBlocks(view, row, DecodeQ4K, out);
    case Coding::kGgufQ5_K:
      return DecodeBlocks(view, row, DecodeQ5K, out);
    case Coding::kGgufQ6_K:
      return DecodeBlocks(view, row, DecodeQ6K, out);
    case Coding::kF8E4M3:
      return DecodeFp8Row(view, row, out);
  }
}

// The number of codes' bytes, or nothing if it does not fit. Groups divide cols.
std::optional<std::uint64_t> CodesBytesChecked(WeightType type, std::int64_t rows,
                                               std::int64_t cols) {
  const CodingFacts& facts = Facts(type.coding);
  const auto groups = MulChecked(static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(cols / facts.group_values));
  if (!groups) return std::nullopt;
  return MulChecked(*groups, static_cast<std::uint64_t>(facts.group_bytes));
}

// A half is NaN or infinite if all bits of its exponent are set. Looking without branches lets the
// compiler use vectors; halves are never so large that float32 could not hold a product with a
// code.
Status CheckHalfScales(ByteSpan scales) {
  const std::size_t count = scales.size() / 2;
  const auto is_bad = [&](std::size_t i) {
    return (Load<std::uint16_t>(scales.data() + 2 * i) & 0x7c00U) == 0x7c00U;
  };
  std::uint16_t bad = 0;  // as wide as a half: eight lanes and more
  for (std::size_t i = 0; i < count; ++i) {
    bad = static_cast<std::uint16_t>(bad | (is_bad(i) ? 1U : 0U));
  }
  if (bad == 0) return {};
  std::size_t first = 0;
  while (!is_bad(first)) ++first;
  return Status(Code::kDataLoss, StrCat("scale ", first, " is not a finite number"));
}

Status CheckFiniteScales(const WeightView& view) {
  if (view.type.block != 0 && view.type.coding != Coding::kF8E4M3) {
    return CheckHalfScales(view.scales);
  }
  for (std::size_t i = 0; i < view.scales.size() / 4; ++i) {
    const float scale = Load<float>(view.scales.data() + 4 * i);
    if (!std::isfinite(scale)) {
      return Status(Code::kDataLoss, StrCat("scale ", i, " is not a finite number"));
    }
    // Every code may stand for a number: float32 must hold the largest.
    const float largest_code = view.type.coding == Coding::kF8E4M3 ? 448.0f : 127.0f;
    if (!std::isfinite(scale * largest_code)) {
      return Status(Code::kDataLoss,
                    StrCat("scale ", i, " is too large: float32 cannot hold its values"));
    }
  }
  return {};
}

// codes[i] = rint(x[i] / scale) within +-limit. Clamping first is the same, since the limit is an
// integer, and adding 1.5 * 2^23 then leaves no room for a fraction: the hardware rounds half to
// even.
void EncodeValues(const float* x, std::size_t n, float scale, float limit, std::int8_t* codes) {
  constexpr float kRounder = 12582912.0f;
  for (std::size_t i = 0; i < n; ++i) {
    float v = x[i] / scale;
    v = v > -limit ? v : -limit;
    v = v < limit ? v : limit;
    codes[i] = static_cast<std::int8_t>(static_cast<int>((v + kRounder) - kRounder));
  }
}

// n is even.
void EncodeInt4(const float* x, std::size_t n, float scale, std::byte* codes) {
  std::array<std::int8_t, 128> chunk{};
  for (std::size_t begin = 0; begin < n; begin += chunk.size()) {
    const std::size_t count = std::min(chunk.size(), n - begin);
    EncodeValues(x + begin, count, scale, 7.0f, chunk.data());
    std::byte* out = codes + begin / 2;
    for (std::size_t i = 0; i < count / 2; ++i) {
      out[i] = static_cast<std::byte>((chunk[2 * i] & 15) | ((chunk[2 * i + 1] & 15) << 4));
    }
  }
}

}  // namespace

const CodingFacts& Facts(Coding coding) {
  const auto i = static_cast<std::size_t>(coding);
  HONE_CHECK(i < std::size(kFacts));
  return kFacts[i];
}

std::string TypeName(WeightType type) {
  const char* name = Facts(type.coding).name;
  return type.block == 0 ? std::string(name) : StrCat(name, "_block", type.block);
}

std::uint64_t CodesBytes(WeightType type, std::int64_t rows, std::int64_t cols) {
  const auto bytes = CodesBytesChecked(type, rows, cols);
  HONE_CHECK(bytes.has_value());
  return *bytes;
}

std::uint64_t ScalesBytes(WeightType type, std::int64_t rows, std::int64_t cols) {
  const CodingFacts& facts = Facts(type.coding);
  if (facts.is_float || facts.interleaved_scale) return 0;
  const auto r = static_cast<std::uint64_t>(rows);
  if (type.block == 0) return r * 4;
  if (type.coding == Coding::kF8E4M3) {
    return static_cast<std::uint64_t>(CeilDiv(rows, type.block) * CeilDiv(cols, type.block)) * 4;
  }
  return r * static_cast<std::uint64_t>(cols / type.block) * 2;
}

Status CheckShape(WeightType type, std::int64_t rows, std::int64_t cols) {
  const CodingFacts& facts = Facts(type.coding);
  if (rows <= 0 || cols <= 0) {
    return Status(Code::kUnsupported,
                  StrCat("shape [", rows, ", ", cols, "]: both numbers must be at least 1"));
  }
  const bool has_blocks = type.coding == Coding::kInt4 || type.coding == Coding::kF8E4M3;
  if (type.block != 0 && (!has_blocks || type.block < 0 || type.block % 32 != 0)) {
    return Status(Code::kUnsupported,
                  StrCat(facts.name, " in blocks of ", type.block,
                         ": only int4 and f8_e4m3 have blocks, of a multiple of 32 values"));
  }
  if (cols % facts.group_values != 0) {
    return Status(Code::kUnsupported, StrCat(cols, " columns: ", TypeName(type),
                                             " needs a multiple of ", facts.group_values));
  }
  if (type.block != 0 && type.coding == Coding::kInt4 && cols % type.block != 0) {
    return Status(Code::kUnsupported,
                  StrCat(cols, " columns: the block of ", type.block, " does not divide them"));
  }
  // Decoded to float32, it must still be addressable.
  const auto values =
      MulChecked(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols));
  const auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 8;
  if (!values || *values > limit) {
    return Status(Code::kUnsupported, StrCat("shape [", rows, ", ", cols, "]: too large"));
  }
  return {};
}

Status CheckView(const WeightView& view) {
  HONE_TRY(CheckShape(view.type, view.rows, view.cols));
  const std::uint64_t codes = CodesBytes(view.type, view.rows, view.cols);
  if (view.codes.size() != codes) {
    return Status(Code::kDataLoss,
                  StrCat("has ", view.codes.size(), " bytes, but ", TypeName(view.type), " [",
                         view.rows, ", ", view.cols, "] needs ", codes));
  }
  const std::uint64_t scales = ScalesBytes(view.type, view.rows, view.cols);
  if (view.scales.size() != scales) {
    return Status(Code::kDataLoss,
                  StrCat("has ", view.scales.size(), " bytes of scales, but ", TypeName(view.type),
                         " [", view.rows, ", ", view.cols, "] needs ", scales));
  }
  return CheckFiniteScales(view);
}

void DecodeRows(const WeightView& view, std::int64_t row_begin, std::int64_t num_rows, float* out) {
  HONE_DCHECK(row_begin >= 0 && num_rows >= 0 && row_begin + num_rows <= view.rows);
  for (std::int64_t r = 0; r < num_rows; ++r) DecodeRow(view, row_begin + r, out + r * view.cols);
}

void EncodeRowInt(WeightType type, std::span<const float> x, std::span<const float> scales,
                  std::byte* codes) {
  const std::size_t block = type.block == 0 ? x.size() : static_cast<std::size_t>(type.block);
  HONE_DCHECK(scales.size() * block == x.size());
  HONE_CHECK(type.coding == Coding::kInt8 || type.coding == Coding::kInt4);
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const float* values = x.data() + b * block;
    if (type.coding == Coding::kInt8) {
      auto* out = reinterpret_cast<std::int8_t*>(codes + b * block);
      EncodeValues(values, block, scales[b], 127.0f, out);
    } else {
      EncodeInt4(values, block, scales[b], codes + b * block / 2);
    }
  }
}

}  // namespace hone::codec
