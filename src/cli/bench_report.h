// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What hone bench prints: tables in llama-bench's columns, and a device-run record.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/machine_info.h"
#include "base/status.h"
#include "runtime/benchmark.h"

namespace hone::cli {

// What the numbers are of. Absent is not known.
struct BenchFacts {
  std::string model;                   // the path or name as given
  std::string model_type;              // "llama int4_block32"
  std::optional<std::uint64_t> bytes;  // of the file, or of the folder's files
  std::optional<std::int64_t> parameters;
  std::optional<std::string> sha256;
  std::string engine;       // "kernels" or "graph"
  std::string compute, kv;  // "q8", "f16"; empty for a graph
  std::vector<std::string> kernels;
  int threads = 0;
  std::int64_t context = 0;
  int warmup = 0;
  std::uint64_t seed = 0;
  double load_seconds = 0;
  std::optional<std::uint64_t> peak_bytes;  // resident
  MachineInfo machine;
  std::string version, commit;               // commit may be empty
  std::string command;                       // the command line
  std::string time;                          // "2026-01-31T12:00:00Z"
  std::optional<runtime::GateOutcome> gate;  // absent: not asked
};

// "pp256", "tg128 @ d4096", "tg128 x8".
std::string TestName(const runtime::BenchmarkTest& test);

std::string MarkdownReport(const BenchFacts& facts,
                           std::span<const runtime::BenchmarkResult> results);
std::string CsvReport(const BenchFacts& facts, std::span<const runtime::BenchmarkResult> results);
// An array with an object for each test: llama-bench's names, then a few of our own.
Json LlamaBenchJson(const BenchFacts& facts, std::span<const runtime::BenchmarkResult> results);

// A record tells its results apart by the accelerator and the tokens of prefill alone.
// kInvalidArgument if two results of these tests would be the same to it: several lengths of decode
// or several depths, or a length of prefill twice.
Status CheckRecordTests(std::span<const runtime::BenchmarkTest> tests);

// The record of a device run (docs/guides/bench.md): a result for each pair of a prefill and a
// decode test at the same depth. The tests must pass CheckRecordTests. Speeds after a depth, or of
// several sequences together, are metrics with their own names.
Json DeviceRunRecord(const BenchFacts& facts, std::span<const runtime::BenchmarkResult> results);

// Letters in lower case, digits, '.', '_' and '-', the first a letter or digit: "minicpm5-2b-int4".
std::string Slug(std::string_view text);

}  // namespace hone::cli
