// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "base/cpu_info.h"
#include "base/file.h"
#include "base/float16.h"
#include "base/json.h"
#include "base/status.h"
#include "base/thread_pool.h"

namespace hone {
namespace {

TEST(Status, IsOnePointerAndKeepsContextOrder) {
  static_assert(sizeof(Status) == sizeof(void*));
  Status s = Status(Code::kDataLoss, "ends at 912").Context("section 3").Context("m.litertlm");
  EXPECT_EQ(s.message(), "m.litertlm: section 3: ends at 912");
  EXPECT_EQ(ExitCode(s.code()), 5);
}

TEST(Json, KeepsOrderAndNumbers) {
  auto j = ParseJson(R"({"b":1,"a":[true,null,1.5,"\u00e9"],"big":18446744073709551615})");
  ASSERT_TRUE(j.ok()) << j.message();
  EXPECT_EQ(j->Dump(),
            "{\"b\":1,\"a\":[true,null,1.5,\"\xc3\xa9\"],\"big\":1.8446744073709552e+19}");
  EXPECT_EQ(*GetInt(*j, "b"), 1);
  EXPECT_FALSE(GetInt(*j, "a").ok());
}

TEST(Json, RefusesDuplicateKeysDeepNestingAndTrailingText) {
  EXPECT_NE(ParseJson(R"({"a":1,"a":2})").message().find("appears twice"), std::string_view::npos);
  EXPECT_FALSE(ParseJson(std::string(200000, '[')).ok());
  EXPECT_FALSE(ParseJson("{} x").ok());
  EXPECT_FALSE(ParseJson("\xef\xbb\xbf{}").ok());
  EXPECT_FALSE(ParseJson("\"\xff\"").ok());
  EXPECT_NE(ParseJson("{\n \"a\": ]").message().find("line 2"), std::string_view::npos);
}

TEST(Json, ErrorsStayShortForAHugeToken) {
  const std::string text = "{\"a\": \"" + std::string(1 << 20, 'x') + "\x01\"}";
  const auto json = ParseJson(text);
  ASSERT_FALSE(json.ok());
  EXPECT_LT(json.message().size(), 500U);
}

TEST(Float16, RoundTripsEveryHalf) {
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const float f = Fp16ToFloat(static_cast<std::uint16_t>(h));
    if (std::isnan(f)) continue;
    ASSERT_EQ(FloatToFp16(f), h) << h;
    const float b = Bf16ToFloat(static_cast<std::uint16_t>(h));
    if (std::isnan(b)) continue;
    ASSERT_EQ(FloatToBf16(b), h) << h;
  }
}

#if defined(__FLT16_MAX__) && defined(__x86_64__) && !defined(__clang__)
TEST(Float16, RoundsAsTheCompilerDoes) {
  std::uint32_t x = 1;
  for (int i = 0; i < 2000000; ++i) {
    x = x * 1664525U + 1013904223U;
    const float f = std::bit_cast<float>(x);
    if (std::isnan(f)) continue;
    ASSERT_EQ(FloatToFp16(f), std::bit_cast<std::uint16_t>(static_cast<_Float16>(f))) << f;
  }
}
#endif

TEST(AtomicFile, AppearsOnlyAtCommit) {
  const std::string path = testing::TempDir() + "hone_atomic";
  std::remove(path.c_str());
  {
    auto f = AtomicFile::Create(path);
    ASSERT_TRUE(f.ok()) << f.message();
    ASSERT_TRUE((*f)->Append(AsBytes("abc")).ok());
    EXPECT_FALSE(FileExists(path));
  }
  EXPECT_FALSE(FileExists(path));
  auto f = AtomicFile::Create(path);
  ASSERT_TRUE(f.ok());
  ASSERT_TRUE((*f)->Append(AsBytes("abc")).ok());
  ASSERT_TRUE((*f)->WriteAt(1, AsBytes("X")).ok());
  ASSERT_TRUE((*f)->Commit().ok());
  EXPECT_EQ(*ReadFile(path), "aXc");
  EXPECT_EQ(AsText(MappedFile::Open(path)->bytes()), "aXc");
  EXPECT_EQ(ReadFile("/nonexistent/x").code(), Code::kNotFound);
}

TEST(MappedFile, ANamedPipeIsRefusedAndNotWaitedFor) {
  const std::string path = testing::TempDir() + "/hone_base_test.pipe";
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto map = MappedFile::Open(path);
  ASSERT_FALSE(map.ok());
  EXPECT_NE(map.message().find("not a regular file"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(ThreadPool, RunsEveryPartOnce) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> hits(37);
      pool.Run(37, [&](int part) { hits[static_cast<std::size_t>(part)].fetch_add(1); });
      for (auto& h : hits) ASSERT_EQ(h.load(), 1);
    }
    std::vector<std::atomic<int>> items(1003);
    pool.For(1003, 16, [&](std::int64_t b, std::int64_t e) {
      EXPECT_EQ(b % 16, 0);
      for (auto i = b; i < e; ++i) items[static_cast<std::size_t>(i)].fetch_add(1);
    });
    for (auto& h : items) ASSERT_EQ(h.load(), 1);
  }
}

TEST(ThreadPool, SleepingWorkersWakeForTheNextJob) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // long enough for all to sleep
    std::atomic<int> sum{0};
    pool.Run(5, [&](int part) { sum.fetch_add(part + 1); });
    ASSERT_EQ(sum.load(), 15);
  }
}

