// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Downloads that work, from a local server that plays the hub: what is asked for, where it lies,
// and how a later run goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "hub/cache.h"
#include "hub/file_lock.h"
#include "hub_server.h"
#include "run_command.h"

namespace hone::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string Repo(const HubTest& hub, const std::string& kind) {
  return StrCat(hub.settings.cache, "/models--test--", kind);
}

std::uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

std::vector<std::string> Names(const hub::PullReport& report) {
  std::vector<std::string> names;
  for (const auto& file : report.files) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Pull, LoadsWhatConvertReadsIntoTheSharedLayout) {
  HubTest hub;
  const auto report = hub.Pull("test/plain");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(report->commit, kCommit);
  EXPECT_EQ(Names(*report), (std::vector<std::string>{"config.json", "empty.json",
                                                      "model.safetensors", "tokenizer.json"}));
  const std::string repo = Repo(hub, "plain");
  EXPECT_EQ(report->folder, StrCat(repo, "/snapshots/", kCommit));
  EXPECT_EQ(*ReadFile(repo + "/refs/main"), kCommit);
  for (const auto& file : report->files) {
    const std::string path = StrCat(report->folder, "/", file.name);
    EXPECT_EQ(fs::read_symlink(path).string(), "../../blobs/" + file.etag) << path;
    EXPECT_EQ(SizeOf(path), file.bytes);
  }
  EXPECT_EQ(SizeOf(report->folder + "/model.safetensors"), 1000003U);
  EXPECT_EQ(ListFolder(repo + "/blobs").size(), 4U) << "something else was left";
  EXPECT_TRUE(hub.notes.empty()) << hub.notes[0];
}

TEST(Pull, AsksForLargeFilesInRangesAndForSmallOnesOnce) {
  HubTest hub;
  ASSERT_TRUE(hub.Pull("test/ranges").ok());
  int ranges = 0;
  for (const SeenRequest& seen : HubTest::Server().Log("ranges")) {
    if (seen.host == "hub" && seen.path.find("config.json") != std::string::npos) {
      EXPECT_EQ(seen.range, "");
    }
    if (seen.host == "storage") ++ranges;
  }
  EXPECT_EQ(ranges, 4);  // 1,000,003 bytes in pieces of 256 KiB
}

TEST(Pull, GivesTheTokenToTheHubAndToNobodyElse) {
  HubTest hub;
  hub.settings.token = "good";
  ASSERT_TRUE(hub.Pull("test/gated").ok());
  bool stored = false;
  for (const SeenRequest& seen : HubTest::Server().Log("gated")) {
    EXPECT_EQ(seen.token, seen.host == "hub" ? "Bearer good" : "") << seen.path;
    stored = stored || seen.host == "storage";
  }
  EXPECT_TRUE(stored);
}

TEST(Pull, LoadsNothingTwice) {
  HubTest hub;
  ASSERT_TRUE(hub.Pull("test/again").ok());
  const std::size_t before = HubTest::Server().Log("again").size();
  const auto report = hub.Pull("test/again");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->loaded_bytes, 0U);
  EXPECT_TRUE(std::all_of(report->files.begin(), report->files.end(),
                          [](const auto& file) { return file.was_there; }));
  EXPECT_EQ(HubTest::Server().Log("again").size(), before + 1) << "the list of files only";
}

TEST(Pull, SharesBlobsBetweenRevisionsAlsoWithASlashInTheirNames) {
  HubTest hub;
  ASSERT_TRUE(hub.Pull("test/revisions").ok());
  const auto report = hub.Pull("test/revisions@v1/beta");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(report->loaded_bytes, 0U);
  EXPECT_NE(report->commit, kCommit);
  EXPECT_EQ(*ReadFile(Repo(hub, "revisions") + "/refs/v1/beta"), report->commit);
  EXPECT_EQ(SizeOf(report->folder + "/model.safetensors"), 1000003U);
}

TEST(Pull, TakesWhatIncludeAsksFor) {
  HubTest hub;
  hub.options.selection.include = {"*.gguf"};
  hub.options.selection.exclude = {"*Q4*"};
  auto report = hub.Pull("test/gguf");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(Names(*report), std::vector<std::string>{"tiny-Q8_0.gguf"});
  hub.options.selection = {.include = {"onnx/"}, .exclude = {}};
  report = hub.Pull("test/plain");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(SizeOf(report->folder + "/onnx/model.onnx"), 12000U);
  EXPECT_EQ(fs::read_symlink(report->folder + "/onnx/model.onnx").string().substr(0, 19),
            "../../../blobs/" + report->files[0].etag.substr(0, 4));
}

