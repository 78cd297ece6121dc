// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/benchmark.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "base/machine_info.h"
#include "formats/foreign_file.h"
#include "runtime/chat.h"
#include "runtime/decode_loop.h"
#include "runtime/sampler.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What every model of English finds likely; other languages' models have read some, too.
constexpr std::string_view kGateSentence =
    "The sun rises in the east and sets in the west, and people have told the time of day by it "
    "for thousands of years.";
// A token before the text, and the first of the text: nothing leads to them.
constexpr std::size_t kGateSkipped = 2;

std::string TwoDigits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

bool IsCancelled(const std::atomic<bool>* cancel) {
  return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

Status Cancelled() { return Status(Code::kCancelled, "cancelled"); }

GateOutcome Fail(GateOutcome outcome, const char* flag, std::string reason) {
  outcome.passed = false;
  outcome.flags.emplace_back(flag);
  if (outcome.reason.empty()) outcome.reason = std::move(reason);
  return outcome;
}

// Ids of the question, through the template if there is one.
Result<Ids> GatePrompt(const TextSetup& text, std::string& prompt) {
  if (!text.chat_template) {
    prompt = "The capital of France is";
    return EncodePrompt(text, prompt);
  }
  const Json messages(Json::Array{Json(
      Json::Object{{"role", Json("user")}, {"content", Json("What is the capital of France?")}})});
  RenderOptions options;
  options.think = Think::kOff;
  HONE_ASSIGN(prompt, RenderChat(text, messages, options));
  return EncodePrompt(text, prompt);
}

// Ids of the sentence, after what the tokenizer or the bundle puts before a text.
Result<Ids> GateSentence(const TextSetup& text) {
  HONE_ASSIGN(Ids ids, text.tokenizer->Encode(kGateSentence, {.add_special_tokens = true}));
  if (text.start_id && (ids.empty() || ids[0] != *text.start_id)) {
    ids.insert(ids.begin(), *text.start_id);
  }
  const auto is_stop = [&](std::int32_t id) {
    return std::find(text.stop_ids.begin(), text.stop_ids.end(), id) != text.stop_ids.end();
  };
  while (!ids.empty() && is_stop(ids.back())) ids.pop_back();
  return ids;
}

double LogSumExp(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float value : logits) sum += std::exp(static_cast<double>(value) - most);
  return most + std::log(sum);
}

// Adds the likelihood of the sentence to an outcome.
Result<GateOutcome> JudgeLikelihood(Engine& engine, GateOutcome outcome,
                                    const std::atomic<bool>* cancel) {
  HONE_ASSIGN(Ids ids, GateSentence(engine.text()));
  const auto context = static_cast<std::size_t>(engine.spec().max_positions);
  if (ids.size() > context) ids.resize(context);
  HONE_ASSIGN(const double nll, MeanNll(engine, ids, kGateSkipped, cancel));
  outcome.nll_limit = NllLimit(engine.spec().vocab);
  if (!std::isfinite(nll)) {
    return Fail(std::move(outcome), "not_finite", "the model's logits are not finite");
  }
  outcome.nll = nll;
  if (nll < outcome.nll_limit) return outcome;
  return Fail(std::move(outcome), "unlikely",
              StrCat("plain English has a mean NLL of ", TwoDigits(nll),
                     " a token, expected less than ", TwoDigits(outcome.nll_limit)));
}

// What the machine did around a run.
class RunMeter {
 public:
  // Watches for a tenth of a second before the run if watch is true.
  RunMeter(bool watch, BenchmarkSample& sample) : watch_(watch), sample_(sample) {
    if (watch_) {
      auto before = TakeBusySample();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      busy_ = Sample();
      if (before.ok() && busy_) sample_.busy_before = BusyShareOfOthers(*before, *busy_);
    }
    energy_ = TakeEnergySample();
    cpu_seconds_ = CpuSeconds();
    start_ = Clock::now();
  }

  double Seconds() const { return SecondsSince(start_); }

  // The run is over.
  void Stop() {
    sample_.seconds = SecondsSince(start_);
    sample_.cpu_seconds = CpuSeconds() - cpu_seconds_;
    if (const auto after = TakeEnergySample(); energy_ && after) {
      sample_.joules = EnergyJoules(*energy_, *after);
    }
    if (!watch_) return;
    if (const auto after = Sample(); busy_ && after) {
      sample_.busy_during = BusyShareOfOthers(*busy_, *after);
    }
  }

 private:
  static double CpuSeconds() {
    auto seconds = ProcessCpuSeconds();
    return seconds.ok() ? *seconds : 0.0;
  }
  static std::optional<BusySample> Sample() {
    auto sample = TakeBusySample();
    return sample.ok() ? std::optional<BusySample>(*sample) : std::nullopt;
  }

