// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/sha256.h"

#include <hone_bridge.h>

#include <array>
#include <cstdint>
#include <utility>

namespace hone::bridge {

Sha256::Sha256() : state_(hb_sha256_new()) {}
Sha256::~Sha256() { hb_sha256_free(static_cast<hb_sha256*>(state_)); }
Sha256::Sha256(Sha256&& o) noexcept : state_(std::exchange(o.state_, nullptr)) {}
Sha256& Sha256::operator=(Sha256&& o) noexcept {
  std::swap(state_, o.state_);
  return *this;
}

void Sha256::Update(ByteSpan bytes) {
  hb_sha256_update(static_cast<hb_sha256*>(state_), bytes.data(), bytes.size());
}

std::string Sha256::FinishHex() {
  std::array<std::uint8_t, 32> digest = {};
  hb_sha256_finish(static_cast<hb_sha256*>(state_), digest.data());
  constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint8_t byte : digest) {
    hex.push_back(kHex[byte >> 4]);
    hex.push_back(kHex[byte & 15]);
  }
  return hex;
}

std::string Sha256Hex(ByteSpan bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

}  // namespace hone::bridge
