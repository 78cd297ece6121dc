// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/peek_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "bundle/check.h"
#include "bundle/peek.h"
#include "bundle/test_bundle.h"
#include "formats/litertlm/litertlm.h"

namespace hone::bundle {
namespace {

Json Facts(const std::string& path) {
  auto bundle = formats::litertlm::Bundle::Open(path);
  if (!bundle.ok()) {
    ADD_FAILURE() << bundle.message();
    return {};
  }
  auto facts = PeekBundle(**bundle);
  EXPECT_TRUE(facts.ok()) << facts.message();
  const Status status = AddCheckedFacts(path, 1, *facts);
  EXPECT_TRUE(status.ok()) << status.message();
  return *std::move(facts);
}

std::string Golden(const std::string& name) {
  return StrCat(HONE_SHARED_DATA, "/golden/bundles/", name);
}

TEST(PeekCheck, NamesTheStoredPrecisionOfEveryRole) {
  const Json facts = Facts(Golden("tiny-llama-wi4b32/model.litertlm"));
  std::map<std::string, std::pair<std::string, double>> roles;
  std::int64_t tensors = 0;
  for (const Json& role : facts.Find("roles")->AsArray()) {
    roles[role.Find("role")->AsString()] = {role.Find("precision")->AsString(),
                                            role.Find("bits_per_weight")->AsDouble()};
    tensors += role.Find("tensors")->AsInt();
  }
  EXPECT_EQ(tensors, 2 * 7 + 2);
  EXPECT_EQ(roles.size(), 9u);
  EXPECT_EQ(roles["head"].first, "int4_block32");
  EXPECT_DOUBLE_EQ(roles["head"].second, 4.5);
  EXPECT_EQ(roles["embedding"].first, "int8");
  EXPECT_DOUBLE_EQ(roles["embedding"].second, 8 + 32.0 / 64);
}

TEST(PeekCheck, SaysLimitsStopsBuffersAndRuntimes) {
  const Json facts = Facts(Golden("tiny-llama-wi4b32/model.litertlm"));
  const Json& limits = *facts.Find("limits");
  EXPECT_EQ(limits.Find("context")->AsInt(), 128);
  EXPECT_EQ(limits.Find("prefill")->Dump(), "[32,8,1]");
  EXPECT_EQ(limits.Find("vocabulary")->AsInt(), 512);
  // 2 layers of keys and values, 2 heads of 16, 128 positions, float32.
  EXPECT_EQ(limits.Find("memory")->Find("cache")->AsInt(), 2 * 2 * 2 * 16 * 128 * 4);
  bool end = false;
  for (const Json& stop : facts.Find("stops")->AsArray()) {
    end |= stop.Find("ids")->Dump() == "[2]" && stop.Find("text")->AsString() == "<|im_end|>";
  }
  EXPECT_TRUE(end);
  std::map<std::string, int> buffers;
  for (const Json& buffer : facts.Find("largest_buffers")->AsArray()) {
    ++buffers[buffer.Find("signature")->AsString()];
    EXPECT_GT(buffer.Find("bytes")->AsInt(), 0);
  }
  EXPECT_EQ(buffers, (std::map<std::string, int>{
                         {"prefill_32", 3}, {"prefill_8", 3}, {"prefill_1", 3}, {"decode", 3}}));
  const Json::Array& runtimes = facts.Find("runtimes")->AsArray();
  ASSERT_EQ(runtimes.size(), 2u);
  EXPECT_TRUE(runtimes[0].Find("runs")->AsBool());
  EXPECT_FALSE(runtimes[0].Find("chat")->AsBool());
  EXPECT_EQ(runtimes[0].Find("because")->Dump(), R"(["bos-doubled","template-litert-lm"])");
  EXPECT_TRUE(runtimes[1].Find("chat")->AsBool());
  EXPECT_TRUE(runtimes[1].Find("fast")->AsBool());
  const std::string text = PeekText(facts);
  for (const char* part : {"Stored precision by role", "Stop tokens", "Largest buffers on a GPU",
                           "runs it, not conversations: bos-doubled, template-litert-lm"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(PeekCheck, AnInt8HeadThatTheRecipeAsksForIsProved) {
  const Json facts = Facts(Golden("tiny-llama-untied-wi8/model.litertlm"));
  for (const Json& role : facts.Find("roles")->AsArray()) {
    EXPECT_EQ(role.Find("precision")->AsString(), "int8") << role.Find("role")->AsString();
  }
  TestBundle bundle("tiny-llama-untied-wi8/model.litertlm");
  bundle.SetHone(R"({"recipe":{"schemes":{"head":"int8 min-max","gate":
      [{"first":0,"last":0,"scheme":"int8 min-max"},{"first":1,"last":1,"scheme":"int4_block32 octav"}]}}})");
  CheckOptions options;
  const std::string path = bundle.Write();
  const auto report = CheckBundle(path, options);
  ASSERT_TRUE(report.ok());
  std::string what;
  for (const Finding& finding : report->findings) {
    if (finding.info->id == std::string_view("precision-mismatch")) what += finding.what;
  }
  EXPECT_EQ(what,
            "gate (1 layers, the first: 1) is stored as int8, the recipe in hone.json says "
            "int4_block32");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace hone::bundle
