// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/model_registry.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <utility>

#include "serve/model_slots.h"
#include "serve/openai/utf8.h"

namespace hone::serve {
namespace {

using openai::ApiError;
using openai::ApiResult;
using openai::Event;
using openai::EventSink;
using openai::RunningRequest;

constexpr std::size_t kMaxNameBytes = 128;
// Threads of the server that may wait for loads: the others go on.
constexpr int kMaxTextWaits = 2;
constexpr int kRetryLoadingSeconds = 3;
// Of an import whose model is forgotten by another import of the same file.
constexpr int kMaxImportTries = 10;

// A request from Start to its end: it waits for its model, and keeps it loaded while it runs.
class ModelRequest final : public EventSink,
                           public RunningRequest,
                           public std::enable_shared_from_this<ModelRequest> {
 public:
  ModelRequest(openai::GenerateRequest request, std::shared_ptr<EventSink> sink)
      : request_(std::move(request)), sink_(std::move(sink)) {}

  // Where it waits, for Cancel. Before anybody else has it.
  void SetTicket(std::shared_ptr<ModelSlots> slots, std::uint64_t ticket) {
    slots_ = std::move(slots);
    ticket_ = ticket;
  }

  void Begin(std::shared_ptr<ModelPin> pin, const ApiError* error) {
    // For Start: the request may be over before it returns, and then counts no longer.
    const std::shared_ptr<ModelPin> hold = pin ? pin->Look() : nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::kOver) return;  // cancelled while it waited
      state_ = error == nullptr ? State::kRunning : State::kOver;
      pin_ = std::move(pin);
    }
    if (error != nullptr) {
      TakeSink()->OnError(*error);
      return;
    }
    auto started = hold->backend().Start(std::move(request_), shared_from_this());
    if (!started.ok()) {
      OnError(started.error());
      return;
    }
    std::shared_ptr<RunningRequest> inner;
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::kOver) return;
      inner_ = *started;
      if (cancelled_) inner = inner_;
    }
    if (inner) inner->Cancel();
  }

  void Cancel() override {
    std::shared_ptr<RunningRequest> inner;
    std::shared_ptr<ModelPin> hold;  // so that the model stays while it is told
    {
      const std::lock_guard lock(mutex_);
      if (state_ == State::kOver) return;
      cancelled_ = true;
      if (state_ == State::kRunning) {
        inner = inner_;
        if (!inner) return;  // Begin will do it
        hold = pin_->Look();
      }
      if (state_ == State::kWaiting) state_ = State::kOver;
    }
    if (inner) {
      inner->Cancel();
    } else {
      if (slots_) slots_->Leave(request_.model, ticket_);
      TakeSink()->OnError(openai::Unavailable("cancelled", "the request was cancelled", 1));
    }
  }

  bool OnEvent(const Event& event) override { return sink_->OnEvent(event); }
  void OnDone(const openai::Usage& usage) override {
    End();  // first: the client may ask for another model at once, and need this one's memory
    TakeSink()->OnDone(usage);
  }
  void OnError(const ApiError& error) override {
    End();
    TakeSink()->OnError(error);
  }

 private:
  enum class State : std::uint8_t { kWaiting, kRunning, kOver };

  // For the last call.
  std::shared_ptr<EventSink> TakeSink() { return std::exchange(sink_, nullptr); }
  // Lets go of everything; the backend and whoever answers may hold this for longer.
  void End() {
    std::shared_ptr<RunningRequest> inner;
    std::shared_ptr<ModelPin> pin;
    const std::lock_guard lock(mutex_);
    state_ = State::kOver;
    inner.swap(inner_);
    pin.swap(pin_);
  }

  openai::GenerateRequest request_;
  std::shared_ptr<EventSink> sink_;
  std::shared_ptr<ModelSlots> slots_;
  std::uint64_t ticket_ = 0;
  std::mutex mutex_;  // guards what follows
  State state_ = State::kWaiting;
  bool cancelled_ = false;
  std::shared_ptr<RunningRequest> inner_;
  std::shared_ptr<ModelPin> pin_;
};

