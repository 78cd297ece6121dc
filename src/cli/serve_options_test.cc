// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_options.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/test_folder.h"

namespace hone::cli {
namespace {

ServeArgs OneModel() {
  ServeArgs args;
  args.models = {"m.gguf"};
  return args;
}

TEST(CheckServeArgs, TakesTheDefaults) {
  const Status status = CheckServeArgs(OneModel());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(CheckServeArgs, NeedsAModelOrAWayToGetOne) {
  ServeArgs args;
  EXPECT_EQ(CheckServeArgs(args).code(), Code::kInvalidArgument);
  args.allow_import = true;
  EXPECT_TRUE(CheckServeArgs(args).ok());
  args = {};
  args.models_folder = "models";
  EXPECT_TRUE(CheckServeArgs(args).ok());
}

TEST(CheckServeArgs, RefusesWhatIsOutOfRangeByName) {
  const struct {
    const char* option;
    std::function<void(ServeArgs&)> change;
  } cases[] = {
      {"--port", [](ServeArgs& a) { a.port = 65536; }},
      {"--port", [](ServeArgs& a) { a.port = -1; }},
      {"--parallel", [](ServeArgs& a) { a.parallel = 0; }},
      {"--queue", [](ServeArgs& a) { a.queue = -1; }},
      {"--context", [](ServeArgs& a) { a.context = -5; }},
      {"--drain-time", [](ServeArgs& a) { a.drain_seconds = -1; }},
      {"--idle-unload",
       [](ServeArgs& a) { a.idle_unload_seconds = std::numeric_limits<double>::quiet_NaN(); }},
      {"--temperature", [](ServeArgs& a) { a.temperature = -0.1; }},
      {"--top-p", [](ServeArgs& a) { a.top_p = 1.5; }},
      {"--prefix-cache", [](ServeArgs& a) { a.prefix_cache = "much"; }},
      {"--top-k", [](ServeArgs& a) { a.top_k = -1; }},
      {"--max-tokens", [](ServeArgs& a) { a.max_tokens = 0; }},
      {"--api-key", [](ServeArgs& a) { a.api_key = a.api_key_file = "x"; }},
      {"--no-key", [](ServeArgs& a) { a.no_key = true, a.api_key = "x"; }},
  };
  for (const auto& wrong : cases) {
    ServeArgs args = OneModel();
    wrong.change(args);
    const Status status = CheckServeArgs(args);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << wrong.option;
    EXPECT_NE(status.message().find(wrong.option), std::string::npos) << status.message();
  }
}

TEST(ParsePrefixCache, ReadsBytesAndNone) {
  EXPECT_EQ(*ParsePrefixCache("0"), 0u);
  EXPECT_EQ(*ParsePrefixCache("1MiB"), 1u << 20);
  EXPECT_EQ(ParsePrefixCache("").code(), Code::kInvalidArgument);
}

TEST(ReadApiKey, TakesTheOptionTheFileOrTheEnvironment) {
  const TestFolder folder;
  folder.Write("key", "from file\r\n");
  ServeArgs args = OneModel();
  EXPECT_EQ(*ReadApiKey(args, ""), "");
  EXPECT_EQ(*ReadApiKey(args, "from env"), "from env");
  args.api_key_file = folder.File("key");
  EXPECT_EQ(*ReadApiKey(args, "from env"), "from file");
  args.api_key_file.clear();
  args.api_key = "given";
  EXPECT_EQ(*ReadApiKey(args, "from env"), "given");
  args.api_key.clear();
  args.no_key = true;
  EXPECT_EQ(*ReadApiKey(args, "from env"), "");
}

TEST(ReadApiKey, AFileWithoutAKeyIsAnError) {
  const TestFolder folder;
  folder.Write("key", "\n");
  ServeArgs args = OneModel();
  args.api_key_file = folder.File("key");
  EXPECT_EQ(ReadApiKey(args, "").code(), Code::kInvalidArgument);
  args.api_key_file = folder.File("gone");
  EXPECT_FALSE(ReadApiKey(args, "").ok());
}

TEST(SplitModelArg, FindsTheNameInFrontOfAPath) {
  const auto split = [](const std::string& arg) {
    const NamedSource source = SplitModelArg(arg);
    return StrCat(source.name, "|", source.source);
  };
  EXPECT_EQ(split("m.gguf"), "|m.gguf");
  EXPECT_EQ(split("a=m.gguf"), "a|m.gguf");
  EXPECT_EQ(split("a=/models/m=1.gguf"), "a|/models/m=1.gguf");
  EXPECT_EQ(split("/models/x=1.gguf"), "|/models/x=1.gguf");
  EXPECT_EQ(split("=m.gguf"), "|=m.gguf");
  EXPECT_EQ(split("openbmb/MiniCPM5-1B"), "|openbmb/MiniCPM5-1B");
  EXPECT_EQ(split("a=openbmb/MiniCPM5-1B"), "a|openbmb/MiniCPM5-1B");
}

TEST(ScanModelsFolder, FindsBundlesGgufsAndCheckpoints) {
  const TestFolder folder;
  folder.Write("b.litertlm", "x");
  folder.Write("a.gguf", "x");
  folder.Write("big-00001-of-00002.gguf", "x");
  folder.Write("big-00002-of-00002.gguf", "x");
  folder.Write("c/config.json", "{}");
  folder.Write("not/readme.md", "x");
  folder.Write("notes.txt", "x");
  folder.Write(".hidden.gguf", "x");
  const auto entries = ScanModelsFolder(folder.path());
  ASSERT_TRUE(entries.ok()) << entries.message();
  std::string names;
  for (const serve::ModelEntry& entry : *entries) names += entry.name + " ";
  EXPECT_EQ(names, "a b big-00001-of-00002 c ");
  EXPECT_EQ((*entries)[0].path, folder.File("a.gguf"));
  EXPECT_EQ(ScanModelsFolder(folder.File("a.gguf")).code(), Code::kNotFound);
}

TEST(MakeHttpOptions, PassesOnWhoMayUseTheServer) {
  ServeArgs args = OneModel();
  args.port = 0;
  args.allow_hosts = {"box.local"};
  args.allow_origins = {"https://example.org"};
  auto options = MakeHttpOptions(args, "sesame");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->host, "127.0.0.1");
  EXPECT_EQ(options->port, 0);
  EXPECT_EQ(options->api_key, "sesame");
  EXPECT_FALSE(options->allow_no_key);
  EXPECT_EQ(options->allow_hosts, args.allow_hosts);
  EXPECT_EQ(options->allow_origins, args.allow_origins);
}

}  // namespace
}  // namespace hone::cli