TEST(Pull, LoadsTwoFilesOfTheSameBytes) {
  HubTest hub;
  auto report = hub.Pull("test/twins");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_LT(report->loaded_bytes, 1100000U) << "one blob for both";
  EXPECT_EQ(SizeOf(report->folder + "/model-2.safetensors"), 1000003U);
  hub.options.local_dir = hub.root + "/model";
  report = hub.Pull("test/twins");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(SizeOf(report->folder + "/model-2.safetensors"), 1000003U);
}

TEST(Pull, WorksWithAServerThatKnowsNoRanges) {
  HubTest hub;
  const auto report = hub.Pull("test/noranges");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(SizeOf(report->folder + "/model.safetensors"), 1000003U);
}

TEST(Pull, GoesOnWhereAConnectionWasCut) {
  HubTest hub;
  hub.options.transfer.max_tries = 20;
  const auto report = hub.Pull("test/cut");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(report->loaded_bytes, report->bytes) << "no byte came twice";
}

TEST(Pull, WaitsForABusyHubAndForANewSignature) {
  HubTest hub;
  const auto busy = hub.Pull("test/busy");
  EXPECT_TRUE(busy.ok()) << busy.message();
  const auto expired = hub.Pull("test/expired");
  EXPECT_TRUE(expired.ok()) << expired.message();
}

TEST(Pull, AsksTheFilesThemselvesIfTheListHasNoHashes) {
  HubTest hub;
  const auto report = hub.Pull("test/noblobs");
  ASSERT_TRUE(report.ok()) << report.message();
  for (const auto& file : report->files) EXPECT_FALSE(hub::HashOfEtag(file.etag).empty());
  EXPECT_EQ(SizeOf(report->folder + "/model.safetensors"), 1000003U);
}

TEST(Pull, PutsFilesIntoALocalFolderAndKnowsThemAgain) {
  HubTest hub;
  hub.options.local_dir = hub.root + "/model";
  auto report = hub.Pull("test/local");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(hub.root + "/model/model.safetensors")));
  EXPECT_FALSE(fs::exists(hub.settings.cache));
  const std::string notes = hub.root + "/model/.cache/huggingface/download/config.json.metadata";
  EXPECT_EQ(ReadFile(notes)->substr(0, 41), StrCat(kCommit, "\n"));
  report = hub.Pull("test/local");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(report->loaded_bytes, 0U);
}

TEST(Pull, KeepsAFileOfTheUserUnlessForced) {
  HubTest hub;
  hub.options.local_dir = hub.root + "/model";
  fs::create_directories(hub.options.local_dir);
  ASSERT_TRUE(WriteFileAtomic(hub.root + "/model/config.json", AsBytes("mine")).ok());
  auto report = hub.Pull("test/local");
  EXPECT_EQ(report.code(), Code::kInvalidArgument);
  EXPECT_NE(report.message().find("--force"), std::string_view::npos) << report.message();
  EXPECT_EQ(*ReadFile(hub.root + "/model/config.json"), "mine");
  hub.options.force = true;
  report = hub.Pull("test/local");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_NE(*ReadFile(hub.root + "/model/config.json"), "mine");
}

TEST(Pull, DoesNotGoThroughALinkInALocalFolder) {
  HubTest hub;
  hub.options.local_dir = hub.root + "/model";
  hub.options.selection.include = {"onnx/*"};
  fs::create_directories(hub.root + "/model");
  fs::create_directories(hub.root + "/elsewhere");
  fs::create_directory_symlink(hub.root + "/elsewhere", hub.root + "/model/onnx");
  const auto report = hub.Pull("test/local");
  EXPECT_EQ(report.code(), Code::kInvalidArgument);
  EXPECT_NE(report.message().find("a link"), std::string_view::npos) << report.message();
  EXPECT_TRUE(ListFolder(hub.root + "/elsewhere").empty());
}

