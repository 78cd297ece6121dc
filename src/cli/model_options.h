// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Options that the commands on a model share: their words and what they mean.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/resolve_source.h"
#include "runtime/chat.h"
#include "runtime/engine.h"

namespace hone::cli {

inline const std::vector<std::string> kComputeWords = {"f32", "q8"};
inline const std::vector<std::string> kKvWords = {"f32", "f16", "int8"};
inline const std::vector<std::string> kThinkWords = {"on", "off", "auto"};
constexpr const char* kModelHelp =
    "A .litertlm bundle, a .gguf file, a checkpoint folder or a model of the hub, ORG/NAME";

// "" is auto. Other words are refused while the command line is parsed.
inline runtime::ComputeChoice ComputeFromWord(const std::string& word) {
  if (word.empty()) return runtime::ComputeChoice::kAuto;
  return word == "q8" ? runtime::ComputeChoice::kQ8 : runtime::ComputeChoice::kF32;
}
inline runtime::KvChoice KvFromWord(const std::string& word) {
  if (word.empty()) return runtime::KvChoice::kAuto;
  if (word == "int8") return runtime::KvChoice::kInt8;
  return word == "f16" ? runtime::KvChoice::kF16 : runtime::KvChoice::kF32;
}
inline runtime::Think ThinkFromWord(const std::string& word) {
  if (word == "on") return runtime::Think::kOn;
  return word == "off" ? runtime::Think::kOff : runtime::Think::kAuto;
}

// Says so if --think has nothing to switch.
inline void NoteUnusedThink(const runtime::TextSetup& text, const std::string& word, bool raw) {
  if (word == "auto") return;
  if (raw) {
    PrintNote("--raw uses no chat template, so --think changes nothing");
  } else if (text.chat_template &&
             text.template_source.find("enable_thinking") == std::string::npos) {
    PrintNote("the chat template has no enable_thinking, so --think changes nothing");
  }
}

// Seconds of the local wall clock, for templates that print the date.
inline std::int64_t LocalNow() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  return ::localtime_r(&now, &local) == nullptr ? now : now + local.tm_gmtoff;
}

inline void PrintWarnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) PrintWarning(warning);
}

// The engine that --threads, --compute, --kv and --context ask for; prints its warnings.
inline Result<std::unique_ptr<runtime::Engine>> OpenEngine(
    const std::string& model, int threads, const std::string& compute, const std::string& kv,
    runtime::RunChoice run = runtime::RunChoice::kAuto, std::int64_t context = 0) {
  runtime::EngineOptions options;
  HONE_ASSIGN(options.num_threads, ResolveThreads(threads));
  options.compute = ComputeFromWord(compute);
  options.kv = KvFromWord(kv);
  options.run = run;
  options.context = context;
  HONE_ASSIGN(const ResolvedSource source, ResolveSource(model));
  HONE_ASSIGN(auto engine, runtime::Engine::Open(source.path, options));
  PrintWarnings(engine->warnings());
  return engine;
}

}  // namespace hone::cli
