// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "web/web_assets.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <string>

#include "bridge/sha256.h"

namespace hone::web {
namespace {

std::string Gunzip(std::string_view packed, std::size_t plain_bytes) {
  std::string out(plain_bytes + 1, '\0');  // one more shows a long stream
  z_stream z{};
  EXPECT_EQ(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
  z.avail_in = static_cast<uInt>(packed.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  EXPECT_EQ(z.avail_in, 0u);
  inflateEnd(&z);
  return out;
}

TEST(WebAssets, HashAndGzipMatchTheBytes) {
  ASSERT_FALSE(WebAssets().empty());
  for (const WebAsset& asset : WebAssets()) {
    SCOPED_TRACE(asset.path);
    EXPECT_EQ(bridge::Sha256Hex(AsBytes(asset.bytes)), asset.sha256);
    ASSERT_FALSE(asset.gzip.empty());
    EXPECT_LT(asset.gzip.size(), asset.bytes.size());
    EXPECT_EQ(Gunzip(asset.gzip, asset.bytes.size()), asset.bytes);
  }
}

TEST(WebAssets, AreFoundByPath) {
  const WebAsset* page = FindWebAsset("/");
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page, FindWebAsset("/index.html"));
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  EXPECT_FALSE(page->immutable);
  for (const WebAsset& asset : WebAssets()) EXPECT_EQ(FindWebAsset(asset.path), &asset);
  for (const char* path : {"", "index.html", "/nothing", "/assets/", "/../index.html", "/zzz"}) {
    EXPECT_EQ(FindWebAsset(path), nullptr) << path;
  }
}

TEST(WebAssets, ThePageNamesOnlyFilesThatAreThere) {
  const std::string_view html = FindWebAsset("/")->bytes;
  int num_files = 0;
  for (std::size_t at = html.find("\"./"); at != std::string_view::npos;
       at = html.find("\"./", at + 1)) {
    const std::string_view path = html.substr(at + 2, html.find('"', at + 1) - at - 2);
    const WebAsset* asset = FindWebAsset(path);
    ASSERT_NE(asset, nullptr) << path;
    EXPECT_TRUE(asset->immutable) << path;
    ++num_files;
  }
  EXPECT_GE(num_files, 2);  // a script and a style sheet
}

// The policy allows neither, and no file of another host.
TEST(WebAssets, ThePageHasNoInlineCode) {
  const std::string_view html = FindWebAsset("/")->bytes;
  EXPECT_EQ(html.find("<style"), std::string_view::npos);
  EXPECT_EQ(html.find(" style="), std::string_view::npos);
  EXPECT_EQ(html.find("src=\"http"), std::string_view::npos);
  const std::size_t script = html.find("<script");
  ASSERT_NE(script, std::string_view::npos);
  EXPECT_NE(html.substr(script).find("></script>"), std::string_view::npos);
  EXPECT_EQ(html.find("<script", script + 1), std::string_view::npos);
}

}  // namespace
}  // namespace hone::web
