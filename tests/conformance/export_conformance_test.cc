// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Random models through export and back: what is lifted is what was quantized, reading what was
// written gives the same, and the same input gives the same file.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "compare.h"
#include "exporter/export.h"
#include "formats/litertlm/litertlm.h"
#include "formats/litertlm/llm_metadata.h"
#include "formats/tflite/tflite.h"
#include "model/lift.h"
#include "model/reference_forward.h"
#include "model/rope.h"
#include "q8_twin.h"
#include "quant/quantize.h"
#include "quant/recipe.h"
#include "random_model.h"
#include "run_command.h"
#include "runtime/engine.h"

namespace hone::testing {
namespace {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;
using model::Role;

constexpr std::uint64_t kSeed = 11;
constexpr std::int64_t kContext = 64;

struct NamedRecipe {
  const char* name;
  const char* json;  // null: the preset of that name
};
constexpr NamedRecipe kRecipes[] = {
    {"none", nullptr},
    {"int8", nullptr},
    {"int4", nullptr},
    {"boctav4", nullptr},
    {"boctav4_128", nullptr},
    {"mixed4_8", nullptr},
    {"first_layer_int8", R"({"rules": [
        {"roles": "*", "weights": "int4", "block": 32},
        {"roles": ["gate", "down"], "layers": "0", "weights": "int8"}]})"},
    {"last_layer_float", R"({"rules": [
        {"roles": "*", "weights": "int8"},
        {"roles": ["q", "up", "down"], "layers": [-1, -1], "weights": "float32"},
        {"roles": ["head"], "weights": "int4", "block": 64, "algorithm": "min-max"}]})"},
    {"only_embedding", R"({"rules": [{"roles": ["embedding"], "weights": "int8",
        "algorithm": "octav"}]})"},
};

quant::Recipe MakeRecipe(const NamedRecipe& named) {
  auto recipe = [&]() -> Result<quant::Recipe> {
    if (named.json == nullptr) return quant::GetPreset(named.name);
    auto json = ParseJson(named.json);
    if (!json.ok()) return std::move(json).status();
    return quant::ParseRecipe(*json, named.name);
  }();
  EXPECT_TRUE(recipe.ok()) << named.name << ": " << recipe.message();
  return recipe.ok() ? *std::move(recipe) : quant::Recipe();
}

