// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Operators that combine elements along axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/node.h"
#include "executor/op_util.h"

namespace hone::executor {
namespace {

using T = TensorType;

// ---- SOFTMAX along the last axis

Status CheckSoftmax(const Node& node) {
  HONE_TRY(ExpectType(*node.in[0], "the input", {T::kFloat32, T::kFloat16}));
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  HONE_TRY(ExpectRank(*node.in[0], "the input", 1, kMaxRank));
  return ExpectShape(*node.out[0], "the output", node.in[0]->shape);
}

template <typename Number>
void Softmax(const Call& call) {
  const Dims& shape = call.node.in[0]->shape;
  const std::int64_t cols = shape.back();
  const float beta = call.node.options().beta;
  std::vector<float> row(static_cast<std::size_t>(cols));
  for (std::int64_t begin = 0; begin < call.node.in[0]->count; begin += cols) {
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < cols; ++i) {
      largest = std::max(largest, static_cast<float>(call.In<Number>(0)[begin + i]));
    }
    double sum = 0;
    for (std::int64_t i = 0; i < cols; ++i) {
      float& x = row[static_cast<std::size_t>(i)];
      x = std::exp((static_cast<float>(call.In<Number>(0)[begin + i]) - largest) * beta);
      sum += static_cast<double>(x);
    }
    for (std::int64_t i = 0; i < cols; ++i) {
      const double x = static_cast<double>(row[static_cast<std::size_t>(i)]) / sum;
      call.Out<Number>(0)[begin + i] = static_cast<Number>(static_cast<float>(x));
    }
  }
}

Status RunSoftmax(const Call& call) {
  if (call.node.in[0]->type == T::kFloat32) {
    Softmax<float>(call);
  } else {
    Softmax<Half>(call);
  }
  return {};
}

// ---- Reductions over constant axes

struct Reduction {
  Dims kept, kept_strides;        // dimensions of the output
  Dims dropped, dropped_strides;  // dimensions that become one number
  Dims shape;                     // of the output, with or without ones
};

Result<Reduction> Plan(const Node& node) {
  const TensorInfo& in = *node.in[0];
  HONE_ASSIGN(const Dims axes, ConstantInts(node, 1, "the axes"));
  std::vector<bool> drop(in.shape.size(), false);
  for (const std::int64_t axis : axes) {
    HONE_ASSIGN(const std::int64_t resolved, ResolveAxis(axis, in.rank()));
    drop[static_cast<std::size_t>(resolved)] = true;
  }
  const Dims strides = RowMajorStrides(in.shape);
  Reduction r;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    (drop[d] ? r.dropped : r.kept).push_back(in.shape[d]);
    (drop[d] ? r.dropped_strides : r.kept_strides).push_back(strides[d]);
    if (!drop[d]) r.shape.push_back(in.shape[d]);
    if (drop[d] && node.options().keep_dims) r.shape.push_back(1);
  }
  return r;
}

Status CheckReduce(const Node& node) {
  const bool logical = node.op->op == Op::kReduceAny || node.op->op == Op::kReduceAll;
  if (logical) {
    HONE_TRY(ExpectType(*node.in[0], "the input", {T::kBool}));
  } else {
    HONE_TRY(
        ExpectType(*node.in[0], "the input", {T::kFloat32, T::kFloat16, T::kInt32, T::kInt64}));
  }
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  HONE_ASSIGN(const Reduction r, Plan(node));
  HONE_TRY(ExpectShape(*node.out[0], "the output", r.shape));
  if (node.op->op == Op::kMean && Product(r.dropped) == 0) {
    return Status(Code::kUnsupported, "the mean of no elements");
  }
  return {};
}

// begin, add and end say what is combined. Acc is float64 for floats and the wrapping unsigned
// number for integers where the order of additions must not matter.
template <typename Number, typename Acc, typename Load, typename Add, typename End>
void Reduce(const Call& call, const Reduction& r, Acc begin, Load load, Add add, End end) {
  const Number* in = call.In<Number>(0);
  Number* out = call.Out<Number>(0);
  ForEach<1>(r.kept, {r.kept_strides}, [&](const std::array<std::int64_t, 1>& outer) {
    Acc acc = begin;
    ForEach<1>(r.dropped, {r.dropped_strides}, [&](const std::array<std::int64_t, 1>& inner) {
      acc = add(acc, load(in[outer[0] + inner[0]]));
    });
    *out++ = end(acc);
  });
}

