// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Memory: what each backend needs at the bundle's context, and buffers that a device cannot make.
#include <algorithm>
#include <cstdio>

#include "bundle/buffer_sizes.h"
#include "bundle/check_groups.h"

namespace hone::bundle {
namespace {

constexpr std::uint64_t kAdreno = std::uint64_t{1} << 30;
constexpr std::uint64_t kWebGpu = std::uint64_t{128} << 20;

std::string Bytes(std::uint64_t bytes) {
  char text[32];
  if (bytes >= std::uint64_t{1} << 30) {
    std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  } else {
    std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  }
  return text;
}

std::string BufferText(const BufferSize& buffer) {
  return StrCat("signature '", buffer.signature, "': ", buffer.name, " needs ", Bytes(buffer.bytes),
                " (", buffer.bytes, " bytes", buffer.as_fp16 ? ", as fp16)" : ")");
}

}  // namespace

void CheckMemory(const Subject& subject, Findings& out) {
  if (subject.decoder == nullptr || !subject.decoder->model || !subject.facts.decode) return;
  const std::vector<BufferSize> buffers = LargestBuffers(subject, 1);
  BufferSize largest;
  for (const BufferSize& buffer : buffers) {
    if (buffer.bytes > largest.bytes) largest = buffer;
  }
  const std::uint64_t limit = subject.options->device_limit;
  if (limit > 0) {
    for (const BufferSize& buffer : buffers) {
      if (buffer.bytes > limit) {
        out.Add("buffer-over-limit", StrCat(BufferText(buffer), ", the limit is ", Bytes(limit)));
      }
    }
  } else if (largest.bytes > kAdreno) {
    out.Add("buffer-over-adreno", BufferText(largest));
  } else if (largest.bytes > kWebGpu) {
    out.Add("buffer-over-webgpu", BufferText(largest));
  }
  const MemoryNeed need = EstimateMemory(subject);
  out.Add("memory",
          StrCat("at a context of ", subject.facts.context, ": CPU ", Bytes(need.cpu()),
                 " (weights ", Bytes(need.weights), ", cache ", Bytes(need.cache),
                 ", largest buffers ", Bytes(need.activations), "), GPU ", Bytes(need.gpu_device),
                 " on the device and ", Bytes(need.gpu_host), " beside it"));
}

}  // namespace hone::bundle
