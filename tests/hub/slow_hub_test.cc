// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What takes seconds by its nature.
#include <gtest/gtest.h>

#include "hub_server.h"

namespace hone::testing {
namespace {

TEST(SlowHub, AStalledConnectionIsCutAndTriedAgain) {
  HubTest hub;
  hub.settings.stall_seconds = 1;
  const auto report = hub.Pull("test/stall");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_LT(report->loaded_bytes, report->bytes + 1) << "bytes before the stall are kept";
}

}  // namespace
}  // namespace hone::testing
