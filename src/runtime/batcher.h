// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Continuous batching: requests join and leave at any step; one step decodes a token of every
// running sequence and carries on the prompts that wait.
//
//   Batcher batcher(engine);
//   auto id = batcher.Submit({.sequence = &sequence, .prompt = ids, .choose = ..., .done = ...});
//   while (serving) {                          // one thread drives
//     if (!batcher.Step()) batcher.Wait(100ms);
//   }
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "runtime/chunk_policy.h"
#include "runtime/decode_loop.h"
#include "runtime/draft.h"
#include "runtime/engine.h"

namespace hone::runtime {

// Callbacks run on the thread that calls Step; they may call Submit and Cancel, and must not throw.
struct BatchRequest {
  // Must live, and be left alone, until done is called. It may hold tokens already: the prompt goes
  // on from there. An empty one first takes what Engine::ReusePrefix knows of the prompt.
  Sequence* sequence = nullptr;
  std::vector<std::int32_t> prompt = {};  // at least one token
  // Gets the logits [vocab] behind history, all tokens so far, and says which token comes next;
  // nullopt ends the request. The token is fed back in the next step. The spans are valid during
  // the call, in which the sequence may hold guessed tokens behind history. It is called for the
  // last position of the context too: that token is not fed back, and the request ends with
  // kLength.
  std::function<std::optional<std::int32_t>(std::span<const float> logits,
                                            std::span<const std::int32_t> history)>
      choose = {};
  // Called once, last, with the words of Generate: kStop after choose ended the request, kLength
  // when the context is full, kCancelled; or why it cannot go on (kInvalidArgument: choose gave an
  // id outside the vocabulary). The sequence then holds what was computed: after a cancel maybe a
  // part of the prompt.
  std::function<void(const Result<FinishReason>& end)> done = {};
  // May be empty. Called at most once, before the prompt runs, if Engine::ReusePrefix gave
  // something: so many tokens are not computed anew.
  std::function<void(std::int64_t tokens)> reused = {};
  // May be null. Guesses tokens while the request decodes alone, so that nobody waits for them; the
  // answer is the same, and choose is called several times in a step. The batcher appends the
  // sequence's tokens and the chosen ones; it may hold text before, which the answer may repeat. It
  // must live, and be left alone, until done is called. Has no effect where MaySpeculate says no.
  Speculator* speculator = nullptr;
};

struct BatcherOptions {
  // Sequences in prefill or decode, at least 1; others wait in order.
  std::int64_t max_active = 64;
  ChunkPolicyOptions chunks = {};
  std::function<double()> clock = {};  // seconds; empty: the steady clock
};

// What a request generates is what it would generate alone, whoever else runs.
class Batcher {
 public:
  using RequestId = std::uint64_t;

  struct Load {
    std::int64_t waiting = 0, prefilling = 0, decoding = 0;
  };

  // The engine must outlive the batcher and run nothing else during Step.
  explicit Batcher(Engine& engine, BatcherOptions options = {});
  // Ends what is left with FinishReason::kCancelled.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // From any thread. kInvalidArgument: something is missing, or the sequence is in a request
  // already; kCancelled: the batcher is
  // going. What the engine refuses (ids outside the vocabulary, a prompt too long) comes with
  // done.
  Result<RequestId> Submit(BatchRequest request);
  // From any thread. The request ends within one step; the others go on. Nothing happens if it has
  // ended.
  void Cancel(RequestId id);
  // From any thread.
  Load load() const;

  // One step, on one thread. False if there was nothing to do.
  bool Step();
  // How often the engine ran: once a Step, and more often only in a step that fails. On the thread
  // that calls Step.
  std::int64_t engine_runs() const { return engine_runs_; }
  // Of all requests. On the thread that calls Step.
  const SpeculationCounts& speculation() const { return counts_; }
  // Waits until there is something to do, at most this long.
  void Wait(std::chrono::milliseconds timeout);

 private:
  struct Request;
  using RequestPtr = std::shared_ptr<Request>;

  void Admit();
  void EndCancelled();
  void BuildStep();
  void AddPromptRows(std::int64_t rows);
  Speculator* LoneSpeculator() const;
  bool RunDraft();
  void AcceptDraft(Request& request, std::span<const std::int32_t> draft);
  Status RunTogether();
  void RunOneByOne();
  void Advance(Request& request, std::span<const float> logits);
  void Take(Request& request, std::optional<std::int32_t> next);
  void End(Request& request, const Result<FinishReason>& end);
  void ForgetEnded();
  double Now() const;

  Engine& engine_;
  BatcherOptions options_;
  const bool may_speculate_;
  ChunkPolicy policy_;

  mutable std::mutex mutex_;  // guards the following six
  bool closed_ = false;
  std::condition_variable wake_;
  std::vector<RequestPtr> submitted_;
  std::unordered_map<RequestId, RequestPtr> live_;
  RequestId next_id_ = 1;
  Load load_;

  // Of the thread that calls Step.
  std::vector<RequestPtr> waiting_;  // not yet begun, in order
  std::vector<RequestPtr> active_;   // in order of their beginning
  std::size_t turn_ = 0;             // who is served first among prompts
  std::vector<Request*> in_step_;    // of step_.parts
  runtime::Step step_;
  std::int64_t decode_rows_ = 0, prompt_rows_ = 0;
  std::int64_t engine_runs_ = 0;
  SpeculationCounts counts_;
  std::vector<std::int32_t> draft_rows_;  // scratch of RunDraft
  std::vector<float> logits_;
  std::vector<Request*> prompts_;  // scratch of AddPromptRows
};

}  // namespace hone::runtime