// See ModelRegistry::Import.
void ImportModel(const std::shared_ptr<ModelSlots>& slots, ModelEntry entry, int tries,
                 ModelRegistry::Imported done) {
  auto added = slots->AddOrFind(entry);
  if (!added.ok()) {
    done(openai::FromStatus(std::move(added).status(), "path"));
    return;
  }
  const std::string name = added->name;
  auto use = [slots, entry = std::move(entry), tries, done = std::move(done), name,
              is_new = added->is_new](std::shared_ptr<ModelPin> pin, const ApiError* error) {
    pin.reset();  // first: whoever is told may ask for another model at once
    if (error == nullptr) {
      done(name);
      return;
    }
    ApiError fault = *error;
    if (fault.code == "model_not_found" && tries > 1) {  // another import failed and forgot it
      ImportModel(slots, entry, tries - 1, done);
      return;
    }
    if (fault.code == "model_load_failed") fault = openai::InvalidField("path", fault.message);
    if (is_new) slots->Forget(name);
    done(fault);
  };
  slots->Use(name, /*even_if_tight=*/false, std::move(use));
}

// One call that waits until its model is there.
struct TextWait {
  bool given_up = false;
  std::shared_ptr<ModelPin> pin;
  std::optional<ApiError> error;
};

}  // namespace

// The few calls that wait.
struct TextWaits {
  std::mutex mutex;  // guards what follows, and each TextWait
  std::condition_variable changed;
  int count = 0;
  bool ended = false;

  void Tell(TextWait& wait, std::shared_ptr<ModelPin> given, const ApiError* fault) {
    const std::lock_guard lock(mutex);
    if (wait.given_up) return;  // `given` goes with its parameter, after the lock
    wait.pin = std::move(given);
    if (fault != nullptr) wait.error = *fault;
    changed.notify_all();
  }
};

const char* ModelConditionName(ModelCondition condition) {
  switch (condition) {
    case ModelCondition::kUnloaded:
      return "unloaded";
    case ModelCondition::kLoading:
      return "loading";
    case ModelCondition::kLoaded:
      return "loaded";
    case ModelCondition::kUnloading:
      return "unloading";
  }
  return "";
}

std::string ModelNameOf(const std::string& path) {
  std::filesystem::path file(path);
  if (!file.has_filename()) file = file.parent_path();  // "folder/"
  const std::string extension = file.extension().string();
  const bool known =
      extension == ".litertlm" || extension == ".gguf" || extension == ".safetensors";
  return known ? file.stem().string() : file.filename().string();
}

bool IsModelName(std::string_view name) {
  const bool controls = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  return !name.empty() && name.size() <= kMaxNameBytes && !controls && openai::IsUtf8(name);
}

Result<std::unique_ptr<ModelRegistry>> ModelRegistry::Create(ModelFactory factory,
                                                             RegistryOptions options) {
  auto slots = std::make_shared<ModelSlots>(std::move(factory), std::move(options));
  HONE_TRY(slots->Start());
  return std::unique_ptr<ModelRegistry>(new ModelRegistry(std::move(slots)));
}

ModelRegistry::ModelRegistry(std::shared_ptr<ModelSlots> slots)
    : slots_(std::move(slots)), text_waits_(std::make_shared<TextWaits>()) {}
ModelRegistry::~ModelRegistry() { slots_->Shutdown(); }

Status ModelRegistry::Add(ModelEntry entry) { return slots_->Add(std::move(entry)); }

void ModelRegistry::Import(ModelEntry entry, Imported done) {
  ImportModel(slots_, std::move(entry), kMaxImportTries, std::move(done));
}

void ModelRegistry::Preload(const std::string& name, Loaded done) {
  slots_->Use(name, /*even_if_tight=*/true,
              [slots = slots_, name, done = std::move(done)](std::shared_ptr<ModelPin> pin,
                                                             const ApiError* error) {
                pin.reset();  // first: whoever is told may ask for another model at once
                done(error == nullptr ? Status() : slots->Failure(name));
              });
}

