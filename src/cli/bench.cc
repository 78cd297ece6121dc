// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone bench: how fast a model is here, after it has given a real answer.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/machine_info.h"
#include "cli/arguments.h"
#include "cli/artifact_hash.h"
#include "cli/bench_report.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/version.h"
#include "runtime/benchmark.h"
#include "runtime/engine_words.h"

namespace hone::cli {
namespace {

using runtime::BenchmarkKind;
using runtime::BenchmarkResult;
using runtime::BenchmarkSample;
using runtime::BenchmarkTest;

const std::vector<std::string> kOutputWords = {"md", "csv", "json"};

struct BenchArgs {
  std::string model;
  std::string prompt_tokens = "512", decode_tokens = "128", depth = "0";
  int runs = 5, warmup = 1, threads = 0;
  std::int64_t context = 0, batch = 1, seed = 1;
  std::string kv, compute, output = "md", record;
  bool json = false, no_gate = false, no_hash = false;
};

Status CheckWhole(const char* option, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return Status();
  return Status(Code::kInvalidArgument,
                StrCat(option, ": found ", value, ", expected ", low, " to ", high));
}

Status CheckArgs(const BenchArgs& args) {
  HONE_TRY(CheckWhole("--runs", args.runs, 1, 1000));
  HONE_TRY(CheckWhole("--warmup", args.warmup, 0, 100));
  HONE_TRY(CheckWhole("--batch", args.batch, 1, 256));
  HONE_TRY(CheckWhole("--context", args.context, 0, std::int64_t{1} << 24U));
  HONE_TRY(CheckWhole("--seed", args.seed, 0, std::int64_t{1} << 62U));
  if (!args.record.empty()) HONE_TRY(CheckOutputPath(args.record));
  return Status();
}

// Every combination of lengths and depths: prefills first, as llama-bench orders them.
Result<std::vector<BenchmarkTest>> MakeTests(const BenchArgs& args) {
  constexpr std::int64_t kMost = std::int64_t{1} << 22U;
  HONE_ASSIGN(const auto prompts, ParseNumberList("--prompt-tokens", args.prompt_tokens, 0, kMost));
  HONE_ASSIGN(const auto decodes, ParseNumberList("--decode-tokens", args.decode_tokens, 0, kMost));
  HONE_ASSIGN(const auto depths, ParseNumberList("--depth", args.depth, 0, kMost));
  std::vector<BenchmarkTest> tests;
  for (const std::int64_t depth : depths) {
    for (const std::int64_t tokens : prompts) {
      if (tokens > 0) tests.push_back({BenchmarkKind::kPrefill, tokens, depth, 1});
    }
    for (const std::int64_t tokens : decodes) {
      if (tokens > 0) tests.push_back({BenchmarkKind::kDecode, tokens, depth, args.batch});
    }
  }
  if (!tests.empty()) return tests;
  return Status(Code::kInvalidArgument,
                "--prompt-tokens and --decode-tokens are both 0, so there is nothing to measure");
}

// Whether the tests fit in the engine's context.
Status CheckTests(std::int64_t context, const std::vector<BenchmarkTest>& tests) {
  for (const BenchmarkTest& test : tests) {
    HONE_TRY(runtime::CheckBenchmark(test, context).Context(TestName(test)));
  }
  return Status();
}

std::string UtcTime() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> text{};
  if (::gmtime_r(&now, &utc) == nullptr) return "1970-01-01T00:00:00Z";
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// "llama int4_block32": the type of most weights of the layers.
std::string ModelType(const runtime::Engine& engine) {
  if (engine.runs_graph()) return "graph";
  const model::DecoderModel& model = engine.model();
  if (model.layers.empty()) return model.spec.architecture;
  return model.spec.architecture + " " + codec::TypeName(model.layers[0].down.view.type);
}

std::optional<std::int64_t> CountParameters(const runtime::Engine& engine) {
  if (engine.runs_graph()) return std::nullopt;
  const model::DecoderModel& model = engine.model();
  std::int64_t count = 0;
  const auto add = [&](const model::Weight& weight) {
    count += weight.view.rows * weight.view.cols;
  };
  add(model.embedding);
  if (!model.spec.tied_head) add(model.head);
  add(model.final_norm);
  for (const model::LayerWeights& l : model.layers) {
    for (const model::Weight* weight : {&l.input_norm,
                                        &l.q,
                                        &l.k,
                                        &l.v,
                                        &l.o,
                                        &l.ffn_norm,
                                        &l.gate,
                                        &l.up,
                                        &l.down,
                                        &l.q_bias,
                                        &l.k_bias,
                                        &l.v_bias,
                                        &l.o_bias,
                                        &l.gate_bias,
                                        &l.up_bias,
                                        &l.down_bias,
                                        &l.q_norm,
                                        &l.k_norm,
                                        &l.post_attention_norm,
                                        &l.post_ffn_norm}) {
      add(*weight);
    }
  }
  return count;
}

// The command line, with every option that decides what is measured.
std::string CommandLine(const BenchArgs& args) {
  const bool plain = args.model.find_first_of(" \t\n'\"\\$`&|;<>()*?[]#~") == std::string::npos;
  std::string line =
      StrCat("hone bench ", plain ? args.model : "'" + args.model + "'", " -p ", args.prompt_tokens,
             " -d ", args.decode_tokens, " --depth ", args.depth, " --runs ", args.runs,
             " --warmup ", args.warmup, " --threads ", args.threads, " --context ", args.context,
             " --batch ", args.batch, " --seed ", args.seed);
  if (!args.kv.empty()) line += " --kv " + args.kv;
  if (!args.compute.empty()) line += " --compute " + args.compute;
  if (args.no_gate) line += " --no-gate";
  return line;
}

BenchFacts MakeFacts(const BenchArgs& args, const runtime::Engine& engine) {
  BenchFacts facts;
  facts.model = args.model;
  facts.model_type = ModelType(engine);
  facts.parameters = CountParameters(engine);
  runtime::EngineWords words = runtime::WordsOf(engine);
  facts.engine = std::move(words.engine);
  facts.compute = std::move(words.compute);
  facts.kv = std::move(words.kv);
  facts.kernels = engine.KernelNames();
  facts.threads = engine.num_threads();
  facts.context = engine.spec().max_positions;
  facts.warmup = args.warmup;
  facts.seed = static_cast<std::uint64_t>(args.seed);
  facts.load_seconds = engine.load_seconds();
  facts.machine = ReadMachineInfo();
  facts.version = Version();
  facts.commit = Commit();
  facts.command = CommandLine(args);
  facts.time = UtcTime();
  return facts;
}

Status Gate(const BenchArgs& args, runtime::Engine& engine, BenchFacts& facts) {
  if (args.no_gate) {
    PrintNote("--no-gate: the numbers may be those of a model that does not work");
    return Status();
  }
  auto gate = runtime::RunGate(engine, CancelFlag());
  if (!gate.ok()) {
    const bool cancelled = gate.code() == Code::kCancelled;
    return cancelled ? std::move(gate).status() : std::move(gate).status().Context("the gate");
  }
  facts.gate = *std::move(gate);
  if (facts.gate->passed) return Status();
  std::string found = facts.gate->reason;
  if (!facts.gate->answer.empty()) found += StrCat(" (", facts.gate->answer, ")");
  return Status(kCheckFailed, StrCat("no real answer came, so nothing is measured: ", found,
                                     "; --no-gate measures a model that is no real one"));
}

void WarnIfBusy(const BenchmarkTest& test, int run, const BenchmarkSample& sample) {
  if (run < 1 || !runtime::IsBusy(sample)) return;
  const double share = std::max(sample.busy_before.value_or(0), sample.busy_during.value_or(0));
  PrintWarning(StrCat(TestName(test), ", run ", run, ": the machine was busy, others used ",
                      static_cast<int>(share * 100 + 0.5), " % of it; the run is marked"));
}

Result<std::vector<BenchmarkResult>> Measure(const BenchArgs& args, runtime::Engine& engine,
                                             const std::vector<BenchmarkTest>& tests) {
  Progress progress("Measuring");
  const auto per_test = static_cast<std::uint64_t>(args.runs + args.warmup);
  std::uint64_t done = 0;
  runtime::BenchmarkOptions options;
  options.runs = args.runs;
  options.warmup = args.warmup;
  options.cancel = CancelFlag();
  options.on_run = [&](const BenchmarkTest& test, int run, const BenchmarkSample& sample) {
    progress.Clear();
    WarnIfBusy(test, run, sample);
    progress.Update(++done, per_test * tests.size(), TestName(test));
  };
  std::vector<BenchmarkResult> results;
  for (const BenchmarkTest& test : tests) {
    options.seed = static_cast<std::uint64_t>(args.seed) + results.size() * 0x1000003U;
    HONE_ASSIGN(BenchmarkResult result, runtime::RunBenchmark(engine, test, options));
    results.push_back(std::move(result));
  }
  return results;
}

Status AddHash(const std::string& path, bool no_hash, BenchFacts& facts) {
  HONE_ASSIGN(const std::uint64_t bytes, ArtifactBytes(path));
  facts.bytes = bytes;
  if (no_hash) return Status();
  Progress progress("Hashing");
  HONE_ASSIGN(
      ArtifactHash hash,
      HashArtifact(
          path, [&](std::uint64_t done) { progress.Update(done, bytes, ""); }, CancelFlag()));
  facts.sha256 = std::move(hash.sha256);
  return Status();
}

Status Report(const BenchArgs& args, const BenchFacts& facts,
              std::span<const BenchmarkResult> results) {
  if (!args.record.empty()) {
    const std::string text = DeviceRunRecord(facts, results).Dump(2) + "\n";
    HONE_TRY(WriteFileAtomic(args.record, std::as_bytes(std::span<const char>(text))));
  }
  if (args.json) {
    PrintJson(DeviceRunRecord(facts, results));
  } else if (args.output == "json") {
    PrintJson(LlamaBenchJson(facts, results));
  } else {
    PrintText(args.output == "csv" ? CsvReport(facts, results) : MarkdownReport(facts, results));
  }
  return Status();
}

Status Bench(const BenchArgs& args) {
  HONE_TRY(CheckArgs(args));
  HONE_ASSIGN(const std::vector<BenchmarkTest> tests, MakeTests(args));
  if (args.json || !args.record.empty()) HONE_TRY(CheckRecordTests(tests));
  CancelFlag();
  HONE_ASSIGN(const ResolvedSource source, ResolveSource(args.model));
  HONE_ASSIGN(const auto engine, OpenEngine(args.model, args.threads, args.compute, args.kv,
                                            runtime::RunChoice::kAuto, args.context));
  if (CancelFlag()->load()) return Status(Code::kCancelled, "cancelled");
  HONE_TRY(CheckTests(engine->spec().max_positions, tests));
  BenchFacts facts = MakeFacts(args, *engine);
  HONE_TRY(Gate(args, *engine, facts));
  HONE_ASSIGN(const std::vector<BenchmarkResult> results, Measure(args, *engine, tests));
  if (auto resident = ReadResidentBytes(); resident.ok()) facts.peak_bytes = resident->peak;
  HONE_TRY(AddHash(source.path, args.no_hash, facts));
  return Report(args, facts, results);
}

}  // namespace

void RegisterBench(CLI::App& app, Command* selected) {
  auto args = std::make_shared<BenchArgs>();
  CLI::App* bench = app.add_subcommand("bench", "Measure how fast a model is on this machine");
  bench->footer(
      "Examples:\n"
      "  hone bench m.litertlm\n"
      "  hone bench m.litertlm -p 256 -d 256 --runs 3 --depth 0,4096 -o csv\n"
      "  hone bench m.litertlm --json > device_run.json");
  bench->add_option("model", args->model, kModelHelp)->required();
  bench->add_option("-p,--prompt-tokens", args->prompt_tokens, "Prefill lengths; 0: none")
      ->capture_default_str();
  bench->add_option("-d,--decode-tokens", args->decode_tokens, "Decode lengths; 0: none")
      ->capture_default_str();
  bench->add_option("--depth", args->depth, "Tokens that are in the cache already")
      ->capture_default_str();
  bench->add_option("--runs", args->runs, "Runs of each test that count")->capture_default_str();
  bench->add_option("--warmup", args->warmup, "Runs before them that do not")
      ->capture_default_str();
  bench->add_option("--threads", args->threads, kThreadsHelp)
      ->transform(ThreadsWord)
      ->default_str("auto");
  bench->add_option("--context", args->context, "Most positions; 0: those of the model")
      ->check(WholeNumber)
      ->capture_default_str();
  bench->add_option("--batch", args->batch, "Sequences that decode together")
      ->check(WholeNumber)
      ->capture_default_str();
  bench
      ->add_option("--kv", args->kv,
                   "Type of the key/value cache (default: f32 for float weights, f16 else)")
      ->check(CLI::IsMember(kKvWords));
  bench
      ->add_option("--compute", args->compute,
                   "Activations (default: q8 for quantized bundles, f32 else)")
      ->check(CLI::IsMember(kComputeWords));
  bench->add_option("--seed", args->seed, "Seed of the token ids")
      ->check(WholeNumber)
      ->capture_default_str();
  CLI::Option* output =
      bench->add_option("-o,--output", args->output, "Form, with llama-bench's columns")
          ->check(CLI::IsMember(kOutputWords))
          ->capture_default_str();
  bench->add_flag("--json", args->json, "Print a device-run record instead")->excludes(output);
  bench->add_option("--record", args->record, "Write the device-run record to this file, too");
  bench->add_flag("--no-gate", args->no_gate, "Measure without asking for a real answer first");
  bench->add_flag("--no-hash", args->no_hash, "Leave out the SHA-256 of the model");
  bench->callback([args, selected] { *selected = [args] { return Bench(*args); }; });
}

}  // namespace hone::cli
