// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The options of hone serve, and what they mean together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "serve/http_types.h"
#include "serve/model_facts.h"

namespace hone::cli {

struct ServeArgs {
  std::vector<std::string> models;  // PATH, ORG/NAME or NAME=PATH
  std::string models_folder;

  std::string host = "127.0.0.1";
  std::int64_t port = 8080;
  std::string api_key, api_key_file;
  bool no_key = false;
  std::vector<std::string> allow_origins, allow_hosts;
  bool no_page = false, allow_import = false, lenient = false;
  std::string access_log;
  double drain_seconds = 30, idle_unload_seconds = 0;

  std::int64_t parallel = 4, queue = 64, context = 0;
  std::string on_full = "error";
  std::string prefix_cache = "256MiB";
  std::string kv, compute, think = "auto", speculate = "auto";
  int threads = 0;
  std::optional<std::int64_t> max_tokens;
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> repetition_penalty, presence_penalty, frequency_penalty;
};

// "0", or a number as ParseByteCount reads it.
Result<std::uint64_t> ParsePrefixCache(const std::string& text);

// Ranges, and options that contradict each other.
Status CheckServeArgs(const ServeArgs& args);

// The key of --api-key, of the file of --api-key-file, or else the value of HONE_API_KEY. ""
// without one. A file or an option without a key is an error.
Result<std::string> ReadApiKey(const ServeArgs& args, const std::string& environment);

// "NAME=PATH" as its two parts; the name is "" for a path alone. What exists on the disk as it is
// written is a path.
struct NamedSource {
  std::string name, source;
};
NamedSource SplitModelArg(const std::string& arg);

// The bundles, .gguf files and checkpoint folders that lie in a folder, by name. Of a .gguf in
// several files the first one counts.
Result<std::vector<serve::ModelEntry>> ScanModelsFolder(const std::string& folder);

// Where the server listens and who may use it. The access log is left to the caller.
Result<serve::HttpOptions> MakeHttpOptions(const ServeArgs& args, const std::string& environment);

}  // namespace hone::cli
