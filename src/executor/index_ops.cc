// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Operators whose values say which elements move, and operators that make elements.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "executor/node.h"
#include "executor/op_util.h"

namespace hone::executor {
namespace {

using T = TensorType;

std::int64_t IntAt(const TensorInfo& info, const std::byte* data, std::int64_t i) {
  return info.type == T::kInt64 ? reinterpret_cast<const std::int64_t*>(data)[i]
                                : reinterpret_cast<const std::int32_t*>(data)[i];
}

Status OutOfRange(std::int64_t index, std::int64_t size) {
  return Status(Code::kInvalidArgument,
                StrCat("index ", index, " of a dimension of ", size, " elements"));
}

// ---- DYNAMIC_UPDATE_SLICE: the place is moved so that the update fits

Status CheckUpdate(const Node& node) {
  const TensorInfo& operand = *node.in[0];
  const TensorInfo& update = *node.in[1];
  HONE_TRY(ExpectWholeElements(operand, "the input"));
  HONE_TRY(ExpectSameType(operand, update));
  HONE_TRY(ExpectSameType(operand, *node.out[0]));
  HONE_TRY(ExpectShape(*node.out[0], "the output", operand.shape));
  HONE_TRY(ExpectRank(update, "the update", operand.rank(), operand.rank()));
  HONE_TRY(ExpectInts(*node.in[2], "the place"));
  if (node.in[2]->count != operand.rank()) {
    return Status(Code::kDataLoss, StrCat("the place has ", node.in[2]->count, " values for ",
                                          operand.rank(), " dimensions"));
  }
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    if (update.shape[d] <= operand.shape[d]) continue;
    return Status(Code::kDataLoss, StrCat("the update ", DimsText(update.shape), " is larger than ",
                                          DimsText(operand.shape)));
  }
  return {};
}

Status RunUpdate(const Call& call) {
  const TensorInfo& operand = *call.node.in[0];
  const Dims& update = call.node.in[1]->shape;
  if (operand.bytes != 0) std::memcpy(call.out[0], call.in[0], operand.bytes);
  Walk to{0, RowMajorStrides(operand.shape)};
  for (std::size_t d = 0; d < update.size(); ++d) {
    const std::int64_t at = IntAt(*call.node.in[2], call.in[2], static_cast<std::int64_t>(d));
    to.offset += std::clamp<std::int64_t>(at, 0, operand.shape[d] - update[d]) * to.strides[d];
  }
  CopyElements(ElementBytes(operand.type), update, call.in[1], {0, RowMajorStrides(update)},
               call.out[0], to);
  return {};
}

// ---- GATHER: [batch.., before.., axis, after..] by indices [batch.., picked..]

struct GatherShape {
  std::int64_t batch, before, size, after, picked;
};

Result<GatherShape> ShapeOfGather(const Node& node) {
  const Dims& x = node.in[0]->shape;
  const Dims& index = node.in[1]->shape;
  HONE_ASSIGN(const std::int64_t axis,
              ResolveAxis(node.options().axis.value_or(0), node.in[0]->rank()));
  const std::int64_t given = node.options().batch_dims;
  const std::int64_t batch_dims = given < 0 ? given + node.in[1]->rank() : given;
  if (batch_dims < 0 || batch_dims > axis || batch_dims > node.in[1]->rank() ||
      !std::equal(x.begin(), x.begin() + batch_dims, index.begin())) {
    return Status(Code::kDataLoss,
                  StrCat(given, " batch dimensions of ", DimsText(x), " and ", DimsText(index)));
  }
  const std::span<const std::int64_t> dims(x);
  const auto b = static_cast<std::size_t>(batch_dims);
  const auto a = static_cast<std::size_t>(axis);
  return GatherShape{Product(dims.first(b)), Product(dims.subspan(b, a - b)), x[a],
                     Product(dims.subspan(a + 1)),
                     Product(std::span<const std::int64_t>(index).subspan(b))};
}

Status CheckGather(const Node& node) {
  HONE_TRY(ExpectWholeElements(*node.in[0], "the input"));
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  HONE_TRY(ExpectType(*node.in[1], "the indices", {T::kInt32, T::kInt64}));
  HONE_ASSIGN(const GatherShape s, ShapeOfGather(node));
  (void)s;
  const Dims& x = node.in[0]->shape;
  const Dims& index = node.in[1]->shape;
  const std::int64_t axis = *ResolveAxis(node.options().axis.value_or(0), node.in[0]->rank());
  const std::int64_t given = node.options().batch_dims;
  Dims shape(x.begin(), x.begin() + axis);
  shape.insert(shape.end(), index.begin() + (given < 0 ? given + node.in[1]->rank() : given),
               index.end());
  shape.insert(shape.end(), x.begin() + axis + 1, x.end());
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunGather(const Call& call) {
  HONE_ASSIGN(const GatherShape s, ShapeOfGather(call.node));
  const std::int64_t piece = s.after * ElementBytes(call.node.out[0]->type);
  std::byte* out = call.out[0];
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t o = 0; o < s.before; ++o) {
      for (std::int64_t i = 0; i < s.picked; ++i, out += piece) {
        const std::int64_t at = IntAt(*call.node.in[1], call.in[1], b * s.picked + i);
        if (at < 0 || at >= s.size) return OutOfRange(at, s.size);
        if (piece == 0) continue;
        std::memcpy(out, call.in[0] + ((b * s.before + o) * s.size + at) * piece,
                    static_cast<std::size_t>(piece));
      }
    }
  }
  return {};
}