template <typename Number>
void ReduceFloats(const Call& call, const Reduction& r) {
  const auto load = [](Number x) { return static_cast<double>(static_cast<float>(x)); };
  const auto store = [](double x) { return static_cast<Number>(static_cast<float>(x)); };
  const auto count = static_cast<double>(Product(r.dropped));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (call.node.op->op) {
    case Op::kSum:
      return Reduce<Number>(call, r, 0.0, load, [](double a, double b) { return a + b; }, store);
    case Op::kMean:
      return Reduce<Number>(
          call, r, 0.0, load, [](double a, double b) { return a + b; },
          [&](double x) { return store(x / count); });
    case Op::kReduceMax:
      return Reduce<Number>(
          call, r, -kInfinity, load, [](double a, double b) { return a > b ? a : b; }, store);
    case Op::kReduceMin:
      return Reduce<Number>(
          call, r, kInfinity, load, [](double a, double b) { return a < b ? a : b; }, store);
    default:
      return Reduce<Number>(call, r, 1.0, load, [](double a, double b) { return a * b; }, store);
  }
}

template <typename Number>
void ReduceInts(const Call& call, const Reduction& r) {
  using U = std::make_unsigned_t<Number>;
  const auto same = [](Number x) { return x; };
  const auto load = [](Number x) { return static_cast<U>(x); };
  const auto store = [](U x) { return static_cast<Number>(x); };
  const std::int64_t count = Product(r.dropped);
  switch (call.node.op->op) {
    case Op::kSum:
      return Reduce<Number>(
          call, r, U{0}, load, [](U a, U b) { return static_cast<U>(a + b); }, store);
    case Op::kMean:
      return Reduce<Number>(
          call, r, U{0}, load, [](U a, U b) { return static_cast<U>(a + b); },
          [count](U x) { return static_cast<Number>(static_cast<Number>(x) / count); });
    case Op::kReduceMax:
      return Reduce<Number>(
          call, r, std::numeric_limits<Number>::min(), same,
          [](Number a, Number b) { return std::max(a, b); }, same);
    case Op::kReduceMin:
      return Reduce<Number>(
          call, r, std::numeric_limits<Number>::max(), same,
          [](Number a, Number b) { return std::min(a, b); }, same);
    default:
      return Reduce<Number>(
          call, r, U{1}, load, [](U a, U b) { return static_cast<U>(a * b); }, store);
  }
}

void ReduceBools(const Call& call, const Reduction& r) {
  const bool all = call.node.op->op == Op::kReduceAll;
  Reduce<std::uint8_t>(
      call, r, all, [](std::uint8_t x) { return x != 0; },
      [all](bool a, bool b) { return all ? a && b : a || b; },
      [](bool x) { return static_cast<std::uint8_t>(x ? 1 : 0); });
}

Status RunReduce(const Call& call) {
  HONE_ASSIGN(const Reduction r, Plan(call.node));
  switch (call.node.in[0]->type) {
    case T::kFloat32:
      ReduceFloats<float>(call, r);
      break;
    case T::kFloat16:
      ReduceFloats<Half>(call, r);
      break;
    case T::kInt32:
      ReduceInts<std::int32_t>(call, r);
      break;
    case T::kInt64:
      ReduceInts<std::int64_t>(call, r);
      break;
    default:
      ReduceBools(call, r);
  }
  return {};
}

// ---- ARG_MAX, ARG_MIN, CUMSUM: along one axis

// x as [outer, size, inner].
struct Along {
  std::int64_t outer, size, inner;
};

Result<std::size_t> OneAxis(const Node& node) {
  HONE_ASSIGN(const Dims axis, ConstantInts(node, 1, "the axis"));
  if (axis.size() != 1) return Status(Code::kDataLoss, "the axis is not one number");
  HONE_ASSIGN(const std::int64_t resolved, ResolveAxis(axis[0], node.in[0]->rank()));
  return static_cast<std::size_t>(resolved);
}

Along Split(const Dims& shape, std::size_t axis) {
  const std::span<const std::int64_t> dims(shape);
  return {Product(dims.first(axis)), shape[axis], Product(dims.subspan(axis + 1))};
}

