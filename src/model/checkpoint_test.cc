// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "model/reference_forward.h"
#include "model/test_util.h"

namespace hone::model {
namespace {

// Opens a folder and looks at every weight, as a conversion does. All messages, joined.
struct Outcome {
  Code code = Code::kOk;
  std::string text;
};
Outcome OpenAndCheck(const std::string& folder) {
  auto checkpoint = OpenCheckpoint(folder);
  if (!checkpoint.ok()) return {checkpoint.code(), std::string(checkpoint.message())};
  Outcome out;
  for (const std::string& warning : checkpoint->warnings) out.text += warning + "\n";
  for (const std::string& warning : checkpoint->text.warnings) out.text += warning + "\n";
  for (const LayerWeights& layer : checkpoint->model.layers) {
    for (const Weight* weight : {&layer.q, &layer.down}) {
      if (const Status status = CheckFinite(*weight); !status.ok()) {
        return {status.code(), std::string(status.message())};
      }
    }
  }
  return out;
}

// Whoever compiles the template sees the fault of this one.
const std::set<std::string> kOtherLayers = {"template-bad-jinja"};

TEST(OpenCheckpoint, GivesTheVerdictOfEveryWrongInput) {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenPath("bad"))) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    const Json expect = ReadJson(entry.path().string() + "/expect.json");
    const std::string& verdict = expect.Find("verdict")->AsString();
    const Outcome got = OpenAndCheck(entry.path().string());
    SCOPED_TRACE(name + ": " + got.text);
    ++cases;
    if (kOtherLayers.contains(name)) continue;
    if (verdict == "accept") {
      EXPECT_EQ(got.code, Code::kOk);
      EXPECT_EQ(got.text, "");
      continue;
    }
    if (verdict == "refuse") {
      EXPECT_NE(got.code, Code::kOk);
    }
    if (got.code != Code::kOk) {
      EXPECT_TRUE(ExitCode(got.code) == 2 || ExitCode(got.code) == 5) << ExitCode(got.code);
      EXPECT_EQ(got.text.find('\n'), std::string::npos);
    }
    for (const Json& word : expect.Find("message_should_contain_all")->AsArray()) {
      EXPECT_TRUE(HasOneOf(got.text, word.AsString())) << "lacks " << word.AsString();
    }
  }
  EXPECT_EQ(cases, 35);
}

TEST(OpenCheckpoint, SaysThatMissingSourcesAreMissing) {
  auto nothing = OpenCheckpoint("/nonexistent/model");
  EXPECT_EQ(nothing.code(), Code::kNotFound);
  auto weights = OpenCheckpoint(GoldenPath("bad/00-control-ok/model.safetensors"));
  EXPECT_EQ(weights.code(), Code::kUnsupported);
  EXPECT_TRUE(HasOneOf(std::string(weights.message()), "folder"));
}

class EditedConfig : public EditedCheckpoint {
 protected:
  void SetUp() override { Start(GoldenPath("bad/00-control-ok")); }
};

TEST_F(EditedConfig, HarmlessAndSwitchedOffKeysAreIgnored) {
  config_.Set("_name_or_path", "somewhere/else");
  config_.Set("unsloth_version", "2026.1");
  config_.Set("attention_dropout", 0.1);
  config_.Set("pretraining_tp", 1);
  config_.Set("rope_interleaved", false);
  config_.Set("sliding_window", Json());
  config_.Set("logits_scaling", 1.0);
  config_.Set("layer_types", Json::Array{"full_attention", "full_attention"});
  config_.Set("something_new", Json());
  ExpectOpens();
}

TEST_F(EditedConfig, KeysThatChangeTheNumbersAreRefusedByName) {
  const std::pair<const char*, Json> keys[] = {
      {"sliding_window", 16},
      {"pretraining_tp", 2},
      {"scale_emb", 12},
      {"logits_scaling", 8.0},
      {"residual_multiplier", 0.5},
      {"partial_rotary_factor", 0.5},
      {"attn_logit_softcapping", 50.0},
      {"use_qk_norm", true},
      {"foo_scale", 2.5},
      {"layer_types", Json::Array{"sliding_attention"}},
      {"num_experts", 8},
      {"quantization_config", Json::Object{{"quant_method", "gptq"}}},
  };
  for (const auto& [key, value] : keys) {
    SetUp();
    config_.Set(key, value);
    ExpectRefused(key);
  }
}