// Jobs of changing size, one right after the other: a worker that comes late to one of them must
// neither take a part of the next one for it nor call a task that is gone.
TEST(ThreadPool, LateWorkersTakePartsOfTheRightJob) {
  ThreadPool pool(4);
  for (int round = 0; round < 5000; ++round) {
    const int parts = 2 + round % 7;
    std::array<std::atomic<int>, 8> seen{};
    pool.Run(parts, [&seen, round](int part) {
      seen[static_cast<std::size_t>(part)].fetch_add(round + 1);
    });
    for (int part = 0; part < 8; ++part) {
      ASSERT_EQ(seen[static_cast<std::size_t>(part)].load(), part < parts ? round + 1 : 0);
    }
  }
}

// A thread that is held up keeps the job waiting for its own part alone.
TEST(ThreadPool, OtherThreadsTakeThePartsOfAThreadThatIsHeldUp) {
  ThreadPool pool(2);
  std::atomic<int> others{0};
  pool.Run(50, [&](int part) {
    if (part != 0) {
      others.fetch_add(1);
      return;
    }
    while (others.load() < 49) std::this_thread::yield();
  });
  EXPECT_EQ(others.load(), 49);
}

#if !defined(__SANITIZE_THREAD__)
TEST(ThreadPool, ASecondJobAtTheSameTimeEndsTheProgram) {
  const auto two_jobs = [] {
    ThreadPool pool(2);
    pool.Run(2, [&](int) { pool.Run(2, [](int) {}); });
  };
  EXPECT_DEATH(two_jobs(), "busy");
}
#endif

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  auto count = [&calls](int n) { return calls += n; };
  const FunctionRef<int(int)> ref = count;
  const FunctionRef<int(int)> copy = ref;
  EXPECT_EQ(ref(2), 2);
  EXPECT_EQ(copy(3), 5);
  const std::function<int(int)> function = [](int n) { return n + 1; };
  EXPECT_EQ(FunctionRef<int(int)>(function)(1), 2);
}

// Neither the sanitizers nor qemu keep to the limit.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ThreadPool, WorksWithTheThreadsThatTheSystemAllows) {
  const auto with_little_memory = [] {
    const rlimit limit{256U << 20, 256U << 20};
    ::setrlimit(RLIMIT_AS, &limit);  // the stacks of a few threads
    ThreadPool pool(1024);
    std::atomic<int> runs{0};
    pool.Run(100, [&](int) { runs.fetch_add(1); });
    std::_Exit(pool.num_threads() < 1024 && runs.load() == 100 ? 0 : 1);
  };
  EXPECT_EXIT(with_little_memory(), testing::ExitedWithCode(0), "");
}
#endif

TEST(CpuInfo, UnknownCapIsRefusedByName) {
  const char* before = std::getenv("HONE_CPU");
  const std::string saved = before == nullptr ? "" : before;
  ASSERT_EQ(::setenv("HONE_CPU", "nope", 1), 0);
  const Status bad = CheckCpuCap();
  ASSERT_EQ(::setenv("HONE_CPU", "avx2", 1), 0);
  const Status good = CheckCpuCap();
  ASSERT_EQ(::setenv("HONE_CPU", saved.c_str(), 1), 0);
  EXPECT_EQ(bad.code(), Code::kInvalidArgument);
  EXPECT_NE(bad.message().find("\"nope\", expected one of baseline, portable, avx2, avxvnni"),
            std::string_view::npos)
      << bad.message();
  EXPECT_TRUE(good.ok()) << good.message();
}

TEST(CpuInfo, NamesAreTheTargetsInOrder) {
  for (int t = 0; t <= static_cast<int>(CpuTarget::kNeonI8mm); ++t) {
    const auto target = static_cast<CpuTarget>(t);
    EXPECT_EQ(CpuTargetFromName(CpuTargetName(target)), target);
  }
  EXPECT_EQ(CpuTargetFromName("baseline"), CpuTarget::kPortable);
  EXPECT_STREQ(CpuTargetName(CpuTarget::kPortable), "portable");
  EXPECT_STREQ(CpuTargetName(CpuTarget::kAvxVnni), "avxvnni");
  EXPECT_LT(CpuTarget::kAvx2, CpuTarget::kAvxVnni);
  EXPECT_LT(CpuTarget::kAvxVnni, CpuTarget::kAvx512Vnni);
  EXPECT_FALSE(CpuTargetFromName(""));
  EXPECT_FALSE(CpuTargetFromName("AVX2"));
}