// ---- GATHER_ND: indices [.., k] name elements or slices of the first k dimensions

Status CheckGatherNd(const Node& node) {
  HONE_TRY(ExpectWholeElements(*node.in[0], "the input"));
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  HONE_TRY(ExpectType(*node.in[1], "the indices", {T::kInt32, T::kInt64}));
  HONE_TRY(ExpectRank(*node.in[1], "the indices", 1, kMaxRank));
  const Dims& x = node.in[0]->shape;
  const Dims& index = node.in[1]->shape;
  if (index.back() > node.in[0]->rank()) {
    return Status(Code::kDataLoss,
                  StrCat("indices of ", index.back(), " numbers for ", x.size(), " dimensions"));
  }
  Dims shape(index.begin(), index.end() - 1);
  shape.insert(shape.end(), x.begin() + index.back(), x.end());
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunGatherNd(const Call& call) {
  const Dims& x = call.node.in[0]->shape;
  const Dims& index = call.node.in[1]->shape;
  const std::int64_t k = index.back();
  const Dims strides = RowMajorStrides(x);
  const std::span<const std::int64_t> dims(x);
  const std::int64_t inner = Product(dims.subspan(static_cast<std::size_t>(k)));
  const std::int64_t element = ElementBytes(call.node.out[0]->type);
  const std::int64_t count = Product(std::span<const std::int64_t>(index).first(index.size() - 1));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (std::int64_t d = 0; d < k; ++d) {
      const std::int64_t at = IntAt(*call.node.in[1], call.in[1], i * k + d);
      const std::int64_t size = x[static_cast<std::size_t>(d)];
      if (at < 0 || at >= size) return OutOfRange(at, size);
      offset += at * strides[static_cast<std::size_t>(d)];
    }
    if (inner == 0) continue;
    std::memcpy(call.out[0] + i * inner * element, call.in[0] + offset * element,
                static_cast<std::size_t>(inner * element));
  }
  return {};
}

// ---- ONE_HOT: indices, depth, value where it is, value elsewhere

Result<std::size_t> OneHotAxis(const Node& node) {
  const std::int64_t axis = node.options().axis.value_or(-1);
  const std::int64_t rank = node.in[0]->rank();
  if (axis < -1 || axis > rank) return Status(Code::kDataLoss, StrCat("axis ", axis));
  return static_cast<std::size_t>(axis == -1 ? rank : axis);
}

