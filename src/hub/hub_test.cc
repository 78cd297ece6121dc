// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The parts of a download that need no server.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "base/file.h"
#include "hub/blob_hash.h"
#include "hub/explain.h"
#include "hub/file_lock.h"
#include "hub/partial_file.h"
#include "hub/repo.h"
#include "hub/repo_info.h"
#include "hub/select.h"
#include "hub/settings.h"
#include "hub/sha1.h"

namespace hone::hub {
namespace {

TEST(ParseRepoRef, ReadsNamesRevisionsAndAddresses) {
  const auto expect = [](const char* text, const char* name, const char* revision) {
    const auto ref = ParseRepoRef(text);
    ASSERT_TRUE(ref.ok()) << text << ": " << ref.message();
    EXPECT_EQ(ref->name, name) << text;
    EXPECT_EQ(ref->revision, revision) << text;
  };
  expect("openbmb/MiniCPM5-2B", "openbmb/MiniCPM5-2B", "main");
  expect("a/b@v1.0", "a/b", "v1.0");
  expect("a/b@refs/pr/7", "a/b", "refs/pr/7");
  expect("hf://a/b@x", "a/b", "x");
  expect("https://huggingface.co/a/b", "a/b", "main");
  expect("https://huggingface.co/a/b/tree/dev/x", "a/b", "dev/x");
}

TEST(ParseRepoRef, RefusesWhatCouldBecomeAnotherPath) {
  for (const char* text :
       {"",           "a",      "a/",     "/a",     "a/b/c",   "../b",       "a/..",
        "a/b--c",     "a/b..c", "a/-b",   "a/b.",   "a b/c",   "a/b@",       "a/b@../x",
        "a/b@x/../y", "a/b@/x", "a/b@x/", "a/b@.x", "a/b@x y", "a/b@x.lock", "a/b@x:y",
        "a/b.git",    "a\\b/c", "hf://a", "a/b\n"}) {
    EXPECT_EQ(ParseRepoRef(text).code(), Code::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseRepoRef("a/" + std::string(97, 'x')).ok());
}

TEST(CheckFileName, LetsNothingLeaveTheFolder) {
  for (const char* name :
       {"config.json", "a/b/c.json", "a..b", "..a", ".gitattributes", "a b", "\xc3\xa9"}) {
    EXPECT_TRUE(CheckFileName(name).ok()) << name;
  }
  for (const char* name : {"", ".", "..", "../a", "a/../b", "a/..", "/a", "a//b", "a/", "./a",
                           "a\\b", "C:a", "x/C:a", "a\nb", "\x7f", ".git/config", "a/.GIT/x"}) {
    EXPECT_EQ(CheckFileName(name).code(), Code::kDataLoss) << name;
  }
  EXPECT_FALSE(CheckFileName(std::string(201, 'a')).ok());
}

TEST(MatchesGlob, WorksAsInAShellExceptThatAStarPassesSlashes) {
  EXPECT_TRUE(MatchesGlob("*.json", "config.json"));
  EXPECT_TRUE(MatchesGlob("*.json", "a/config.json"));
  EXPECT_TRUE(MatchesGlob("onnx/", "onnx/a/b"));
  EXPECT_FALSE(MatchesGlob("onnx/", "onnx"));
  EXPECT_TRUE(MatchesGlob("a?c", "abc"));
  EXPECT_TRUE(MatchesGlob("m-0[12]-*", "m-02-of"));
  EXPECT_FALSE(MatchesGlob("m-0[!12]-*", "m-02-of"));
  EXPECT_TRUE(MatchesGlob("[a-c]x", "bx"));
  EXPECT_TRUE(MatchesGlob("[", "["));
  EXPECT_TRUE(MatchesGlob("*", ""));
  EXPECT_FALSE(MatchesGlob("", "a"));
  EXPECT_FALSE(MatchesGlob("*.json", "config.jsonl"));
  EXPECT_TRUE(MatchesGlob("*a*b*c", "xxaxxbxxbxc"));
}

TEST(MatchesGlob, EndsSoonOnManyStars) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesGlob(pattern + "b", std::string(1000, 'a')));
}

TEST(QuoteUrl, KeepsOnlyWhatIsPlain) {
  EXPECT_EQ(QuoteUrl("v1/a b#%", false), "v1%2Fa%20b%23%25");
  EXPECT_EQ(QuoteUrl("a/\xc3\xa9.json", true), "a/%C3%A9.json");
}

TEST(BlobHash, IsTheNameThatGitAndLfsGive) {
  const auto hash = [](std::string_view text, std::size_t digits) {
    BlobHash blob(std::string(digits, '0'), text.size());
    blob.Update(AsBytes(text));
    return blob.Finish();
  };
  // printf 'hello\n' | git hash-object --stdin, and sha256sum
  EXPECT_EQ(hash("hello\n", 40), "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(hash("", 40), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(hash("hello\n", 64),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(hash("hello\n", 10), "");
}

TEST(Sha1, TakesItsBytesInAnyPieces) {
  const std::string text(1000, 'x');
  Sha1 whole;
  whole.Update(AsBytes(text));
  Sha1 pieces;
  for (std::size_t at = 0; at < text.size(); at += 37) pieces.Update(AsBytes(text.substr(at, 37)));
  EXPECT_EQ(pieces.FinishHex(), whole.FinishHex());
}

class PartialFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  Result<std::unique_ptr<PartialFile>> Open(std::uint64_t size = 1000, std::uint32_t chunk = 100) {
    return PartialFile::Open(path_, etag_, size, chunk);
  }
  std::string path_ = testing::TempDir() + "hone_partial.hone.incomplete";
  std::string etag_ = std::string(64, 'a');
};

TEST_F(PartialFileTest, ALaterRunKnowsWhichChunksAreThere) {
  const std::string bytes(1000, 'b');
  {
    auto file = Open();
    ASSERT_TRUE(file.ok()) << file.message();
    EXPECT_EQ((*file)->Missing(10000).size(), 1U);
    ASSERT_TRUE((*file)->Write(200, AsBytes(bytes).first(250)).ok());
    ASSERT_TRUE((*file)->Advance(200, 200, 450).ok());  // two chunks and a half
    ASSERT_TRUE((*file)->Advance(900, 900, 1000).ok());
  }
  EXPECT_EQ(PartialFile::MissingAt(path_, etag_, 1000, 100), 700U);
  auto file = Open();
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->missing_bytes(), 700U);
  const auto missing = (*file)->Missing(300);
  ASSERT_EQ(missing.size(), 3U);
  EXPECT_EQ(missing[0].begin, 0U);
  EXPECT_EQ(missing[0].end, 200U);
  EXPECT_EQ(missing[1].begin, 400U);
  EXPECT_EQ(missing[1].end, 700U);
  EXPECT_EQ(missing[2].end, 900U);
}

