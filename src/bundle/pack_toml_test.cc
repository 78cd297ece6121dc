// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/pack_toml.h"

#include <gtest/gtest.h>

#include "bundle/pack_proto.h"
#include "formats/litertlm/llm_metadata.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::SectionType;

ModelToml Parse(std::string_view text) {
  auto parsed = ParseModelToml(text);
  EXPECT_TRUE(parsed.ok()) << parsed.message();
  return parsed.ok() ? *std::move(parsed) : ModelToml();
}

std::string Error(std::string_view text) {
  const auto parsed = ParseModelToml(text);
  EXPECT_FALSE(parsed.ok());
  return std::string(parsed.message());
}

std::string SectionWith(std::string_view lines) {
  return StrCat("[[section]]\nsection_type = \"TFLiteModel\"\ndata_path = \"a\"\n", lines);
}

TEST(ModelToml, ReadsWhatTheBuilderReads) {
  const ModelToml toml = Parse(R"(
[system_metadata]
entries = [
  { key = "Authors", value_type = "string", value = "ODML" },
  { key = "n", value_type = "Int32", value = -3 },
  { key = "f", value_type = "Float32", value = 0.10000000149011612 },
  { key = "yes", value_type = "BOOL", value = true },
]
[[section]]
section_type = "LlmMetadata"
data_path = "LlmMetadataProto.pbtext"
supports_thinking = false
[[section]]
section_type = "TFLiteModel"
model_type = "prefill_decode"
backend_constraint = "CPU,gpu"
prefer_activation_type = "fp32"
additional_metadata = [{key="k", value_type="String", value="v"}]
data_path = "model.tflite"
)");
  ASSERT_EQ(toml.system.size(), 4u);
  EXPECT_EQ(toml.system[1].value_type, 6);
  EXPECT_EQ(toml.system[1].value, "-3");
  EXPECT_EQ(toml.system[2].value, "0.1");
  EXPECT_EQ(toml.system[3].value, "true");
  ASSERT_EQ(toml.sections.size(), 2u);
  EXPECT_EQ(toml.sections[0].type, SectionType::kLlmMetadata);
  EXPECT_EQ(toml.sections[0].overrides.supports_thinking, false);
  const auto& items = toml.sections[1].items;
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0].value, "tf_lite_prefill_decode");
  EXPECT_EQ(items[1].key, "backend_constraint");
  EXPECT_EQ(items[1].value, "cpu,gpu");
  EXPECT_EQ(items[2].value, "fp32");
  EXPECT_EQ(items[3].key, "k");
}

TEST(ModelToml, EveryTypeOfValueComesBackAsItWas) {
  ModelToml toml;
  const std::pair<int, const char*> values[] = {{1, "255"},
                                                {2, "-128"},
                                                {3, "65535"},
                                                {4, "-1"},
                                                {5, "4294967295"},
                                                {6, "-7"},
                                                {7, "1.5"},
                                                {7, "3"},
                                                {7, "1e+20"},
                                                {8, "false"},
                                                {9, "a\"b\\c\nd\re\tf\x01 \xc3\xa9"},
                                                {10, "18446744073709551615"},
                                                {11, "-9223372036854775808"},
                                                {12, "0.30000000000000004"},
                                                {0, ""}};
  for (const auto& [type, value] : values) {
    toml.system.push_back({.key = StrCat("key \"", type, "\" ", toml.system.size()),
                           .value = value,
                           .value_type = static_cast<std::uint8_t>(type)});
  }
  TomlSection section;
  section.type = static_cast<SectionType>(42);
  section.data_path = "Section0.bin";
  toml.sections.push_back(section);
  section.type = SectionType::kTtsMetadata;
  toml.sections.push_back(section);
  const ModelToml again = Parse(WriteModelToml(toml));
  ASSERT_EQ(again.system.size(), toml.system.size());
  for (std::size_t i = 0; i < toml.system.size(); ++i) {
    EXPECT_EQ(again.system[i].key, toml.system[i].key);
    EXPECT_EQ(again.system[i].value, toml.system[i].value);
    EXPECT_EQ(again.system[i].value_type, toml.system[i].value_type);
  }
  ASSERT_EQ(again.sections.size(), 2u);
  EXPECT_EQ(again.sections[0].type, static_cast<SectionType>(42));
  EXPECT_EQ(again.sections[1].type, SectionType::kTtsMetadata);
}

