// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/litertlm/llm_metadata.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace hone::formats::litertlm {
namespace {

std::vector<std::string> GoldenFiles(std::string_view name) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(HONE_SHARED_DATA) / "golden/bundles")) {
    if (entry.path().filename() == name) out.push_back(entry.path());
  }
  return out;
}

std::string Bytes(std::initializer_list<int> bytes) {
  std::string out;
  for (const int b : bytes) out += static_cast<char>(b);
  return out;
}

TEST(LlmMetadata, GoldenFilesEncodeToTheSameBytes) {
  const auto files = GoldenFiles("llm_metadata.pb");
  ASSERT_EQ(files.size(), 3u);
  for (const std::string& path : files) {
    const auto text = ReadFile(path);
    ASSERT_TRUE(text.ok()) << text.message();
    const auto metadata = ParseLlmMetadata(AsBytes(*text));
    ASSERT_TRUE(metadata.ok()) << path << ": " << metadata.message();
    EXPECT_EQ(metadata->model_type, "generic_model");
    EXPECT_EQ(metadata->max_num_tokens, 128);
    EXPECT_TRUE(metadata->unknown.empty());
    EXPECT_FALSE(metadata->stop_tokens.empty());
    ASSERT_TRUE(metadata->jinja_prompt_template.has_value());
    EXPECT_EQ(EncodeLlmMetadata(*metadata), *text) << path;
  }
}

TEST(LlmMetadata, ReadsTheMessageOfTheFormatNotes) {
  const std::string text = Bytes(
      {0x0a, 0x05, 0x0a, 0x03, 0x0a, 0x01, 0x01, 0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 0x02, 0x22,
       0x0e, 0x08, 0x02, 0x10, 0x28, 0x1d, 0x33, 0x33, 0x73, 0x3f, 0x25, 0xcd, 0xcc, 0x4c, 0x3f,
       0x28, 0x80, 0x04, 0x32, 0x02, 0x0a, 0x00, 0x3a, 0x05, 0x7b, 0x7b, 0x78, 0x7d, 0x7d});
  const auto m = ParseLlmMetadata(AsBytes(text));
  ASSERT_TRUE(m.ok()) << m.message();
  EXPECT_EQ(m->start_token->ids, std::vector<std::int32_t>{1});
  ASSERT_EQ(m->stop_tokens.size(), 1u);
  EXPECT_EQ(m->stop_tokens[0].ids, std::vector<std::int32_t>{2});
  EXPECT_EQ(m->sampler->type, SamplerType::kTopP);
  EXPECT_EQ(m->sampler->k, 40);
  EXPECT_EQ(m->sampler->p, 0.95f);
  EXPECT_EQ(m->sampler->temperature, 0.8f);
  EXPECT_EQ(m->max_num_tokens, 512);
  EXPECT_EQ(m->model_type, "generic_model");
  EXPECT_EQ(m->jinja_prompt_template, "{{x}}");
  EXPECT_EQ(EncodeLlmMetadata(*m), text);
}

TEST(LlmMetadata, KeepsUnknownFieldsInTheirOrder) {
  const std::string text = Bytes({
      0x12, 0x05, 0x12, 0x03, 'e',  'n', 'd',  // stop token as text
      0x28, 0x10,                              // max_num_tokens
      0x32, 0x04, 0x9a, 0x06, 0x01, 'x',       // model type 99
      0x50, 0x07,                              // kv_cache_init_value
      0x58, 0x01,                              // supports_thinking
      0xa0, 0x06, 0x05,                        // field 100
      0xaa, 0x06, 0x02, 'h',  'i',             // field 101
  });
  auto m = ParseLlmMetadata(AsBytes(text));
  ASSERT_TRUE(m.ok()) << m.message();
  EXPECT_EQ(m->model_type, "field 99");
  EXPECT_EQ(m->model_type_body, "x");
  EXPECT_TRUE(m->stop_tokens.at(0).is_text);
  EXPECT_EQ(m->supports_thinking, true);
  EXPECT_EQ(EncodeLlmMetadata(*m), text);
  m->supports_function_calling = false;
  const auto again = ParseLlmMetadata(AsBytes(EncodeLlmMetadata(*m)));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->supports_function_calling, false);
  EXPECT_EQ(again->unknown, m->unknown);
}

