// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/sha1.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hone::hub {

void Sha1::Block(const std::byte* block) {
  std::array<std::uint32_t, 80> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      w[i] = w[i] << 8 | std::to_integer<std::uint32_t>(block[4 * i + j]);
    }
  }
  for (std::size_t i = 16; i < 80; ++i) {
    w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  }
  auto [a, b, c, d, e] = state_;
  for (std::size_t i = 0; i < 80; ++i) {
    std::uint32_t f = b ^ c ^ d;
    std::uint32_t k = i < 40 ? 0x6ed9eba1 : 0xca62c1d6;
    if (i < 20) {
      f = (b & c) | (~b & d);
      k = 0x5a827999;
    } else if (i >= 40 && i < 60) {
      f = (b & c) | (b & d) | (c & d);
      k = 0x8f1bbcdc;
    }
    const std::uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state_ = {state_[0] + a, state_[1] + b, state_[2] + c, state_[3] + d, state_[4] + e};
}

void Sha1::Update(ByteSpan bytes) {
  while (!bytes.empty()) {
    const std::size_t used = size_ % 64;
    const std::size_t n = std::min(bytes.size(), 64 - used);
    std::memcpy(buffer_.data() + used, bytes.data(), n);
    size_ += n;
    bytes = bytes.subspan(n);
    if (size_ % 64 == 0) Block(buffer_.data());
  }
}

std::string Sha1::FinishHex() {
  const std::uint64_t bits = size_ * 8;
  constexpr std::byte kOne{0x80};
  constexpr std::byte kZero{0};
  Update({&kOne, 1});
  while (size_ % 64 != 56) Update({&kZero, 1});
  std::array<std::byte, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  Update(length);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const std::uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) out += kHex[word >> shift & 15];
  }
  return out;
}

}  // namespace hone::hub