TEST(ModelToml, SaysWhereAndWhatIsWrong) {
  EXPECT_NE(Error("a = [").find("line 1"), std::string::npos);
  EXPECT_NE(Error("other = 1").find("unexpected key 'other'"), std::string::npos);
  EXPECT_NE(Error("[[section]]\nsection_type=\"LlmMetadata\"").find("[[section]] 0: no data_path"),
            std::string::npos);
  EXPECT_NE(Error("[[section]]\nsection_type=\"Bogus\"\ndata_path=\"a\"").find("found 'Bogus'"),
            std::string::npos);
  EXPECT_NE(Error(SectionWith("")).find("no model_type"), std::string::npos);
  EXPECT_NE(Error(SectionWith("model_typ = \"x\"")).find("unexpected key 'model_typ'"),
            std::string::npos);
  EXPECT_NE(Error(SectionWith("model_type = 3")).find("expected a text"), std::string::npos);
  EXPECT_NE(Error("system_metadata = 1").find("no entries"), std::string::npos);
  EXPECT_NE(Error("[system_metadata]\nentries=[{key=\"k\",value_type=\"Int8\",value=\"x\"}, 3]")
                .find("expected an array"),
            std::string::npos);
  EXPECT_NE(Error("[system_metadata]\nentries=[{key=\"k\",value_type=\"Bool\",value=1}]")
                .find("expected true or false"),
            std::string::npos);
  EXPECT_NE(Error(SectionWith("model_type=\"a\"\nadditional_metadata=[{key=\"model_type\","
                              "value_type=\"String\",value=\"v\"}]"))
                .find("is a key of the section itself"),
            std::string::npos);
}

TEST(ModelToml, AKeyThatBeginsWrongIsAnError) {
  for (const char* text : {"[[`section]]", "[`a]", "[[\x01]]", "[[[a]]]", "`a = 1", "a.` = 1",
                           "a = {` = 1}", "[[=]]", "[.a]"}) {
    EXPECT_FALSE(ParseModelToml(text).ok()) << text;
  }
}

TEST(ModelToml, CharactersOutsideAsciiStandInDoubleQuotes) {
  // U+FEF7 is one of those that the library cannot take anywhere else.
  const std::string odd = "\xef\xbb\xb7 \xc3\xa9 \xf0\x9f\x98\x80";
  const auto entry = [](std::string_view value) {
    return StrCat("[system_metadata]\nentries=[{key=\"k\",value_type=\"String\",value=", value,
                  "}]\n");
  };
  for (const std::string quote : {"\"", "\"\"\""}) {
    const ModelToml toml = Parse(entry(quote + "a\\\\ \\\"" + odd + quote));
    ASSERT_EQ(toml.system.size(), 1u);
    EXPECT_EQ(toml.system[0].value, "a\\ \"" + odd);
  }
  EXPECT_EQ(Parse(StrCat("# ", odd, "'\"\n", entry("\"x\""))).system[0].value, "x");
  EXPECT_NE(Error(StrCat("\n", odd, " = 1")).find("line 2"), std::string::npos);
  EXPECT_NE(Error(entry("'" + odd + "'")).find("double quotes"), std::string::npos);
  EXPECT_NE(Error("a = \"\xff\"").find("not UTF-8"), std::string::npos);
}

