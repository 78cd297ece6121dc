// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_info.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "base/env.h"
#include "base/file.h"

namespace hone {
namespace {

#if defined(__x86_64__)
// Clang 16 has no HasF16c().
bool HasF16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

bool HardwareSupports(CpuTarget target) {
  switch (target) {
    case CpuTarget::kPortable:
      return true;
#if defined(__x86_64__)
    case CpuTarget::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
    case CpuTarget::kAvx512Vnni:
      return HardwareSupports(CpuTarget::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
#endif
#if defined(__aarch64__)
    case CpuTarget::kNeonDot:
      return (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    case CpuTarget::kNeonI8mm:
      return HardwareSupports(CpuTarget::kNeonDot) && (::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#endif
    default:
      return false;
  }
}

int Cap() {
  static const int cap = [] {
    const std::string value = GetEnv("HONE_CPU");
    if (value.empty()) return static_cast<int>(CpuTarget::kNeonI8mm);
    for (int t = 0; t <= static_cast<int>(CpuTarget::kNeonI8mm); ++t) {
      if (value == CpuTargetName(static_cast<CpuTarget>(t))) return t;
    }
    return 0;
  }();
  return cap;
}

// Quota of the cgroup in processors, or 0 if there is none.
double CgroupQuota() {
  if (auto text = ReadFile("/sys/fs/cgroup/cpu.max", 256); text.ok()) {
    const auto space = text->find(' ');
    const double quota = std::strtod(text->c_str(), nullptr);
    if (space != std::string::npos && quota > 0) {
      const double period = std::strtod(text->c_str() + space, nullptr);
      if (period > 0) return quota / period;
    }
  }
  return 0;
}

}  // namespace

const char* CpuTargetName(CpuTarget target) {
  static constexpr const char* kNames[] = {"portable", "avx2", "avx512vnni", "neon_dot",
                                           "neon_i8mm"};
  return kNames[static_cast<int>(target)];
}

Status CheckCpuCap() {
  const std::string value = GetEnv("HONE_CPU");
  if (value.empty()) return {};
  std::string names;
  for (int t = 0; t <= static_cast<int>(CpuTarget::kNeonI8mm); ++t) {
    const char* name = CpuTargetName(static_cast<CpuTarget>(t));
    if (value == name) return {};
    names += (t == 0 ? "" : ", ") + std::string(name);
  }
  return Status(Code::kInvalidArgument,
                StrCat("HONE_CPU is \"", value, "\", expected one of ", names, ", or unset it"));
}

bool CpuSupports(CpuTarget target) {
  return static_cast<int>(target) <= Cap() && HardwareSupports(target);
}

int AvailableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int threads = ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const double quota = CgroupQuota();
  if (quota > 0) threads = std::min(threads, std::max(1, static_cast<int>(quota)));
  return std::max(1, threads);
}

}  // namespace hone
