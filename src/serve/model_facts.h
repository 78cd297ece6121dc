// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a loaded model tells beyond the API: for /props, /metrics and the start of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "serve/openai/backend.h"

namespace hone::serve {

// A model that can be asked for.
struct ModelEntry {
  std::string name;          // its id in the API
  std::string path;          // a bundle, a .gguf file or a checkpoint folder
  std::int64_t created = 0;  // seconds since 1970
  // What an import asked for; absent: what the server's options say.
  std::optional<std::int64_t> context = {};
  std::optional<bool> thinking = {};
};

// Known once the model is loaded, and fixed until it is unloaded. Empty texts are not known.
struct ModelFacts {
  std::string engine = {};   // "kernels" or "graph"
  std::string compute = {};  // "q8" or "f32"
  std::string kv = {};       // "f16"
  std::vector<std::string> kernels = {};
  int threads = 0;
  std::int64_t parallel = 0;     // requests that run at once
  std::int64_t max_waiting = 0;  // in the model's own queue
  bool chat_template = false;
  bool thinking = false;         // it has a thinking channel
  std::string tool_family = {};  // "": calls of tools cannot be read
  double load_seconds = 0;
  Json sampling = {};  // values that a request without its own ones gets; null or an object
  std::vector<std::string> warnings = {};
};

// What a model has computed.
struct ModelWork {
  std::int64_t runs = 0;  // of the model, for answers
  // Guessed tokens that it verified, and how many of them came true.
  std::int64_t drafted_tokens = 0, accepted_tokens = 0;

  void Add(const ModelWork& more) {
    runs += more.runs;
    drafted_tokens += more.drafted_tokens;
    accepted_tokens += more.accepted_tokens;
  }
};

// How busy a loaded model is.
struct ModelLoad {
  std::int64_t active = 0;   // choices that are computed
  std::int64_t waiting = 0;  // requests in its queue
  ModelWork work = {};       // since it was loaded
};

struct LoadedModel {
  std::unique_ptr<openai::Backend> backend;
  ModelFacts facts = {};
  // From any thread, while the backend lives, and quickly. May be empty.
  std::function<ModelLoad()> load = {};
};

// Loads a model; the id of the backend's only model is entry.name. Called from any thread, for
// different models at once. The backend's destructor ends its requests: each gets OnError.
using ModelFactory = std::function<Result<LoadedModel>(const ModelEntry& entry)>;

}  // namespace hone::serve
