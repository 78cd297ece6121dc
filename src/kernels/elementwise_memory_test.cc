// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Every kernel that works row by row, wherever its arrays lie: the same bits as on arrays of their
// own, and not a byte beside them touched.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/quantize_row/quantize_row.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rope/rope.h"
#include "kernels/test_memory.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

constexpr std::int64_t kLengths[] = {1, 3, 15, 16, 17, 31, 33, 63, 65, 97, 129};

std::string Case(const char* kernel, std::int64_t n, const Placement& at) {
  return StrCat(kernel, " n ", n, at.Text());
}

void ExpectSame(const PlacedRows<float>& got, const std::vector<float>& want,
                const std::string& what) {
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << what;
  EXPECT_TRUE(got.Intact()) << what;
}

PlacedRows<float> Place(const std::vector<float>& values, const Placement& at) {
  return {values.data(), static_cast<std::int64_t>(values.size()), at};
}

TEST(RmsNorm, TakesArraysAtAnyAddressAndTouchesNothingElse) {
  for (const rmsnorm::Kernel& kernel : Runnable(rmsnorm::Kernels())) {
    for (const std::int64_t n : kLengths) {
      const std::vector<float> x = RandomFloats(n, 1), weight = RandomFloats(n, 2);
      std::vector<float> want(x.size());
      kernel.fn(x.data(), weight.data(), 1e-5f, n, want.data());
      for (const Placement& at : kPlacements) {
        const PlacedRows<float> px = Place(x, at), pw = Place(weight, at), y(nullptr, n, at);
        kernel.fn(px.data(), pw.data(), 1e-5f, n, y.data());
        ExpectSame(y, want, Case(kernel.name, n, at));
        ExpectSame(px, x, Case(kernel.name, n, at));
        ExpectSame(pw, weight, Case(kernel.name, n, at));
      }
    }
  }
}

TEST(Rope, TakesArraysAtAnyAddressAndTouchesNothingElse) {
  for (const rope::Kernel& kernel : Runnable(rope::Kernels())) {
    for (const std::int64_t half : kLengths) {
      // Three values of each head are not turned.
      const std::int64_t heads = 3, dim = 2 * half + 3;
      const std::vector<float> x = RandomFloats(heads * dim, 3);
      const std::vector<float> cos = RandomFloats(half, 4), sin = RandomFloats(half, 5);
      std::vector<float> want = x;
      kernel.fn(want.data(), cos.data(), sin.data(), heads, dim, half);
      for (const Placement& at : kPlacements) {
        const PlacedRows<float> px = Place(x, at), pc = Place(cos, at), ps = Place(sin, at);
        kernel.fn(px.data(), pc.data(), ps.data(), heads, dim, half);
        ExpectSame(px, want, Case(kernel.name, half, at));
        ExpectSame(pc, cos, Case(kernel.name, half, at));
        ExpectSame(ps, sin, Case(kernel.name, half, at));
      }
    }
  }
}

using MulFn = void (*)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;

TEST(Activation, ProductsTakeArraysAtAnyAddressAndTouchNothingElse) {
  for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
    for (const MulFn mul : {kernel.silu_mul, kernel.gelu_tanh_mul, kernel.gelu_erf_mul}) {
      for (const std::int64_t n : kLengths) {
        const std::vector<float> gate = RandomFloats(n, 6), up = RandomFloats(n, 7);
        std::vector<float> want(gate.size());
        mul(gate.data(), up.data(), n, want.data());
        for (const Placement& at : kPlacements) {
          const PlacedRows<float> pg = Place(gate, at), pu = Place(up, at), y(nullptr, n, at);
          mul(pg.data(), pu.data(), n, y.data());
          ExpectSame(y, want, Case(kernel.name, n, at));
          ExpectSame(pg, gate, Case(kernel.name, n, at));
          // y may be either input.
          mul(pg.data(), pu.data(), n, pu.data());
          ExpectSame(pu, want, Case(kernel.name, n, at));
        }
      }
    }
  }
}

TEST(Activation, ChangesInPlaceTouchNothingElse) {
  for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
    for (const std::int64_t n : kLengths) {
      const std::vector<float> x = RandomFloats(n, 8), other = RandomFloats(n, 9);
      std::vector<float> capped = x, scaled = x, added = x, raised(x.size());
      kernel.softcap(capped.data(), 3.0f, n);
      kernel.scale(scaled.data(), 1.7f, n);
      kernel.add(added.data(), other.data(), n);
      kernel.exp(x.data(), n, raised.data());
      for (const Placement& at : kPlacements) {
        const std::string what = Case(kernel.name, n, at);
        const PlacedRows<float> a = Place(x, at), b = Place(x, at), c = Place(x, at);
        const PlacedRows<float> d = Place(x, at), o = Place(other, at);
        kernel.softcap(a.data(), 3.0f, n);
        ExpectSame(a, capped, what);
        kernel.scale(b.data(), 1.7f, n);
        ExpectSame(b, scaled, what);
        kernel.add(c.data(), o.data(), n);
        ExpectSame(c, added, what);
        ExpectSame(o, other, what);
        kernel.exp(d.data(), n, d.data());
        ExpectSame(d, raised, what);
      }
    }
  }
}

TEST(QuantizeRow, TakesArraysAtAnyAddressAndTouchesNothingElse) {
  for (const quantize_row::Kernel& kernel : Runnable(quantize_row::Kernels())) {
    for (const std::int64_t k : kLengths) {
      const std::vector<float> x = RandomFloats(k, 10);
      const std::int64_t padded = (k + 63) / 64 * 64;
      std::vector<std::int8_t> q(static_cast<std::size_t>(padded));
      std::vector<std::uint8_t> q_offset(q.size());
      std::vector<std::int32_t> offsets(q.size() / 32);
      quantize_row::Args want;
      want.x = x.data();
      want.k = k;
      want.padded = padded;
      want.q = q.data();
      want.q_offset = q_offset.data();
      want.block_offsets = offsets.data();
      quantize_row::Reference(want);
      for (const Placement& at : kPlacements) {
        const std::string what = Case(kernel.name, k, at);
        const PlacedRows<float> px = Place(x, at);
        const PlacedRows<std::int8_t> pq(nullptr, padded, at);
        const PlacedRows<std::uint8_t> pq_offset(nullptr, padded, at);
        const PlacedRows<std::int32_t> p_offsets(nullptr, padded / 32, at);
        quantize_row::Args args = want;
        args.x = px.data();
        args.q = pq.data();
        args.q_offset = pq_offset.data();
        args.block_offsets = p_offsets.data();
        args.sum = 0;
        kernel.fn(args);
        EXPECT_EQ(std::memcmp(pq.data(), q.data(), q.size()), 0) << what;
        EXPECT_EQ(std::memcmp(pq_offset.data(), q_offset.data(), q.size()), 0) << what;
        EXPECT_EQ(std::memcmp(p_offsets.data(), offsets.data(), offsets.size() * 4), 0) << what;
        EXPECT_EQ(args.sum, want.sum) << what;
        EXPECT_TRUE(px.Intact() && pq.Intact() && pq_offset.Intact() && p_offsets.Intact()) << what;
      }
    }
  }
}

}  // namespace
}  // namespace hone::kernels
