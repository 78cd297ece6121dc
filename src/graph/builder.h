// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A decoder as TFLite graphs: the same mathematics as model/reference_forward.cc, for a fixed
// number of tokens and a cache that the caller holds. See docs/formats/graph.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/ir.h"
#include "model/decoder_spec.h"
#include "quant/recipe.h"

namespace hone::graph {

struct BuildOptions {
  std::int64_t context = 0;           // positions of the cache
  std::vector<std::int64_t> prefill;  // lengths, each in [1, context], no length twice
  bool half_cache = false;            // the caches are float16
};

// The lengths to build from the lengths that were asked for: those up to the context, once each,
// longest first. kInvalidArgument if one is not positive or none is left.
Result<std::vector<std::int64_t>> PrefillLadder(const std::vector<std::int64_t>& lengths,
                                                std::int64_t context);

// Signatures prefill_{L} in the order of options.prefill, then decode. Weights are named, not
// copied. Ropes are used as they are: none may have by_length left. kUnsupported if a dimension
// does not fit in 32 bits.
Result<Graph> BuildDecoder(const model::DecoderModel& model, const quant::Resolved& schemes,
                           const BuildOptions& options);

// Token ids to embeddings: decode_embedder, then prefill_embedder_{L} in the order of
// options.prefill.
Result<Graph> BuildEmbedder(const model::DecoderModel& model, const quant::Resolved& schemes,
                            const BuildOptions& options);

// "kv_cache_k_3" and "kv_cache_v_3".
std::string KeyCacheName(std::int64_t layer);
std::string ValueCacheName(std::int64_t layer);

}  // namespace hone::graph