class ExportOfShape : public ::testing::TestWithParam<ModelShape> {
 protected:
  void SetUp() override { folder_ = MakeTempFolder("hone-conformance"); }
  void TearDown() override { RemoveFolder(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  const std::string& folder() const { return folder_; }

  static exporter::ExportOptions Options(const NamedRecipe& recipe, int threads = 1) {
    exporter::ExportOptions options;
    options.recipe = MakeRecipe(recipe);
    options.context = kContext;
    options.prefill = {16, 3, 1};
    options.num_threads = threads;
    return options;
  }

  exporter::ExportReport Export(const exporter::ExportOptions& options,
                                const std::string& name) const {
    auto report = exporter::ExportBundle(MakeCheckpoint(GetParam(), kSeed), options, Path(name));
    EXPECT_TRUE(report.ok()) << report.message();
    return report.ok() ? *std::move(report) : exporter::ExportReport();
  }

  std::shared_ptr<const litertlm::Bundle> Open(const std::string& name) const {
    auto bundle = litertlm::Bundle::Open(Path(name));
    EXPECT_TRUE(bundle.ok()) << bundle.message();
    return bundle.ok() ? *std::move(bundle) : nullptr;
  }

 private:
  std::string folder_;
};

void ExpectSameSpec(const model::DecoderSpec& found, const model::DecoderSpec& expected) {
  EXPECT_EQ(found.num_layers, expected.num_layers);
  EXPECT_EQ(found.hidden, expected.hidden);
  EXPECT_EQ(found.num_heads, expected.num_heads);
  EXPECT_EQ(found.num_kv_heads, expected.num_kv_heads);
  EXPECT_EQ(found.head_dim, expected.head_dim);
  EXPECT_EQ(found.ffn, expected.ffn);
  EXPECT_EQ(found.vocab, expected.vocab);
  EXPECT_EQ(found.max_positions, kContext);
  EXPECT_EQ(found.norm_epsilon, expected.norm_epsilon);
  EXPECT_EQ(found.attention_scale, expected.attention_scale);
  EXPECT_EQ(found.activation, expected.activation);
  EXPECT_EQ(found.qk_norm, expected.qk_norm);
  EXPECT_EQ(found.pre_norm, expected.pre_norm);
  EXPECT_EQ(found.post_norm, expected.post_norm);
  EXPECT_EQ(found.embedding_multiplier, expected.embedding_multiplier);
  EXPECT_EQ(found.residual_multiplier, expected.residual_multiplier);
  EXPECT_EQ(found.logits_multiplier, expected.logits_multiplier);
  EXPECT_EQ(found.attention_softcap, expected.attention_softcap);
  EXPECT_EQ(found.logits_softcap, expected.logits_softcap);
  for (std::int64_t layer = 0; layer < expected.num_layers; ++layer) {
    SCOPED_TRACE(StrCat("layer ", layer));
    const model::LayerSpec have = model::GetLayerSpec(found, layer);
    const model::LayerSpec want = model::GetLayerSpec(expected, layer);
    // A window as wide as the cache is none.
    EXPECT_EQ(have.window, want.window < kContext ? want.window : 0);
    ASSERT_EQ(have.rope == model::kNoRope, want.rope == model::kNoRope);
    if (want.rope == model::kNoRope) continue;
    const model::RopeTable& table = found.ropes[static_cast<std::size_t>(have.rope)];
    const model::RopeTable fixed =
        model::RopeForLength(expected.ropes[static_cast<std::size_t>(want.rope)], kContext);
    EXPECT_EQ(table.inv_freq, fixed.inv_freq);
    EXPECT_EQ(table.magnitude, fixed.magnitude);
    EXPECT_FALSE(table.by_length.has_value());
  }
}

bool SameBytes(ByteSpan a, ByteSpan b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

void ExpectSameWeight(const model::Weight& found, const codec::WeightBuffer& expected) {
  ASSERT_TRUE(found.present());
  EXPECT_EQ(codec::TypeName(found.view.type), codec::TypeName(expected.type));
  EXPECT_EQ(found.view.rows, expected.rows);
  EXPECT_EQ(found.view.cols, expected.cols);
  EXPECT_TRUE(SameBytes(found.view.codes, expected.codes)) << "codes";
  EXPECT_TRUE(SameBytes(found.view.scales, expected.scales)) << "scales";
  EXPECT_EQ(found.interleaved_head_dim, 0);
}

codec::WeightBuffer Quantize(const model::Weight& weight, const quant::Scheme& scheme) {
  ThreadPool pool(1);
  auto buffer = quant::QuantizeWeight(weight, scheme, pool);
  EXPECT_TRUE(buffer.ok()) << buffer.message();
  return buffer.ok() ? *std::move(buffer) : codec::WeightBuffer();
}

void ExpectLifted(const model::DecoderModel& found, const model::DecoderModel& source,
                  const quant::Resolved& schemes) {
  ExpectSameSpec(found.spec, source.spec);
  for (const quant::Assignment& a : schemes.assignments) {
    SCOPED_TRACE(StrCat(model::RoleName(a.role), " of layer ", a.layer));
    const std::int64_t layer = std::max<std::int64_t>(a.layer, 0);
    ExpectSameWeight(model::GetWeight(found, a.role, layer),
                     Quantize(model::GetWeight(source, a.role, layer), a.scheme));
  }
  for (std::int64_t layer = 0; layer < source.spec.num_layers; ++layer) {
    for (const Role role :
         {Role::kInputNorm, Role::kFfnNorm, Role::kFinalNorm, Role::kQBias, Role::kKBias,
          Role::kVBias, Role::kOBias, Role::kGateBias, Role::kUpBias, Role::kDownBias, Role::kQNorm,
          Role::kKNorm, Role::kPostAttentionNorm, Role::kPostFfnNorm}) {
      SCOPED_TRACE(StrCat(model::RoleName(role), " of layer ", layer));
      const model::Weight& want = model::GetWeight(source, role, layer);
      const model::Weight& have = model::GetWeight(found, role, layer);
      ASSERT_EQ(have.present(), want.present());
      if (!want.present()) continue;
      EXPECT_EQ(model::ReadAll(have), model::ReadAll(want));
    }
  }
}

TEST_P(ExportOfShape, WhatIsLiftedIsWhatWasQuantizedForEveryRecipe) {
  const model::DecoderModel source = MakeModel(GetParam(), kSeed);
  for (const NamedRecipe& recipe : kRecipes) {
    SCOPED_TRACE(recipe.name);
    const exporter::ExportOptions options = Options(recipe, 2);
    Export(options, "m.litertlm");
    const auto bundle = Open("m.litertlm");
    ASSERT_NE(bundle, nullptr);
    EXPECT_TRUE(bundle->warnings().empty());
    auto lifted = model::LiftBundle(bundle);
    ASSERT_TRUE(lifted.ok()) << lifted.message();
    auto schemes = quant::Resolve(options.recipe, source.spec, false);
    ASSERT_TRUE(schemes.ok()) << schemes.message();
    ExpectLifted(*lifted, source, *schemes);
  }
}

TEST_P(ExportOfShape, TheFileDependsOnNeitherTimeNorThreadsNorItsName) {
  for (const NamedRecipe& recipe : kRecipes) {
    SCOPED_TRACE(recipe.name);
    const exporter::ExportReport first = Export(Options(recipe, 1), "a.litertlm");
    const exporter::ExportReport second = Export(Options(recipe, 3), "b.litertlm");
    EXPECT_EQ(first.sha256.size(), 64u);
    EXPECT_EQ(first.sha256, second.sha256);
    EXPECT_EQ(first.bytes, second.bytes);
    auto a = ReadFile(Path("a.litertlm"));
    auto b = ReadFile(Path("b.litertlm"));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->size(), first.bytes);
    EXPECT_TRUE(*a == *b);
    EXPECT_EQ(ListFolder(folder()), (std::vector<std::string>{"a.litertlm", "b.litertlm"}));
  }
}

TEST_P(ExportOfShape, OtherWeightsGiveAnotherFile) {
  const exporter::ExportReport first = Export(Options(kRecipes[1]), "a.litertlm");
  auto other = exporter::ExportBundle(MakeCheckpoint(GetParam(), kSeed + 1), Options(kRecipes[1]),
                                      Path("b.litertlm"));
  ASSERT_TRUE(other.ok()) << other.message();
  EXPECT_NE(first.sha256, other->sha256);
}

TEST_P(ExportOfShape, HeaderAndMetadataAreWrittenAsTheyAreRead) {
  Export(Options(kRecipes[2]), "m.litertlm");
  const auto bundle = Open("m.litertlm");
  ASSERT_NE(bundle, nullptr);
  auto header = litertlm::EncodeHeader(bundle->header());
  ASSERT_TRUE(header.ok()) << header.message();
  EXPECT_TRUE(SameBytes(*header, bundle->map().bytes().first(header->size())));

  const auto section = [&](litertlm::SectionType type) {
    const litertlm::Section* found = bundle->Find(type);
    EXPECT_NE(found, nullptr);
    return found == nullptr ? ByteSpan() : bundle->SectionBytes(*found);
  };
  const ByteSpan llm = section(litertlm::SectionType::kLlmMetadata);
  auto metadata = litertlm::ParseLlmMetadata(llm);
  ASSERT_TRUE(metadata.ok()) << metadata.message();
  EXPECT_EQ(litertlm::EncodeLlmMetadata(*metadata), AsText(llm));
  EXPECT_TRUE(metadata->unknown.empty());
  const ByteSpan states = section(litertlm::SectionType::kExecutorMetadata);
  auto executor = litertlm::ParseExecutorMetadata(states);
  ASSERT_TRUE(executor.ok()) << executor.message();
  EXPECT_EQ(litertlm::EncodeExecutorMetadata(*executor), AsText(states));
  EXPECT_TRUE(executor->unknown.empty() && executor->unknown_llm.empty());
  EXPECT_EQ(static_cast<std::int64_t>(executor->state_buffers.size()), 2 * GetParam().layers);
  auto tokenizer = litertlm::InflateTokenizer(section(litertlm::SectionType::kHfTokenizerZlib));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.message();
  EXPECT_EQ(*tokenizer, MakeTokenizerJson(GetParam().vocab));
}

void ExpectSameModel(const tflite::Model& a, const tflite::Model& b) {
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.description, b.description);
  EXPECT_TRUE(a.subgraphs == b.subgraphs);
  EXPECT_TRUE(a.signatures == b.signatures);
  EXPECT_TRUE(a.metadata == b.metadata);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) {
    EXPECT_TRUE(SameBytes(a.buffers[i].data, b.buffers[i].data)) << "buffer " << i;
  }
}

