// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The choice of threads and the machine's facts, over files of machines that are not this one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "base/machine_info.h"
#include "base/thread_choice.h"

namespace hone {
namespace {

class FakeMachine : public testing::Test {
 protected:
  FakeMachine() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = testing::TempDir() + "hone_machine_" + test->name();
    std::filesystem::remove_all(root_);
  }
  ~FakeMachine() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << "\n";
  }
  void WriteCpu(int cpu, const std::string& file, const std::string& text) const {
    Write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + file, text);
  }
  static std::vector<int> First(int n) {
    std::vector<int> cpus(static_cast<std::size_t>(n));
    std::iota(cpus.begin(), cpus.end(), 0);
    return cpus;
  }
  ThreadChoice Choose(int processors) const { return ChooseThreads(First(processors), root_); }

  std::string root_;
};

TEST_F(FakeMachine, WithoutFactsEveryAllowedProcessorCounts) {
  const ThreadChoice choice = Choose(6);
  EXPECT_EQ(choice.threads, 6);
  EXPECT_EQ(choice.why, "6 processors allowed to this process");
  EXPECT_EQ(Choose(1).threads, 1);
  EXPECT_EQ(ChooseThreads(std::vector<int>(), root_).threads, 1);
}

TEST_F(FakeMachine, QuotaOfAContainerIsRoundedDown) {
  Write("/proc/self/cgroup", "0::/");
  Write("/sys/fs/cgroup/cpu.max", "150000 100000");
  const ThreadChoice choice = Choose(8);
  EXPECT_EQ(choice.threads, 1);
  EXPECT_EQ(choice.why, "the control group's quota is 1.5 processors");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_EQ(Choose(8).threads, 1);
  Write("/sys/fs/cgroup/cpu.max", "390000 100000");
  EXPECT_EQ(Choose(8).threads, 3);
  EXPECT_EQ(Choose(2).threads, 2);
  Write("/sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(Choose(8).threads, 8);
  Write("/sys/fs/cgroup/cpu.max", "?");
  EXPECT_EQ(Choose(8).threads, 8);
}

TEST_F(FakeMachine, SmallestQuotaOfTheGroupsAboveCounts) {
  Write("/proc/self/cgroup", "0::/kube.slice/pod7/main");
  Write("/sys/fs/cgroup/kube.slice/cpu.max", "1600000 100000");
  Write("/sys/fs/cgroup/kube.slice/pod7/cpu.max", "300000 100000");
  Write("/sys/fs/cgroup/kube.slice/pod7/main/cpu.max", "max 100000");
  Write("/sys/fs/cgroup/kube.slice/pod8/cpu.max", "100000 100000");  // someone else's
  EXPECT_EQ(Choose(8).threads, 3);
}

TEST_F(FakeMachine, OldControlGroupsHaveAQuotaToo) {
  Write("/proc/self/cgroup", "11:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n0::/");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us", "250000");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_period_us", "100000");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Choose(8).threads, 2);
}

TEST_F(FakeMachine, PathOfTheHostThatIsNotInTheContainerLeavesItsOwnQuota) {
  Write("/proc/self/cgroup", "3:cpu:/docker/ab\n0::/../../elsewhere");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Choose(8).threads, 4);
}

TEST_F(FakeMachine, LittleCoresOfAPhoneAreLeftOut) {
  for (int cpu = 0; cpu < 8; ++cpu) WriteCpu(cpu, "cpu_capacity", cpu < 4 ? "325" : "1024");
  const ThreadChoice choice = Choose(8);
  EXPECT_EQ(choice.threads, 4);
  EXPECT_EQ(choice.why, "4 performance cores of 8 processors");
  // A process that may use the little ones alone uses them.
  EXPECT_EQ(Choose(4).threads, 4);
}

TEST_F(FakeMachine, OfThreeKindsOfCoreOnlyTheSlowestIsLeftOut) {
  for (int cpu = 0; cpu < 8; ++cpu) {
    WriteCpu(cpu, "cpu_capacity", cpu < 4 ? "250" : cpu < 6 ? "498" : "1024");
  }
  EXPECT_EQ(Choose(8).threads, 4);
}

