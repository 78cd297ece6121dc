// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/memory_room.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace hone::serve {
namespace {

constexpr const char* kMeminfo =
    "MemTotal:       8000000 kB\nMemFree: 1 kB\nMemAvailable:    4000000 kB\n";

TEST(AvailableMemory, IsWhatTheKernelCallsAvailable) {
  const TestFolder root;
  root.Write("proc/meminfo", kMeminfo);
  EXPECT_EQ(AvailableMemory(root.path()), 4'096'000'000u);
}

TEST(AvailableMemory, IsNotKnownWhereNothingSaysIt) {
  const TestFolder root;
  EXPECT_FALSE(AvailableMemory(root.path()).has_value());
  root.Write("proc/meminfo", "MemTotal: 8 kB\nMemAvailable: much\n");
  EXPECT_FALSE(AvailableMemory(root.path()).has_value());
}

TEST(AvailableMemory, FollowsTheSmallestLimitOfTheControlGroups) {
  const TestFolder root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "0::/a/b\n");
  root.Write("sys/fs/cgroup/a/memory.max", "1000000\n");
  root.Write("sys/fs/cgroup/a/memory.current", "700000\n");
  root.Write("sys/fs/cgroup/a/memory.stat", "anon 500000\ninactive_file 100000\n");
  root.Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  root.Write("sys/fs/cgroup/a/b/memory.current", "700000\n");
  EXPECT_EQ(AvailableMemory(root.path()), 400'000u);
  root.Write("sys/fs/cgroup/a/b/memory.max", "700000\n");
  EXPECT_EQ(AvailableMemory(root.path()), 0u);
}

TEST(AvailableMemory, KnowsTheOlderControlGroups) {
  const TestFolder root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1\nbroken\n");
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
  root.Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(AvailableMemory(root.path()), 2'000'000u);
}

TEST(AvailableMemory, IsKnownOnThisMachine) {
  const auto bytes = AvailableMemory();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, 1'000'000u);
}

TEST(ModelFileBytes, CountsAFileOrTheFilesOfAFolder) {
  const TestFolder folder;
  folder.Write("m/config.json", "{}");
  folder.Write("m/model.safetensors", std::string(1000, 'x'));
  folder.Write("m/original/copy.bin", std::string(500, 'x'));
  EXPECT_EQ(*ModelFileBytes(folder.File("m/model.safetensors")), 1000u);
  EXPECT_EQ(*ModelFileBytes(folder.File("m")), 1002u);
  EXPECT_EQ(ModelFileBytes(folder.File("n")).code(), Code::kNotFound);
}

}  // namespace
}  // namespace hone::serve