Status CheckArg(const Node& node) {
  HONE_TRY(ExpectType(*node.in[0], "the input", {T::kFloat32, T::kInt32}));
  HONE_TRY(ExpectType(*node.out[0], "the output", {T::kInt32, T::kInt64}));
  HONE_ASSIGN(const std::size_t axis, OneAxis(node));
  Dims shape = node.in[0]->shape;
  if (shape[axis] == 0) return Status(Code::kUnsupported, "the largest of no elements");
  shape.erase(shape.begin() + static_cast<std::int64_t>(axis));
  return ExpectShape(*node.out[0], "the output", shape);
}

template <typename Number>
void Arg(const Call& call, const Along& a) {
  const bool largest = call.node.op->op == Op::kArgMax;
  for (std::int64_t o = 0; o < a.outer; ++o) {
    for (std::int64_t i = 0; i < a.inner; ++i) {
      const Number* x = call.In<Number>(0) + o * a.size * a.inner + i;
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < a.size; ++k) {
        const Number now = x[k * a.inner], then = x[best * a.inner];
        if (largest ? now > then : now < then) best = k;
      }
      if (call.node.out[0]->type == T::kInt64) {
        call.Out<std::int64_t>(0)[o * a.inner + i] = best;
      } else {
        call.Out<std::int32_t>(0)[o * a.inner + i] = static_cast<std::int32_t>(best);
      }
    }
  }
}

Status RunArg(const Call& call) {
  HONE_ASSIGN(const std::size_t axis, OneAxis(call.node));
  const Along a = Split(call.node.in[0]->shape, axis);
  if (call.node.in[0]->type == T::kFloat32) {
    Arg<float>(call, a);
  } else {
    Arg<std::int32_t>(call, a);
  }
  return {};
}

Status CheckCumsum(const Node& node) {
  HONE_TRY(ExpectType(*node.in[0], "the input", {T::kFloat32, T::kInt32, T::kInt64}));
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  HONE_ASSIGN(const std::size_t axis, OneAxis(node));
  (void)axis;
  return ExpectShape(*node.out[0], "the output", node.in[0]->shape);
}

template <typename Number, typename Acc>
void Cumsum(const Call& call, const Along& a) {
  const OpOptions& options = call.node.options();
  for (std::int64_t o = 0; o < a.outer; ++o) {
    for (std::int64_t i = 0; i < a.inner; ++i) {
      Acc sum = 0;
      for (std::int64_t k = 0; k < a.size; ++k) {
        const std::int64_t along = options.reverse ? a.size - 1 - k : k;
        const std::int64_t at = (o * a.size + along) * a.inner + i;
        const Acc before = sum;
        sum += static_cast<Acc>(call.In<Number>(0)[at]);
        call.Out<Number>(0)[at] = static_cast<Number>(options.exclusive ? before : sum);
      }
    }
  }
}

Status RunCumsum(const Call& call) {
  HONE_ASSIGN(const std::size_t axis, OneAxis(call.node));
  const Along a = Split(call.node.in[0]->shape, axis);
  switch (call.node.in[0]->type) {
    case T::kFloat32:
      Cumsum<float, double>(call, a);
      break;
    case T::kInt32:
      Cumsum<std::int32_t, std::uint32_t>(call, a);
      break;
    default:
      Cumsum<std::int64_t, std::uint64_t>(call, a);
  }
  return {};
}

constexpr OpFacts Reducer(Op op) { return {op, 2, 2, 1, CheckReduce, RunReduce}; }

constexpr OpFacts kOps[] = {
    {Op::kSoftmax, 1, 1, 1, CheckSoftmax, RunSoftmax},
    Reducer(Op::kSum),
    Reducer(Op::kMean),
    Reducer(Op::kReduceMax),
    Reducer(Op::kReduceMin),
    Reducer(Op::kReduceProd),
    Reducer(Op::kReduceAny),
    Reducer(Op::kReduceAll),
    {Op::kArgMax, 2, 2, 1, CheckArg, RunArg},
    {Op::kArgMin, 2, 2, 1, CheckArg, RunArg},
    {Op::kCumsum, 2, 2, 1, CheckCumsum, RunCumsum},
};

}  // namespace

std::span<const OpFacts> ReduceOps() { return kOps; }

}  // namespace hone::executor
