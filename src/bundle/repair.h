// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Mends bundles: block scales that runtimes refuse, and two patterns that NPU compilers get wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace hone::bundle {

struct RepairOptions {
  bool scales = false;               // zero and subnormal block scales
  bool npu_mask = false;             // repeated masks
  bool unused_cache_inputs = false;  // cache inputs of prefill signatures that nothing reads
  bool dry_run = false;              // write nothing
  const std::atomic<bool>* cancel = nullptr;
};

// The scales of one tensor that were replaced.
struct RepairedTensor {
  std::string where;  // "section 3 tensor 12 (w)"
  std::uint64_t zero = 0, subnormal = 0;
  float scale = 0;                   // what they became
  std::uint64_t recoded_blocks = 0;  // blocks whose codes had to change as well
};

struct RepairReport {
  std::vector<RepairedTensor> tensors;
  std::uint64_t scales_changed = 0;
  std::uint64_t masks_changed = 0;  // ADDs that take the mask itself now
  std::uint64_t inputs_removed = 0;
  std::vector<std::string> proofs;  // "prefill_8: 4 outputs are equal bit for bit"
  std::uint64_t bytes_changed = 0;  // that differ between the files; all, if tables were rewritten
  bool tables_rewritten = false;
  std::string sha256_before, sha256_after;  // after is empty if nothing was written
  std::vector<std::string> notes;
  bool changed() const { return scales_changed + masks_changed + inputs_removed > 0; }
};

// Writes the repaired bundle to out, which may be in: the file then changes from one moment to the
// next. If there is nothing to repair, nothing is written, and changed() is false.
Result<RepairReport> RepairBundle(const std::string& in, const std::string& out,
                                  const RepairOptions& options);

Json RepairJson(const RepairReport& report);
std::string RepairText(const RepairReport& report);

}  // namespace hone::bundle
