// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Measures a loaded model: is there a real answer, how fast are prefill and decode.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/engine.h"

namespace hone::runtime {

// Of at least one value; stddev (of a sample) is 0 for one.
struct Summary {
  double median = 0, min = 0, max = 0, mean = 0, stddev = 0;
  double spread_percent = 0;  // (max - min) / median
};
Summary Summarize(std::span<const double> values);

// What a real answer looks like.
struct GateOutcome {
  bool passed = false;
  std::string reason;  // why it did not pass
  // "empty", "not_utf8", "repeats", "unlikely", "not_finite", "no_tokenizer"
  std::vector<std::string> flags;
  std::string prompt, answer;
  // Mean negative log-likelihood of a token of plain English (natural logarithm), and what it must
  // be below. Absent if it was not measured or is not finite.
  std::optional<double> nll;
  double nll_limit = 0;
};
// What MeanNll of plain English must be below: 0.6 ln(vocab). Guessing at random gives ln(vocab).
double NllLimit(std::int64_t vocab);
// Mean of -ln p of each id but the first skipped ones, given all ids before it. kInvalidArgument if
// no id is left. The result may be NaN or infinite: damaged weights.
Result<double> MeanNll(Engine& engine, std::span<const std::int32_t> ids, std::size_t skipped,
                       const std::atomic<bool>* cancel);
// Looks at an answer alone: not empty, UTF-8, not one token or two in turn over and over.
GateOutcome JudgeAnswer(const std::string& answer, std::span<const std::int32_t> ids);
// Greedy answer to a small question through the model's own template (or to the beginning of a
// sentence where there is none), and the likelihood of a sentence of plain English: that of random
// weights is far off. Logits must be finite.
Result<GateOutcome> RunGate(Engine& engine, const std::atomic<bool>* cancel);

enum class BenchmarkKind : std::uint8_t { kPrefill, kDecode };

// One row of the result: so many tokens, after depth others.
struct BenchmarkTest {
  BenchmarkKind kind = BenchmarkKind::kPrefill;
  std::int64_t tokens = 0;
  std::int64_t depth = 0;
  std::int64_t batch = 1;  // sequences that decode together; each gets that many tokens
};

struct BenchmarkSample {
  double seconds = 0;
  double cpu_seconds = 0;             // of all threads
  double first_token_seconds = 0;     // prefill only: until the first token is chosen
  std::optional<double> busy_before;  // share of the machine that others used just before, 0 to 1
  std::optional<double> busy_during;  // and during the run
  std::optional<double> joules;       // of the processor packages
};

struct BenchmarkResult {
  BenchmarkTest test;
  std::vector<BenchmarkSample> samples;
  std::vector<double> TokensPerSecond() const;  // of all sequences together
  std::int64_t total_tokens() const { return test.tokens * test.batch; }
};

// Others used more than this share of the machine: the sample is marked.
inline constexpr double kBusyShare = 0.1;
bool IsBusy(const BenchmarkSample& sample);

struct BenchmarkOptions {
  int runs = 5;
  int warmup = 1;  // runs before them that do not count
  std::uint64_t seed = 1;
  bool watch_machine = true;  // a tenth of a second before each run
  const std::atomic<bool>* cancel = nullptr;
  // After each run; warm-up runs have number 0 and below.
  std::function<void(const BenchmarkTest& test, int run, const BenchmarkSample& sample)> on_run;
};

// kInvalidArgument if the test does not fit in the context, with both numbers.
Status CheckBenchmark(const BenchmarkTest& test, std::int64_t context);

// Measures: warm-up runs, then runs. Token ids are drawn from the seed and differ from run to run;
// each run begins with an empty cache, or with depth other tokens in it (computed once, and cut
// back to depth after each run). Decode feeds back the greedy choice, and choosing is part of its
// time. kCancelled within one step.
Result<BenchmarkResult> RunBenchmark(Engine& engine, const BenchmarkTest& test,
                                     const BenchmarkOptions& options);

}  // namespace hone::runtime
