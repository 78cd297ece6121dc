// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What this processor can do, and how many threads this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hone {

// In the order in which HONE_CPU caps them.
enum class CpuTarget : std::uint8_t {
  kPortable,
  kAvx2,
  kAvxVnni,
  kAvx512Vnni,
  kNeonDot,
  kNeonI8mm
};

// "portable", "avx2", "avxvnni", "avx512vnni", "neon_dot", "neon_i8mm".
const char* CpuTargetName(CpuTarget target);

// The target of a name; "baseline" is another name of "portable". Nothing for other names.
std::optional<CpuTarget> CpuTargetFromName(std::string_view name);

// kInvalidArgument if HONE_CPU is set to a name that is no target. A program checks it at its
// start.
Status CheckCpuCap();

// Whether this machine (and its operating system) can run the target. HONE_CPU caps it: a target
// above the cap counts as absent. An unknown HONE_CPU value counts as "portable".
bool CpuSupports(CpuTarget target);

// What a user should know when the processor lacks what the fast kernels need, which is dot
// products on arm64 and AVX2 on x86-64; "" otherwise. HONE_CPU does not count.
std::string SlowCpuWarning();

// Threads that a job should use when the user names no number: ChooseThreads() of thread_choice.h.
int AvailableThreads();

}  // namespace hone
