// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The forward pass with kernels and a cache. Its twin is model/reference_forward.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/linear.h"
#include "model/decoder_spec.h"
#include "runtime/kv_cache.h"
#include "runtime/packed_model.h"

namespace hone::runtime {

// Rows that several linears read. Each kind of preparation is made once, when a linear asks first.
class SharedInput {
 public:
  void Set(const float* x, std::int64_t m, std::int64_t k);
  const kernels::PreparedRows& For(const PackedLinear& linear, ThreadPool& pool);

 private:
  const float* x_ = nullptr;
  std::int64_t m_ = 0, k_ = 0;
  kernels::PreparedRows plain_, q8_;
  bool plain_ready_ = false, q8_ready_ = false;
};

// One thread at a time. The model must outlive it.
class Forward {
 public:
  Forward(const model::DecoderModel& model, const PackedModel& packed, ThreadPool& pool);

  // Rows computed together. Splits only bound the memory of the work buffers: every kernel treats
  // rows independently, so results do not depend on it.
  static constexpr std::int64_t kChunkRows = 256;

  // Runs tokens (at most kChunkRows, ids inside the vocabulary) at positions first_position .. and
  // writes their keys and values; the cache has room for them. length is what the sequence holds
  // after the whole step: frequencies that change with the length follow it. logits receives the
  // rows [first_logits_row, tokens.size()), vocab floats each; may be null if there are none.
  // kCancelled if cancel became true before a layer.
  Status Run(std::span<const std::int32_t> tokens, std::int64_t first_position, std::int64_t length,
             KvCache& cache, std::int64_t first_logits_row, float* logits,
             const std::atomic<bool>* cancel);

 private:
  // cos and sin of one rope table, [m, inv_freq.size()] each.
  struct Angles {
    std::int64_t half = 0;
    std::vector<float> cos, sin;
  };

  void Resize(std::int64_t m);
  void Embed(std::span<const std::int32_t> tokens);
  void ComputeAngles(std::int64_t first_position, std::int64_t m, std::int64_t length);
  void ComputeLogits(std::int64_t first_row, std::int64_t rows, float* logits);
  // The input of a layer's part: norm(x), or x itself.
  void SetInput(const std::vector<float>& norm, std::int64_t m);
  // x += residual_multiplier * norm(out_); an empty norm is left out.
  void AddOutput(const std::vector<float>& norm, std::int64_t m);
  void NormHeads(const std::vector<float>& norm, std::int64_t m, std::int64_t heads, float* x);
  void RunAttention(const PackedLayer& layer, std::int64_t layer_idx, std::int64_t m,
                    std::int64_t first_position, KvCache& cache);
  void RunFeedForward(const PackedLayer& layer, std::int64_t m);

  const model::DecoderModel& model_;
  const model::DecoderSpec& spec_;
  const PackedModel& packed_;
  ThreadPool& pool_;

  std::vector<float> x_;          // [m, hidden], the residual stream
  std::vector<float> norm_;       // [m, hidden]
  std::vector<Angles> angles_;    // of spec.ropes
  std::vector<float> q_;          // [m, heads, head_dim]
  std::vector<float> k_, v_;      // [m, kv_heads, head_dim]
  std::vector<float> attended_;   // [m, heads, head_dim]
  std::vector<float> gate_, up_;  // [m, ffn]
  std::vector<float> out_;        // [m, hidden], of o and down
  SharedInput input_;
};

}  // namespace hone::runtime
