// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the families read of their configurations: the tiny checkpoints, edited.
#include <gtest/gtest.h>

#include <cmath>

#include "model/checkpoint.h"
#include "model/reference_forward.h"
#include "model/test_util.h"

namespace hone::model {
namespace {

class Families : public EditedCheckpoint {
 protected:
  void StartTiny(const std::string& name) { Start(HONE_TESTDATA "/families/" + name); }
  // The spec of the edited folder.
  DecoderSpec Spec() {
    auto got = Open();
    EXPECT_TRUE(got.ok()) << got.message();
    return got.ok() ? std::move(got->model.spec) : DecoderSpec();
  }
  std::vector<std::int64_t> WindowsOf(const DecoderSpec& spec) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < spec.num_layers; ++i) out.push_back(GetLayerSpec(spec, i).window);
    return out;
  }
};

using Windows = std::vector<std::int64_t>;

TEST_F(Families, QwenWindowsStartAtMaxWindowLayers) {
  StartTiny("qwen2-window");
  EXPECT_EQ(WindowsOf(Spec()), (Windows{0, 8, 8}));
  config_.Set("max_window_layers", 28);
  EXPECT_EQ(WindowsOf(Spec()), (Windows{0, 0, 0}));
  Erase("max_window_layers");
  ExpectRefused("max_window_layers");
  config_.Set("use_sliding_window", false);
  EXPECT_TRUE(Spec().layer_specs.empty());
}

TEST_F(Families, LayerTypesDecideWhereTheyAreGiven) {
  StartTiny("qwen2-window");
  config_.Set("layer_types", Json::Array{"sliding_attention", "full_attention", "full_attention"});
  EXPECT_EQ(WindowsOf(Spec()), (Windows{8, 0, 0}));
  config_.Set("layer_types", Json::Array{"sliding_attention", "full_attention"});
  ExpectRefused("layer_types");
  config_.Set("layer_types", Json::Array{"full_attention", "chunked_attention", "full_attention"});
  ExpectRefused("chunked_attention");
  config_.Set("layer_types", Json::Array{"sliding_attention", "full_attention", "full_attention"});
  config_.Set("use_sliding_window", false);
  ExpectRefused("sliding_window");
}

TEST_F(Families, AWindowOverEveryPositionIsNone) {
  StartTiny("mistral-nemo");
  EXPECT_TRUE(Spec().layer_specs.empty());
  config_.Set("sliding_window", 127);
  EXPECT_EQ(WindowsOf(Spec()), (Windows{127, 127}));
  config_.Set("sliding_window", 128);
  EXPECT_TRUE(Spec().layer_specs.empty());
  Erase("sliding_window");
  ExpectRefused("sliding_window");
  config_.Set("sliding_window", -1);
  ExpectRefused("sliding_window");
}

TEST_F(Families, MistralGivesEveryLayerTheWindow) {
  StartTiny("mistral-nemo");
  config_.Set("sliding_window", 8);
  config_.Set("layer_types", Json::Array{"sliding_attention", "full_attention"});
  ExpectRefused("layer_types");
  StartTiny("ministral");
  EXPECT_EQ(WindowsOf(Spec()), (Windows{8, 0}));
}

TEST_F(Families, RopeByLayerTypeIsReadInBothStyles) {
  StartTiny("gemma3-text");
  const DecoderSpec old_style = Spec();
  for (const char* key : {"rope_theta", "rope_local_base_freq", "rope_scaling"}) Erase(key);
  Json full(Json::Object{
      {"rope_theta", Json(1e6)}, {"rope_type", Json("linear")}, {"factor", Json(8.0)}});
  const Json sliding(Json::Object{{"rope_theta", Json(1e4)}, {"rope_type", Json("default")}});
  const auto set = [&](const Json& a, const Json& b) {
    config_.Set("rope_parameters",
                Json(Json::Object{{"full_attention", a}, {"sliding_attention", b}}));
  };
  set(full, sliding);
  const DecoderSpec spec = Spec();
  ASSERT_EQ(spec.ropes.size(), 2U);
  EXPECT_EQ(spec.ropes[0].inv_freq, old_style.ropes[0].inv_freq);
  EXPECT_EQ(spec.ropes[1].inv_freq, old_style.ropes[1].inv_freq);
  EXPECT_EQ(spec.layer_specs, old_style.layer_specs);
  set(sliding, sliding);  // the same for all: one rope
  EXPECT_EQ(Spec().ropes.size(), 1U);
  set(full, Json());
  ExpectRefused("sliding_attention");
  full.Set("llama_4_scaling_beta", 0.1);
  set(full, sliding);
  ExpectRefused("llama_4_scaling_beta");
  config_.Set("partial_rotary_factor", 0.5);
  full.Set("llama_4_scaling_beta", 0);
  set(full, sliding);
  ExpectRefused("partial_rotary_factor");
}

