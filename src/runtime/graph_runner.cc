// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_runner.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace hone::runtime {
namespace {

Status CheckCancel(const std::atomic<bool>* cancel) {
  const bool cancelled = cancel != nullptr && cancel->load(std::memory_order_relaxed);
  return cancelled ? Status(Code::kCancelled, "cancelled") : Status();
}

class BundleGraph : public StepRunner {
 public:
  BundleGraph(std::shared_ptr<const formats::litertlm::Bundle> bundle,
              std::unique_ptr<executor::BundleRunner> first)
      : bundle_(std::move(bundle)), vocab_(first->vocab()), first_(std::move(first)) {}

  Result<std::unique_ptr<SequenceRunner>> NewSequence() override {
    std::unique_ptr<executor::BundleRunner> graph;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      graph = std::move(first_);
    }
    if (graph == nullptr) {
      HONE_ASSIGN(graph, executor::BundleRunner::Open(bundle_));
    }
    return std::unique_ptr<SequenceRunner>(new GraphSequence(std::move(graph)));
  }

  // One part after another.
  Status Run(std::span<const SequenceRows> parts, float* logits,
             const std::atomic<bool>* cancel) override {
    for (const SequenceRows& rows : parts) {
      HONE_TRY(static_cast<GraphSequence&>(*rows.sequence).Run(rows, logits, cancel));
      const std::int64_t wanted =
          static_cast<std::int64_t>(rows.tokens.size()) - rows.first_logits_row;
      if (logits != nullptr) logits += wanted * vocab_;
    }
    return Status();
  }

 private:
  std::shared_ptr<const formats::litertlm::Bundle> bundle_;
  std::int64_t vocab_;
  // Opened to see that it can be run; the first sequence takes it.
  std::unique_ptr<executor::BundleRunner> first_;
  std::mutex mutex_;
};

}  // namespace

GraphSequence::GraphSequence(std::unique_ptr<executor::BundleRunner> graph)
    : graph_(std::move(graph)) {}

Status GraphSequence::Run(const SequenceRows& rows, float* logits,
                          const std::atomic<bool>* cancel) {
  const auto num_tokens = static_cast<std::int64_t>(rows.tokens.size());
  std::int64_t done = 0;
  while (done < std::min(rows.first_logits_row, num_tokens)) {
    HONE_TRY(CheckCancel(cancel));
    const std::int64_t left = std::min(rows.first_logits_row, num_tokens) - done;
    const std::int64_t length = ChooseLength(left);
    const std::int64_t count = length > 0 ? std::min(length, left) : 1;
    const auto part =
        rows.tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count));
    if (length > 0) {
      HONE_TRY(graph_->Prefill(length, part, cancel));
    } else {
      HONE_TRY(Decode(part[0], nullptr, cancel));
    }
    done += count;
  }
  for (float* out = logits; done < num_tokens; ++done, out += graph_->vocab()) {
    HONE_TRY(CheckCancel(cancel));
    HONE_TRY(Decode(rows.tokens[static_cast<std::size_t>(done)], out, cancel));
  }
  return Status();
}

void GraphSequence::Truncate(std::int64_t size) {
  if (size < graph_->size()) graph_->Truncate(size);
}

// The prefill signature for the next of `left` tokens; 0: none. One that pads past the end of the
// cache would write over its last positions.
std::int64_t GraphSequence::ChooseLength(std::int64_t left) const {
  std::int64_t chosen = 0;
  for (const std::int64_t length : graph_->prefill_lengths()) {  // longest first
    if (graph_->size() + length > graph_->context()) continue;
    if (length >= left || chosen == 0) chosen = length;
    if (length <= left) break;
  }
  return chosen;
}

Status GraphSequence::Decode(std::int32_t id, float* out, const std::atomic<bool>* cancel) {
  HONE_ASSIGN(const std::vector<float> logits, graph_->Decode(id, cancel));
  if (static_cast<std::int64_t>(logits.size()) != graph_->vocab()) {
    return Status(Code::kUnsupported, StrCat("the decode signature gave ", logits.size(),
                                             " logits, expected ", graph_->vocab()));
  }
  if (out != nullptr) std::copy(logits.begin(), logits.end(), out);
  return Status();
}

Result<GraphRunner> MakeGraphRunner(std::shared_ptr<const formats::litertlm::Bundle> bundle) {
  HONE_ASSIGN(auto first, executor::BundleRunner::Open(bundle));
  GraphRunner out;
  out.context = first->context();
  out.vocab = first->vocab();
  out.runner = std::make_unique<BundleGraph>(std::move(bundle), std::move(first));
  return out;
}

}  // namespace hone::runtime
