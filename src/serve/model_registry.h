// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Models by name, loaded when they are asked for and unloaded when nobody uses them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/model_facts.h"
#include "serve/openai/backend.h"

namespace hone::serve {

class ModelPin;
class ModelSlots;
struct TextWaits;

struct RegistryOptions {
  std::chrono::milliseconds idle_unload{0};  // without a request; 0: models stay loaded
  // Requests that wait while a model is loaded; more get a 503.
  std::int64_t max_waiting = 64;
  // So long calls that must answer at once (tokenize, render) wait for a load.
  std::chrono::milliseconds text_wait{10'000};
  // After a load that failed: until then the same error comes without another try.
  std::chrono::milliseconds retry_after{5'000};
  // Memory that is left; absent: not known, so everything is tried. Empty: AvailableMemory.
  std::function<std::optional<std::uint64_t>()> available_memory = {};
  // What the operator may want to know, each a sentence without an end. From any thread.
  std::function<void(const std::string& note)> log = {};
};

enum class ModelCondition : std::uint8_t { kUnloaded, kLoading, kLoaded, kUnloading };
// "loaded"
const char* ModelConditionName(ModelCondition condition);

struct ModelReport {
  ModelEntry entry;
  ModelCondition condition = ModelCondition::kUnloaded;
  openai::ModelInfo info;
  ModelFacts facts;  // of the last load
  std::uint64_t file_bytes = 0;
  std::int64_t requests = 0;  // that run or wait
  std::int64_t waiting = 0;   // of them, for the load or in the model's queue
  std::int64_t active = 0;    // choices that are computed
  std::uint64_t loads = 0;    // that succeeded
  ModelWork work;             // of all loads; without what an unload under way has not counted yet
  std::string failure;        // of the last load; "": it succeeded, or there was none
};

// All models share the memory of the machine: before a load, models that nobody uses are unloaded
// until there is room, the longest unused first. A model with requests is never unloaded.
// Every method is thread-safe.
class ModelRegistry final : public openai::Backend {
 public:
  static Result<std::unique_ptr<ModelRegistry>> Create(ModelFactory factory,
                                                       RegistryOptions options);
  // Ends all requests. Waits for loads that run.
  ~ModelRegistry() override;
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  // kInvalidArgument: the name is taken, empty or too long. kNotFound, kIo: the path.
  Status Add(ModelEntry entry);

  // Adds a model, loads it and tells done its name, on another thread or before the return. The
  // name gets a number if another model has it; a model of the same file with the same options is
  // used as it is. A model that was added and cannot be loaded is forgotten.
  using Imported = std::function<void(openai::ApiResult<std::string> name)>;
  void Import(ModelEntry entry, Imported done);

  // Loads a model of Add in the background, and tries it even if the memory seems too small (it is
  // logged). done may be called before the return.
  using Loaded = std::function<void(Status status)>;
  void Preload(const std::string& name, Loaded done);

  // Ends the waits of Tokenize, Detokenize and Render for loads: no more of them will wait. The
  // models that are loaded go on.
  void EndTextWaits();

  // In the order of Add.
  std::vector<ModelReport> Reports() const;
  std::optional<ModelReport> Report(const std::string& name) const;

  // Of openai::Backend. A request for a model that is not loaded begins to load it and waits.
  std::vector<openai::ModelInfo> Models() override;
  FingerprintReader ReadFingerprint(const std::string& id) override;
  openai::ApiResult<std::shared_ptr<openai::RunningRequest>> Start(
      openai::GenerateRequest request, std::shared_ptr<openai::EventSink> sink) override;
  openai::ApiResult<std::vector<openai::TokenPiece>> Tokenize(
      const openai::TokenizeRequest& request) override;
  openai::ApiResult<std::string> Detokenize(const openai::DetokenizeRequest& request) override;
  openai::ApiResult<std::string> Render(const openai::RenderRequest& request) override;

 private:
  explicit ModelRegistry(std::shared_ptr<ModelSlots> slots);
  // The model, loaded within RegistryOptions::text_wait.
  openai::ApiResult<std::shared_ptr<ModelPin>> LoadedNow(const std::string& name);

  std::shared_ptr<ModelSlots> slots_;
  std::shared_ptr<TextWaits> text_waits_;
};

// A name for a model at path: "m" of "/models/m.litertlm", "SmolLM2" of "/models/SmolLM2/".
std::string ModelNameOf(const std::string& path);
// Whether it may be an id: 1 to 128 bytes of UTF-8 without control characters.
bool IsModelName(std::string_view name);

}  // namespace hone::serve
