// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How short passes scale over threads, and how they fare beside another busy process:
// thread_pool_bench [--rounds N] [--threads N] [--passes N] [--micros N] [--busy N].
// A token is a number of passes, each micros of work a thread. Each round times one thread alone,
// all threads alone and all threads beside busy loops, one after the other; the ratios of the
// rounds are printed.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<std::uint64_t> g_sink{0};

void Spin(std::int64_t steps) {
  std::uint64_t x = 88172645463325252ULL;
  for (std::int64_t i = 0; i < steps; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  g_sink.fetch_add(x & 1, std::memory_order_relaxed);
}

// Steps of Spin in a microsecond, the best of several tries.
double StepsPerMicro() {
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    constexpr std::int64_t kSteps = 200000;
    const auto start = Clock::now();
    Spin(kSteps);
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    best = std::max(best, kSteps / took.count());
  }
  return best;
}

struct Options {
  int rounds = 9, threads = 2, passes = 200, busy = 1;
  double micros = 100, seconds = 0.4;
};

double TokensPerSecond(hone::ThreadPool& pool, const Options& options, double steps_per_micro) {
  constexpr std::int64_t kItems = 64;
  const auto steps = static_cast<std::int64_t>(options.micros * options.threads * steps_per_micro /
                                               static_cast<double>(kItems));
  const auto start = Clock::now();
  int tokens = 0;
  std::chrono::duration<double> took{};
  do {
    for (int pass = 0; pass < options.passes; ++pass) {
      pool.For(kItems, 1,
               [&](std::int64_t begin, std::int64_t end) { Spin(steps * (end - begin)); });
    }
    ++tokens;
    took = Clock::now() - start;
  } while (took.count() < options.seconds);
  return tokens / took.count();
}

class BusyLoops {
 public:
  explicit BusyLoops(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true) Spin(1 << 20);
      }
      if (pid > 0) pids_.push_back(pid);
    }
    ::usleep(20000);
  }
  ~BusyLoops() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> pids_;
};

void Print(const char* what, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("%-28s median %8.3f   min %8.3f   max %8.3f\n", what, values[values.size() / 2],
              values.front(), values.back());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const int value = std::atoi(argv[i + 1]);
    if (name == "--rounds") options.rounds = std::max(1, value);
    if (name == "--threads") options.threads = std::max(1, value);
    if (name == "--passes") options.passes = std::max(1, value);
    if (name == "--micros") options.micros = std::max(1, value);
    if (name == "--busy") options.busy = std::max(0, value);
  }
  const double steps = StepsPerMicro();
  hone::ThreadPool one(1);
  hone::ThreadPool pool(options.threads);
  TokensPerSecond(pool, options, steps);
  std::vector<double> scaling;
  std::vector<double> kept;
  std::vector<double> alone_speed;
  for (int round = 0; round < options.rounds; ++round) {
    const double single = TokensPerSecond(one, options, steps);
    const double alone = TokensPerSecond(pool, options, steps);
    double beside = 0;
    {
      const BusyLoops loops(options.busy);
      beside = TokensPerSecond(pool, options, steps);
    }
    alone_speed.push_back(alone);
    scaling.push_back(alone / single);
    kept.push_back(beside / alone);
  }
  Print("tokens/s, all threads", alone_speed);
  Print("all threads / one", scaling);
  Print("beside busy loops / alone", kept);
  return 0;
}
