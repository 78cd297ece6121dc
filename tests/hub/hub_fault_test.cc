// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A hub that refuses, fails, lies or attacks: what the user is told, and that nothing is left which
// looks whole.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "hub_server.h"
#include "run_command.h"

namespace hone::testing {
namespace {

namespace fs = std::filesystem;

// Expects an error with the words and no snapshot.
void ExpectFault(HubTest* hub, const std::string& name, Code code,
                 const std::vector<std::string>& words) {
  SCOPED_TRACE(name);
  const auto report = hub->Pull(name);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.code(), code) << report.message();
  for (const std::string& word : words) {
    EXPECT_NE(report.message().find(word), std::string_view::npos) << word << "\n"
                                                                   << report.message();
  }
  std::error_code error;
  for (fs::recursive_directory_iterator it(hub->root, error), end; !error && it != end;
       it.increment(error)) {
    EXPECT_FALSE(it->is_symlink()) << it->path();
    EXPECT_EQ(it->path().filename().string().find("evil"), std::string::npos) << it->path();
  }
}

TEST(HubFault, AGatedModelIsExplained) {
  HubTest hub;
  ExpectFault(
      &hub, "test/gated", Code::kInvalidArgument,
      {"gated", "(401)", "accept its terms at", "/test/gated", "HF_TOKEN", "is restricted"});
  hub.settings.token = "other";
  hub.settings.token_source = "HF_TOKEN";
  ExpectFault(&hub, "test/gated", Code::kInvalidArgument, {"(403)", "no access yet", "HF_TOKEN"});
}

TEST(HubFault, AGatedModelWhoseListIsPublicIsExplainedAtItsFiles) {
  HubTest hub;
  ExpectFault(&hub, "test/gatedfiles", Code::kInvalidArgument,
              {"gated", "(401)", "accept its terms at"});
}

TEST(HubFault, APrivateModelIsExplained) {
  HubTest hub;
  ExpectFault(&hub, "test/private", Code::kInvalidArgument,
              {"(401)", "check the name", "private or gated", "HF_TOKEN"});
  hub.settings.token = "bad";
  hub.settings.token_source = "/home/me/token";
  ExpectFault(&hub, "test/private", Code::kInvalidArgument,
              {"refuses the token from /home/me/token"});
}

TEST(HubFault, AMissingModelRevisionOrFileIsNamed) {
  HubTest hub;
  ExpectFault(&hub, "test/missing", Code::kNotFound, {"no such model", "check the name"});
  ExpectFault(&hub, "test/plain@v9", Code::kNotFound, {"no revision \"v9\"", "/tree/main"});
  ExpectFault(&hub, "test/vanished", Code::kNotFound, {"is not there (404)"});
}

TEST(HubFault, ItGivesUpAfterSomeTries) {
  HubTest hub;
  hub.options.transfer.max_tries = 3;
  ExpectFault(&hub, "test/down", Code::kIo, {"HTTP status 503"});
  EXPECT_EQ(HubTest::Server().Log("down").size(), 3U);
  ExpectFault(&hub, "test/resting", Code::kIo, {"429", "100000 seconds"});
  EXPECT_EQ(HubTest::Server().Log("resting").size(), 1U);
}

TEST(HubFault, ADeadAddressIsNamed) {
  HubTest hub;
  hub.settings.endpoint = "http://127.0.0.1:1";
  ExpectFault(&hub, "test/plain", Code::kIo, {"127.0.0.1", "tried 3 times", "HF_ENDPOINT"});
  hub.settings.endpoint = "http://no-such-host.invalid";
  ExpectFault(&hub, "test/plain", Code::kIo, {"no-such-host.invalid"});
}

TEST(HubFault, AWrongHashRemovesTheFile) {
  HubTest hub;
  ExpectFault(&hub, "test/wronghash", Code::kDataLoss,
              {"model.safetensors", "SHA-256 is", "the hub says", "was removed"});
  EXPECT_FALSE(fs::exists(hub.settings.cache + "/models--test--wronghash/refs"));
  for (const std::string& name :
       ListFolder(hub.settings.cache + "/models--test--wronghash/blobs")) {
    EXPECT_LT(name.size(), 64U) << "a small file, not " << name;
  }
  ExpectFault(&hub, "test/wronggit", Code::kDataLoss, {"config.json", "SHA-1 of git is"});
}

TEST(HubFault, AnotherSizeOrRangeThanPromisedIsRefused) {
  HubTest hub;
  ExpectFault(&hub, "test/wrongsize", Code::kDataLoss, {"model.safetensors"});
  ExpectFault(&hub, "test/otherrange", Code::kDataLoss, {"another part of the file"});
}

TEST(HubFault, AServerThatCutsAndKnowsNoRangesIsGivenUp) {
  HubTest hub;
  ExpectFault(&hub, "test/cutnoranges", Code::kIo, {"model.safetensors"});
}

TEST(HubFault, NamesThatLeaveTheFolderStopEverything) {
  HubTest hub;
  ExpectFault(&hub, "test/dotdot", Code::kDataLoss, {"../evil.json", "nothing was downloaded"});
  ExpectFault(&hub, "test/absolute", Code::kDataLoss, {"/tmp/evil.json"});
  ExpectFault(&hub, "test/backslash", Code::kDataLoss, {"backslash"});
  ExpectFault(&hub, "test/gitdir", Code::kDataLoss, {".git"});
  ExpectFault(&hub, "test/filefolder", Code::kDataLoss, {"a file and a folder"});
  ExpectFault(&hub, "test/twice", Code::kDataLoss, {"appears twice"});
  EXPECT_FALSE(fs::exists(hub.settings.cache));
}

TEST(HubFault, AnAnswerThatIsNoListIsRefusedAtItsLimit) {
  HubTest hub;
  hub.options.max_answer_bytes = 1 << 20;
  ExpectFault(&hub, "test/hugejson", Code::kDataLoss, {"more than 1048576 bytes"});
  ExpectFault(&hub, "test/nojson", Code::kDataLoss, {"no list of files", "HF_ENDPOINT"});
}

TEST(HubFault, BadRedirectsAreNotFollowed) {
  HubTest hub;
  ExpectFault(&hub, "test/loop", Code::kIo, {"redirects more than"});
  ExpectFault(&hub, "test/filescheme", Code::kUnsupported, {"not https (file)"});
}

TEST(HubFault, AModelWithoutWhatConvertReadsIsDescribed) {
  HubTest hub;
  ExpectFault(&hub, "test/empty", Code::kUnsupported, {"no file in it"});
  ExpectFault(&hub, "test/gguf", Code::kUnsupported,
              {"tiny-Q4_0.gguf, tiny-Q8_0.gguf", "--include 'tiny-Q4_0.gguf'"});
  ExpectFault(&hub, "test/pickle", Code::kUnsupported, {"pickle", "pytorch_model.bin"});
  hub.options.selection.include = {"*.onnx"};
  ExpectFault(&hub, "test/gguf", Code::kInvalidArgument, {"no file matches", "README.md"});
}

TEST(HubFault, AFullDiskIsNoticedFirst) {
  HubTest hub;
  hub.options.spare_disk_bytes = 1ULL << 60;
  ExpectFault(&hub, "test/plain", Code::kIo, {"not enough disk space", "HF_HOME"});
  EXPECT_FALSE(fs::exists(hub.settings.cache));
}

TEST(HubFault, OfflineAsksNobody) {
  HubTest hub;
  hub.settings.offline = true;
  ExpectFault(&hub, "test/offline", Code::kInvalidArgument, {"HF_HUB_OFFLINE"});
  EXPECT_TRUE(HubTest::Server().Log("offline").empty());
}

}  // namespace
}  // namespace hone::testing
