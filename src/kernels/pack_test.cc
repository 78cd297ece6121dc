// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Packed int8 and int4 panels against the layout as the headers describe it, code by code, and the
// memory that they lie in.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/float16.h"
#include "kernels/aligned_buffer.h"
#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

using Bytes = std::vector<std::byte>;

void Put(Bytes& to, std::int64_t at, const void* from, std::size_t size) {
  std::memcpy(to.data() + at, from, size);
}

struct Int4Panel {
  Bytes codes, scales;
  std::int64_t rows = 0, k = 0, block = 0;

  int Code(std::int64_t r, std::int64_t j) const {
    if (r >= rows || j >= k) return 0;
    const auto byte = static_cast<unsigned>(codes[static_cast<std::size_t>((r * k + j) / 2)]);
    return static_cast<int>((j % 2 == 0 ? byte & 15U : byte >> 4) ^ 8U) - 8;
  }
  std::uint16_t Half(std::int64_t r, std::int64_t b) const {
    std::uint16_t half = 0;
    if (r < rows) std::memcpy(&half, scales.data() + (r * (k / block) + b) * 2, 2);
    return half;
  }

  Bytes Want() const {
    Bytes out(static_cast<std::size_t>(gemm_int4::PanelBytes(k, block)));
    const std::int64_t body = kPanelHeadBytes + gemm_int4::ScaleBytes(k, block);
    for (std::int64_t r = 0; r < kPanelRows; ++r) {
      const std::int64_t blocks = block == 0 ? 1 : k / block;
      const std::int64_t size = block == 0 ? k : block;
      float correction = 0;
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::int32_t sum = 0;
        for (std::int64_t j = b * size; j < (b + 1) * size; ++j) sum += Code(r, j);
        if (block == 0) {
          Put(out, r * 4, &sum, 4);
          if (r < rows) Put(out, 64 + r * 4, scales.data() + r * 4, 4);
          continue;
        }
        const std::uint16_t half = Half(r, b);
        Put(out, kPanelHeadBytes + (b * kPanelRows + r) * 2, &half, 2);
        correction += Fp16ToFloat(half) * static_cast<float>(sum);
      }
      if (block != 0) Put(out, r * 4, &correction, 4);
      for (std::int64_t j = 0; j < k; j += 8) {
        for (std::int64_t i = 0; i < 4; ++i) {
          const int pair = (Code(r, j + i) + 8) | ((Code(r, j + i + 4) + 8) << 4);
          const auto byte = static_cast<std::byte>(pair);
          Put(out, body + j * 8 + r * 4 + i, &byte, 1);
        }
      }
    }
    return out;
  }
};

void ComparePacked(std::int64_t rows, std::int64_t k, std::int64_t block,
                   const std::vector<std::uint16_t>& halves) {
  Int4Panel panel;
  panel.rows = rows;
  panel.k = k;
  panel.block = block;
  panel.codes = RandomBytes(rows * k / 2, static_cast<std::uint32_t>(k + rows));
  if (block == 0) {
    const std::vector<float> scales = RandomFloats(rows, 5);
    panel.scales.resize(scales.size() * 4);
    Put(panel.scales, 0, scales.data(), panel.scales.size());
  } else {
    panel.scales.resize(static_cast<std::size_t>(rows * (k / block) * 2));
    for (std::size_t i = 0; i * 2 < panel.scales.size(); ++i) {
      Put(panel.scales, static_cast<std::int64_t>(i * 2), &halves[i % halves.size()], 2);
    }
  }
  // At an odd address, with guards, over rubbish.
  Bytes out(static_cast<std::size_t>(gemm_int4::PanelBytes(k, block)) + 2, std::byte{0x5a});
  Bytes codes(panel.codes.size() + 1);
  Put(codes, 1, panel.codes.data(), panel.codes.size());
  gemm_int4::PackPanel(codes.data() + 1, panel.scales.data(), rows, k, block, out.data() + 1);
  const Bytes want = panel.Want();
  ASSERT_EQ(std::memcmp(out.data() + 1, want.data(), want.size()), 0)
      << "rows " << rows << " k " << k << " block " << block;
  ASSERT_EQ(out.front(), std::byte{0x5a});
  ASSERT_EQ(out.back(), std::byte{0x5a});
}

TEST(PackPanel, Int4EqualsTheLayoutByLayout) {
  std::vector<std::uint16_t> halves;
  for (const float scale : RandomFloats(97, 3)) halves.push_back(FloatToFp16(scale));
  for (const int special : {0x0000, 0x0001, 0x03ff, 0x0400, 0x8001, 0x7bff}) {
    halves.push_back(static_cast<std::uint16_t>(special));
  }
  for (std::int64_t rows = 1; rows <= kPanelRows; ++rows) {
    for (const std::int64_t k : {2, 4, 8, 10, 30, 32, 34, 62, 64, 126, 128, 130, 194, 288}) {
      ComparePacked(rows, k, 0, halves);
    }
    for (const std::int64_t block : {32, 64, 96, 128}) {
      for (const std::int64_t blocks : {1, 2, 3, 5}) {
        ComparePacked(rows, block * blocks, block, halves);
      }
    }
  }
  ComparePacked(16, 4096, 32, halves);
  ComparePacked(3, gemm_int4::kMaxDepth, 0, halves);
  ComparePacked(2, gemm_int4::kMaxDepth, 32, halves);
}