#if defined(__x86_64__)
// The kernel lists a feature where both the processor and the state that it keeps allow it.
TEST(CpuInfo, AgreesWithTheKernelsList) {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line) && line.rfind("flags", 0) != 0) {
  }
  const std::string flags = line + " ";
  const auto has = [&](const char* flag) { return flags.find(flag) != std::string::npos; };
  const bool avx2 = has(" avx2 ") && has(" fma ") && has(" f16c ");
  if (CpuSupports(CpuTarget::kAvx2)) {
    EXPECT_TRUE(avx2);
  }
  if (CpuSupports(CpuTarget::kAvxVnni)) {
    EXPECT_TRUE(avx2 && has(" avx_vnni "));
  }
  if (CpuSupports(CpuTarget::kAvx512Vnni)) {
    EXPECT_TRUE(avx2 && has(" avx512_vnni "));
  }
  EXPECT_TRUE(CpuSupports(CpuTarget::kPortable));
  EXPECT_FALSE(CpuSupports(CpuTarget::kNeonDot));
}
#endif

TEST(AtomicFile, KeepsTheUsersFileMode) {
  const std::string path = testing::TempDir() + "hone_mode";
  const mode_t before = ::umask(027);
  const Status written = WriteFileAtomic(path, AsBytes("x"));
  ::umask(before);
  ASSERT_TRUE(written.ok()) << written.message();
  struct stat st{};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0640);
}

TEST(AtomicFile, RemovesWhatAKilledProgramLeftAndNothingElse) {
  const std::string path = testing::TempDir() + "hone_left";
  const auto write = [](const std::string& name) { std::ofstream(name) << "x"; };
  write(path + ".tmp-123-0");
  write(path + ".tmp-mine");
  write(path + "2.tmp-123-0");
  auto other = AtomicFile::Create(path + "3");  // someone at work, also on the same name
  auto same = AtomicFile::Create(path);
  ASSERT_TRUE(other.ok() && same.ok());
  EXPECT_FALSE(FileExists(path + ".tmp-123-0"));
  EXPECT_TRUE(FileExists(path + ".tmp-mine"));
  EXPECT_TRUE(FileExists(path + "2.tmp-123-0"));
  ASSERT_TRUE(WriteFileAtomic(path, AsBytes("second")).ok());
  ASSERT_TRUE((*same)->Append(AsBytes("first")).ok());
  ASSERT_TRUE((*same)->Commit().ok());
  EXPECT_EQ(*ReadFile(path), "first");
  ASSERT_TRUE((*other)->Commit().ok());
}

TEST(TemporaryFolder, IsGoneAfterwardsAndFromASignalHandlerToo) {
  const std::string prefix = testing::TempDir() + "hone_folder-";
  std::filesystem::create_directory(prefix + "aB3_x9");  // of a program that was killed
  std::filesystem::create_directory(prefix + "of-mine");
  std::string path;
  {
    auto folder = TemporaryFolder::Create(prefix);
    ASSERT_TRUE(folder.ok()) << folder.message();
    path = (*folder)->path();
    EXPECT_FALSE(IsDirectory(prefix + "aB3_x9"));
    EXPECT_TRUE(IsDirectory(prefix + "of-mine"));
    std::ofstream(path + "/any") << "x";
    auto second = TemporaryFolder::Create(prefix);
    EXPECT_TRUE(IsDirectory(path)) << "a folder in use was removed";
  }
  EXPECT_FALSE(IsDirectory(path));
  auto folder = TemporaryFolder::Create(prefix);
  ASSERT_TRUE(folder.ok());
  (*folder)->Expect("known");
  std::ofstream((*folder)->path() + "/known") << "x";
  RemoveAllTemporaries();
  EXPECT_FALSE(IsDirectory((*folder)->path()));
  std::filesystem::remove(prefix + "of-mine");
}

TEST(SubSpan, NeverWraps) {
  const std::string s = "abcd";
  EXPECT_FALSE(SubSpan(AsBytes(s), ~0ULL, 2).has_value());
  EXPECT_FALSE(SubSpan(AsBytes(s), 2, ~0ULL).has_value());
  EXPECT_TRUE(SubSpan(AsBytes(s), 4, 0).has_value());
}

}  // namespace
}  // namespace hone
