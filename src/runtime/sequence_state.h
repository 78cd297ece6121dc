// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The file of a saved conversation: its tokens, keys and values. docs/formats/sequence_state.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "runtime/kv_block.h"

namespace hone::runtime {

// How a file of this kind begins.
inline constexpr std::string_view kStateMagic = "HONE-SEQ";

// What a file must agree with.
struct StateFacts {
  std::uint64_t model_hash = 0;  // runtime/model_hash.h
  kernels::Compute compute = kernels::Compute::kF32;
  kernels::KvType kv_type = kernels::KvType::kF32;
  std::int64_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t vocab = 0, max_positions = 0;
};

struct SequenceState {
  std::vector<std::int32_t> tokens;  // at least one, all inside the vocabulary
  std::string text;                  // UTF-8 is not checked
  // Read-only, in place: they keep the memory. Every position of tokens has its place.
  std::vector<std::shared_ptr<KvBlock>> blocks;
  std::string target;  // the instruction set that the pages were computed for, as the file says
  std::string note;    // not empty: that is another one than this process has
};

// What of a sequence that is saved was loaded.
struct LoadedPart {
  std::int64_t positions = 0;  // the first ones
  std::string_view target;     // SequenceState::target
};

// Writes the file whole or not at all. blocks are those of the tokens, in order. The file says
// which instruction set computed the pages; "mixed" if loaded and new ones come from different
// sets.
Status WriteSequenceState(const std::string& path, const StateFacts& facts,
                          std::span<const std::int32_t> tokens, std::string_view text,
                          std::span<const std::shared_ptr<KvBlock>> blocks,
                          const LoadedPart& loaded = {});

// Maps the file. Everything is checked, the hashes of all bytes too, before anything is used.
// Errors say what was found and what was expected: kDataLoss if the file is damaged,
// kUnsupported for another version of the format or of the pages, kInvalidArgument for another
// model or other options.
Result<SequenceState> OpenSequenceState(const std::string& path, const StateFacts& facts);

// The same for bytes in memory that owner keeps, aligned to 64. Errors name no file.
Result<SequenceState> ParseSequenceState(ByteSpan bytes, std::shared_ptr<const void> owner,
                                         const StateFacts& facts);

}  // namespace hone::runtime
