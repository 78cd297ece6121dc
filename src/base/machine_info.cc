// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/machine_info.h"

#include <sys/utsname.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "base/file.h"
#include "base/span_util.h"
#include "base/text.h"
#include "base/thread_choice.h"

namespace hone {
namespace {

constexpr std::uint64_t kMaxText = 16U << 20;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<std::string> TextIn(const std::string& path) {
  const auto text = ReadFile(path, kMaxText);
  if (!text.ok() || Trim(*text).empty()) return std::nullopt;
  return std::string(Trim(*text));
}

std::optional<std::uint64_t> Whole(std::string_view text) {
  text = Trim(text);
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || text.empty()) return std::nullopt;
  return value;
}

// What stands after "key:" at the beginning of a line.
std::optional<std::string> Field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const auto colon = line.find(':');
    if (colon != std::string_view::npos && Trim(line.substr(0, colon)) == key) {
      const std::string_view value = Trim(line.substr(colon + 1));
      if (!value.empty()) return std::string(value);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

// "MemTotal:  24 kB" in bytes.
std::optional<std::uint64_t> KiloBytes(std::string_view text, std::string_view key) {
  const auto field = Field(text, key);
  if (!field || !field->ends_with("kB")) return std::nullopt;
  const auto value = Whole(*field);
  return value ? MulChecked(*value, 1024) : std::nullopt;
}

std::optional<std::string> CpuModel(const std::string& root) {
  const auto text = ReadFile(root + "/proc/cpuinfo", kMaxText);
  if (!text.ok()) return std::nullopt;
  if (auto name = Field(*text, "model name")) return name;
  // ARM kernels give numbers.
  const auto implementer = Field(*text, "CPU implementer");
  const auto part = Field(*text, "CPU part");
  if (implementer && part) return StrCat("implementer ", *implementer, " part ", *part);
  return std::nullopt;
}

struct Processors {
  std::optional<int> online, cores;
  std::optional<std::string> governor;
};

Processors ReadProcessors(const std::string& root) {
  Processors out;
  const std::string folder = root + "/sys/devices/system/cpu/";
  const auto online = TextIn(folder + "online");
  if (!online) return out;
  const std::vector<int> numbers = ParseProcessorList(*online);
  if (numbers.empty()) return out;
  out.online = static_cast<int>(numbers.size());
  std::set<std::string> cores;
  std::set<std::string> governors;
  bool all_cores = true;
  for (const int number : numbers) {
    const std::string cpu = StrCat(folder, "cpu", number);
    const auto siblings = TextIn(cpu + "/topology/thread_siblings_list");
    if (siblings) cores.insert(*siblings);
    all_cores = all_cores && siblings.has_value();
    if (const auto governor = TextIn(cpu + "/cpufreq/scaling_governor")) {
      governors.insert(*governor);
    }
  }
  if (all_cores) out.cores = static_cast<int>(cores.size());
  if (!governors.empty()) out.governor = Join(governors, ", ");
  return out;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const auto begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const auto end = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// utime and stime: the 12th and 13th words after the name, which is in brackets and may hold
// anything.
std::optional<std::uint64_t> OwnTicks(const std::string& root) {
  const auto text = TextIn(root + "/proc/self/stat");
  if (!text || text->rfind(')') == std::string::npos) return std::nullopt;
  const auto words = Words(std::string_view(*text).substr(text->rfind(')') + 1));
  if (words.size() < 13) return std::nullopt;
  const auto user = Whole(words[11]);
  const auto system = Whole(words[12]);
  if (!user || !system) return std::nullopt;
  return *user + *system;
}

}  // namespace

MachineInfo ReadMachineInfo(const std::string& root) {
  MachineInfo info;
  info.cpu_model = CpuModel(root);
  Processors processors = ReadProcessors(root);
  info.processors = processors.online;
  info.cores = processors.cores;
  info.governor = std::move(processors.governor);
  if (const auto memory = ReadFile(root + "/proc/meminfo", kMaxText); memory.ok()) {
    info.ram_bytes = KiloBytes(*memory, "MemTotal");
  }
  const auto type = TextIn(root + "/proc/sys/kernel/ostype");
  const auto release = TextIn(root + "/proc/sys/kernel/osrelease");
  if (type && release) info.kernel = StrCat(*type, " ", *release);
  utsname name{};
  if (!info.kernel && root.empty() && ::uname(&name) == 0) {
    info.kernel = StrCat(name.sysname, " ", name.release);
  }
  return info;
}

Result<BusySample> TakeBusySample(const std::string& root) {
  const std::string path = root + "/proc/stat";
  HONE_ASSIGN(const std::string text, ReadFile(path, kMaxText));
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  const auto words = Words(line);
  // user nice system idle iowait irq softirq steal; guest times are part of user and nice.
  if (words.size() < 5 || words[0] != "cpu") {
    return Status(Code::kUnsupported,
                  StrCat(path, ": found \"", line, "\", expected the times of all processors"));
  }
  BusySample sample;
  for (std::size_t i = 1; i < std::min<std::size_t>(words.size(), 9); ++i) {
    const auto ticks = Whole(words[i]);
    if (!ticks) return Status(Code::kUnsupported, StrCat(path, ": ", words[i], " is no number"));
    sample.total += *ticks;
    if (i != 4 && i != 5) sample.busy += *ticks;
  }
  const auto own = OwnTicks(root);
  if (!own) return Status(Code::kUnsupported, StrCat(root, "/proc/self/stat: no times in it"));
  sample.own = *own;
  return sample;
}

std::optional<double> BusyShareOfOthers(const BusySample& before, const BusySample& after) {
  if (after.total <= before.total || after.busy < before.busy || after.own < before.own) {
    return std::nullopt;
  }
  const auto busy = static_cast<double>(after.busy - before.busy);
  const auto own = static_cast<double>(after.own - before.own);
  return std::clamp((busy - own) / static_cast<double>(after.total - before.total), 0.0, 1.0);
}

Result<double> ProcessCpuSeconds() {
  timespec t{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) {
    return Status(Code::kUnsupported, "the system does not tell this process's processor time");
  }
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Result<ResidentBytes> ReadResidentBytes(const std::string& root) {
  HONE_ASSIGN(const std::string text, ReadFile(root + "/proc/self/status", kMaxText));
  ResidentBytes out;
  out.peak = KiloBytes(text, "VmHWM");
  out.now = KiloBytes(text, "VmRSS");
  out.anonymous = KiloBytes(text, "RssAnon");
  out.file = KiloBytes(text, "RssFile");
  return out;
}

std::optional<EnergySample> TakeEnergySample(const std::string& root) {
  constexpr int kMaxPackages = 64;
  EnergySample sample;
  for (int package = 0; package < kMaxPackages; ++package) {
    // Parts of a package have a second number, "intel-rapl:0:1", and are counted in it.
    const std::string name = StrCat("intel-rapl:", package);
    const std::string folder = StrCat(root, "/sys/class/powercap/", name);
    if (!IsDirectory(folder)) break;
    const auto energy = TextIn(folder + "/energy_uj");
    const auto range = TextIn(folder + "/max_energy_range_uj");
    const auto value = energy ? Whole(*energy) : std::nullopt;
    const auto limit = range ? Whole(*range) : std::nullopt;
    if (!value || !limit) return std::nullopt;
    // "psys" is the whole platform, packages included.
    if (TextIn(folder + "/name").value_or("").starts_with("package")) {
      sample.counters.push_back({name, *value, *limit});
    }
  }
  if (sample.counters.empty()) return std::nullopt;
  return sample;
}

std::optional<double> EnergyJoules(const EnergySample& before, const EnergySample& after) {
  if (before.counters.empty() || before.counters.size() != after.counters.size()) {
    return std::nullopt;
  }
  double joules = 0;
  for (std::size_t i = 0; i < before.counters.size(); ++i) {
    const EnergySample::Counter& from = before.counters[i];
    const EnergySample::Counter& to = after.counters[i];
    if (from.name != to.name || from.microjoules > from.range) return std::nullopt;
    const std::uint64_t used = to.microjoules >= from.microjoules
                                   ? to.microjoules - from.microjoules
                                   : from.range - from.microjoules + to.microjoules;
    joules += static_cast<double>(used) * 1e-6;
  }
  return joules;
}

}  // namespace hone
