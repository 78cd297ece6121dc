// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/test_util.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hone::kernels {
namespace {

struct Kernel {
  const char* name;
  CpuTarget needs;
};

TEST(Runnable, SaysOnceWhatThisProcessorCannotRun) {
#if defined(__x86_64__)
  const Kernel kernels[] = {{"stranger", CpuTarget::kNeonDot}, {"friend", CpuTarget::kPortable}};
#else
  const Kernel kernels[] = {{"stranger", CpuTarget::kAvx2}, {"friend", CpuTarget::kPortable}};
#endif
  for (const int lines : {1, 0}) {
    testing::internal::CaptureStdout();
    const std::vector<Kernel> runnable = Runnable(std::span<const Kernel>(kernels));
    const std::string said = testing::internal::GetCapturedStdout();
    ASSERT_EQ(runnable.size(), 1U);
    EXPECT_STREQ(runnable[0].name, "friend");
    EXPECT_EQ(said.find("[  SKIPPED ] stranger: this processor lacks ") == 0, lines == 1) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), lines) << said;
  }
}

}  // namespace
}  // namespace hone::kernels
