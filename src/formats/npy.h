// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// NumPy .npy files: little-endian float32, C order, as golden data and hone logits use them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::formats {

struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<float> data;
};

// Version 1.0 to 3.0, dtype '<f4', C order; anything else is kUnsupported and named.
Result<NpyArray> ParseNpy(ByteSpan bytes);
// Version 1.0, header padded to 64 bytes. product(shape) == data.size().
std::vector<std::byte> EncodeNpy(std::span<const std::int64_t> shape, std::span<const float> data);

}  // namespace hone::formats
