// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Checks and loops that operators share.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "executor/node.h"

namespace hone::executor {

std::string DimsText(std::span<const std::int64_t> dims);  // "[1, 2]"
std::int64_t Product(std::span<const std::int64_t> dims);

// kUnsupported with what is meant: "input 1", "output".
Status ExpectType(const TensorInfo& info, const std::string& what,
                  std::initializer_list<TensorType> types);
Status ExpectSameType(const TensorInfo& a, const TensorInfo& b);
// kDataLoss: the file says another shape than the operator gives.
Status ExpectShape(const TensorInfo& info, const std::string& what, const Dims& shape);
Status ExpectRank(const TensorInfo& info, const std::string& what, std::int64_t least,
                  std::int64_t most);

// Bytes of one element; 0 for packed and sizeless types.
std::int64_t ElementBytes(TensorType type);
// Elements of 1, 2, 4 or 8 bytes, which can be moved one by one.
Status ExpectWholeElements(const TensorInfo& info, const std::string& what);

// An axis counted from the front or (negative) from the back.
Result<std::int64_t> ResolveAxis(std::int64_t axis, std::int64_t rank);

// The values of an int32 or int64 tensor. at null: not known yet, nothing is returned.
std::optional<Dims> ReadInts(const TensorInfo& info, const std::byte* at);
// Int32 or int64 of at most max_count values, so that reading them costs little.
Status ExpectInts(const TensorInfo& info, const std::string& what,
                  std::int64_t max_count = kMaxRank);
// The values of a constant operand. kUnsupported if it is not constant.
Result<Dims> ConstantInts(const Node& node, std::size_t i, const std::string& what);

// Row-major: elements between neighbours along each dimension.
Dims RowMajorStrides(std::span<const std::int64_t> shape);
// The shape that broadcasting gives; nothing if the shapes do not fit.
std::optional<Dims> BroadcastShape(const Dims& a, const Dims& b);
// Strides of a tensor read as if it had the shape out, 0 where it repeats. The shapes fit.
Dims BroadcastStrides(const Dims& shape, const Dims& out);

// Calls fn with the offset into each operand, in row-major order of shape.
template <std::size_t N, typename Fn>
void ForEach(std::span<const std::int64_t> shape, const std::array<Dims, N>& strides, Fn fn) {
  std::array<std::int64_t, N> offset{};
  Dims index(shape.size(), 0);
  for (std::int64_t left = Product(shape); left > 0; --left) {
    fn(offset);
    for (std::size_t d = shape.size(); d-- > 0;) {
      for (std::size_t n = 0; n < N; ++n) offset[n] += strides[n][d];
      if (++index[d] < shape[d]) break;
      for (std::size_t n = 0; n < N; ++n) offset[n] -= strides[n][d] * shape[d];
      index[d] = 0;
    }
  }
}

// A walk over a tensor: element offset + sum of index * stride.
struct Walk {
  std::int64_t offset = 0;
  Dims strides;
};
// Copies elements of that many bytes from one walk to the other.
void CopyElements(std::int64_t element_bytes, std::span<const std::int64_t> shape,
                  const std::byte* from, const Walk& from_walk, std::byte* to, const Walk& to_walk);

// What a fused activation or a RELU does. Codes 0 to 3 of the public schema.
Status ExpectActivation(const Node& node);
float Activate(std::int32_t activation, float x);

}  // namespace hone::executor
