// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/batcher.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace hone::runtime {
namespace {

// Prompts share the rows of a step; a share is not smaller than this.
constexpr std::int64_t kLeastShare = 8;

// What the engine would refuse only when the prompt comes to it.
Status CheckPrompt(const model::DecoderSpec& spec, const BatchRequest& request) {
  for (const std::int32_t id : request.prompt) {
    if (id < 0 || id >= spec.vocab) {
      return Status(Code::kInvalidArgument,
                    StrCat("token id ", id, " is outside the vocabulary of ", spec.vocab));
    }
  }
  const std::int64_t size = request.sequence->size();
  const std::int64_t length = size + static_cast<std::int64_t>(request.prompt.size());
  if (length <= spec.max_positions) return Status();
  return Status(Code::kInvalidArgument,
                StrCat(length, " tokens do not fit: the context holds ", spec.max_positions, " (",
                       size, " are used already)"));
}

}  // namespace

struct Batcher::Request {
  RequestId id = 0;
  BatchRequest ask;
  std::atomic<bool> cancel{false};
  bool checked = false;       // CheckPrompt
  bool asked_prefix = false;  // Engine::ReusePrefix
  bool ended = false;
  std::size_t fed = 0;      // tokens of the prompt that the sequence holds
  std::size_t in_step = 0;  // tokens of the prompt in this step
  std::int32_t next = 0;    // the token to decode
  std::size_t seen = 0;     // tokens of the sequence that the speculator has

  // Gives the speculator what it has not seen yet, next included.
  void ShowText() {
    const std::span<const std::int32_t> tokens = ask.sequence->tokens();
    for (; seen < tokens.size(); ++seen) ask.speculator->Append(tokens[seen]);
    ask.speculator->Append(next);
    ++seen;
  }

  bool decoding() const { return fed == ask.prompt.size(); }
  std::int64_t left() const { return static_cast<std::int64_t>(ask.prompt.size() - fed); }
};

Batcher::Batcher(Engine& engine, BatcherOptions options)
    : engine_(engine),
      options_(std::move(options)),
      may_speculate_(MaySpeculate(engine)),
      policy_(options_.chunks) {
  options_.max_active = std::max<std::int64_t>(options_.max_active, 1);
}

Batcher::~Batcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    for (const auto& [id, request] : live_) request->cancel = true;
    waiting_.insert(waiting_.end(), submitted_.begin(), submitted_.end());
    submitted_.clear();
  }
  EndCancelled();
}

Result<Batcher::RequestId> Batcher::Submit(BatchRequest request) {
  if (request.sequence == nullptr || !request.choose || !request.done) {
    return Status(Code::kInvalidArgument, "a request needs a sequence and both callbacks");
  }
  if (request.prompt.empty()) return Status(Code::kInvalidArgument, "the prompt is empty");
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return Status(Code::kCancelled, "the batcher is going");
  for (const auto& [id, other] : live_) {
    if (other->ask.sequence == request.sequence) {
      return Status(Code::kInvalidArgument,
                    StrCat("the sequence is in request ", id, ", which has not ended"));
    }
  }
  auto added = std::make_shared<Request>();
  added->id = next_id_++;
  added->ask = std::move(request);
  submitted_.reserve(submitted_.size() + 1);  // all or nothing, where memory is short
  live_.emplace(added->id, added);
  submitted_.push_back(added);
  ++load_.waiting;
  wake_.notify_all();
  return added->id;
}

void Batcher::Cancel(RequestId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  found->second->cancel.store(true, std::memory_order_relaxed);
  wake_.notify_all();
}

Batcher::Load Batcher::load() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return load_;
}

void Batcher::Wait(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, timeout, [this] { return !live_.empty(); });
}

double Batcher::Now() const {
  if (options_.clock) return options_.clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The request's callbacks are not called again.
void Batcher::End(Request& request, const Result<FinishReason>& end) {
  request.ended = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.erase(request.id);  // the sequence may be in a new request, from done on
  }
  request.ask.done(end);
}

void Batcher::EndCancelled() {
  for (auto* requests : {&waiting_, &active_}) {
    for (std::size_t i = 0; i < requests->size(); ++i) {
      Request& request = *(*requests)[i];
      if (!request.ended && request.cancel.load(std::memory_order_relaxed)) {
        End(request, FinishReason::kCancelled);
      }
    }
  }
}

