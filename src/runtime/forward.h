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
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "model/decoder_spec.h"
#include "runtime/kv_cache.h"
#include "runtime/packed_model.h"

namespace hone::runtime {

// Rows that several linears read. Each kind of preparation is made once, when a linear asks first.
class SharedInput {
 public:
  // x is [m, k] and must live until the last use.
  void Set(const float* x, std::int64_t m, std::int64_t k);
  // The input is the rms-norm of x; normed is [m, k] of scratch.
  void SetNormed(const float* x, const float* norm, float epsilon, std::int64_t m, std::int64_t k,
                 float* normed);
  kernels::LinearCall Call(const PackedLinear& linear, float* y, ThreadPool& pool);

 private:
  const float* x_ = nullptr;
  const float* norm_ = nullptr;
  float* normed_ = nullptr;
  float epsilon_ = 0;
  std::int64_t m_ = 0, k_ = 0;
  kernels::PreparedRows plain_, q8_;
  bool plain_ready_ = false, q8_ready_ = false;
};

// Rows of one sequence that are computed together with those of others.
struct ForwardPart {
  KvCache* cache = nullptr;              // has room for them
  std::span<const std::int32_t> tokens;  // ids inside the vocabulary, at least one
  std::int64_t first_position = 0;
  // What the sequence holds after its prompt: frequencies that change with the length follow it.
  std::int64_t length = 0;
  std::int64_t first_logits_row = 0;  // logits of this row and those behind it; tokens.size(): none
};

// One thread at a time. The model must outlive it. Nothing is allocated once the buffers have grown
// to the largest step (but for models whose frequencies follow the length).
class Forward {
 public:
  Forward(const model::DecoderModel& model, const PackedModel& packed, ThreadPool& pool);

  // Rows computed together. Splits only bound the memory of the work buffers: every kernel treats
  // rows independently, so results do not depend on it.
  static constexpr std::int64_t kChunkRows = 256;

  // Runs the rows of all parts (at most kChunkRows, each part of another sequence) and writes their
  // keys and values. logits receives the rows asked for, vocab floats each, in part order; may be
  // null if there are none. kCancelled if cancel became true; it is polled twice a layer.
  Status Run(std::span<const ForwardPart> parts, float* logits, const std::atomic<bool>* cancel);

 private:
  // cos and sin of one rope table, [m, inv_freq.size()] each.
  struct Angles {
    std::int64_t half = 0;
    std::vector<float> cos, sin;
  };
  // Rows of one part that lie in one page of the cache: what one thread ropes and stores.
  struct PageRows {
    std::size_t part = 0;
    std::int64_t row = 0;  // of the batch
    std::int64_t count = 0;
    std::int64_t position = 0;  // of the first row
  };

  void Begin(std::span<const ForwardPart> parts);
  void Resize();
  void Embed(std::span<const ForwardPart> parts);
  void ComputeAngles(std::span<const ForwardPart> parts);
  Status ComputeLogits(float* logits, const std::atomic<bool>* cancel);
  // Runs task for all pages, on several threads where that pays.
  template <typename Task>
  void ForPages(std::int64_t values_per_row, const Task& task);
  // The input of a layer's part: norm(x), or x itself.
  void SetInput(const std::vector<float>& norm);
  // x += residual_multiplier * norm(out_); an empty norm is left out.
  void AddOutput(const std::vector<float>& norm);
  void NormHeads(const std::vector<float>& norm, std::int64_t rows, std::int64_t heads, float* x);
  // Norms and ropes the heads of q_ and k_ and writes k_ and v_ to the caches.
  void FinishHeads(const PackedLayer& layer, std::int64_t layer_idx,
                   std::span<const ForwardPart> parts);
  void KeepWantedRows(std::span<const ForwardPart> parts);
  void RunAttention(const PackedLayer& layer, std::int64_t layer_idx,
                    std::span<const ForwardPart> parts);
  void RunFeedForward(const PackedLayer& layer);

  const model::DecoderModel& model_;
  const model::DecoderSpec& spec_;
  const PackedModel& packed_;
  ThreadPool& pool_;

  std::int64_t m_ = 0;                        // rows of the batch
  std::vector<float> x_;                      // [m, hidden], the residual stream
  std::vector<float> norm_;                   // [m, hidden]
  std::vector<Angles> angles_;                // of spec.ropes
  std::vector<model::RopeTable> for_length_;  // of the parts: one table that follows the length
  std::vector<float> q_;                      // [m, heads, head_dim]
  std::vector<float> k_, v_;                  // [m, kv_heads, head_dim]
  std::vector<float> attended_;               // [m, heads, head_dim]
  std::vector<float> gate_, up_;              // [m, ffn]
  std::vector<float> out_;                    // [m, hidden], of o and down
  std::vector<PageRows> pages_;
  std::vector<kernels::AttentionArgs> attention_;  // of the parts
  kernels::AttentionScratch attention_scratch_;
  SharedInput input_;
};

}  // namespace hone::runtime