TEST_P(ExportOfShape, TfliteModelsReadBackAsTheyWerePlanned) {
  for (const NamedRecipe& recipe : {kRecipes[0], kRecipes[2], kRecipes[5]}) {
    SCOPED_TRACE(recipe.name);
    Export(Options(recipe), "m.litertlm");
    const auto bundle = Open("m.litertlm");
    ASSERT_NE(bundle, nullptr);
    for (const char* type : {"tf_lite_prefill_decode", "tf_lite_embedder"}) {
      SCOPED_TRACE(type);
      const auto* section = bundle->Find(litertlm::SectionType::kTfliteModel, type);
      ASSERT_NE(section, nullptr);
      auto model = tflite::ReadModel(bundle->SectionBytes(*section));
      ASSERT_TRUE(model.ok()) << model.message();
      auto plan = tflite::PlanModel(*model);
      ASSERT_TRUE(plan.ok()) << plan.message();
      ASSERT_EQ(plan->total_bytes, plan->head.size());
      auto again = tflite::ReadModel(plan->head);
      ASSERT_TRUE(again.ok()) << again.message();
      ExpectSameModel(*again, *model);
    }
  }
}

runtime::EngineOptions EngineMode(runtime::ComputeChoice compute) {
  runtime::EngineOptions options;
  options.num_threads = 2;
  options.compute = compute;
  options.kv = runtime::KvChoice::kF32;
  return options;
}

