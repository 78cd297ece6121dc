// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Writes keys and values into pages (attention_kernels.h has the layout). Include after
// attention_tiles.h, inside the same target region.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/float16.h"
#include "kernels/attention/attention_kernels.h"

namespace hone::kernels {
namespace {

// 16 rows of keys at once, turned: slot is a multiple of 16.
template <typename T>
void StoreKeyGroup(const attention::StoreArgs& args, std::int64_t row, T* keys) {
  const std::int64_t dim = args.head_dim;
  const float* x = args.x + row * args.stride;
  keys += (args.slot + row) * dim;
  std::int64_t j = 0;
  for (; j + 16 <= dim; j += 16) {
    Vec16 rows[16];
    for (int r = 0; r < 16; ++r) rows[r] = Vec16::Load(x + r * args.stride + j);
    if constexpr (std::is_same_v<T, float>) {
      Vec16::Transpose(rows, keys + j * 16, 16);
    } else {
      alignas(64) float turned[256];
      Vec16::Transpose(rows, turned, 16);
      for (int c = 0; c < 16; ++c) Vec16::Load(turned + 16 * c).StoreF16(keys + (j + c) * 16);
    }
  }
  for (; j < dim; ++j) {
    for (std::int64_t r = 0; r < 16; ++r) {
      if constexpr (std::is_same_v<T, float>) {
        keys[j * 16 + r] = x[r * args.stride + j];
      } else {
        keys[j * 16 + r] = FloatToFp16(x[r * args.stride + j]);
      }
    }
  }
}

template <typename T>
void StoreFloatKeys(const attention::StoreArgs& args, T* keys) {
  for (std::int64_t i = 0; i < args.count;) {
    if ((args.slot + i) % 16 == 0 && i + 16 <= args.count) {
      StoreKeyGroup(args, i, keys);
      i += 16;
      continue;
    }
    const float* x = args.x + i * args.stride;
    for (std::int64_t j = 0; j < args.head_dim; ++j) {
      T* out = keys + attention::KeyIndex(args.slot + i, j, args.head_dim);
      if constexpr (std::is_same_v<T, float>) {
        *out = x[j];
      } else {
        *out = FloatToFp16(x[j]);
      }
    }
    ++i;
  }
}

void StoreHalf(const float* x, std::int64_t n, std::uint16_t* out) {
  std::int64_t j = 0;
  for (; j + 16 <= n; j += 16) Vec16::Load(x + j).StoreF16(out + j);
  for (; j < n; ++j) out[j] = FloatToFp16(x[j]);
}

void StoreFloatValues(const attention::StoreArgs& args) {
  const std::int64_t dim = args.head_dim;
  for (std::int64_t i = 0; i < args.count; ++i) {
    const float* x = args.x + i * args.stride;
    if (args.type == KvType::kF32) {
      std::memcpy(reinterpret_cast<float*>(args.piece) + (args.slot + i) * dim, x,
                  static_cast<std::size_t>(dim) * sizeof(float));
    } else {
      StoreHalf(x, dim, reinterpret_cast<std::uint16_t*>(args.piece) + (args.slot + i) * dim);
    }
  }
}

// 16 codes from x, of which n are there.
HONE_INLINE void QuantizeSixteen(const float* x, std::int64_t n, Vec16 inverse, std::int8_t* out) {
  alignas(64) float padded[16] = {};
  if (n < 16) {
    std::memcpy(padded, x, static_cast<std::size_t>(n) * sizeof(float));
    x = padded;
  }
  const Vec16 scaled = Vec16::Mul(Vec16::Load(x), inverse);
  // Min returns the bound for what is not a number.
  Vec16::Max(Vec16::Min(scaled, Vec16::Set1(127)), Vec16::Set1(-127)).StoreRounded(0, out);
}

// The scale of a row: its largest magnitude / 127, NaN if a value is not finite.
float Int8Scale(const float* x, std::int64_t dim, float* inverse) {
  Vec16 most = Vec16::Set1(0), nothing = Vec16::Set1(0);
  for (std::int64_t j = 0; j < dim; j += 16) {
    alignas(64) float padded[16] = {};
    std::memcpy(padded, x + j,
                static_cast<std::size_t>(std::min<std::int64_t>(16, dim - j)) * sizeof(float));
    const Vec16 v = Vec16::Load(padded);
    most = Vec16::Max(Vec16::Max(v, Vec16::Sub(Vec16::Set1(0), v)), most);
    nothing = Vec16::Add(nothing, Vec16::Mul(v, Vec16::Set1(0)));
  }
  const float largest = most.ReduceMax();
  // Below that the codes are 0: the inverse would not be finite.
  *inverse = largest < 1e-30f ? 0.0f : 127.0f / largest;
  return largest / 127.0f + nothing.ReduceAdd();
}

void StoreInt8(const attention::StoreArgs& args) {
  const std::int64_t dim = args.head_dim;
  auto* codes = reinterpret_cast<std::int8_t*>(args.piece);
  auto* scales = reinterpret_cast<float*>(args.piece + attention::Int8CodeBytes(dim));
  for (std::int64_t i = 0; i < args.count; ++i) {
    const float* x = args.x + i * args.stride;
    const std::int64_t slot = args.slot + i;
    float inverse = 0;
    scales[slot] = Int8Scale(x, dim, &inverse);
    for (std::int64_t j = 0; j < dim; j += 16) {
      std::int8_t sixteen[16];
      const std::int64_t n = std::min<std::int64_t>(16, dim - j);
      QuantizeSixteen(x + j, n, Vec16::Set1(inverse), sixteen);
      if (args.part == KvPart::kValues) {
        std::memcpy(codes + slot * dim + j, sixteen, static_cast<std::size_t>(n));
        continue;
      }
      for (std::int64_t quad = 0; quad < n; quad += 4) {
        std::memcpy(codes + attention::Int8KeyIndex(slot, j + quad, dim), sixteen + quad, 4);
      }
    }
  }
}

void StoreRows(const attention::StoreArgs& args) {
  if (args.type == KvType::kInt8) {
    StoreInt8(args);
  } else if (args.part == KvPart::kValues) {
    StoreFloatValues(args);
  } else if (args.type == KvType::kF32) {
    StoreFloatKeys(args, reinterpret_cast<float*>(args.piece));
  } else {
    StoreFloatKeys(args, reinterpret_cast<std::uint16_t*>(args.piece));
  }
}

}  // namespace
}  // namespace hone::kernels