void Batcher::ForgetEnded() {
  const auto ended = [](const RequestPtr& request) { return request->ended; };
  std::erase_if(active_, ended);
  std::erase_if(waiting_, ended);
  const std::lock_guard<std::mutex> lock(mutex_);
  load_ = {.waiting = static_cast<std::int64_t>(waiting_.size() + submitted_.size())};
  for (const RequestPtr& request : active_) {
    ++(request->decoding() ? load_.decoding : load_.prefilling);
  }
}

// Takes what was submitted, and lets those who wait in where there is room.
void Batcher::Admit() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.insert(waiting_.end(), submitted_.begin(), submitted_.end());
    submitted_.clear();
  }
  EndCancelled();
  for (const RequestPtr& request : waiting_) {
    if (request->ended || std::exchange(request->checked, true)) continue;
    Status status = CheckPrompt(engine_.spec(), request->ask);
    if (!status.ok()) End(*request, std::move(status));
  }
  ForgetEnded();
  const auto room = options_.max_active - static_cast<std::int64_t>(active_.size());
  const auto count = std::clamp<std::int64_t>(room, 0, static_cast<std::int64_t>(waiting_.size()));
  active_.insert(active_.end(), waiting_.begin(), waiting_.begin() + count);
  waiting_.erase(waiting_.begin(), waiting_.begin() + count);
}

// Equal shares, the shortest rests first, so that what they do not need is left for the others. The
// order among equals moves on by one each step: rows that cannot be shared evenly go round.
void Batcher::AddPromptRows(std::int64_t rows) {
  prompts_.clear();
  for (const RequestPtr& request : active_) {
    if (!request->decoding()) prompts_.push_back(request.get());
  }
  if (prompts_.empty() || rows <= 0) return;
  const std::size_t first = turn_++ % prompts_.size();
  std::rotate(prompts_.begin(), prompts_.begin() + static_cast<std::ptrdiff_t>(first),
              prompts_.end());
  // Who has a share at all, when there are more prompts than shares.
  const auto served =
      std::clamp<std::int64_t>(rows / kLeastShare, 1, static_cast<std::int64_t>(prompts_.size()));
  prompts_.resize(static_cast<std::size_t>(served));
  // Not earlier: meanwhile others may have computed more of it.
  for (Request* request : prompts_) {
    if (std::exchange(request->asked_prefix, true) || request->ask.sequence->size() > 0) continue;
    request->fed =
        static_cast<std::size_t>(engine_.ReusePrefix(*request->ask.sequence, request->ask.prompt));
    if (request->fed > 0 && request->ask.reused) {
      request->ask.reused(static_cast<std::int64_t>(request->fed));
    }
  }
  std::stable_sort(prompts_.begin(), prompts_.end(),
                   [](const Request* a, const Request* b) { return a->left() < b->left(); });
  std::int64_t shares = served;
  for (Request* request : prompts_) {
    const std::int64_t count = std::min(request->left(), rows / shares--);
    rows -= count;
    if (count == 0) continue;
    request->in_step = static_cast<std::size_t>(count);
    step_.parts.push_back({.sequence = request->ask.sequence,
                           .tokens = std::span<const std::int32_t>(request->ask.prompt)
                                         .subspan(request->fed, request->in_step),
                           .more = request->left() - count});
    in_step_.push_back(request);
    prompt_rows_ += count;
  }
}

void Batcher::BuildStep() {
  step_.parts.clear();
  in_step_.clear();
  decode_rows_ = prompt_rows_ = 0;
  bool prompts = false;
  for (const RequestPtr& request : active_) {
    if (!request->decoding()) {
      prompts = true;
      continue;
    }
    step_.parts.push_back({.sequence = request->ask.sequence, .tokens = {&request->next, 1}});
    in_step_.push_back(request.get());
    ++decode_rows_;
  }
  if (prompts) AddPromptRows(policy_.PromptRows(decode_rows_));
}

void Batcher::Advance(Request& request, std::span<const float> logits) {
  request.fed += std::exchange(request.in_step, 0);
  if (!logits.empty()) Take(request, request.ask.choose(logits, request.ask.sequence->tokens()));
}

// The request has what it asked for: its next token, or its end. Who cannot be in the next step
// ends here: the engine would refuse the step for everyone.
void Batcher::Take(Request& request, std::optional<std::int32_t> next) {
  const model::DecoderSpec& spec = engine_.spec();
  if (!next) {
    End(request, FinishReason::kStop);
  } else if (*next < 0 || *next >= spec.vocab) {
    End(request,
        Status(Code::kInvalidArgument, StrCat("the chosen token id ", *next,
                                              " is outside the vocabulary of ", spec.vocab)));
  } else if (request.ask.sequence->size() >= spec.max_positions) {
    End(request, FinishReason::kLength);
  } else {
    request.next = *next;
  }
}

