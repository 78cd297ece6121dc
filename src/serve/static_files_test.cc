// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/static_files.h"

#include <gtest/gtest.h>

#include <string>

namespace hone::serve {
namespace {

constexpr StaticFile kPage = {.path = "/",
                              .content_type = "text/html; charset=utf-8",
                              .bytes = "abc",
                              .gzip = "GZIP",
                              .content_security_policy = "default-src 'self'"};
// SHA-256 of "abc".
const std::string kHash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

Response Ask(const StaticFile& file, const HeaderList& headers) {
  Request request;
  request.headers = headers;
  return StaticFileHandler(file).Answer(request);
}

TEST(StaticFile, ComesWithTypeTagAndPolicy) {
  const Response response = Ask(kPage, {});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "abc");
  EXPECT_EQ(response.content_type, kPage.content_type);
  EXPECT_EQ(*response.headers.Find("ETag"), "\"" + kHash + "\"");
  EXPECT_EQ(*response.headers.Find("Cache-Control"), "no-cache");
  EXPECT_EQ(*response.headers.Find("Vary"), "Accept-Encoding");
  EXPECT_EQ(*response.headers.Find("Content-Security-Policy"), "default-src 'self'");
  EXPECT_EQ(response.headers.Find("Content-Encoding"), nullptr);
}

TEST(StaticFile, IsCompressedForThoseWhoAcceptIt) {
  for (const char* accept : {"gzip", "deflate, GZIP;q=0.5, br", "*", "br;q=1.0, *;q=0.1"}) {
    const Response response = Ask(kPage, {{"Accept-Encoding", accept}});
    EXPECT_EQ(response.body, "GZIP") << accept;
    EXPECT_EQ(*response.headers.Find("Content-Encoding"), "gzip") << accept;
    EXPECT_EQ(*response.headers.Find("ETag"), "\"" + kHash + "-gzip\"");
  }
  for (const char* accept : {"", "identity", "gzip;q=0", "gzip; q=0.000, *", "*;q=0", "xgzip"}) {
    EXPECT_EQ(Ask(kPage, {{"Accept-Encoding", accept}}).body, "abc") << accept;
  }
  StaticFile plain = kPage;
  plain.gzip = {};
  EXPECT_EQ(Ask(plain, {{"Accept-Encoding", "gzip"}}).body, "abc");
  EXPECT_EQ(Ask(plain, {}).headers.Find("Vary"), nullptr);
}

TEST(StaticFile, IsNotSentAgain) {
  const std::string tag = "\"" + kHash + "\"";
  for (const std::string& known : {tag, "W/" + tag, "\"x\", " + tag, std::string("*")}) {
    const Response response = Ask(kPage, {{"If-None-Match", known}});
    EXPECT_EQ(response.status, 304) << known;
    EXPECT_EQ(response.body, "");
    EXPECT_EQ(*response.headers.Find("ETag"), tag);
  }
  EXPECT_EQ(Ask(kPage, {{"If-None-Match", "\"other\""}}).status, 200);
  EXPECT_EQ(Ask(kPage, {{"If-None-Match", kHash}}).status, 200);
  // The other form of the same file is another answer.
  EXPECT_EQ(Ask(kPage, {{"If-None-Match", tag}, {"Accept-Encoding", "gzip"}}).status, 200);
}

}  // namespace
}  // namespace hone::serve
