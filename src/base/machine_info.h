// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Facts about this machine and this process for reports of measurements. What the system does not
// tell is absent, never a guess. root is put before each path, for tests; "" is the real machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace hone {

struct MachineInfo {
  std::optional<std::string> cpu_model;  // "Intel(R) Xeon(R) Processor"
  std::optional<int> processors;         // online, SMT siblings counted
  std::optional<int> cores;              // physical, online
  // The frequency governor; "powersave, performance" where processors differ.
  std::optional<std::string> governor;
  std::optional<std::uint64_t> ram_bytes;
  std::optional<std::string> kernel;  // "Linux 6.1.0-18-amd64"
};
MachineInfo ReadMachineInfo(const std::string& root = "");

// Processor time since the system started, in ticks of the kernel.
struct BusySample {
  std::uint64_t total = 0;  // all processors, idle time too
  std::uint64_t busy = 0;   // at work, or taken by other guests of the host
  std::uint64_t own = 0;    // of this process
};
Result<BusySample> TakeBusySample(const std::string& root = "");
// The share of the machine, 0 to 1, that others than this process kept busy between two samples.
// Absent if no tick passed.
std::optional<double> BusyShareOfOthers(const BusySample& before, const BusySample& after);

// Processor time of all threads of this process, user and system.
Result<double> ProcessCpuSeconds();

// Resident memory of this process. peak is the largest it ever was (VmHWM).
struct ResidentBytes {
  std::optional<std::uint64_t> peak, now, anonymous, file;
};
Result<ResidentBytes> ReadResidentBytes(const std::string& root = "");

// Counters of energy of the processor packages. They begin anew at their range.
struct EnergySample {
  struct Counter {
    std::string name;  // "intel-rapl:0"
    std::uint64_t microjoules = 0;
    std::uint64_t range = 0;
  };
  std::vector<Counter> counters;
};
// Absent where no package's counter is there or may be read; only root may read them on most
// systems.
std::optional<EnergySample> TakeEnergySample(const std::string& root = "");
// Joules of all packages between two samples; absent if they are not of the same packages. A
// counter may have begun anew once in between.
std::optional<double> EnergyJoules(const EnergySample& before, const EnergySample& after);

}  // namespace hone