// Every half there is, infinities and NaN too: as a scale of its own, times a sum of 1.
TEST(PackPanel, HalfScalesBecomeTheSameFloatsInTheCorrection) {
  Bytes codes(static_cast<std::size_t>(kPanelRows * 16));
  for (std::int64_t r = 0; r < kPanelRows; ++r) {
    codes[static_cast<std::size_t>(r * 16)] = std::byte{1};
  }
  Bytes panel(static_cast<std::size_t>(gemm_int4::PanelBytes(32, 32)));
  for (std::uint32_t first = 0; first < 0x10000; first += kPanelRows) {
    std::uint16_t halves[kPanelRows];
    for (std::uint32_t r = 0; r < kPanelRows; ++r) {
      halves[r] = static_cast<std::uint16_t>(first + r);
    }
    gemm_int4::PackPanel(codes.data(), reinterpret_cast<const std::byte*>(halves), kPanelRows, 32,
                         32, panel.data());
    for (std::uint32_t r = 0; r < kPanelRows; ++r) {
      float got = 0;
      std::memcpy(&got, panel.data() + r * 4, 4);
      const float scale = Fp16ToFloat(halves[r]);
      if (std::isnan(scale)) {
        ASSERT_TRUE(std::isnan(got)) << halves[r];
      } else {
        ASSERT_EQ(got, scale) << halves[r];
      }
    }
  }
}

TEST(PackPanel, Int8EqualsTheLayoutForBothOffsets) {
  for (const gemm_int8::Kernel& kernel : gemm_int8::Kernels()) {
    for (std::int64_t rows = 1; rows <= kPanelRows; ++rows) {
      for (const std::int64_t k : {1, 3, 4, 5, 15, 16, 17, 63, 64, 65, 79, 96, 192}) {
        Bytes codes = RandomBytes(rows * k + 1, static_cast<std::uint32_t>(k + rows));
        const auto* c = reinterpret_cast<const std::int8_t*>(codes.data() + 1);
        const std::vector<float> scales = RandomFloats(rows, 5);
        Bytes want(static_cast<std::size_t>(gemm_int8::PanelBytes(k)));
        for (std::int64_t r = 0; r < kPanelRows; ++r) {
          std::int32_t sum = 0;
          for (std::int64_t j = 0; j < (k + 3) / 4 * 4; ++j) {
            const int code = r < rows && j < k ? c[r * k + j] : 0;
            sum += code;
            const auto byte = static_cast<std::byte>(code + (kernel.offset_codes ? 128 : 0));
            Put(want, kPanelHeadBytes + j / 4 * 64 + r * 4 + j % 4, &byte, 1);
          }
          Put(want, r * 4, &sum, 4);
          if (r < rows) Put(want, 64 + r * 4, &scales[static_cast<std::size_t>(r)], 4);
        }
        Bytes out(want.size() + 2, std::byte{0x5a});
        gemm_int8::PackPanel(kernel, c, scales.data(), rows, k, out.data() + 1);
        ASSERT_EQ(std::memcmp(out.data() + 1, want.data(), want.size()), 0)
            << kernel.name << " rows " << rows << " k " << k;
        ASSERT_EQ(out.front(), std::byte{0x5a});
        ASSERT_EQ(out.back(), std::byte{0x5a});
      }
    }
  }
}

TEST(PackPanel, Int8SumsHoldTheLargestRows) {
  const std::int64_t k = gemm_int8::kMaxDepth;
  const float scales[4] = {1, 1, 1, 1};
  for (const std::int8_t code : {std::int8_t{-128}, std::int8_t{127}}) {
    const std::vector<std::int8_t> codes(static_cast<std::size_t>(4 * k), code);
    Bytes panel(static_cast<std::size_t>(gemm_int8::PanelBytes(k)));
    gemm_int8::PackPanel(gemm_int8::Kernels().back(), codes.data(), scales, 4, k, panel.data());
    std::int32_t sum = 0;
    std::memcpy(&sum, panel.data() + 8, 4);
    EXPECT_EQ(sum, code * k);
  }
}

TEST(PackArena, BuffersAreAlignedApartAndOutliveTheArena) {
  std::vector<std::pair<AlignedBuffer, std::uint64_t>> buffers;
  {
    PackArena arena;
    // Small ones, one larger than a region, and enough for a second region.
    for (const std::uint64_t bytes : {1U, 64U, 65U, 7U << 20, 9U << 20, 3U << 20, 100U, 5U << 20}) {
      buffers.emplace_back(arena.Allocate(bytes), bytes);
      AlignedBuffer& buffer = buffers.back().first;
      ASSERT_NE(buffer, nullptr) << bytes;
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(buffer.get()) % 64, 0U);
      std::memset(buffer.get(), static_cast<int>(buffers.size()), bytes);
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& [buffer, bytes] = buffers[i];
    for (const std::uint64_t at : {std::uint64_t{0}, bytes / 2, bytes - 1}) {
      EXPECT_EQ(buffer[at], static_cast<std::byte>(i + 1)) << i;
    }
  }
  // In any order.
  std::swap(buffers.front(), buffers.back());
  while (!buffers.empty()) buffers.pop_back();
}

TEST(PackArena, WhatTheSystemRefusesIsNull) {
  PackArena arena;
  EXPECT_EQ(arena.Allocate(1ULL << 60), nullptr);
  EXPECT_EQ(arena.Allocate(~0ULL), nullptr);
  EXPECT_EQ(AllocateAligned(1ULL << 60), nullptr);
  EXPECT_EQ(AllocateAligned(~0ULL), nullptr);
  EXPECT_NE(arena.Allocate(64), nullptr);
}

}  // namespace
}  // namespace hone::kernels
