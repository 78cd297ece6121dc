// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// CAST and DEQUANTIZE.
#include <cmath>
#include <limits>
#include <utility>

#include "executor/node.h"
#include "executor/op_util.h"
#include "executor/quantized.h"

namespace hone::executor {
namespace {

using T = TensorType;

// Toward zero; numbers that do not fit become the nearest one that does, NaN becomes 0.
template <typename Int>
Int ToInt(double x) {
  constexpr auto kLeast = std::numeric_limits<Int>::min();
  constexpr auto kMost = std::numeric_limits<Int>::max();
  if (std::isnan(x)) return 0;
  if (x <= static_cast<double>(kLeast)) return kLeast;
  if (x >= static_cast<double>(kMost)) return kMost;
  return static_cast<Int>(x);
}

template <typename From, typename To, typename Fn>
void Each(const Call& call, Fn fn) {
  const std::int64_t count = call.node.out[0]->count;
  for (std::int64_t i = 0; i < count; ++i) call.Out<To>(0)[i] = fn(call.In<From>(0)[i]);
}

// Wide is double for floats and int64 for integers.
template <typename From, typename Wide>
void CastFrom(const Call& call) {
  constexpr bool kFloat = std::is_same_v<Wide, double>;
  const auto wide = [](From x) {
    if constexpr (std::is_same_v<From, Half>) return static_cast<double>(static_cast<float>(x));
    if constexpr (!std::is_same_v<From, Half>) return static_cast<Wide>(x);
  };
  const auto integer = [&wide]<typename To>(std::type_identity<To>) {
    return [&wide](From x) {
      if constexpr (kFloat) return ToInt<To>(wide(x));
      if constexpr (!kFloat) return static_cast<To>(wide(x));
    };
  };
  switch (call.node.out[0]->type) {
    case T::kFloat32:
      return Each<From, float>(call, [&](From x) { return static_cast<float>(wide(x)); });
    case T::kFloat16:
      return Each<From, Half>(call, [&](From x) { return Half(static_cast<float>(wide(x))); });
    case T::kInt8:
      return Each<From, std::int8_t>(call, integer(std::type_identity<std::int8_t>()));
    case T::kUint8:
      return Each<From, std::uint8_t>(call, integer(std::type_identity<std::uint8_t>()));
    case T::kInt16:
      return Each<From, std::int16_t>(call, integer(std::type_identity<std::int16_t>()));
    case T::kInt64:
      return Each<From, std::int64_t>(call, integer(std::type_identity<std::int64_t>()));
    case T::kBool:
      return Each<From, std::uint8_t>(call, [&](From x) -> std::uint8_t { return wide(x) != 0; });
    default:
      return Each<From, std::int32_t>(call, integer(std::type_identity<std::int32_t>()));
  }
}

Status CheckCast(const Node& node) {
  const auto types = {T::kFloat32, T::kFloat16, T::kInt32, T::kInt64,
                      T::kBool,    T::kInt8,    T::kUint8, T::kInt16};
  HONE_TRY(ExpectType(*node.in[0], "the input", types));
  HONE_TRY(ExpectType(*node.out[0], "the output", types));
  return ExpectShape(*node.out[0], "the output", node.in[0]->shape);
}

Status RunCast(const Call& call) {
  switch (call.node.in[0]->type) {
    case T::kFloat32:
      CastFrom<float, double>(call);
      break;
    case T::kFloat16:
      CastFrom<Half, double>(call);
      break;
    case T::kInt8:
      CastFrom<std::int8_t, std::int64_t>(call);
      break;
    case T::kUint8:
      CastFrom<std::uint8_t, std::int64_t>(call);
      break;
    case T::kInt16:
      CastFrom<std::int16_t, std::int64_t>(call);
      break;
    case T::kInt64:
      CastFrom<std::int64_t, std::int64_t>(call);
      break;
    case T::kBool:
      // Any byte but 0 is true.
      if (call.node.out[0]->type == T::kBool) {
        Each<std::uint8_t, std::uint8_t>(call,
                                         [](std::uint8_t x) -> std::uint8_t { return x != 0; });
      } else {
        CastFrom<bool, std::int64_t>(call);
      }
      break;
    default:
      CastFrom<std::int32_t, std::int64_t>(call);
  }
  return {};
}

Status CheckDequantize(const Node& node) {
  HONE_TRY(ExpectType(*node.out[0], "the output", {T::kFloat32}));
  HONE_TRY(ExpectShape(*node.out[0], "the output", node.in[0]->shape));
  if (node.in[0]->type == T::kFloat16) return {};
  return ExpectQuantized(*node.in[0], "the input");
}

Status RunDequantize(const Call& call) {
  const TensorInfo& info = *call.node.in[0];
  if (info.type == T::kFloat16) {
    Each<Half, float>(call, [](Half x) { return static_cast<float>(x); });
    return {};
  }
  const Quantized q(info, call.in[0]);
  for (std::int64_t i = 0; i < info.count; ++i) call.Out<float>(0)[i] = q.ValueAt(i);
  return {};
}

constexpr OpFacts kOps[] = {
    {Op::kCast, 1, 1, 1, CheckCast, RunCast},
    {Op::kDequantize, 1, 1, 1, CheckDequantize, RunDequantize},
};

}  // namespace

std::span<const OpFacts> ConvertOps() { return kOps; }

}  // namespace hone::executor
