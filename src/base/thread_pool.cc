// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"

namespace hone {
namespace {

using Clock = std::chrono::steady_clock;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How long a thread spins before it sleeps: by time, since a pause takes 10 to 140 cycles. Longer
// than the gaps between the passes of one token, shorter than what a busy machine would miss.
constexpr std::chrono::microseconds kSpin{40};
constexpr int kPausesPerLook = 8;

// Spins until ready() or for kSpin; returns the last ready().
template <typename Ready>
bool SpinUntil(const Ready& ready) {
  if (ready()) return true;
  const auto end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      Pause();
      if (ready()) return true;
    }
  } while (Clock::now() < end);
  return ready();
}

// Parts of a thread where the items allow it, for For(): few enough to cost nothing, enough that
// threads end together.
constexpr std::int64_t kPartsPerThread = 8;

// What is still to be taken of a job: its number above, the count of parts below. A count of 0 is
// no job.
constexpr std::uint64_t kCountMask = 0xffffffffU;
constexpr std::uint64_t kOneJob = kCountMask + 1;

constexpr std::size_t kCacheLine = 64;

}  // namespace

// A job ends when its parts are done, not when each worker has seen it: a worker that the system
// holds up is not waited for. Such a worker may look at a job late, so the fields of a job are
// atomic, and they count only once its ticket was taken: as long as a ticket of the job is left,
// Run has not returned and nobody writes them.
struct ThreadPool::State {
  alignas(kCacheLine) std::atomic<std::uint64_t> tickets{0};
  alignas(kCacheLine) std::atomic<int> unfinished{0};  // parts
  alignas(kCacheLine) std::atomic<int> num_parts{0};
  std::atomic<bool> busy{false};  // Run is at a job; workers do not look at it
  std::atomic<const FunctionRef<void(int)>*> task{nullptr};
  std::atomic<int> sleeping{0};  // workers
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  std::vector<std::thread> threads;

  bool HasWork() const { return (tickets.load() & kCountMask) != 0; }

  // Takes parts until none is left.
  void RunParts() {
    int finished = 0;
    std::uint64_t seen = tickets.load();
    while ((seen & kCountMask) != 0) {
      const FunctionRef<void(int)>* job = task.load(std::memory_order_relaxed);
      const int parts = num_parts.load(std::memory_order_relaxed);
      if (!tickets.compare_exchange_weak(seen, seen - 1)) continue;
      (*job)(parts - static_cast<int>(seen & kCountMask));
      ++finished;
      seen = tickets.load();
    }
    if (finished > 0 && unfinished.fetch_sub(finished) == finished && caller_sleeps.load()) {
      const std::lock_guard<std::mutex> lock(mutex);
      done.notify_one();
    }
  }

  void Work() {
    const auto ready = [this] { return HasWork() || stop.load(); };
    while (true) {
      if (!SpinUntil(ready)) {
        std::unique_lock<std::mutex> lock(mutex);
        sleeping.fetch_add(1);
        wake.wait(lock, ready);
        sleeping.fetch_sub(1);
      }
      if (stop.load()) return;
      RunParts();
    }
  }

  // The parts that other threads are at.
  void WaitForRest() {
    const auto ready = [this] { return unfinished.load() == 0; };
    if (SpinUntil(ready)) return;
    std::unique_lock<std::mutex> lock(mutex);
    caller_sleeps.store(true);
    done.wait(lock, ready);
    caller_sleeps.store(false);
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  HONE_CHECK(num_threads >= 1);
  state_->threads.reserve(static_cast<std::size_t>(num_threads) - 1);
  try {
    for (int i = 1; i < num_threads; ++i) {
      state_->threads.emplace_back([state = state_.get()] { state->Work(); });
    }
  } catch (const std::system_error&) {
    // A limit of the system. Results do not depend on the number of threads.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop.store(true);
  }
  state_->wake.notify_all();
  for (std::thread& t : state_->threads) t.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::Run(int num_parts, FunctionRef<void(int)> task) {
  if (state_->threads.empty() || num_parts <= 1) {
    for (int part = 0; part < num_parts; ++part) task(part);
    return;
  }
  State& s = *state_;
  HONE_CHECK(!s.busy.exchange(true, std::memory_order_acquire));  // one job at a time
  s.num_parts.store(num_parts, std::memory_order_relaxed);
  s.task.store(&task, std::memory_order_relaxed);
  s.unfinished.store(num_parts, std::memory_order_relaxed);
  const std::uint64_t before = s.tickets.load(std::memory_order_relaxed);
  s.tickets.store(before + kOneJob + static_cast<std::uint64_t>(num_parts));
  if (s.sleeping.load() > 0) {
    // A worker counts itself before it looks at the tickets; the lock lets it get to its wait.
    {
      const std::lock_guard<std::mutex> lock(s.mutex);
    }
    s.wake.notify_all();
  }
  s.RunParts();
  s.WaitForRest();
  s.busy.store(false, std::memory_order_release);
}

void ThreadPool::For(std::int64_t n, std::int64_t grain,
                     FunctionRef<void(std::int64_t, std::int64_t)> task) {
  if (n <= 0) return;
  const std::int64_t units = (n + grain - 1) / grain;
  const std::int64_t parts = std::min<std::int64_t>(units, num_threads() * kPartsPerThread);
  Run(static_cast<int>(parts), [&](int part) {
    const std::int64_t begin = units * part / parts * grain;
    const std::int64_t end = std::min(n, units * (part + 1) / parts * grain);
    if (begin < end) task(begin, end);
  });
}

}  // namespace hone