Status CheckOneHot(const Node& node) {
  HONE_TRY(ExpectType(*node.in[0], "the indices", {T::kInt32, T::kInt64}));
  HONE_TRY(ExpectWholeElements(*node.out[0], "the output"));
  for (std::size_t i = 1; i < 4; ++i) {
    if (node.in[i]->count != 1) {
      return Status(Code::kDataLoss, StrCat("input ", i, " is not one number"));
    }
    if (i > 1) HONE_TRY(ExpectSameType(*node.in[i], *node.out[0]));
  }
  HONE_ASSIGN(const Dims depth, ConstantInts(node, 1, "the depth"));
  HONE_ASSIGN(const std::size_t axis, OneHotAxis(node));
  Dims shape = node.in[0]->shape;
  shape.insert(shape.begin() + static_cast<std::int64_t>(axis), depth[0]);
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunOneHot(const Call& call) {
  HONE_ASSIGN(const std::size_t axis, OneHotAxis(call.node));
  const Dims& shape = call.node.out[0]->shape;
  const std::span<const std::int64_t> dims(shape);
  const std::int64_t inner = Product(dims.subspan(axis + 1));
  const std::int64_t depth = shape[axis];
  const std::int64_t element = ElementBytes(call.node.out[0]->type);
  for (std::int64_t i = 0; i < call.node.out[0]->count; ++i) {
    const std::int64_t at = i / (inner * depth) * inner + i % inner;
    const bool here = IntAt(*call.node.in[0], call.in[0], at) == i / inner % depth;
    std::memcpy(call.out[0] + i * element, call.in[here ? 2 : 3],
                static_cast<std::size_t>(element));
  }
  return {};
}

// ---- RANGE: start, limit, step

template <typename Number>
Status FillRange(const Call& call) {
  const Number start = *call.In<Number>(0), limit = *call.In<Number>(1), step = *call.In<Number>(2);
  const std::int64_t count = call.node.out[0]->count;
  const double steps =
      (static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(step);
  if (!(std::ceil(steps) == static_cast<double>(count) || (steps <= 0 && count == 0))) {
    return Status(Code::kInvalidArgument,
                  StrCat("the range has another length than the ", count, " that the file says"));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    call.Out<Number>(0)[i] = static_cast<Number>(
        static_cast<double>(start) + static_cast<double>(i) * static_cast<double>(step));
  }
  return {};
}

Status CheckRange(const Node& node) {
  HONE_TRY(ExpectType(*node.out[0], "the output", {T::kInt32, T::kFloat32}));
  HONE_TRY(ExpectRank(*node.out[0], "the output", 1, 1));
  for (std::size_t i = 0; i < 3; ++i) {
    HONE_TRY(ExpectSameType(*node.in[i], *node.out[0]));
    if (node.in[i]->count == 1) continue;
    return Status(Code::kDataLoss, StrCat("input ", i, " is not one number"));
  }
  return {};
}

Status RunRange(const Call& call) {
  return call.node.out[0]->type == T::kInt32 ? FillRange<std::int32_t>(call)
                                             : FillRange<float>(call);
}

// ---- FILL: shape, value

Status CheckFillShape(const Node& node, const std::byte* at) {
  const auto shape = ReadInts(*node.in[0], at);
  return shape ? ExpectShape(*node.out[0], "the output", *shape) : Status();
}

Status CheckFill(const Node& node) {
  HONE_TRY(ExpectInts(*node.in[0], "the shape"));
  HONE_TRY(ExpectWholeElements(*node.out[0], "the output"));
  HONE_TRY(ExpectSameType(*node.in[1], *node.out[0]));
  if (node.in[1]->count != 1) return Status(Code::kDataLoss, "the value is not one number");
  return CheckFillShape(node, node.in[0]->constant);
}

Status RunFill(const Call& call) {
  HONE_TRY(CheckFillShape(call.node, call.in[0]));
  const std::int64_t element = ElementBytes(call.node.out[0]->type);
  for (std::int64_t i = 0; i < call.node.out[0]->count; ++i) {
    std::memcpy(call.out[0] + i * element, call.in[1], static_cast<std::size_t>(element));
  }
  return {};
}

// ---- SHAPE, ZEROS_LIKE

Status CheckShapeOf(const Node& node) {
  HONE_TRY(ExpectType(*node.out[0], "the output", {T::kInt32, T::kInt64}));
  return ExpectShape(*node.out[0], "the output", {node.in[0]->rank()});
}

Status RunShapeOf(const Call& call) {
  const Dims& shape = call.node.in[0]->shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (call.node.out[0]->type == T::kInt64) {
      call.Out<std::int64_t>(0)[d] = shape[d];
    } else {
      call.Out<std::int32_t>(0)[d] = static_cast<std::int32_t>(shape[d]);
    }
  }
  return {};
}

Status CheckZeros(const Node& node) {
  HONE_TRY(ExpectWholeElements(*node.out[0], "the output"));
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  return ExpectShape(*node.out[0], "the output", node.in[0]->shape);
}

Status RunZeros(const Call& call) {
  if (call.node.out[0]->bytes != 0) std::memset(call.out[0], 0, call.node.out[0]->bytes);
  return {};
}

constexpr OpFacts kOps[] = {
    {Op::kDynamicUpdateSlice, 3, 3, 1, CheckUpdate, RunUpdate},
    {Op::kGather, 2, 2, 1, CheckGather, RunGather},
    {Op::kGatherNd, 2, 2, 1, CheckGatherNd, RunGatherNd},
    {Op::kOneHot, 4, 4, 1, CheckOneHot, RunOneHot},
    {Op::kRange, 3, 3, 1, CheckRange, RunRange},
    {Op::kFill, 2, 2, 1, CheckFill, RunFill},
    {Op::kShape, 1, 1, 1, CheckShapeOf, RunShapeOf},
    {Op::kZerosLike, 1, 1, 1, CheckZeros, RunZeros},
};

}  // namespace

std::span<const OpFacts> IndexOps() { return kOps; }

}  // namespace hone::executor
