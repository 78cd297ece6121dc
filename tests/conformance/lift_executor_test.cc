// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The lifter against its twin: what is lifted, run by the reference forward pass, gives the logits
// of the graph itself, run operator by operator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "compare.h"
#include "executor/executor.h"
#include "exporter/export.h"
#include "formats/litertlm/litertlm.h"
#include "formats/npy.h"
#include "model/lift.h"
#include "model/lift_test_graph.h"
#include "model/reference_forward.h"
#include "q8_twin.h"
#include "quant/recipe.h"
#include "random_model.h"
#include "run_command.h"

namespace hone::testing {
namespace {

using formats::litertlm::Bundle;
using model::DecoderModel;
using model::TinyGraph;
using Options = model::TinyGraphOptions;

constexpr std::uint64_t kSeed = 11;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  std::size_t Below(std::size_t count) { return static_cast<std::size_t>(Bits()) % count; }
  float Next() { return static_cast<float>(Bits() % 2001) / 1000.0F - 1.0F; }

 private:
  std::uint64_t Bits() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return state_ >> 33;
  }
  std::uint64_t state_;
};

std::shared_ptr<const Bundle> Open(const std::string& path) {
  auto bundle = Bundle::Open(path);
  EXPECT_TRUE(bundle.ok()) << bundle.message();
  return bundle.ok() ? *std::move(bundle) : nullptr;
}

// One token at a time, by the decode signature.
std::vector<float> ExecutorLogits(const std::shared_ptr<const Bundle>& bundle,
                                  const std::vector<std::int32_t>& ids) {
  auto runner = executor::BundleRunner::Open(bundle);
  EXPECT_TRUE(runner.ok()) << runner.message();
  std::vector<float> all;
  for (std::size_t i = 0; runner.ok() && i < ids.size(); ++i) {
    auto row = (*runner)->Decode(ids[i], nullptr);
    EXPECT_TRUE(row.ok()) << row.message();
    if (!row.ok()) return {};
    all.insert(all.end(), row->begin(), row->end());
  }
  return all;
}

std::vector<float> ReferenceOf(const DecoderModel& model, const std::vector<std::int32_t>& ids) {
  auto logits = model::ReferenceLogits(model, ids);
  EXPECT_TRUE(logits.ok()) << logits.message();
  return logits.ok() ? *std::move(logits) : std::vector<float>();
}

bool HasQuantizedLinears(const DecoderModel& model) {
  return !codec::Facts(model.layers[0].q.view.type.coding).is_float;
}

// The graph of a bundle and what was lifted from it. Where linears are quantized, the graph rounds
// their inputs to 8 bits. A value on the border between two codes can fall on either side, and
// every row after that differs: short prompts, of which most rows must be free of it.
void ExpectSameAsGraph(const std::shared_ptr<const Bundle>& bundle, std::size_t tokens) {
  auto model = model::LiftBundle(bundle);
  ASSERT_TRUE(model.ok()) << model.message();
  const std::int64_t vocab = model->spec.vocab;
  if (!HasQuantizedLinears(*model)) {
    const auto ids = MakeIds(static_cast<std::int64_t>(tokens), vocab, kSeed);
    EXPECT_LT(Compare(ExecutorLogits(bundle, ids), ReferenceOf(*model, ids)).nmse, 1e-11);
    return;
  }
  constexpr std::int64_t kPrompts = 8, kTokens = 3;
  int equal = 0;
  for (std::int64_t prompt = 0; prompt < kPrompts; ++prompt) {
    const auto ids = MakeIds(kTokens, vocab, static_cast<std::uint64_t>(prompt));
    const std::vector<float> graph = ExecutorLogits(bundle, ids);
    const std::vector<float> twin = Q8TwinLogits(*model, ids);
    ASSERT_EQ(twin.size(), graph.size());
    EXPECT_LT(Compare(graph, twin).nmse, 1e-2);
    const auto row = static_cast<std::size_t>(vocab);
    for (std::size_t at = 0; at < twin.size(); at += row) {
      const auto found = std::span(graph).subspan(at, row);
      if (Compare(found, std::span(twin).subspan(at, row)).nmse < 1e-9) ++equal;
    }
  }
  EXPECT_GE(equal, kPrompts * kTokens * 3 / 4);
}

