// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Hone's side of bench/peers.py: a line of JSON in asks for a measurement, a line of JSON out
// answers. Prompts are token ids; decode is greedy and never stops early.
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "runtime/engine.h"

namespace hone {
namespace {

using runtime::Engine;
using runtime::Sequence;
using runtime::Step;
using runtime::StepPart;
using Ids = std::vector<std::int32_t>;

struct Arguments {
  std::string model;
  runtime::EngineOptions options;
};

// What a measurement asks for: prompts[i] is one sequence; all have the same length.
struct Request {
  Ids depth_ids;  // run before the clock starts, by every sequence
  std::vector<Ids> prompts;
  std::int64_t decode = 0;  // steps after the prompt
};

struct Clock {
  std::chrono::steady_clock::time_point wall;
  double cpu;
};

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Clock Now() { return {std::chrono::steady_clock::now(), CpuSeconds()}; }

double WallSince(const Clock& start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start.wall).count();
}

Result<Ids> ReadIds(const Json& json) {
  if (!json.IsArray()) return Status(Code::kInvalidArgument, "ids: expected a list");
  Ids out;
  for (const Json& item : json.AsArray()) {
    if (!item.IsInt()) return Status(Code::kInvalidArgument, "ids: expected integers");
    out.push_back(static_cast<std::int32_t>(item.AsInt()));
  }
  return out;
}

Result<Request> ReadRequest(const std::string& line) {
  HONE_ASSIGN(const Json json, ParseJson(line));
  Request out;
  if (const Json* depth = json.Find("depth_ids"); depth != nullptr) {
    HONE_ASSIGN(out.depth_ids, ReadIds(*depth));
  }
  const Json* prompts = json.Find("prompts");
  if (prompts == nullptr || !prompts->IsArray() || prompts->AsArray().empty()) {
    return Status(Code::kInvalidArgument, "prompts: expected a list of lists of ids");
  }
  for (const Json& prompt : prompts->AsArray()) {
    HONE_ASSIGN(Ids ids, ReadIds(prompt));
    out.prompts.push_back(std::move(ids));
  }
  HONE_ASSIGN(out.decode, GetInt(json, "decode"));
  return out;
}

// The best id of each row of logits [rows, vocab]; the lower id of equals.
void TakeBest(std::span<const float> logits, std::vector<Ids>* answers) {
  const std::size_t vocab = logits.size() / answers->size();
  for (std::size_t row = 0; row < answers->size(); ++row) {
    const auto part = logits.subspan(row * vocab, vocab);
    const auto best = std::max_element(part.begin(), part.end()) - part.begin();
    (*answers)[row].push_back(static_cast<std::int32_t>(best));
  }
}

Json AnswersJson(const std::vector<Ids>& answers) {
  Json::Array out;
  for (const Ids& ids : answers) out.emplace_back(Json::Array(ids.begin(), ids.end()));
  return Json(std::move(out));
}

Result<Json> Measure(Engine& engine, const Request& request) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    HONE_ASSIGN(auto sequence, engine.NewSequence());
    if (!request.depth_ids.empty()) {
      HONE_TRY(engine.Run(Step{{StepPart{sequence.get(), request.depth_ids}}}, nullptr));
    }
    sequences.push_back(std::move(sequence));
  }
  std::vector<float> logits;
  std::vector<Ids> answers(sequences.size());
  Step step;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    step.parts.push_back({sequences[i].get(), request.prompts[i]});
  }
  const Clock prefill = Now();
  HONE_TRY(engine.Run(step, &logits));
  TakeBest(logits, &answers);
  const double prefill_seconds = WallSince(prefill);
  const Clock decode = Now();
  for (std::int64_t i = 0; i < request.decode; ++i) {
    for (std::size_t j = 0; j < answers.size(); ++j) {
      step.parts[j].tokens = std::span(answers[j]).last(1);
    }
    HONE_TRY(engine.Run(step, &logits));
    TakeBest(logits, &answers);
  }
  const double decode_seconds = WallSince(decode);
  const double end_cpu = CpuSeconds();
  const auto rows = static_cast<std::int64_t>(sequences.size());
  Json out(Json::Object{});
  out.Set("prefill_tokens", Json(rows * static_cast<std::int64_t>(request.prompts[0].size())));
  out.Set("prefill_s", Json(prefill_seconds));
  out.Set("prefill_cpu_s", Json(decode.cpu - prefill.cpu));
  out.Set("decode_tokens", Json(rows * request.decode));
  out.Set("decode_s", Json(decode_seconds));
  out.Set("decode_cpu_s", Json(end_cpu - decode.cpu));
  out.Set("answers", AnswersJson(answers));
  return out;
}

void PrintLine(const Json& json) {
  const std::string text = json.Dump() + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Json ErrorJson(std::string_view message) { return Json(Json::Object{{"error", Json(message)}}); }

int Fail(std::string_view message) {
  PrintLine(ErrorJson(message));
  return 2;
}

Result<Json> Answer(Engine& engine, const std::string& line) {
  HONE_ASSIGN(const Request request, ReadRequest(line));
  return Measure(engine, request);
}

constexpr const char* kUsage =
    "usage: peers_hone MODEL [--threads N] [--kv f32|f16|int8] [--compute f32|q8]";

Result<runtime::KvChoice> KvFromWord(std::string_view word) {
  if (word == "auto") return runtime::KvChoice::kAuto;
  if (word == "f32") return runtime::KvChoice::kF32;
  if (word == "f16") return runtime::KvChoice::kF16;
  if (word == "int8") return runtime::KvChoice::kInt8;
  return Status(Code::kInvalidArgument, kUsage);
}

Result<Arguments> ParseArguments(int argc, char** argv) {
  Arguments out;
  if (argc < 2 || argc % 2 != 0) return Status(Code::kInvalidArgument, kUsage);
  out.model = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string_view value = argv[i + 1];
    if (name == "--threads") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), out.options.num_threads);
      if (error != std::errc() || end != value.data() + value.size()) {
        return Status(Code::kInvalidArgument, kUsage);
      }
    } else if (name == "--kv") {
      HONE_ASSIGN(out.options.kv, KvFromWord(value));
    } else if (name == "--compute" && (value == "f32" || value == "q8")) {
      out.options.compute =
          value == "q8" ? runtime::ComputeChoice::kQ8 : runtime::ComputeChoice::kF32;
    } else {
      return Status(Code::kInvalidArgument, kUsage);
    }
  }
  return out;
}

int Main(int argc, char** argv) {
  const auto arguments = ParseArguments(argc, argv);
  if (!arguments.ok()) return Fail(arguments.message());
  const Clock start = Now();
  auto engine = Engine::Open(arguments->model, arguments->options);
  if (!engine.ok()) return Fail(engine.message());
  const double load_seconds = WallSince(start);
  Json ready(Json::Object{});
  ready.Set("ready", Json(true));
  ready.Set("load_s", Json(load_seconds));
  ready.Set("load_cpu_s", Json(CpuSeconds() - start.cpu));
  ready.Set("threads", Json((*engine)->num_threads()));
  ready.Set("vocab", Json((*engine)->spec().vocab));
  PrintLine(ready);
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto answer = Answer(**engine, line);
    PrintLine(answer.ok() ? *answer : ErrorJson(answer.message()));
  }
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::Main(argc, argv); }
