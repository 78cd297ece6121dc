// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "executor/quantized.h"

#include <algorithm>

#include "executor/op_util.h"

namespace hone::executor {

Status ExpectQuantized(const TensorInfo& info, const std::string& what) {
  HONE_TRY(ExpectType(
      info, what, {TensorType::kInt8, TensorType::kInt4, TensorType::kUint8, TensorType::kInt16}));
  const Quantization& q = info.tensor->quantization;
  if (q.scales_tensor) {
    if (info.scales == nullptr || info.scales->constant == nullptr) {
      return Status(Code::kUnsupported, StrCat(what, " has block scales that are not constant"));
    }
    if (q.zero_points_tensor == -1) return {};
    return Status(Code::kUnsupported, StrCat(what, " has zero points for its blocks"));
  }
  if (q.scale.empty()) return Status(Code::kDataLoss, StrCat(what, " has no scales"));
  constexpr std::int64_t kMost = 1 << 16;
  if (std::any_of(q.zero_point.begin(), q.zero_point.end(),
                  [](std::int64_t z) { return z < -kMost || z > kMost; })) {
    return Status(Code::kDataLoss, StrCat(what, " has a zero point that is no code"));
  }
  return {};
}

Status ExpectQuantizedRows(const TensorInfo& info, const std::string& what) {
  HONE_TRY(ExpectType(info, what, {TensorType::kInt8, TensorType::kInt4}));
  HONE_TRY(ExpectQuantized(info, what));
  const Quantization& q = info.tensor->quantization;
  if (q.scale.size() > 1 && q.quantized_dimension != 0) {
    return Status(Code::kUnsupported,
                  StrCat(what, " has scales along dimension ", q.quantized_dimension,
                         "; one for each row is supported"));
  }
  if (std::any_of(q.zero_point.begin(), q.zero_point.end(), [](auto z) { return z != 0; })) {
    return Status(Code::kUnsupported, StrCat(what, " has zero points other than 0"));
  }
  return {};
}

Quantized::Quantized(const TensorInfo& info, const std::byte* data) : info_(info), data_(data) {
  const Quantization& q = info.tensor->quantization;
  if (q.scales_tensor) {
    block_ = q.block_size;
  } else if (q.scale.size() > 1) {
    const auto dim = static_cast<std::size_t>(q.quantized_dimension);
    channels_ = info.shape[dim];
    for (std::size_t d = dim + 1; d < info.shape.size(); ++d) inner_ *= info.shape[d];
  }
}

std::int32_t Quantized::CodeAt(std::int64_t i) const {
  switch (info_.type) {
    case TensorType::kInt4: {
      const auto byte = std::to_integer<std::uint32_t>(data_[i / 2]);
      const auto nibble = static_cast<std::int32_t>(i % 2 == 0 ? byte & 15U : byte >> 4U);
      return nibble < 8 ? nibble : nibble - 16;
    }
    case TensorType::kUint8:
      return reinterpret_cast<const std::uint8_t*>(data_)[i];
    case TensorType::kInt16:
      return reinterpret_cast<const std::int16_t*>(data_)[i];
    default:
      return reinterpret_cast<const std::int8_t*>(data_)[i];
  }
}

float Quantized::ScaleAt(std::int64_t i) const {
  const Quantization& q = info_.tensor->quantization;
  if (block_ != 0) {
    const std::int64_t at = i / block_;
    if (info_.scales->type == TensorType::kFloat32) {
      return reinterpret_cast<const float*>(info_.scales->constant)[at];
    }
    return static_cast<float>(reinterpret_cast<const Half*>(info_.scales->constant)[at]);
  }
  return q.scale.size() == 1 ? q.scale[0] : q.scale[static_cast<std::size_t>(ChannelAt(i))];
}

float Quantized::ValueAt(std::int64_t i) const {
  const Quantization& q = info_.tensor->quantization;
  std::int64_t zero = 0;
  if (q.zero_point.size() == 1) zero = q.zero_point[0];
  if (q.zero_point.size() > 1) zero = q.zero_point[static_cast<std::size_t>(ChannelAt(i))];
  return ScaleAt(i) * static_cast<float>(CodeAt(i) - zero);
}

}  // namespace hone::executor
