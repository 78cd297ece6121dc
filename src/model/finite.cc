// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Looks for NaN and infinity in weights by their bits.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float16.h"
#include "model/checkpoint.h"

namespace hone::model {
namespace {

// What was found, counted in values of the tensor.
struct Findings {
  std::uint64_t count = 0;
  std::uint64_t first = 0;
  float value = 0;
};

// A float is NaN or infinite if all bits of its exponent are set. The inner loop counts without
// branches, so that the compiler can use vectors; only a chunk with a finding is read again.
template <typename Bits>
Findings FindInFloats(ByteSpan bytes, Bits exponent, float (*to_float)(Bits)) {
  constexpr std::size_t kChunk = 4096;
  Findings out;
  const std::size_t total = bytes.size() / sizeof(Bits);
  Bits chunk[kChunk];
  for (std::size_t begin = 0; begin < total; begin += kChunk) {
    const std::size_t n = std::min(kChunk, total - begin);
    std::memcpy(chunk, bytes.data() + begin * sizeof(Bits), n * sizeof(Bits));
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < n; ++i) found += (chunk[i] & exponent) == exponent ? 1U : 0U;
    if (found == 0) continue;
    if (out.count == 0) {
      std::size_t i = 0;
      while ((chunk[i] & exponent) != exponent) ++i;
      out.first = begin + i;
      out.value = to_float(chunk[i]);
    }
    out.count += found;
  }
  return out;
}

// NaN is the only value that is not finite.
Findings FindInFp8(ByteSpan bytes) {
  Findings out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if ((std::to_integer<unsigned>(bytes[i]) & 0x7fU) != 0x7fU) continue;
    if (out.count == 0) out = {0, i, std::numeric_limits<float>::quiet_NaN()};
    ++out.count;
  }
  return out;
}

float FromF32(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The scale (and minimum) of every group; each bad group counts with all its values.
Findings FindInGroups(const codec::WeightView& view, const codec::CodingFacts& facts) {
  Findings out;
  const auto group_bytes = static_cast<std::size_t>(facts.group_bytes);
  const auto group_values = static_cast<std::uint64_t>(facts.group_values);
  for (std::size_t group = 0; group < view.codes.size() / group_bytes; ++group) {
    for (const int at : {facts.scale_at, facts.minimum_at}) {
      if (at < 0) continue;
      const std::size_t offset = group * group_bytes + static_cast<std::size_t>(at);
      const auto bits = ReadLe<std::uint16_t>(view.codes, offset);
      const float value = bits ? Fp16ToFloat(*bits) : 0.0f;
      if (std::isfinite(value)) continue;
      if (out.count == 0) out = {0, group * group_values, value};
      out.count += group_values;
      break;
    }
  }
  return out;
}

}  // namespace

Status CheckFinite(const Weight& weight) {
  const codec::WeightView& view = weight.view;
  const codec::CodingFacts& facts = codec::Facts(view.type.coding);
  Findings found;
  switch (view.type.coding) {
    case codec::Coding::kF32:
      found = FindInFloats<std::uint32_t>(view.codes, 0x7f800000U, FromF32);
      break;
    case codec::Coding::kF16:
      found = FindInFloats<std::uint16_t>(view.codes, 0x7c00U, Fp16ToFloat);
      break;
    case codec::Coding::kBf16:
      found = FindInFloats<std::uint16_t>(view.codes, 0x7f80U, Bf16ToFloat);
      break;
    case codec::Coding::kF8E4M3:
      HONE_TRY(codec::CheckView(view).Context(StrCat("tensor ", weight.name)));
      found = FindInFp8(view.codes);
      break;
    default:
      if (facts.interleaved_scale) {
        found = FindInGroups(view, facts);
      } else {
        return codec::CheckView(view).Context(StrCat("tensor ", weight.name));
      }
  }
  if (found.count == 0) return Status();
  const auto cols = static_cast<std::uint64_t>(view.cols);
  const char* what = std::isnan(found.value) ? "NaN" : found.value > 0 ? "+Inf" : "-Inf";
  return Status(Code::kDataLoss,
                StrCat("tensor ", weight.name, ": ", found.count,
                       found.count == 1 ? " value is" : " values are", " NaN or Inf, the first (",
                       what, ") at index ", found.first, ": row ", found.first / cols, ", column ",
                       found.first % cols));
}

}  // namespace hone::model
