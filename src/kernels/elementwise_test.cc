// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/rmsnorm/rmsnorm.h"
#include "kernels/rope/rope.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

constexpr std::int64_t kLengths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 97, 576};

std::int64_t UlpDistance(float a, float b) {
  const auto key = [](float f) {
    const auto bits = std::bit_cast<std::int32_t>(f);
    return std::int64_t{bits < 0 ? std::numeric_limits<std::int32_t>::min() - bits : bits};
  };
  return std::abs(key(a) - key(b));
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(RmsNorm, EqualsTheTwinAndKernelsDifferByTheRoundingOfOneFactor) {
  for (const std::int64_t n : kLengths) {
    for (std::int64_t shift = 0; shift < 3; ++shift) {
      Shifted<float> x(RandomFloats(n, 1), shift), weight(RandomFloats(n, 2), shift);
      std::vector<float> want(static_cast<std::size_t>(n)), first;
      RmsNormReference(x.data(), weight.data(), 1e-5f, 1, n, want.data());
      for (const rmsnorm::Kernel& kernel : Runnable(rmsnorm::Kernels())) {
        std::vector<float> y(static_cast<std::size_t>(n));
        kernel.fn(x.data(), weight.data(), 1e-5f, n, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_NEAR(y[i], want[i], 1e-6 * std::fabs(want[i])) << kernel.name << " n " << n;
        }
        // The sum of squares is the same everywhere; its inverse square root may differ by an ulp
        // or two, and the products with it by one more.
        if (first.empty()) first = y;
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_LE(UlpDistance(y[i], first[i]), 4) << kernel.name << " n " << n;
        }
        // In place.
        std::vector<float> in_place(x.data(), x.data() + n);
        kernel.fn(in_place.data(), weight.data(), 1e-5f, n, in_place.data());
        EXPECT_TRUE(SameBits(y, in_place)) << kernel.name << " n " << n;
      }
    }
  }
}

TEST(RmsNorm, ZerosStayZerosAndThreadsChangeNothing) {
  const std::int64_t m = 100, n = 576;
  std::vector<float> x = RandomFloats(m * n, 3), weight = RandomFloats(n, 4);
  std::fill(x.begin(), x.begin() + n, 0.0f);
  std::vector<float> one(x.size()), three(x.size());
  ThreadPool pool1(1), pool3(3);
  RmsNorm(x.data(), weight.data(), 1e-5f, m, n, one.data(), pool1);
  RmsNorm(x.data(), weight.data(), 1e-5f, m, n, three.data(), pool3);
  EXPECT_TRUE(SameBits(one, three));
  for (std::int64_t j = 0; j < n; ++j) EXPECT_EQ(one[static_cast<std::size_t>(j)], 0.0f);
}

TEST(Rope, EqualsTheTwinAndAllKernelsGiveTheSameBits) {
  for (const std::int64_t half : kLengths) {
    const std::int64_t heads = 3;
    const std::vector<float> x = RandomFloats(heads * 2 * half, 5);
    const std::vector<float> cos = RandomFloats(half, 6), sin = RandomFloats(half, 7);
    std::vector<float> want = x, first;
    ApplyRopeReference(want.data(), cos.data(), sin.data(), 1, heads, 2 * half, half);
    for (const rope::Kernel& kernel : Runnable(rope::Kernels())) {
      Shifted<float> y(x, 1);
      kernel.fn(y.data(), cos.data(), sin.data(), heads, 2 * half, half);
      std::vector<float> got(y.data(), y.data() + want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 2e-7) << kernel.name << " half " << half;
      }
      if (first.empty()) first = got;
      EXPECT_TRUE(SameBits(first, got)) << kernel.name;
    }
  }
}

TEST(Rope, AnglesFollowThePositionAndTheMagnitude) {
  const std::vector<float> inv_freq = {1.0f, 0.25f, 1e-4f};
  std::vector<float> cos(6), sin(6);
  RopeAngles(5, 2, inv_freq.data(), 3, 1.5f, cos.data(), sin.data());
  for (std::size_t i = 0; i < 6; ++i) {
    const double angle = static_cast<double>(5 + i / 3) * inv_freq[i % 3];
    EXPECT_NEAR(cos[i], 1.5 * std::cos(angle), 1e-6);
    EXPECT_NEAR(sin[i], 1.5 * std::sin(angle), 1e-6);
  }
}

