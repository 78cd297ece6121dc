// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/recipe.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"

namespace hone::quant {
namespace {

using codec::Coding;
using model::Role;

model::DecoderSpec SmallSpec() {
  model::DecoderSpec spec;
  spec.num_layers = 4;
  spec.hidden = 128;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  spec.ffn = 192;
  spec.vocab = 100;
  return spec;
}

Result<Recipe> Parse(std::string_view text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.message();
  return ParseRecipe(*json, "test");
}

std::string ParseError(std::string_view text) {
  auto recipe = Parse(text);
  EXPECT_EQ(recipe.code(), Code::kInvalidArgument) << text;
  return std::string(recipe.message());
}

Resolved ResolveText(std::string_view text) {
  auto recipe = Parse(text);
  EXPECT_TRUE(recipe.ok()) << recipe.message();
  auto resolved = Resolve(*recipe, SmallSpec(), false);
  EXPECT_TRUE(resolved.ok()) << resolved.message();
  return *std::move(resolved);
}

std::string Name(const Resolved& resolved, Role role, std::int64_t layer) {
  return SchemeName(resolved.Get(role, layer));
}

void ExpectContains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" lacks \"" << part << "\"";
}

TEST(Preset, EachGivesTheDocumentedSchemes) {
  struct Row {
    const char* preset;
    const char* embedding;
    const char* head;
    const char* q;
    const char* gate;
    const char* up;
  };
  const Row rows[] = {
      {"none", "f32", "f32", "f32", "f32", "f32"},
      {"int8", "int8 min-max", "int8 min-max", "int8 min-max", "int8 min-max", "int8 min-max"},
      {"int4", "int8 min-max", "int8 min-max", "int4_block32 octav", "int4_block32 octav",
       "int4_block32 octav"},
      {"boctav4", "int8 min-max", "int4_block32 octav", "int4_block32 octav", "int4_block32 octav",
       "int4_block32 octav"},
      {"boctav4_128", "int8 min-max", "int4_block128 octav", "int4_block128 octav",
       "int4_block128 octav", "int4_block128 octav"},
      {"mixed4_8", "int8 min-max", "int8 min-max", "int4_block64 octav", "int8 min-max",
       "int4_block64 octav"},
  };
  EXPECT_EQ(PresetNames().size(), std::size(rows));
  for (const Row& row : rows) {
    auto recipe = GetPreset(row.preset);
    ASSERT_TRUE(recipe.ok()) << row.preset;
    auto resolved = Resolve(*recipe, SmallSpec(), false);
    ASSERT_TRUE(resolved.ok()) << resolved.message();
    EXPECT_EQ(resolved->assignments.size(), 2U + 4U * 7U);
    EXPECT_EQ(Name(*resolved, Role::kEmbedding, 0), row.embedding) << row.preset;
    EXPECT_EQ(Name(*resolved, Role::kHead, -1), row.head) << row.preset;
    EXPECT_EQ(Name(*resolved, Role::kQ, 3), row.q) << row.preset;
    EXPECT_EQ(Name(*resolved, Role::kGate, 0), row.gate) << row.preset;
    EXPECT_EQ(Name(*resolved, Role::kUp, 0), row.up) << row.preset;
  }
}

TEST(Preset, UnknownNameListsTheKnownOnes) {
  auto recipe = LoadRecipe("int5");
  ASSERT_EQ(recipe.code(), Code::kInvalidArgument);
  ExpectContains(std::string(recipe.message()), "int5");
  ExpectContains(std::string(recipe.message()), "boctav4_128");
}

TEST(Recipe, LastMatchWins) {
  const Resolved r = ResolveText(R"({"rules": [
      {"roles": "*", "weights": "int8"},
      {"roles": ["gate", "up"], "layers": "0-1", "weights": "int4", "block": 64},
      {"roles": ["gate"], "layers": [-3, -1], "weights": "float32"}]})");
  EXPECT_EQ(Name(r, Role::kEmbedding, -1), "int8 min-max");
  EXPECT_EQ(Name(r, Role::kGate, 0), "int4_block64 octav");
  EXPECT_EQ(Name(r, Role::kGate, 1), "f32");
  EXPECT_EQ(Name(r, Role::kUp, 1), "int4_block64 octav");
  EXPECT_EQ(Name(r, Role::kUp, 2), "int8 min-max");
  EXPECT_EQ(Name(r, Role::kDown, 0), "int8 min-max");
}

TEST(Recipe, ARuleWithLayersLeavesEmbeddingAndHeadAlone) {
  const Resolved r = ResolveText(
      R"({"rules": [{"roles": "*", "layers": [0, -1], "weights": "int4", "block": 32,
                     "algorithm": "min-max"}]})");
  EXPECT_EQ(Name(r, Role::kHead, -1), "f32");
  EXPECT_EQ(Name(r, Role::kV, 3), "int4_block32 min-max");
}

TEST(Recipe, ASingleLayerIsARange) {
  const Resolved r =
      ResolveText(R"({"rules": [{"roles": ["q"], "layers": "2", "weights": "int8"}]})");
  EXPECT_EQ(Name(r, Role::kQ, 1), "f32");
  EXPECT_EQ(Name(r, Role::kQ, 2), "int8 min-max");
}

