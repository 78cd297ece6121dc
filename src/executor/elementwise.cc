// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Operators that compute each output element from one element of each input.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "executor/node.h"
#include "executor/op_util.h"

namespace hone::executor {
namespace {

using UnaryFn = float (*)(float);
constexpr auto kF32 = TensorType::kFloat32;
constexpr auto kF16 = TensorType::kFloat16;
constexpr auto kI32 = TensorType::kInt32;
constexpr auto kI64 = TensorType::kInt64;

Status CheckUnary(const Node& node) {
  HONE_TRY(ExpectType(*node.in[0], "the input", {kF32, kF16}));
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  return ExpectShape(*node.out[0], "the output", node.in[0]->shape);
}

template <typename T, typename Fn>
void Map(const Call& call, Fn fn) {
  const std::int64_t count = call.node.out[0]->count;
  for (std::int64_t i = 0; i < count; ++i) {
    call.Out<T>(0)[i] = static_cast<T>(fn(static_cast<float>(call.In<T>(0)[i])));
  }
}

template <UnaryFn fn>
Status RunUnary(const Call& call) {
  if (call.node.in[0]->type == kF32) {
    Map<float>(call, fn);
  } else {
    Map<Half>(call, fn);
  }
  return {};
}

float Exp(float x) { return std::exp(x); }
float Log(float x) { return std::log(x); }
float Sqrt(float x) { return std::sqrt(x); }
float Rsqrt(float x) { return 1.0f / std::sqrt(x); }
float Sin(float x) { return std::sin(x); }
float Cos(float x) { return std::cos(x); }
float Tanh(float x) { return std::tanh(x); }
float Logistic(float x) { return 1.0f / (1.0f + std::exp(-x)); }
float Relu(float x) { return Activate(1, x); }
float Relu6(float x) { return Activate(3, x); }
float Square(float x) { return x * x; }
float Floor(float x) { return std::floor(x); }
float Ceil(float x) { return std::ceil(x); }
float Round(float x) { return std::nearbyint(x); }
float Gelu(float x) { return 0.5f * x * std::erfc(x * -0.70710678118654752f); }
float GeluTanh(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}
float Negative(float x) { return -x; }
float Absolute(float x) { return std::fabs(x); }

Status RunGelu(const Call& call) {
  return call.node.options().approximate ? RunUnary<GeluTanh>(call) : RunUnary<Gelu>(call);
}

// NEG and ABS also take integers.
Status CheckSigned(const Node& node) {
  HONE_TRY(ExpectType(*node.in[0], "the input", {kF32, kF16, kI32, kI64}));
  HONE_TRY(ExpectSameType(*node.in[0], *node.out[0]));
  return ExpectShape(*node.out[0], "the output", node.in[0]->shape);
}

// Arithmetic of T: float32 for float16; integers wrap around.
template <typename T>
struct Wide {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct Wide<float> {
  using Type = float;
};
template <>
struct Wide<Half> {
  using Type = float;
};

template <typename T>
T Negated(T x) {
  return static_cast<T>(typename Wide<T>::Type{0} - static_cast<typename Wide<T>::Type>(x));
}

template <typename T, bool absolute>
Status RunSignedInts(const Call& call) {
  for (std::int64_t i = 0; i < call.node.out[0]->count; ++i) {
    const T x = call.In<T>(0)[i];
    call.Out<T>(0)[i] = absolute && x >= 0 ? x : Negated(x);
  }
  return {};
}
template <bool absolute>
Status RunSigned(const Call& call) {
  switch (call.node.in[0]->type) {
    case kI32:
      return RunSignedInts<std::int32_t, absolute>(call);
    case kI64:
      return RunSignedInts<std::int64_t, absolute>(call);
    default:
      return absolute ? RunUnary<Absolute>(call) : RunUnary<Negative>(call);
  }
}

Status CheckBroadcast(const Node& node, std::initializer_list<TensorType> types) {
  HONE_TRY(ExpectType(*node.in[0], "input 0", types));
  HONE_TRY(ExpectSameType(*node.in[0], *node.in[1]));
  const auto shape = BroadcastShape(node.in[0]->shape, node.in[1]->shape);
  if (!shape) {
    return Status(Code::kDataLoss, StrCat("the shapes ", DimsText(node.in[0]->shape), " and ",
                                          DimsText(node.in[1]->shape), " do not fit"));
  }
  return ExpectShape(*node.out[0], "the output", *shape);
}

Status CheckBinary(const Node& node) {
  HONE_TRY(CheckBroadcast(node, {kF32, kF16, kI32, kI64}));
  HONE_TRY(ExpectActivation(node));
  return ExpectSameType(*node.in[0], *node.out[0]);
}

// fn(a, b) for each pair, in the order of the output.
template <typename T, typename Out, typename Fn>
void Zip(const Call& call, Fn fn) {
  const Dims& shape = call.node.out[0]->shape;
  const std::array<Dims, 2> strides = {BroadcastStrides(call.node.in[0]->shape, shape),
                                       BroadcastStrides(call.node.in[1]->shape, shape)};
  const T* a = call.In<T>(0);
  const T* b = call.In<T>(1);
  Out* out = call.Out<Out>(0);
  ForEach<2>(shape, strides, [&](const std::array<std::int64_t, 2>& at) {
    *out++ = static_cast<Out>(fn(a[at[0]], b[at[1]]));
  });
}

enum class Binary {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kPow,
  kSquaredDifference,
  kFloorDiv,
  kFloorMod
};

template <Binary op>
float ComputeFloat(float a, float b) {
  if constexpr (op == Binary::kAdd) return a + b;
  if constexpr (op == Binary::kSub) return a - b;
  if constexpr (op == Binary::kMul) return a * b;
  if constexpr (op == Binary::kDiv) return a / b;
  if constexpr (op == Binary::kMax) return a > b || std::isnan(a) ? a : b;
  if constexpr (op == Binary::kMin) return a < b || std::isnan(a) ? a : b;
  if constexpr (op == Binary::kPow) return std::pow(a, b);
  if constexpr (op == Binary::kSquaredDifference) return (a - b) * (a - b);
  if constexpr (op == Binary::kFloorDiv) return std::floor(a / b);
  const float rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Division by zero is refused before; the smallest number over -1 wraps around.
template <typename T>
T Divide(T a, T b) {
  return b == T{-1} ? Negated(a) : static_cast<T>(a / b);
}
template <typename T>
T Power(T a, T b) {
  using U = typename Wide<T>::Type;
  U result = 1, base = static_cast<U>(a);
  for (U left = static_cast<U>(b); left != 0; left >>= 1U) {
    if ((left & 1U) != 0) result *= base;
    base *= base;
  }
  return static_cast<T>(result);
}

template <Binary op, typename T>
T ComputeInt(T a, T b) {
  using U = typename Wide<T>::Type;
  if constexpr (op == Binary::kAdd) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  if constexpr (op == Binary::kSub) return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  if constexpr (op == Binary::kMul) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  if constexpr (op == Binary::kDiv) return Divide(a, b);
  if constexpr (op == Binary::kMax) return std::max(a, b);
  if constexpr (op == Binary::kMin) return std::min(a, b);
  if constexpr (op == Binary::kPow) return Power(a, b);
  if constexpr (op == Binary::kSquaredDifference) {
    const U d = static_cast<U>(a) - static_cast<U>(b);
    return static_cast<T>(d * d);
  }
  const T rest = b == T{-1} ? T{0} : static_cast<T>(a % b);
  const bool crosses = rest != 0 && (rest < 0) != (b < 0);
  if constexpr (op == Binary::kFloorDiv) return static_cast<T>(Divide(a, b) - (crosses ? 1 : 0));
  return crosses ? static_cast<T>(rest + b) : rest;
}

template <Binary op, typename T>
Status RunInts(const Call& call) {
  constexpr bool kDivides =
      op == Binary::kDiv || op == Binary::kFloorDiv || op == Binary::kFloorMod;
  if constexpr (kDivides || op == Binary::kPow) {
    const T least = op == Binary::kPow ? T{0} : std::numeric_limits<T>::min();
    for (std::int64_t i = 0; i < call.node.in[1]->count; ++i) {
      const T b = call.In<T>(1)[i];
      if (kDivides ? b != 0 : b >= least) continue;
      return Status(Code::kInvalidArgument,
                    kDivides ? "an integer is divided by 0" : "an integer has a negative exponent");
    }
  }
  Zip<T, T>(call, ComputeInt<op, T>);
  return {};
}

template <Binary op, typename T>
void RunFloats(const Call& call) {
  const std::int32_t activation = call.node.options().fused_activation;
  Zip<T, T>(call, [activation](T a, T b) {
    return Activate(activation, ComputeFloat<op>(static_cast<float>(a), static_cast<float>(b)));
  });
}

template <Binary op>
Status RunBinary(const Call& call) {
  switch (call.node.in[0]->type) {
    case kI32:
      return RunInts<op, std::int32_t>(call);
    case kI64:
      return RunInts<op, std::int64_t>(call);
    case kF16:
      RunFloats<op, Half>(call);
      return {};
    default:
      RunFloats<op, float>(call);
      return {};
  }
}

enum class Compare { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

template <Compare op, typename T>
bool Holds(T a, T b) {
  if constexpr (op == Compare::kEqual) return a == b;
  if constexpr (op == Compare::kNotEqual) return a != b;
  if constexpr (op == Compare::kLess) return a < b;
  if constexpr (op == Compare::kLessEqual) return a <= b;
  if constexpr (op == Compare::kGreater) return a > b;
  return a >= b;
}

Status CheckCompare(const Node& node) {
  if (node.op->op == Op::kEqual || node.op->op == Op::kNotEqual) {
    HONE_TRY(CheckBroadcast(node, {kF32, kF16, kI32, kI64, TensorType::kBool}));
  } else {
    HONE_TRY(CheckBroadcast(node, {kF32, kF16, kI32, kI64}));
  }
  return ExpectType(*node.out[0], "the output", {TensorType::kBool});
}

template <Compare op>
Status RunCompare(const Call& call) {
  switch (call.node.in[0]->type) {
    case kF32:
      Zip<float, std::uint8_t>(call, Holds<op, float>);
      break;
    case kF16:
      Zip<Half, std::uint8_t>(call, [](Half a, Half b) {
        return Holds<op, float>(static_cast<float>(a), static_cast<float>(b));
      });
      break;
    case kI32:
      Zip<std::int32_t, std::uint8_t>(call, Holds<op, std::int32_t>);
      break;
    case kI64:
      Zip<std::int64_t, std::uint8_t>(call, Holds<op, std::int64_t>);
      break;
    default:
      Zip<std::uint8_t, std::uint8_t>(
          call, [](std::uint8_t a, std::uint8_t b) { return Holds<op, bool>(a != 0, b != 0); });
  }
  return {};
}

Status CheckLogical(const Node& node) {
  HONE_TRY(CheckBroadcast(node, {TensorType::kBool}));
  return ExpectType(*node.out[0], "the output", {TensorType::kBool});
}
Status RunAnd(const Call& call) {
  Zip<std::uint8_t, std::uint8_t>(call, [](std::uint8_t a, std::uint8_t b) { return a && b; });
  return {};
}
Status RunOr(const Call& call) {
  Zip<std::uint8_t, std::uint8_t>(call, [](std::uint8_t a, std::uint8_t b) { return a || b; });
  return {};
}

Status CheckNot(const Node& node) {
  HONE_TRY(ExpectType(*node.in[0], "the input", {TensorType::kBool}));
  HONE_TRY(ExpectType(*node.out[0], "the output", {TensorType::kBool}));
  return ExpectShape(*node.out[0], "the output", node.in[0]->shape);
}
Status RunNot(const Call& call) {
  for (std::int64_t i = 0; i < call.node.out[0]->count; ++i) {
    call.Out<std::uint8_t>(0)[i] = call.In<std::uint8_t>(0)[i] == 0 ? 1 : 0;
  }
  return {};
}

// The condition's shape for broadcasting: SELECT reads a vector as one flag per row.
Dims ConditionShape(const Node& node) {
  Dims shape = node.in[0]->shape;
  if (node.op->op == Op::kSelect && shape.size() == 1 && node.in[1]->rank() > 1) {
    shape.resize(node.in[1]->shape.size(), 1);
  }
  return shape;
}

Status CheckSelect(const Node& node) {
  HONE_TRY(ExpectType(*node.in[0], "the condition", {TensorType::kBool}));
  HONE_TRY(ExpectSameType(*node.in[1], *node.in[2]));
  HONE_TRY(ExpectSameType(*node.in[1], *node.out[0]));
  HONE_TRY(ExpectWholeElements(*node.out[0], "the output"));
  auto shape = BroadcastShape(node.in[1]->shape, node.in[2]->shape);
  if (shape) shape = BroadcastShape(*shape, ConditionShape(node));
  if (!shape) return Status(Code::kDataLoss, "the shapes of its inputs do not fit");
  return ExpectShape(*node.out[0], "the output", *shape);
}

template <typename T>
void Select(const Call& call) {
  const Dims& shape = call.node.out[0]->shape;
  const std::array<Dims, 3> strides = {BroadcastStrides(ConditionShape(call.node), shape),
                                       BroadcastStrides(call.node.in[1]->shape, shape),
                                       BroadcastStrides(call.node.in[2]->shape, shape)};
  T* out = call.Out<T>(0);
  ForEach<3>(shape, strides, [&](const std::array<std::int64_t, 3>& at) {
    *out++ = call.In<std::uint8_t>(0)[at[0]] != 0 ? call.In<T>(1)[at[1]] : call.In<T>(2)[at[2]];
  });
}

Status RunSelect(const Call& call) {
  switch (ElementBytes(call.node.out[0]->type)) {
    case 1:
      Select<std::uint8_t>(call);
      break;
    case 2:
      Select<std::uint16_t>(call);
      break;
    case 4:
      Select<std::uint32_t>(call);
      break;
    default:
      Select<std::uint64_t>(call);
  }
  return {};
}

template <UnaryFn fn>
constexpr OpFacts Unary(Op op) {
  return {op, 1, 1, 1, CheckUnary, RunUnary<fn>};
}
template <Binary binary>
constexpr OpFacts OfTwo(Op op) {
  return {op, 2, 2, 1, CheckBinary, RunBinary<binary>};
}
template <Compare compare>
constexpr OpFacts Comparison(Op op) {
  return {op, 2, 2, 1, CheckCompare, RunCompare<compare>};
}

constexpr OpFacts kOps[] = {
    Unary<Exp>(Op::kExp),
    Unary<Log>(Op::kLog),
    Unary<Sqrt>(Op::kSqrt),
    Unary<Rsqrt>(Op::kRsqrt),
    Unary<Sin>(Op::kSin),
    Unary<Cos>(Op::kCos),
    Unary<Tanh>(Op::kTanh),
    Unary<Logistic>(Op::kLogistic),
    Unary<Relu>(Op::kRelu),
    Unary<Relu6>(Op::kRelu6),
    Unary<Square>(Op::kSquare),
    Unary<Floor>(Op::kFloor),
    Unary<Ceil>(Op::kCeil),
    Unary<Round>(Op::kRound),
    {Op::kGelu, 1, 1, 1, CheckUnary, RunGelu},
    {Op::kNeg, 1, 1, 1, CheckSigned, RunSigned<false>},
    {Op::kAbs, 1, 1, 1, CheckSigned, RunSigned<true>},
    OfTwo<Binary::kAdd>(Op::kAdd),
    OfTwo<Binary::kSub>(Op::kSub),
    OfTwo<Binary::kMul>(Op::kMul),
    OfTwo<Binary::kDiv>(Op::kDiv),
    OfTwo<Binary::kMax>(Op::kMaximum),
    OfTwo<Binary::kMin>(Op::kMinimum),
    OfTwo<Binary::kPow>(Op::kPow),
    OfTwo<Binary::kSquaredDifference>(Op::kSquaredDifference),
    OfTwo<Binary::kFloorDiv>(Op::kFloorDiv),
    OfTwo<Binary::kFloorMod>(Op::kFloorMod),
    Comparison<Compare::kEqual>(Op::kEqual),
    Comparison<Compare::kNotEqual>(Op::kNotEqual),
    Comparison<Compare::kLess>(Op::kLess),
    Comparison<Compare::kLessEqual>(Op::kLessEqual),
    Comparison<Compare::kGreater>(Op::kGreater),
    Comparison<Compare::kGreaterEqual>(Op::kGreaterEqual),
    {Op::kLogicalAnd, 2, 2, 1, CheckLogical, RunAnd},
    {Op::kLogicalOr, 2, 2, 1, CheckLogical, RunOr},
    {Op::kLogicalNot, 1, 1, 1, CheckNot, RunNot},
    {Op::kSelect, 3, 3, 1, CheckSelect, RunSelect},
    {Op::kSelectV2, 3, 3, 1, CheckSelect, RunSelect},
};

}  // namespace

std::span<const OpFacts> ElementwiseOps() { return kOps; }

}  // namespace hone::executor