TEST_F(EditedConfig, SlidingWindowMayBeSwitchedOffByItsFlag) {
  config_.Set("sliding_window", 16);
  config_.Set("use_sliding_window", false);
  ExpectOpens();
  config_.Set("use_sliding_window", true);
  ExpectRefused("sliding_window");
}

TEST_F(EditedConfig, QuantizedSourcesAreNamed) {
  config_.Set("quantization_config", Json::Object{{"quant_method", "gptq"}});
  ExpectRefused("gptq");
}

TEST_F(EditedConfig, DtypeInBothStylesMustAgree) {
  config_.Set("dtype", "bfloat16");
  ExpectOpens();
  config_.Set("dtype", "float16");
  ExpectRefused("torch_dtype");
}

TEST_F(EditedConfig, OtherArchitecturesAreRefusedByName) {
  config_.Set("architectures", Json::Array{"MixtralForCausalLM"});
  config_.Set("model_type", "mixtral");
  ExpectRefused("MixtralForCausalLM");
  Erase("architectures");
  ExpectRefused("mixtral");
  config_.Set("model_type", "llama");
  ExpectOpens();
  Erase("model_type");
  ExpectRefused("model_type");
}

TEST_F(EditedConfig, RequiredKeysAreNamed) {
  for (const char* key :
       {"num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size",
        "num_attention_heads", "max_position_embeddings", "rms_norm_eps", "hidden_act"}) {
    SetUp();
    Erase(key);
    ExpectRefused(key);
    config_.Set(key, "many");
    ExpectRefused(key);
  }
}

TEST_F(EditedConfig, HeadDimComesFromTheKeyOrFromHiddenSize) {
  Erase("head_dim");  // 16 / 4 = 4, but the weights have heads of 8
  ExpectRefused("q_proj.weight");
  Start(GoldenPath("families/llama-bias/hf"));
  config_.Set("head_dim", Json());
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_EQ(got->model.spec.head_dim, 16);
  EXPECT_FLOAT_EQ(got->model.spec.attention_scale, 0.25f);
}

TEST_F(EditedConfig, MissingKeyValueHeadsMeansOneForEachHead) {
  Erase("num_key_value_heads");
  ExpectRefused("k_proj.weight");  // 4 heads of 8 expected, 2 are there
}

TEST_F(EditedConfig, HugeDimensionsAreRefusedWithoutAllocating) {
  config_.Set("num_hidden_layers", 4096);
  ExpectRefused("model.layers.2.input_layernorm.weight");
  config_.Set("num_hidden_layers", std::int64_t{1} << 40);
  ExpectRefused("num_hidden_layers");
}

// tie_word_embeddings and lm_head.weight: the four cases.
class TiedHead : public EditedConfig {};

TEST_F(TiedHead, TiedAndAbsentSharesTheEmbedding) {
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_TRUE(got->model.spec.tied_head);
  EXPECT_EQ(got->model.head.view.codes.data(), got->model.embedding.view.codes.data());
}

TEST_F(TiedHead, UntiedAndAbsentIsRefused) {
  config_.Set("tie_word_embeddings", false);
  ExpectRefused("lm_head.weight");
  Erase("tie_word_embeddings");
  ExpectRefused("lm_head.weight");
}

TEST_F(TiedHead, UntiedAndPresentKeepsBoth) {
  Start(GoldenPath("families/llama-bias/hf"));
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_FALSE(got->model.spec.tied_head);
  EXPECT_EQ(got->model.head.name, "lm_head.weight");
}

TEST_F(TiedHead, TiedAndADifferentHeadKeepsTheHeadAndWarns) {
  Start(GoldenPath("families/llama-bias/hf"));
  config_.Set("tie_word_embeddings", true);
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_FALSE(got->model.spec.tied_head);
  ASSERT_EQ(got->warnings.size(), 1U);
  EXPECT_TRUE(HasOneOf(got->warnings[0], "lm_head.weight"));
}

