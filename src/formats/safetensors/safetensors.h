// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Safetensors: single file, or shards with an index. See docs/formats/safetensors.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/span_util.h"
#include "base/status.h"

namespace hone::formats {

// Every dtype of the format. Only some can be weights; the others are known by name.
enum class Dtype : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kC64,
};
const char* DtypeName(Dtype dtype);  // as in the file: "BF16", "F8_E4M3"

struct SafetensorsTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  ByteSpan data;         // inside the map of its file
  std::size_t file = 0;  // index into SafetensorsCheckpoint::files
};

// Checks the header and every tensor (bounds, overlap, holes, dtype, shape against bytes, duplicate
// names). bytes is the whole file. Errors name the tensor, not the file. Tensors in file order.
Result<std::vector<SafetensorsTensor>> ParseSafetensors(ByteSpan bytes);

// The tensors of a folder: model.safetensors, or the shards of model.safetensors.index.json.
struct SafetensorsCheckpoint {
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::vector<SafetensorsTensor> tensors;  // sorted by name
  std::vector<std::string> warnings;       // a tensor in another shard than the index says
  const SafetensorsTensor* Find(std::string_view name) const;
};
// kNotFound if the folder has neither. Shard paths outside the folder are refused.
Result<SafetensorsCheckpoint> OpenSafetensors(const std::string& folder);

}  // namespace hone::formats