TEST_F(Families, GemmaPatternsAreCountedFromOne) {
  StartTiny("gemma3-text");
  EXPECT_EQ(WindowsOf(Spec()), (Windows{8, 8, 0}));
  const DecoderSpec spec = Spec();
  ASSERT_EQ(spec.ropes.size(), 2U);
  EXPECT_EQ(GetLayerSpec(spec, 0).rope, 1);
  EXPECT_EQ(GetLayerSpec(spec, 2).rope, 0);
  // The global rope is scaled and has the larger theta.
  EXPECT_FLOAT_EQ(spec.ropes[0].inv_freq[0], 1.0f / 8);
  EXPECT_EQ(spec.ropes[1].inv_freq[0], 1.0f);
  EXPECT_FLOAT_EQ(spec.attention_scale, 1.0f / std::sqrt(20.0f));
  config_.Set("sliding_window_pattern", 2);
  EXPECT_EQ(WindowsOf(Spec()), (Windows{8, 0, 8}));
  StartTiny("gemma2");
  EXPECT_EQ(WindowsOf(Spec()), (Windows{8, 0, 8}));
}

TEST_F(Families, GemmaNormsHaveOneAddedAndAreFloats) {
  StartTiny("gemma2");
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  const Weight& norm = got->model.layers[0].post_ffn_norm;
  EXPECT_EQ(norm.view.type.coding, codec::Coding::kF32);
  EXPECT_EQ(norm.name, "model.layers.0.post_feedforward_layernorm.weight");
  double sum = 0;
  for (const float value : ReadAll(norm)) sum += static_cast<double>(value);
  EXPECT_NEAR(sum / 32, 1.0, 0.3);
  EXPECT_EQ(got->model.layers[0].q.view.type.coding, codec::Coding::kBf16);
}

TEST_F(Families, GemmaSoftcapsMustBeSaid) {
  StartTiny("gemma2");
  config_.Set("attn_logit_softcapping", Json());
  EXPECT_EQ(Spec().attention_softcap, 0.0f);
  Erase("attn_logit_softcapping");
  ExpectRefused("attn_logit_softcapping");
}

TEST_F(Families, KeysThatGemma3FoldersLeaveOutAreFilledAndNamed) {
  StartTiny("gemma3-text");
  Erase("rope_local_base_freq");
  Erase("hidden_activation");
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  ASSERT_EQ(got->warnings.size(), 1U);
  EXPECT_TRUE(HasOneOf(got->warnings[0], "rope_local_base_freq = 10000"));
  EXPECT_TRUE(HasOneOf(got->warnings[0], "hidden_activation"));
  Erase("head_dim");  // 256 is filled in, but the weights have heads of 16
  ExpectRefused("q_proj.weight");
}

TEST_F(Families, ActivationsAreReadByName) {
  StartTiny("gemma2");
  EXPECT_EQ(Spec().activation, Activation::kGeluTanh);
  config_.Set("hidden_activation", "gelu");
  EXPECT_EQ(Spec().activation, Activation::kGelu);
  config_.Set("hidden_activation", "relu2");
  ExpectRefused("relu2");
}

TEST_F(Families, SmolLm3LayersWithoutRope) {
  StartTiny("smollm3-interval");
  const DecoderSpec spec = Spec();
  EXPECT_EQ(GetLayerSpec(spec, 0), (LayerSpec{0, 0}));
  EXPECT_EQ(GetLayerSpec(spec, 1), (LayerSpec{kNoRope, 8}));
  config_.Set("no_rope_layers", Json::Array{0, 1, 1});
  EXPECT_EQ(GetLayerSpec(Spec(), 0), (LayerSpec{kNoRope, 8}));
  config_.Set("no_rope_layers", Json::Array{0, 1});
  ExpectRefused("no_rope_layers");
  config_.Set("no_rope_layers", Json::Array{0, 2, 1});
  ExpectRefused("no_rope_layers");
}