TEST_F(PartialFileTest, BeginsAnewForAnotherFileOrDamagedNotes) {
  {
    auto file = Open();
    ASSERT_TRUE((*file)->Advance(0, 0, 1000).ok());
    EXPECT_EQ((*file)->missing_bytes(), 0U);
  }
  EXPECT_EQ(PartialFile::MissingAt(path_, std::string(64, 'b'), 1000, 100), 1000U);
  EXPECT_EQ((*Open(1000, 200))->missing_bytes(), 1000U);  // other chunks
  ASSERT_TRUE(WriteFileAtomic(path_, AsBytes(std::string(1094, 'x'))).ok());
  EXPECT_EQ((*Open())->missing_bytes(), 1000U);
  ASSERT_TRUE(WriteFileAtomic(path_, AsBytes("short")).ok());
  EXPECT_EQ((*Open())->missing_bytes(), 1000U);
}

TEST_F(PartialFileTest, GetsItsNameWithoutTheNotes) {
  const std::string target = testing::TempDir() + "hone_partial_target";
  auto file = Open(5, 100);
  ASSERT_TRUE((*file)->Write(0, AsBytes("hello")).ok());
  EXPECT_EQ((*file)->Write(3, AsBytes("xyz")).code(), Code::kInternal);
  ASSERT_TRUE((*file)->MoveTo(target).ok());
  EXPECT_EQ(*ReadFile(target), "hello");
  EXPECT_FALSE(FileExists(path_));
}