  bool watch_;
  BenchmarkSample& sample_;
  std::optional<BusySample> busy_;
  std::optional<EnergySample> energy_;
  double cpu_seconds_ = 0;
  Clock::time_point start_;
};

class Runner {
 public:
  Runner(Engine& engine, const BenchmarkTest& test, const BenchmarkOptions& options)
      : engine_(engine),
        test_(test),
        options_(options),
        state_(options.seed),
        sampler_({}, engine.text().suppress_ids) {}

  Result<BenchmarkResult> Run() {
    BenchmarkResult result;
    result.test = test_;
    for (int run = 1 - options_.warmup; run <= options_.runs; ++run) {
      if (IsCancelled(options_.cancel)) return Cancelled();
      HONE_TRY(Begin());
      BenchmarkSample sample;
      HONE_TRY(test_.kind == BenchmarkKind::kPrefill ? Prefill(sample) : Decode(sample));
      if (options_.on_run) options_.on_run(test_, run, sample);
      if (run > 0) result.samples.push_back(sample);
    }
    return result;
  }

 private:
  // SplitMix64.
  std::int32_t RandomId() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    z ^= z >> 31U;
    return static_cast<std::int32_t>(z % static_cast<std::uint64_t>(engine_.spec().vocab));
  }

  Ids RandomIds(std::int64_t count) {
    Ids ids(static_cast<std::size_t>(count));
    for (std::int32_t& id : ids) id = RandomId();
    return ids;
  }

  // Sequences that hold depth tokens and no more.
  Status Begin() {
    if (test_.depth > 0 && !sequences_.empty()) {
      for (const auto& sequence : sequences_) sequence->Truncate(test_.depth);
      return Status();
    }
    sequences_.clear();
    const std::int64_t count = test_.kind == BenchmarkKind::kDecode ? test_.batch : 1;
    for (std::int64_t i = 0; i < count; ++i) {
      HONE_ASSIGN(auto sequence, engine_.NewSequence());
      sequences_.push_back(std::move(sequence));
      if (test_.depth == 0) continue;
      const Ids ids = RandomIds(test_.depth);
      HONE_TRY(engine_.Run(Step{{StepPart{.sequence = sequences_.back().get(), .tokens = ids}}},
                           nullptr, options_.cancel));
    }
    return Status();
  }

  Status Prefill(BenchmarkSample& sample) {
    const Ids ids = RandomIds(test_.tokens);
    RunMeter meter(options_.watch_machine, sample);
    HONE_TRY(engine_.Run(Step{{StepPart{.sequence = sequences_[0].get(), .tokens = ids}}}, &logits_,
                         options_.cancel));
    meter.Stop();
    HONE_ASSIGN([[maybe_unused]] const std::int32_t id, Choose(0));
    sample.first_token_seconds = meter.Seconds();
    return Status();
  }

  Status Decode(BenchmarkSample& sample) {
    Ids ids = RandomIds(test_.batch);
    Step step;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      step.parts.push_back({.sequence = sequences_[i].get(), .tokens = {&ids[i], 1}});
    }
    RunMeter meter(options_.watch_machine, sample);
    for (std::int64_t n = 0; n < test_.tokens; ++n) {
      HONE_TRY(engine_.Run(step, &logits_, options_.cancel));
      for (std::size_t i = 0; i < ids.size(); ++i) {
        HONE_ASSIGN(ids[i], Choose(i));
      }
    }
    meter.Stop();
    return Status();
  }

  Result<std::int32_t> Choose(std::size_t row) {
    const auto vocab = static_cast<std::size_t>(engine_.spec().vocab);
    const std::int32_t id =
        sampler_.Sample(std::span<const float>(logits_).subspan(row * vocab, vocab), {});
    if (id >= 0) return id;
    return Status(Code::kDataLoss,
                  "the model gave no usable logit: all are NaN, minus infinity or suppressed; the "
                  "weights are damaged");
  }

  Engine& engine_;
  BenchmarkTest test_;
  const BenchmarkOptions& options_;
  std::uint64_t state_;
  Sampler sampler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<float> logits_;
};

}  // namespace

Summary Summarize(std::span<const double> values) {
  Summary summary;
  if (values.empty()) return summary;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  summary.median = sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  summary.min = sorted.front();
  summary.max = sorted.back();
  const auto count = static_cast<double>(sorted.size());
  for (const double value : sorted) summary.mean += value / count;
  double squares = 0;
  for (const double value : sorted) squares += (value - summary.mean) * (value - summary.mean);
  if (sorted.size() > 1) summary.stddev = std::sqrt(squares / (count - 1));
  if (summary.median > 0) {
    summary.spread_percent = (summary.max - summary.min) / summary.median * 100;
  }
  return summary;
}

