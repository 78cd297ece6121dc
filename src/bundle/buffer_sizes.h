// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Sizes that decide whether a device can run a bundle, counted from its tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bundle/check_subject.h"

namespace hone::bundle {

struct BufferSize {
  std::string signature, name;
  std::uint64_t bytes = 0;
  bool as_fp16 = false;  // float32 in the file; the GPU computes in fp16
};
// The count largest buffers of each of the decoder's signatures on a GPU: float32 tensors that are
// not constant count as fp16 unless the section prefers fp32 activations.
std::vector<BufferSize> LargestBuffers(const Subject& subject, std::size_t count);

// A lower bound, without the runtime's own needs.
struct MemoryNeed {
  std::uint64_t weights = 0;  // all models of the bundle, mapped or packed once
  std::uint64_t cache = 0;    // keys and values of the whole context, as the graph declares them
  std::uint64_t activations = 0;  // the two largest buffers of the largest signature
  // GPU: weights of the decoder, two copies of an fp16 cache (one with param_tensor), activations.
  std::uint64_t gpu_device = 0;
  std::uint64_t gpu_host = 0;  // the other models, which stay on the CPU
  std::uint64_t cpu() const { return weights + cache + activations; }
};
MemoryNeed EstimateMemory(const Subject& subject);

}  // namespace hone::bundle
