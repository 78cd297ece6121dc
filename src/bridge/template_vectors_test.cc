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

struct RenderCase {
  const char* id;
  const char* source;
  const char* context;
  const char* expect;
};

// Renders that users reported as wrong elsewhere and that the shared file does not have. Expected
// values are jinja2's.
TEST(TemplateVectors, RendersWhatUsersReported) {
  const RenderCase cases[] = {
      {"T1 indent", "{{ t|tojson(indent=2) }}", R"({"t": {"a": [1, 2], "b": {}}})",
       "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}"},
      {"T2 default", "{{ t|tojson }}", R"({"t": "<b>&'\u00e9\ud83d\ude0a</b>"})",
       "\"<b>&'é😊</b>\""},
      {"T3 methods",
       "{{ m.get('role','') }}/{{ m.get('x','dflt') }}/{{ m.content.startswith('h') }}/"
       "{{ m.content.endswith('i') }}",
       R"({"m": {"role": "user", "content": "hi"}})", "user/dflt/True/True"},
      {"T3 strings",
       "{{ 'aXbX'.rsplit('X',1) }}{{ 'a-b'.title() }}{{ 'ab'.find('b') }}"
       "{{ 'x'.replace('x','y') }}",
       "{}", "['aXb', '']A-B1y"},
      {"T6 undefined", "{{ bos_token }}{{ missing }}x{{ (missing or '') + 'y' }}",
       R"({"bos_token": "<s>"})", "<s>xy"},
      {"T7 items",
       "{% for k,v in args|items %}<param name=\"{{k}}\">{{ v if v is string else v|tojson }}"
       "</param>{% endfor %}",
       R"({"args": {"city": "Paris", "n": 3, "ok": true}})",
       "<param name=\"city\">Paris</param><param name=\"n\">3</param>"
       "<param name=\"ok\">true</param>"},
      {"T10 both sides", "a \n{%- if true -%}\n b \n{%- endif -%}\n c", "{}", "abc"},
      {"T10 raw", "{%- raw %}{{ x }}{% endraw %}", "{}", "{{ x }}"},
      {"T11 false",
       "{%- if enable_thinking is defined and enable_thinking is false %}"
       "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}",
       R"({"enable_thinking": false})", "<think>\n\n</think>\n\n"},
      {"T11 text", "{%- if enable_thinking is defined and enable_thinking is false %}x{%- endif %}",
       R"({"enable_thinking": "false"})", ""},
  };
  for (const RenderCase& each : cases) {
    auto compiled = ChatTemplate::Compile(each.source);
    ASSERT_TRUE(compiled.ok()) << each.id << ": " << compiled.message();
    auto text = compiled->Render(each.context, kNow);
    ASSERT_TRUE(text.ok()) << each.id << ": " << text.message();
    EXPECT_EQ(*text, each.expect) << each.id;
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

Json SplitBy(const char* pattern) {
  return Json(Json::Object{{"type", "Split"},
                           {"pattern", Json::Object{{"Regex", pattern}}},
                           {"behavior", "Isolated"},
                           {"invert", false}});
}

// A tokenizer whose ids are the pieces that are cut: every expected piece is a word.
Result<Tokenizer> WordTokenizer(const Json& pre_tokenizer, const Json& pieces) {
  Json vocab{Json::Object{}};
  vocab.Set("<unk>", 0);
  for (const Json& piece : pieces.AsArray()) {
    if (vocab.Find(piece.AsString()) == nullptr) {
      vocab.Set(piece.AsString(), static_cast<std::int64_t>(vocab.AsObject().size()));
    }
  }
  const Json model(Json::Object{{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "<unk>"}});
  const Json file(Json::Object{{"version", "1.0"},
                               {"truncation", Json()},
                               {"padding", Json()},
                               {"added_tokens", Json::Array{}},
                               {"normalizer", Json()},
                               {"pre_tokenizer", pre_tokenizer},
                               {"post_processor", Json()},
                               {"decoder", Json()},
                               {"model", model}});
  return Tokenizer::FromJson(file.Dump());
}

void ExpectPieces(const std::string& name, const Json& pre_tokenizer, const std::string& text,
                  const Json& pieces) {
  auto tokenizer = WordTokenizer(pre_tokenizer, pieces);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  auto ids = tokenizer->Encode(text);
  ASSERT_TRUE(ids.ok()) << ids.message();
  std::vector<std::string> found;
  for (const std::int32_t id : *ids) found.push_back(*tokenizer->Piece(id));
  std::vector<std::string> expected;
  for (const Json& piece : pieces.AsArray()) expected.push_back(piece.AsString());
  EXPECT_EQ(found, expected) << name << ": " << text;
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
      ExpectPieces(name, SplitBy(pattern), text, pieces);
    }
  }
}

// Those of the reported texts that the shared file does not have.
TEST(SplitVectors, CutsTheTextsThatUsersReported) {
  struct Split {
    const char* pattern;
    const char* text;
    Json::Array pieces;
  };
  const Split cases[] = {
      {"gpt2", "eBay NaOH", {"eBay", " NaOH"}},
      {"llama3", "eBay NaOH", {"eBay", " NaOH"}},
      {"qwen2", "eBay NaOH", {"eBay", " NaOH"}},
      {"tekken", "eBay NaOH", {"e", "Bay", " Na", "OH"}},
      {"gpt2", "١٢٣٤", {"١٢٣٤"}},
      {"llama3", "١٢٣٤", {"١٢٣", "٤"}},
      {"qwen2", "١٢٣٤", {"١", "٢", "٣", "٤"}},
      {"tekken", "١٢٣٤", {"١", "٢", "٣", "٤"}},
      {"gpt2", "'LL 'll", {"'", "LL", " '", "ll"}},
      {"llama3", "'LL 'll", {"'LL", " '", "ll"}},
      {"qwen2", "'LL 'll", {"'LL", " '", "ll"}},
      {"tekken", "'LL 'll", {"'LL", " '", "ll"}},
  };
  for (const Split& each : cases) {
    ExpectPieces(each.pattern, SplitBy(PatternOf(each.pattern)), each.text, Json(each.pieces));
  }
}

// SmolLM's way: digits one by one, then the pattern of GPT-2 over bytes.
TEST(SplitVectors, CutsDigitsAndBytesAsSmolLmDoes) {
  const Json pre_tokenizer(Json::Object{
      {"type", "Sequence"},
      {"pretokenizers", Json::Array{Json::Object{{"type", "Digits"}, {"individual_digits", true}},
                                    Json::Object{{"type", "ByteLevel"},
                                                 {"add_prefix_space", false},
                                                 {"trim_offsets", true},
                                                 {"use_regex", true}}}}});
  ExpectPieces("SmolLM", pre_tokenizer, "it's 2024!",
               Json(Json::Array{"it", "'s", "Ġ", "2", "0", "2", "4", "!"}));
}

}  // namespace
}  // namespace hone::bridge
