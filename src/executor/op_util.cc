// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "executor/op_util.h"

#include <algorithm>
#include <cstring>

namespace hone::executor {

using formats::tflite::TensorTypeName;

std::string DimsText(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (const std::int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

std::int64_t Product(std::span<const std::int64_t> dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return product;
}

Status ExpectType(const TensorInfo& info, const std::string& what,
                  std::initializer_list<TensorType> types) {
  if (std::find(types.begin(), types.end(), info.type) != types.end()) return {};
  std::string wanted;
  for (const TensorType type : types) {
    if (!wanted.empty()) wanted += " or ";
    wanted += TensorTypeName(type);
  }
  return Status(Code::kUnsupported,
                StrCat(what, " is ", TensorTypeName(info.type), ", ", wanted, " is supported"));
}

Status ExpectSameType(const TensorInfo& a, const TensorInfo& b) {
  if (a.type == b.type) return {};
  return Status(Code::kUnsupported, StrCat("the operands are ", TensorTypeName(a.type), " and ",
                                           TensorTypeName(b.type)));
}

Status ExpectShape(const TensorInfo& info, const std::string& what, const Dims& shape) {
  if (info.shape == shape) return {};
  return Status(Code::kDataLoss, StrCat(what, " has the shape ", DimsText(info.shape),
                                        ", but the operator gives ", DimsText(shape)));
}

Status ExpectRank(const TensorInfo& info, const std::string& what, std::int64_t least,
                  std::int64_t most) {
  if (info.rank() >= least && info.rank() <= most) return {};
  return Status(Code::kUnsupported, StrCat(what, " has the shape ", DimsText(info.shape), ", ",
                                           least, " to ", most, " dimensions are supported"));
}

std::int64_t ElementBytes(TensorType type) {
  switch (type) {
    case TensorType::kFloat32:
    case TensorType::kInt32:
    case TensorType::kUint32:
      return 4;
    case TensorType::kFloat16:
    case TensorType::kInt16:
    case TensorType::kUint16:
    case TensorType::kBfloat16:
      return 2;
    case TensorType::kInt64:
    case TensorType::kUint64:
    case TensorType::kFloat64:
      return 8;
    case TensorType::kInt8:
    case TensorType::kUint8:
    case TensorType::kBool:
      return 1;
    default:
      return 0;
  }
}

Status ExpectWholeElements(const TensorInfo& info, const std::string& what) {
  if (ElementBytes(info.type) != 0) return {};
  return Status(Code::kUnsupported,
                StrCat(what, " is ", TensorTypeName(info.type), ", which cannot be moved"));
}

Result<std::int64_t> ResolveAxis(std::int64_t axis, std::int64_t rank) {
  const std::int64_t resolved = axis < 0 ? axis + rank : axis;
  if (resolved >= 0 && resolved < rank) return resolved;
  return Status(Code::kDataLoss, StrCat("axis ", axis, " of a tensor of rank ", rank));
}

std::optional<Dims> ReadInts(const TensorInfo& info, const std::byte* at) {
  if (at == nullptr) return std::nullopt;
  Dims values(static_cast<std::size_t>(info.count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = info.type == TensorType::kInt64 ? reinterpret_cast<const std::int64_t*>(at)[i]
                                                : reinterpret_cast<const std::int32_t*>(at)[i];
  }
  return values;
}

Status ExpectInts(const TensorInfo& info, const std::string& what, std::int64_t max_count) {
  HONE_TRY(ExpectType(info, what, {TensorType::kInt32, TensorType::kInt64}));
  if (info.count <= max_count) return {};
  return Status(Code::kUnsupported, StrCat(what, " has ", info.count, " values, at most ",
                                           max_count, " are supported"));
}

Result<Dims> ConstantInts(const Node& node, std::size_t i, const std::string& what) {
  const TensorInfo& info = *node.in[i];
  HONE_TRY(ExpectInts(info, what, 2 * kMaxRank));
  auto values = ReadInts(info, info.constant);
  if (values) return *std::move(values);
  return Status(Code::kUnsupported, StrCat(what, " is not constant"));
}

Dims RowMajorStrides(std::span<const std::int64_t> shape) {
  Dims strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::optional<Dims> BroadcastShape(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  const std::size_t skip = longer.size() - shorter.size();
  for (std::size_t d = 0; d < shorter.size(); ++d) {
    std::int64_t& dim = out[skip + d];
    if (dim == shorter[d] || shorter[d] == 1) continue;
    if (dim != 1) return std::nullopt;
    dim = shorter[d];
  }
  return out;
}

Dims BroadcastStrides(const Dims& shape, const Dims& out) {
  const Dims own = RowMajorStrides(shape);
  const std::size_t skip = out.size() - shape.size();
  Dims strides(out.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) strides[skip + d] = own[d];
  }
  return strides;
}

void CopyElements(std::int64_t element_bytes, std::span<const std::int64_t> shape,
                  const std::byte* from, const Walk& from_walk, std::byte* to,
                  const Walk& to_walk) {
  from += from_walk.offset * element_bytes;
  to += to_walk.offset * element_bytes;
  // A last dimension that is contiguous on both sides moves as one piece.
  std::size_t rank = shape.size();
  std::int64_t piece = element_bytes;
  if (rank > 0 && from_walk.strides[rank - 1] == 1 && to_walk.strides[rank - 1] == 1) {
    piece *= shape[--rank];
    if (piece == 0) return;
  }
  const std::array<Dims, 2> strides = {
      Dims(from_walk.strides.begin(), from_walk.strides.begin() + static_cast<std::int64_t>(rank)),
      Dims(to_walk.strides.begin(), to_walk.strides.begin() + static_cast<std::int64_t>(rank))};
  ForEach<2>(shape.first(rank), strides, [&](const std::array<std::int64_t, 2>& at) {
    std::memcpy(to + at[1] * element_bytes, from + at[0] * element_bytes,
                static_cast<std::size_t>(piece));
  });
}

Status ExpectActivation(const Node& node) {
  const std::int32_t activation = node.options().fused_activation;
  if (activation == 0) return {};
  if (activation < 0 || activation > 3) {
    return Status(Code::kUnsupported, StrCat("fused activation ", activation));
  }
  return ExpectType(*node.out[0], "the output of a fused activation",
                    {TensorType::kFloat32, TensorType::kFloat16});
}

float Activate(std::int32_t activation, float x) {
  switch (activation) {
    case 1:
      return std::max(x, 0.0f);
    case 2:
      return std::clamp(x, -1.0f, 1.0f);
    case 3:
      return std::clamp(x, 0.0f, 6.0f);
    default:
      return x;
  }
}

}  // namespace hone::executor
