// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Choosing from a family's list of kernels.
#pragma once

#include <span>

#include "base/check.h"
#include "base/cpu_info.h"

namespace hone::kernels {

// The first kernel of the list that this machine runs; every list ends with a portable one.
template <typename Kernel>
const Kernel& FirstSupported(std::span<const Kernel> kernels) {
  for (const Kernel& kernel : kernels) {
    if (CpuSupports(kernel.needs)) return kernel;
  }
  HONE_CHECK(kernels.back().needs == CpuTarget::kPortable);
  return kernels.back();
}

}  // namespace hone::kernels
