// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/model_slots.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "serve/http_workers.h"
#include "serve/memory_room.h"
#include "serve/openai/utf8.h"

namespace hone::serve {
namespace {

using openai::ApiError;

constexpr int kRetryLoadingSeconds = 3;
constexpr int kRetryMemorySeconds = 10;
constexpr std::size_t kMaxModels = 1'000;

std::string Megabytes(std::uint64_t bytes) { return StrCat((bytes + 999'999) / 1'000'000, " MB"); }

std::string SecondsText(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

ApiError LoadError(const ModelSlot& slot) {
  const std::string message =
      StrCat("the model '", slot.entry.name, "' cannot be loaded: ", slot.failure);
  if (slot.failure_code == Code::kOutOfMemory) {
    return openai::Unavailable("out_of_memory", message, kRetryMemorySeconds);
  }
  ApiError error = openai::Internal(message);
  error.code = "model_load_failed";
  return error;
}

Status CheckName(const std::string& name) {
  if (IsModelName(name)) return Status();
  return Status(Code::kInvalidArgument,
                StrCat("model name '", openai::ShortText(name),
                       "': expected 1 to 128 bytes of UTF-8 without control characters"));
}

ApiError Draining() {
  return openai::Unavailable("draining", "the server is about to stop", kRetryLoadingSeconds);
}

// The time of the last change, or of now.
std::int64_t FileSeconds(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  const auto system = error ? std::chrono::system_clock::now()
                            : std::chrono::file_clock::to_sys(
                                  std::chrono::time_point_cast<std::chrono::seconds>(time));
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

}  // namespace

ModelPin::~ModelPin() { slots_->Unpin(*slot_, counts_); }

std::shared_ptr<ModelPin> ModelPin::Look() const {
  const std::lock_guard lock(slots_->mutex_);
  return slots_->MakePin(slot_, /*counts=*/false);
}

const LoadedModel& ModelPin::model() const { return slot_->loaded; }

ModelSlots::ModelSlots(ModelFactory factory, RegistryOptions options)
    : factory_(std::move(factory)), options_(std::move(options)) {}

Status ModelSlots::Start() {
  HONE_ASSIGN(housekeeper_, StartThread([this] { KeepHouse(); }));
  return Status();
}

void ModelSlots::Shutdown() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  changed_.notify_all();
  if (housekeeper_.joinable()) housekeeper_.join();
  Lock lock(mutex_);
  changed_.wait(lock, [this] { return loaders_.empty(); });
  JoinFinished(lock);
  for (const Slot& slot : slots_) {
    std::move(slot->waiters.begin(), slot->waiters.end(), std::back_inserter(stranded_));
    slot->waiters.clear();
  }
  TellStranded(lock);
  for (const Slot& slot : std::vector<Slot>(slots_)) {
    if (slot->condition == ModelCondition::kLoaded) Unload(lock, slot, "");
  }
}

// Names and files.

ModelSlots::Slot ModelSlots::Find(const std::string& name) const {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot->entry.name == name; });
  return found == slots_.end() ? nullptr : *found;
}

Result<ModelSlots::Slot> ModelSlots::MakeSlot(ModelEntry entry) {
  auto slot = std::make_shared<ModelSlot>();
  HONE_ASSIGN(slot->file_bytes, ModelFileBytes(entry.path));
  if (entry.created == 0) entry.created = FileSeconds(entry.path);
  slot->info.created = entry.created;
  slot->info.context_tokens = entry.context.value_or(0);
  slot->info.loaded = false;
  slot->entry = std::move(entry);
  return slot;
}

Status ModelSlots::Insert(Slot slot) {
  const std::string& name = slot->entry.name;
  if (const Slot other = Find(name)) {
    return Status(Code::kInvalidArgument,
                  StrCat("two models are named '", name, "': ", other->entry.path, " and ",
                         slot->entry.path, "; write NAME=PATH to name them"));
  }
  if (slots_.size() >= kMaxModels) {
    return Status(Code::kInvalidArgument, StrCat("there are ", kMaxModels, " models already"));
  }
  slot->info.id = name;
  slots_.push_back(std::move(slot));
  return Status();
}

Status ModelSlots::Add(ModelEntry entry) {
  HONE_TRY(CheckName(entry.name));
  HONE_ASSIGN(Slot slot, MakeSlot(std::move(entry)));
  const std::lock_guard lock(mutex_);
  return Insert(std::move(slot));
}

ModelSlots::Slot ModelSlots::FindSame(const ModelEntry& entry, std::string& name) const {
  name = entry.name;
  for (int number = 2;; ++number) {
    const Slot slot = Find(name);
    const bool same =
        !slot || (slot->entry.path == entry.path && slot->entry.context == entry.context &&
                  slot->entry.thinking == entry.thinking);
    if (same) return slot;
    name = StrCat(entry.name, "-", number);
  }
}

Result<ModelSlots::Added> ModelSlots::AddOrFind(ModelEntry entry) {
  std::string name;
  {
    const std::lock_guard lock(mutex_);
    if (FindSame(entry, name)) return Added{name, /*is_new=*/false};
  }
  HONE_ASSIGN(Slot slot, MakeSlot(entry));
  const std::lock_guard lock(mutex_);
  // Others may have been added meanwhile.
  if (FindSame(entry, name)) return Added{name, /*is_new=*/false};
  HONE_TRY(CheckName(name));
  slot->entry.name = name;
  HONE_TRY(Insert(std::move(slot)));
  return Added{name, /*is_new=*/true};
}

void ModelSlots::Forget(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(slots_, [&](const Slot& slot) {
    return slot->entry.name == name && slot->condition == ModelCondition::kUnloaded &&
           slot->waiters.empty() && slot->loads == 0;
  });
}

// Use.

std::shared_ptr<ModelPin> ModelSlots::MakePin(const Slot& slot, bool counts) {
  ++slot->pins;
  if (counts) ++slot->requests;
  return std::make_shared<ModelPin>(shared_from_this(), slot, counts);
}

void ModelSlots::Unpin(ModelSlot& slot, bool counts) {
  {
    const std::lock_guard lock(mutex_);
    --slot.pins;
    if (counts) {
      --slot.requests;
      slot.last_used = Clock::now();
    }
  }
  changed_.notify_all();
}

std::optional<ApiError> ModelSlots::WhyNotNow(const Slot& slot, const std::string& name) const {
  if (!slot) {
    std::vector<std::string> names;
    for (const Slot& other : slots_) names.push_back(other->entry.name);
    return openai::ModelNotFound(name, names);
  }
  if (stopping_) return Draining();
  if (slot->condition == ModelCondition::kLoaded) return std::nullopt;
  const bool failed = slot->condition == ModelCondition::kUnloaded &&
                      slot->failure_code != Code::kOk && slot->failure_code != Code::kOutOfMemory;
  if (failed && Clock::now() - slot->failed_at < options_.retry_after) return LoadError(*slot);
  if (static_cast<std::int64_t>(slot->waiters.size()) >= options_.max_waiting) {
    return openai::Unavailable(
        "loading",
        StrCat("the model '", name, "' is being loaded, and ", slot->waiters.size(),
               " requests wait for it already; try again in ", kRetryLoadingSeconds, " s"),
        kRetryLoadingSeconds);
  }
  return std::nullopt;
}

std::uint64_t ModelSlots::Use(const std::string& name, bool even_if_tight, ModelUse use) {
  std::optional<ApiError> error;
  std::shared_ptr<ModelPin> pin;
  {
    const std::lock_guard lock(mutex_);
    const Slot slot = Find(name);
    error = WhyNotNow(slot, name);
    if (!error) {
      pin = MakePin(slot, /*counts=*/true);
      if (slot->condition != ModelCondition::kLoaded) {
        slot->waiters.push_back({++last_ticket_, std::move(pin), std::move(use)});
        slot->even_if_tight = slot->even_if_tight || even_if_tight;
        const std::uint64_t ticket = last_ticket_;
        if (slot->condition == ModelCondition::kUnloaded) BeginLoad(slot);
        return ticket;
      }
    }
  }
  use(std::move(pin), error ? &*error : nullptr);
  return 0;
}

void ModelSlots::Leave(const std::string& name, std::uint64_t ticket) {
  ModelWaiter gone;  // goes without the lock
  const std::lock_guard lock(mutex_);
  const Slot slot = Find(name);
  if (!slot) return;
  std::vector<ModelWaiter>& waiters = slot->waiters;
  const auto found = std::find_if(waiters.begin(), waiters.end(),
                                  [&](const ModelWaiter& w) { return w.ticket == ticket; });
  if (found == waiters.end()) return;
  gone = std::move(*found);
  waiters.erase(found);
}

// Loading.

void ModelSlots::BeginLoad(const Slot& slot) {
  if (!stopping_) {
    slot->condition = ModelCondition::kLoading;
    auto thread = StartThread([this, self = shared_from_this(), slot] { Load(slot); });
    if (thread.ok()) {
      loaders_.push_back(*std::move(thread));
      return;
    }
    slot->condition = ModelCondition::kUnloaded;
    slot->failure_code = thread.code();
    slot->failure = thread.message();
    slot->failed_at = Clock::now();
  }
  std::move(slot->waiters.begin(), slot->waiters.end(), std::back_inserter(stranded_));
  slot->waiters.clear();
  changed_.notify_all();
}

void ModelSlots::Load(const Slot& slot) {
  const Clock::time_point began = Clock::now();
  Status room = MakeRoom(slot);
  const bool no_room = room.code() == Code::kOutOfMemory;
  Result<LoadedModel> loaded = LoadedModel();
  if (room.ok()) {
    loaded = factory_(slot->entry);
  } else {
    loaded = std::move(room);
  }
  bool preload = false;  // then the program tells why it fails
  {
    const std::lock_guard lock(mutex_);
    preload = slot->even_if_tight;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  if (loaded.ok()) {
    Log(StrCat(slot->entry.name, ": loaded in ", SecondsText(seconds)));
  } else if (!preload) {
    Log(StrCat(slot->entry.name, ": cannot be loaded: ", loaded.message()));
  }
  EndLoad(slot, std::move(loaded), no_room);
  const std::lock_guard lock(mutex_);
  const auto self = std::find_if(loaders_.begin(), loaders_.end(), [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
  finished_.push_back(std::move(*self));
  loaders_.erase(self);
  changed_.notify_all();  // with the lock: after it, the slots may be gone
}

void ModelSlots::EndLoad(const Slot& slot, Result<LoadedModel> loaded, bool no_room) {
  openai::ModelInfo info;
  if (loaded.ok()) {
    std::vector<openai::ModelInfo> infos = loaded->backend->Models();
    if (!infos.empty()) info = std::move(infos.front());
  }
  std::vector<ModelWaiter> waiters;
  std::optional<ApiError> error;
  // Those that have left may already be told, and ask for another model: its load waits for this.
  std::shared_ptr<ModelPin> hold;
  {
    const std::lock_guard lock(mutex_);
    if (no_room && slot->even_if_tight && !stopping_) {  // who may ignore the memory came too late
      BeginLoad(slot);
      return;
    }
    slot->reserved = 0;
    ++memory_changes_;
    slot->even_if_tight = false;
    waiters.swap(slot->waiters);
    slot->failure_code = loaded.code();
    slot->failure = loaded.message();
    slot->failed_at = Clock::now();
    if (loaded.ok()) {
      slot->loaded = *std::move(loaded);
      slot->condition = ModelCondition::kLoaded;
      slot->facts = slot->loaded.facts;
      slot->info.fingerprint = info.fingerprint;
      slot->info.context_tokens = info.context_tokens;
      slot->info.loaded = true;
      slot->last_used = Clock::now();
      ++slot->loads;
      hold = MakePin(slot, /*counts=*/false);
      if (stopping_) error = Draining();
    } else {
      slot->condition = ModelCondition::kUnloaded;
      error = stopping_ ? Draining() : LoadError(*slot);
    }
  }
  changed_.notify_all();
  for (ModelWaiter& waiter : waiters) {
    if (error) waiter.pin.reset();  // first: whoever is told may ask for another model at once
    waiter.use(std::move(waiter.pin), error ? &*error : nullptr);
  }
}

// Memory that was promised to other loads is not there any more, although it is not yet taken.
Status ModelSlots::MakeRoom(const Slot& slot) {
  const std::uint64_t needed = LoadBytes(slot->file_bytes);
  Lock lock(mutex_);
  for (;;) {
    if (stopping_) return Status(Code::kCancelled, "the server is about to stop");
    const std::uint64_t changes = memory_changes_;
    lock.unlock();
    const auto available =
        options_.available_memory ? options_.available_memory() : AvailableMemory();
    lock.lock();
    if (changes != memory_changes_) continue;  // the number may be old
    // Only now: another load may have got a promise while the number was read.
    std::uint64_t promised = 0;
    for (const Slot& other : slots_) promised += other->reserved;
    const bool fits = !available || *available >= promised + needed;
    if (fits || slot->even_if_tight) {
      slot->reserved = needed;
      lock.unlock();
      if (!fits) {
        Log(StrCat(slot->entry.name, ": needs about ", Megabytes(needed), " of memory, and ",
                   Megabytes(*available), " are left; it is tried nevertheless"));
      }
      return Status();
    }
    const Slot idle = LongestUnused(Clock::now(), /*looked_at=*/true);
    if (idle && idle->pins == 0) {
      Unload(lock, idle, StrCat("unloaded to make room for ", slot->entry.name));
    } else if (idle || MayGetRoom()) {  // no other goes for one that is let go in a moment
      if (!stopping_) changed_.wait(lock);
    } else {
      return Status(Code::kOutOfMemory,
                    StrCat("it needs about ", Megabytes(needed), " of memory, and ",
                           Megabytes(*available), " are left"));
    }
  }
}

// Unloading.

ModelSlots::Slot ModelSlots::LongestUnused(Clock::time_point unused_since, bool looked_at) const {
  Slot oldest;
  for (const Slot& slot : slots_) {
    const std::int64_t used = looked_at ? slot->requests : slot->pins;
    if (slot->condition != ModelCondition::kLoaded || used > 0) continue;
    if (slot->last_used > unused_since) continue;
    if (!oldest || slot->last_used < oldest->last_used) oldest = slot;
  }
  return oldest;
}

bool ModelSlots::MayGetRoom() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    // Pins that are no requests are let go in a moment.
    const bool is_looked_at = slot->pins > slot->requests;
    return slot->condition == ModelCondition::kUnloading || slot->reserved > 0 || is_looked_at;
  });
}

void ModelSlots::Unload(Lock& lock, const Slot& slot, const std::string& why) {
  slot->condition = ModelCondition::kUnloading;
  slot->info.loaded = false;
  ModelWork work;
  {
    LoadedModel gone = std::exchange(slot->loaded, LoadedModel());
    lock.unlock();
    if (gone.load) work = gone.load().work;
    gone.load = nullptr;
    gone.backend.reset();  // its requests end here, if there are any
  }
  if (!why.empty()) Log(StrCat(slot->entry.name, ": ", why));
  lock.lock();
  slot->condition = ModelCondition::kUnloaded;
  slot->past_work.Add(work);
  ++memory_changes_;
  if (!slot->waiters.empty()) BeginLoad(slot);
  changed_.notify_all();
}

bool ModelSlots::UnloadIdle(Lock& lock) {
  if (options_.idle_unload.count() <= 0) return false;
  const Slot idle = LongestUnused(Clock::now() - options_.idle_unload, /*looked_at=*/false);
  if (!idle) return false;
  Unload(lock, idle, "unloaded, as nobody used it");
  return true;
}

bool ModelSlots::JoinFinished(Lock& lock) {
  if (finished_.empty()) return false;
  std::vector<std::thread> finished = std::exchange(finished_, {});
  lock.unlock();
  for (std::thread& thread : finished) thread.join();
  lock.lock();
  return true;
}

bool ModelSlots::TellStranded(Lock& lock) {
  if (stranded_.empty()) return false;
  std::vector<ModelWaiter> stranded = std::exchange(stranded_, {});
  const ApiError error =
      stopping_ ? Draining()
                : openai::Unavailable("out_of_memory", "no thread could be started for the load",
                                      kRetryMemorySeconds);
  lock.unlock();
  for (ModelWaiter& waiter : stranded) {  // pins go without the lock
    waiter.pin.reset();
    waiter.use(nullptr, &error);
  }
  stranded.clear();
  lock.lock();
  return true;
}

void ModelSlots::KeepHouse() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (JoinFinished(lock) || TellStranded(lock) || UnloadIdle(lock)) continue;
    std::optional<Clock::time_point> next;
    for (const Slot& slot : slots_) {
      if (options_.idle_unload.count() <= 0) break;
      if (slot->condition != ModelCondition::kLoaded || slot->pins > 0) continue;
      const auto due = slot->last_used + options_.idle_unload;
      if (!next || due < *next) next = due;
    }
    if (next) {
      changed_.wait_until(lock, *next);
    } else {
      changed_.wait(lock);
    }
  }
}

// Reports.

Status ModelSlots::Failure(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const Slot slot = Find(name);
  if (!slot) return Status(Code::kNotFound, StrCat("there is no model '", name, "'"));
  if (slot->failure_code == Code::kOk) return Status(Code::kCancelled, "it was not loaded");
  return Status(slot->failure_code, slot->failure);
}

std::vector<openai::ModelInfo> ModelSlots::Infos() const {
  const std::lock_guard lock(mutex_);
  std::vector<openai::ModelInfo> infos;
  infos.reserve(slots_.size());
  for (const Slot& slot : slots_) infos.push_back(slot->info);
  return infos;
}

std::string ModelSlots::Fingerprint(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const Slot slot = Find(name);
  return slot ? slot->info.fingerprint : std::string();
}

std::vector<ModelReport> ModelSlots::Reports() {
  std::vector<ModelReport> reports;
  std::vector<std::shared_ptr<ModelPin>> pins;  // null: not loaded
  {
    const std::lock_guard lock(mutex_);
    for (const Slot& slot : slots_) {
      ModelReport report;
      report.entry = slot->entry;
      report.condition = slot->condition;
      report.info = slot->info;
      report.facts = slot->facts;
      report.file_bytes = slot->file_bytes;
      report.requests = slot->requests;
      report.waiting = static_cast<std::int64_t>(slot->waiters.size());
      report.loads = slot->loads;
      report.work = slot->past_work;
      report.failure = slot->failure;
      reports.push_back(std::move(report));
      const bool loaded = slot->condition == ModelCondition::kLoaded;
      pins.push_back(loaded ? MakePin(slot, /*counts=*/false) : nullptr);
    }
  }
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (pins[i] == nullptr || !pins[i]->model().load) continue;
    const ModelLoad load = pins[i]->model().load();
    reports[i].waiting += load.waiting;
    reports[i].active = load.active;
    reports[i].work.Add(load.work);
  }
  return reports;
}

void ModelSlots::Log(const std::string& note) const {
  if (options_.log) options_.log(note);
}

}  // namespace hone::serve
