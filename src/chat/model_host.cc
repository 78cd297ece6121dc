// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/model_host.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <random>
#include <tuple>
#include <utility>

namespace hone::chat {
namespace {

// Rows of a prompt that is scored while others wait for their next token.
constexpr std::int64_t kScoreRowsBetween = 8;

std::uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

RequestError Invalid(RequestPart part, std::string message) {
  return {.kind = RequestError::Kind::kInvalid,
          .part = part,
          .code = Code::kInvalidArgument,
          .message = std::move(message)};
}

}  // namespace

struct ModelHost::Choice {
  enum class State : std::uint8_t { kWaiting, kScoring, kAnswering, kEnding, kEnded };

  std::int64_t index = 0;
  std::size_t prompt = 0;
  bool leads = false;  // the first of its prompt; the others wait until the prompt is computed
  State state = State::kWaiting;
  bool computed = false;  // its first logits came
  std::int64_t cached = 0;
  std::int64_t counted = 0;  // tokens of the prompt in HostStats::prefill_rows, or cached
  std::unique_ptr<runtime::Sequence> sequence = nullptr;
  std::unique_ptr<Answer> answer = nullptr;
  std::unique_ptr<runtime::Speculator> speculator = nullptr;
};

struct ModelHost::Running {
  struct PromptState {
    bool computed = false;
    std::int64_t done_tokens = 0;                    // for progress
    std::unique_ptr<PromptScorer> scorer = nullptr;  // with echo and log-probabilities
    std::int64_t echoes = 0;                         // that were sent
    std::vector<std::int32_t> prediction = {};       // a draft of the answer
  };

  // The first choice that may begin; null if there is none.
  Choice* Next() {
    if (cancel.load(std::memory_order_relaxed)) return nullptr;
    for (Choice& choice : choices) {
      if (choice.state == Choice::State::kWaiting &&
          (choice.leads || prompts[choice.prompt].computed)) {
        return &choice;
      }
    }
    return nullptr;
  }
  AnswerOptions Options(const Choice& choice) const {
    AnswerOptions options = ask.answer;
    options.plan = ask.prompts[choice.prompt].plan;
    options.sampler.seed += static_cast<std::uint64_t>(choice.index % ask.n);
    return options;
  }
  const std::vector<std::int32_t>& Ids(const Choice& choice) const {
    return ask.prompts[choice.prompt].ids;
  }