TEST_F(TiedHead, TiedAndAnEqualHeadIsDropped) {
  Start(GoldenPath("families/llama-bias/hf"));
  config_.Set("tie_word_embeddings", true);
  // Copies the embedding's bytes over the head's.
  std::string file = ReadText(folder_->File("model.safetensors"));
  {
    auto got = Open();
    ASSERT_TRUE(got.ok()) << got.message();
    const ByteSpan embedding = got->model.embedding.view.codes;
    const ByteSpan head = got->model.head.view.codes;
    const std::size_t at = file.find(AsText(head));
    ASSERT_NE(at, std::string::npos);
    file.replace(at, head.size(), AsText(embedding));
  }
  folder_->Write("model.safetensors", file);
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_TRUE(got->model.spec.tied_head);
  EXPECT_TRUE(got->warnings.empty());
}

TEST_F(EditedConfig, AMissingTensorUnderAnotherPrefixIsPointedAt) {
  Start(GoldenPath("families/llama-bias/hf"));
  std::string file = ReadText(folder_->File("model.safetensors"));
  const std::string name = "model.embed_tokens.weight";
  const std::size_t at = file.find(name);
  ASSERT_NE(at, std::string::npos);
  file.replace(at, name.size(), "mod_l.embed_tokens.weight");
  folder_->Write("model.safetensors", file);
  ExpectRefused("there is mod_l.embed_tokens.weight");
}

// A weight of ones with one value replaced by these bits.
template <typename Bits>
Code CodeWith(codec::Coding coding, Bits one, Bits bits, std::size_t at, std::string* message) {
  std::vector<Bits> data(3 * 5000, one);
  data[at] = bits;
  Weight weight;
  weight.name = "some.weight";
  weight.view = {{coding, 0}, 3, 5000, std::as_bytes(std::span(data)), {}};
  const Status status = CheckFinite(weight);
  *message = status.message();
  return status.code();
}

TEST(CheckFinite, FindsNanAndInfinityInEveryFloatType) {
  std::string message;
  const std::size_t at = 2 * 5000 + 4321;
  EXPECT_EQ(CodeWith<std::uint32_t>(codec::Coding::kF32, 0x3f800000U, 0xff800000U, at, &message),
            Code::kDataLoss);
  EXPECT_TRUE(HasOneOf(message, "-Inf")) << message;
  EXPECT_TRUE(HasOneOf(message, "row 2, column 4321")) << message;
  EXPECT_TRUE(HasOneOf(message, "some.weight: 1 value is")) << message;
  EXPECT_EQ(CodeWith<std::uint16_t>(codec::Coding::kF16, 0x3c00U, 0x7e00U, at, &message),
            Code::kDataLoss);
  EXPECT_TRUE(HasOneOf(message, "(NaN)")) << message;
  EXPECT_EQ(CodeWith<std::uint16_t>(codec::Coding::kBf16, 0x3f80U, 0x7f80U, at, &message),
            Code::kDataLoss);
  // The largest finite numbers are fine.
  EXPECT_EQ(CodeWith<std::uint32_t>(codec::Coding::kF32, 0x3f800000U, 0x7f7fffffU, at, &message),
            Code::kOk);
  EXPECT_EQ(CodeWith<std::uint16_t>(codec::Coding::kF16, 0x3c00U, 0xfbffU, at, &message),
            Code::kOk);
  EXPECT_EQ(CodeWith<std::uint16_t>(codec::Coding::kBf16, 0x3f80U, 0x7f7fU, at, &message),
            Code::kOk);
}

TEST(CheckFinite, FindsBadScalesOfGgufBlocks) {
  std::vector<std::byte> bytes(4 * 20, std::byte{1});  // Q4_1 [2, 64]
  Weight weight;
  weight.name = "blk.0.ffn_down.weight";
  weight.view = {{codec::Coding::kGgufQ4_1, 0}, 2, 64, bytes, {}};
  EXPECT_TRUE(CheckFinite(weight).ok());
  bytes[3 * 20 + 2] = std::byte{0};
  bytes[3 * 20 + 3] = std::byte{0x7c};  // the minimum of the last block is +infinity
  const Status status = CheckFinite(weight);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_TRUE(HasOneOf(std::string(status.message()), "row 1, column 32")) << status.message();
}

}  // namespace
}  // namespace hone::model
