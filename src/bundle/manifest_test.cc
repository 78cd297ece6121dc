// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_folder.h"
#include "formats/litertlm/litertlm.h"

namespace hone::bundle {
namespace {

namespace fs = std::filesystem;

class Manifest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto bytes =
        ReadFile(StrCat(HONE_SHARED_DATA, "/golden/bundles/tiny-llama-wi8/model.litertlm"));
    ASSERT_TRUE(bytes.ok());
    bytes_ = *bytes;
    Put("model.litertlm", bytes_);
    Put("note.txt", "hello\n");
  }
  std::string Path(std::string_view name) const { return folder_.File(name); }
  void Put(std::string_view name, std::string_view text) const {
    ASSERT_TRUE(WriteFileAtomic(Path(name), AsBytes(text)).ok());
  }
  std::vector<ManifestResult> Verify(const Json& manifest) const {
    auto results = VerifyManifest(manifest, folder_.path(), {});
    EXPECT_TRUE(results.ok()) << results.message();
    return results.ok() ? *std::move(results) : std::vector<ManifestResult>();
  }
  TestFolder folder_;
  std::string bytes_;
};

TEST_F(Manifest, HoldsKnownHashesAndVerifies) {
  const auto manifest = MakeManifest({Path("model.litertlm"), Path("note.txt")});
  ASSERT_TRUE(manifest.ok()) << manifest.message();
  const Json::Array& files = manifest->Find("files")->AsArray();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].Find("sections")->AsArray().size(), 5u);
  EXPECT_EQ(files[1].Find("sha256")->AsString(),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(files[1].Find("sections"), nullptr);
  for (const ManifestResult& result : Verify(*manifest)) EXPECT_TRUE(result.differences.empty());
}

TEST_F(Manifest, SaysWhichSectionDiffers) {
  const auto manifest = MakeManifest({Path("model.litertlm")});
  ASSERT_TRUE(manifest.ok());
  const auto bundle = formats::litertlm::Bundle::Open(Path("model.litertlm"));
  ASSERT_TRUE(bundle.ok());
  std::string changed = bytes_;
  changed[(*bundle)->header().sections[3].begin + 100] ^= 1;
  Put("model.litertlm", changed);
  const auto results = Verify(*manifest);
  ASSERT_EQ(results.size(), 1u);
  ASSERT_EQ(results[0].differences.size(), 2u);
  EXPECT_TRUE(results[0].differences[1].starts_with("section 3 (TFLiteModel"))
      << results[0].differences[1];

  changed = bytes_;
  changed[16000] ^= 1;  // padding behind the header
  Put("model.litertlm", changed);
  EXPECT_NE(Verify(*manifest)[0].differences[1].find("the sections are equal"), std::string::npos);
  changed.resize(20000);
  Put("model.litertlm", changed);
  EXPECT_NE(Verify(*manifest)[0].differences[2].find("damaged"), std::string::npos);
  fs::remove(Path("model.litertlm"));
  EXPECT_NE(Verify(*manifest)[0].differences[0].find("missing"), std::string::npos);
}

TEST_F(Manifest, AFileThatIsNotListedIsADifference) {
  const auto manifest = MakeManifest({Path("note.txt")});
  ASSERT_TRUE(manifest.ok());
  const auto results =
      VerifyManifest(*manifest, "/nowhere", {Path("note.txt"), Path("model.litertlm")});
  ASSERT_TRUE(results.ok());
  ASSERT_EQ(results->size(), 2u);
  EXPECT_TRUE((*results)[0].differences.empty());
  EXPECT_EQ((*results)[1].differences[0], "is not in the manifest");
}

TEST_F(Manifest, ForeignManifestsAreRefused) {
  EXPECT_FALSE(VerifyManifest(Json(Json::Object{}), folder_.path(), {}).ok());
  for (const char* name : {"../note.txt", "/etc/passwd", "..", "", "a/b"}) {
    Json entry(Json::Object{{"name", name}, {"bytes", 1}, {"sha256", "x"}});
    Json manifest(Json::Object{{"format", 1}, {"files", Json(Json::Array{std::move(entry)})}});
    EXPECT_FALSE(VerifyManifest(manifest, folder_.path(), {}).ok()) << name;
  }
  EXPECT_FALSE(MakeManifest({Path("note.txt"), Path("note.txt")}).ok());
}

}  // namespace
}  // namespace hone::bundle
