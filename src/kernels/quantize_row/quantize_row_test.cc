// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/quantize_row/quantize_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/test_util.h"

namespace hone::kernels::quantize_row {
namespace {

struct Row {
  explicit Row(const float* x, std::int64_t k) {
    args.x = x;
    args.k = k;
    args.padded = (k + 63) / 64 * 64;
    q.assign(static_cast<std::size_t>(args.padded), 99);
    sums.assign(static_cast<std::size_t>(args.padded / 32), 99);
    offset.assign(static_cast<std::size_t>(args.padded), 99);
    args.q = q.data();
    args.q_offset = offset.data();
    args.block_offsets = sums.data();
  }
  std::vector<std::int8_t> q;
  std::vector<std::uint8_t> offset;
  std::vector<std::int32_t> sums;
  Args args;
};

void ExpectTwin(std::vector<float> values, std::int64_t shift, const std::string& what) {
  Shifted<float> x(values, shift);
  const auto k = static_cast<std::int64_t>(values.size());
  Row want(x.data(), k);
  Reference(want.args);
  for (const Kernel& kernel : Runnable(Kernels())) {
    Row got(x.data(), k);
    kernel.fn(got.args);
    EXPECT_EQ(got.q, want.q) << kernel.name << " " << what;
    EXPECT_EQ(got.offset, want.offset) << kernel.name << " " << what;
    EXPECT_EQ(got.sums, want.sums) << kernel.name << " " << what;
    EXPECT_EQ(got.args.sum, want.args.sum) << kernel.name << " " << what;
    EXPECT_EQ(got.args.params.zero_point, want.args.params.zero_point)
        << kernel.name << " " << what;
    EXPECT_EQ(std::memcmp(&got.args.params.scale, &want.args.params.scale, 4), 0)
        << kernel.name << " " << what;
  }
}

TEST(QuantizeRow, EqualsTheTwinForEveryLength) {
  for (const std::int64_t k : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 576}) {
    for (std::int64_t shift = 0; shift < 4; ++shift) {
      ExpectTwin(RandomFloats(k, static_cast<std::uint32_t>(k)), shift, std::to_string(k));
    }
  }
}

TEST(QuantizeRow, EqualsTheTwinForSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectTwin(std::vector<float>(40, 0.0f), 0, "zeros");
  ExpectTwin(std::vector<float>(40, -0.0f), 0, "minus zeros");
  ExpectTwin(std::vector<float>(40, 3.5f), 0, "all positive");
  ExpectTwin(std::vector<float>(40, -3.5f), 0, "all negative");
  ExpectTwin({1e-45f, 0.0f, -1e-45f, 1e-45f}, 0, "subnormal");
  ExpectTwin({3e38f, -3e38f, 1.0f}, 0, "range overflows");
  ExpectTwin({inf, 1.0f, -1.0f}, 0, "infinity");
  ExpectTwin({-inf, 1.0f, inf}, 0, "both infinities");
  ExpectTwin({nan, 1.0f, -1.0f}, 0, "NaN");
  ExpectTwin(std::vector<float>(33, nan), 0, "only NaN");
}

TEST(QuantizeRow, LeavesOutWhatIsNotWanted) {
  const std::vector<float> x = RandomFloats(100, 3);
  Row want(x.data(), 100);
  Reference(want.args);
  for (const Kernel& kernel : Runnable(Kernels())) {
    Row got(x.data(), 100);
    got.args.q_offset = nullptr;
    got.args.block_offsets = nullptr;
    kernel.fn(got.args);
    EXPECT_EQ(got.q, want.q) << kernel.name;
    EXPECT_EQ(got.args.sum, want.args.sum) << kernel.name;
    EXPECT_EQ(got.offset[0], 99) << kernel.name;
    EXPECT_EQ(got.sums[0], 99) << kernel.name;
  }
}

TEST(QuantizeRow, RoundsHalfToEven) {
  // inverse is 1 and the zero point 0: codes are the rounded values.
  std::vector<float> x = {-128.0f, 127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f};
  Row row(x.data(), static_cast<std::int64_t>(x.size()));
  Find().fn(row.args);
  EXPECT_EQ(row.args.params.zero_point, 0);
  EXPECT_EQ(row.args.params.scale, 1.0f);
  const std::vector<int> want = {-128, 127, 0, 2, 2, 0, -2, -2, 126};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(row.q[i], want[i]) << i;
}

TEST(QuantizeRow, ParametersWidenTheRangeToZero) {
  // Worked by hand: 255 / (1 - 0) and 127 - 255.
  Params p = ParamsFromRange(0.25f, 1.0f);
  EXPECT_EQ(p.inverse, 255.0f);
  EXPECT_EQ(p.zero_point, -128);
  EXPECT_EQ(p.scale, 1.0f / 255.0f);
  p = ParamsFromRange(-1.0f, -0.5f);
  EXPECT_EQ(p.inverse, 255.0f);
  EXPECT_EQ(p.zero_point, 127);
  p = ParamsFromRange(-1.0f, 3.0f);
  EXPECT_EQ(p.inverse, 63.75f);
  EXPECT_EQ(p.zero_point, -64);  // -128 + 63.75 = -64.25
  p = ParamsFromRange(0.0f, 0.0f);
  EXPECT_EQ(p.inverse, 1.0f);
  EXPECT_EQ(p.zero_point, 127);  // any would do; XNNPACK's rule gives this one
}

}  // namespace
}  // namespace hone::kernels::quantize_row
