// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace hone::cli {
namespace {

using runtime::BenchmarkKind;
using runtime::BenchmarkResult;
using runtime::BenchmarkSample;
using runtime::Summary;

std::string Fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string SizeText(const std::optional<std::uint64_t>& bytes) {
  if (!bytes) return "-";
  const double mib = static_cast<double>(*bytes) / 1048576;
  return mib >= 1024 ? Fixed(mib / 1024, 2) + " GiB" : Fixed(mib, 2) + " MiB";
}

std::string CountText(const std::optional<std::int64_t>& count) {
  if (!count) return "-";
  const auto value = static_cast<double>(*count);
  return value >= 1e9 ? Fixed(value / 1e9, 2) + " B" : Fixed(value / 1e6, 2) + " M";
}

std::string PercentText(double share) { return Fixed(share * 100, 0) + " %"; }

std::vector<double> FirstTokens(const BenchmarkResult& result) {
  std::vector<double> seconds;
  for (const BenchmarkSample& sample : result.samples) {
    seconds.push_back(sample.first_token_seconds);
  }
  return seconds;
}

Summary Speed(const BenchmarkResult& result) {
  return runtime::Summarize(result.TokensPerSecond());
}

// The largest share that others used in or before a run.
std::optional<double> BusiestShare(const BenchmarkResult& result) {
  std::optional<double> busiest;
  for (const BenchmarkSample& sample : result.samples) {
    for (const auto& share : {sample.busy_before, sample.busy_during}) {
      if (share) busiest = std::max(busiest.value_or(0), *share);
    }
  }
  return busiest;
}

std::optional<double> JoulesPerToken(const BenchmarkResult& result) {
  double joules = 0;
  for (const BenchmarkSample& sample : result.samples) {
    if (!sample.joules) return std::nullopt;
    joules += *sample.joules;
  }
  if (result.samples.empty()) return std::nullopt;
  return joules / static_cast<double>(result.samples.size()) /
         static_cast<double>(result.total_tokens());
}

double Total(const BenchmarkResult& result, double BenchmarkSample::* field) {
  double total = 0;
  for (const BenchmarkSample& sample : result.samples) total += sample.*field;
  return total;
}

std::string DetailRow(const BenchmarkResult& result) {
  const Summary speed = Speed(result);
  const bool prefill = result.test.kind == BenchmarkKind::kPrefill;
  const double first = runtime::Summarize(FirstTokens(result)).median;
  const auto joules = JoulesPerToken(result);
  const auto busiest = BusiestShare(result);
  const bool marked = std::any_of(result.samples.begin(), result.samples.end(), runtime::IsBusy);
  return StrCat("| ", TestName(result.test), " | ", Fixed(speed.median, 2), " | ",
                Fixed(speed.min, 2), " | ", Fixed(speed.max, 2), " | ",
                Fixed(speed.spread_percent, 1), " % | ",
                Fixed(Total(result, &BenchmarkSample::seconds), 2), " | ",
                Fixed(Total(result, &BenchmarkSample::cpu_seconds), 2), " | ",
                prefill ? Fixed(first * 1000, 1) : "-", " | ", joules ? Fixed(*joules, 3) : "-",
                " | ", busiest ? PercentText(*busiest) : "-", marked ? " (busy)" : "", " |\n");
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string GateText(const std::optional<runtime::GateOutcome>& gate) {
  if (!gate) return "not asked (--no-gate): nothing says that this is a working model";
  // The answer is the model's: it must not break the report's line.
  std::string text = StrCat("a real answer came: ", Json(gate->answer).Dump());
  if (gate->nll) {
    text += StrCat("; mean NLL of plain English ", Fixed(*gate->nll, 2), " a token (limit ",
                   Fixed(gate->nll_limit, 2), ")");
  }
  return text;
}

// Columns of -o csv and members of -o json.
Json::Object TestMembers(const BenchFacts& facts, const BenchmarkResult& result) {
  const bool prefill = result.test.kind == BenchmarkKind::kPrefill;
  std::vector<double> nanoseconds;
  Json::Array samples_ns, samples_ts;
  for (const BenchmarkSample& sample : result.samples) {
    nanoseconds.push_back(std::round(sample.seconds * 1e9));
    samples_ns.emplace_back(static_cast<std::int64_t>(nanoseconds.back()));
  }
  for (const double speed : result.TokensPerSecond()) samples_ts.emplace_back(speed);
  const Summary ns = runtime::Summarize(nanoseconds);
  const Summary ts = Speed(result);
  const auto busiest = BusiestShare(result);
  const auto joules = JoulesPerToken(result);
  const auto whole = [](double value) {
    return Json(static_cast<std::int64_t>(std::llround(value)));
  };
  return {
      {"build_commit", Json(facts.commit)},
      {"build_version", Json(facts.version)},
      {"cpu_info", facts.machine.cpu_model ? Json(*facts.machine.cpu_model) : Json()},
      {"gpu_info", Json("")},
      {"backends", Json("CPU")},
      {"model_filename", Json(facts.model)},
      {"model_type", Json(facts.model_type)},
      {"model_size", facts.bytes ? Json(*facts.bytes) : Json()},
      {"model_n_params", facts.parameters ? Json(*facts.parameters) : Json()},
      {"n_threads", Json(facts.threads)},
      {"type_k", Json(facts.kv)},
      {"type_v", Json(facts.kv)},
      {"n_prompt", Json(prefill ? result.test.tokens : 0)},
      {"n_gen", Json(prefill ? 0 : result.test.tokens)},
      {"n_depth", Json(result.test.depth)},
      {"test_time", Json(facts.time)},
      {"avg_ns", whole(ns.mean)},
      {"stddev_ns", whole(ns.stddev)},
      {"avg_ts", Json(ts.mean)},
      {"stddev_ts", Json(ts.stddev)},
      {"samples_ns", Json(std::move(samples_ns))},
      {"samples_ts", Json(std::move(samples_ts))},
      {"n_seqs", Json(result.test.batch)},
      {"compute", Json(facts.compute)},
      {"median_ts", Json(ts.median)},
      {"min_ts", Json(ts.min)},
      {"max_ts", Json(ts.max)},
      {"cpu_ns", whole(Total(result, &BenchmarkSample::cpu_seconds) * 1e9)},
      {"ttft_ns", prefill ? whole(runtime::Summarize(FirstTokens(result)).median * 1e9) : Json()},
      {"busy_share_of_others", busiest ? Json(*busiest) : Json()},
      {"joules_per_token", joules ? Json(*joules) : Json()},
  };
}

std::string CsvCell(const Json& value) {
  if (value.IsNull()) return "\"\"";
  if (value.IsArray()) {
    std::string text;
    for (const Json& item : value.AsArray()) text += (text.empty() ? "" : ",") + item.Dump();
    return "\"" + text + "\"";
  }
  if (!value.IsString()) return "\"" + value.Dump() + "\"";
  std::string text = "\"";
  for (const char c : value.AsString()) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

Json SampleJson(const BenchmarkResult& result, const BenchmarkSample& sample) {
  const bool prefill = result.test.kind == BenchmarkKind::kPrefill;
  Json::Object out = {
      {"test", Json(TestName(result.test))},
      {"sequences", Json(result.test.batch)},
      {"tokens_per_s",
       Json(sample.seconds > 0 ? static_cast<double>(result.total_tokens()) / sample.seconds : 0)},
      {"wall_s", Json(sample.seconds)},
      {"cpu_s", Json(sample.cpu_seconds)},
      {"ttft_ms", prefill ? Json(sample.first_token_seconds * 1000) : Json()},
      {"busy_before", sample.busy_before ? Json(*sample.busy_before) : Json()},
      {"busy_during", sample.busy_during ? Json(*sample.busy_during) : Json()},
      {"joules", sample.joules ? Json(*sample.joules) : Json()},
      {"machine_busy", Json(runtime::IsBusy(sample))},
  };
  return Json(std::move(out));
}

Json TextCheck(const std::optional<runtime::GateOutcome>& gate) {
  if (!gate) {
    return Json(Json::Object{{"verdict", Json()},
                             {"flags", Json(Json::Array{Json("no_gate")})},
                             {"nll", Json()},
                             {"nll_limit", Json()}});
  }
  Json::Array flags(gate->flags.begin(), gate->flags.end());
  return Json(Json::Object{{"verdict", Json(gate->passed ? "pass" : "fail")},
                           {"flags", Json(std::move(flags))},
                           {"nll", gate->nll ? Json(*gate->nll) : Json()},
                           {"nll_limit", gate->nll ? Json(gate->nll_limit) : Json()}});
}

std::string Device(const BenchFacts& facts) {
  return facts.machine.cpu_model ? Slug(*facts.machine.cpu_model) : "unknown-cpu";
}

Json Environment(const BenchFacts& facts) {
  const MachineInfo& machine = facts.machine;
  Json::Object env = {
      {"device", Json(Device(facts))},
      {"soc", machine.cpu_model ? Json(*machine.cpu_model) : Json()},
      {"runtime", Json("hone")},
      {"runtime_version", Json(facts.version + (facts.commit.empty() ? "" : "+" + facts.commit))},
      {"vendor_sdk", Json()},
      {"os_build", machine.kernel ? Json(*machine.kernel) : Json()},
      {"governor", machine.governor ? Json(*machine.governor) : Json()},
      {"processors", machine.processors ? Json(*machine.processors) : Json()},
      {"cores", machine.cores ? Json(*machine.cores) : Json()},
      {"ram_bytes", machine.ram_bytes ? Json(*machine.ram_bytes) : Json()},
      {"threads", Json(facts.threads)},
      {"engine", Json(facts.engine)},
      {"compute", facts.compute.empty() ? Json() : Json(facts.compute)},
      {"kv", facts.kv.empty() ? Json() : Json(facts.kv)},
      {"kernels", Json(Json::Array(facts.kernels.begin(), facts.kernels.end()))},
  };
  return Json(std::move(env));
}

// Whether the speed is one of a single sequence that began empty: what a record's own fields mean.
bool IsPlain(const BenchmarkResult& result) {
  return result.test.depth == 0 && result.test.batch == 1;
}

// "decode_tokens_per_s", "decode_total_at_depth_tokens_per_s": the speed's name in metrics.
std::string SpeedName(const runtime::BenchmarkTest& test) {
  return StrCat(test.kind == BenchmarkKind::kPrefill ? "prefill" : "decode",
                test.batch > 1 ? "_total" : "", test.depth > 0 ? "_at_depth" : "", "_tokens_per_s");
}

Json PlainSpeed(const BenchmarkResult* result) {
  return result != nullptr && IsPlain(*result) ? Json(Speed(*result).median) : Json();
}

double FirstTokenMs(const BenchmarkResult& prefill) {
  return runtime::Summarize(FirstTokens(prefill)).median * 1000;
}

Json Metrics(const BenchFacts& facts, const BenchmarkResult* prefill,
             const BenchmarkResult* decode) {
  Json metrics(Json::Object{});
  const auto add = [&](const BenchmarkResult& result) {
    const std::string name = SpeedName(result.test);
    const Summary speed = Speed(result);
    if (!IsPlain(result)) metrics.Set(name, Json(speed.median));
    metrics.Set(name + "_min", Json(speed.min));
    metrics.Set(name + "_max", Json(speed.max));
    metrics.Set(name + "_spread_pct", Json(speed.spread_percent));
    metrics.Set(name + "_wall_s", Json(Total(result, &BenchmarkSample::seconds)));
    metrics.Set(name + "_cpu_s", Json(Total(result, &BenchmarkSample::cpu_seconds)));
    if (const auto joules = JoulesPerToken(result)) {
      metrics.Set(name + "_joules_per_token", Json(*joules));
    }
  };
  const runtime::BenchmarkTest& test = (prefill != nullptr ? prefill : decode)->test;
  if (prefill != nullptr) metrics.Set("prefill_tokens", Json(prefill->test.tokens));
  metrics.Set("depth_tokens", Json(test.depth));
  if (decode != nullptr) metrics.Set("batch", Json(decode->test.batch));
  metrics.Set("load_s", Json(facts.load_seconds));
  if (prefill != nullptr) {
    add(*prefill);
    if (!IsPlain(*prefill)) metrics.Set("ttft_at_depth_ms", Json(FirstTokenMs(*prefill)));
  }
  if (decode != nullptr) add(*decode);
  return metrics;
}

// One member of results. Either test may be absent.
Json RecordResult(const BenchFacts& facts, const BenchmarkResult* prefill,
                  const BenchmarkResult* decode) {
  std::vector<const BenchmarkResult*> both;
  if (prefill != nullptr) both.push_back(prefill);
  if (decode != nullptr) both.push_back(decode);
  Json::Array samples;
  double spread = 0;
  for (const BenchmarkResult* result : both) {
    for (const BenchmarkSample& sample : result->samples) {
      samples.push_back(SampleJson(*result, sample));
    }
    spread = std::max(spread, Speed(*result).spread_percent);
  }
  Json::Array evidence;
  if (facts.gate) evidence.emplace_back("answer: " + facts.gate->answer);
  Json::Object out = {
      {"accelerator", Json("cpu")},
      {"loads", Json(true)},
      {"runs", Json(true)},
      {"full_delegation", Json()},
      {"output_match", Json()},
      {"max_abs_diff", Json()},
      {"max_rel_diff", Json()},
      {"latency_p50_ms", Json()},
      {"prefill_tokens_per_s", PlainSpeed(prefill)},
      {"decode_tokens_per_s", PlainSpeed(decode)},
      {"ttft_ms", prefill != nullptr && IsPlain(*prefill) ? Json(FirstTokenMs(*prefill)) : Json()},
      {"peak_mem_mb",
       facts.peak_bytes ? Json(static_cast<double>(*facts.peak_bytes) / 1048576) : Json()},
      {"context_length", Json(facts.context)},
      {"evidence", Json(std::move(evidence))},
      {"env", Environment(facts)},
      {"date", Json(facts.time.substr(0, 10))},
      {"provenance", Json("measured")},
      {"metrics", Metrics(facts, prefill, decode)},
      {"n_runs", Json(static_cast<std::int64_t>(both.front()->samples.size()))},
      {"samples", Json(std::move(samples))},
      {"statistic", Json("median")},
      // Without warm-up runs it is mixed: loading, the gate and earlier runs have touched the
      // weights.
      {"regime", facts.warmup > 0 ? Json("warm") : Json()},
      {"decode_tokens", decode != nullptr ? Json(decode->test.tokens) : Json()},
      {"power_state", Json()},
      {"text_check", TextCheck(facts.gate)},
      {"harness", Json(Json::Object{{"name", Json("hone bench")},
                                    {"version", Json(facts.version)},
                                    {"command", Json(facts.command)}})},
      {"spread_pct", Json(spread)},
  };
  return Json(std::move(out));
}

}  // namespace

std::string Slug(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain || upper) {
      out += upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if ((c == '.' || c == '_') && !out.empty()) {
      out += c;
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "unknown" : out;
}

std::string TestName(const runtime::BenchmarkTest& test) {
  std::string name = StrCat(test.kind == BenchmarkKind::kPrefill ? "pp" : "tg", test.tokens);
  if (test.depth > 0) name += StrCat(" @ d", test.depth);
  if (test.batch > 1) name += StrCat(" x", test.batch);
  return name;
}

std::string MarkdownReport(const BenchFacts& facts, std::span<const BenchmarkResult> results) {
  std::string out =
      "| model | size | params | backend | threads | test | t/s |\n"
      "| --- | ---: | ---: | --- | ---: | ---: | ---: |\n";
  for (const BenchmarkResult& result : results) {
    const Summary speed = Speed(result);
    out += StrCat("| ", facts.model_type, " | ", SizeText(facts.bytes), " | ",
                  CountText(facts.parameters), " | CPU | ", facts.threads, " | ",
                  TestName(result.test), " | ", Fixed(speed.mean, 2), " ± ", Fixed(speed.stddev, 2),
                  " |\n");
  }
  out +=
      "\n| test | median t/s | min | max | spread | wall s | CPU s | first token ms | J/token | "
      "others |\n"
      "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const BenchmarkResult& result : results) out += DetailRow(result);
  const std::size_t runs = results.empty() ? 0 : results[0].samples.size();
  const MachineInfo& machine = facts.machine;
  out += StrCat("\n- runs: ", runs, " after ", facts.warmup, " warm-up, context ", facts.context,
                "\n- load: ", Fixed(facts.load_seconds, 2), " s, peak resident ",
                SizeText(facts.peak_bytes), "\n- engine: ", facts.engine);
  if (!facts.compute.empty()) out += StrCat(", compute ", facts.compute, ", kv ", facts.kv);
  if (!facts.kernels.empty()) out += StrCat("\n- kernels: ", Joined(facts.kernels));
  out += StrCat("\n- machine: ", OrDash(machine.cpu_model.value_or("")), ", ",
                machine.processors ? StrCat(*machine.processors) : "-", " processors, governor ",
                OrDash(machine.governor.value_or("")), ", ", OrDash(machine.kernel.value_or("")),
                "\n- file: ", facts.model, ", SHA-256 ", OrDash(facts.sha256.value_or("")),
                "\n- hone ", facts.version, facts.commit.empty() ? "" : " (" + facts.commit + ")",
                ", ", facts.time, "\n- gate: ", GateText(facts.gate), "\n");
  return out;
}

std::string CsvReport(const BenchFacts& facts, std::span<const BenchmarkResult> results) {
  std::string out;
  for (const BenchmarkResult& result : results) {
    std::string names, cells;
    for (const auto& [name, value] : TestMembers(facts, result)) {
      names += (names.empty() ? "" : ",") + name;
      cells += (cells.empty() ? "" : ",") + CsvCell(value);
    }
    if (out.empty()) out = names + "\n";
    out += cells + "\n";
  }
  return out;
}

Json LlamaBenchJson(const BenchFacts& facts, std::span<const BenchmarkResult> results) {
  Json::Array tests;
  for (const BenchmarkResult& result : results) tests.emplace_back(TestMembers(facts, result));
  return Json(std::move(tests));
}

Status CheckRecordTests(std::span<const runtime::BenchmarkTest> tests) {
  const auto count = [&](const runtime::BenchmarkTest& like) {
    return std::count_if(tests.begin(), tests.end(), [&](const runtime::BenchmarkTest& test) {
      return test.kind == like.kind &&
             (like.kind == BenchmarkKind::kDecode || test.tokens == like.tokens);
    });
  };
  for (const runtime::BenchmarkTest& test : tests) {
    if (count(test) == 1) continue;
    return Status(Code::kInvalidArgument,
                  "a record tells its results apart by --prompt-tokens alone, so --json and "
                  "--record take one --decode-tokens, one --depth and each --prompt-tokens once");
  }
  return Status();
}

Json DeviceRunRecord(const BenchFacts& facts, std::span<const BenchmarkResult> results) {
  Json::Array records;
  for (const BenchmarkResult& result : results) {
    const bool prefill = result.test.kind == BenchmarkKind::kPrefill;
    bool paired = false;
    for (const BenchmarkResult& other : results) {
      const bool pairs =
          other.test.kind != result.test.kind && other.test.depth == result.test.depth;
      paired |= pairs;
      if (pairs && prefill) records.push_back(RecordResult(facts, &result, &other));
    }
    if (paired) continue;
    records.push_back(
        RecordResult(facts, prefill ? &result : nullptr, prefill ? nullptr : &result));
  }
  const std::string file = std::filesystem::path(facts.model).filename().string();
  const std::string stem = std::filesystem::path(facts.model).stem().string();
  return Json(Json::Object{
      {"schema_version", Json("1.1")},
      {"model_id", Json(Slug(stem.empty() ? facts.model : stem))},
      {"device", Json(Device(facts))},
      {"artifact", Json(file.empty() ? facts.model : file)},
      {"artifact_sha256", facts.sha256 ? Json(*facts.sha256) : Json()},
      {"quantization", Json(facts.model_type)},
      {"notes", Json("peak_mem_mb is the process's largest resident memory since it began (VmHWM, "
                     "MiB): with loading and every test of this file, the same in each result")},
      {"results", Json(std::move(records))},
  });
}

}  // namespace hone::cli
