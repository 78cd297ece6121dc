// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_options.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "cli/arguments.h"
#include "serve/model_registry.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxKeyFileBytes = 4096;
constexpr double kMaxSeconds = 1e7;

Status CheckNumber(const char* option, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return Status();
  return Status(Code::kInvalidArgument,
                StrCat(option, ": found ", value, ", expected ", low, " to ", high));
}

Status CheckReal(const char* option, std::optional<double> value, double low, double high) {
  if (!value || (*value >= low && *value <= high)) return Status();  // NaN fails both
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "found %g, expected %g to %g", *value, low, high);
  return Status(Code::kInvalidArgument, StrCat(option, ": ", text.data()));
}

Status CheckSampling(const ServeArgs& args) {
  constexpr double kBig = 1e6;
  HONE_TRY(CheckReal("--temperature", args.temperature, 0, 100));
  HONE_TRY(CheckReal("--top-p", args.top_p, 0, 1));
  HONE_TRY(CheckReal("--min-p", args.min_p, 0, 1));
  HONE_TRY(CheckReal("--repetition-penalty", args.repetition_penalty, 1e-3, 1e3));
  HONE_TRY(CheckReal("--presence-penalty", args.presence_penalty, -kBig, kBig));
  HONE_TRY(CheckReal("--frequency-penalty", args.frequency_penalty, -kBig, kBig));
  HONE_TRY(CheckNumber("--top-k", args.top_k.value_or(0), 0, 1 << 30));
  return CheckNumber("--max-tokens", args.max_tokens.value_or(1), 1, std::int64_t{1} << 40);
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// "m-00002-of-00003.gguf": a later part of a model in several files.
bool IsLaterPart(const std::string& stem) {
  const std::size_t of = stem.rfind("-of-");
  if (of == std::string::npos || of < 5) return false;
  const std::string number = stem.substr(of - 5, 5);
  const bool digits =
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && number != "00001";
}

bool IsModel(const fs::directory_entry& entry) {
  std::error_code ignored;
  if (entry.path().filename().string().starts_with('.')) return false;
  if (entry.is_directory(ignored)) return Exists((entry.path() / "config.json").string());
  const std::string extension = entry.path().extension().string();
  if (!entry.is_regular_file(ignored)) return false;
  if (extension == ".gguf") return !IsLaterPart(entry.path().stem().string());
  return extension == ".litertlm";
}

}  // namespace

Result<std::uint64_t> ParsePrefixCache(const std::string& text) {
  if (text == "0") return std::uint64_t{0};
  return ParseByteCount("--prefix-cache", text);
}

Status CheckServeArgs(const ServeArgs& args) {
  if (args.models.empty() && args.models_folder.empty() && !args.allow_import) {
    return Status(Code::kInvalidArgument,
                  "there is no model to serve; name one, or give --models-folder");
  }
  HONE_TRY(CheckNumber("--port", args.port, 0, 65535));
  HONE_TRY(CheckNumber("--parallel", args.parallel, 1, 1024));
  HONE_TRY(CheckNumber("--queue", args.queue, 0, 1'000'000));
  HONE_TRY(CheckNumber("--context", args.context, 0, 100'000'000));
  HONE_TRY(CheckReal("--drain-time", args.drain_seconds, 0, kMaxSeconds));
  HONE_TRY(CheckReal("--idle-unload", args.idle_unload_seconds, 0, kMaxSeconds));
  HONE_TRY(CheckSampling(args));
  HONE_TRY(ParsePrefixCache(args.prefix_cache).status());
  if (!args.api_key.empty() && !args.api_key_file.empty()) {
    return Status(Code::kInvalidArgument, "give --api-key or --api-key-file, not both");
  }
  if (args.no_key && !(args.api_key.empty() && args.api_key_file.empty())) {
    return Status(Code::kInvalidArgument, "--no-key contradicts the key that is given");
  }
  return Status();
}

Result<std::string> ReadApiKey(const ServeArgs& args, const std::string& environment) {
  if (args.no_key) return std::string();
  if (!args.api_key.empty()) return args.api_key;
  if (args.api_key_file.empty()) return environment;
  HONE_ASSIGN(std::string key, ReadFile(args.api_key_file, kMaxKeyFileBytes));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty()) {
    return Status(Code::kInvalidArgument, StrCat(args.api_key_file, ": there is no key in it"));
  }
  return key;
}

NamedSource SplitModelArg(const std::string& arg) {
  const std::size_t equals = arg.find('=');
  const bool named = equals != std::string::npos && equals > 0 && arg.find('/') > equals;
  if (!named || Exists(arg)) return {.name = "", .source = arg};
  return {.name = arg.substr(0, equals), .source = arg.substr(equals + 1)};
}

Result<std::vector<serve::ModelEntry>> ScanModelsFolder(const std::string& folder) {
  if (!IsDirectory(folder)) {
    return Status(Code::kNotFound, StrCat("--models-folder: ", folder, ": no such folder"));
  }
  std::vector<serve::ModelEntry> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (IsModel(*entry)) entries.push_back({.name = serve::ModelNameOf(path), .path = path});
  }
  if (error) {
    return Status(Code::kIo, StrCat("--models-folder: ", folder, ": ", error.message()));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.name, a.path) < std::pair(b.name, b.path);
  });
  return entries;
}

Result<serve::HttpOptions> MakeHttpOptions(const ServeArgs& args, const std::string& environment) {
  serve::HttpOptions options;
  options.host = args.host;
  options.port = static_cast<std::uint16_t>(args.port);
  HONE_ASSIGN(options.api_key, ReadApiKey(args, environment));
  options.allow_no_key = args.no_key;
  options.allow_hosts = args.allow_hosts;
  options.allow_origins = args.allow_origins;
  return options;
}

}  // namespace hone::cli
