// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Golden checkpoints written again as GGUF must give the same model.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "formats/gguf/gguf_test_builder.h"
#include "model/arch/family.h"
#include "model/assemble.h"
#include "model/checkpoint.h"
#include "model/reference_forward.h"
#include "model/test_util.h"

namespace hone::model {
namespace {

using formats::testing::GgufBuilder;

constexpr std::uint32_t kF32 = 0, kQ40 = 2, kQ80 = 8, kBf16 = 30;

// A GGUF file under construction.
class GgufWriter {
 public:
  GgufBuilder header;

  void Tensor(const std::string& name, std::uint32_t type, std::vector<std::uint64_t> dims,
              ByteSpan bytes) {
    header.Tensor(name, type, dims, data_.size());
    data_ += AsText(bytes);
    data_.resize(RoundUp(data_.size(), 32));
  }
  void Floats(const std::string& name, const std::vector<float>& values) {
    Tensor(name, kF32, {values.size()}, std::as_bytes(std::span(values)));
  }
  std::string Bytes() const { return header.Bytes() + data_; }

 private:
  std::string data_;
};

// The golden model and the GGUF that says the same.
class Gguf : public testing::Test {
 protected:
  void Load(const std::string& name) { LoadFolder(GoldenPath("families/" + name + "/hf"), kLlama); }
  void LoadTiny(const std::string& name, const Family& family) {
    LoadFolder(HONE_TESTDATA "/families/" + name, family);
  }
  void LoadFolder(const std::string& folder, const Family& family) {
    family_ = &family;
    auto checkpoint = OpenCheckpoint(folder);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
    golden_ = std::move(checkpoint->model);
    const DecoderSpec& spec = golden_.spec;
    writer_.header.String("general.architecture", family.gguf->architecture);
    U32("block_count", spec.num_layers);
    U32("embedding_length", spec.hidden);
    U32("feed_forward_length", spec.ffn);
    U32("attention.head_count", spec.num_heads);
    U32("attention.head_count_kv", spec.num_kv_heads);
    U32("attention.key_length", spec.head_dim);
    U32("attention.value_length", spec.head_dim);
    U32("rope.dimension_count", 2 * static_cast<std::int64_t>(spec.ropes[0].inv_freq.size()));
    U32("context_length", spec.max_positions);
    F32("attention.layer_norm_rms_epsilon", spec.norm_epsilon);
    writer_.header.String("tokenizer.ggml.model", "gpt2");
    writer_.header.String("tokenizer.ggml.pre", "smollm");
    writer_.header.Strings("tokenizer.ggml.tokens", {"a", "b", "<eos>"});
    writer_.header.Array<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 3});
    writer_.header.Strings("tokenizer.ggml.merges", {});
    writer_.header.U32("tokenizer.ggml.eos_token_id", 2);
  }

  void U32(const std::string& key, std::int64_t value) {
    writer_.header.U32(Key(key), static_cast<std::uint32_t>(value));
  }
  void F32(const std::string& key, double value) {
    writer_.header.F32(Key(key), static_cast<float>(value));
  }
  std::string Key(const std::string& key) const {
    return std::string(family_->gguf->architecture) + "." + key;
  }

  // Every weight that the golden model has, q and k with each head's halves interleaved if
  // llama.cpp has them so.
  void WriteTensors() {
    for (const TensorName& entry : family_->tensors) {
      const bool in_layer = std::string_view(entry.gguf).find('*') != std::string_view::npos;
      for (std::int64_t i = 0; i < (in_layer ? golden_.spec.num_layers : 1); ++i) {
        if (entry.role == Role::kHead && golden_.spec.tied_head) continue;
        const std::string name = NameOf(*family_, NameStyle::kGguf, entry.role, i);
        if (const std::vector<Role> roles = RolesOf(entry.gguf); roles.size() > 1) {
          if (roles.front() == entry.role) WriteFused(name, roles, i);
          continue;
        }
        WriteTensor(name, entry.role, GetWeight(golden_, entry.role, i));
      }
    }
  }

