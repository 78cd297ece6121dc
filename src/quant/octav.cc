// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/octav.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/cpu_info.h"

namespace hone::quant {
namespace {

constexpr int kSteps = 10;
constexpr std::size_t kSums = 8;

struct Tail {
  float sum = 0.0f;    // of |x| for |x| >= bound
  float count = 0.0f;  // how many; exact up to 2^24
};

// Eight running sums, added up in a fixed order: the result does not depend on the compiler's
// choice of vectors.
Tail SumTail(std::span<const float> x, float bound) {
  std::array<float, kSums> sum{};
  std::array<float, kSums> count{};
  const std::size_t whole = x.size() / kSums * kSums;
  for (std::size_t i = 0; i < whole; i += kSums) {
    for (std::size_t l = 0; l < kSums; ++l) {
      const float v = std::fabs(x[i + l]);
      sum[l] += v >= bound ? v : 0.0f;
      count[l] += v >= bound ? 1.0f : 0.0f;
    }
  }
  Tail tail;
  for (std::size_t l = 0; l < kSums; ++l) {
    tail.sum += sum[l];
    tail.count += count[l];
  }
  for (std::size_t i = whole; i < x.size(); ++i) {
    const float v = std::fabs(x[i]);
    tail.sum += v >= bound ? v : 0.0f;
    tail.count += v >= bound ? 1.0f : 0.0f;
  }
  return tail;
}

float Rounding(int bits) { return std::ldexp(1.0f, -2 * bits) / 3.0f; }

// The same steps with one block in each lane of a vector, so that every lane adds in SumTail's
// order. Blocks is the number of lanes. Values and sums fill the caches of the core, not its
// registers, so blocks longer than kMaxBlock go one by one.
constexpr std::size_t kMaxBlock = 128;

template <std::size_t Lanes>
struct Vectors;
template <>
struct Vectors<4> {
  typedef float V __attribute__((vector_size(16)));
  typedef std::int32_t M __attribute__((vector_size(16)));
};
template <>
struct Vectors<8> {
  typedef float V __attribute__((vector_size(32)));
  typedef std::int32_t M __attribute__((vector_size(32)));
};
template <>
struct Vectors<16> {
  typedef float V __attribute__((vector_size(64)));
  typedef std::int32_t M __attribute__((vector_size(64)));
};

template <std::size_t Lanes>
[[gnu::always_inline]] inline void ClipsOfBlocks(const float* x, std::size_t block, int bits,
                                                 float* clips) {
  using V = typename Vectors<Lanes>::V;
  using M = typename Vectors<Lanes>::M;
  V values[kMaxBlock];  // |x|, values[i] has value i of every block
  for (std::size_t i = 0; i < block; ++i) {
    for (std::size_t b = 0; b < Lanes; ++b) values[i][b] = std::fabs(x[b * block + i]);
  }
  const float rounding = Rounding(bits);
  const V base = V{} + rounding * static_cast<float>(block);
  const V rest = V{} + (1.0f - rounding);
  const V one = V{} + 1.0f;
  V clip = one;
  for (int step = 0; step < kSteps; ++step) {
    V sum[kSums] = {};
    V count = {};
    for (std::size_t i = 0; i < block; i += kSums) {
      for (std::size_t l = 0; l < kSums; ++l) {
        const M in = values[i + l] >= clip;
        sum[l] += reinterpret_cast<V>(reinterpret_cast<M>(values[i + l]) & in);
        count += reinterpret_cast<V>(reinterpret_cast<M>(one) & in);
      }
    }
    V total = {};
    for (std::size_t l = 0; l < kSums; ++l) total += sum[l];
    const V next = total / (count * rest + base);
    const M differ = next != clip;
    clip = next;
    std::int32_t any = 0;
    for (std::size_t b = 0; b < Lanes; ++b) any |= differ[b];
    if (any == 0) break;
  }
  std::memcpy(clips, &clip, sizeof(clip));
}

// Blocks of one row by groups of Lanes; returns how many were done.
template <std::size_t Lanes>
[[gnu::always_inline]] inline std::size_t ClipsOfRow(const float* x, std::size_t block, int bits,
                                                     float* clips, std::size_t count) {
  std::size_t done = 0;
  for (; done + Lanes <= count; done += Lanes) {
    ClipsOfBlocks<Lanes>(x + done * block, block, bits, clips + done);
  }
  return done;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] std::size_t ClipsAvx2(const float* x, std::size_t block, int bits,
                                              float* clips, std::size_t count) {
  return ClipsOfRow<8>(x, block, bits, clips, count);
}
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw")]] std::size_t ClipsAvx512(
    const float* x, std::size_t block, int bits, float* clips, std::size_t count) {
  return ClipsOfRow<16>(x, block, bits, clips, count);
}
#endif

std::size_t ClipsPortable(const float* x, std::size_t block, int bits, float* clips,
                          std::size_t count) {
  return ClipsOfRow<4>(x, block, bits, clips, count);
}

using ClipsFunction = std::size_t (*)(const float*, std::size_t, int, float*, std::size_t);
ClipsFunction BestClips() {
#if defined(__x86_64__)
  if (CpuSupports(CpuTarget::kAvx512Vnni)) return ClipsAvx512;
  if (CpuSupports(CpuTarget::kAvx2)) return ClipsAvx2;
#endif
  return ClipsPortable;
}

}  // namespace

float OctavClip(std::span<const float> x, int bits) {
  const float rounding = Rounding(bits);
  const float base = rounding * static_cast<float>(x.size());
  float clip = 1.0f;
  for (int step = 0; step < kSteps; ++step) {
    const Tail tail = SumTail(x, clip);
    const float next = tail.sum / (tail.count * (1.0f - rounding) + base);
    if (next == clip) break;
    clip = next;
  }
  return clip;
}

void OctavClips(std::span<const float> row, std::size_t block, int bits, std::span<float> clips) {
  HONE_CHECK(clips.size() * block == row.size());
  std::size_t done = 0;
  if (block % kSums == 0 && block <= kMaxBlock) {
    static const ClipsFunction kBest = BestClips();
    done = kBest(row.data(), block, bits, clips.data(), clips.size());
  }
  for (; done < clips.size(); ++done) {
    clips[done] = OctavClip(row.subspan(done * block, block), bits);
  }
}

}  // namespace hone::quant
