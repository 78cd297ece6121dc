// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// SHA-1, which git names its files by. Against mistakes only: SHA-256 guards what matters.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/span_util.h"

namespace hone::hub {

class Sha1 {
 public:
  void Update(ByteSpan bytes);
  // 40 lower-case hex digits; the object must not be used afterwards.
  std::string FinishHex();

 private:
  void Block(const std::byte* block);

  std::array<std::uint32_t, 5> state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                         0xc3d2e1f0};
  std::array<std::byte, 64> buffer_{};
  std::uint64_t size_ = 0;
};

}  // namespace hone::hub