  std::vector<Role> RolesOf(std::string_view gguf_name) const {
    std::vector<Role> roles;
    for (const TensorName& entry : family_->tensors) {
      if (entry.gguf == gguf_name) roles.push_back(entry.role);
    }
    return roles;
  }

  // The rows of several roles, one after the other.
  void WriteFused(const std::string& name, const std::vector<Role>& roles, std::int64_t layer) {
    std::string bytes;
    std::uint64_t rows = 0, cols = 0;
    for (const Role role : roles) {
      const codec::WeightView& view = GetWeight(golden_, role, layer).view;
      bytes += AsText(view.codes);
      rows += static_cast<std::uint64_t>(view.rows);
      cols = static_cast<std::uint64_t>(view.cols);
    }
    writer_.Tensor(name, kBf16, {cols, rows}, AsBytes(bytes));
  }

  void WriteTensor(const std::string& name, Role role, const Weight& weight) {
    if (!weight.present()) return;
    const bool interleaved = family_->gguf->interleaved;
    const bool heads = interleaved && (role == Role::kQ || role == Role::kK);
    const bool head_bias = interleaved && (role == Role::kQBias || role == Role::kKBias);
    if (weight.view.rows == 1) {
      const std::vector<float> values = ReadAll(weight);
      writer_.Floats(name, head_bias ? Interleave(values, 1) : values);
      return;
    }
    const std::vector<std::uint64_t> dims = {static_cast<std::uint64_t>(weight.view.cols),
                                             static_cast<std::uint64_t>(weight.view.rows)};
    if (heads) {
      const auto cols = static_cast<std::size_t>(weight.view.cols);
      const std::vector<float> values = Interleave(ReadAll(weight), cols);
      writer_.Tensor(name, kF32, dims, std::as_bytes(std::span(values)));
    } else {
      writer_.Tensor(name, kBf16, dims, weight.view.codes);
    }
  }

  // As convert_hf_to_gguf does: heads [2, half, cols] become [half, 2, cols].
  std::vector<float> Interleave(const std::vector<float>& in, std::size_t cols) const {
    std::vector<float> out(in.size());
    const auto half = static_cast<std::size_t>(golden_.spec.head_dim / 2);
    for (std::size_t row = 0; row < in.size() / cols; ++row) {
      const std::size_t head = row / (2 * half), j = row / half % 2, i = row % half;
      const std::size_t to = head * 2 * half + 2 * i + j;
      std::copy_n(in.begin() + static_cast<std::ptrdiff_t>(row * cols), cols,
                  out.begin() + static_cast<std::ptrdiff_t>(to * cols));
    }
    return out;
  }

  Result<Checkpoint> Open() {
    folder_.Write("model.gguf", writer_.Bytes());
    return OpenCheckpoint(folder_.File("model.gguf"));
  }

  void ExpectSameLogits(float tolerance) {
    auto got = Open();
    ASSERT_TRUE(got.ok()) << got.message();
    EXPECT_TRUE(got->warnings.empty()) << got->warnings.front();
    // Longer than the windows and original lengths of the checkpoints.
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 40; ++i) ids.push_back(i * 37 % 128);
    const auto a = ReferenceLogits(golden_, ids);
    const auto b = ReferenceLogits(got->model, ids);
    ASSERT_TRUE(a.ok() && b.ok());
    for (std::size_t i = 0; i < a->size(); ++i) ASSERT_NEAR((*a)[i], (*b)[i], tolerance) << i;
  }

  void ExpectRefused(const std::string& words) {
    auto got = Open();
    ASSERT_FALSE(got.ok()) << words;
    EXPECT_NE(std::string(got.message()).find(words), std::string::npos) << got.message();
    EXPECT_NE(std::string(got.message()).find("model.gguf"), std::string::npos) << got.message();
  }

  const Family* family_ = &kLlama;
  DecoderModel golden_;
  GgufWriter writer_;
  TestFolder folder_;
};

