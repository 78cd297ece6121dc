// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// FIPS 180-4 in plain C++, for builds without the Rust library.
#include "bridge/sha256.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

namespace hone::bridge {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
constexpr std::array<std::uint32_t, 8> kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

struct State {
  std::array<std::uint32_t, 8> hash = kStart;
  std::array<std::uint8_t, 64> block = {};
  std::size_t filled = 0;
  std::uint64_t total_bytes = 0;
};

void Compress(State& state) {
  std::array<std::uint32_t, 64> w = {};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 4; ++j) w[i] = w[i] << 8 | state.block[4 * i + j];
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15];
    const std::uint32_t b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  std::array<std::uint32_t, 8> h = state.hash;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t big1 = std::rotr(h[4], 6) ^ std::rotr(h[4], 11) ^ std::rotr(h[4], 25);
    const std::uint32_t choose = (h[4] & h[5]) ^ (~h[4] & h[6]);
    const std::uint32_t t1 = h[7] + big1 + choose + kRound[i] + w[i];
    const std::uint32_t big0 = std::rotr(h[0], 2) ^ std::rotr(h[0], 13) ^ std::rotr(h[0], 22);
    const std::uint32_t majority = (h[0] & h[1]) ^ (h[0] & h[2]) ^ (h[1] & h[2]);
    std::copy_backward(h.begin(), h.end() - 1, h.end());
    h[4] += t1;
    h[0] = t1 + big0 + majority;
  }
  for (std::size_t i = 0; i < 8; ++i) state.hash[i] += h[i];
  state.filled = 0;
}

void Add(State& state, std::uint8_t byte) {
  state.block[state.filled++] = byte;
  if (state.filled == state.block.size()) Compress(state);
}

}  // namespace

Sha256::Sha256() : state_(new State) {}
Sha256::~Sha256() { delete static_cast<State*>(state_); }
Sha256::Sha256(Sha256&& o) noexcept : state_(std::exchange(o.state_, nullptr)) {}
Sha256& Sha256::operator=(Sha256&& o) noexcept {
  std::swap(state_, o.state_);
  return *this;
}

void Sha256::Update(ByteSpan bytes) {
  State& state = *static_cast<State*>(state_);
  state.total_bytes += bytes.size();
  for (const std::byte byte : bytes) Add(state, static_cast<std::uint8_t>(byte));
}

std::string Sha256::FinishHex() {
  State& state = *static_cast<State*>(state_);
  const std::uint64_t bits = state.total_bytes * 8;
  Add(state, 0x80);
  while (state.filled != 56) Add(state, 0);
  for (int shift = 56; shift >= 0; shift -= 8) Add(state, static_cast<std::uint8_t>(bits >> shift));
  constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint32_t word : state.hash) {
    for (int shift = 28; shift >= 0; shift -= 4) hex.push_back(kHex[word >> shift & 15]);
  }
  state = State();
  return hex;
}

std::string Sha256Hex(ByteSpan bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

}  // namespace hone::bridge
