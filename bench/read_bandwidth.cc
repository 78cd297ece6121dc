// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Prints how fast a plain loop reads memory: the limit of decode. One JSON line.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kPage = 2 << 20;
constexpr int kSums = 8;  // independent, so that additions do not wait for each other

struct Options {
  int threads = 2;
  std::size_t mib = 1024;
  int passes = 10;
};

// The widest loads that the processor has, where the compiler can choose at run time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HONE_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HONE_WIDEST
#endif

// Reads every byte; the sum keeps the compiler from leaving the loop out.
HONE_WIDEST std::uint64_t Sum(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[kSums] = {};
  for (std::size_t i = 0; i + kSums <= count; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += words[i + j];
  }
  std::uint64_t total = 0;
  for (std::uint64_t sum : sums) total += sum;
  return total;
}

// Of the whole process, in KiB: whether the kernel gave 2 MB pages at all.
std::int64_t HugePageKib() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("AnonHugePages:", 0) == 0) return std::atoll(line.c_str() + 14);
  }
  return -1;
}

// What one thread did in a pass. It takes the times itself, so it does not matter when the main
// thread runs.
struct Share {
  std::chrono::steady_clock::time_point start;
  std::chrono::steady_clock::time_point end;
  double cpu_seconds = 0;  // of the thread, between start and end
  std::uint64_t sum = 0;
};

double ThreadCpuSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// What a pass gave, for all threads together.
struct PassTotals {
  double bytes_per_second = 0, cpu_seconds = 0;
};

// The rate of one pass: all that was read, divided by the time from the first start to the last
// end. The sum of each thread's own rate would be too high when threads run one after the other
// instead of together.
PassTotals Pass(const std::uint64_t* words, std::size_t count, int threads, std::uint64_t* sink) {
  std::latch ready(threads);
  std::vector<Share> shares(static_cast<std::size_t>(threads));
  std::vector<std::thread> pool;
  const std::size_t each = count / shares.size() / kSums * kSums;
  for (std::size_t t = 0; t < shares.size(); ++t) {
    pool.emplace_back([&, t] {
      Share& mine = shares[t];
      ready.arrive_and_wait();
      mine.start = std::chrono::steady_clock::now();
      const double cpu = ThreadCpuSeconds();
      mine.sum = Sum(words + each * t, each);
      mine.cpu_seconds = ThreadCpuSeconds() - cpu;
      mine.end = std::chrono::steady_clock::now();
    });
  }
  for (std::thread& thread : pool) thread.join();
  auto start = shares[0].start;
  auto end = shares[0].end;
  PassTotals totals;
  for (const Share& share : shares) {
    totals.cpu_seconds += share.cpu_seconds;
    start = std::min(start, share.start);
    end = std::max(end, share.end);
    *sink += share.sum;
  }
  const std::chrono::duration<double> seconds = end - start;
  totals.bytes_per_second =
      static_cast<double>(each * shares.size() * sizeof(std::uint64_t)) / seconds.count();
  return totals;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool ParseOptions(int argc, char** argv, Options* out) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 >= argc) return false;
    const std::string_view name = argv[i];
    const std::string_view text = argv[i + 1];
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1) return false;
    if (name == "--threads" && value <= 256) {
      out->threads = value;
    } else if (name == "--mib" && value <= 65536) {
      out->mib = static_cast<std::size_t>(value);
    } else if (name == "--passes") {
      out->passes = value;
    } else {
      return false;
    }
  }
  return true;
}

int Run(const Options& options) {
  const std::size_t bytes = options.mib << 20;
  void* room =
      ::mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    std::fprintf(stderr, "read_bandwidth: no memory for %zu MiB; use a smaller --mib\n",
                 options.mib);
    return 6;
  }
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(room) + kPage - 1) / kPage * kPage;
  auto* words = reinterpret_cast<std::uint64_t*>(begin);
  const std::size_t count = bytes / sizeof(std::uint64_t);
  const bool advised = ::madvise(words, bytes, MADV_HUGEPAGE) == 0;
  for (std::size_t i = 0; i < count; ++i) words[i] = i;
  std::vector<double> rates;
  std::uint64_t sink = 0;
  double cpu_seconds = 0;
  for (int i = 0; i < options.passes; ++i) {
    const PassTotals totals = Pass(words, count, options.threads, &sink);
    rates.push_back(totals.bytes_per_second / 1e9);
    cpu_seconds += totals.cpu_seconds;
  }
  const std::int64_t huge_kib = HugePageKib();
  std::printf("{\"threads\": %d, \"bytes\": %zu, \"gb_s\": [", options.threads, bytes);
  for (std::size_t i = 0; i < rates.size(); ++i) std::printf("%s%.3f", i ? ", " : "", rates[i]);
  std::printf(
      "], \"median_gb_s\": %.3f, \"cpu_s\": %.6f, \"advised\": %s, \"huge_page_kib\": %lld, "
      "\"sum\": %llu}\n",
      Median(rates), cpu_seconds, advised ? "true" : "false", static_cast<long long>(huge_kib),
      static_cast<unsigned long long>(sink));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, &options)) {
    std::fprintf(stderr, "usage: read_bandwidth [--threads N] [--mib N] [--passes N]\n");
    return 2;
  }
  return Run(options);
}
