// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The shared vectors: renders of jinja2 as Transformers sets it up, and splits of known patterns.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "bridge/chat_template.h"
#include "bridge/tokenizer.h"

namespace hone::bridge {
namespace {

// 2026-11-30 09:05:00, the clock of the vectors.
constexpr std::int64_t kNow = 1796029500;

Json SharedJson(const std::string& name) {
  auto text = ReadFile(std::string(HONE_SHARED_DATA) + "/" + name);
  if (!text.ok()) {
    ADD_FAILURE() << text.message();
    return {};
  }
  auto json = ParseJson(*text);
  EXPECT_TRUE(json.ok()) << json.message();
  return json.ok() ? *json : Json();
}

TEST(TemplateVectors, RendersAsTransformersDoes) {
  const Json file = SharedJson("cases/template-and-split-vectors.json");
  ASSERT_TRUE(file.IsObject());
  const Json* cases = file.Find("templates");
  ASSERT_NE(cases, nullptr);
  ASSERT_GE(cases->AsArray().size(), 26U);
  for (const Json& entry : cases->AsArray()) {
    const std::string id = entry.Find("id")->AsString();
    auto compiled = ChatTemplate::Compile(entry.Find("template")->AsString());
    ASSERT_TRUE(compiled.ok()) << id << ": " << compiled.message();
    auto text = compiled->Render(entry.Find("context")->Dump(), kNow);
    const Json* error = entry.Find("error");
    if (error == nullptr) {
      ASSERT_TRUE(text.ok()) << id << ": " << text.message();
      EXPECT_EQ(*text, entry.Find("expect")->AsString()) << id;
      continue;
    }
    ASSERT_FALSE(text.ok()) << id << ": " << *text;
    const std::string& full = error->AsString();
    const std::string kind = full.substr(0, full.find(": "));
    const std::string words = full.substr(full.find(": ") + 2);
    if (kind == "TemplateError") {  // raise_exception
      EXPECT_EQ(text.code(), Code::kInvalidArgument) << id;
      EXPECT_EQ(text.message(), words) << id;
    } else {
      EXPECT_EQ(text.code(), Code::kUnsupported) << id;
      EXPECT_NE(std::string(text.message()).find(words), std::string::npos)
          << id << ": " << text.message();
    }
  }
}

// The patterns as the models' own tokenizer.json files spell them.
const char* PatternOf(const std::string& name) {
  if (name == "gpt2") {
    return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  }
  if (name == "llama3") {
    return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  if (name == "qwen2") {
    return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  if (name == "tekken") {
    return R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return nullptr;
}

// A tokenizer whose ids are the pieces that the pattern cuts: every expected piece is a word.
Result<Tokenizer> WordTokenizer(const char* pattern, const Json& pieces) {
  Json vocab{Json::Object{}};
  vocab.Set("<unk>", 0);
  for (const Json& piece : pieces.AsArray()) {
    if (vocab.Find(piece.AsString()) == nullptr) {
      vocab.Set(piece.AsString(), static_cast<std::int64_t>(vocab.AsObject().size()));
    }
  }
  const Json split(Json::Object{{"type", "Split"},
                                {"pattern", Json::Object{{"Regex", pattern}}},
                                {"behavior", "Isolated"},
                                {"invert", false}});
  const Json model(Json::Object{{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "<unk>"}});
  const Json file(Json::Object{{"version", "1.0"},
                               {"truncation", Json()},
                               {"padding", Json()},
                               {"added_tokens", Json::Array{}},
                               {"normalizer", Json()},
                               {"pre_tokenizer", split},
                               {"post_processor", Json()},
                               {"decoder", Json()},
                               {"model", model}});
  return Tokenizer::FromJson(file.Dump());
}

TEST(SplitVectors, CutsTextAsTheReferenceDoes) {
  const Json file = SharedJson("cases/template-and-split-vectors.json");
  ASSERT_TRUE(file.IsObject());
  const Json* split = file.Find("split");
  ASSERT_NE(split, nullptr);
  ASSERT_GE(split->AsObject().size(), 4U);
  for (const auto& [name, texts] : split->AsObject()) {
    const char* pattern = PatternOf(name);
    ASSERT_NE(pattern, nullptr) << name;
    for (const auto& [text, pieces] : texts.AsObject()) {
      auto tokenizer = WordTokenizer(pattern, pieces);
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
      auto ids = tokenizer->Encode(text);
      ASSERT_TRUE(ids.ok()) << ids.message();
      std::vector<std::string> found;
      for (const std::int32_t id : *ids) found.push_back(*tokenizer->Piece(id));
      std::vector<std::string> expected;
      for (const Json& piece : pieces.AsArray()) expected.push_back(piece.AsString());
      EXPECT_EQ(found, expected) << name << ": " << text;
    }
  }
}

}  // namespace
}  // namespace hone::bridge