TEST(Rope, RowsOfAPoolEqualSingleRows) {
  const std::int64_t m = 7, heads = 2, dim = 32;
  std::vector<float> x = RandomFloats(m * heads * dim, 8), want = x;
  const std::vector<float> cos = RandomFloats(m * dim / 2, 9), sin = RandomFloats(m * dim / 2, 10);
  ThreadPool pool(2);
  ApplyRope(x.data(), cos.data(), sin.data(), m, heads, dim, dim / 2, pool);
  ApplyRopeReference(want.data(), cos.data(), sin.data(), m, heads, dim, dim / 2);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], want[i], 2e-7);
}

TEST(Rope, LeavesTheDimensionsBehindTheRotatedOnesAlone) {
  const std::int64_t m = 3, heads = 2, dim = 50;
  for (const std::int64_t half : {1, 8, 16, 19, 24}) {
    const std::vector<float> x = RandomFloats(m * heads * dim, 8);
    const std::vector<float> cos = RandomFloats(m * half, 9), sin = RandomFloats(m * half, 10);
    std::vector<float> want = x, first;
    ApplyRopeReference(want.data(), cos.data(), sin.data(), m, heads, dim, half);
    for (const rope::Kernel& kernel : Runnable(rope::Kernels())) {
      std::vector<float> got = x;
      for (std::int64_t i = 0; i < m; ++i) {
        kernel.fn(got.data() + i * heads * dim, cos.data() + i * half, sin.data() + i * half, heads,
                  dim, half);
      }
      for (std::int64_t i = 0; i < m * heads * dim; ++i) {
        const auto at = static_cast<std::size_t>(i);
        ASSERT_NEAR(got[at], want[at], 2e-7) << kernel.name << " half " << half;
        if (i % dim >= 2 * half) {
          ASSERT_EQ(got[at], x[at]) << kernel.name << " half " << half;
        }
      }
      if (first.empty()) first = got;
      EXPECT_TRUE(SameBits(first, got)) << kernel.name;
    }
  }
}

TEST(Activation, SiluMulEqualsTheTwinAndAllKernelsGiveTheSameBits) {
  for (const std::int64_t n : kLengths) {
    std::vector<float> gate = RandomFloats(n, 11), up = RandomFloats(n, 12);
    for (float& g : gate) g *= 20;
    std::vector<float> want(gate.size()), first;
    SiluMulReference(gate.data(), up.data(), n, want.data());
    for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
      std::vector<float> y = gate;
      kernel.silu_mul(y.data(), up.data(), n, y.data());
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_LE(UlpDistance(y[i], want[i]), 4)
            << kernel.name << " " << gate[i] << " " << y[i] << " " << want[i];
      }
      if (first.empty()) first = y;
      EXPECT_TRUE(SameBits(first, y)) << kernel.name;
    }
  }
}

TEST(Activation, SiluMulOfSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> gate = {0.0f, 200.0f, -200.0f, inf, std::nanf("")};
  const std::vector<float> up(5, 2.0f);
  for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
    std::vector<float> y(5);
    kernel.silu_mul(gate.data(), up.data(), 5, y.data());
    EXPECT_EQ(y[0], 0.0f) << kernel.name;
    EXPECT_EQ(y[1], 400.0f) << kernel.name;
    EXPECT_EQ(y[2], 0.0f) << kernel.name;
    EXPECT_EQ(y[3], inf) << kernel.name;
    EXPECT_TRUE(std::isnan(y[4])) << kernel.name;
  }
}

