// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_runner.h"

#include <algorithm>
#include <utility>

#include "runtime/forward.h"
#include "runtime/kv_cache.h"
#include "runtime/packed_model.h"

namespace hone::runtime {
namespace {

class KernelSequence : public SequenceRunner {
 public:
  KernelSequence(const model::DecoderSpec& spec, Forward& forward, kernels::KvType kv_type)
      : vocab_(spec.vocab),
        forward_(forward),
        cache_(kv_type, spec.num_layers, spec.num_kv_heads, spec.head_dim) {}

  Status Run(const StepRows& rows, const std::atomic<bool>* cancel) override {
    const auto num_tokens = static_cast<std::int64_t>(rows.tokens.size());
    const std::int64_t length = rows.first_position + num_tokens;
    HONE_TRY(cache_.Reserve(length));
    for (std::int64_t begin = 0; begin < num_tokens; begin += Forward::kChunkRows) {
      const std::int64_t count = std::min(Forward::kChunkRows, num_tokens - begin);
      const std::int64_t first_row =
          std::clamp<std::int64_t>(rows.first_logits_row - begin, 0, count);
      float* out = nullptr;
      if (first_row < count) {
        out = rows.logits + (begin + first_row - rows.first_logits_row) * vocab_;
      }
      HONE_TRY(forward_.Run(
          rows.tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
          rows.first_position + begin, length, cache_, first_row, out, cancel));
    }
    return Status();
  }

  void Truncate(std::int64_t size) override { cache_.Shrink(size); }

 private:
  std::int64_t vocab_;
  Forward& forward_;
  KvCache cache_;
};

class KernelRunner : public StepRunner {
 public:
  KernelRunner(const model::DecoderModel& model, PackedModel packed, kernels::KvType kv_type,
               ThreadPool& pool)
      : spec_(model.spec),
        packed_(std::move(packed)),
        forward_(model, packed_, pool),
        kv_type_(kv_type) {}

  Result<std::unique_ptr<SequenceRunner>> NewSequence() override {
    return std::unique_ptr<SequenceRunner>(new KernelSequence(spec_, forward_, kv_type_));
  }

 private:
  const model::DecoderSpec& spec_;
  PackedModel packed_;
  Forward forward_;
  kernels::KvType kv_type_;
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
