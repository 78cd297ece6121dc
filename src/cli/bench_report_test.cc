// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "cli/artifact_hash.h"

namespace hone::cli {
namespace {

using runtime::BenchmarkKind;
using runtime::BenchmarkResult;

BenchFacts Facts() {
  BenchFacts facts;
  facts.model = "models/Tiny Model.litertlm";
  facts.model_type = "llama int4_block32";
  facts.bytes = 98566144;
  facts.parameters = 134515008;
  facts.sha256 = std::string(64, 'a');
  facts.engine = "kernels";
  facts.compute = "q8";
  facts.kv = "f16";
  facts.kernels = {"int4_fast", "int8_fast"};
  facts.threads = 2;
  facts.context = 4096;
  facts.warmup = 1;
  facts.load_seconds = 0.25;
  facts.peak_bytes = 220200960;
  facts.machine.cpu_model = "Test CPU \"X\" 3";
  facts.machine.processors = 2;
  facts.machine.kernel = "Linux 6.1";
  facts.version = "0.1.0";
  facts.commit = "abc123";
  facts.command = "hone bench m";
  facts.time = "2026-01-31T12:00:00Z";
  facts.gate = runtime::GateOutcome{.passed = true,
                                    .reason = "",
                                    .flags = {},
                                    .prompt = "?",
                                    .answer = "Paris.\n",
                                    .nll = 2.5,
                                    .nll_limit = 6.48};
  return facts;
}

std::vector<BenchmarkResult> Results() {
  BenchmarkResult prefill;
  prefill.test = {BenchmarkKind::kPrefill, 100, 0, 1};
  prefill.samples = {{.seconds = 0.5,
                      .cpu_seconds = 0.9,
                      .first_token_seconds = 0.51,
                      .busy_before = {},
                      .busy_during = 0.01,
                      .joules = {}},
                     {.seconds = 0.4,
                      .cpu_seconds = 0.8,
                      .first_token_seconds = 0.41,
                      .busy_before = {},
                      .busy_during = 0.02,
                      .joules = {}}};
  BenchmarkResult decode;
  decode.test = {BenchmarkKind::kDecode, 10, 0, 4};
  decode.samples = {{.seconds = 0.5,
                     .cpu_seconds = 1.0,
                     .first_token_seconds = 0,
                     .busy_before = 0.25,
                     .busy_during = 0.02,
                     .joules = 8}};
  return {prefill, decode};
}

TEST(BenchReport, MarkdownHasLlamaBenchsColumnsAndTheFacts) {
  EXPECT_EQ(
      MarkdownReport(Facts(), Results()),
      "| model | size | params | backend | threads | test | t/s |\n"
      "| --- | ---: | ---: | --- | ---: | ---: | ---: |\n"
      "| llama int4_block32 | 94.00 MiB | 134.52 M | CPU | 2 | pp100 | 225.00 ± 35.36 |\n"
      "| llama int4_block32 | 94.00 MiB | 134.52 M | CPU | 2 | tg10 x4 | 80.00 ± 0.00 |\n"
      "\n"
      "| test | median t/s | min | max | spread | wall s | CPU s | first token ms | J/token | "
      "others |\n"
      "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
      "| pp100 | 225.00 | 200.00 | 250.00 | 22.2 % | 0.90 | 1.70 | 460.0 | - | 2 % |\n"
      "| tg10 x4 | 80.00 | 80.00 | 80.00 | 0.0 % | 0.50 | 1.00 | - | 0.200 | 25 % (busy) |\n"
      "\n"
      "- runs: 2 after 1 warm-up, context 4096\n"
      "- load: 0.25 s, peak resident 210.00 MiB\n"
      "- engine: kernels, compute q8, kv f16\n"
      "- kernels: int4_fast, int8_fast\n"
      "- machine: Test CPU \"X\" 3, 2 processors, governor -, Linux 6.1\n"
      "- file: models/Tiny Model.litertlm, SHA-256 " +
          std::string(64, 'a') +
          "\n"
          "- hone 0.1.0 (abc123), 2026-01-31T12:00:00Z\n"
          "- gate: a real answer came: \"Paris.\\n\"; mean NLL of plain English 2.50 a token "
          "(limit 6.48)\n");
}

TEST(BenchReport, CsvHasOneLineATestAndQuotesEveryCell) {
  const std::string csv = CsvReport(Facts(), Results());
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "build_commit,build_version,cpu_info,gpu_info,backends,model_filename,model_type,"
            "model_size,model_n_params,n_threads,type_k,type_v,n_prompt,n_gen,n_depth,test_time,"
            "avg_ns,stddev_ns,avg_ts,stddev_ts,samples_ns,samples_ts,n_seqs,compute,median_ts,"
            "min_ts,max_ts,cpu_ns,ttft_ns,busy_share_of_others,joules_per_token");
  EXPECT_NE(csv.find("\n\"abc123\",\"0.1.0\",\"Test CPU \"\"X\"\" 3\",\"\",\"CPU\","
                     "\"models/Tiny Model.litertlm\",\"llama int4_block32\",\"98566144\","
                     "\"134515008\",\"2\",\"f16\",\"f16\",\"100\",\"0\",\"0\","
                     "\"2026-01-31T12:00:00Z\",\"450000000\",\"70710678\",\"225.0\","),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find("\"500000000,400000000\",\"200.0,250.0\",\"1\""), std::string::npos) << csv;
}

TEST(BenchReport, JsonHasLlamaBenchsNames) {
  const Json json = LlamaBenchJson(Facts(), Results());
  ASSERT_EQ(json.AsArray().size(), 2U);
  const Json& decode = json.AsArray()[1];
  EXPECT_EQ(decode.Find("n_prompt")->AsInt(), 0);
  EXPECT_EQ(decode.Find("n_gen")->AsInt(), 10);
  EXPECT_EQ(decode.Find("avg_ns")->AsInt(), 500000000);
  EXPECT_DOUBLE_EQ(decode.Find("avg_ts")->AsDouble(), 80);
  EXPECT_EQ(decode.Find("n_seqs")->AsInt(), 4);
  EXPECT_TRUE(decode.Find("ttft_ns")->IsNull());
}

// A small check of the schema of a device run: names, types and which may be null.
struct Field {
  const char* name;
  const char*
      types;  // letters: s string, n number, i integer, b boolean, o object, a array, 0 null
};

void CheckFields(const Json& object, const std::vector<Field>& fields, bool closed) {
  ASSERT_TRUE(object.IsObject());
  for (const Field& field : fields) {
    const Json* value = object.Find(field.name);
    ASSERT_NE(value, nullptr) << field.name;
    bool fits = false;
    for (const char* type = field.types; *type != 0; ++type) {
      fits |= (*type == 's' && value->IsString()) || (*type == 'n' && value->IsNumber()) ||
              (*type == 'i' && value->IsInt()) || (*type == 'b' && value->IsBool()) ||
              (*type == 'o' && value->IsObject()) || (*type == 'a' && value->IsArray()) ||
              (*type == '0' && value->IsNull());
    }
    EXPECT_TRUE(fits) << field.name << " is " << value->TypeName();
  }
  if (closed) {
    EXPECT_EQ(object.AsObject().size(), fields.size());
  }
}

void CheckRecord(const Json& record) {
  CheckFields(record,
              {{"schema_version", "s"},
               {"model_id", "s"},
               {"device", "s"},
               {"artifact", "s"},
               {"artifact_sha256", "s0"},
               {"quantization", "s0"},
               {"notes", "s"},
               {"results", "a"}},
              true);
  for (const Json& result : record.Find("results")->AsArray()) {
    CheckFields(result,
                {{"accelerator", "s"},
                 {"loads", "b"},
                 {"runs", "b"},
                 {"full_delegation", "b0"},
                 {"output_match", "b0"},
                 {"max_abs_diff", "n0"},
                 {"max_rel_diff", "n0"},
                 {"latency_p50_ms", "n0"},
                 {"prefill_tokens_per_s", "n0"},
                 {"decode_tokens_per_s", "n0"},
                 {"ttft_ms", "n0"},
                 {"peak_mem_mb", "n0"},
                 {"context_length", "i"},
                 {"evidence", "a"},
                 {"env", "o"},
                 {"date", "s"},
                 {"provenance", "s"},
                 {"metrics", "o"},
                 {"n_runs", "i"},
                 {"samples", "a"},
                 {"statistic", "s"},
                 {"regime", "s0"},
                 {"decode_tokens", "i0"},
                 {"power_state", "s0"},
                 {"text_check", "o"},
                 {"harness", "o"},
                 {"spread_pct", "n"}},
                true);
    CheckFields(*result.Find("env"),
                {{"device", "s"},
                 {"soc", "s0"},
                 {"runtime", "s"},
                 {"runtime_version", "s"},
                 {"vendor_sdk", "s0"},
                 {"os_build", "s0"}},
                false);
    CheckFields(*result.Find("text_check"),
                {{"verdict", "s0"}, {"flags", "a"}, {"nll", "n0"}, {"nll_limit", "n0"}}, true);
    CheckFields(*result.Find("harness"), {{"name", "s"}, {"version", "s"}, {"command", "s"}}, true);
    for (const auto& [name, value] : result.Find("metrics")->AsObject()) {
      EXPECT_TRUE(value.IsNumber()) << name;
    }
    for (const char* speed : {"prefill_tokens_per_s", "decode_tokens_per_s"}) {
      const Json* value = result.Find(speed);
      EXPECT_TRUE(value->IsNull() || value->AsDouble() > 0) << speed;
    }
  }
}

TEST(BenchReport, RecordFollowsTheSchemaOfDeviceRuns) {
  std::vector<BenchmarkResult> results = Results();
  results[1].test.batch = 1;
  const Json record = DeviceRunRecord(Facts(), results);
  CheckRecord(record);
  EXPECT_EQ(record.Find("model_id")->AsString(), "tiny-model");
  EXPECT_EQ(record.Find("device")->AsString(), "test-cpu-x-3");
  EXPECT_EQ(record.Find("artifact")->AsString(), "Tiny Model.litertlm");
  ASSERT_EQ(record.Find("results")->AsArray().size(), 1U);
  const Json& result = record.Find("results")->AsArray()[0];
  EXPECT_DOUBLE_EQ(result.Find("prefill_tokens_per_s")->AsDouble(), 225);
  EXPECT_DOUBLE_EQ(result.Find("decode_tokens_per_s")->AsDouble(), 20);
  EXPECT_DOUBLE_EQ(result.Find("ttft_ms")->AsDouble(), 460);
  EXPECT_DOUBLE_EQ(result.Find("peak_mem_mb")->AsDouble(), 210);
  EXPECT_EQ(result.Find("metrics")->Find("prefill_tokens")->AsInt(), 100);
  EXPECT_EQ(result.Find("date")->AsString(), "2026-01-31");
  EXPECT_EQ(result.Find("samples")->AsArray().size(), 3U);
  EXPECT_EQ(result.Find("text_check")->Find("verdict")->AsString(), "pass");
  EXPECT_DOUBLE_EQ(result.Find("text_check")->Find("nll")->AsDouble(), 2.5);
  EXPECT_DOUBLE_EQ(result.Find("text_check")->Find("nll_limit")->AsDouble(), 6.48);
  EXPECT_EQ(result.Find("regime")->AsString(), "warm");
  EXPECT_EQ(result.Find("metrics")->Find("decode_total_tokens_per_s"), nullptr);
  EXPECT_NE(record.Find("notes")->AsString().find("peak_mem_mb is the process's largest"),
            std::string::npos);
}

TEST(BenchReport, RecordSaysNullForWhatIsNotKnown) {
  BenchFacts facts = Facts();
  facts.sha256.reset();
  facts.peak_bytes.reset();
  facts.machine = {};
  facts.gate.reset();
  std::vector<BenchmarkResult> results = Results();
  results.erase(results.begin());
  Json record = DeviceRunRecord(facts, results);
  CheckRecord(record);
  EXPECT_TRUE(record.Find("artifact_sha256")->IsNull());
  const Json& result = record.Find("results")->AsArray()[0];
  EXPECT_TRUE(result.Find("prefill_tokens_per_s")->IsNull());
  EXPECT_TRUE(result.Find("ttft_ms")->IsNull());
  EXPECT_TRUE(result.Find("peak_mem_mb")->IsNull());
  EXPECT_TRUE(result.Find("env")->Find("soc")->IsNull());
  EXPECT_TRUE(result.Find("text_check")->Find("verdict")->IsNull());
  EXPECT_TRUE(result.Find("text_check")->Find("nll")->IsNull());
  EXPECT_EQ(result.Find("text_check")->Find("flags")->Dump(), "[\"no_gate\"]");
  // A prefill without a decode at its depth.
  results = Results();
  results[1].test.depth = 64;
  record = DeviceRunRecord(facts, results);
  CheckRecord(record);
  EXPECT_EQ(record.Find("results")->AsArray().size(), 2U);
}

// The speed of several sequences together is not the speed of one.
TEST(BenchReport, RecordKeepsTheSpeedOfABatchInTheMetrics) {
  const Json record = DeviceRunRecord(Facts(), Results());
  CheckRecord(record);
  const Json& result = record.Find("results")->AsArray()[0];
  EXPECT_DOUBLE_EQ(result.Find("prefill_tokens_per_s")->AsDouble(), 225);
  EXPECT_TRUE(result.Find("decode_tokens_per_s")->IsNull());
  const Json& metrics = *result.Find("metrics");
  EXPECT_DOUBLE_EQ(metrics.Find("decode_total_tokens_per_s")->AsDouble(), 80);
  EXPECT_DOUBLE_EQ(metrics.Find("decode_total_tokens_per_s_max")->AsDouble(), 80);
  EXPECT_EQ(metrics.Find("batch")->AsInt(), 4);
  EXPECT_EQ(result.Find("samples")->AsArray()[2].Find("sequences")->AsInt(), 4);
}

TEST(BenchReport, RecordKeepsSpeedsAfterADepthInTheMetrics) {
  std::vector<BenchmarkResult> results = Results();
  for (BenchmarkResult& result : results) result.test.depth = 64;
  const Json record = DeviceRunRecord(Facts(), results);
  CheckRecord(record);
  const Json& result = record.Find("results")->AsArray()[0];
  for (const char* name : {"prefill_tokens_per_s", "decode_tokens_per_s", "ttft_ms"}) {
    EXPECT_TRUE(result.Find(name)->IsNull()) << name;
  }
  const Json& metrics = *result.Find("metrics");
  EXPECT_EQ(metrics.Find("prefill_tokens")->AsInt(), 100);
  EXPECT_EQ(metrics.Find("depth_tokens")->AsInt(), 64);
  EXPECT_DOUBLE_EQ(metrics.Find("prefill_at_depth_tokens_per_s")->AsDouble(), 225);
  EXPECT_DOUBLE_EQ(metrics.Find("ttft_at_depth_ms")->AsDouble(), 460);
  EXPECT_DOUBLE_EQ(metrics.Find("decode_total_at_depth_tokens_per_s")->AsDouble(), 80);
}

TEST(BenchReport, RecordNeverSaysColdAfterAGate) {
  BenchFacts facts = Facts();
  facts.warmup = 0;
  const Json record = DeviceRunRecord(facts, Results());
  CheckRecord(record);
  EXPECT_TRUE(record.Find("results")->AsArray()[0].Find("regime")->IsNull());
}

TEST(CheckRecordTests, RefusesResultsThatARecordCannotTellApart) {
  using runtime::BenchmarkTest;
  const BenchmarkTest p8{BenchmarkKind::kPrefill, 8, 0, 1}, p16{BenchmarkKind::kPrefill, 16, 0, 1};
  const BenchmarkTest d4{BenchmarkKind::kDecode, 4, 0, 1}, d8{BenchmarkKind::kDecode, 8, 0, 1};
  BenchmarkTest deep_p8 = p8, deep_d4 = d4;
  deep_p8.depth = deep_d4.depth = 64;
  const auto check = [](const std::vector<BenchmarkTest>& tests) {
    return CheckRecordTests(tests).code();
  };
  EXPECT_EQ(check({p8, p16, d4}), Code::kOk);
  EXPECT_EQ(check({d8}), Code::kOk);
  EXPECT_EQ(check({deep_p8, deep_d4}), Code::kOk);
  EXPECT_EQ(check({p8, d4, d8}), Code::kInvalidArgument);
  EXPECT_EQ(check({p8, p8, d4}), Code::kInvalidArgument);
  EXPECT_EQ(check({p8, deep_p8}), Code::kInvalidArgument);
  EXPECT_EQ(check({d4, deep_d4}), Code::kInvalidArgument);
}

TEST(Slug, KeepsOnlyWhatAnIdMayHold) {
  EXPECT_EQ(Slug("MiniCPM5-2B int4"), "minicpm5-2b-int4");
  EXPECT_EQ(Slug("Intel(R) Xeon(R) @ 2.1GHz"), "intel-r-xeon-r-2.1ghz");
  EXPECT_EQ(Slug("..x_1"), "x_1");
  EXPECT_EQ(Slug("()"), "unknown");
}

TEST(HashArtifact, HashesAFileAndAFolder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "hone_artifact_hash_test";
  fs::remove_all(folder);
  fs::create_directories(folder / "inner");
  std::ofstream(folder / "b") << "abc";
  std::ofstream(folder / "a") << "";
  std::ofstream(folder / "inner" / "c") << "not counted";
  const std::string empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  std::uint64_t done = 0;
  const auto progress = [&](std::uint64_t bytes) { done = bytes; };
  auto file = HashArtifact((folder / "b").string(), progress, nullptr);
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ(file->sha256, abc);
  EXPECT_EQ(file->bytes, 3U);
  EXPECT_EQ(done, 3U);
  std::ofstream(folder.string() + ".txt") << empty << "  a\n" << abc << "  b\n";
  auto lines = HashArtifact(folder.string() + ".txt", {}, nullptr);
  auto all = HashArtifact(folder.string(), {}, nullptr);
  ASSERT_TRUE(all.ok() && lines.ok()) << all.message();
  EXPECT_EQ(all->sha256, lines->sha256);
  EXPECT_EQ(all->bytes, 3U);
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(HashArtifact((folder / "b").string(), {}, &cancel).code(), Code::kCancelled);
  EXPECT_EQ(HashArtifact((folder / "none").string(), {}, nullptr).code(), Code::kIo);
  fs::remove_all(folder);
  fs::remove(folder.string() + ".txt");
}

}  // namespace
}  // namespace hone::cli
