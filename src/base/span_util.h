// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Bytes and bounds. Everything that reads foreign bytes goes through these.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace hone {

using ByteSpan = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "Hone needs a little-endian machine");

inline ByteSpan AsBytes(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}
inline std::string_view AsText(ByteSpan b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

// bytes[offset, offset + size), or nothing if that range leaves the span. Never wraps.
inline std::optional<ByteSpan> SubSpan(ByteSpan bytes, std::uint64_t offset, std::uint64_t size) {
  if (size > bytes.size() || offset > bytes.size() - size) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// Reads a little-endian scalar at any alignment; nothing if it leaves the span.
template <typename T>
  requires std::is_trivially_copyable_v<T>
std::optional<T> ReadLe(ByteSpan bytes, std::uint64_t offset) {
  auto part = SubSpan(bytes, offset, sizeof(T));
  if (!part) return std::nullopt;
  T value;
  std::memcpy(&value, part->data(), sizeof(T));
  return value;
}

// a * b or a + b for non-negative sizes; nothing if the result does not fit.
inline std::optional<std::uint64_t> MulChecked(std::uint64_t a, std::uint64_t b) {
  std::uint64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<std::uint64_t> AddChecked(std::uint64_t a, std::uint64_t b) {
  std::uint64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

inline std::uint64_t RoundUp(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace hone