TEST_F(Families, MultipliersMustBeThereAndPositive) {
  for (const char* key :
       {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    StartTiny("granite");
    config_.Set(key, 0);
    ExpectRefused(key);
    Erase(key);
    ExpectRefused(key);
  }
}

TEST_F(Families, FusedTensorsBecomeSlices) {
  StartTiny("phi3-window");
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  const LayerWeights& layer = got->model.layers[1];
  EXPECT_EQ(layer.q.name, "model.layers.1.self_attn.qkv_proj.weight[0:32]");
  EXPECT_EQ(layer.v.name, "model.layers.1.self_attn.qkv_proj.weight[48:64]");
  EXPECT_EQ(layer.k.view.codes.data(), layer.q.view.codes.data() + layer.q.view.codes.size());
  EXPECT_EQ(layer.up.view.codes.data(),
            layer.gate.view.codes.data() + layer.gate.view.codes.size());
  EXPECT_EQ(layer.up.view.rows, 32);
  config_.Set("num_key_value_heads", 4);
  ExpectRefused("qkv_proj.weight has shape [64, 32], expected [96, 32]");
}

TEST_F(Families, PartialRotationIsRefusedWhereTheCodeHasNone) {
  StartTiny("phi3-longrope");
  EXPECT_EQ(Spec().ropes[0].inv_freq.size(), 6U);
  StartTiny("mistral-nemo");
  config_.Set("partial_rotary_factor", 0.5);
  ExpectRefused("partial_rotary_factor");
}

TEST_F(Families, DynamicRopeReachesFactorTimesThePositions) {
  StartTiny("llama-ntk");
  EXPECT_EQ(Spec().max_positions, 64);
}

// C4 of the reports: dimensions that do not divide, one key head, head_dim by its key.
TEST_F(Families, HeadDimNeedNotDivideHiddenSize) {
  StartTiny("llama-falcon3");
  const DecoderSpec spec = Spec();
  EXPECT_EQ(spec.head_dim, 32);
  EXPECT_EQ(spec.num_heads * spec.head_dim, 2 * spec.hidden);
  config_.Set("num_attention_heads", 3);  // 32 / 3 is no integer, but head_dim says it
  ExpectRefused("q_proj.weight has shape [64, 32], expected [96, 32]");
  config_.Set("head_dim", Json());
  ExpectRefused("num_attention_heads");
}

TEST_F(Families, NestedTextModelsNameWhatIsLeftOut) {
  StartTiny("gemma3-nested");
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  ASSERT_EQ(got->warnings.size(), 1U);
  EXPECT_EQ(got->warnings[0],
            "multi_modal_projector.*: 2 tensors, vision_tower.*: 21 tensors are left out: only the "
            "text model is used");
  EXPECT_EQ(got->model.embedding.name, "language_model.model.embed_tokens.weight");
  EXPECT_TRUE(got->model.spec.tied_head);

  StartTiny("ministral3-nested");
  got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  ASSERT_EQ(got->warnings.size(), 2U);
  EXPECT_TRUE(HasOneOf(got->warnings[0], "positions are limited to 48 of 768"));
  EXPECT_TRUE(HasOneOf(got->warnings[1], "vision_tower.*"));
  EXPECT_EQ(got->model.spec.max_positions, 48);
  EXPECT_EQ(got->model.embedding.name, "model.language_model.embed_tokens.weight");
  EXPECT_EQ(got->model.head.name, "lm_head.weight");
  EXPECT_EQ(got->text.eos_ids, std::vector<std::int64_t>{1});  // only text_config has it
}

TEST_F(Families, NestedConfigurationsAreChecked) {
  StartTiny("ministral3-nested");
  config_.Set("quantization_config", Json::Object{{"quant_method", "modelopt"}});
  ExpectRefused("ModelOpt");
  StartTiny("ministral3-nested");
  Json text = *config_.Find("text_config");
  text.Set("hidden_act", "swishy");
  config_.Set("text_config", text);
  ExpectRefused("text_config");
  Erase("text_config");
  ExpectRefused("text_config");
}

TEST_F(Families, OtherVisionLanguageFoldersAreRefused) {
  StartTiny("gemma3-nested");
  config_.Set("architectures", Json::Array{"Qwen2VLForConditionalGeneration"});
  config_.Set("model_type", "qwen2_vl");
  ExpectRefused("more than text (vision_config)");
}

TEST_F(Families, OtherKindsOfModelsAreNamed) {
  const std::pair<const char*, const char*> kinds[] = {{"BertForMaskedLM", "encoder"},
                                                       {"RobertaModel", "without a language head"},
                                                       {"RobertaForX", "not supported"}};
  for (const auto& [name, words] : kinds) {
    StartTiny("llama-linear");
    config_.Set("architectures", Json::Array{name});
    config_.Set("model_type", "other");
    ExpectRefused(words);
  }
  config_.Set("num_local_experts", 8);
  ExpectRefused("mixture of experts");
  config_.Set("is_encoder_decoder", true);
  ExpectRefused("encoder-decoder");
}

TEST_F(Families, OtherHeadsOnAKnownModelAreNamed) {
  const std::pair<const char*, const char*> kinds[] = {
      {"LlamaForSequenceClassification", "classifier"},
      {"LlamaModel", "without a language head"},
      {"LlamaForSomething", "a LlamaForCausalLM has model_type llama"}};
  for (const auto& [name, words] : kinds) {
    StartTiny("llama-linear");
    config_.Set("architectures", Json::Array{name});
    ExpectRefused(words);
  }
}

TEST_F(Families, QuantizedSourcesAreNamedByTheirConfiguration) {
  const std::pair<const char*, const char*> methods[] = {
      {"gptq", "GPTQ"},
      {"awq", "AWQ"},
      {"bitsandbytes", "bitsandbytes"},
      {"mxfp4", "MXFP4"},
      {"compressed-tensors", "compressed-tensors"},
      {"something", "something"}};
  for (const auto& [method, words] : methods) {
    StartTiny("llama-linear");
    config_.Set("quantization_config", Json::Object{{"quant_method", method}});
    ExpectRefused(std::string("already quantized with ") + words);
  }
}

TEST_F(Families, QuantizedSourcesAreNamedByTheirTensors) {
  // The same number of characters, so that the header keeps its length.
  const std::pair<std::string, const char*> names[] = {
      {"mlp.down.qweight", "GPTQ or AWQ"}, {"mlp.down.q_weight", "EXL2"},
      {"mlp.down.SCB", "bitsandbytes"},    {"x.weight_packed", "compressed-tensors"},
      {"weight_scale_inv", "FP8"},         {"mlp.down.lora_A", "LoRA"}};
  const std::string old = "model.layers.0.mlp.down_proj.weight";
  for (const auto& [name, words] : names) {
    StartTiny("llama-linear");
    std::string file = ReadText(folder_->File("model.safetensors"));
    const std::size_t at = file.find(old);
    ASSERT_NE(at, std::string::npos);
    std::string replacement = old.substr(0, old.size() - name.size() - 1) + "." + name;
    file.replace(at, old.size(), replacement);
    folder_->Write("model.safetensors", file);
    ExpectRefused(words);
  }
}

TEST_F(Families, LeftoversOfATrainerAreFine) {
  StartTiny("llama-linear");
  folder_->Write("optimizer.pt", "PK");
  folder_->Write("adapter_config.json", R"({"peft_type": "LORA"})");
  folder_->Write("training_args.bin", "PK");
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_TRUE(got->warnings.empty());
}

TEST(OtherFolders, AreNamedInOneSentence) {
  TestFolder folder;
  folder.Write("adapter_config.json", R"({"base_model_name_or_path": "org/base"})");
  folder.Write("adapter_model.safetensors", "");
  auto adapter = OpenCheckpoint(folder.path());
  EXPECT_EQ(adapter.code(), Code::kUnsupported);
  EXPECT_TRUE(HasOneOf(std::string(adapter.message()), "LoRA adapter")) << adapter.message();
  EXPECT_TRUE(HasOneOf(std::string(adapter.message()), "\"org/base\"")) << adapter.message();

  TestFolder gguf;
  gguf.Write("tiny.gguf", "GGUF");
  auto got = OpenCheckpoint(gguf.path());
  EXPECT_EQ(got.code(), Code::kUnsupported);
  EXPECT_TRUE(HasOneOf(std::string(got.message()), "tiny.gguf")) << got.message();

  TestFolder empty;
  EXPECT_EQ(OpenCheckpoint(empty.path()).code(), Code::kNotFound);
}

TEST_F(Families, PlaceholdersOfDownloadsAreNamed) {
  StartTiny("llama-linear");
  folder_->Write("model.safetensors",
                 "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  ExpectRefused("Git LFS pointer");
  folder_->Write("model.safetensors", "<!doctype html><html></html>");
  ExpectRefused("web page");
}

}  // namespace
}  // namespace hone::model
