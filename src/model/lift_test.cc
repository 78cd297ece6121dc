// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/lift_test_graph.h"
#include "model/reference_forward.h"
#include "model/test_util.h"

namespace hone::model {
namespace {

using formats::tflite::Model;
using formats::tflite::Op;
using formats::tflite::Operator;
using formats::tflite::TensorType;

DecoderModel LiftFile(const std::string& name) {
  auto bundle = formats::litertlm::Bundle::Open(GoldenPath("bundles/" + name));
  EXPECT_TRUE(bundle.ok()) << bundle.message();
  if (!bundle.ok()) return {};
  auto model = LiftBundle(*bundle);
  EXPECT_TRUE(model.ok()) << model.message();
  return model.ok() ? *std::move(model) : DecoderModel();
}

// The logits of the golden prompt; the model must have been lifted.
std::vector<float> PromptLogits(const DecoderModel& model, const std::string& golden) {
  const Json json = ReadJson(GoldenPath("bundles/" + golden));
  auto logits = ReferenceLogits(model, ReadIds(*json.Find("prompt_ids")));
  EXPECT_TRUE(logits.ok()) << logits.message();
  return logits.ok() ? *std::move(logits) : std::vector<float>();
}

float LargestDifference(const std::vector<float>& got, std::span<const float> want) {
  EXPECT_EQ(got.size(), want.size());
  float largest = got.size() == want.size() ? 0.0f : INFINITY;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const float difference = std::abs(got[i] - want[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

struct BundleCase {
  const char* file;
  const char* logits;
  float tolerance;
  const char* q_type;
  const char* embedding_type;
};

class Bundle : public testing::TestWithParam<BundleCase> {};

TEST_P(Bundle, GivesTheLogitsOfItsDequantizedWeights) {
  const BundleCase& test = GetParam();
  const DecoderModel model = LiftFile(test.file);
  ASSERT_EQ(model.layers.size(), 2U);
  EXPECT_EQ(model.spec.hidden, 64);
  EXPECT_EQ(model.spec.num_heads, 4);
  EXPECT_EQ(model.spec.num_kv_heads, 2);
  EXPECT_EQ(model.spec.head_dim, 16);
  EXPECT_EQ(model.spec.ffn, 128);
  EXPECT_EQ(model.spec.vocab, 512);
  EXPECT_EQ(model.spec.max_positions, 128);
  EXPECT_FLOAT_EQ(model.spec.norm_epsilon, 1e-5f);
  EXPECT_EQ(model.spec.attention_scale, 0.25f);
  EXPECT_EQ(model.spec.ropes[0].magnitude, 1.0f);
  EXPECT_FALSE(model.spec.tied_head);
  EXPECT_EQ(codec::TypeName(model.layers[1].q.view.type), test.q_type);
  EXPECT_EQ(codec::TypeName(model.embedding.view.type), test.embedding_type);
  EXPECT_FALSE(model.layers[0].q_bias.present());
  const auto want = ReadNpy(GoldenPath(std::string("bundles/") + test.logits));
  const auto got = PromptLogits(model, "tiny-llama-golden.json");
  EXPECT_LE(LargestDifference(got, want.data), test.tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    LitertTorch, Bundle,
    testing::Values(BundleCase{"tiny-llama-fp32/model.litertlm", "tiny-llama-golden-logits.npy",
                               1e-4f, "f32", "f32"},
                    BundleCase{"tiny-llama-fp32/model-fixed-template-nobos.litertlm",
                               "tiny-llama-golden-logits.npy", 1e-4f, "f32", "f32"},
                    BundleCase{"tiny-llama-wi8/model.litertlm", "tiny-llama-wi8-dequant-logits.npy",
                               1e-3f, "int8", "int8"},
                    BundleCase{"tiny-llama-wi8/model-fixed-template-nobos.litertlm",
                               "tiny-llama-wi8-dequant-logits.npy", 1e-3f, "int8", "int8"},
                    BundleCase{"tiny-llama-wi4b32/model.litertlm",
                               "tiny-llama-wi4b32-dequant-logits.npy", 1e-3f, "int4_block32",
                               "int8"},
                    BundleCase{"tiny-llama-wi4b32/model-fixed-template-nobos.litertlm",
                               "tiny-llama-wi4b32-dequant-logits.npy", 1e-3f, "int4_block32",
                               "int8"}));

TEST(LiftBundle, UntiedHeadIsItsOwnMatrix) {
  const DecoderModel model = LiftFile("tiny-llama-untied-wi8/model.litertlm");
  ASSERT_EQ(model.layers.size(), 2U);
  const auto want = ReadNpy(GoldenPath("bundles/tiny-llama-untied-golden-logits.npy"));
  const auto got = PromptLogits(model, "tiny-llama-untied-golden.json");
  ASSERT_EQ(got.size(), want.data.size());
  // Rounding to int8 moves random weights a lot; the direction of every row stays.
  const std::size_t vocab = 512;
  for (std::size_t row = 0; row < got.size() / vocab; ++row) {
    double dot = 0, got_norm = 0, want_norm = 0;
    for (std::size_t i = row * vocab; i < (row + 1) * vocab; ++i) {
      const double g = got[i], w = want.data[i];
      dot += g * w;
      got_norm += g * g;
      want_norm += w * w;
    }
    EXPECT_GT(dot / std::sqrt(got_norm * want_norm), 0.99) << "row " << row;
  }
}

TEST(LiftBundle, WeightsStayInTheMap) {
  auto bundle =
      formats::litertlm::Bundle::Open(GoldenPath("bundles/tiny-llama-wi4b32/model.litertlm"));
  ASSERT_TRUE(bundle.ok()) << bundle.message();
  const ByteSpan file = (*bundle)->map().bytes();
  auto model = LiftBundle(*bundle);
  ASSERT_TRUE(model.ok()) << model.message();
  const auto inside = [&](ByteSpan part) {
    return part.data() >= file.data() && part.data() + part.size() <= file.data() + file.size();
  };
  EXPECT_TRUE(inside(model->layers[0].q.view.codes));
  EXPECT_TRUE(inside(model->layers[0].q.view.scales));
  EXPECT_TRUE(inside(model->embedding.view.codes));
  EXPECT_TRUE(inside(model->final_norm.view.codes));
}

// ---- graphs in memory ----

Result<DecoderModel> Lift(const TinyGraph& graph) {
  return LiftModels({&graph.decoder, "m: section 1 (tf_lite_prefill_decode)"},
                    {&graph.embedder, "m: section 2 (tf_lite_embedder)"});
}

void ExpectRefused(const TinyGraph& graph, const std::string& words) {
  auto model = Lift(graph);
  EXPECT_FALSE(model.ok()) << words;
  EXPECT_TRUE(model.code() == Code::kUnsupported || model.code() == Code::kDataLoss);
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

TEST(LiftModels, ReadsASmallDecoder) {
  TinyGraphOptions options;
  options.layers = 3;
  const TinyGraph graph(options);
  auto model = Lift(graph);
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_EQ(model->spec.architecture, "llama");
  EXPECT_EQ(model->spec.num_layers, 3);
  EXPECT_EQ(model->spec.hidden, 8);
  EXPECT_EQ(model->spec.num_heads, 2);
  EXPECT_EQ(model->spec.num_kv_heads, 1);
  EXPECT_EQ(model->spec.head_dim, 4);
  EXPECT_EQ(model->spec.ffn, 12);
  EXPECT_EQ(model->spec.vocab, 10);
  EXPECT_EQ(model->spec.max_positions, 6);
  EXPECT_EQ(model->spec.norm_epsilon, 1e-5f);
  EXPECT_EQ(model->spec.attention_scale, 0.5f);
  EXPECT_EQ(model->spec.ropes[0].inv_freq, (std::vector<float>{1.0f, 0.01f}));
}

TEST(LiftModels, OtherSpellingsOfTheSameDecoderGiveTheSameLogits) {
  const std::vector<std::int32_t> ids = {3, 1, 9, 4};
  const TinyGraph plain;
  auto model = Lift(plain);
  ASSERT_TRUE(model.ok()) << model.message();
  const auto want = ReferenceLogits(*model, ids);
  ASSERT_TRUE(want.ok()) << want.message();
  TinyGraphOptions options[2];
  options[0].inline_norms = true;
  options[1].transposes = true;
  for (const TinyGraphOptions& option : options) {
    const TinyGraph graph(option);
    auto other = Lift(graph);
    ASSERT_TRUE(other.ok()) << other.message();
    const auto got = ReferenceLogits(*other, ids);
    ASSERT_TRUE(got.ok()) << got.message();
    EXPECT_EQ(*got, *want);
  }
}

TEST(LiftModels, ReadsBiases) {
  TinyGraphOptions options;
  options.biases = true;
  const TinyGraph graph(options);
  auto model = Lift(graph);
  ASSERT_TRUE(model.ok()) << model.message();
  const LayerWeights& layer = model->layers[0];
  for (const Weight* bias : {&layer.q_bias, &layer.k_bias, &layer.v_bias, &layer.o_bias,
                             &layer.gate_bias, &layer.up_bias, &layer.down_bias}) {
    EXPECT_TRUE(bias->present());
  }
  EXPECT_EQ(layer.k_bias.view.cols, 4);
  EXPECT_EQ(layer.gate_bias.view.cols, 12);
}

TEST(LiftModels, ReadsAMagnitude) {
  TinyGraphOptions options;
  options.magnitude = true;
  const TinyGraph graph(options);
  auto model = Lift(graph);
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_EQ(model->spec.ropes[0].magnitude, 1.5f);
}

TEST(LiftModels, ReadsAnEmbeddingInTheDecoder) {
  TinyGraphOptions options;
  options.tokens_in_graph = true;
  const TinyGraph graph(options);
  auto model = LiftModels({&graph.decoder, "m"}, {});
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_EQ(model->embedding.view.rows, 10);
}

TEST(LiftModels, AMissingScaleIsOne) {
  TinyGraph graph;
  Model& model = graph.decoder;
  // Operators that read the scaled query read the query instead.
  for (std::size_t i = 0; i < model.subgraphs[0].operators.size(); ++i) {
    const Operator scale = model.subgraphs[0].operators[i];
    if (scale.op != Op::kMul ||
        model.subgraphs[0].tensors[static_cast<std::size_t>(scale.outputs[0])].shape !=
            std::vector{1, 2, 1, 4} ||
        !model.subgraphs[0].tensors[static_cast<std::size_t>(scale.inputs[1])].shape.empty()) {
      continue;
    }
    for (Operator& reader : model.subgraphs[0].operators) {
      std::replace(reader.inputs.begin(), reader.inputs.end(), scale.outputs[0], scale.inputs[0]);
    }
    model.subgraphs[0].operators.erase(model.subgraphs[0].operators.begin() +
                                       static_cast<std::ptrdiff_t>(i));
    break;
  }
  auto lifted = Lift(graph);
  ASSERT_TRUE(lifted.ok()) << lifted.message();
  EXPECT_EQ(lifted->spec.attention_scale, 1.0f);
}

TEST(LiftModels, AnUnknownOperatorIsNamedWithItsPlace) {
  TinyGraph graph;
  Operator& op = graph.decoder.subgraphs[0].operators[17];
  op.op = static_cast<Op>(128);
  ExpectRefused(graph, "m: section 1 (tf_lite_prefill_decode): signature decode: operator 17 ");
  ExpectRefused(graph, "expected");
}

// Every operator is needed: without any one of them the graph is refused.
TEST(LiftModels, AMissingOperatorIsRefused) {
  TinyGraphOptions options;
  options.magnitude = true;
  options.biases = true;
  const std::size_t count = TinyGraph(options).decoder.subgraphs[0].operators.size();
  for (std::size_t i = 0; i < count; ++i) {
    TinyGraph graph(options);
    auto& operators = graph.decoder.subgraphs[0].operators;
    operators.erase(operators.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(Lift(graph).ok()) << "without operator " << i;
  }
}

// No operator can do the work of another: any change of its type is refused.
TEST(LiftModels, AChangedOperatorIsRefused) {
  const std::size_t count = TinyGraph().decoder.subgraphs[0].operators.size();
  const Op ops[] = {Op::kAdd,   Op::kSub,         Op::kMul,  Op::kLogistic, Op::kSoftmax,
                    Op::kRsqrt, Op::kCos,         Op::kSin,  Op::kMaximum,  Op::kSum,
                    Op::kMean,  Op::kBatchMatMul, Op::kPack, Op::kCast,     Op::kTranspose};
  for (std::size_t i = 0; i < count; ++i) {
    for (const Op op : ops) {
      TinyGraph graph;
      Operator& node = graph.decoder.subgraphs[0].operators[i];
      if (node.op == op) continue;
      node.op = op;
      EXPECT_FALSE(Lift(graph).ok()) << "operator " << i << " as " << OpName(op);
    }
  }
}

TEST(LiftModels, ChangedOptionsAreRefused) {
  const std::pair<const char*, void (*)(Model&)> changes[] = {
      {"beta", [](Model& m) { FindOp(m, Op::kSoftmax).options.beta = 2; }},
      {"fused", [](Model& m) { FindOp(m, Op::kAdd).options.fused_activation = 1; }},
      {"weights in the plain",
       [](Model& m) { FindOp(m, Op::kFullyConnected).options.weights_format = 1; }},
      {"adj_y", [](Model& m) { FindOp(m, Op::kBatchMatMul).options.adj_y = false; }},
      {"adj_y", [](Model& m) { FindOp(m, Op::kBatchMatMul, 1).options.adj_x = true; }},
      {"axis 0", [](Model& m) { FindOp(m, Op::kPack).options.axis = 1; }},
      {"last dimension", [](Model& m) { FindOp(m, Op::kConcatenation, 2).options.axis = 1; }},
      {"odml.rms_norm",
       [](Model& m) { FindOp(m, Op::kStablehloComposite).options.composite_name = "odml.sdpa"; }},
      {"epsilon",
       [](Model& m) { FindOp(m, Op::kStablehloComposite).options.composite_attributes.clear(); }},
      {"same epsilon",
       [](Model& m) {
         FindOp(m, Op::kStablehloComposite, 1).options.composite_attributes =
             formats::tflite::MakeCompositeAttributes("epsilon", 1e-6f);
       }},
      {"no signature decode", [](Model& m) { m.signatures[0].key = "prefill_8"; }},
      {"input_pos", [](Model& m) { m.signatures[0].inputs[1].first = "time_step"; }},
      {"kv_cache_k_0",
       [](Model& m) {
         std::swap(m.signatures[0].outputs[0].second, m.signatures[0].outputs[1].second);
       }},
      {"no output logits", [](Model& m) { m.signatures[0].outputs.pop_back(); }},
      {"not there", [](Model& m) { FindOp(m, Op::kMul).inputs[0] = 9999; }},
      {"names buffer", [](Model& m) { m.subgraphs[0].tensors[0].buffer = 9999; }},
      {"names subgraph", [](Model& m) { m.signatures[0].subgraph = 9; }},
      {"nothing has written",
       [](Model& m) { FindOp(m, Op::kSin).outputs = FindOp(m, Op::kCos).outputs; }},
      {"earlier operators",
       [](Model& m) { std::swap(m.subgraphs[0].operators[0], m.subgraphs[0].operators[1]); }},
  };
  for (const auto& [words, change] : changes) {
    TinyGraph graph;
    change(graph.decoder);
    ExpectRefused(graph, words);
  }
}

TEST(LiftModels, SwappedHalvesAreRefused) {
  TinyGraph graph;
  Operator& concat = FindOp(graph.decoder, Op::kConcatenation, 2);
  std::swap(concat.inputs[0], concat.inputs[1]);
  ExpectRefused(graph, "heads turned by rope");
}

TEST(LiftModels, AMissingEmbedderIsNamed) {
  const TinyGraph graph;
  auto model = LiftModels({&graph.decoder, "m"}, {});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(std::string(model.message()).find("tf_lite_embedder"), std::string::npos);
}

// ---- weights ----

// The query projection of a small graph, which a test can change.
struct QueryWeight {
  QueryWeight() : tensor(FindTensor()), buffer(graph.decoder.buffers[tensor.buffer]) {}
  formats::tflite::Tensor& FindTensor() {
    auto& subgraph = graph.decoder.subgraphs[0];
    const Operator& fc = FindOp(graph.decoder, Op::kFullyConnected);
    return subgraph.tensors[static_cast<std::size_t>(fc.inputs[1])];
  }
  void MakeInt8(std::vector<float> scales) {
    tensor.type = TensorType::kInt8;
    tensor.quantization.scale = std::move(scales);
    tensor.quantization.zero_point.assign(tensor.quantization.scale.size(), 0);
    buffer.data = buffer.data.first(64);
  }
  TinyGraph graph;
  formats::tflite::Tensor& tensor;
  formats::tflite::Buffer& buffer;
};

TEST(LiftedWeight, Int8ScalesAreCopiedForEachRow) {
  QueryWeight one;
  one.MakeInt8({0.5f});
  auto model = Lift(one.graph);
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_EQ(model->layers[0].q.view.scales.size(), 8 * sizeof(float));
  EXPECT_EQ(ReadLe<float>(model->layers[0].q.view.scales, 28), 0.5f);

  QueryWeight many;
  many.MakeInt8({1, 2, 3, 4, 5, 6, 7, 8});
  model = Lift(many.graph);
  ASSERT_TRUE(model.ok()) << model.message();
  EXPECT_EQ(ReadLe<float>(model->layers[0].q.view.scales, 28), 8.0f);
}

TEST(LiftedWeight, WhatCodecsDoNotKnowIsRefused) {
  QueryWeight zero_points;
  zero_points.MakeInt8({0.5f});
  zero_points.tensor.quantization.zero_point = {3};
  ExpectRefused(zero_points.graph, "zero points");

  QueryWeight columns;
  columns.MakeInt8({1, 2, 3, 4, 5, 6, 7, 8});
  columns.tensor.quantization.quantized_dimension = 1;
  ExpectRefused(columns.graph, "dimension 1");

  QueryWeight count;
  count.MakeInt8({1, 2, 3});
  ExpectRefused(count.graph, "3 scales");

  QueryWeight nan;
  nan.MakeInt8({NAN});
  ExpectRefused(nan.graph, "finite");

  QueryWeight none;
  none.MakeInt8({});
  ExpectRefused(none.graph, "no scales");

  QueryWeight type;
  type.tensor.type = TensorType::kInt2;
  ExpectRefused(type.graph, "int2");

  QueryWeight bytes;
  bytes.buffer.data = bytes.buffer.data.first(60);
  ExpectRefused(bytes.graph, "weight tensor");
}

}  // namespace
}  // namespace hone::model