  JobId id = 0;
  Job ask;
  std::atomic<bool> cancel{false};
  // Guarded by the host's mutex. There is room for one of each choice.
  std::vector<runtime::Batcher::RequestId> requests;
  std::vector<PromptState> prompts;
  std::vector<Choice> choices;
  Status error;  // of the model
  JobUsage usage;
  double submitted = 0, last_progress = 0;  // seconds of the clock
  std::uint64_t turn = 0;                   // of its coming, or of its last beginning
  std::size_t places = 0, ended = 0;        // choices
  std::size_t computed = 0;                 // prompts
  std::int64_t total_tokens = 0;            // of the prompts
};

ModelHost::ModelHost(std::unique_ptr<runtime::Engine> engine, HostOptions options)
    : options_(std::move(options)),
      engine_(std::move(engine)),
      model_(*engine_,
             options_.tool_family.empty() ? engine_->text().tool_family : options_.tool_family),
      batcher_(*engine_, {.max_active = options_.max_parallel,
                          .chunks = options_.chunks,
                          .clock = options_.clock}) {
  options_.max_parallel = std::max<std::int64_t>(options_.max_parallel, 1);
  options_.max_queue = std::max<std::int64_t>(options_.max_queue, 0);
  thread_ = std::thread([this] { Drive(); });
}

ModelHost::~ModelHost() { Stop(); }

double ModelHost::Now() const {
  if (options_.clock) return options_.clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

RequestStatus ModelHost::CheckJob(const Job& job) const {
  if (job.prompts.empty() || job.n < 1 || job.sink == nullptr) {
    return Invalid(RequestPart::kNone, "a job needs a prompt, a choice and a sink");
  }
  for (const Prompt& prompt : job.prompts) {
    if (prompt.ids.empty()) return Invalid(RequestPart::kPrompt, "the prompt is empty");
    const auto size = static_cast<std::int64_t>(prompt.ids.size());
    if (size > model_.context()) {
      return RequestError{
          .kind = RequestError::Kind::kContext,
          .part = RequestPart::kPrompt,
          .code = Code::kInvalidArgument,
          .message = StrCat(size, " tokens do not fit into the context of ", model_.context()),
          .n_prompt = size,
          .n_ctx = model_.context()};
    }
    for (const std::int32_t id : prompt.ids) {
      if (id < 0 || id >= model_.vocab()) {
        return Invalid(RequestPart::kPrompt,
                       StrCat("token id ", id, " is outside the vocabulary of ", model_.vocab()));
      }
    }
  }
  return CheckAnswerOptions(model_, job.answer);
}

Submission ModelHost::RefusalLocked() const {
  if (stats_.draining) return {.refusal = Refusal::kDraining};
  const std::int64_t free =
      std::max<std::int64_t>(options_.max_parallel - stats_.active_sequences, 0);
  if (stats_.waiting_jobs - free >= options_.max_queue) {
    return {.refusal = Refusal::kQueueFull, .waiting = stats_.waiting_jobs};
  }
  return {};
}

Submission ModelHost::Check() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return RefusalLocked();
}

Submission ModelHost::Submit(Job job) {
  RequestStatus checked = CheckJob(job);
  if (!checked.ok()) return {.refusal = Refusal::kRequest, .error = checked.error()};
  auto running = std::make_shared<Running>();
  running->prompts.resize(job.prompts.size());
  running->choices.resize(job.prompts.size() * static_cast<std::size_t>(job.n));
  running->requests.reserve(running->choices.size());
  for (std::size_t i = 0; i < running->choices.size(); ++i) {
    Choice& choice = running->choices[i];
    choice.index = static_cast<std::int64_t>(i);
    choice.prompt = i / static_cast<std::size_t>(job.n);
    choice.leads = i % static_cast<std::size_t>(job.n) == 0;
  }
  for (std::size_t i = 0; i < job.prompts.size(); ++i) {
    running->total_tokens += static_cast<std::int64_t>(job.prompts[i].ids.size());
    running->prompts[i].prediction = PredictionIds(job.prompts[i]);
  }
  if (job.random_seed) job.answer.sampler.seed = RandomSeed();
  running->ask = std::move(job);
  running->submitted = running->last_progress = Now();
  const std::lock_guard<std::mutex> lock(mutex_);
  Submission result = RefusalLocked();
  if (!result.ok()) {
    ++stats_.refused;
    return result;
  }
  result.id = running->id = next_id_++;
  ++stats_.waiting_jobs;
  live_.emplace(result.id, running);
  submitted_.push_back(std::move(running));
  wake_.notify_all();
  return result;
}

bool ModelHost::speculates() const {
  return options_.speculation != runtime::Speculation::kOff && runtime::MaySpeculate(*engine_);
}

// As the answer may contain it: no control tokens, and no more than fits into the context. What
// cannot be tokenized is no draft.
std::vector<std::int32_t> ModelHost::PredictionIds(const Prompt& prompt) const {
  if (prompt.plan.prediction.empty() || !speculates() || !model_.text().tokenizer) return {};
  auto ids =
      model_.text().tokenizer->Encode(prompt.plan.prediction, {.parse_special_tokens = false});
  if (!ids.ok()) return {};
  ids->resize(std::min(ids->size(), static_cast<std::size_t>(model_.context())));
  return *std::move(ids);
}

std::unique_ptr<runtime::Speculator> ModelHost::MakeSpeculator(const Running& job,
                                                               const Choice& choice) const {
  if (!speculates()) return nullptr;
  const std::vector<std::int32_t>& prediction = job.prompts[choice.prompt].prediction;
  const std::int64_t most_new =
      std::min(job.ask.answer.max_tokens.value_or(model_.context()), model_.context());
  const auto known = static_cast<std::int64_t>(prediction.size() + job.Ids(choice).size());
  auto speculator = std::make_unique<runtime::Speculator>(options_.speculation, known + most_new);
  for (const std::int32_t id : prediction) speculator->Append(id);
  return speculator;
}

void ModelHost::CancelLocked(Running& job) {
  job.cancel.store(true, std::memory_order_relaxed);
  for (const runtime::Batcher::RequestId id : job.requests) batcher_.Cancel(id);
}

void ModelHost::Cancel(JobId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(id);
  if (found != live_.end()) CancelLocked(*found->second);
}

void ModelHost::Drain() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stats_.draining = true;
}

