// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Two patterns of litert-torch's graphs that NPU compilers get wrong, found and rewritten.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {

// A CONCATENATION of one mask with itself along the rows, so that grouped queries can share a key
// head: its result [1, 1, repeats * rows, columns] is added to scores [1, kv_heads, repeats * rows,
// columns].
struct RepeatedMask {
  std::size_t graph = 0;
  std::size_t op = 0;             // the CONCATENATION
  std::vector<std::size_t> adds;  // the ADDs that read it
  std::int32_t mask = -1;         // tensor
  std::int32_t repeated = -1;     // the CONCATENATION's result
  std::int64_t repeats = 0, rows = 0, columns = 0, kv_heads = 0;
  bool only_adds = true;  // nothing else reads the result
  std::int64_t heads() const { return repeats * kv_heads; }
};
std::vector<RepeatedMask> FindRepeatedMasks(const formats::tflite::Model& model);

// Each ADD of scores and a repeated mask becomes RESHAPE to [1, heads, rows, columns], ADD with the
// mask itself, which broadcasts, and RESHAPE back. Returns how many ADDs changed. New constants are
// appended to buffers, whose bytes live in *storage.
std::size_t RewriteRepeatedMasks(formats::tflite::Model& model,
                                 std::vector<std::vector<std::byte>>& storage);

// Cache inputs of prefill signatures that no operator reads: "prefill_64: kv_cache_k_41".
struct UnusedInput {
  std::size_t signature = 0;
  std::string name;
  std::uint32_t tensor = 0;
};
std::vector<UnusedInput> FindUnusedCacheInputs(const formats::tflite::Model& model);
// Takes them out of the subgraphs' inputs and the signatures. Tensors stay. Returns how many.
std::size_t RemoveUnusedCacheInputs(formats::tflite::Model& model);

}  // namespace hone::bundle