GateOutcome JudgeAnswer(const std::string& answer, std::span<const std::int32_t> ids) {
  GateOutcome outcome;
  outcome.passed = true;
  outcome.answer = answer;
  if (answer.find_first_not_of(" \t\r\n") == std::string::npos) {
    outcome = Fail(std::move(outcome), "empty", "the answer is empty");
  }
  if (!formats::IsUtf8(answer)) {
    outcome = Fail(std::move(outcome), "not_utf8", "the answer is not UTF-8");
  }
  for (const std::size_t period : {1U, 2U}) {
    if (ids.size() < 6 * period) continue;
    bool repeats = true;
    for (std::size_t i = period; i < ids.size(); ++i) repeats &= ids[i] == ids[i - period];
    if (!repeats) continue;
    return Fail(std::move(outcome), "repeats",
                period == 1 ? "the answer is one token over and over"
                            : "the answer is two tokens over and over");
  }
  return outcome;
}

double NllLimit(std::int64_t vocab) { return 0.6 * std::log(static_cast<double>(vocab)); }

Result<double> MeanNll(Engine& engine, std::span<const std::int32_t> ids, std::size_t skipped,
                       const std::atomic<bool>* cancel) {
  const std::size_t first = std::max<std::size_t>(skipped, 1);
  if (ids.size() <= first) {
    return Status(Code::kInvalidArgument, StrCat(ids.size(), " tokens are too few to judge by"));
  }
  HONE_ASSIGN(auto sequence, engine.NewSequence());
  std::vector<float> logits;
  HONE_TRY(engine.Run(
      Step{{StepPart{
          .sequence = sequence.get(), .tokens = ids.first(ids.size() - 1), .all_logits = true}}},
      &logits, cancel));
  const auto vocab = static_cast<std::size_t>(engine.spec().vocab);
  double sum = 0;
  for (std::size_t i = first; i < ids.size(); ++i) {
    const auto row = std::span<const float>(logits).subspan((i - 1) * vocab, vocab);
    sum += LogSumExp(row) - row[static_cast<std::size_t>(ids[i])];
  }
  return sum / static_cast<double>(ids.size() - first);
}

Result<GateOutcome> RunGate(Engine& engine, const std::atomic<bool>* cancel) {
  const TextSetup& text = engine.text();
  if (!text.tokenizer) {
    return Fail({}, "no_tokenizer", StrCat("there is no tokenizer: ", text.tokenizer_error));
  }
  std::string prompt;
  HONE_ASSIGN(const Ids ids, GatePrompt(text, prompt));
  HONE_ASSIGN(auto sequence, engine.NewSequence());
  std::vector<float> logits;
  HONE_TRY(
      engine.Run(Step{{StepPart{.sequence = sequence.get(), .tokens = ids}}}, &logits, cancel));
  const bool finite =
      std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); });
  if (!finite) return Fail({}, "not_finite", "the model's logits are not finite");
  GenerateOptions options;
  options.max_tokens = 24;
  options.cancel = cancel;
  HONE_ASSIGN(const Generation answer, Generate(engine, *sequence, ids, options));
  if (answer.finish == FinishReason::kCancelled) return Cancelled();
  GateOutcome outcome = JudgeAnswer(answer.text, answer.ids);
  outcome.prompt = std::move(prompt);
  return JudgeLikelihood(engine, std::move(outcome), cancel);
}

std::vector<double> BenchmarkResult::TokensPerSecond() const {
  std::vector<double> speeds;
  for (const BenchmarkSample& sample : samples) {
    speeds.push_back(sample.seconds > 0 ? static_cast<double>(total_tokens()) / sample.seconds : 0);
  }
  return speeds;
}

bool IsBusy(const BenchmarkSample& sample) {
  return sample.busy_before.value_or(0) > kBusyShare || sample.busy_during.value_or(0) > kBusyShare;
}

Status CheckBenchmark(const BenchmarkTest& test, std::int64_t context) {
  if (test.tokens + test.depth <= context) return Status();
  return Status(Code::kInvalidArgument, StrCat(test.tokens, " tokens after ", test.depth,
                                               " do not fit: the context is ", context));
}

Result<BenchmarkResult> RunBenchmark(Engine& engine, const BenchmarkTest& test,
                                     const BenchmarkOptions& options) {
  HONE_TRY(CheckBenchmark(test, engine.spec().max_positions));
  return Runner(engine, test, options).Run();
}

}  // namespace hone::runtime
