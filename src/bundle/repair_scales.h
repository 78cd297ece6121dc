// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which bytes of a bundle change so that every block scale is a normal number above zero.
#pragma once

#include <cstdint>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "bundle/repair.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {

struct Patch {
  std::uint64_t offset = 0;  // in the span that the patches are for
  std::vector<std::byte> bytes;
};

// A scale that is zero or subnormal becomes the smallest normal scale of its tensor, 2^-14 where
// there is none. Codes stay where the block's values stay; else they are chosen so that each value
// is within half a step. model views file. Patches are appended in order of their offsets within a
// tensor; tensors are appended to report.
Status PlanScales(const formats::tflite::Model& model, ByteSpan file, const std::string& section,
                  std::vector<Patch>& patches, RepairReport& report);

}  // namespace hone::bundle