bool ModelHost::WaitIdle(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return idle_.wait_for(lock, timeout, [this] { return live_.empty(); });
}

void ModelHost::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.draining = true;
    stopping_ = true;
    for (const auto& [id, job] : live_) CancelLocked(*job);
    wake_.notify_all();
  }
  const std::lock_guard<std::mutex> lock(stop_mutex_);
  if (thread_.joinable()) thread_.join();
}

HostStats ModelHost::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  HostStats stats = stats_;
  stats.running_jobs = static_cast<std::int64_t>(live_.size()) - stats.waiting_jobs;
  return stats;
}

void ModelHost::Drive() {
  while (TakeJobs()) {
    StartChoices();
    const double start = Now();
    batcher_.Step();
    ScoreSome();
    CountRows(Now() - start);
    FreePlaces();
    EndJobs();
    SendProgress();
  }
}

// Waits while there is nothing to do. False: stopped, and nothing is left.
bool ModelHost::TakeJobs() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (jobs_.empty()) wake_.wait(lock, [this] { return stopping_ || !submitted_.empty(); });
  for (RunningPtr& job : submitted_) {
    job->turn = turn_++;
    jobs_.push_back(std::move(job));
  }
  submitted_.clear();
  return !jobs_.empty() || !stopping_;
}

// Whether another prompt is computing what is at least half of this one. It would be computed twice
// if this one began now, and so is there earlier.
bool ModelHost::WaitsForPrefix(const Running& job, const Choice& choice) const {
  const std::int64_t page = engine_->prefix_page();
  if (page == 0 || (job.ask.echo && job.ask.answer.logprobs)) return false;
  const std::vector<std::int32_t>& ids = job.Ids(choice);
  for (const Place& place : places_) {
    if (place.choice->state != Choice::State::kAnswering || place.choice->computed) continue;
    const std::vector<std::int32_t>& other = place.job->Ids(*place.choice);
    const auto differs =
        std::mismatch(ids.begin(), ids.end() - 1, other.begin(), other.end()).first;
    const std::int64_t common = (differs - ids.begin()) / page * page;
    if (common > place.choice->sequence->size() &&
        2 * common >= static_cast<std::int64_t>(ids.size())) {
      return true;
    }
  }
  return false;
}

void ModelHost::StartChoices() {
  while (static_cast<std::int64_t>(places_.size()) < options_.max_parallel) {
    Running* job = nullptr;
    for (const RunningPtr& other : jobs_) {
      const Choice* next = other->Next();
      const bool sooner =
          job == nullptr || std::tie(other->places, other->turn) < std::tie(job->places, job->turn);
      if (next != nullptr && sooner && !WaitsForPrefix(*other, *next)) job = other.get();
    }
    if (job == nullptr) return;
    Choice* next = job->Next();
    if (next != nullptr) StartChoice(*job, *next);  // null: cancelled just now
  }
}