// ---- bundles that litert-torch wrote ----

class LitertTorchBundle : public ::testing::TestWithParam<const char*> {};

TEST_P(LitertTorchBundle, IsLiftedToWhatItsGraphComputes) {
  const auto bundle = Open(std::string(HONE_SHARED_DATA "/golden/bundles/") + GetParam());
  ASSERT_NE(bundle, nullptr);
  ExpectSameAsGraph(bundle, 8);
}

INSTANTIATE_TEST_SUITE_P(Golden, LitertTorchBundle,
                         ::testing::Values("tiny-llama-fp32/model.litertlm",
                                           "tiny-llama-wi8/model.litertlm",
                                           "tiny-llama-wi4b32/model.litertlm",
                                           "tiny-llama-untied-wi8/model.litertlm"));

std::vector<std::int32_t> VariantPrompt() {
  std::vector<std::int32_t> ids;
  auto text = ReadFile(HONE_TESTDATA "/bundles/prompt.json");
  EXPECT_TRUE(text.ok()) << text.message();
  auto json = ParseJson(text.ok() ? *text : "{\"prompt_ids\": []}");
  EXPECT_TRUE(json.ok()) << json.message();
  for (const Json& id : json->Find("prompt_ids")->AsArray()) {
    ids.push_back(static_cast<std::int32_t>(id.AsInt()));
  }
  return ids;
}

class Variant : public ::testing::TestWithParam<const char*> {
 protected:
  std::string Path(const std::string& name) const {
    return std::string(HONE_TESTDATA "/bundles/") + GetParam() + "/" + name;
  }
};

// Recorded from ai-edge-litert, which runs the graph; the reference runs what was lifted.
TEST_P(Variant, IsLiftedToTheRecordedLogits) {
  const auto bundle = Open(Path("model.litertlm"));
  ASSERT_NE(bundle, nullptr);
  auto model = model::LiftBundle(bundle);
  ASSERT_TRUE(model.ok()) << model.message();
  auto bytes = ReadFile(Path("logits.npy"));
  ASSERT_TRUE(bytes.ok()) << bytes.message();
  auto want = formats::ParseNpy(AsBytes(*bytes));
  ASSERT_TRUE(want.ok()) << want.message();
  EXPECT_LT(Compare(ReferenceOf(*model, VariantPrompt()), want->data).nmse, 1e-10);
}

