// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One loaded model for many who ask: a queue, a thread that drives the model, answers as events.
//
//   ModelHost host(std::move(engine), {.max_parallel = 4});
//   Submission job = host.Submit({.prompts = {prompt}, .sink = sink});
//   ...
//   host.Cancel(job.id);
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "chat/answer.h"
#include "chat/answer_event.h"
#include "chat/chat_model.h"
#include "chat/prompt.h"
#include "chat/prompt_scorer.h"
#include "chat/request_error.h"
#include "runtime/batcher.h"
#include "runtime/chunk_policy.h"
#include "runtime/draft.h"
#include "runtime/engine.h"

namespace hone::chat {

struct HostOptions {
  std::int64_t max_parallel = 4;  // sequences at a time, at least 1; each has a cache of its own
  // Jobs that may wait for their turn, beyond those that can begin at once.
  std::int64_t max_queue = 64;
  double progress_seconds = 0.5;  // between two progress events of a job
  // Guesses tokens from the text, and from AnswerPlan::prediction, while one sequence runs alone.
  // Answers are the same; only the speed changes. It takes up to 1 MB and 4 bytes a token for each
  // sequence that runs. Has no effect where runtime::MaySpeculate says no.
  runtime::Speculation speculation = runtime::Speculation::kAuto;
  std::string tool_family = {};  // see ChatModel; "": the one that the model's file names
  runtime::ChunkPolicyOptions chunks = {};
  std::function<double()> clock = {};  // seconds, from any thread; empty: the steady clock
};

// Of a whole job: all prompts and choices.
struct JobUsage {
  std::int64_t prompt_tokens = 0;  // a prompt that several choices share counts once
  std::int64_t cached_tokens = 0;  // of these, not computed anew
  std::int64_t completion_tokens = 0;
  std::int64_t reasoning_tokens = 0;  // of these, in the thinking channel
  // From Submit on; absent if it did not come to that.
  std::optional<double> begin_seconds = {}, first_token_seconds = {};
  double total_seconds = 0;
};

// Gets the events of one job on the thread that drives the model, so it must not block. It may call
// every method of the host but Stop and the destructor. A std::bad_alloc, of what it makes of an
// event, ends the job with kOutOfMemory, and the others go on; one of OnEnd changes nothing.
class JobSink {
 public:
  virtual ~JobSink() = default;
  // False of one of these three: nobody listens any more, so the job is cancelled.
  // choice c answers prompt c / n. AnswerEnd says kStop or kLength; it is the last event of its
  // choice, and missing if the job did not come so far.
  virtual bool OnAnswer(std::int64_t choice, AnswerEvent event) = 0;
  // With Job::echo, before all else of the choice. scores is empty without log-probabilities.
  virtual bool OnEcho(std::int64_t choice, std::span<const TokenScore> scores) = 0;
  // Now and then until the prompts are computed, also while the job waits in the queue.
  virtual bool OnProgress(std::int64_t done_tokens, std::int64_t total_tokens) = 0;
  // Once, last. kCancelled after Cancel, Stop or a false; kOutOfMemory if the job's own work got no
  // memory; else an error of the model.
  virtual void OnEnd(const Status& status, const JobUsage& usage) = 0;
};

struct Job {
  std::vector<Prompt> prompts = {};  // of one chat or of several completions
  std::int64_t n = 1;                // choices for each prompt
  // How to answer. The plans are those of the prompts; choice i of n has the seed plus i.
  AnswerOptions answer = {};
  bool random_seed = true;  // answer.sampler.seed is replaced by a random one
  bool echo = false;        // OnEcho; with scores if answer.logprobs
  std::shared_ptr<JobSink> sink = {};
};
using JobId = std::uint64_t;

enum class Refusal : std::uint8_t {
  kNone,
  kQueueFull,  // waiting says how many wait
  kDraining,
  kRequest,  // error says what is wrong
};
struct Submission {
  JobId id = 0;
  Refusal refusal = Refusal::kNone;
  std::int64_t waiting = 0;
  RequestError error = {};
  bool ok() const { return refusal == Refusal::kNone; }
};

// Sums since the start, and how it stands now.
struct HostStats {
  // Jobs that were taken, by their end; refused ones were not taken.
  std::int64_t done = 0, cancelled = 0, failed = 0, refused = 0;
  // Of jobs, however they ended.
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  // What the model computed, and in which time: rows of prompts and seconds of steps with such
  // rows, chosen tokens and seconds of steps that gave some. A step may count in both.
  std::int64_t prefill_rows = 0, decode_rows = 0;
  double prefill_seconds = 0, decode_seconds = 0;
  double job_seconds = 0;  // sum of the jobs' total_seconds
  // How often the model ran for answers; guessed tokens that it verified, and how many of them came
  // true.
  std::int64_t model_runs = 0, drafted_tokens = 0, accepted_tokens = 0;
  // Now.
  std::int64_t waiting_jobs = 0, running_jobs = 0, active_sequences = 0;
  bool draining = false;
};

// Answers are those that each request would get alone, whoever else asks. Every method may be
// called from any thread.
class ModelHost {
 public:
  ModelHost(std::unique_ptr<runtime::Engine> engine, HostOptions options);
  ~ModelHost();  // Stop
  ModelHost(const ModelHost&) = delete;
  ModelHost& operator=(const ModelHost&) = delete;

