// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "base/file.h"
#include "bridge/sha256.h"
#include "chat/chat_model.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/run_options.h"
#include "runtime/engine_words.h"
#include "serve/memory_room.h"
#include "serve/model_backend.h"
#include "serve/request_defaults.h"

namespace hone::cli {
namespace {

namespace openai = serve::openai;

// Of the version, the size and the beginning: enough to tell models and versions apart without
// reading gigabytes.
std::string FingerprintOf(const std::string& path) {
  constexpr std::size_t kStartBytes = 1 << 20;
  namespace fs = std::filesystem;
  const bool folder = IsDirectory(path);
  std::ifstream in(folder ? fs::path(path) / "config.json" : fs::path(path), std::ios::binary);
  std::string start(kStartBytes, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  const auto bytes = serve::ModelFileBytes(path);
  start += StrCat("|", bytes.ok() ? *bytes : 0, "|", HONE_VERSION);
  return "fp_" + bridge::Sha256Hex(AsBytes(start)).substr(0, 12);
}

openai::SamplingFields SamplingOf(const ServeArgs& args) {
  openai::SamplingFields fields;
  fields.temperature = args.temperature;
  fields.top_p = args.top_p;
  fields.min_p = args.min_p;
  fields.top_k = args.top_k;
  fields.presence_penalty = args.presence_penalty;
  fields.frequency_penalty = args.frequency_penalty;
  fields.repetition_penalty = args.repetition_penalty;
  return fields;
}

// What is asked for, as far as the model can do it: an option for all requests must not make them
// fail.
serve::RequestDefaults DefaultsOf(const ServeArgs& args, const serve::ModelEntry& entry,
                                  const chat::ChatModel& model) {
  using openai::ThinkMode;
  serve::RequestDefaults defaults;
  defaults.max_tokens = args.max_tokens;
  ThinkMode mode = ThinkMode::kDefault;
  if (args.think != "auto") mode = args.think == "on" ? ThinkMode::kOn : ThinkMode::kOff;
  if (entry.thinking) mode = *entry.thinking ? ThinkMode::kOn : ThinkMode::kOff;
  // Off can be said by the template alone.
  const bool can_switch =
      model.has_thinking() || (mode == ThinkMode::kOff && model.template_switches_thinking());
  if (mode != ThinkMode::kDefault && !can_switch) {
    PrintNote(StrCat(entry.name, ": the model has no thinking channel to switch"));
    mode = ThinkMode::kDefault;
  }
  defaults.thinking = mode;
  return defaults;
}

// A float as it is written: 0.9, not 0.8999999761581421.
Json FloatJson(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double exact = value;
  std::from_chars(text.data(), end, exact);
  return Json(exact);
}

serve::ModelFacts FactsOf(const serve::ModelBackend& backend) {
  const chat::ModelHost& host = backend.host();
  const runtime::Engine& engine = host.engine();
  const chat::ChatModel& model = host.model();
  const runtime::TextSetup& text = engine.text();
  serve::ModelFacts facts;
  runtime::EngineWords words = runtime::WordsOf(engine);
  facts.engine = std::move(words.engine);
  facts.compute = std::move(words.compute);
  facts.kv = std::move(words.kv);
  facts.kernels = engine.KernelNames();
  facts.threads = engine.num_threads();
  facts.parallel = host.options().max_parallel;
  facts.max_waiting = host.options().max_queue;
  facts.chat_template = model.has_template();
  facts.thinking = model.has_thinking();
  if (model.family() != nullptr && model.uses_tools()) facts.tool_family = model.family()->name;
  facts.load_seconds = engine.load_seconds();
  facts.sampling.Set("temperature", FloatJson(text.temperature));
  facts.sampling.Set("top_p", FloatJson(text.top_p));
  facts.sampling.Set("top_k", Json(static_cast<std::int64_t>(text.top_k)));
  facts.sampling.Set("min_p", FloatJson(text.min_p));
  facts.sampling.Set("repetition_penalty", FloatJson(text.repetition_penalty));
  facts.warnings = engine.warnings();
  return facts;
}

// The operator's values instead of the model's.
void AddSampling(const openai::SamplingFields& fields, Json& sampling) {
  const auto set = [&](const char* key, const auto& value) {
    if (value) sampling.Set(key, Json(*value));
  };
  set("temperature", fields.temperature);
  set("top_p", fields.top_p);
  set("top_k", fields.top_k);
  set("min_p", fields.min_p);
  set("repetition_penalty", fields.repetition_penalty);
  set("presence_penalty", fields.presence_penalty);
  set("frequency_penalty", fields.frequency_penalty);
}

Result<serve::ModelBackendOptions> BackendOptions(const ServeArgs& args,
                                                  const serve::ModelEntry& entry) {
  serve::ModelBackendOptions options;
  options.id = entry.name;
  options.fingerprint = FingerprintOf(entry.path);
  HONE_ASSIGN(options.engine.num_threads, ResolveThreads(args.threads));
  options.engine.compute = ComputeFromWord(args.compute);
  options.engine.kv = KvFromWord(args.kv);
  options.engine.context = entry.context.value_or(args.context);
  HONE_ASSIGN(options.engine.prefix_cache_bytes, ParsePrefixCache(args.prefix_cache));
  options.host.max_parallel = args.parallel;
  options.host.max_queue = args.queue;
  options.host.speculation = SpeculationFromWord(args.speculate);
  options.on_full = args.on_full == "trim" ? chat::OnFull::kTrim : chat::OnFull::kError;
  options.sampling = SamplingOf(args);
  return options;
}

}  // namespace

Result<serve::LoadedModel> OpenServedModel(const ServeArgs& args, const serve::ModelEntry& entry) {
  HONE_ASSIGN(serve::ModelBackendOptions options, BackendOptions(args, entry));
  const openai::SamplingFields sampling = options.sampling;
  HONE_ASSIGN(auto backend, serve::ModelBackend::Open(entry.path, std::move(options)));
  serve::LoadedModel loaded;
  loaded.facts = FactsOf(*backend);
  AddSampling(sampling, loaded.facts.sampling);
  for (const std::string& warning : loaded.facts.warnings) {
    PrintWarning(StrCat(entry.name, ": ", warning));
  }
  loaded.load = [host = &backend->host()] {
    const chat::HostStats stats = host->stats();
    return serve::ModelLoad{.active = stats.active_sequences,
                            .waiting = stats.waiting_jobs,
                            .work = {.runs = stats.model_runs,
                                     .drafted_tokens = stats.drafted_tokens,
                                     .accepted_tokens = stats.accepted_tokens}};
  };
  const serve::RequestDefaults defaults = DefaultsOf(args, entry, backend->host().model());
  loaded.backend = std::make_unique<serve::DefaultsBackend>(std::move(backend), defaults);
  return loaded;
}

}  // namespace hone::cli
