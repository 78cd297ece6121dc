// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What families add to Llama, and other spellings of the same, in graphs in memory. Whether the
// numbers are right is tested in tests/conformance/lift_executor_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "model/lift.h"
#include "model/lift_curve.h"
#include "model/lift_test_graph.h"
#include "model/test_util.h"

namespace hone::model {
namespace {

using formats::tflite::Model;
using formats::tflite::Op;
using formats::tflite::Operator;
using Options = TinyGraphOptions;

Result<DecoderModel> Lift(const TinyGraph& graph, std::int64_t local_window = 0) {
  return LiftModels({&graph.decoder, "decoder"}, {&graph.embedder, "embedder"}, local_window);
}

DecoderSpec SpecOf(const Options& options, std::int64_t local_window = 0) {
  const TinyGraph graph(options);
  auto model = Lift(graph, local_window);
  EXPECT_TRUE(model.ok()) << model.message();
  return model.ok() ? model->spec : DecoderSpec();
}

void ExpectRefused(const TinyGraph& graph, const std::string& words) {
  auto model = Lift(graph);
  ASSERT_FALSE(model.ok()) << words;
  EXPECT_EQ(model.code(), Code::kUnsupported);
  EXPECT_NE(std::string(model.message()).find(words), std::string::npos)
      << "expected: " << words << "\nfound: " << model.message();
}

Operator& FindOp(Model& model, Op op, int skip = 0) {
  for (Operator& node : model.subgraphs[0].operators) {
    if (node.op == op && skip-- == 0) return node;
  }
  ADD_FAILURE() << "no such operator";
  return model.subgraphs[0].operators[0];
}

// Changes a float constant that an operator reads.
void SetConstant(TinyGraph& graph, const Operator& op, std::size_t input, float value) {
  const auto id = static_cast<std::size_t>(op.inputs[input]);
  const auto buffer = graph.decoder.subgraphs[0].tensors[id].buffer;
  std::vector<float> values(graph.decoder.buffers[buffer].data.size() / 4, value);
  auto& bytes = graph.storage.emplace_back(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  graph.decoder.buffers[buffer].data = bytes;
}

TEST(LiftVariants, AnOrdinaryModelHasNoLayerSpecs) {
  const DecoderSpec spec = SpecOf({});
  EXPECT_TRUE(spec.layer_specs.empty());
  EXPECT_EQ(spec.ropes.size(), 1u);
  EXPECT_TRUE(spec.pre_norm);
  EXPECT_FALSE(spec.post_norm);
  EXPECT_EQ(spec.qk_norm, QkNorm::kNone);
  EXPECT_EQ(spec.embedding_multiplier, 1.0f);
  EXPECT_EQ(spec.logits_softcap, 0.0f);
}

TEST(LiftVariants, AWindowIsFoundInEveryForm) {
  for (const auto window : {Options::Window::kClamped, Options::Window::kSelected}) {
    Options options;
    options.window = window;
    const DecoderSpec spec = SpecOf(options);
    ASSERT_EQ(spec.layer_specs.size(), 1u);
    EXPECT_EQ(spec.layer_specs[0], (LayerSpec{0, 3}));
  }
  Options bools;
  bools.mask = Options::Mask::kBool;
  bools.window = Options::Window::kSelected;
  ASSERT_EQ(SpecOf(bools).layer_specs.size(), 1u);
  EXPECT_EQ(SpecOf(bools).layer_specs[0].window, 3);
}

TEST(LiftVariants, ALocalMaskNeedsItsWindowFromTheMetadata) {
  Options options;
  options.window = Options::Window::kLocalMask;
  const DecoderSpec spec = SpecOf(options, 4);
  ASSERT_EQ(spec.layer_specs.size(), 1u);
  EXPECT_EQ(spec.layer_specs[0].window, 4);
  ExpectRefused(TinyGraph(options), "input local_mask: expected a sliding_window_size");
}

TEST(LiftVariants, MasksThatShowAnythingElseAreRefused) {
  const char* const words = "shows a position itself and some before it";
  Options options;
  options.window = Options::Window::kClamped;
  TinyGraph weak(options);  // columns outside the window are only made less likely
  SetConstant(weak, FindOp(weak.decoder, Op::kMul, 1), 1, -10.0f);
  ExpectRefused(weak, words);
  TinyGraph louder(options);
  SetConstant(louder, FindOp(louder.decoder, Op::kMul, 1), 1, 10.0f);
  ExpectRefused(louder, words);
  TinyGraph none(options);  // hides all
  SetConstant(none, FindOp(none.decoder, Op::kMaximum), 1, 1.0f);
  ExpectRefused(none, words);
  TinyGraph columns(options);  // they do not count columns
  SetConstant(columns, FindOp(columns.decoder, Op::kSub), 1, 1.0f);
  EXPECT_FALSE(Lift(columns).ok());
  Options selected;
  selected.window = Options::Window::kSelected;
  TinyGraph future(selected);  // shows what comes after, but not itself
  FindOp(future.decoder, Op::kGreater).op = Op::kLess;
  ExpectRefused(future, words);
}

TEST(LiftVariants, BoolMasksAndExplicitHeads) {
  for (const auto mask : {Options::Mask::kAdded, Options::Mask::kBool, Options::Mask::kEqualZero}) {
    for (const bool heads : {false, true}) {
      Options options;
      options.mask = mask;
      options.explicit_heads = heads;
      EXPECT_EQ(SpecOf(options).num_heads, 2);
    }
  }
}

TEST(LiftVariants, AFillThatDoesNotHideIsRefused) {
  Options options;
  options.mask = Options::Mask::kBool;
  TinyGraph graph(options);
  SetConstant(graph, FindOp(graph.decoder, Op::kSelectV2), 2, -5.0f);
  ExpectRefused(graph, "hides the rest");
}

TEST(LiftVariants, NormsOfHeads) {
  Options options;
  options.head_norm = Options::HeadNorm::kPerHead;
  EXPECT_EQ(SpecOf(options).qk_norm, QkNorm::kPerHead);
  options.head_norm = Options::HeadNorm::kWholeRow;
  EXPECT_EQ(SpecOf(options).qk_norm, QkNorm::kWholeRow);
  const TinyGraph graph(options);
  auto model = Lift(graph);
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_EQ(model->layers[0].q_norm.view.cols, 8);
  EXPECT_EQ(model->layers[0].k_norm.view.cols, 4);
}

TEST(LiftVariants, NormsAroundAndAfter) {
  Options options;
  options.post_norm = true;
  EXPECT_TRUE(SpecOf(options).post_norm);
  options.no_pre_norm = true;
  const TinyGraph graph(options);
  auto model = Lift(graph);
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_FALSE(model->spec.pre_norm);
  EXPECT_FALSE(model->layers[0].input_norm.present());
  EXPECT_TRUE(model->layers[0].post_attention_norm.present());
  EXPECT_TRUE(model->layers[0].post_ffn_norm.present());
}

TEST(LiftVariants, OneThatIsAddedToANormIsFolded) {
  Options options;
  options.norm_plus_one = true;
  const TinyGraph graph(options);
  const TinyGraph plain;
  auto model = Lift(graph);
  auto other = Lift(plain);
  ASSERT_TRUE(model.ok() && other.ok()) << model.message();
  const auto one = ReadAll(model->final_norm);
  const auto none = ReadAll(other->final_norm);
  ASSERT_EQ(one.size(), none.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], none[i] + 1.0f);
}

TEST(LiftVariants, Activations) {
  const std::pair<Options::Gate, Activation> gates[] = {
      {Options::Gate::kSilu, Activation::kSilu},
      {Options::Gate::kGelu, Activation::kGeluTanh},
      {Options::Gate::kGeluByTanh, Activation::kGeluTanh},
      {Options::Gate::kGeluErf, Activation::kGelu},
  };
  for (const auto& [gate, activation] : gates) {
    Options options;
    options.gate = gate;
    EXPECT_EQ(SpecOf(options).activation, activation);
  }
  Options other;
  other.gate = Options::Gate::kTanh;
  ExpectRefused(TinyGraph(other), "SiLU or GELU");
  // One constant of the formula is a little off.
  Options options;
  options.gate = Options::Gate::kGeluByTanh;
  TinyGraph graph(options);
  Model& model = graph.decoder;
  for (Operator& op : model.subgraphs[0].operators) {
    if (op.op != Op::kMul) continue;
    const auto& tensor = model.subgraphs[0].tensors[static_cast<std::size_t>(op.inputs[1])];
    const auto data = model.buffers[tensor.buffer].data;
    if (data.size() == 4 && ReadLe<float>(data, 0) == 0.044715f) SetConstant(graph, op, 1, 0.0447f);
  }
  ExpectRefused(graph, "SiLU or GELU");
}

TEST(LiftVariants, Ropes) {
  Options options;
  options.turn = Options::Turn::kHalf;
  EXPECT_EQ(SpecOf(options).ropes.at(0).inv_freq, std::vector<float>{0.75f});
  options.turn = Options::Turn::kByHalves;
  EXPECT_EQ(SpecOf(options).ropes.at(0).inv_freq, (std::vector<float>{1.0f, 0.01f}));
  options.turn = Options::Turn::kNone;
  const DecoderSpec none = SpecOf(options);
  EXPECT_TRUE(none.ropes.empty());
  ASSERT_EQ(none.layer_specs.size(), 1u);
  EXPECT_EQ(none.layer_specs[0].rope, kNoRope);
  options.turn = Options::Turn::kTwoTables;
  options.layers = 3;
  const DecoderSpec two = SpecOf(options);
  ASSERT_EQ(two.ropes.size(), 2u);
  EXPECT_EQ(two.ropes[1].inv_freq, (std::vector<float>{0.5f, 0.25f}));
  ASSERT_EQ(two.layer_specs.size(), 3u);
  EXPECT_EQ(two.layer_specs[0].rope, 0);
  EXPECT_EQ(two.layer_specs[1].rope, 1);
  EXPECT_EQ(two.layer_specs[2].rope, 0);
}

TEST(LiftVariants, PositionsInHalfPrecisionAreRefused) {
  TinyGraph graph;
  Model& model = graph.decoder;
  const auto out = static_cast<std::size_t>(FindOp(model, Op::kCast).outputs[0]);
  model.subgraphs[0].tensors[out].type = formats::tflite::TensorType::kFloat16;
  ExpectRefused(graph, "positions as int32 or float32");
}

TEST(LiftVariants, AMagnitudeIsNotTheAttentionScale) {
  Options options;
  options.turn = Options::Turn::kHalf;
  options.magnitude = true;
  const DecoderSpec spec = SpecOf(options);
  EXPECT_EQ(spec.ropes.at(0).magnitude, 1.5f);
  EXPECT_EQ(spec.attention_scale, 0.5f);
}

TEST(LiftVariants, CapsAndMultipliers) {
  for (const bool divided : {false, true}) {
    Options options;
    options.divided_caps = divided;
    options.scores_cap = 3;
    options.logits_cap = 7;
    options.embedding_scale = 2.5f;
    options.residual_scale = 0.3f;
    options.logits_scale = 0.125f;
    const DecoderSpec spec = SpecOf(options);
    EXPECT_EQ(spec.attention_softcap, 3.0f);
    EXPECT_EQ(spec.logits_softcap, 7.0f);
    EXPECT_EQ(spec.embedding_multiplier, 2.5f);
    EXPECT_EQ(spec.residual_multiplier, 0.3f);
    EXPECT_EQ(spec.logits_multiplier, 0.125f);
    EXPECT_EQ(spec.attention_scale, 0.5f);
    options.head_scale = 4;
    EXPECT_FLOAT_EQ(SpecOf(options).logits_multiplier, 0.5f);
  }
}

TEST(LiftVariants, ACapOfZeroIsNotTakenForNone) {
  Options options;
  options.logits_cap = 7;
  TinyGraph graph(options);
  SetConstant(graph, graph.decoder.subgraphs[0].operators.back(), 1, 0.0f);
  ExpectRefused(graph, "a softcap other than 0");
}

TEST(LiftVariants, LayersThatDisagreeAreRefused) {
  Options options;
  options.layers = 2;
  options.residual_scale = 0.5f;
  TinyGraph graph(options);
  Model& model = graph.decoder;
  // The factor of the last residual is another one.
  Operator* last = nullptr;
  for (Operator& op : model.subgraphs[0].operators) {
    const auto& shape = model.subgraphs[0].tensors[static_cast<std::size_t>(op.inputs[0])].shape;
    if (op.op == Op::kMul && shape == std::vector{1, 1, 8}) last = &op;
  }
  ASSERT_NE(last, nullptr);
  SetConstant(graph, *last, 1, 0.25f);
  ExpectRefused(graph, "same factor of what is added");
}

TEST(LiftVariants, BiasesAreAddedOrInside) {
  Options inside, added;
  inside.biases = true;
  added.added_biases = true;
  const TinyGraph a(inside), b(added);
  auto one = Lift(a);
  auto other = Lift(b);
  ASSERT_TRUE(one.ok() && other.ok()) << one.message() << other.message();
  EXPECT_EQ(ReadAll(one->layers[0].q_bias), ReadAll(other->layers[0].q_bias));
  EXPECT_EQ(ReadAll(one->layers[0].down_bias), ReadAll(other->layers[0].down_bias));
}

TEST(LiftVariants, OneMatrixOfSeveralProjectionsIsCut) {
  Options options;
  options.fused = true;
  options.biases = true;
  const TinyGraph graph(options);
  auto model = Lift(graph);
  ASSERT_TRUE(model.ok()) << model.message();
  const LayerWeights& layer = model->layers[0];
  EXPECT_EQ(layer.q.view.rows, 8);
  EXPECT_EQ(layer.k.view.rows, 4);
  EXPECT_EQ(layer.k.view.codes.data(), layer.q.view.codes.data() + 8 * 8 * 4);
  EXPECT_EQ(layer.v.view.codes.data(), layer.q.view.codes.data() + 12 * 8 * 4);
  EXPECT_EQ(layer.up.view.codes.data(), layer.gate.view.codes.data() + 12 * 8 * 4);
  EXPECT_EQ(layer.v_bias.view.codes.data(), layer.q_bias.view.codes.data() + 12 * 4);
}

TEST(LiftVariants, OtherCaches) {
  Options swapped;
  swapped.swapped_caches = true;
  EXPECT_EQ(SpecOf(swapped).max_positions, 6);
  EXPECT_EQ(SpecOf(swapped).head_dim, 4);
  Options half;
  half.half_cache = true;
  EXPECT_EQ(SpecOf(half).head_dim, 4);
}

TEST(LiftVariants, CompositesAreReadByTheirBodies) {
  Options options;
  options.composites = true;
  options.layers = 2;
  EXPECT_EQ(SpecOf(options).num_layers, 2);
  TinyGraph graph(options);
  for (Operator& op : graph.decoder.subgraphs[2].operators) {
    if (op.op == Op::kSoftmax) op.options.beta = 2;
  }
  ExpectRefused(graph,
                "STABLEHLO_COMPOSITE odml.sdpa_transposed: operator 3 SOFTMAX: expected beta");
}

TEST(LiftVariants, CompositesThatContainThemselvesEnd) {
  Options options;
  options.composites = true;
  TinyGraph graph(options);
  auto& body = graph.decoder.subgraphs[1];
  Operator again;
  again.op = Op::kStablehloComposite;
  again.inputs = body.inputs;
  again.outputs = body.outputs;
  again.options.composite_name = "odml.sdpa_transposed";
  again.options.decomposition_subgraph = 1;
  body.operators.push_back(again);
  body.operators.push_back(again);
  ExpectRefused(graph, "unfold");
}

TEST(LiftVariants, ASplitCacheIsRefusedByName) {
  TinyGraph graph;
  for (auto& [name, id] : graph.decoder.signatures[0].inputs) {
    if (name == "mask") name = "mask_global";
  }
  ExpectRefused(graph, "input mask_global");
}

TEST(LiftCurve, EveryActivationIsFoundAndNothingElse) {
  std::vector<double> curve = CurvePoints();
  EXPECT_FALSE(FindActivation(curve).has_value());
  for (double& x : curve) x = GeluTanh(x);
  EXPECT_EQ(FindActivation(curve), Activation::kGeluTanh);
  curve = CurvePoints();
  for (double& x : curve) x = GeluErf(x);
  EXPECT_EQ(FindActivation(curve), Activation::kGelu);
  curve = CurvePoints();
  for (double& x : curve) x = x / (1 + std::exp(-x));
  EXPECT_EQ(FindActivation(curve), Activation::kSilu);
  curve.back() += 1e-4;
  EXPECT_FALSE(FindActivation(curve).has_value());
}

}  // namespace
}  // namespace hone::model
