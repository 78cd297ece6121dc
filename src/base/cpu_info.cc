// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_info.h"

#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "base/env.h"
#include "base/thread_choice.h"

namespace hone {
namespace {

constexpr int kLastTarget = static_cast<int>(CpuTarget::kNeonI8mm);

#if defined(__x86_64__)
// GCC 12 and Clang 16 have no name for these two. Both use YMM registers alone, whose state the
// operating system keeps where the compiler says that "avx2" is supported.
bool HasF16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

#if defined(__x86_64__)
bool HasAvxVnni() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  // Subleaf 0 says how many subleaves there are.
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || a < 1) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && ((a >> 4) & 1U) != 0;
}
#endif

bool HardwareSupports(CpuTarget target) {
  switch (target) {
    case CpuTarget::kPortable:
      return true;
#if defined(__x86_64__)
    case CpuTarget::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
    case CpuTarget::kAvxVnni:
      return HardwareSupports(CpuTarget::kAvx2) && HasAvxVnni();
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
    if (value.empty()) return kLastTarget;
    return static_cast<int>(CpuTargetFromName(value).value_or(CpuTarget::kPortable));
  }();
  return cap;
}

}  // namespace

const char* CpuTargetName(CpuTarget target) {
  static constexpr const char* kNames[] = {"portable",   "avx2",     "avxvnni",
                                           "avx512vnni", "neon_dot", "neon_i8mm"};
  return kNames[static_cast<int>(target)];
}

std::optional<CpuTarget> CpuTargetFromName(std::string_view name) {
  if (name == "baseline") return CpuTarget::kPortable;
  for (int t = 0; t <= kLastTarget; ++t) {
    if (name == CpuTargetName(static_cast<CpuTarget>(t))) return static_cast<CpuTarget>(t);
  }
  return std::nullopt;
}

Status CheckCpuCap() {
  const std::string value = GetEnv("HONE_CPU");
  if (value.empty() || CpuTargetFromName(value)) return {};
  std::string names = "baseline";
  for (int t = 0; t <= kLastTarget; ++t) {
    names += StrCat(", ", CpuTargetName(static_cast<CpuTarget>(t)));
  }
  return Status(Code::kInvalidArgument,
                StrCat("HONE_CPU is \"", value, "\", expected one of ", names, ", or unset it"));
}

bool CpuSupports(CpuTarget target) {
  return static_cast<int>(target) <= Cap() && HardwareSupports(target);
}

std::string SlowCpuWarning() {
#if defined(__aarch64__)
  if (!HardwareSupports(CpuTarget::kNeonDot)) {
    return "this processor has no dot product instructions (asimddp): the portable kernels run, "
           "which are slow";
  }
#elif defined(__x86_64__)
  if (!HardwareSupports(CpuTarget::kAvx2)) {
    return "this processor has no AVX2: the portable kernels run, which are slow";
  }
#endif
  return "";
}

int AvailableThreads() { return ChooseThreads().threads; }

}  // namespace hone