TEST_F(FakeMachine, CoresThatDifferLittleAllCount) {
  for (int cpu = 0; cpu < 8; ++cpu) WriteCpu(cpu, "cpu_capacity", cpu < 6 ? "792" : "1024");
  EXPECT_EQ(Choose(8).threads, 8);
}

TEST_F(FakeMachine, MissingCapacityOfOneCoreMeansNoClasses) {
  for (int cpu = 0; cpu < 7; ++cpu) WriteCpu(cpu, "cpu_capacity", cpu < 4 ? "325" : "1024");
  EXPECT_EQ(Choose(8).threads, 8);
}

TEST_F(FakeMachine, PerformanceCoresOfAHybridX86AreNamedByTheKernel) {
  Write("/sys/devices/cpu_core/cpus", "0-7");
  Write("/sys/devices/cpu_atom/cpus", "8-15");
  for (int cpu = 0; cpu < 16; ++cpu) {
    const int first = cpu / 2 * 2;
    WriteCpu(
        cpu, "topology/thread_siblings_list",
        cpu < 8 ? std::to_string(first) + "-" + std::to_string(first + 1) : std::to_string(cpu));
  }
  const ThreadChoice choice = Choose(16);
  EXPECT_EQ(choice.threads, 8);
  EXPECT_EQ(choice.why,
            "8 performance cores of 16 processors, 4 of them on a core that another one shares");
  const std::vector<int> atoms = {8, 9, 10};
  EXPECT_EQ(ChooseThreads(atoms, root_).threads, 3);
  Write("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(Choose(16).threads, 2);
}

TEST_F(FakeMachine, FrequencyTellsTheClassesWhereNothingElseDoes) {
  for (int cpu = 0; cpu < 6; ++cpu) {
    WriteCpu(cpu, "cpufreq/cpuinfo_max_freq", cpu < 4 ? "1804800" : "2803200");
  }
  EXPECT_EQ(Choose(6).threads, 2);
  for (int cpu = 0; cpu < 6; ++cpu) {  // favoured cores of one kind
    WriteCpu(cpu, "cpufreq/cpuinfo_max_freq", cpu < 4 ? "4900000" : "5100000");
  }
  EXPECT_EQ(Choose(6).threads, 6);
}

TEST(ThreadChoice, RealMachineHasAtLeastOneThreadAndAReason) {
  const ThreadChoice choice = ChooseThreads();
  EXPECT_GE(choice.threads, 1);
  EXPECT_LE(choice.threads, static_cast<int>(AllowedProcessors().size()));
  EXPECT_FALSE(choice.why.empty());
}

TEST(ProcessorList, ReadsRangesAndRefusesTheRest) {
  EXPECT_EQ(ParseProcessorList("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(ParseProcessorList("5"), std::vector<int>{5});
  for (const char* bad : {"", "\n", "a", "1-", "-1", "3-1", "1,,2", "0-99999999", "1;2"}) {
    EXPECT_TRUE(ParseProcessorList(bad).empty()) << bad;
  }
}

TEST_F(FakeMachine, FactsAreReadFromTheKernelsFiles) {
  Write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU 9\nflags\t: a b");
  Write("/proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB");
  Write("/proc/sys/kernel/ostype", "Linux");
  Write("/proc/sys/kernel/osrelease", "6.1.0");
  Write("/sys/devices/system/cpu/online", "0-3");
  for (int cpu = 0; cpu < 4; ++cpu) {
    WriteCpu(cpu, "topology/thread_siblings_list", cpu < 2 ? "0-1" : "2-3");
    WriteCpu(cpu, "cpufreq/scaling_governor", cpu < 2 ? "powersave" : "performance");
  }
  const MachineInfo info = ReadMachineInfo(root_);
  EXPECT_EQ(info.cpu_model, "Test CPU 9");
  EXPECT_EQ(info.processors, 4);
  EXPECT_EQ(info.cores, 2);
  EXPECT_EQ(info.governor, "performance, powersave");
  EXPECT_EQ(info.ram_bytes, 16384U * 1024);
  EXPECT_EQ(info.kernel, "Linux 6.1.0");
}

TEST_F(FakeMachine, WhatIsNotThereIsAbsent) {
  const MachineInfo info = ReadMachineInfo(root_);
  EXPECT_FALSE(info.cpu_model || info.processors || info.cores || info.governor || info.ram_bytes ||
               info.kernel);
  EXPECT_FALSE(TakeBusySample(root_).ok());
  EXPECT_FALSE(ReadResidentBytes(root_).ok());
  EXPECT_FALSE(TakeEnergySample(root_));
}

TEST_F(FakeMachine, BusyShareLeavesOutThisProcess) {
  Write("/proc/self/stat", "7 (a) b) S 1 1 1 0 -1 4 5 0 0 0 30 20 0 0 20 0 1 0 9");
  Write("/proc/stat", "cpu  100 0 50 800 50 0 0 10 7 0\ncpu0 1 2 3 4");
  const auto before = TakeBusySample(root_);
  ASSERT_TRUE(before.ok()) << before.message();
  EXPECT_EQ(before->total, 1010U);
  EXPECT_EQ(before->busy, 160U);
  EXPECT_EQ(before->own, 50U);
  EXPECT_FALSE(BusyShareOfOthers(*before, *before));
  Write("/proc/self/stat", "7 (a) b) S 1 1 1 0 -1 4 5 0 0 0 60 20 0 0 20 0 1 0 9");
  Write("/proc/stat", "cpu  150 0 50 830 60 0 0 20 7 0");
  const auto after = TakeBusySample(root_);
  ASSERT_TRUE(after.ok());
  const auto share = BusyShareOfOthers(*before, *after);
  ASSERT_TRUE(share);
  EXPECT_DOUBLE_EQ(*share, 0.3);  // 60 busy of 100, 30 of them ours
  Write("/proc/stat", "cpu  1 x 3 4");
  EXPECT_FALSE(TakeBusySample(root_).ok());
  Write("/proc/stat", "intr 1 2 3 4 5");
  EXPECT_FALSE(TakeBusySample(root_).ok());
}

TEST_F(FakeMachine, ResidentMemoryIsInBytes) {
  Write("/proc/self/status", "Name:\ta\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\nRssAnon:\t 1 kB");
  const auto memory = ReadResidentBytes(root_);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->peak, 2048U * 1024);
  EXPECT_EQ(memory->now, 1024U * 1024);
  EXPECT_EQ(memory->anonymous, 1024U);
  EXPECT_FALSE(memory->file);
}

TEST_F(FakeMachine, EnergyCountsPackagesOnceAndAcrossAnOverflow) {
  const auto counter = [&](const std::string& name, const std::string& kind, const char* value) {
    Write("/sys/class/powercap/" + name + "/name", kind);
    Write("/sys/class/powercap/" + name + "/energy_uj", value);
    Write("/sys/class/powercap/" + name + "/max_energy_range_uj", "10000000");
  };
  counter("intel-rapl:0", "package-0", "1000000");
  counter("intel-rapl:0:0", "core", "500000");
  counter("intel-rapl:1", "package-1", "9500000");
  counter("intel-rapl:2", "psys", "7");
  const auto before = TakeEnergySample(root_);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->counters.size(), 2U);
  counter("intel-rapl:0", "package-0", "3000000");
  counter("intel-rapl:1", "package-1", "500000");
  const auto after = TakeEnergySample(root_);
  ASSERT_TRUE(after);
  const auto joules = EnergyJoules(*before, *after);
  ASSERT_TRUE(joules);
  EXPECT_DOUBLE_EQ(*joules, 3.0);
  EXPECT_FALSE(EnergyJoules(*before, EnergySample()));
}

TEST(MachineInfo, ThisProcessHasTimeAndMemory) {
  const auto seconds = ProcessCpuSeconds();
  ASSERT_TRUE(seconds.ok());
  EXPECT_GT(*seconds, 0);
  const auto memory = ReadResidentBytes();
  if (memory.ok() && memory->peak && memory->now) {
    EXPECT_GE(*memory->peak, *memory->now);
  }
}

}  // namespace
}  // namespace hone