// The bits of a value and of what XNNPACK makes of it.
struct XnnpackValue {
  std::uint32_t x, tanh, gelu_tanh, gelu_erf;
};
constexpr XnnpackValue kXnnpackValues[] = {
    {0x00000000U, 0x00000000U, 0x00000000U, 0x00000000U},
    {0x3a83126fU, 0x3a83126cU, 0x3a032d35U, 0x3a032d35U},
    {0xba83126fU, 0xba83126cU, 0xba02f7a9U, 0xba02f7a9U},
    {0x3e800000U, 0x3e7acbf4U, 0x3e19447fU, 0x3e1944d1U},
    {0xbe99999aU, 0xbe9526efU, 0xbdeac2a7U, 0xbdeac158U},
    {0x3f333333U, 0x3f1ab7d8U, 0x3f07d372U, 0x3f07d712U},
    {0xbf666666U, 0xbf375f4cU, 0xbe29c004U, 0xbe29a13bU},
    {0x3f8ccccdU, 0x3f4ced82U, 0x3f735948U, 0x3f73657cU},
    {0xbfd9999aU, 0xbf6f76f7U, 0xbd9b6e63U, 0xbd9b28b7U},
    {0x40133333U, 0x3f7ae799U, 0x4011a4a0U, 0x40119f15U},
    {0xc039999aU, 0xbf7e745fU, 0xbba2c04dU, 0xbbb14e14U},
    {0x40533333U, 0x3f7f4defU, 0x40531db8U, 0x40531910U},
    {0xc079999aU, 0xbf7fca51U, 0xb8ebb4cdU, 0xb9447667U},
    {0x40866666U, 0x3f7fe288U, 0x40866630U, 0x408665f0U},
    {0xc0966666U, 0xbf7ff529U, 0xb5e19999U, 0xb6d37fffU},
    {0x409b3333U, 0x3f7ff7f8U, 0x409b3333U, 0x409b332dU},
    {0xc0a00000U, 0xbf7ffa0dU, 0x80000000U, 0xb58c0000U},
    {0x40a570a4U, 0x3f7ffbc5U, 0x40a570a4U, 0x40a570a4U},
    {0xc0c33333U, 0xbf7fff58U, 0x80000000U, 0x80000000U},
    {0x40fccccdU, 0x3f7ffffbU, 0x40fccccdU, 0x40fccccdU},
    {0xc101999aU, 0xbf800000U, 0x80000000U, 0x80000000U},
    {0x41a00000U, 0x3f800000U, 0x41a00000U, 0x41a00000U},
};

using MulFn = void (*)(const float*, const float*, std::int64_t, float*);

// Values of gate in [-10, 10], where the quotients reach 1, and lengths with every tail.
template <typename Member>
void CompareGelu(Member member, MulFn twin) {
  for (const std::int64_t n : kLengths) {
    std::vector<float> gate = RandomFloats(n, 21), up = RandomFloats(n, 22);
    for (float& g : gate) g *= 10;
    std::vector<float> want(gate.size()), first;
    twin(gate.data(), up.data(), n, want.data());
    for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
      std::vector<float> y = gate;
      (kernel.*member)(y.data(), up.data(), n, y.data());
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], want[i], 1e-6) << kernel.name << " " << gate[i];
      }
      if (first.empty()) first = y;
      EXPECT_TRUE(SameBits(first, y)) << kernel.name;
    }
  }
}

TEST(Activation, GeluMulEqualsTheTwinAndAllKernelsGiveTheSameBits) {
  CompareGelu(&activation::Kernel::gelu_tanh_mul, &GeluTanhMulReference);
  CompareGelu(&activation::Kernel::gelu_erf_mul, &GeluErfMulReference);
}

TEST(Activation, GeluMulOfSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> gate = {0.0f, 200.0f, -200.0f, inf, std::nanf("")};
  const std::vector<float> up(5, 2.0f);
  for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
    for (const auto gelu_mul : {kernel.gelu_tanh_mul, kernel.gelu_erf_mul}) {
      std::vector<float> y(5);
      gelu_mul(gate.data(), up.data(), 5, y.data());
      EXPECT_EQ(y[0], 0.0f) << kernel.name;
      EXPECT_EQ(y[1], 400.0f) << kernel.name;
      EXPECT_EQ(y[2], 0.0f) << kernel.name;
      EXPECT_EQ(y[3], inf) << kernel.name;
      EXPECT_TRUE(std::isnan(y[4])) << kernel.name;
    }
  }
}

TEST(Activation, SoftcapEqualsTheTwinAndAllKernelsGiveTheSameBits) {
  for (const float cap : {0.5f, 30.0f}) {
    for (const std::int64_t n : kLengths) {
      std::vector<float> x = RandomFloats(n, 23);
      for (float& v : x) v *= 300;
      std::vector<float> want = x, first;
      SoftcapReference(want.data(), cap, n);
      for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
        std::vector<float> y = x;
        kernel.softcap(y.data(), cap, n);
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_NEAR(y[i], want[i], 1e-6 * cap) << kernel.name << " " << x[i];
        }
        if (first.empty()) first = y;
        EXPECT_TRUE(SameBits(first, y)) << kernel.name;
      }
    }
  }
}

