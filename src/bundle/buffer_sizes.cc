// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/buffer_sizes.h"

#include <algorithm>

#include "formats/tflite/largest_tensors.h"

namespace hone::bundle {
namespace {

namespace tflite = formats::tflite;

bool PrefersFloat32(const Subject& subject) {
  return subject.Item("prefer_activation_type") == "fp32";
}

std::vector<BufferSize> Sizes(const Subject& subject, std::size_t count, bool gpu) {
  std::vector<BufferSize> out;
  if (subject.decoder == nullptr || !subject.decoder->model) return out;
  const bool half = gpu && !PrefersFloat32(subject);
  for (const auto& signature : tflite::LargestTensors(*subject.decoder->model, 64)) {
    std::vector<BufferSize> sizes;
    for (const tflite::TensorSize& tensor : signature.largest) {
      BufferSize size{signature.key, tensor.name, tensor.bytes, false};
      if (half && !tensor.constant && tensor.type == tflite::TensorType::kFloat32) {
        size.bytes /= 2;
        size.as_fp16 = true;
      }
      if (!gpu && tensor.constant) continue;
      sizes.push_back(std::move(size));
    }
    std::stable_sort(sizes.begin(), sizes.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    if (sizes.size() > count) sizes.resize(count);
    out.insert(out.end(), sizes.begin(), sizes.end());
  }
  return out;
}

// The two largest buffers of a signature, for the signature where that is most.
std::uint64_t Activations(const Subject& subject, bool gpu) {
  std::uint64_t most = 0;
  std::string signature;
  std::uint64_t sum = 0;
  for (const BufferSize& size : Sizes(subject, 2, gpu)) {
    if (size.signature != signature) sum = 0;
    signature = size.signature;
    sum += size.bytes;
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

std::vector<BufferSize> LargestBuffers(const Subject& subject, std::size_t count) {
  return Sizes(subject, count, /*gpu=*/true);
}

MemoryNeed EstimateMemory(const Subject& subject) {
  MemoryNeed need;
  for (const ModelSection& model : subject.models) {
    need.weights += model.bytes.size();
    if (&model != subject.decoder) need.gpu_host += model.bytes.size();
  }
  need.cache = subject.facts.cache_bytes;
  need.activations = Activations(subject, false);
  const bool in_place = subject.facts.decode && subject.facts.decode->Input("param_tensor");
  const std::uint64_t cache = PrefersFloat32(subject) ? need.cache : need.cache / 2;
  need.gpu_device =
      need.weights - need.gpu_host + cache * (in_place ? 1 : 2) + Activations(subject, true);
  return need;
}

}  // namespace hone::bundle