TEST_F(Gguf, UntiedModelWithoutScalingIsTheSameModel) {
  Load("llama-gqa8");
  writer_.header.F32("llama.rope.freq_base", 5e6f);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, BiasesAreReadAndPutInOrder) {
  Load("llama-bias");
  writer_.header.F32("llama.rope.freq_base", 10000);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, AMissingHeadIsTheEmbedding) {
  Load("llama-tied");
  writer_.header.F32("llama.rope.freq_base", 1e5f);
  WriteTensors();
  ExpectSameLogits(0);
  auto got = Open();
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(got->model.spec.tied_head);
}

TEST_F(Gguf, RopeFactorsDivideTheFrequencies) {
  Load("llama3-rope");
  writer_.header.F32("llama.rope.freq_base", 10000);
  WriteTensors();
  std::vector<float> factors;
  const std::vector<float>& scaled = golden_.spec.ropes[0].inv_freq;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const double plain = std::pow(10000.0, -static_cast<double>(i) / 8);
    factors.push_back(static_cast<float>(plain / static_cast<double>(scaled[i])));
  }
  writer_.Floats("rope_freqs.weight", factors);
  ExpectSameLogits(1e-4f);
}

TEST_F(Gguf, YarnKeysGiveTheSameTable) {
  Load("llama-yarn");
  writer_.header.F32("llama.rope.freq_base", 10000);
  writer_.header.String("llama.rope.scaling.type", "yarn");
  writer_.header.F32("llama.rope.scaling.factor", 4);
  U32("rope.scaling.original_context_length", 32);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, RefusesKeysThatItDoesNotKnow) {
  Load("llama3-rope");
  writer_.header.F32("llama.logit_scale", 0.5f);
  WriteTensors();
  ExpectRefused("llama.logit_scale");
}

TEST_F(Gguf, RefusesOtherScalings) {
  Load("llama3-rope");
  writer_.header.String("llama.rope.scaling.type", "longrope");
  WriteTensors();
  ExpectRefused("longrope");
}

TEST_F(Gguf, RefusesRotationOfAPartOfTheHead) {
  Load("llama3-rope");
  writer_ = {};
  writer_.header.String("general.architecture", "llama");
  const std::pair<const char*, int> keys[] = {
      {"block_count", 2},          {"embedding_length", 64}, {"feed_forward_length", 96},
      {"attention.head_count", 4}, {"context_length", 64},   {"rope.dimension_count", 8}};
  for (const auto& [key, value] : keys) U32(key, value);
  ExpectRefused("rope.dimension_count");
}

TEST_F(Gguf, NamesTensorsOfOtherTypes) {
  Load("llama3-rope");
  const std::vector<std::byte> bytes(704 * 64);
  writer_.Tensor("token_embd.weight", kQ40, {64, 704}, ByteSpan(bytes).first(704 * 2 * 18));
  writer_.Tensor("blk.0.attn_norm.weight", 24, {64}, ByteSpan(bytes).first(64));  // I8
  ExpectRefused("blk.0.attn_norm.weight has type I8");
}

TEST_F(Gguf, NamesMissingTensors) {
  Load("llama3-rope");
  const std::vector<std::byte> bytes(704 * 2 * 34);
  writer_.Tensor("token_embd.weight", kQ80, {64, 704}, bytes);
  ExpectRefused("blk.0.attn_norm.weight is missing");
}

TEST_F(Gguf, RefusesPartsOfASplitModel) {
  Load("llama3-rope");
  writer_.header.U32("split.count", 3);
  ExpectRefused("split.count is 3");
}

TEST_F(Gguf, NamesOtherArchitectures) {
  writer_.header.String("general.architecture", "mamba");
  ExpectRefused("mamba");
}

