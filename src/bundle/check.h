// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Finds what is wrong or risky in a bundle. Every finding has an id; docs/checks.md lists them all.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace hone::bundle {

enum class Severity : std::uint8_t { kError, kWarning, kNote };
const char* SeverityName(Severity severity);  // "error", "warning", "note"

// What a finding stops from working; combined with |.
enum Breaks : std::uint8_t {
  kBreaksNothing = 0,
  kBreaksLiteRtLm = 1,      // LiteRT-LM 0.18 does not load the file, or cannot answer on a CPU
  kBreaksLiteRtLmChat = 2,  // LiteRT-LM 0.18 loads it, but conversations fail or go wrong
  kBreaksHone = 4,          // Hone does not run it
};

struct Subject;
class Findings;

// One row of the table of checks.
struct CheckInfo {
  const char* id;
  Severity severity;
  std::uint8_t breaks;
  void (*function)(const Subject&, Findings&);  // rows may share one; it runs once
  const char* why;                              // why it matters
  const char* todo;                             // what to do
};
// Every check, in the order in which they run and are documented.
std::span<const CheckInfo> CheckTable();

struct Finding {
  const CheckInfo* info = nullptr;
  std::string what;
  std::string todo;
};

enum class Backend : std::uint8_t { kAny, kCpu, kGpu, kNpu };

struct CheckOptions {
  bool deep = false;                // hashes, every weight, and running the graphs
  Backend backend = Backend::kAny;  // what the file is for; NPU checks run only for an NPU
  std::uint64_t device_limit = 0;   // largest buffer of the device in bytes; 0: not known
  int num_threads = 2;
  const std::atomic<bool>* cancel = nullptr;  // polled by the deep checks
};

struct CheckReport {
  std::string file;
  std::uint64_t bytes = 0;
  std::vector<Finding> findings;  // in the order of the table
  std::uint64_t scales_read = 0;  // all of the file's scales, unless reading stopped early
  bool complete = true;           // false: damage stopped the other checks
  int Count(Severity severity) const;
};

// Errors of the file are findings; a status is only for a file that cannot be opened, and
// kCancelled.
Result<CheckReport> CheckBundle(const std::string& path, const CheckOptions& options);

Json CheckJson(const CheckReport& report);
std::string CheckText(const CheckReport& report);

}  // namespace hone::bundle
