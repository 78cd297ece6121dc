// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_choice.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/status.h"

namespace hone {
namespace {

constexpr std::uint64_t kMaxText = 1U << 16;

// The first line of a file; nothing if it cannot be read or is empty.
std::optional<std::string> Line(const std::string& path) {
  auto text = ReadFile(path, kMaxText);
  if (!text.ok()) return std::nullopt;
  std::string line = text->substr(0, text->find('\n'));
  if (line.empty()) return std::nullopt;
  return line;
}

std::optional<double> Number(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> NumberIn(const std::string& path) {
  const auto line = Line(path);
  return line ? Number(*line) : std::nullopt;
}

using Quota = std::optional<double>;  // in processors

Quota Smaller(Quota a, Quota b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// cpu.max of version 2: "150000 100000", or "max 100000".
Quota QuotaOfGroup2(const std::string& folder) {
  const auto line = Line(folder + "/cpu.max");
  if (!line) return std::nullopt;
  const auto space = line->find(' ');
  if (space == std::string::npos) return std::nullopt;
  const auto quota = Number(std::string_view(*line).substr(0, space));
  const auto period = Number(std::string_view(*line).substr(space));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

// Version 1 says -1 for no quota.
Quota QuotaOfGroup1(const std::string& folder) {
  const auto quota = NumberIn(folder + "/cpu.cfs_quota_us");
  const auto period = NumberIn(folder + "/cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

// The smallest quota of the group and of those above it. Inside a container the path may be that of
// the host, which is not there; the container's own group is then at the mount itself.
Quota WalkUp(const std::string& mount, std::string path, Quota (*quota_of)(const std::string&)) {
  Quota smallest = quota_of(mount);
  if (path.find("..") != std::string::npos) return smallest;
  while (path.size() > 1) {
    smallest = Smaller(smallest, quota_of(mount + path));
    path.resize(path.rfind('/'));
  }
  return smallest;
}

bool HasController(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// One line of /proc/self/cgroup: "0::/user.slice", or "4:cpu,cpuacct:/docker/1234".
Quota QuotaOfLine(std::string_view line, const std::string& mounts) {
  const auto first = line.find(':');
  const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string controllers(line.substr(first + 1, second - first - 1));
  const std::string path(line.substr(second + 1));
  if (!path.starts_with('/')) return std::nullopt;
  if (controllers.empty()) {
    return Smaller(WalkUp(mounts, path, QuotaOfGroup2),
                   WalkUp(mounts + "/unified", path, QuotaOfGroup2));
  }
  if (!HasController(controllers, "cpu")) return std::nullopt;
  return Smaller(WalkUp(StrCat(mounts, "/", controllers), path, QuotaOfGroup1),
                 WalkUp(mounts + "/cpu", path, QuotaOfGroup1));
}

Quota GroupQuota(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  Quota smallest = QuotaOfGroup2(mounts);
  const auto groups = ReadFile(root + "/proc/self/cgroup", kMaxText);
  if (!groups.ok()) return smallest;
  std::string_view rest = *groups;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    smallest = Smaller(smallest, QuotaOfLine(rest.substr(0, end), mounts));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return smallest;
}

std::string CpuFolder(const std::string& root, int cpu) {
  return StrCat(root, "/sys/devices/system/cpu/cpu", cpu);
}

// The processors whose number in a file is at least share of the largest one, if the slowest of all
// is not; else, or if a processor has no such file, all of them.
std::vector<int> WithoutSlow(std::span<const int> cpus, const std::string& root, const char* file,
                             double share) {
  std::vector<int> all(cpus.begin(), cpus.end());
  std::vector<double> values;
  for (const int cpu : cpus) {
    const auto value = NumberIn(CpuFolder(root, cpu) + file);
    if (!value || *value <= 0) return all;
    values.push_back(*value);
  }
  if (values.empty()) return all;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low >= share * *high) return all;
  std::vector<int> fast;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Of three kinds only the slowest is left out.
    if (values[i] > *low * 1.001) fast.push_back(all[i]);
  }
  return fast;
}

// x86 names its performance cores where there are others; ARM gives each core's capacity; the
// highest frequency is the last resort. Cores of one kind differ by a few percent in it.
std::vector<int> FastCores(std::span<const int> allowed, const std::string& root) {
  if (const auto line = Line(root + "/sys/devices/cpu_core/cpus")) {
    const std::vector<int> cores = ParseProcessorList(*line);
    std::vector<int> both;
    std::set_intersection(allowed.begin(), allowed.end(), cores.begin(), cores.end(),
                          std::back_inserter(both));
    return both.empty() ? std::vector<int>(allowed.begin(), allowed.end()) : both;
  }
  std::vector<int> fast = WithoutSlow(allowed, root, "/cpu_capacity", 0.6);
  if (fast.size() < allowed.size()) return fast;
  return WithoutSlow(allowed, root, "/cpufreq/cpuinfo_max_freq", 0.75);
}

// Processors that share a core with another one of the list.
int CountSiblings(std::span<const int> cpus, const std::string& root) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const auto line = Line(CpuFolder(root, cpu) + "/topology/thread_siblings_list");
    if (!line) return 0;
    cores.insert(*line);
  }
  return static_cast<int>(cpus.size() - cores.size());
}

}  // namespace

std::vector<int> ParseProcessorList(std::string_view text) {
  constexpr int kMaxProcessors = 1 << 16;
  std::set<int> numbers;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    int last = first;
    if (error == std::errc() && next != end && *next == '-') {
      const auto result = std::from_chars(next + 1, end, last);
      next = result.ptr;
      error = result.ec;
    }
    if (error != std::errc() || first < 0 || last < first || last >= kMaxProcessors) return {};
    for (int cpu = first; cpu <= last; ++cpu) numbers.insert(cpu);
    if (next == end) break;
    if (*next != ',') return {};
    at = next + 1;
  }
  return {numbers.begin(), numbers.end()};
}

std::vector<int> AllowedProcessors() {
  std::vector<int> allowed;
  for (int count = CPU_SETSIZE; count <= (1 << 16); count *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(count));
    if (set == nullptr) return allowed;
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(count));
    CPU_ZERO_S(size, set);
    const bool ok = ::sched_getaffinity(0, size, set) == 0;
    const bool too_small = !ok && errno == EINVAL;
    for (int cpu = 0; ok && cpu < count; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, set)) allowed.push_back(cpu);
    }
    CPU_FREE(set);
    if (!too_small) return allowed;
  }
  return allowed;
}

ThreadChoice ChooseThreads(std::span<const int> allowed, const std::string& root) {
  if (allowed.empty()) return {1, "the system does not say which processors may be used"};
  const std::vector<int> fast = FastCores(allowed, root);
  ThreadChoice choice;
  choice.threads = static_cast<int>(fast.size());
  if (fast.size() < allowed.size()) {
    choice.why = StrCat(fast.size(), " performance cores of ", allowed.size(), " processors");
  } else {
    choice.why = StrCat(allowed.size(), allowed.size() == 1 ? " processor" : " processors",
                        " allowed to this process");
  }
  if (const int siblings = CountSiblings(fast, root); siblings > 0) {
    choice.why += StrCat(", ", siblings, " of them on a core that another one shares");
  }
  const Quota quota = GroupQuota(root);
  if (quota && std::max(1.0, std::floor(*quota)) < choice.threads) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3g", *quota);
    choice.threads = std::max(1, static_cast<int>(*quota));
    choice.why = StrCat("the control group's quota is ", text.data(), " processors");
  }
  return choice;
}

ThreadChoice ChooseThreads() { return ChooseThreads(AllowedProcessors(), ""); }

}  // namespace hone
