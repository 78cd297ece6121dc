// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Operators that move whole elements to places that the shapes alone decide.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "executor/node.h"
#include "executor/op_util.h"

namespace hone::executor {
namespace {

Status CheckMove(const Node& node) {
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  return ExpectWholeElements(*node.in[0], "the input");
}

void Copy(const Call& call, const Walk& from, const Dims& shape) {
  CopyElements(ElementBytes(call.node.out[0]->type), shape, call.in[0], from, call.out[0],
               {0, RowMajorStrides(shape)});
}

// ---- RESHAPE, SQUEEZE, EXPAND_DIMS: the file says the new shape

// The target of a RESHAPE may hold one -1.
Status CheckTarget(const Node& node, const std::byte* target) {
  const auto wanted = ReadInts(*node.in[1], target);
  if (!wanted) return {};
  const Dims& shape = node.out[0]->shape;
  bool fits = wanted->size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = (*wanted)[d] == shape[d] || (*wanted)[d] == -1;
  }
  return fits ? Status() : ExpectShape(*node.out[0], "the output", *wanted);
}

Status CheckReshape(const Node& node) {
  HONE_TRY(CheckMove(node));
  if (node.op->op == Op::kReshape && node.Has(1)) {
    HONE_TRY(ExpectInts(*node.in[1], "the new shape"));
    HONE_TRY(CheckTarget(node, node.in[1]->constant));
  }
  if (node.in[0]->count == node.out[0]->count) return {};
  return Status(Code::kDataLoss,
                StrCat("the shapes ", DimsText(node.in[0]->shape), " and ",
                       DimsText(node.out[0]->shape), " have different numbers of elements"));
}

Status RunReshape(const Call& call) {
  if (call.node.op->op == Op::kReshape && call.node.Has(1)) {
    HONE_TRY(CheckTarget(call.node, call.in[1]));
  }
  if (call.node.out[0]->bytes != 0) std::memcpy(call.out[0], call.in[0], call.node.out[0]->bytes);
  return {};
}

// ---- TRANSPOSE

Result<Dims> Permutation(const Node& node) {
  HONE_ASSIGN(Dims order, ConstantInts(node, 1, "the permutation"));
  const std::int64_t rank = node.in[0]->rank();
  Dims sorted = order;
  for (std::int64_t& axis : sorted) axis = axis < 0 ? axis + rank : axis;
  order = sorted;
  std::sort(sorted.begin(), sorted.end());
  Dims expected(static_cast<std::size_t>(rank));
  std::iota(expected.begin(), expected.end(), 0);
  if (sorted == expected) return order;
  return Status(Code::kDataLoss, StrCat(DimsText(order), " is no permutation of ", rank, " axes"));
}

Status CheckTranspose(const Node& node) {
  HONE_TRY(CheckMove(node));
  HONE_ASSIGN(const Dims order, Permutation(node));
  Dims shape;
  for (const std::int64_t axis : order) {
    shape.push_back(node.in[0]->shape[static_cast<std::size_t>(axis)]);
  }
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunTranspose(const Call& call) {
  HONE_ASSIGN(const Dims order, Permutation(call.node));
  const Dims strides = RowMajorStrides(call.node.in[0]->shape);
  Walk from;
  for (const std::int64_t axis : order) {
    from.strides.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  Copy(call, from, call.node.out[0]->shape);
  return {};
}

// ---- SLICE: begin and size per dimension; size -1 goes to the end

Status CheckSliceBounds(const Node& node, const std::byte* begin_at, const std::byte* size_at) {
  const Dims& in = node.in[0]->shape;
  const Dims& out = node.out[0]->shape;
  const auto begin = ReadInts(*node.in[1], begin_at);
  const auto size = ReadInts(*node.in[2], size_at);
  for (std::size_t d = 0; begin && d < in.size(); ++d) {
    const std::int64_t first = (*begin)[d];
    if (first < 0 || first > in[d] - out[d]) {
      return Status(Code::kInvalidArgument,
                    StrCat("dimension ", d, " has ", in[d], " elements, but ", out[d],
                           " are read from ", first, " on"));
    }
    if (size && (*size)[d] != out[d] && ((*size)[d] != -1 || in[d] - first != out[d])) {
      return Status(Code::kDataLoss, StrCat("dimension ", d, " of the output has ", out[d],
                                            " elements, but ", (*size)[d], " are wanted"));
    }
  }
  return {};
}

Status CheckSlice(const Node& node) {
  HONE_TRY(CheckMove(node));
  const std::int64_t rank = node.in[0]->rank();
  HONE_TRY(ExpectRank(*node.out[0], "the output", rank, rank));
  for (std::size_t i = 1; i < 3; ++i) {
    HONE_TRY(ExpectInts(*node.in[i], i == 1 ? "the begin" : "the size"));
    if (node.in[i]->count != rank) {
      return Status(Code::kDataLoss, StrCat("input ", i, " has ", node.in[i]->count, " values for ",
                                            rank, " dimensions"));
    }
  }
  for (std::size_t d = 0; d < node.in[0]->shape.size(); ++d) {
    if (node.out[0]->shape[d] <= node.in[0]->shape[d]) continue;
    return Status(Code::kDataLoss, "the output is larger than the input");
  }
  return CheckSliceBounds(node, node.in[1]->constant, node.in[2]->constant);
}

Status RunSlice(const Call& call) {
  HONE_TRY(CheckSliceBounds(call.node, call.in[1], call.in[2]));
  const Dims begin = *ReadInts(*call.node.in[1], call.in[1]);
  Walk from{0, RowMajorStrides(call.node.in[0]->shape)};
  for (std::size_t d = 0; d < begin.size(); ++d) from.offset += begin[d] * from.strides[d];
  Copy(call, from, call.node.out[0]->shape);
  return {};
}

// ---- STRIDED_SLICE

struct StridedPlan {
  Walk walk;   // strides of the dimensions that are kept or new
  Dims shape;  // of the output
};

struct SliceRange {
  std::int64_t first, count, step;
};

// One sliced dimension, as Python's x[begin:end:step] counts it.
SliceRange RangeOf(std::int64_t dim, std::optional<std::int64_t> begin,
                   std::optional<std::int64_t> end, std::int64_t step) {
  const std::int64_t least = step > 0 ? 0 : -1;
  const std::int64_t most = step > 0 ? dim : dim - 1;
  const auto place = [&](std::optional<std::int64_t> at, std::int64_t otherwise) {
    if (!at) return otherwise;
    return std::clamp(*at < 0 ? *at + dim : *at, least, most);
  };
  const std::int64_t first = place(begin, step > 0 ? 0 : dim - 1);
  const std::int64_t last = place(end, step > 0 ? dim : -1);
  const std::int64_t way = step > 0 ? last - first : first - last;
  const std::int64_t size = step > 0 ? step : -step;
  return {first, way <= 0 ? 0 : (way + size - 1) / size, step};
}

bool Bit(std::int32_t mask, std::size_t i) {
  return ((static_cast<std::uint32_t>(mask) >> i) & 1U) != 0;
}

Result<StridedPlan> PlanStrided(const Node& node, const Dims& begin, const Dims& end,
                                const Dims& step) {
  const OpOptions& o = node.options();
  const Dims& in = node.in[0]->shape;
  const Dims strides = RowMajorStrides(in);
  StridedPlan plan;
  std::size_t d = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (Bit(o.new_axis_mask, i)) {
      plan.shape.push_back(1);
      plan.walk.strides.push_back(0);
      continue;
    }
    if (d >= in.size()) return Status(Code::kDataLoss, "more slices than dimensions");
    if (Bit(o.shrink_axis_mask, i)) {
      const std::int64_t at = begin[i] < 0 ? begin[i] + in[d] : begin[i];
      if (at < 0 || at >= in[d]) {
        return Status(Code::kInvalidArgument,
                      StrCat("index ", begin[i], " of a dimension of ", in[d], " elements"));
      }
      plan.walk.offset += at * strides[d++];
      continue;
    }
    if (step[i] == 0 || step[i] == std::numeric_limits<std::int64_t>::min()) {
      return Status(Code::kInvalidArgument, "a step of 0");
    }
    const auto bound = [](const Dims& list, std::size_t at, bool masked) {
      return masked ? std::nullopt : std::optional<std::int64_t>(list[at]);
    };
    const SliceRange range = RangeOf(in[d], bound(begin, i, Bit(o.begin_mask, i)),
                                     bound(end, i, Bit(o.end_mask, i)), step[i]);
    if (range.count > 0) plan.walk.offset += range.first * strides[d];
    plan.shape.push_back(range.count);
    plan.walk.strides.push_back(range.count > 1 ? range.step * strides[d] : 0);
    ++d;
  }
  for (; d < in.size(); ++d) {
    plan.shape.push_back(in[d]);
    plan.walk.strides.push_back(strides[d]);
  }
  HONE_TRY(ExpectShape(*node.out[0], "the output", plan.shape));
  return plan;
}

Status CheckStrided(const Node& node) {
  HONE_TRY(CheckMove(node));
  if (node.options().ellipsis_mask != 0 || node.options().end_is_offset) {
    return Status(Code::kUnsupported, "an ellipsis or an end that counts from the begin");
  }
  std::vector<std::optional<Dims>> bounds;
  for (std::size_t i = 1; i < 4; ++i) {
    HONE_TRY(ExpectInts(*node.in[i], StrCat("input ", i)));
    HONE_TRY(ExpectType(*node.in[i], StrCat("input ", i), {TensorType::kInt32}));
    if (node.in[i]->count != node.in[1]->count) {
      return Status(Code::kDataLoss, "begin, end and step have different lengths");
    }
    bounds.push_back(ReadInts(*node.in[i], node.in[i]->constant));
  }
  if (!bounds[0] || !bounds[1] || !bounds[2]) return {};
  return PlanStrided(node, *bounds[0], *bounds[1], *bounds[2]).status();
}

Status RunStrided(const Call& call) {
  HONE_ASSIGN(const StridedPlan plan,
              PlanStrided(call.node, *ReadInts(*call.node.in[1], call.in[1]),
                          *ReadInts(*call.node.in[2], call.in[2]),
                          *ReadInts(*call.node.in[3], call.in[3])));
  Copy(call, plan.walk, plan.shape);
  return {};
}

// ---- CONCATENATION, PACK: each input goes to a part of the output

Result<std::int64_t> JoinAxis(const Node& node) {
  return ResolveAxis(node.options().axis.value_or(0), node.out[0]->rank());
}

Status CheckConcatenation(const Node& node) {
  HONE_ASSIGN(const std::int64_t resolved, JoinAxis(node));
  const auto axis = static_cast<std::size_t>(resolved);
  HONE_TRY(ExpectWholeElements(*node.out[0], "the output"));
  HONE_TRY(ExpectActivation(node));
  if (node.options().fused_activation != 0) {
    return Status(Code::kUnsupported, "a fused activation");
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (!node.Has(i)) return Status(Code::kDataLoss, StrCat("input ", i, " is absent"));
    HONE_TRY(ExpectSameType(*node.in[i], *node.out[0]));
    Dims shape = node.out[0]->shape;
    if (node.in[i]->shape.size() == shape.size()) shape[axis] = node.in[i]->shape[axis];
    HONE_TRY(ExpectShape(*node.in[i], StrCat("input ", i), shape));
    total += shape[axis];
  }
  Dims shape = node.out[0]->shape;
  shape[axis] = total;
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunConcatenation(const Call& call) {
  HONE_ASSIGN(const std::int64_t axis, JoinAxis(call.node));
  const Dims strides = RowMajorStrides(call.node.out[0]->shape);
  Walk to{0, strides};
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const Dims& shape = call.node.in[i]->shape;
    CopyElements(ElementBytes(call.node.out[0]->type), shape, call.in[i],
                 {0, RowMajorStrides(shape)}, call.out[0], to);
    to.offset += shape[static_cast<std::size_t>(axis)] * strides[static_cast<std::size_t>(axis)];
  }
  return {};
}

Status CheckPack(const Node& node) {
  HONE_ASSIGN(const std::int64_t axis, JoinAxis(node));
  HONE_TRY(ExpectWholeElements(*node.out[0], "the output"));
  Dims shape = node.out[0]->shape;
  shape.erase(shape.begin() + axis);
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (!node.Has(i)) return Status(Code::kDataLoss, StrCat("input ", i, " is absent"));
    HONE_TRY(ExpectSameType(*node.in[i], *node.out[0]));
    HONE_TRY(ExpectShape(*node.in[i], StrCat("input ", i), shape));
  }
  shape.insert(shape.begin() + axis, static_cast<std::int64_t>(node.in.size()));
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunPack(const Call& call) {
  HONE_ASSIGN(const std::int64_t axis, JoinAxis(call.node));
  Dims strides = RowMajorStrides(call.node.out[0]->shape);
  const std::int64_t step = strides[static_cast<std::size_t>(axis)];
  strides.erase(strides.begin() + axis);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const Dims& shape = call.node.in[i]->shape;
    CopyElements(ElementBytes(call.node.out[0]->type), shape, call.in[i],
                 {0, RowMajorStrides(shape)}, call.out[0],
                 {static_cast<std::int64_t>(i) * step, strides});
  }
  return {};
}

// ---- UNPACK, SPLIT, SPLIT_V: each output is a part of the input

Status CheckUnpack(const Node& node) {
  HONE_TRY(ExpectWholeElements(*node.in[0], "the input"));
  HONE_ASSIGN(const std::int64_t axis,
              ResolveAxis(node.options().axis.value_or(0), node.in[0]->rank()));
  Dims shape = node.in[0]->shape;
  if (shape[static_cast<std::size_t>(axis)] != static_cast<std::int64_t>(node.out.size())) {
    return Status(Code::kDataLoss, StrCat(node.out.size(), " outputs for ",
                                          shape[static_cast<std::size_t>(axis)], " parts"));
  }
  shape.erase(shape.begin() + axis);
  for (const TensorInfo* out : node.out) {
    HONE_TRY(ExpectSameType(*node.in[0], *out));
    HONE_TRY(ExpectShape(*out, "an output", shape));
  }
  return {};
}

Status RunUnpack(const Call& call) {
  const TensorInfo& in = *call.node.in[0];
  HONE_ASSIGN(const std::int64_t axis,
              ResolveAxis(call.node.options().axis.value_or(0), in.rank()));
  Dims strides = RowMajorStrides(in.shape);
  const std::int64_t step = strides[static_cast<std::size_t>(axis)];
  strides.erase(strides.begin() + axis);
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const Dims& shape = call.node.out[i]->shape;
    CopyElements(ElementBytes(in.type), shape, call.in[0],
                 {static_cast<std::int64_t>(i) * step, strides}, call.out[i],
                 {0, RowMajorStrides(shape)});
  }
  return {};
}