std::vector<ModelReport> ModelRegistry::Reports() const { return slots_->Reports(); }

std::optional<ModelReport> ModelRegistry::Report(const std::string& name) const {
  for (ModelReport& report : slots_->Reports()) {
    if (report.entry.name == name) return std::move(report);
  }
  return std::nullopt;
}

std::vector<openai::ModelInfo> ModelRegistry::Models() { return slots_->Infos(); }

openai::Backend::FingerprintReader ModelRegistry::ReadFingerprint(const std::string& id) {
  return [slots = slots_, id] { return slots->Fingerprint(id); };
}

ApiResult<std::shared_ptr<RunningRequest>> ModelRegistry::Start(openai::GenerateRequest request,
                                                                std::shared_ptr<EventSink> sink) {
  const std::string name = request.model;
  auto running = std::make_shared<ModelRequest>(std::move(request), std::move(sink));
  const std::uint64_t ticket =
      slots_->Use(name, /*even_if_tight=*/false,
                  [running](std::shared_ptr<ModelPin> pin, const ApiError* error) {
                    running->Begin(std::move(pin), error);
                  });
  if (ticket != 0) running->SetTicket(slots_, ticket);
  return std::shared_ptr<RunningRequest>(std::move(running));
}

void ModelRegistry::EndTextWaits() {
  const std::lock_guard lock(text_waits_->mutex);
  text_waits_->ended = true;
  text_waits_->changed.notify_all();
}

ApiResult<std::shared_ptr<ModelPin>> ModelRegistry::LoadedNow(const std::string& name) {
  const std::shared_ptr<TextWaits> waits = text_waits_;
  std::unique_lock lock(waits->mutex);
  const auto refused = [&] {
    if (waits->ended) {
      return openai::Unavailable("draining", "the server is about to stop", kRetryLoadingSeconds);
    }
    return openai::Unavailable("loading", "the model is being loaded; try again",
                               kRetryLoadingSeconds);
  };
  const bool may_wait = !waits->ended && waits->count < kMaxTextWaits;
  if (may_wait) ++waits->count;
  lock.unlock();
  if (!may_wait) {  // then it must be there already
    const auto report = Report(name);
    lock.lock();
    if (report && report->condition != ModelCondition::kLoaded) return refused();
    lock.unlock();
  }
  auto wait = std::make_shared<TextWait>();
  const std::uint64_t ticket =
      slots_->Use(name, /*even_if_tight=*/false,
                  [waits, wait](std::shared_ptr<ModelPin> pin, const ApiError* error) {
                    waits->Tell(*wait, std::move(pin), error);
                  });
  lock.lock();
  const auto told = [&] { return wait->pin != nullptr || wait->error.has_value(); };
  // It may have been unloaded since the report.
  const auto limit = may_wait ? slots_->options().text_wait : std::chrono::milliseconds(0);
  waits->changed.wait_for(lock, limit, [&] { return told() || waits->ended; });
  if (may_wait) --waits->count;
  wait->given_up = true;
  if (!told()) {
    const ApiError error = refused();
    lock.unlock();
    slots_->Leave(name, ticket);
    return error;
  }
  if (wait->error) return *wait->error;
  return std::move(wait->pin);
}

ApiResult<std::vector<openai::TokenPiece>> ModelRegistry::Tokenize(
    const openai::TokenizeRequest& request) {
  HONE_ASSIGN(const auto pin, LoadedNow(request.model));
  return pin->backend().Tokenize(request);
}

ApiResult<std::string> ModelRegistry::Detokenize(const openai::DetokenizeRequest& request) {
  HONE_ASSIGN(const auto pin, LoadedNow(request.model));
  return pin->backend().Detokenize(request);
}

ApiResult<std::string> ModelRegistry::Render(const openai::RenderRequest& request) {
  HONE_ASSIGN(const auto pin, LoadedNow(request.model));
  return pin->backend().Render(request);
}

}  // namespace hone::serve