TEST(Recipe, ARuleThatMatchesNothingIsNamed) {
  auto recipe = Parse(R"({"rules": [{"roles": "*", "weights": "int8"},
      {"roles": ["embedding", "head"], "layers": "0-1", "weights": "float32"}]})");
  ASSERT_TRUE(recipe.ok());
  auto resolved = Resolve(*recipe, SmallSpec(), false);
  ASSERT_EQ(resolved.code(), Code::kInvalidArgument);
  ExpectContains(std::string(resolved.message()),
                 "rule 2 (roles [embedding, head], layers 0 to 1)");
}

TEST(Recipe, LayersOutsideTheModelAreRefused) {
  for (const char* layers : {"\"0-4\"", "[-5, -1]", "[3, 2]", "[1, -4]"}) {
    auto recipe =
        Parse(StrCat(R"({"rules": [{"roles": "*", "weights": "int8", "layers": )", layers, "}]}"));
    ASSERT_TRUE(recipe.ok()) << recipe.message();
    auto resolved = Resolve(*recipe, SmallSpec(), false);
    ASSERT_EQ(resolved.code(), Code::kInvalidArgument) << layers;
    ExpectContains(std::string(resolved.message()), "layers 0 to 3");
  }
}

TEST(Recipe, ColumnsThatABlockDoesNotDivideBecomeInt8AndANoteSaysSo) {
  auto recipe = GetPreset("boctav4_128");
  ASSERT_TRUE(recipe.ok());
  auto resolved = Resolve(*recipe, SmallSpec(), false);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(Name(*resolved, Role::kDown, 2), "int8 min-max");
  EXPECT_EQ(Name(*resolved, Role::kUp, 2), "int4_block128 octav");
  ASSERT_EQ(resolved->notes.size(), 1U);
  EXPECT_EQ(
      resolved->notes[0],
      "down in 4 layers: int8 per channel instead of int4_block128, since 128 does not divide "
      "the 192 columns");
  auto strict = Resolve(*recipe, SmallSpec(), true);
  ASSERT_EQ(strict.code(), Code::kUnsupported);
  ExpectContains(std::string(strict.message()), "down");
  ExpectContains(std::string(strict.message()), "192");
}

TEST(Recipe, UnknownKeysAreRefusedByName) {
  ExpectContains(ParseError(R"({"rules": [], "rule": 1})"), "\"rule\"");
  ExpectContains(ParseError(R"({"rules": [{"roles": "*", "weights": "int8", "bits": 8}]})"),
                 "rule 1: unknown key \"bits\"");
}

TEST(Recipe, WrongValuesAreNamed) {
  ExpectContains(ParseError("[]"), "an array");
  ExpectContains(ParseError(R"({"name": "x"})"), "rules");
  ExpectContains(ParseError(R"({"rules": [3]})"), "rule 1");
  ExpectContains(ParseError(R"({"rules": [{"weights": "int8"}]})"), "roles is missing");
  ExpectContains(ParseError(R"({"rules": [{"roles": [], "weights": "int8"}]})"), "roles");
  ExpectContains(ParseError(R"({"rules": [{"roles": ["final_norm"], "weights": "int8"}]})"),
                 "final_norm");
  ExpectContains(ParseError(R"({"rules": [{"roles": ["q", "q"], "weights": "int8"}]})"), "twice");
  ExpectContains(ParseError(R"({"rules": [{"roles": "*"}]})"), "weights: found nothing");
  ExpectContains(ParseError(R"({"rules": [{"roles": "*", "weights": "int5"}]})"), "int5");
  ExpectContains(ParseError(R"({"rules": [{"roles": "*", "weights": "int4"}]})"), "block");
  ExpectContains(ParseError(R"({"rules": [{"roles": "*", "weights": "int4", "block": 48}]})"),
                 "48");
  ExpectContains(ParseError(R"({"rules": [{"roles": "*", "weights": "int8", "block": 32}]})"),
                 "block");
  ExpectContains(
      ParseError(R"({"rules": [{"roles": "*", "weights": "int8", "algorithm": "gptq"}]})"), "gptq");
  ExpectContains(
      ParseError(R"({"rules": [{"roles": "*", "weights": "float32", "algorithm": "octav"}]})"),
      "algorithm");
  for (const char* layers : {"\"-1\"", "\"\"", "\"3-\"", "\"0-3x\"", "\"a\"", "[1]", "[0, 1.5]",
                             "3", "[0, 99999999999]", "null"}) {
    ExpectContains(ParseError(StrCat(R"({"rules": [{"roles": "*", "weights": "int8", "layers": )",
                                     layers, "}]}")),
                   "layers");
  }
}

TEST(Recipe, LoadsAFileAndNamesItInErrors) {
  const std::string path = testing::TempDir() + "hone_recipe_test.json";
  ASSERT_TRUE(WriteFileAtomic(path, AsBytes(R"({"name": "mine", "rules": []})")).ok());
  auto recipe = LoadRecipe(path);
  ASSERT_TRUE(recipe.ok()) << recipe.message();
  EXPECT_EQ(recipe->name, "mine");
  // The name goes into the bundle, so it must not say where the file lies.
  ASSERT_TRUE(WriteFileAtomic(path, AsBytes(R"({"rules": []})")).ok());
  EXPECT_EQ(LoadRecipe(path)->name, "hone_recipe_test.json");
  ASSERT_TRUE(WriteFileAtomic(path, AsBytes("{\"rules\": [}")).ok());
  recipe = LoadRecipe(path);
  ASSERT_FALSE(recipe.ok());
  ExpectContains(std::string(recipe.message()), path);
}

}  // namespace
}  // namespace hone::quant
