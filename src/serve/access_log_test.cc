// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/access_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/test_folder.h"

namespace hone::serve {
namespace {

HttpAccess SomeAccess() {
  HttpAccess access;
  access.remote = "127.0.0.1:40000";
  access.method = "POST";
  access.path = "/v1/chat/completions";
  access.status = 200;
  access.request_body_bytes = 12;
  access.response_bytes = 345;
  access.duration = std::chrono::microseconds(1500);
  access.streamed = true;
  return access;
}

TEST(AccessLine, IsOneObjectOfJson) {
  EXPECT_EQ(AccessLine(SomeAccess(), 1'769'860'800),
            R"({"time":"2026-01-31T12:00:00Z","remote":"127.0.0.1:40000","method":"POST",)"
            R"("path":"/v1/chat/completions","status":200,"request_bytes":12,)"
            R"("response_bytes":345,"ms":1.5,"stream":true})"
            "\n");
}

TEST(AccessLine, KeepsAnyPathOnOneLineAndSaysWhyItWasCancelled) {
  HttpAccess access = SomeAccess();
  access.path = "/a\"\nb\x1b[2J\xff";
  access.cancelled = CancelReason::kClientGone;
  const std::string line = AccessLine(access, 0);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  const auto json = ParseJson(line.substr(0, line.size() - 1));
  ASSERT_TRUE(json.ok()) << json.message();
  EXPECT_EQ(*GetString(*json, "cancelled"), "client_gone");
}

TEST(AccessLog, AppendsToAFileThatOnlyItsOwnerReads) {
  const TestFolder folder;
  const std::string path = folder.File("access.log");
  for (int round = 0; round < 2; ++round) {
    auto log = AccessLog::Open(path);
    ASSERT_TRUE(log.ok()) << log.message();
    for (int i = 0; i < 100; ++i) (*log)->Add(SomeAccess());
  }
  const auto text = ReadFile(path);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(std::count(text->begin(), text->end(), '\n'), 200);
  struct stat facts{};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST(AccessLog, SaysIfItCannotBeOpened) {
  const TestFolder folder;
  EXPECT_EQ(AccessLog::Open(folder.path()).code(), Code::kIo);
  EXPECT_EQ(AccessLog::Open(folder.File("no/such/folder.log")).code(), Code::kIo);
}

}  // namespace
}  // namespace hone::serve
