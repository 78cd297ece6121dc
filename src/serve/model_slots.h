// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The models of a registry and what happens to them: loading, use, unloading.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/model_registry.h"

namespace hone::serve {

class ModelSlots;
struct ModelSlot;

// Whoever has one may use the model's backend, which stays loaded so long. Never destroyed with the
// lock of the slots held.
class ModelPin {
 public:
  // counts: it is a request, which keeps the model from being idle.
  ModelPin(std::shared_ptr<ModelSlots> slots, std::shared_ptr<ModelSlot> slot, bool counts)
      : slots_(std::move(slots)), slot_(std::move(slot)), counts_(counts) {}
  ~ModelPin();
  ModelPin(const ModelPin&) = delete;
  ModelPin& operator=(const ModelPin&) = delete;

  // Another pin of the model that does not count.
  std::shared_ptr<ModelPin> Look() const;

  // Only if the model is loaded.
  const LoadedModel& model() const;
  openai::Backend& backend() const { return *model().backend; }

 private:
  std::shared_ptr<ModelSlots> slots_;
  std::shared_ptr<ModelSlot> slot_;
  bool counts_;
};

// Gets a pin of a loaded model, or an error.
using ModelUse = std::function<void(std::shared_ptr<ModelPin> pin, const openai::ApiError* error)>;

struct ModelWaiter {
  std::uint64_t ticket = 0;
  std::shared_ptr<ModelPin> pin;
  ModelUse use;
};

// Guarded by the lock of the slots, except `loaded` of a pinned model in the state kLoaded.
struct ModelSlot {
  ModelEntry entry;
  std::uint64_t file_bytes = 0;
  ModelCondition condition = ModelCondition::kUnloaded;
  LoadedModel loaded;
  openai::ModelInfo info;  // as the last load had it
  ModelFacts facts;
  std::int64_t pins = 0;      // of them
  std::int64_t requests = 0;  // count
  std::chrono::steady_clock::time_point last_used;
  std::vector<ModelWaiter> waiters;
  bool even_if_tight = false;  // the next load ignores the memory
  std::uint64_t reserved = 0;  // bytes that a load has been promised
  std::uint64_t loads = 0;
  ModelWork past_work;            // of loads that have ended
  Code failure_code = Code::kOk;  // of the last load
  std::string failure;
  std::chrono::steady_clock::time_point failed_at;
};

// Thread-safe. Nothing of a backend and no callback is called with the lock held.
class ModelSlots : public std::enable_shared_from_this<ModelSlots> {
 public:
  ModelSlots(ModelFactory factory, RegistryOptions options);

  Status Start();
  // Ends everything, see ~ModelRegistry. Later uses get an error.
  void Shutdown();

  Status Add(ModelEntry entry);
  // A model for that file with those options: one that is there, or a new one.
  struct Added {
    std::string name;
    bool is_new = false;
  };
  Result<Added> AddOrFind(ModelEntry entry);
  // Forgets a model that was never loaded and that nobody waits for.
  void Forget(const std::string& name);

  // Calls use before the return if the model is loaded, or cannot be, and gives 0; else on another
  // thread, once it has been loaded. Then the result is for Leave.
  std::uint64_t Use(const std::string& name, bool even_if_tight, ModelUse use);
  // Who waits no longer; use may be called nevertheless.
  void Leave(const std::string& name, std::uint64_t ticket);
  // Why the last load failed.
  Status Failure(const std::string& name) const;
  std::vector<openai::ModelInfo> Infos() const;
  std::string Fingerprint(const std::string& name) const;  // of the last load, or ""
  std::vector<ModelReport> Reports();
  const RegistryOptions& options() const { return options_; }

 private:
  friend class ModelPin;
  using Slot = std::shared_ptr<ModelSlot>;
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;

  // A slot for the model, of nobody yet. Does not need the lock.
  static Result<Slot> MakeSlot(ModelEntry entry);
  // These need the lock.
  // The entry's own model, among those of its name and that name with a number; else name is the
  // first that is free.
  Slot FindSame(const ModelEntry& entry, std::string& name) const;
  Status Insert(Slot slot);
  Slot Find(const std::string& name) const;
  std::shared_ptr<ModelPin> MakePin(const Slot& slot, bool counts);
  std::optional<openai::ApiError> WhyNotNow(const Slot& slot, const std::string& name) const;
  void BeginLoad(const Slot& slot);
  // Of those without a request. looked_at: also one with pins that do not count.
  Slot LongestUnused(Clock::time_point unused_since, bool looked_at) const;
  // Memory comes back, or what a load leaves is known, without anything being done.
  bool MayGetRoom() const;
  bool JoinFinished(Lock& lock);
  bool TellStranded(Lock& lock);
  bool UnloadIdle(Lock& lock);
  // Lets the lock go for a while.
  void Unload(Lock& lock, const Slot& slot, const std::string& why);

  void Unpin(ModelSlot& slot, bool counts);
  void Load(const Slot& slot);
  Status MakeRoom(const Slot& slot);
  // no_room: MakeRoom refused it.
  void EndLoad(const Slot& slot, Result<LoadedModel> loaded, bool no_room);
  void KeepHouse();
  void Log(const std::string& note) const;

  const ModelFactory factory_;
  const RegistryOptions options_;
  std::thread housekeeper_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false;
  std::uint64_t last_ticket_ = 0;
  std::uint64_t memory_changes_ = 0;  // loads and unloads that have ended
  std::vector<Slot> slots_;
  std::vector<std::thread> loaders_;   // that run
  std::vector<std::thread> finished_;  // to be joined
  std::vector<ModelWaiter> stranded_;  // no thread could be started for their load
};

}  // namespace hone::serve