// Does work of one job that may need much memory for what the request asks: its text, its scores,
// what the sink makes of them. False: there was none, and the job fails. This is the only place of
// the host where an exception ends, as it is known here whose work it was. The work is half done
// then, so nobody uses the choice's answer and scores any more: FreePlaces and EndJob free them.
// What the batcher does for all jobs together is outside: its state would be half-changed, too.
template <typename Work>
bool ModelHost::Survive(Running& job, const Work& work) {
  try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    Fail(job, Status(Code::kOutOfMemory, "there is not enough memory for this request"));
    return false;
  }
}

void ModelHost::StartChoice(Running& job, Choice& choice) {
  job.turn = turn_++;
  ++job.places;
  places_.push_back({&job, &choice});
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.active_sequences;
    if (!job.usage.begin_seconds) --stats_.waiting_jobs;
  }
  if (!job.usage.begin_seconds) job.usage.begin_seconds = Now() - job.submitted;
  // Once the batcher has the choice, nothing throws.
  if (!Survive(job, [&] { BeginChoice(job, choice); })) choice.state = Choice::State::kEnding;
}

void ModelHost::BeginChoice(Running& job, Choice& choice) {
  auto answer = Answer::Make(model_, job.Options(choice), [this, &job, &choice](AnswerEvent event) {
    Deliver(job, choice, std::move(event));
  });
  if (!answer.ok()) {
    Fail(job, Status(Code::kInternal, answer.error().message));
    choice.state = Choice::State::kEnding;
    return;
  }
  choice.answer = *std::move(answer);
  auto sequence = engine_->NewSequence();
  if (!sequence.ok()) {
    Fail(job, std::move(sequence).status());
    choice.state = Choice::State::kEnding;
    return;
  }
  choice.sequence = *std::move(sequence);
  if (job.ask.echo && job.ask.answer.logprobs && choice.leads) {
    job.prompts[choice.prompt].scorer =
        std::make_unique<PromptScorer>(model_, job.Ids(choice), job.ask.answer.top_logprobs);
    choice.state = Choice::State::kScoring;
    return;
  }
  StartAnswer(job, choice);
}

void ModelHost::SendEcho(Running& job, Choice& choice) {
  if (!job.ask.echo || job.cancel.load(std::memory_order_relaxed)) return;
  Running::PromptState& prompt = job.prompts[choice.prompt];
  std::span<const TokenScore> scores;
  if (prompt.scorer != nullptr) scores = prompt.scorer->tokens();
  if (!job.ask.sink->OnEcho(choice.index, scores)) CancelJob(job);
  if (++prompt.echoes == job.ask.n) prompt.scorer.reset();
}

void ModelHost::StartAnswer(Running& job, Choice& choice) {
  choice.state = Choice::State::kAnswering;
  SendEcho(job, choice);
  if (choice.answer->wants_nothing()) {
    choice.answer->Finish(runtime::FinishReason::kLength);
    choice.state = Choice::State::kEnding;
    return;
  }
  const Status status = SubmitAnswer(job, choice);
  if (status.ok()) return;
  Fail(job, status);
  choice.state = Choice::State::kEnding;
}

Status ModelHost::SubmitAnswer(Running& job, Choice& choice) {
  const std::vector<std::int32_t>& ids = job.Ids(choice);
  runtime::BatchRequest request;
  request.sequence = choice.sequence.get();
  request.prompt.assign(ids.begin() + choice.sequence->size(), ids.end());
  request.choose = [this, &job, &choice](std::span<const float> logits,
                                         std::span<const std::int32_t> history) {
    return Choose(job, choice, logits, history);
  };
  choice.speculator = MakeSpeculator(job, choice);
  request.speculator = choice.speculator.get();
  request.reused = [&choice](std::int64_t tokens) { choice.cached = choice.counted = tokens; };
  request.done = [this, &job, &choice](const Result<runtime::FinishReason>& end) {
    choice.state = Choice::State::kEnding;  // the batcher may still look at the sequence
    if (!end.ok()) Fail(job, Status(end.code(), std::string(end.message())));
    if (job.cancel.load(std::memory_order_relaxed)) return;  // nobody gets the rest of the answer
    Survive(job, [&] { choice.answer->Finish(end); });
  };
  HONE_ASSIGN(const runtime::Batcher::RequestId id, batcher_.Submit(std::move(request)));
  const std::lock_guard<std::mutex> lock(mutex_);
  job.requests.push_back(id);
  if (job.cancel.load(std::memory_order_relaxed)) batcher_.Cancel(id);
  return Status();
}

