// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"

namespace hone {
namespace {
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
// About 20 to 50 us of spinning before a thread sleeps; bounded so that a busy machine is not
// made busier.
constexpr int kSpins = 2000;
}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<bool> stop{false};
  std::atomic<int> next{0};
  std::atomic<int> active{0};  // workers that have not finished the current job
  int num_parts = 0;
  const std::function<void(int)>* task = nullptr;

  void RunParts() {
    for (int part = next.fetch_add(1); part < num_parts; part = next.fetch_add(1)) (*task)(part);
  }

  void Work() {
    std::uint64_t seen = 0;
    while (true) {
      for (int i = 0; i < kSpins && generation.load() == seen && !stop.load(); ++i) Pause();
      if (generation.load() == seen && !stop.load()) {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return generation.load() != seen || stop.load(); });
      }
      if (stop.load()) return;
      seen = generation.load();
      RunParts();
      if (active.fetch_sub(1) == 1) {
        const std::lock_guard<std::mutex> lock(mutex);
        done.notify_one();
      }
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  HONE_CHECK(num_threads >= 1);
  state_->threads.reserve(static_cast<std::size_t>(num_threads) - 1);
  try {
    for (int i = 1; i < num_threads; ++i) {
      state_->threads.emplace_back([this] { state_->Work(); });
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

void ThreadPool::Run(int num_parts, const std::function<void(int)>& task) {
  if (state_->threads.empty() || num_parts <= 1) {
    for (int part = 0; part < num_parts; ++part) task(part);
    return;
  }
  State& s = *state_;
  s.num_parts = num_parts;
  s.task = &task;
  s.next.store(0);
  s.active.store(static_cast<int>(s.threads.size()));
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.generation.fetch_add(1);
  }
  s.wake.notify_all();
  s.RunParts();
  for (int i = 0; i < kSpins && s.active.load() != 0; ++i) Pause();
  if (s.active.load() != 0) {
    std::unique_lock<std::mutex> lock(s.mutex);
    s.done.wait(lock, [&] { return s.active.load() == 0; });
  }
}

void ThreadPool::For(std::int64_t n, std::int64_t grain,
                     const std::function<void(std::int64_t, std::int64_t)>& task) {
  if (n <= 0) return;
  const std::int64_t units = (n + grain - 1) / grain;
  const std::int64_t parts = std::min<std::int64_t>(units, std::int64_t{num_threads()} * 4);
  Run(static_cast<int>(parts), [&](int part) {
    const std::int64_t begin = units * part / parts * grain;
    const std::int64_t end = std::min(n, units * (part + 1) / parts * grain);
    if (begin < end) task(begin, end);
  });
}

}  // namespace hone