// Bits that XNNPACK's TANH and GELU gave, by ai-edge-litert 2.3.0 on AVX-512.
TEST(Activation, TanhAndGeluGiveTheBitsOfXnnpack) {
  for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
    for (const XnnpackValue& v : kXnnpackValues) {
      const float x = std::bit_cast<float>(v.x), one = 1.0f;
      float y = x;
      kernel.softcap(&y, 1.0f, 1);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(y), v.tanh) << kernel.name << " " << x;
      kernel.gelu_tanh_mul(&x, &one, 1, &y);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(y), v.gelu_tanh) << kernel.name << " " << x;
      kernel.gelu_erf_mul(&x, &one, 1, &y);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(y), v.gelu_erf) << kernel.name << " " << x;
    }
  }
}

TEST(Activation, ScaleMultipliesEveryValue) {
  ThreadPool pool(2);
  for (const std::int64_t n : {1, 17, 40000}) {
    std::vector<float> x = RandomFloats(n, 24), want = x;
    for (float& v : want) v *= 0.3f;
    ScaleInPlace(x.data(), 0.3f, n, pool);
    EXPECT_TRUE(SameBits(x, want));
  }
}

// The rows of a pool, and the forms that take one.
TEST(Activation, ThreadsChangeNoBit) {
  const std::int64_t n = 20000;
  const std::vector<float> gate = RandomFloats(n, 25), up = RandomFloats(n, 26);
  ThreadPool one(1), three(3);
  for (const auto fn : {&GeluTanhMul, &GeluErfMul, &SiluMul}) {
    std::vector<float> a(gate.size()), b(gate.size());
    fn(gate.data(), up.data(), n, a.data(), one);
    fn(gate.data(), up.data(), n, b.data(), three);
    EXPECT_TRUE(SameBits(a, b));
  }
  std::vector<float> a = gate, b = gate;
  Softcap(a.data(), 0.7f, n, one);
  Softcap(b.data(), 0.7f, n, three);
  EXPECT_TRUE(SameBits(a, b));
}

TEST(Activation, ExpIsWithinTwoUlp) {
  // Every 1009th float of [-87.3, 88.7] on either side of zero.
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < 0x42b17217U; bits += 1009) {
    x.push_back(std::bit_cast<float>(bits));
    if (x.back() < 87.3f) x.push_back(-x.back());
  }
  std::vector<float> y(x.size()), first;
  for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
    kernel.exp(x.data(), static_cast<std::int64_t>(x.size()), y.data());
    if (!first.empty()) {
      EXPECT_TRUE(SameBits(first, y)) << kernel.name;
      continue;
    }
    first = y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto want = static_cast<float>(std::exp(static_cast<double>(x[i])));
      ASSERT_LE(UlpDistance(y[i], want), 2) << kernel.name << " " << x[i];
    }
  }
}

TEST(Activation, ExpOfSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0.0f,  -0.0f,  inf,     -inf,          89.0f,
                                1e30f, -1e30f, -104.0f, std::nanf(""), -100.0f};
  for (const activation::Kernel& kernel : Runnable(activation::Kernels())) {
    std::vector<float> y(x.size());
    kernel.exp(x.data(), static_cast<std::int64_t>(x.size()), y.data());
    const std::vector<float> want = {1, 1, inf, 0, inf, inf, 0, 0};
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(y[i], want[i]) << kernel.name << i;
    EXPECT_TRUE(std::isnan(y[8])) << kernel.name;
    EXPECT_NEAR(y[9], std::exp(-100.0f), 2e-45f) << kernel.name;  // subnormal
  }
}

TEST(Activation, AddInPlaceAddsEveryValue) {
  ThreadPool pool(2);
  for (const std::int64_t n : {1, 17, 40000}) {
    std::vector<float> x = RandomFloats(n, 13), want = x;
    const std::vector<float> y = RandomFloats(n, 14);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += y[i];
    AddInPlace(x.data(), y.data(), n, pool);
    EXPECT_TRUE(SameBits(x, want));
  }
}

}  // namespace
}  // namespace hone::kernels