  const ChatModel& model() const { return model_; }
  const runtime::Engine& engine() const { return *engine_; }
  const HostOptions& options() const { return options_; }

  // Jobs begin in the order of their coming; then those with the fewest running choices go first,
  // so that many prompts or choices of one job hold up nobody. A prompt of which another one is
  // computing the first half waits for that half. The sink may get events before this
  // returns, and gets none if the job is refused.
  Submission Submit(Job job);
  // Whether Submit would refuse any job now: for callers that have work to do before it.
  Submission Check() const;
  // The job ends within one step, the others go on. Nothing happens if it has ended.
  void Cancel(JobId id);

  // From now on Submit refuses. What was taken is finished.
  void Drain();
  // True if no job is left, maybe after waiting.
  bool WaitIdle(std::chrono::milliseconds timeout);
  // Drain, cancels what is left, and ends the thread. Not from a sink.
  void Stop();

  HostStats stats() const;

 private:
  struct Choice;
  struct Running;  // a job that was taken
  using RunningPtr = std::shared_ptr<Running>;

  // A choice that has one of the places.
  struct Place {
    Running* job;
    Choice* choice;
  };

  RequestStatus CheckJob(const Job& job) const;
  Submission RefusalLocked() const;
  void CancelLocked(Running& job);
  double Now() const;

  // Of the thread that drives.
  void Drive();
  bool TakeJobs();
  void StartChoices();
  bool WaitsForPrefix(const Running& job, const Choice& choice) const;
  template <typename Work>
  bool Survive(Running& job, const Work& work);
  void StartChoice(Running& job, Choice& choice);
  void BeginChoice(Running& job, Choice& choice);
  void SendEcho(Running& job, Choice& choice);
  void StartAnswer(Running& job, Choice& choice);
  Status SubmitAnswer(Running& job, Choice& choice);
  bool speculates() const;
  std::vector<std::int32_t> PredictionIds(const Prompt& prompt) const;
  std::unique_ptr<runtime::Speculator> MakeSpeculator(const Running& job,
                                                      const Choice& choice) const;
  std::optional<std::int32_t> Choose(Running& job, Choice& choice, std::span<const float> logits,
                                     std::span<const std::int32_t> history);
  void Deliver(Running& job, Choice& choice, AnswerEvent event);
  void ScoreSome();
  void Score(Running& job, Choice& choice);
  void MarkComputed(Running& job, Choice& choice);
  void Fail(Running& job, const Status& status);
  void CancelJob(Running& job);
  void CountRows(double seconds);
  void FreePlaces();
  void EndJobs();
  void EndJob(Running& job);
  void SendProgress();

  HostOptions options_;
  std::unique_ptr<runtime::Engine> engine_;
  ChatModel model_;
  runtime::Batcher batcher_;

  mutable std::mutex mutex_;  // guards the following six, and Running::requests
  std::condition_variable wake_, idle_;
  std::vector<RunningPtr> submitted_;
  std::unordered_map<JobId, RunningPtr> live_;
  JobId next_id_ = 1;
  bool stopping_ = false;
  HostStats stats_;

  // Of the thread that drives.
  std::vector<RunningPtr> jobs_;  // in order of their coming
  std::vector<Place> places_;
  std::uint64_t turn_ = 0;        // counts comings and beginnings
  std::size_t score_turn_ = 0;    // who is scored next
  std::int64_t step_tokens_ = 0;  // that this step gave, but for first ones

  std::mutex stop_mutex_;  // joins the thread once
  std::thread thread_;
};

}  // namespace hone::chat