TEST_F(Gguf, Qwen2IsNotInterleaved) {
  LoadFolder(GoldenPath("families/qwen2/hf"), kQwen2);
  F32("rope.freq_base", 1e6);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, Qwen3HasNormsOfQueriesAndKeys) {
  LoadFolder(GoldenPath("families/qwen3/hf"), kQwen3);
  F32("rope.freq_base", 1e6);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, EveryFourthLayerOfSmolLm3HasNoRope) {
  LoadFolder(GoldenPath("families/smollm3/hf"), kSmolLm3);
  F32("rope.freq_base", 5e6);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, GraniteHasFourMultipliers) {
  LoadTiny("granite", kGranite);
  F32("rope.freq_base", 10000);
  F32("embedding_scale", 6);
  F32("attention.scale", 0.2);
  F32("residual_scale", 0.4);
  F32("logit_scale", 3);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, MiniCpmTakesOneListOfRopeFactors) {
  LoadFolder(GoldenPath("families/minicpm4-long/hf"), kMiniCpm);
  F32("rope.freq_base", 10000);
  writer_.header.String("minicpm.rope.scaling.type", "longrope");
  U32("rope.scaling.original_context_length", 32);
  F32("embedding_scale", 12);
  F32("residual_scale", 1.4 / std::sqrt(2.0));
  F32("logit_scale", 96.0 / 64);
  WriteTensors();
  writer_.Floats("rope_factors_long.weight", {1.0f, 1.9f, 2.8f, 3.7f, 4.6f, 5.5f, 6.4f, 7.3f});
  writer_.Floats("rope_factors_short.weight", {1.0f, 1.05f, 1.1f, 1.15f, 1.2f, 1.25f, 1.3f, 1.35f});
  ExpectSameLogits(1e-5f);
}

TEST_F(Gguf, Olmo2HasNormsOverWholeRows) {
  LoadTiny("olmo2", kOlmo2);
  F32("rope.freq_base", 500000);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, AMissingKeyIsNamedWithThePathOnce) {
  Load("llama3-rope");
  writer_.header = formats::testing::GgufBuilder();
  writer_.header.String("general.architecture", "llama");
  WriteTensors();
  auto got = Open();
  ASSERT_FALSE(got.ok());
  const std::string message(got.message());
  EXPECT_NE(message.find("metadata \""), std::string::npos) << message;
  EXPECT_EQ(message.find("model.gguf"), message.rfind("model.gguf")) << message;
}

TEST_F(Gguf, SlidingWindowsOfOlmo3AreRefused) {
  LoadTiny("olmo2", kOlmo2);
  U32("attention.sliding_window", 8);
  WriteTensors();
  ExpectRefused("olmo2.attention.sliding_window");
}

TEST_F(Gguf, Phi3SplitsFusedTensorsAndChoosesFactorsByLength) {
  LoadTiny("phi3-longrope", kPhi3);
  F32("rope.freq_base", 10000);
  U32("rope.scaling.original_context_length", 16);
  F32("rope.scaling.attn_factor", std::sqrt(1 + std::log(8.0) / std::log(16.0)));
  U32("attention.sliding_window", 262144);
  WriteTensors();
  writer_.Floats("rope_factors_long.weight", {1.5f, 2.4f, 3.3f, 4.2f, 5.1f, 6.0f});
  writer_.Floats("rope_factors_short.weight", {1.0f, 1.1f, 1.2f, 1.3f, 1.4f, 1.5f});
  ExpectSameLogits(1e-5f);
}

TEST_F(Gguf, Phi3HasAWindowInEveryLayer) {
  LoadTiny("phi3-window", kPhi3);
  F32("rope.freq_base", 10000);
  U32("attention.sliding_window", 8);
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, Gemma2HasSoftcapsAndAWindowInEveryOtherLayer) {
  LoadTiny("gemma2", kGemma2);
  F32("rope.freq_base", 10000);
  F32("attn_logit_softcapping", 2);
  F32("final_logit_softcapping", 5);
  U32("attention.sliding_window", 8);
  F32("attention.scale", std::pow(20.0, -0.5));  // llama.cpp has no key; this model is not its 27B
  WriteTensors();
  ExpectSameLogits(0);
}

TEST_F(Gguf, Gemma3HasTwoRopes) {
  LoadTiny("gemma3-text", kGemma3Text);
  F32("rope.freq_base", 1e6);
  writer_.header.String("gemma3.rope.scaling.type", "linear");
  F32("rope.scaling.factor", 8);
  U32("attention.sliding_window", 8);
  U32("attention.sliding_window_pattern", 3);
  F32("attention.scale", std::pow(20.0, -0.5));
  WriteTensors();
  ExpectSameLogits(0);
}

}  // namespace
}  // namespace hone::model