TEST(LlmMetadata, KeepsAFieldOfAnotherWireTypeAsUnknown) {
  const std::string text = Bytes({0x2a, 0x01, 'x'});  // max_num_tokens as bytes
  const auto m = ParseLlmMetadata(AsBytes(text));
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->max_num_tokens, 0);
  EXPECT_EQ(EncodeLlmMetadata(*m), text);
}

TEST(LlmMetadata, ReadsNumbersThatAreNotPacked) {
  const auto m = ParseLlmMetadata(AsBytes(Bytes({0x12, 0x06, 0x0a, 0x04, 8, 1, 8, 2})));
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->stop_tokens.at(0).ids, (std::vector<std::int32_t>{1, 2}));
}

TEST(LlmMetadata, DamagedMessagesNameTheField) {
  for (const std::string& text :
       {Bytes({0x12, 0x7f, 0x0a}), Bytes({0x12, 0x02, 0x0a, 0x05}), Bytes({0x00}), Bytes({0x2b}),
        Bytes({0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}),
        Bytes({0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01, 0x80})}) {
    const auto m = ParseLlmMetadata(AsBytes(text));
    ASSERT_FALSE(m.ok());
    EXPECT_EQ(m.code(), Code::kDataLoss);
    EXPECT_TRUE(m.message().starts_with("LlmMetadata: ")) << m.message();
  }
  const auto m = ParseLlmMetadata(AsBytes(Bytes({0x12, 0x02, 0x0a, 0x05})));
  EXPECT_NE(m.message().find("field 2"), std::string_view::npos) << m.message();
}

TEST(ExecutorMetadata, GoldenFilesEncodeToTheSameBytes) {
  const auto files = GoldenFiles("executor_metadata.pb");
  ASSERT_EQ(files.size(), 3u);
  for (const std::string& path : files) {
    const auto text = ReadFile(path);
    ASSERT_TRUE(text.ok()) << text.message();
    const auto metadata = ParseExecutorMetadata(AsBytes(*text));
    ASSERT_TRUE(metadata.ok()) << path << ": " << metadata.message();
    ASSERT_EQ(metadata->state_buffers.size(), 4u);
    EXPECT_EQ(metadata->max_history_size, 128);
    for (const StateBuffer& state : metadata->state_buffers) {
      EXPECT_EQ(state.maximum_sequence_length, 128);
      const bool key = state.prefill_input.find("_k_") != std::string::npos;
      EXPECT_EQ(state.type, key ? StateType::kGlobalKey : StateType::kGlobalValue);
      EXPECT_EQ(state.sequence_axis, key ? 2 : 3);
      EXPECT_TRUE(state.unknown.empty());
    }
    EXPECT_EQ(EncodeExecutorMetadata(*metadata), *text) << path;
  }
}

TEST(ExecutorMetadata, MaskSettingsAreReadAndKept) {
  // attention_mask_settings { attention_mask_type: CAUSAL local: true sliding_window_size: 512 }
  const auto bytes = Bytes({0x0a, 0x09, 0x1a, 0x07, 0x08, 0x01, 0x10, 0x01, 0x18, 0x80, 0x04});
  const auto metadata = ParseExecutorMetadata(AsBytes(bytes));
  ASSERT_TRUE(metadata.ok()) << metadata.message();
  const auto masks = ReadAttentionMasks(*metadata);
  ASSERT_TRUE(masks.ok()) << masks.message();
  ASSERT_EQ(masks->size(), 1u);
  EXPECT_EQ((*masks)[0].type, 1);
  EXPECT_TRUE((*masks)[0].local);
  EXPECT_EQ((*masks)[0].sliding_window, 512);
  EXPECT_EQ(EncodeExecutorMetadata(*metadata), bytes);
}

TEST(ExecutorMetadata, RefusesACutMessage) {
  EXPECT_FALSE(ParseExecutorMetadata(AsBytes(Bytes({0x0a, 0x05, 0x12}))).ok());
}

}  // namespace
}  // namespace hone::formats::litertlm