TEST(Pull, ReportsUnfinishedDownloadsThatNobodyWorksOn) {
  HubTest hub;
  const std::string blobs = Repo(hub, "left") + "/blobs";
  fs::create_directories(blobs);
  const std::string left = blobs + "/" + std::string(64, 'a') + ".hone.incomplete";
  ASSERT_TRUE(WriteFileAtomic(left, AsBytes("x")).ok());
  ASSERT_TRUE(hub.Pull("test/left").ok());
  ASSERT_EQ(hub.notes.size(), 1U);
  EXPECT_NE(hub.notes[0].find(left), std::string::npos) << hub.notes[0];
}

// Starts a download of 6 MB in another process. It does not end before the server may go on.
pid_t StartBig(HubTest* hub) {
  HubTest::Server().Hold();
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(hub->Pull("test/big").ok() ? 0 : 1);
  return pid;
}

std::string PartialOf(const HubTest& hub) {
  std::error_code error;
  for (fs::directory_iterator it(Repo(hub, "big") + "/blobs", error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".incomplete" && fs::file_size(it->path(), error) > 5000000) {
      return it->path().string();
    }
  }
  return "";
}

bool WaitForPartial(const HubTest& hub) {
  for (int i = 0; i < 30'000; ++i) {
    struct stat st{};
    const std::string path = PartialOf(hub);
    if (!path.empty() && ::stat(path.c_str(), &st) == 0 && st.st_blocks * 512 > 1500000)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

TEST(Pull, GoesOnAfterBeingKilled) {
  HubTest hub;
  hub.options.transfer.connections = 4;
  const pid_t pid = StartBig(&hub);
  const bool began = WaitForPartial(hub);
  ::kill(pid, SIGKILL);
  int state = 0;
  ::waitpid(pid, &state, 0);
  HubTest::Server().Go();
  ASSERT_TRUE(began);
  ASSERT_TRUE(WIFSIGNALED(state)) << "it was done before it could be killed";
  EXPECT_EQ(hub::FindSnapshot(hub.settings.cache, {.name = "test/big"}).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(Repo(hub, "big") + "/snapshots/" + kCommit))
      << "half a model looks whole";
  const auto report = hub.Pull("test/big");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_LT(report->loaded_bytes, report->bytes - 500000);
  EXPECT_EQ(SizeOf(report->folder + "/model.safetensors"), 6000000U);
  EXPECT_EQ(PartialOf(hub), "");
}

TEST(Pull, TwoAtATimeLoadEachFileOnce) {
  HubTest hub;
  const pid_t pid = StartBig(&hub);
  const bool began = WaitForPartial(hub);
  hub.options.transfer.note = [&](const std::string& text) {
    hub.notes.push_back(text);
    HubTest::Server().Go();
  };
  const auto report = hub.Pull("test/big");
  HubTest::Server().Go();
  int state = 0;
  ::waitpid(pid, &state, 0);
  ASSERT_TRUE(began);
  EXPECT_EQ(state, 0);
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_LT(report->loaded_bytes, 1000000U);
  ASSERT_FALSE(hub.notes.empty());
  EXPECT_NE(hub.notes[0].find("another program loads it"), std::string::npos);
}

TEST(Pull, KeepsWhatItHasWhenCancelled) {
  HubTest hub;
  std::atomic<bool> cancel{false};
  hub.options.transfer.cancel = &cancel;
  hub.options.transfer.progress = [&](std::uint64_t done, std::uint64_t, std::string_view) {
    if (done > 2000000) cancel = true;
  };
  EXPECT_EQ(hub.Pull("test/big").code(), Code::kCancelled);
  EXPECT_NE(PartialOf(hub), "");
  cancel = false;
  hub.options.transfer.progress = nullptr;
  const auto report = hub.Pull("test/big");
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_LT(report->loaded_bytes, report->bytes - 500000);
}

TEST(FindSnapshot, TakesOnlyAWholeModel) {
  HubTest hub;
  const hub::RepoRef ref = {.name = "test/plain"};
  EXPECT_EQ(hub::FindSnapshot(hub.settings.cache, ref).code(), Code::kNotFound);
  const auto report = hub.Pull("test/plain");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(*hub::FindSnapshot(hub.settings.cache, ref), report->folder);
  const std::string index = report->folder + "/model.safetensors.index.json";
  ASSERT_TRUE(WriteFileAtomic(index, AsBytes(R"({"weight_map": {"a": "b.safetensors"}})")).ok());
  EXPECT_NE(hub::FindSnapshot(hub.settings.cache, ref).message().find("b.safetensors"),
            std::string_view::npos);
}

}  // namespace
}  // namespace hone::testing