std::vector<float> AllLogits(runtime::Engine& engine, std::span<const std::int32_t> ids) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok()) << sequence.message();
  std::vector<float> logits;
  const Status status = engine.Run({{{sequence->get(), ids, true}}}, &logits);
  EXPECT_TRUE(status.ok()) << status.message();
  return logits;
}

// Engine and twin differ by 1e-14 as a rule. 8-bit rounding is a step, though: a value that lies on
// its edge can fall on either side, and then they differ by up to 6e-5 (seen), where the distance
// to the reference is 1e-4 to 5e-4.
TEST_P(ExportOfShape, ABundleRunsAsItsDequantizedWeightsSay) {
  const auto ids = MakeIds(33, GetParam().vocab, kSeed);
  for (const NamedRecipe& recipe : kRecipes) {
    SCOPED_TRACE(recipe.name);
    Export(Options(recipe), "m.litertlm");
    auto exact =
        runtime::Engine::Open(Path("m.litertlm"), EngineMode(runtime::ComputeChoice::kF32));
    ASSERT_TRUE(exact.ok()) << exact.message();
    auto reference = model::ReferenceLogits((*exact)->model(), ids);
    ASSERT_TRUE(reference.ok()) << reference.message();
    const Distance f32 = Compare(AllLogits(**exact, ids), *reference);
    EXPECT_LT(f32.nmse, 1e-11);
    if (std::string_view(recipe.name) == "none") continue;
    auto rounded =
        runtime::Engine::Open(Path("m.litertlm"), EngineMode(runtime::ComputeChoice::kQ8));
    ASSERT_TRUE(rounded.ok()) << rounded.message();
    const auto found = AllLogits(**rounded, ids);
    EXPECT_LT(Compare(found, *reference).nmse, 2e-3);
    EXPECT_GT(Compare(found, *reference).nmse, 1e-8) << "no rounding at all?";
    // Float weights become int8 in the engine and not in the twin.
    if (std::string_view(recipe.name) == "last_layer_float") continue;
    if (std::string_view(recipe.name) == "only_embedding") continue;
    // Without a norm before it the first linear reads a row of the int8 embedding as it is:
    // multiples of one number, of which many lie on an edge of the rounding.
    if (!GetParam().pre_norm) continue;
    const auto twin = Q8TwinLogits((*rounded)->model(), ids);
    EXPECT_LT(Compare(found, twin).nmse, 2e-4);
    EXPECT_LT(Compare(found, twin).nmse, Compare(found, *reference).nmse / 2);
  }
}

