// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Quantizes one matrix: chooses scales, encodes codes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "base/thread_pool.h"
#include "codec/weight.h"
#include "model/decoder_spec.h"

namespace hone::quant {

enum class Algorithm : std::uint8_t { kMinMax, kOctav };

// How to quantize a matrix. type is int8 (block 0), int4 (block 32, 64, 128 or 256; 0: a scale for
// each row), or f32: keep.
struct Scheme {
  codec::WeightType type;
  Algorithm algorithm = Algorithm::kMinMax;
  bool operator==(const Scheme&) const = default;
};
std::string SchemeName(const Scheme& scheme);  // "int4_block32 octav", "f32"

// Scales of one row: max|x| / max_code, or OCTAV's clip / max_code. Block scales are rounded to
// bf16, then stored as fp16 and never below 2^-14 (the smallest normal fp16); channel scales are
// float32 and never zero. One value for block 0, else cols / block. Sources:
// docs/formats/quantization.md.
std::vector<float> ChooseScales(const Scheme& scheme, std::span<const float> row);

// The matrix under the scheme; f32 copies. Reads the weight in bands of rows: needs memory for the
// result and a few rows. kDataLoss if the weight holds NaN or infinity (names tensor, count, first
// index) unless allow_nonfinite. kUnsupported if the block does not divide the columns.
Result<codec::WeightBuffer> QuantizeWeight(const model::Weight& weight, const Scheme& scheme,
                                           ThreadPool& pool, bool allow_nonfinite = false);

// The same for rows [row_begin, row_begin + num_rows). A message counts in these rows alone; its
// index and row are those of the whole matrix.
Result<codec::WeightBuffer> QuantizeRows(const model::Weight& weight, const Scheme& scheme,
                                         std::int64_t row_begin, std::int64_t num_rows,
                                         ThreadPool& pool, bool allow_nonfinite = false);

}  // namespace hone::quant