TEST_P(Variant, IsLiftedToWhatItsGraphComputes) {
  const auto bundle = Open(Path("model.litertlm"));
  ASSERT_NE(bundle, nullptr);
  auto model = model::LiftBundle(bundle);
  ASSERT_TRUE(model.ok()) << model.message();
  const auto graph = ExecutorLogits(bundle, VariantPrompt());
  EXPECT_LT(Compare(graph, ReferenceOf(*model, VariantPrompt())).nmse, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(LitertTorch, Variant,
                         ::testing::Values("tokens-in-graph", "bool-mask", "gpu-composites",
                                           "weight-only-wi4", "mistral-window", "gemma3-window",
                                           "split-cache"));

TEST(LiftVariantBundles, AHalfPrecisionGraphIsLiftedToTheSameNumbersInFloat32) {
  const auto bundle = Open(HONE_TESTDATA "/bundles/fp16-kv/model.litertlm");
  ASSERT_NE(bundle, nullptr);
  auto model = model::LiftBundle(bundle);
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_EQ(model->spec.max_positions, 32);
}

// ---- random models with every feature ----

class FeatureBundle : public ::testing::TestWithParam<ModelShape> {
 protected:
  void SetUp() override { folder_ = MakeTempFolder("hone-lift"); }
  void TearDown() override { RemoveFolder(folder_); }
  std::shared_ptr<const Bundle> Export(const std::string& preset, bool half_cache) const {
    exporter::ExportOptions options;
    auto recipe = quant::GetPreset(preset);
    EXPECT_TRUE(recipe.ok()) << recipe.message();
    if (!recipe.ok()) return nullptr;
    options.recipe = *std::move(recipe);
    options.context = 64;
    options.prefill = {4};
    options.num_threads = 1;
    options.half_cache = half_cache;
    const std::string path = folder_ + "/m.litertlm";
    auto report = exporter::ExportBundle(MakeCheckpoint(GetParam(), kSeed), options, path);
    EXPECT_TRUE(report.ok()) << report.message();
    return report.ok() ? Open(path) : nullptr;
  }

 private:
  std::string folder_;
};

TEST_P(FeatureBundle, IsLiftedToWhatItsGraphComputes) {
  // Longer than the windows.
  const auto bundle = Export("none", false);
  ASSERT_NE(bundle, nullptr);
  ExpectSameAsGraph(bundle, 12);
}

TEST_P(FeatureBundle, IsLiftedTheSameFromInt8) {
  const auto bundle = Export("int8", false);
  ASSERT_NE(bundle, nullptr);
  ExpectSameAsGraph(bundle, 6);
}

TEST_P(FeatureBundle, IsLiftedTheSameWithAHalfPrecisionCache) {
  const auto bundle = Export("none", true);
  ASSERT_NE(bundle, nullptr);
  auto model = model::LiftBundle(bundle);
  ASSERT_TRUE(model.ok()) << model.message();
  const auto ids = MakeIds(6, GetParam().vocab, kSeed);
  const Distance d = Compare(ExecutorLogits(bundle, ids), ReferenceOf(*model, ids));
  EXPECT_GT(d.nmse, 0);  // the graph rounds keys and values
  EXPECT_LT(d.nmse, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Random, FeatureBundle, ::testing::ValuesIn(FeatureShapes()),
                         [](const auto& shape) { return shape.param.name; });

// ---- spellings that no exporter at hand writes ----

struct Spelling {
  const char* name;
  void (*set)(Options&);
};

class SpelledGraph : public ::testing::TestWithParam<Spelling> {};

// Runs the graphs of a tiny decoder for a few tokens; empty if the executor refuses them.
std::vector<float> RunGraph(const TinyGraph& graph, const Options& options,
                            const std::vector<std::int32_t>& ids) {
  auto decoder = executor::Program::Create(graph.decoder, "decoder");
  auto embedder = executor::Program::Create(graph.embedder, "embedder");
  if (!decoder.ok() || !embedder.ok()) return {};
  const auto& subgraph = graph.decoder.subgraphs[0];
  executor::Values inputs;
  for (const auto& [name, id] : graph.decoder.signatures[0].inputs) {
    const auto& tensor = subgraph.tensors[id];
    executor::Value& value = inputs[name];
    value.type = tensor.type;
    value.shape = tensor.shape;
    std::uint64_t count = 1;
    for (const std::int32_t dim : tensor.shape) count *= static_cast<std::uint64_t>(dim);
    value.data.resize(formats::tflite::DataBytes(tensor.type, count).value());
  }
  const bool local = options.window == Options::Window::kLocalMask;
  executor::Value& mask = inputs[local ? "local_mask" : "mask"];
  std::vector<float> all;
  for (std::int32_t position = 0; position < static_cast<std::int32_t>(ids.size()); ++position) {
    const std::int32_t id = ids[static_cast<std::size_t>(position)];
    auto row = embedder->Run("decode_embedder",
                             {{"token_ids", executor::MakeInts({1, 1}, std::span(&id, 1))}});
    EXPECT_TRUE(row.ok()) << row.message();
    if (!row.ok()) return {};
    inputs["embeddings"] = row->at("embeddings");
    inputs["input_pos"] = executor::MakeInts({1}, std::span(&position, 1));
    std::vector<float> shown(6, -2.38e38f);
    for (std::int32_t c = 0; c <= position; ++c) {
      const bool outside = local && position - c >= 3;
      if (!outside) shown[static_cast<std::size_t>(c)] = 0;
    }
    if (mask.type == formats::tflite::TensorType::kBool) {
      for (std::size_t c = 0; c < 6; ++c) mask.data[c] = std::byte{shown[c] == 0};
    } else {
      mask = executor::MakeFloats({1, 1, 1, 6}, shown);
    }
    auto outputs = decoder->Run("decode", inputs);
    if (!outputs.ok()) return {};
    for (auto& [name, value] : *outputs) {
      if (name != "logits") inputs[name] = value;
    }
    auto logits = executor::ToFloats(outputs->at("logits"));
    EXPECT_TRUE(logits.ok()) << logits.message();
    if (!logits.ok()) return {};
    all.insert(all.end(), logits->begin(), logits->end());
  }
  return all;
}

TEST_P(SpelledGraph, IsLiftedToWhatItComputes) {
  Options options;
  options.layers = 2;
  options.inline_norms = true;
  GetParam().set(options);
  const TinyGraph graph(options);
  auto model = model::LiftModels({&graph.decoder, "decoder"}, {&graph.embedder, "embedder"}, 3);
  ASSERT_TRUE(model.ok()) << model.message();
  const std::vector<std::int32_t> ids = {3, 1, 9, 4, 4, 7};
  const double limit = options.half_cache ? 1e-5 : 1e-11;
  EXPECT_LT(Compare(RunGraph(graph, options, ids), ReferenceOf(*model, ids)).nmse, limit);
}

// One change of a graph that leaves its tensors as they are.
void Change(TinyGraph& graph, Random& random) {
  using formats::tflite::Op;
  auto& subgraphs = graph.decoder.subgraphs;
  auto& subgraph = subgraphs[random.Below(subgraphs.size())];
  auto& op = subgraph.operators[random.Below(subgraph.operators.size())];
  constexpr Op kOps[] = {Op::kAdd,  Op::kSub,     Op::kMul,     Op::kDiv,      Op::kMaximum,
                         Op::kTanh, Op::kMinimum, Op::kLess,    Op::kLogistic, Op::kGreater,
                         Op::kCos,  Op::kSin,     Op::kReshape, Op::kRsqrt,    Op::kSquare};
  const std::size_t slot = random.Below(op.inputs.size());
  switch (random.Below(5)) {
    case 0:
      op.op = kOps[random.Below(std::size(kOps))];
      return;
    case 1:
      std::swap(op.inputs[0], op.inputs[slot]);
      return;
    case 2:
      op.options.adj_y = !op.options.adj_y;
      op.options.approximate = !op.options.approximate;
      return;
    case 3: {  // another tensor of the same kind
      if (op.inputs[slot] < 0) return;
      const auto other = static_cast<std::int32_t>(random.Below(subgraph.tensors.size()));
      const auto& was = subgraph.tensors[static_cast<std::size_t>(op.inputs[slot])];
      const auto& now = subgraph.tensors[static_cast<std::size_t>(other)];
      if (was.shape == now.shape && was.type == now.type) op.inputs[slot] = other;
      return;
    }
    default: {  // another number
      if (op.inputs[slot] < 0) return;
      auto& tensor = subgraph.tensors[static_cast<std::size_t>(op.inputs[slot])];
      const std::size_t size = graph.decoder.buffers[tensor.buffer].data.size();
      if (tensor.type != formats::tflite::TensorType::kFloat32 || size == 0 || size > 24) return;
      auto& bytes = graph.storage.emplace_back(size);
      for (std::size_t at = 0; at < size; at += 4) {
        const float value = std::round(random.Next() * 8) / 2;
        std::memcpy(bytes.data() + at, &value, 4);
      }
      graph.decoder.buffers.push_back({bytes, 0});
      tensor.buffer = static_cast<std::uint32_t>(graph.decoder.buffers.size()) - 1;
    }
  }
}

// Most changes are refused. Those that are not must be read as what they compute now.
TEST_P(SpelledGraph, AfterARandomChangeIsLiftedToWhatItComputesOrRefused) {
  Options options;
  options.inline_norms = true;
  GetParam().set(options);
  const std::vector<std::int32_t> ids = {3, 1, 9, 4, 4, 7};
  int lifted = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    TinyGraph graph(options);
    Random random(seed);
    Change(graph, random);
    auto model = model::LiftModels({&graph.decoder, "decoder"}, {&graph.embedder, "embedder"}, 3);
    if (!model.ok()) continue;
    const auto found = RunGraph(graph, options, ids);
    const auto expected = ReferenceOf(*model, ids);
    const auto finite = [](float x) { return std::isfinite(x); };
    if (found.empty() || !std::all_of(found.begin(), found.end(), finite)) continue;
    const Distance d = Compare(found, expected);  // a factor of 0 makes all of them 0
    EXPECT_TRUE(d.nmse < (options.half_cache ? 1e-4 : 1e-9) || d.max_abs == 0);
    ++lifted;
  }
  EXPECT_GT(lifted, 20);
}

constexpr Spelling kSpellings[] = {
    {"plain", [](Options&) {}},
    {"biases", [](Options& o) { o.biases = true; }},
    {"added_biases", [](Options& o) { o.added_biases = true; }},
    {"magnitude", [](Options& o) { o.magnitude = true; }},
    {"transposes", [](Options& o) { o.transposes = true; }},
    {"clamped_window", [](Options& o) { o.window = Options::Window::kClamped; }},
    {"selected_window", [](Options& o) { o.window = Options::Window::kSelected; }},
    {"local_mask", [](Options& o) { o.window = Options::Window::kLocalMask; }},
    {"bool_mask", [](Options& o) { o.mask = Options::Mask::kBool; }},
    {"bool_window",
     [](Options& o) {
       o.mask = Options::Mask::kBool;
       o.window = Options::Window::kSelected;
     }},
    {"equal_zero", [](Options& o) { o.mask = Options::Mask::kEqualZero; }},
    {"explicit_heads", [](Options& o) { o.explicit_heads = true; }},
    {"head_norm", [](Options& o) { o.head_norm = Options::HeadNorm::kPerHead; }},
    {"row_norm", [](Options& o) { o.head_norm = Options::HeadNorm::kWholeRow; }},
    {"post_norm", [](Options& o) { o.post_norm = true; }},
    {"only_after",
     [](Options& o) {
       o.post_norm = true;
       o.no_pre_norm = true;
     }},
    {"plus_one", [](Options& o) { o.norm_plus_one = true; }},
    {"gelu", [](Options& o) { o.gate = Options::Gate::kGelu; }},
    {"gelu_erf", [](Options& o) { o.gate = Options::Gate::kGeluErf; }},
    {"gelu_by_tanh", [](Options& o) { o.gate = Options::Gate::kGeluByTanh; }},
    {"half_turn", [](Options& o) { o.turn = Options::Turn::kHalf; }},
    {"no_turn", [](Options& o) { o.turn = Options::Turn::kNone; }},
    {"by_halves", [](Options& o) { o.turn = Options::Turn::kByHalves; }},
    {"two_tables", [](Options& o) { o.turn = Options::Turn::kTwoTables; }},
    {"caps",
     [](Options& o) {
       o.scores_cap = 0.5f;
       o.logits_cap = 0.7f;
     }},
    {"divided_caps",
     [](Options& o) {
       o.divided_caps = true;
       o.scores_cap = 0.3f;
       o.logits_cap = 0.7f;
     }},
    {"multipliers",
     [](Options& o) {
       o.embedding_scale = 2.5f;
       o.residual_scale = 0.3f;
       o.logits_scale = 0.125f;
       o.head_scale = 3;
     }},
    {"fused", [](Options& o) { o.fused = true; }},
    {"swapped_caches", [](Options& o) { o.swapped_caches = true; }},
    {"half_cache", [](Options& o) { o.half_cache = true; }},
    {"composites", [](Options& o) { o.composites = true; }},
};

INSTANTIATE_TEST_SUITE_P(Tiny, SpelledGraph, ::testing::ValuesIn(kSpellings),
                         [](const auto& spelling) { return std::string(spelling.param.name); });

}  // namespace
}  // namespace hone::testing
