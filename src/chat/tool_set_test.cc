// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_set.h"

#include <gtest/gtest.h>

#include "chat/python_literal.h"
#include "chat/xml_text.h"

namespace hone::chat {
namespace {

Json MustParse(std::string_view text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << text << ": " << json.message();
  return json.ok() ? *std::move(json) : Json();
}

std::string ToolError(std::string_view tools) {
  const auto set = ToolSet::Parse(MustParse(tools));
  return set.ok() ? "ok" : std::string(set.message());
}

TEST(ToolSet, ReadsBothShapesOfAnEntry) {
  const auto set = ToolSet::Parse(MustParse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
          {"type": "function", "name": "g"}, {"name": "h", "parameters": null}])"));
  ASSERT_TRUE(set.ok()) << set.message();
  ASSERT_EQ(set->tools().size(), 3U);
  EXPECT_EQ(set->Find("f")->parameters.Dump(), R"({"type":"object"})");
  EXPECT_EQ(set->Find("g")->parameters.Dump(), "{}");
  EXPECT_EQ(set->Find("x"), nullptr);
  EXPECT_TRUE(ToolSet::Parse(Json())->empty());
}

TEST(ToolSet, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(ToolError("5"), "tools: found an integer, expected an array");
  EXPECT_EQ(ToolError("[5]"), "tools[0]: found an integer, expected an object");
  EXPECT_EQ(ToolError(R"([{"name": "a"}, {"type": "function", "function": {}}])"),
            "tools[1].function.name: found nothing, expected a name");
  EXPECT_EQ(ToolError(R"([{"name": ""}])"), "tools[0].name: found a string, expected a name");
  EXPECT_EQ(ToolError(R"([{"name": "a", "parameters": []}])"),
            "tools[0].function.parameters: found an array, expected a JSON schema");
  EXPECT_EQ(ToolError(R"([{"name": "a"}, {"name": "a"}])"),
            "tools[1]: the name \"a\" appears twice");
  EXPECT_EQ(ToolError(R"([{"type": "web_search"}])"),
            "tools[0].type: found \"web_search\", only \"function\" is supported");
}

TEST(ToolSet, FindsTheTypesOfASchema) {
  const auto types = [](std::string_view schema) {
    const Json root = MustParse(R"({"$defs": {"d": {"type": "integer"}, "a/b": {"type": "array"},
        "loop": {"$ref": "#/$defs/loop"}}})");
    return TypeNames(SchemaTypes(MustParse(schema), root));
  };
  EXPECT_EQ(types(R"({"type": "string"})"), "string");
  EXPECT_EQ(types(R"({"type": ["integer", "null"]})"), "integer or null");
  EXPECT_EQ(types(R"({"type": "integer", "nullable": true})"), "integer or null");
  EXPECT_EQ(types(R"({"anyOf": [{"type": "number"}, {"type": "null"}]})"), "number or null");
  EXPECT_EQ(types(R"({"oneOf": [{"type": "number"}, {}]})"), "anything");
  EXPECT_EQ(types(R"({"allOf": [{"type": ["string", "integer"]}, {"type": "string"}]})"), "string");
  EXPECT_EQ(types(R"({"$ref": "#/$defs/d"})"), "integer");
  EXPECT_EQ(types(R"({"$ref": "#/$defs/a~1b"})"), "array");
  EXPECT_EQ(types(R"({"$ref": "#/$defs/loop"})"), "anything");
  EXPECT_EQ(types(R"({"$ref": "http://x/y"})"), "anything");
  EXPECT_EQ(types(R"({"enum": ["a", "b"]})"), "string");
  EXPECT_EQ(types(R"({"enum": [1, null]})"), "integer or null");
  EXPECT_EQ(types(R"({"const": true})"), "boolean");
  EXPECT_EQ(types(R"({"properties": {}})"), "object");
  EXPECT_EQ(types(R"({"type": "strange"})"), "anything");
  EXPECT_EQ(types("true"), "anything");
}

TEST(ToolSet, KnowsWhichArgumentsAToolTakes) {
  const auto set = ToolSet::Parse(MustParse(R"([
    {"name": "closed", "parameters": {"properties": {"a": {}}, "required": ["a", 5]}},
    {"name": "open", "parameters": {"properties": {"a": {}}, "additionalProperties": true}},
    {"name": "typed", "parameters": {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}},
    {"name": "behind", "parameters": {"$ref": "#/$defs/p", "$defs": {"p": {"properties": {"b": {"type": "null"}}}}}},
    {"name": "none"}, {"name": "nothing", "parameters": {"additionalProperties": false}}])"));
  ASSERT_TRUE(set.ok()) << set.message();
  const auto takes = [&](std::string_view tool, std::string_view name) {
    return FindParameter(*set->Find(tool), name) != nullptr;
  };
  EXPECT_TRUE(takes("closed", "a"));
  EXPECT_FALSE(takes("closed", "b"));
  EXPECT_TRUE(takes("open", "b"));
  EXPECT_EQ(FindParameter(*set->Find("typed"), "b")->Dump(), R"({"type":"integer"})");
  EXPECT_TRUE(takes("behind", "b"));
  EXPECT_FALSE(takes("behind", "a"));
  EXPECT_TRUE(takes("none", "b"));
  EXPECT_FALSE(takes("nothing", "b"));
  EXPECT_EQ(RequiredParameters(*set->Find("closed")), std::vector<std::string>{"a"});
}

std::string FromText(std::string_view text, unsigned types) {
  const auto json = JsonFromText(text, types);
  return json.ok() ? *json : StrCat("ERROR ", json.message());
}

TEST(ToolSet, MakesValuesOfText) {
  EXPECT_EQ(FromText("007", kStringBit), "\"007\"");
  EXPECT_EQ(FromText(" true ", kStringBit), "\" true \"");
  EXPECT_EQ(FromText("3", kIntegerBit), "3");
  EXPECT_EQ(FromText(" 3\n", kIntegerBit), "3");
  EXPECT_EQ(FromText("3.0", kIntegerBit), "3.0");
  EXPECT_EQ(FromText("123456789012345678901234567890", kIntegerBit),
            "123456789012345678901234567890");
  EXPECT_EQ(FromText("1.5", kNumberBit), "1.5");
  EXPECT_EQ(FromText("TRUE", kBooleanBit), "true");
  EXPECT_EQ(FromText("None", kNullBit), "null");
  EXPECT_EQ(FromText("None", kNullBit | kStringBit), "\"None\"");
  EXPECT_EQ(FromText("null", kNullBit | kStringBit), "null");
  EXPECT_EQ(FromText("007", kIntegerBit | kStringBit), "\"007\"");
  EXPECT_EQ(FromText("7", kIntegerBit | kStringBit), "7");
  EXPECT_EQ(FromText("[1, \"a\"]", kArrayBit), "[1, \"a\"]");
  EXPECT_EQ(FromText("{'k': 'v', 'n': None}", kObjectBit), R"({"k":"v","n":null})");
  EXPECT_EQ(FromText("{}", kArrayBit | kStringBit), "\"{}\"");
  // Without a type strict JSON is what it says, and the rest is text.
  EXPECT_EQ(FromText("3", 0), "3");
  EXPECT_EQ(FromText("007", 0), "\"007\"");
  EXPECT_EQ(FromText("Tokyo ", 0), "\"Tokyo \"");
  EXPECT_EQ(FromText("{\"a\": 1}", 0), "{\"a\": 1}");
  EXPECT_EQ(FromText("abc", kIntegerBit), "ERROR found \"abc\", expected integer");
  EXPECT_EQ(FromText("1.5", kIntegerBit), "ERROR found \"1.5\", expected integer");
  EXPECT_EQ(FromText("007", kIntegerBit), "ERROR found \"007\", expected integer");
  EXPECT_EQ(FromText("yes", kBooleanBit | kNullBit),
            "ERROR found \"yes\", expected boolean or null");
  EXPECT_EQ(FromText("[1", kArrayBit), "ERROR found \"[1\", expected array");
}

std::string Python(std::string_view text) {
  const auto json = JsonFromPythonLiteral(text);
  return json.ok() ? *json : "ERROR";
}

TEST(PythonLiteral, BecomesJson) {
  EXPECT_EQ(Python("'a'"), "\"a\"");
  EXPECT_EQ(Python(R"("it's \"x\"\n")"), R"("it's \"x\"\n")");
  EXPECT_EQ(Python("'''a\n'b'''"), R"("a\n'b")");
  EXPECT_EQ(Python("'a' \"b\""), "\"ab\"");
  EXPECT_EQ(Python(R"('\x41\u00e9\U0001F60A\101\q\
')"),
            "\"A\xc3\xa9\xf0\x9f\x98\x8a"
            R"(A\\q")");
  EXPECT_EQ(Python(R"('\ud83d\ude0a')"), "\"\xf0\x9f\x98\x8a\"");
  EXPECT_EQ(Python(R"('\ud83d!')"), "\"\xef\xbf\xbd!\"");
  EXPECT_EQ(Python("[True, False, None, true, null]"), "[true,false,null,true,null]");
  EXPECT_EQ(Python("(1, 2,)"), "[1,2]");
  EXPECT_EQ(Python("(1,)"), "[1]");
  EXPECT_EQ(Python("([1, 2])"), "[1,2]");
  EXPECT_EQ(Python("{'a': {1: -2.5e3}, 'b': []}"), R"({"a":{"1":-2.5e3},"b":[]})");
  EXPECT_EQ(Python("+1_000"), "1000");
  EXPECT_EQ(Python("[.5, 1., 12345678901234567890123]"), "[0.5,1.0,12345678901234567890123]");
  for (const char* wrong : {"", "x", "f(1)", "1 + 2", "'a", "[1", "[1 2]", "{'a'}", "{[1]: 2}",
                            "007", "1.2.3", "--1", "'\\x4'", "b'a'", "1]", "nan", "{,}", "[,]"}) {
    EXPECT_EQ(Python(wrong), "ERROR") << wrong;
  }
  EXPECT_EQ(Python(std::string(5000, '[')), "ERROR");
}

TEST(XmlText, DecodesEntitiesAndCdata) {
  EXPECT_EQ(TextOfXml("R&amp;D &lt;b&gt; &quot;&apos; &#65;&#x42;"), "R&D <b> \"' AB");
  EXPECT_EQ(TextOfXml("a & b &nope; &; &#; &#x; &amp"), "a & b &nope; &; &#; &#x; &amp");
  EXPECT_EQ(TextOfXml("&amp;lt;"), "&lt;");
  EXPECT_EQ(TextOfXml("<![CDATA[if (a<b) {\n x&amp;&&y }]]>"), "if (a<b) {\n x&amp;&&y }");
  EXPECT_EQ(TextOfXml("\n <![CDATA[ a ]]> \n"), " a ");
  EXPECT_EQ(TextOfXml("x<![CDATA[<]]>&lt;<![CDATA[>]]>"), "x<<>");
  EXPECT_EQ(TextOfXml("<![CDATA[a]]>]]>"), "a]]>");
  EXPECT_EQ(TextOfXml("<![CDATA[a]]]]><![CDATA[>b]]>"), "a]]>b");
  EXPECT_EQ(TextOfXml("<![CDATA[open"), "open");
  EXPECT_EQ(TextOfXml(""), "");
}

TEST(XmlText, ReadsTheNameAttributeAndNothingElse) {
  std::string name;
  bool closes = false;
  EXPECT_TRUE(NameAttribute(" name=\"a &amp; b\"", name, closes));
  EXPECT_EQ(name, "a & b");
  EXPECT_FALSE(closes);
  EXPECT_TRUE(NameAttribute(" name = 'f' /", name, closes));
  EXPECT_EQ(name, "f");
  EXPECT_TRUE(closes);
  for (const char* wrong : {"", " name", " name=", " name=f", " name=\"f", " name=\"f'",
                            " id=\"f\"", " name=\"f\" id=\"g\"", " name=\"f\"g\""}) {
    EXPECT_FALSE(NameAttribute(wrong, name, closes)) << wrong;
  }
}

}  // namespace
}  // namespace hone::chat
