// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/import_request.h"

#include <gtest/gtest.h>

namespace hone::serve {
namespace {

Request ImportOf(std::string body, std::string remote = "127.0.0.1:40000") {
  Request request;
  request.method = "POST";
  request.path = "/models/import";
  request.body = std::move(body);
  request.remote = std::move(remote);
  return request;
}

TEST(ImportRequest, ReadsWhatThePageSends) {
  const auto wish = CheckImport(ImportOf(R"({"path":"/models/m.litertlm","accelerators":["cpu"],)"
                                         R"("context":2048,"thinking":false})"),
                                true);
  ASSERT_TRUE(wish.ok()) << wish.error().message;
  EXPECT_EQ(wish->entry.name, "m");
  EXPECT_EQ(wish->entry.path, "/models/m.litertlm");
  EXPECT_EQ(wish->entry.context, 2048);
  EXPECT_EQ(wish->entry.thinking, false);
  EXPECT_TRUE(wish->warnings.empty());
}

TEST(ImportRequest, LeavesOutWhatIsNotSaid) {
  const auto wish = CheckImport(ImportOf(R"({"path":"/m.gguf","context":null})"), true);
  ASSERT_TRUE(wish.ok()) << wish.error().message;
  EXPECT_FALSE(wish->entry.context.has_value());
  EXPECT_FALSE(wish->entry.thinking.has_value());
}

TEST(ImportRequest, TakesFolders) {
  EXPECT_TRUE(CheckImport(ImportOf(R"({"path":"/etc"})"), true).ok());
}

TEST(ImportRequest, SaysThatOnlyTheCpuIsThere) {
  const auto both =
      CheckImport(ImportOf(R"({"path":"/m.gguf","accelerators":["gpu","cpu","npu"]})"), true);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->warnings.size(), 2u);
  for (const char* list : {"[\"gpu\"]", "[]"}) {
    const auto none =
        CheckImport(ImportOf(StrCat(R"({"path":"/m.gguf","accelerators":)", list, "}")), true);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().param, "accelerators");
    EXPECT_EQ(none.error().http_status, 400);
  }
}

TEST(ImportRequest, RefusesWrongFieldsByName) {
  const struct {
    const char* body;
    const char* param;
  } cases[] = {
      {R"({})", "path"},
      {R"({"path":7})", "path"},
      {R"({"path":""})", "path"},
      {R"({"path":"m.gguf"})", "path"},
      {R"({"path":"../m.gguf"})", "path"},
      {R"({"path":"/a\u0000b"})", "path"},
      {R"({"path":"/etc/passwd"})", "path"},
      {R"({"path":"/no/such/folder"})", "path"},
      {R"({"path":"/m.gguf","context":0})", "context"},
      {R"({"path":"/m.gguf","context":1.5})", "context"},
      {R"({"path":"/m.gguf","context":"64"})", "context"},
      {R"({"path":"/m.gguf","context":99999999999})", "context"},
      {R"({"path":"/m.gguf","thinking":"on"})", "thinking"},
      {R"({"path":"/m.gguf","accelerators":"cpu"})", "accelerators"},
      {R"({"path":"/m.gguf","accelerators":["cpu","tpu"]})", "accelerators"},
      {R"({"path":"/m.gguf","accelerators":["cpu",1]})", "accelerators"},
      {R"({"path":"/m.gguf","url":"http://x"})", "url"},
      {R"([])", ""},
      {R"({"path":"/m.gguf")", ""},
  };
  for (const auto& wrong : cases) {
    const auto wish = CheckImport(ImportOf(wrong.body), true);
    ASSERT_FALSE(wish.ok()) << wrong.body;
    EXPECT_EQ(wish.error().http_status, 400) << wrong.body;
    EXPECT_EQ(wish.error().param, wrong.param) << wrong.body;
  }
}

TEST(ImportRequest, IsForThisMachineOnlyAndOnlyIfAllowed) {
  const std::string body = R"({"path":"/m.gguf"})";
  for (const char* remote :
       {"127.0.0.1:1", "127.8.9.1:40000", "[::1]:40000", "[::ffff:127.0.0.1]:4"}) {
    EXPECT_TRUE(CheckImport(ImportOf(body, remote), true).ok()) << remote;
    const auto refused = CheckImport(ImportOf(body, remote), false);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().http_status, 403);
    EXPECT_EQ(refused.error().code, "import_not_allowed");
  }
  for (const char* remote : {"192.168.1.7:40000", "[fe80::1]:4", "0.0.0.0:1", "localhost:1", "",
                             "127.0.0.1.example.org:1"}) {
    const auto refused = CheckImport(ImportOf(body, remote), true);
    ASSERT_FALSE(refused.ok()) << remote;
    EXPECT_EQ(refused.error().http_status, 403) << remote;
  }
}

}  // namespace
}  // namespace hone::serve