void ModelHost::MarkComputed(Running& job, Choice& choice) {
  choice.computed = true;
  if (!std::exchange(job.prompts[choice.prompt].computed, true)) ++job.computed;
}

std::optional<std::int32_t> ModelHost::Choose(Running& job, Choice& choice,
                                              std::span<const float> logits,
                                              std::span<const std::int32_t> history) {
  if (choice.computed) ++step_tokens_;
  MarkComputed(job, choice);
  if (!job.usage.first_token_seconds) job.usage.first_token_seconds = Now() - job.submitted;
  if (job.cancel.load(std::memory_order_relaxed)) return std::nullopt;
  std::optional<std::int32_t> next;
  if (!Survive(job, [&] { next = choice.answer->Next(logits, history); })) return std::nullopt;
  if (choice.answer->ended() && choice.answer->end_reason() == AnswerEndReason::kError) {
    Fail(job, choice.answer->error());
  }
  return next;
}

void ModelHost::Deliver(Running& job, Choice& choice, AnswerEvent event) {
  if (job.cancel.load(std::memory_order_relaxed)) return;
  if (const auto* end = std::get_if<AnswerEnd>(&event)) {
    const bool whole =
        end->reason == AnswerEndReason::kStop || end->reason == AnswerEndReason::kLength;
    if (!whole) return;  // OnEnd says it
  }
  if (!job.ask.sink->OnAnswer(choice.index, std::move(event))) CancelJob(job);
}

// One piece of one prompt, in turn.
void ModelHost::ScoreSome() {
  std::vector<Place> scoring;
  for (const Place& place : places_) {
    if (place.choice->state != Choice::State::kScoring) continue;
    if (place.job->cancel.load(std::memory_order_relaxed)) {
      place.choice->state = Choice::State::kEnding;
    } else {
      scoring.push_back(place);
    }
  }
  if (scoring.empty()) return;
  const Place& place = scoring[score_turn_++ % scoring.size()];
  if (!Survive(*place.job, [&] { Score(*place.job, *place.choice); })) {
    place.choice->state = Choice::State::kEnding;
  }
}

void ModelHost::Score(Running& job, Choice& choice) {
  PromptScorer& scorer = *job.prompts[choice.prompt].scorer;
  const runtime::Batcher::Load load = batcher_.load();
  std::int64_t rows = PromptScorer::RowsAtOnce(model_.vocab());
  if (load.decoding > 0) rows = std::min(rows, kScoreRowsBetween);
  const Status status = scorer.Advance(*engine_, *choice.sequence, rows, &job.cancel);
  if (!status.ok()) {
    if (status.code() != Code::kCancelled) Fail(job, status);
    choice.state = Choice::State::kEnding;
  } else if (scorer.done()) {
    StartAnswer(job, choice);
  }
}

void ModelHost::Fail(Running& job, const Status& status) {
  if (job.error.ok()) job.error = Status(status.code(), std::string(status.message()));
  CancelJob(job);
}

void ModelHost::CancelJob(Running& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CancelLocked(job);
}

