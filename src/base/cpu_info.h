// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What this processor can do, and how many threads this process may use.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace hone {

enum class CpuTarget : std::uint8_t { kPortable, kAvx2, kAvx512Vnni, kNeonDot, kNeonI8mm };

// "portable", "avx2", "avx512vnni", "neon_dot", "neon_i8mm".
const char* CpuTargetName(CpuTarget target);

// kInvalidArgument if HONE_CPU is set to a name that is no target. A program checks it at its
// start.
Status CheckCpuCap();

// Whether this machine (and its operating system) can run the target. HONE_CPU caps it: a target
// above the cap counts as absent. An unknown HONE_CPU value counts as "portable".
bool CpuSupports(CpuTarget target);

// Threads that can run at once: the affinity mask, capped by the container's processor quota.
int AvailableThreads();

}  // namespace hone