TEST(FileLock, IsHeldByOneAtATime) {
  const std::string path = testing::TempDir() + "hone_locks/a.lock";
  {
    auto first = FileLock::Try(path);
    ASSERT_TRUE(first.ok() && *first) << first.message();
    EXPECT_FALSE(FileLock::Try(path)->has_value());
  }
  EXPECT_TRUE(FileLock::Try(path)->has_value());
}

constexpr const char* kSha = "0123456789abcdef0123456789abcdef01234567";

std::string InfoWith(const std::string& siblings) {
  return StrCat(R"({"sha": ")", kSha, R"(", "siblings": [)", siblings, "]}");
}

TEST(ParseRepoInfo, ReadsHashesAndSizes) {
  const std::string lfs(64, 'e');
  const auto info = ParseRepoInfo(InfoWith(
      StrCat(R"({"rfilename": "a.json", "size": 7, "blobId": ")", kSha,
             R"("}, {"rfilename": "b", "size": 9, "blobId": ")", kSha, R"(", "lfs": {"sha256": ")",
             lfs, R"(", "size": 9, "pointerSize": 1}}, {"rfilename": "c"})")));
  ASSERT_TRUE(info.ok()) << info.message();
  ASSERT_EQ(info->files.size(), 3U);
  EXPECT_EQ(info->files[0].etag, kSha);
  EXPECT_EQ(info->files[0].bytes, 7U);
  EXPECT_EQ(info->files[1].etag, lfs);
  EXPECT_FALSE(info->files[2].has_bytes);
}

TEST(ParseRepoInfo, RefusesWhatIsNoListOfFiles) {
  for (const std::string& text :
       {std::string("[]"), std::string("{}"), std::string("x"), std::string(R"({"sha": "main"})"),
        std::string(R"({"sha": "../x"})"), InfoWith("3"), InfoWith("{}"),
        InfoWith(R"({"rfilename": 3})"), InfoWith(R"({"rfilename": "../a"})"),
        InfoWith(R"({"rfilename": "a", "size": -1})"),
        InfoWith(R"({"rfilename": "a", "size": 1.5})"),
        InfoWith(R"({"rfilename": "a", "size": 9000000000000000000})"),
        InfoWith(R"({"rfilename": "a", "blobId": "../../x"})"),
        InfoWith(R"({"rfilename": "a", "lfs": {}})"),
        InfoWith(R"({"rfilename": "a", "lfs": {"sha256": "/etc/passwd"}})"),
        InfoWith(R"({"rfilename": "a"}, {"rfilename": "a"})"),
        InfoWith(R"({"rfilename": "a"}, {"rfilename": "a-b"}, {"rfilename": "a/b"})")}) {
    EXPECT_EQ(ParseRepoInfo(text).code(), Code::kDataLoss) << text;
  }
}

RepoInfo InfoOf(const std::vector<std::string>& names) {
  RepoInfo info;
  for (const std::string& name : names) {
    info.files.emplace_back();
    info.files.back().name = name;
  }
  return info;
}

std::vector<std::string> Chosen(const std::vector<std::string>& names,
                                const Selection& selection = {}) {
  const auto files = SelectFiles("a/b", InfoOf(names), selection);
  std::vector<std::string> out;
  if (!files.ok()) return {std::string(files.message())};
  for (const RepoFile& file : *files) out.push_back(file.name);
  return out;
}

TEST(SelectFiles, TakesWhatConvertReads) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(Chosen({"config.json", "model.safetensors", "README.md", "pytorch_model.bin", "a.gguf",
                    "pytorch_model.bin.index.json", "tokenizer.model", "chat_template.jinja",
                    "onnx/x.onnx", "original/params.json", "merges.txt", "training_args.bin",
                    "consolidated.safetensors"}),
            (Names{"config.json", "model.safetensors", "tokenizer.model", "chat_template.jinja",
                   "merges.txt"}));
  EXPECT_EQ(Chosen({"config.json", "consolidated.safetensors"}),
            (Names{"config.json", "consolidated.safetensors"}));
  EXPECT_EQ(
      Chosen({"config.json", "model.safetensors"}, {.include = {}, .exclude = {"*.safetensors"}}),
      (Names{"config.json"}));
}

TEST(SelectFiles, SaysWhatThereIsInstead) {
  EXPECT_NE(Chosen({"m.litertlm", "README.md"})[0].find("hone pull a/b --include 'm.litertlm'"),
            std::string::npos);
  EXPECT_NE(Chosen({"config.json", "model.bin"})[0].find("pickle"), std::string::npos);
}