// Of a request that decodes while nobody else runs: rows of guessed tokens hold up nobody.
Speculator* Batcher::LoneSpeculator() const {
  if (!may_speculate_ || active_.size() != 1 || decode_rows_ != 1) return nullptr;
  return active_[0]->ask.speculator;
}

// Runs the next token together with guessed ones behind it. False: nothing has happened, and a
// plain step must follow.
bool Batcher::RunDraft() {
  Speculator* const speculator = LoneSpeculator();
  if (speculator == nullptr) return false;
  Request& request = *in_step_[0];
  request.ShowText();
  Sequence* const sequence = request.ask.sequence;
  const std::span<const std::int32_t> draft =
      speculator->Propose(engine_.spec().max_positions - sequence->size() - 1);
  if (draft.empty()) return false;
  draft_rows_.assign(1, request.next);
  draft_rows_.insert(draft_rows_.end(), draft.begin(), draft.end());
  const double start = Now();
  ++engine_runs_;
  const Status status =
      engine_.Run(runtime::Step{{StepPart{sequence, draft_rows_, /*all_logits=*/true}}}, &logits_,
                  &request.cancel);
  if (!status.ok()) {
    // Memory for one row may be there although that for all is not.
    request.ask.speculator = nullptr;
    return false;
  }
  speculator->CountStep(Now() - start);
  ++counts_.steps;
  counts_.drafted += static_cast<std::int64_t>(draft.size());
  AcceptDraft(request, draft);
  return true;
}

// Chooses from one row after the other as if it had come alone, as long as the guessed token is the
// chosen one. The rows behind are cut off.
void Batcher::AcceptDraft(Request& request, std::span<const std::int32_t> draft) {
  Sequence& sequence = *request.ask.sequence;
  const auto vocab = static_cast<std::size_t>(engine_.spec().vocab);
  auto certain = static_cast<std::size_t>(sequence.size()) - draft.size();
  std::size_t row = 0;
  std::optional<std::int32_t> next;
  while (true) {
    next = request.ask.choose(std::span<const float>(logits_).subspan(row * vocab, vocab),
                              sequence.tokens().first(certain));
    if (row == draft.size() || next != draft[row]) break;
    if (request.cancel.load(std::memory_order_relaxed)) break;
    ++row;
    ++certain;
  }
  sequence.Truncate(static_cast<std::int64_t>(certain));
  request.ask.speculator->CountAccepted(static_cast<int>(row));
  counts_.accepted += static_cast<std::int64_t>(row);
  Take(request, next);
}

Status Batcher::RunTogether() {
  // A request that is alone can be stopped within the step.
  const std::atomic<bool>* cancel = in_step_.size() == 1 ? &in_step_[0]->cancel : nullptr;
  Speculator* const speculator = LoneSpeculator();
  const double start = Now();
  ++engine_runs_;
  HONE_TRY(engine_.Run(step_, &logits_, cancel));
  const double seconds = Now() - start;
  policy_.Record(decode_rows_, prompt_rows_, seconds);
  if (speculator != nullptr) speculator->CountStep(seconds);
  const auto vocab = static_cast<std::size_t>(engine_.spec().vocab);
  std::size_t row = 0;
  for (std::size_t i = 0; i < in_step_.size(); ++i) {
    std::span<const float> logits;
    if (step_.parts[i].more == 0) logits = std::span(logits_).subspan(vocab * row++, vocab);
    Advance(*in_step_[i], logits);
  }
  return Status();
}

// After a failure: the parts that fail alone are to blame.
void Batcher::RunOneByOne() {
  for (std::size_t i = 0; i < in_step_.size(); ++i) {
    Request& request = *in_step_[i];
    const runtime::Step alone{{step_.parts[i]}};
    ++engine_runs_;
    Status status = engine_.Run(alone, &logits_, &request.cancel);
    if (status.ok()) {
      Advance(request, step_.parts[i].more > 0 ? std::span<const float>() : logits_);
    } else if (status.code() == Code::kCancelled) {
      End(request, FinishReason::kCancelled);
    } else {
      End(request, std::move(status));
    }
  }
}

bool Batcher::Step() {
  Admit();
  BuildStep();
  if (step_.parts.empty()) return false;
  if (!RunDraft() && !RunTogether().ok()) RunOneByOne();
  EndCancelled();
  ForgetEnded();
  return true;
}

}  // namespace hone::runtime
