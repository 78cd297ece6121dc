// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
  EXPECT_NE(bad.message().find("\"nope\", expected one of portable, avx2"), std::string_view::npos)
      << bad.message();
  EXPECT_TRUE(good.ok()) << good.message();
}

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