TEST(ModelToml, DeepNestingIsAnErrorAndNoCrash) {
  EXPECT_FALSE(ParseModelToml(StrCat("a = ", std::string(100'000, '['))).ok());
  std::string dotted = "a";
  for (int i = 0; i < 200'000; ++i) dotted += ".a";
  EXPECT_NE(Error(StrCat("\n[", dotted, "]")).find("line 2: a key has more than"),
            std::string::npos);
  EXPECT_NE(Error(StrCat("[[", dotted, "]]")).find("a key has more"), std::string::npos);
  EXPECT_NE(Error(StrCat(dotted, " = 1")).find("a key has more"), std::string::npos);
  EXPECT_NE(Error(StrCat("a = [{", dotted, " = 1}]")).find("a key has more"), std::string::npos);
  // The text ends at the last quote, so the key behind it is one.
  EXPECT_NE(Error(StrCat("a = {b = \"\"\"b\"\"\"\", ", dotted, " = 1}")).find("a key has more"),
            std::string::npos);
}

TEST(ModelToml, DotsInTextsAreNoKeys) {
  const std::string dots(1000, '.');
  const ModelToml toml =
      Parse(StrCat("[system_metadata]\nentries=[{key=\"k\",value_type=\"String\",value=\"\"\"",
                   dots, "\"\"\"\"}]  # ", dots, "\n"));
  ASSERT_EQ(toml.system.size(), 1u);
  EXPECT_EQ(toml.system[0].value, dots + "\"");
}

TEST(PackProto, TextAndBytesAreTheSameMessage) {
  litertlm::LlmMetadata metadata;
  metadata.stop_tokens.push_back({.ids = {2, 3}, .text = "", .is_text = false, .unknown = ""});
  metadata.stop_tokens.push_back({.ids = {}, .text = "</s>\n", .is_text = true, .unknown = ""});
  metadata.model_type = "generic_model";
  metadata.max_num_tokens = 64;
  metadata.jinja_prompt_template = "{{ 'h\xc3\xa9' }}\n";
  const std::string bytes = litertlm::EncodeLlmMetadata(metadata);
  const auto text = MessageToText(MessageKind::kLlmMetadata, AsBytes(bytes));
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_NE(text->find("max_num_tokens: 64"), std::string::npos);
  EXPECT_NE(text->find("token_str: \"</s>\\n\""), std::string::npos);
  EXPECT_TRUE(TextCarries(MessageKind::kLlmMetadata, AsBytes(bytes), *text));
  // A field without a name is lost in the text, and noticed.
  const std::string more = bytes + std::string("\xd0\x0c\x07", 3);
  const auto same = MessageToText(MessageKind::kLlmMetadata, AsBytes(more));
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(*same, *text);
  EXPECT_FALSE(TextCarries(MessageKind::kLlmMetadata, AsBytes(more), *same));
}

TEST(PackProto, WrongTextIsNamedByLine) {
  const auto text = MessageFromText(MessageKind::kLlmMetadata, "max_num_tokens: 3\nbogus: 1\n");
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.message().find("line 2"), std::string::npos) << text.message();
  EXPECT_FALSE(
      MessageFromText(MessageKind::kLlmMetadata, "stop_tokens { token_str: \"\\377\" }").ok());
  EXPECT_FALSE(MessageToText(MessageKind::kLlmMetadata, AsBytes("\x0a\xff")).ok());
}

TEST(PackProto, OverridesReachTheActiveModelType) {
  LlmOverrides overrides;
  overrides.min_runtime_version = "0.18";
  overrides.supports_thinking = true;
  overrides.max_num_patches = 7;
  overrides.pooling_kernel_size = 3;
  const auto plain = ApplyOverrides({}, overrides);
  ASSERT_TRUE(plain.ok());
  const auto text = MessageToText(MessageKind::kLlmMetadata, AsBytes(*plain));
  EXPECT_NE(text->find("generic_model {\n    max_num_patches: 7\n    pooling_kernel_size: 3"),
            std::string::npos)
      << *text;
  EXPECT_NE(text->find("supports_thinking: true"), std::string::npos);
  // qwen3 has no such fields.
  const auto qwen = MessageFromText(MessageKind::kLlmMetadata, "llm_model_type { qwen3 {} }");
  const auto changed = ApplyOverrides(AsBytes(*qwen), overrides);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(MessageToText(MessageKind::kLlmMetadata, AsBytes(*changed))->find("patches"),
            std::string::npos);
}

}  // namespace
}  // namespace hone::bundle
