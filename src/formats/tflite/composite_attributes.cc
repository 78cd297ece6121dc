// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The small part of FlexBuffers that composite attributes need: a map of numbers. Read by hand with
// every step checked, because the bytes come from a file.
#include <bit>
#include <cstring>

#include "formats/tflite/tflite.h"

namespace hone::formats::tflite {
namespace {

// Type numbers of the FlexBuffers format.
enum FlexType : unsigned {
  kInt = 1,
  kUint = 2,
  kFloat = 3,
  kIndirectInt = 6,
  kIndirectUint = 7,
  kIndirectFloat = 8,
  kMap = 9,
  kBool = 26,
};

std::optional<std::uint64_t> ReadUint(ByteSpan bytes, std::uint64_t at, unsigned width) {
  const auto part = SubSpan(bytes, at, width);
  if (!part || !std::has_single_bit(width) || width > 8) return std::nullopt;
  std::uint64_t value = 0;
  std::memcpy(&value, part->data(), width);
  return value;
}

// Where the offset stored at `at` points to: that many bytes before it.
std::optional<std::uint64_t> Follow(ByteSpan bytes, std::uint64_t at, unsigned width) {
  const auto back = ReadUint(bytes, at, width);
  if (!back || *back > at) return std::nullopt;
  return at - *back;
}

std::optional<double> ReadNumber(ByteSpan bytes, std::uint64_t at, unsigned width,
                                 unsigned packed_type) {
  unsigned type = packed_type >> 2;
  if (type >= kIndirectInt && type <= kIndirectFloat) {
    const auto target = Follow(bytes, at, width);
    if (!target) return std::nullopt;
    at = *target;
    width = 1U << (packed_type & 3U);
    type -= kIndirectInt - kInt;
  }
  const auto raw = ReadUint(bytes, at, width);
  if (!raw) return std::nullopt;
  switch (type) {
    case kInt: {
      const unsigned unused = 64 - 8 * width;
      return static_cast<double>(static_cast<std::int64_t>(*raw << unused) >> unused);
    }
    case kUint:
    case kBool:
      return static_cast<double>(*raw);
    case kFloat:
      if (width == 4) return std::bit_cast<float>(static_cast<std::uint32_t>(*raw));
      if (width == 8) return std::bit_cast<double>(*raw);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

bool KeyEquals(ByteSpan bytes, std::uint64_t at, std::string_view key) {
  const auto part = SubSpan(bytes, at, key.size() + 1);
  return part && AsText(*part).substr(0, key.size()) == key && part->back() == std::byte{0};
}

}  // namespace

std::optional<double> FindCompositeNumber(ByteSpan attributes, std::string_view key) {
  // The last byte is the width of the root, the one before it the root's type.
  if (attributes.size() < 3) return std::nullopt;
  const auto root_width = static_cast<unsigned>(attributes[attributes.size() - 1]);
  const auto root_type = static_cast<unsigned>(attributes[attributes.size() - 2]);
  if (root_type >> 2 != kMap || root_width > attributes.size() - 2) return std::nullopt;
  const auto map = Follow(attributes, attributes.size() - 2 - root_width, root_width);
  // Before the values: the place of the keys, the width of a key's offset, the number of values.
  const unsigned width = 1U << (root_type & 3U);
  if (!map || *map < 3 * width) return std::nullopt;
  const auto keys = Follow(attributes, *map - 3 * width, width);
  const auto key_width = ReadUint(attributes, *map - 2 * width, width);
  const auto count = ReadUint(attributes, *map - width, width);
  if (!keys || !key_width || *key_width > 8 || !count || *count > attributes.size()) {
    return std::nullopt;
  }
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto text = Follow(attributes, *keys + i * *key_width, static_cast<unsigned>(*key_width));
    if (!text) return std::nullopt;
    if (!KeyEquals(attributes, *text, key)) continue;
    const auto type = ReadLe<std::uint8_t>(attributes, *map + *count * width + i);
    if (!type) return std::nullopt;
    return ReadNumber(attributes, *map + i * width, width, *type);
  }
  return std::nullopt;
}

std::vector<std::byte> MakeCompositeAttributes(std::string_view key, float value) {
  std::vector<std::byte> out;
  const auto put = [&out](std::uint32_t number, unsigned width) {
    for (unsigned i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(number >> (8 * i)));
  };
  for (const char c : key) out.push_back(static_cast<std::byte>(c));
  out.push_back(std::byte{0});
  // The vector of keys, with offsets of the smallest width that reaches back over the key.
  const auto key_back = static_cast<std::uint32_t>(key.size()) + 2;
  const unsigned key_width = key_back < 256 ? 1 : 4;
  while (out.size() % key_width != 0) put(0, 1);
  put(1, key_width);
  const auto keys = static_cast<std::uint32_t>(out.size());
  put(keys, key_width);
  // The map, all 4 bytes wide because the value is.
  while (out.size() % 4 != 0) put(0, 1);
  put(static_cast<std::uint32_t>(out.size()) - keys, 4);
  put(key_width, 4);
  put(1, 4);
  put(std::bit_cast<std::uint32_t>(value), 4);
  constexpr unsigned kWidth4 = 2;
  put(kFloat << 2 | kWidth4, 1);
  put(5, 1);  // The root: the map begins 5 bytes before.
  put(kMap << 2 | kWidth4, 1);
  put(1, 1);
  return out;
}

}  // namespace hone::formats::tflite