// SPLIT has (axis, x), SPLIT_V (x, sizes, axis). The outputs' shapes say the sizes.
const TensorInfo& SplitInput(const Node& node) {
  return *node.in[node.op->op == Op::kSplit ? 1 : 0];
}

Result<std::size_t> SplitAxis(const Node& node) {
  HONE_ASSIGN(const Dims axis, ConstantInts(node, node.op->op == Op::kSplit ? 0 : 2, "the axis"));
  if (axis.size() != 1) return Status(Code::kDataLoss, "the axis is not one number");
  HONE_ASSIGN(const std::int64_t resolved, ResolveAxis(axis[0], SplitInput(node).rank()));
  return static_cast<std::size_t>(resolved);
}

Status CheckSplit(const Node& node) {
  HONE_ASSIGN(const std::size_t axis, SplitAxis(node));
  const TensorInfo& in = SplitInput(node);
  HONE_TRY(ExpectWholeElements(in, "the input"));
  Dims sizes(node.out.size(), in.shape[axis] / static_cast<std::int64_t>(node.out.size()));
  if (node.op->op == Op::kSplitV) {
    HONE_TRY(ExpectInts(*node.in[1], "the sizes", in.shape[axis]));
    const auto given = ReadInts(*node.in[1], node.in[1]->constant);
    if (!given || given->size() != sizes.size()) {
      return Status(Code::kUnsupported, "the sizes are not one constant for each output");
    }
    sizes = *given;
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    HONE_TRY(ExpectSameType(in, *node.out[i]));
    Dims shape = in.shape;
    if (node.out[i]->rank() == in.rank()) shape[axis] = node.out[i]->shape[axis];
    HONE_TRY(ExpectShape(*node.out[i], "an output", shape));
    if (sizes[i] != shape[axis] && sizes[i] != -1) {
      return Status(Code::kDataLoss, StrCat("output ", i, " has ", shape[axis], " of ", sizes[i]));
    }
    total += shape[axis];
  }
  if (total == in.shape[axis]) return {};
  return Status(Code::kDataLoss, StrCat("the outputs have ", total, " of ", in.shape[axis]));
}

