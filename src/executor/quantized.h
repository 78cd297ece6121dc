// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Integer tensors with scales: whole, per channel, or in blocks along the last dimension.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "executor/node.h"

namespace hone::executor {

// Int4, int8, uint8 or int16 with scales that fit the shape.
Status ExpectQuantized(const TensorInfo& info, const std::string& what);
// The same for weights of a table or a linear, [rows, cols]: int4 or int8, one scale for all, for
// each row or for each block, every zero point 0.
Status ExpectQuantizedRows(const TensorInfo& info, const std::string& what);

// A quantized tensor's values. The tensor passed one of the checks above.
class Quantized {
 public:
  Quantized(const TensorInfo& info, const std::byte* data);
  std::int32_t CodeAt(std::int64_t i) const;
  float ScaleAt(std::int64_t i) const;
  float ValueAt(std::int64_t i) const;
  // Codes that share a scale, if they follow each other in a row; 0: the whole row does.
  std::int64_t block() const { return block_; }

 private:
  std::int64_t ChannelAt(std::int64_t i) const { return i / inner_ % channels_; }

  const TensorInfo& info_;
  const std::byte* data_;
  std::int64_t block_ = 0;
  std::int64_t inner_ = 1, channels_ = 1;
};

}  // namespace hone::executor