// The environment of a test, as it was before afterwards.
class Environment : public testing::Test {
 protected:
  void TearDown() override {
    for (auto& [name, value] : saved_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  void Set(const std::string& name, const char* value) {
    const char* before = std::getenv(name.c_str());
    saved_.insert(saved_.begin(),
                  {name, before == nullptr ? std::nullopt : std::optional<std::string>(before)});
    if (value == nullptr) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), value, 1);
    }
  }
  void ClearAll() {
    for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "HF_HUB_CACHE",
                             "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
                             "HF_HUB_DOWNLOAD_TIMEOUT", "XDG_CACHE_HOME"}) {
      Set(name, nullptr);
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

TEST_F(Environment, DefaultsAreThoseOfHuggingfaceHub) {
  ClearAll();
  Set("HOME", "/home/me");
  auto settings = ReadSettings();
  ASSERT_TRUE(settings.ok()) << settings.message();
  EXPECT_EQ(settings->endpoint, "https://huggingface.co");
  EXPECT_EQ(settings->cache, "/home/me/.cache/huggingface/hub");
  EXPECT_FALSE(settings->offline);
  EXPECT_EQ(settings->token, "");
  Set("XDG_CACHE_HOME", "/c");
  EXPECT_EQ(ReadSettings()->cache, "/c/huggingface/hub");
  Set("HF_HOME", "~/hf");
  EXPECT_EQ(ReadSettings()->cache, "/home/me/hf/hub");
  Set("HF_HUB_CACHE", "/x");
  EXPECT_EQ(ReadSettings()->cache, "/x");
  Set("HF_HUB_OFFLINE", "yes");
  EXPECT_TRUE(ReadSettings()->offline);
  Set("HF_ENDPOINT", "http://mirror/");
  EXPECT_EQ(ReadSettings()->endpoint, "http://mirror");
}

TEST_F(Environment, TheTokenComesFromTheVariableOrItsFile) {
  ClearAll();
  const std::string home = testing::TempDir() + "hone_hf_home";
  std::filesystem::create_directories(home);
  ASSERT_TRUE(WriteFileAtomic(home + "/token", AsBytes(" hf_file\n")).ok());
  Set("HF_HOME", home.c_str());
  EXPECT_EQ(ReadSettings()->token, "hf_file");
  EXPECT_EQ(ReadSettings()->token_source, home + "/token");
  Set("HF_TOKEN", "hf_variable\n");
  EXPECT_EQ(ReadSettings()->token, "hf_variable");
  Set("HF_TOKEN", "hf_x\r\nEvil: 1");
  EXPECT_EQ(ReadSettings().code(), Code::kInvalidArgument);
}

TEST_F(Environment, WrongValuesAreNamed) {
  ClearAll();
  Set("HF_ENDPOINT", "ftp://x");
  EXPECT_NE(ReadSettings().message().find("HF_ENDPOINT"), std::string_view::npos);
  Set("HF_ENDPOINT", nullptr);
  Set("HF_HUB_DOWNLOAD_TIMEOUT", "soon");
  EXPECT_NE(ReadSettings().message().find("HF_HUB_DOWNLOAD_TIMEOUT"), std::string_view::npos);
}

TEST(RetryAfterSeconds, ReadsSecondsAndDates) {
  HttpResponse response;
  EXPECT_EQ(RetryAfterSeconds(response), 0.0);
  response.headers = {{"retry-after", "7"}};
  EXPECT_EQ(RetryAfterSeconds(response), 7.0);
  response.headers = {{"retry-after", "-7"}};
  EXPECT_EQ(RetryAfterSeconds(response), 0.0);
  response.headers = {{"retry-after", "Fri, 31 Dec 1999 23:59:59 GMT"}};
  EXPECT_EQ(RetryAfterSeconds(response), 0.0);
  response.headers = {{"retry-after", "Fri, 31 Dec 2100 23:59:59 GMT"}};
  EXPECT_GT(RetryAfterSeconds(response), 1e9 / 2);
  response.headers = {{"retry-after", "soon"}};
  EXPECT_EQ(RetryAfterSeconds(response), 0.0);
}

}  // namespace
}  // namespace hone::hub
