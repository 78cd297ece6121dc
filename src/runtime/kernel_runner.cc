// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_runner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/forward.h"
#include "runtime/kv_cache.h"
#include "runtime/packed_model.h"

namespace hone::runtime {
namespace {

class KernelSequence : public SequenceRunner {
 public:
  KernelSequence(const model::DecoderSpec& spec, kernels::KvType kv_type,
                 std::shared_ptr<KvPool> pool)
      : cache_(kv_type, spec.num_layers, spec.num_kv_heads, spec.head_dim, std::move(pool)) {}

  void Truncate(std::int64_t size) override { cache_.Shrink(size); }
  KvCache* kv_cache() override { return &cache_; }
  KvCache& cache() { return cache_; }

 private:
  KvCache cache_;
};

class KernelRunner : public StepRunner {
 public:
  KernelRunner(const model::DecoderModel& model, PackedModel packed, kernels::KvType kv_type,
               ThreadPool& pool)
      : spec_(model.spec),
        packed_(std::move(packed)),
        forward_(model, packed_, pool),
        kv_type_(kv_type),
        pages_(KvPool::Make(
            KvCache::BlockBytes(kv_type, spec_.num_layers, spec_.num_kv_heads, spec_.head_dim))) {}

  Result<std::unique_ptr<SequenceRunner>> NewSequence() override {
    return std::unique_ptr<SequenceRunner>(new KernelSequence(spec_, kv_type_, pages_));
  }

  // The rows of all parts, one part after another, are cut into chunks: a chunk may hold the end of
  // one part and the beginning of the next.
  Status Run(std::span<const SequenceRows> parts, float* logits,
             const std::atomic<bool>* cancel) override {
    std::int64_t left = 0;
    for (const SequenceRows& rows : parts) left += static_cast<std::int64_t>(rows.tokens.size());
    std::size_t part = 0;
    std::int64_t done = 0;  // rows of that part
    while (left > 0) {
      const std::int64_t room = ChunkRows(left);
      left -= room;
      const std::int64_t wanted = FillChunk(parts, room, part, done);
      // Chunk by chunk: the pages of a long prompt take long to get, and a cancel would wait.
      for (const ForwardPart& rows : chunk_) {
        HONE_TRY(rows.cache->Reserve(rows.first_position +
                                     static_cast<std::int64_t>(rows.tokens.size())));
      }
      HONE_TRY(forward_.Run(chunk_, logits, cancel));
      if (wanted > 0) logits += wanted * spec_.vocab;
    }
    return Status();
  }

  std::vector<std::string> KernelNames() const override {
    std::vector<std::string> names;
    const auto add = [&](const PackedLinear& packed) {
      const std::string name = packed.linear.kernel_name();
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const PackedLayer& layer : packed_.layers) {
      for (const PackedLinear* linear :
           {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
        add(*linear);
      }
    }
    add(packed_.head);
    return names;
  }

 private:
  static KvCache& Cache(const SequenceRows& rows) {
    return static_cast<KernelSequence&>(*rows.sequence).cache();
  }

  // Chunks of about the same size: one of a few rows costs nearly as much as one of many.
  static std::int64_t ChunkRows(std::int64_t left) {
    constexpr std::int64_t kTile = 16;
    const std::int64_t chunks = (left + Forward::kChunkRows - 1) / Forward::kChunkRows;
    const std::int64_t even = (left + chunks - 1) / chunks;
    return std::min({left, (even + kTile - 1) / kTile * kTile, Forward::kChunkRows});
  }

  // The next rows, from row `done` of `part` on, both of which move on. Returns how many of them
  // have logits that are asked for.
  std::int64_t FillChunk(std::span<const SequenceRows> parts, std::int64_t num_rows,
                         std::size_t& part, std::int64_t& done) {
    chunk_.clear();
    std::int64_t wanted = 0;
    while (num_rows > 0) {
      const SequenceRows& rows = parts[part];
      const auto size = static_cast<std::int64_t>(rows.tokens.size());
      const std::int64_t count = std::min(num_rows, size - done);
      const std::int64_t first_wanted =
          std::clamp<std::int64_t>(rows.first_logits_row - done, 0, count);
      chunk_.push_back({.cache = &Cache(rows),
                        .tokens = rows.tokens.subspan(static_cast<std::size_t>(done),
                                                      static_cast<std::size_t>(count)),
                        .first_position = rows.first_position + done,
                        .length = rows.length,
                        .first_logits_row = first_wanted});
      wanted += count - first_wanted;
      num_rows -= count;
      done += count;
      if (done == size) {
        ++part;
        done = 0;
      }
    }
    return wanted;
  }

  const model::DecoderSpec& spec_;
  PackedModel packed_;
  Forward forward_;
  kernels::KvType kv_type_;
  std::shared_ptr<KvPool> pages_;
  std::vector<ForwardPart> chunk_;
};

}  // namespace

Result<std::unique_ptr<StepRunner>> MakeKernelRunner(const model::DecoderModel& model,
                                                     kernels::Compute compute,
                                                     kernels::KvType kv_type, ThreadPool& pool,
                                                     const std::function<void(ByteSpan)>& release) {
  HONE_ASSIGN(PackedModel packed, PackModel(model, compute, pool, release));
  return std::unique_ptr<StepRunner>(new KernelRunner(model, std::move(packed), kv_type, pool));
}

}  // namespace hone::runtime