void ModelHost::CountRows(double seconds) {
  std::int64_t rows = 0;
  for (const Place& place : places_) {
    Choice& choice = *place.choice;
    if (choice.sequence == nullptr) continue;
    const auto held =
        std::min(choice.sequence->size(), static_cast<std::int64_t>(place.job->Ids(choice).size()));
    rows += std::max<std::int64_t>(held - choice.counted, 0);
    choice.counted = std::max(choice.counted, held);
    if (choice.leads) place.job->prompts[choice.prompt].done_tokens = held;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  stats_.prefill_rows += rows;
  if (rows > 0) stats_.prefill_seconds += seconds;
  stats_.decode_rows += step_tokens_;
  if (step_tokens_ > 0) stats_.decode_seconds += seconds;
  step_tokens_ = 0;
  stats_.model_runs = batcher_.engine_runs();
  stats_.drafted_tokens = batcher_.speculation().drafted;
  stats_.accepted_tokens = batcher_.speculation().accepted;
}

// The choices that have ended give their places and their memory back.
void ModelHost::FreePlaces() {
  std::int64_t freed = 0;
  for (const Place& place : places_) {
    Choice& choice = *place.choice;
    if (choice.state != Choice::State::kEnding) continue;
    Running& job = *place.job;
    choice.state = Choice::State::kEnded;
    MarkComputed(job, choice);
    if (choice.leads) {
      job.usage.prompt_tokens += static_cast<std::int64_t>(job.Ids(choice).size());
      job.usage.cached_tokens += choice.cached;
    }
    if (choice.answer != nullptr) {
      job.usage.completion_tokens += choice.answer->completion_tokens();
      job.usage.reasoning_tokens += choice.answer->reasoning_tokens();
    }
    choice.answer.reset();
    choice.speculator.reset();
    choice.sequence.reset();
    --job.places;
    ++job.ended;
    ++freed;
  }
  if (freed == 0) return;
  std::erase_if(places_,
                [](const Place& place) { return place.choice->state == Choice::State::kEnded; });
  const std::lock_guard<std::mutex> lock(mutex_);
  stats_.active_sequences -= freed;
}

void ModelHost::EndJobs() {
  const auto is_over = [](const RunningPtr& job) {
    return job->places == 0 &&
           (job->ended == job->choices.size() || job->cancel.load(std::memory_order_relaxed));
  };
  for (std::size_t i = 0; i < jobs_.size();) {
    if (!is_over(jobs_[i])) {
      ++i;
      continue;
    }
    const RunningPtr job = std::move(jobs_[i]);
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    EndJob(*job);
  }
}

void ModelHost::EndJob(Running& job) {
  job.usage.total_seconds = Now() - job.submitted;
  const bool cancelled = job.cancel.load(std::memory_order_relaxed);
  Status status = std::move(job.error);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status.ok() && cancelled) {
      status =
          Status(Code::kCancelled, stopping_ ? "the model is going" : "the request was cancelled");
    }
    ++(status.ok() ? stats_.done
                   : (status.code() == Code::kCancelled ? stats_.cancelled : stats_.failed));
    stats_.prompt_tokens += job.usage.prompt_tokens;
    stats_.cached_tokens += job.usage.cached_tokens;
    stats_.completion_tokens += job.usage.completion_tokens;
    stats_.job_seconds += job.usage.total_seconds;
    if (!job.usage.begin_seconds) --stats_.waiting_jobs;
  }
  Survive(job, [&] { job.ask.sink->OnEnd(status, job.usage); });
  job.ask.sink.reset();
  const std::lock_guard<std::mutex> lock(mutex_);
  live_.erase(job.id);
  if (live_.empty()) idle_.notify_all();
}

void ModelHost::SendProgress() {
  const double now = Now();
  for (const RunningPtr& job : jobs_) {
    if (job->computed == job->prompts.size() ||
        now - job->last_progress < options_.progress_seconds ||
        job->cancel.load(std::memory_order_relaxed)) {
      continue;
    }
    job->last_progress = now;
    std::int64_t done = 0;
    for (const Running::PromptState& prompt : job->prompts) done += prompt.done_tokens;
    bool goes_on = false;
    Survive(*job, [&] { goes_on = job->ask.sink->OnProgress(done, job->total_tokens); });
    if (!goes_on) CancelJob(*job);
  }
}

}  // namespace hone::chat
