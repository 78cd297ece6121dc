// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Weight types as data, and the one scalar decoder and encoder of each. Everything faster is tested
// against these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::codec {

enum class Coding : std::uint8_t {
  kF32,
  kF16,
  kBf16,
  kInt8,  // signed, symmetric; one float32 scale a row (block 0)
  kInt4,  // signed, symmetric, two a byte, low nibble first; one float32 scale a row (block 0) or
          // one fp16 scale for each block of values along a row
  kGgufQ4_0,  // blocks of 32: fp16 scale, 16 bytes (low nibbles: values 0..15, high: 16..31),
              // offset 8
  kGgufQ4_1,  // as Q4_0 with an fp16 minimum after the scale, no offset
  kGgufQ8_0,  // blocks of 32: fp16 scale, 32 signed bytes
  kGgufQ5_0,  // as Q4_0 with a fifth bit, offset 16
  kGgufQ5_1,  // as Q4_1 with a fifth bit
  kGgufQ2_K,  // the K types: super-blocks of 256, see gguf_blocks.h
  kGgufQ3_K,
  kGgufQ4_K,
  kGgufQ5_K,
  kGgufQ6_K,
  kF8E4M3,  // float of 8 bits; block 0: one float32 scale a row, else one for each square of block
            // by block values (the last ones may be cut)
};

// What a tensor's bytes mean. Plain data; compare with ==.
struct WeightType {
  Coding coding = Coding::kF32;
  int block = 0;  // values along a row that share a scale; 0: the whole row (or no scale)
  bool operator==(const WeightType&) const = default;
};

// The facts of a coding, one row of a table.
struct CodingFacts {
  const char* name;  // "f32", "int4", "q4_1"
  int bits;          // of one code
  int group_values;  // values in one indivisible group of codes: 1, 2, 32 or 256
  int group_bytes;   // bytes of that group, with interleaved scales
  bool is_float;
  bool interleaved_scale;  // scale (and minimum) live inside the group, not in WeightView::scales
  int scale_at;            // offset of the fp16 scale in the group; -1: there is none
  int minimum_at;  // offset of the fp16 minimum, or scale of the minimums; -1: there is none
};
const CodingFacts& Facts(Coding coding);

// "f32", "int8", "int4_block32", "int4", "q4_1".
std::string TypeName(WeightType type);

// A matrix [rows, cols], row major, somebody else's memory. Vectors have one row.
struct WeightView {
  WeightType type;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  ByteSpan codes;   // canonical order; size CodesBytes(type, rows, cols)
  ByteSpan scales;  // float32 [rows] if block is 0; else fp16 [rows, cols / block] for int4,
                    // float32 [ceil(rows / block), ceil(cols / block)] for f8_e4m3; empty for the
                    // longer floats and interleaved codings
};

// A quantized or converted matrix that owns its bytes.
struct WeightBuffer {
  WeightType type;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  WeightView view() const { return {type, rows, cols, codes, scales}; }
};

// Sizes in bytes. The shape must satisfy CheckShape.
std::uint64_t CodesBytes(WeightType type, std::int64_t rows, std::int64_t cols);
std::uint64_t ScalesBytes(WeightType type, std::int64_t rows, std::int64_t cols);

// kUnsupported if cols does not divide into the type's groups and blocks, or a size overflows.
Status CheckShape(WeightType type, std::int64_t rows, std::int64_t cols);

// Checks shape and byte counts, and that every value of scales is finite; interleaved scales are
// part of the data and are not read. Names no file: add Context.
Status CheckView(const WeightView& view);

// out[r * cols + c] for rows [row_begin, row_begin + num_rows), float32, exact (a product of two
// floats rounds once). The view must have passed CheckView.
void DecodeRows(const WeightView& view, std::int64_t row_begin, std::int64_t num_rows, float* out);

// Codes of one row for given scales (float32 values that the scale type holds exactly; one for a
// row with block 0, else cols / block). code = clamp(rint(x / scale), -max_code, max_code), rint
// half to even, max_code 127 for int8 and 7 for int4. x is [cols] and finite. codes receives the
// row's bytes.
void EncodeRowInt(WeightType type, std::span<const float> x, std::span<const float> scales,
                  std::byte* codes);

}  // namespace hone::codec