Status RunSplit(const Call& call) {
  HONE_ASSIGN(const std::size_t axis, SplitAxis(call.node));
  const TensorInfo& in = SplitInput(call.node);
  Walk from{0, RowMajorStrides(in.shape)};
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const Dims& shape = call.node.out[i]->shape;
    CopyElements(ElementBytes(in.type), shape, call.in[call.node.op->op == Op::kSplit ? 1 : 0],
                 from, call.out[i], {0, RowMajorStrides(shape)});
    from.offset += shape[axis] * from.strides[axis];
  }
  return {};
}

// ---- PAD, PADV2: paddings [rank, 2]

Status CheckPad(const Node& node) {
  HONE_TRY(CheckMove(node));
  HONE_ASSIGN(const Dims paddings, ConstantInts(node, 1, "the padding"));
  Dims shape = node.in[0]->shape;
  if (paddings.size() != 2 * shape.size()) {
    return Status(Code::kDataLoss,
                  StrCat(paddings.size(), " paddings for ", shape.size(), " dimensions"));
  }
  for (std::size_t i = 0; i < paddings.size(); ++i) {
    if (paddings[i] < 0 || paddings[i] > std::numeric_limits<std::int32_t>::max()) {
      return Status(Code::kDataLoss, StrCat("a padding of ", paddings[i]));
    }
    shape[i / 2] += paddings[i];
  }
  if (node.op->op == Op::kPadV2) {
    HONE_TRY(ExpectSameType(*node.in[2], *node.out[0]));
    if (node.in[2]->count != 1) return Status(Code::kDataLoss, "the value is not one number");
  }
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunPad(const Call& call) {
  const TensorInfo& out = *call.node.out[0];
  HONE_ASSIGN(const Dims paddings, ConstantInts(call.node, 1, "the padding"));
  const std::int64_t element = ElementBytes(out.type);
  for (std::int64_t i = 0; i < out.count; ++i) {
    if (call.node.op->op == Op::kPadV2) {
      std::memcpy(call.out[0] + i * element, call.in[2], static_cast<std::size_t>(element));
    } else {
      std::memset(call.out[0] + i * element, 0, static_cast<std::size_t>(element));
    }
  }
  Walk to{0, RowMajorStrides(out.shape)};
  for (std::size_t d = 0; d < out.shape.size(); ++d) to.offset += paddings[2 * d] * to.strides[d];
  const Dims& shape = call.node.in[0]->shape;
  CopyElements(element, shape, call.in[0], {0, RowMajorStrides(shape)}, call.out[0], to);
  return {};
}

// ---- TILE, BROADCAST_TO

Status CheckTile(const Node& node) {
  HONE_TRY(CheckMove(node));
  HONE_ASSIGN(const Dims times, ConstantInts(node, 1, "the repetition"));
  Dims shape = node.in[0]->shape;
  if (times.size() != shape.size()) {
    return Status(Code::kDataLoss,
                  StrCat(times.size(), " repetitions for ", shape.size(), " dimensions"));
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (times[d] < 0 || times[d] > std::numeric_limits<std::int32_t>::max()) {
      return Status(Code::kDataLoss, StrCat("a repetition of ", times[d]));
    }
    shape[d] *= times[d];
  }
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunTile(const Call& call) {
  HONE_ASSIGN(const Dims times, ConstantInts(call.node, 1, "the repetition"));
  const Dims& in = call.node.in[0]->shape;
  const Dims strides = RowMajorStrides(in);
  Dims shape;
  Walk from;
  for (std::size_t d = 0; d < in.size(); ++d) {
    shape.insert(shape.end(), {times[d], in[d]});
    from.strides.insert(from.strides.end(), {0, strides[d]});
  }
  Copy(call, from, shape);
  return {};
}

Status CheckBroadcastTo(const Node& node) {
  HONE_TRY(CheckMove(node));
  HONE_TRY(ExpectInts(*node.in[1], "the new shape"));
  HONE_TRY(CheckTarget(node, node.in[1]->constant));
  const auto shape = BroadcastShape(node.in[0]->shape, node.out[0]->shape);
  if (shape && *shape == node.out[0]->shape) return {};
  return Status(Code::kDataLoss, StrCat("the shape ", DimsText(node.in[0]->shape),
                                        " does not repeat to ", DimsText(node.out[0]->shape)));
}

Status RunBroadcastTo(const Call& call) {
  HONE_TRY(CheckTarget(call.node, call.in[1]));
  const Dims& shape = call.node.out[0]->shape;
  Copy(call, {0, BroadcastStrides(call.node.in[0]->shape, shape)}, shape);
  return {};
}

constexpr OpFacts kOps[] = {
    {Op::kReshape, 1, 2, 1, CheckReshape, RunReshape},
    {Op::kSqueeze, 1, 1, 1, CheckReshape, RunReshape},
    {Op::kExpandDims, 2, 2, 1, CheckReshape, RunReshape},
    {Op::kTranspose, 2, 2, 1, CheckTranspose, RunTranspose},
    {Op::kSlice, 3, 3, 1, CheckSlice, RunSlice},
    {Op::kStridedSlice, 4, 4, 1, CheckStrided, RunStrided},
    {Op::kConcatenation, 1, kAny, 1, CheckConcatenation, RunConcatenation},
    {Op::kPack, 1, kAny, 1, CheckPack, RunPack},
    {Op::kUnpack, 1, 1, kAny, CheckUnpack, RunUnpack},
    {Op::kSplit, 2, 2, kAny, CheckSplit, RunSplit},
    {Op::kSplitV, 3, 3, kAny, CheckSplit, RunSplit},
    {Op::kPad, 2, 2, 1, CheckPad, RunPad},
    {Op::kPadV2, 3, 3, 1, CheckPad, RunPad},
    {Op::kTile, 2, 2, 1, CheckTile, RunTile},
    {Op::kBroadcastTo, 2, 2, 1, CheckBroadcastTo, RunBroadcastTo},
};

}  // namespace

std::span<const OpFacts> ShapeOps() { return kOps; }

}  // namespace hone::executor