TEST_P(ExportOfShape, CancellingAtAnyMomentLeavesNoFile) {
  // Counts the reports of a whole run, then cancels at some of them.
  int reports = 0;
  exporter::ExportOptions counting = Options(kRecipes[2]);
  counting.progress = [&](std::uint64_t, std::uint64_t, std::string_view) { ++reports; };
  Export(counting, "whole.litertlm");
  ASSERT_GT(reports, 2);
  RemoveFolder(Path("whole.litertlm"));
  for (const int stop : {0, 1, 2, reports / 2, reports}) {
    SCOPED_TRACE(stop);
    std::atomic<bool> cancel{stop == 0};
    int seen = 0;
    exporter::ExportOptions options = Options(kRecipes[2], 2);
    options.cancel = &cancel;
    options.progress = [&](std::uint64_t, std::uint64_t, std::string_view) {
      if (++seen == stop) cancel = true;
    };
    auto report =
        exporter::ExportBundle(MakeCheckpoint(GetParam(), kSeed), options, Path("m.litertlm"));
    EXPECT_EQ(report.code(), Code::kCancelled);
    EXPECT_TRUE(ListFolder(folder()).empty());
  }
}

TEST_P(ExportOfShape, ProgressRisesToTheTotal) {
  exporter::ExportOptions options = Options(kRecipes[5], 3);
  std::uint64_t last = 0;
  std::uint64_t end = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    EXPECT_FALSE(what.empty());
    last = done;
    end = total;
  };
  Export(options, "m.litertlm");
  EXPECT_GT(end, 0u);
  EXPECT_EQ(last, end);
}

TEST_P(ExportOfShape, AFolderThatCannotBeWrittenGivesOneMessageWithItsName) {
  for (const std::string& out : {std::string("/proc/m.litertlm"), Path("missing/m.litertlm")}) {
    auto report =
        exporter::ExportBundle(MakeCheckpoint(GetParam(), kSeed), Options(kRecipes[0]), out);
    EXPECT_TRUE(report.code() == Code::kNotFound || report.code() == Code::kIo) << report.message();
    EXPECT_NE(report.message().find(out), std::string::npos) << report.message();
  }
}

// What a bundle of these must also do: run with float16 caches, close to what float32 caches give.
TEST_P(ExportOfShape, Float16CachesChangeLittle) {
  const auto ids = MakeIds(33, GetParam().vocab, kSeed);
  exporter::ExportOptions options = Options(kRecipes[0]);
  Export(options, "full.litertlm");
  options.half_cache = true;
  Export(options, "half.litertlm");
  std::vector<float> logits[2];
  for (const bool half : {false, true}) {
    auto engine = runtime::Engine::Open(Path(half ? "half.litertlm" : "full.litertlm"),
                                        EngineMode(runtime::ComputeChoice::kF32));
    ASSERT_TRUE(engine.ok()) << engine.message();
    logits[half] = AllLogits(**engine, ids);
  }
  EXPECT_LT(Compare(logits[1], logits[0]).nmse, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Random, ExportOfShape, ::testing::ValuesIn(Shapes()),
                         [](const auto& shape) { return shape.param.name; });
INSTANTIATE_TEST_SUITE_P(Features, ExportOfShape, ::testing::ValuesIn(FeatureShapes()),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace hone::testing
