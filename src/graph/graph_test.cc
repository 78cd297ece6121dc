// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "graph/builder.h"
#include "graph/ir.h"
#include "quant/recipe.h"

namespace hone::graph {
namespace {

using model::Role;

// A model without bytes: the builder reads shapes and which biases exist, nothing else.
model::DecoderModel TinyModel(bool biases = false) {
  model::DecoderModel model;
  model::DecoderSpec& spec = model.spec;
  spec.architecture = "llama";
  spec.num_layers = 3;
  spec.hidden = 64;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 16;
  spec.ffn = 96;
  spec.vocab = 128;
  spec.max_positions = 64;
  spec.norm_epsilon = 1e-5f;
  spec.attention_scale = 0.25f;
  spec.rope.inv_freq.assign(8, 0.5f);
  model.layers.resize(3);
  if (biases) {
    for (model::LayerWeights& layer : model.layers) {
      for (model::Weight* bias : {&layer.q_bias, &layer.k_bias, &layer.v_bias, &layer.o_bias,
                                  &layer.gate_bias, &layer.up_bias, &layer.down_bias}) {
        bias->view.rows = 1;
      }
    }
  }
  return model;
}

quant::Resolved Schemes(const model::DecoderModel& model, const char* preset = "none") {
  auto recipe = quant::GetPreset(preset);
  EXPECT_TRUE(recipe.ok());
  auto resolved = quant::Resolve(*recipe, model.spec, false);
  EXPECT_TRUE(resolved.ok()) << resolved.message();
  return *std::move(resolved);
}

Graph Decoder(const model::DecoderModel& model, std::vector<std::int64_t> prefill = {8, 1},
              const char* preset = "none") {
  auto graph = BuildDecoder(model, Schemes(model, preset), {.context = 32, .prefill = prefill});
  EXPECT_TRUE(graph.ok()) << graph.message();
  return *std::move(graph);
}

std::map<std::string, int> Histogram(const Subgraph& subgraph) {
  std::map<std::string, int> counts;
  for (const Operation& op : subgraph.operations) ++counts[OpKindName(op.kind)];
  return counts;
}

const Subgraph& SubgraphOf(const Graph& graph, std::string_view key) {
  return graph.subgraphs[static_cast<std::size_t>(graph.FindSignature(key)->subgraph)];
}

std::set<Role> RolesReadIn(const Graph& graph, const Subgraph& subgraph, std::int64_t layer) {
  std::set<Role> roles;
  for (const Tensor& tensor : subgraph.tensors) {
    if (tensor.type != ElementType::kWeight) continue;
    const WeightSource& source = *graph.constants[static_cast<std::size_t>(tensor.constant)].weight;
    if (source.layer == layer) roles.insert(source.role);
  }
  return roles;
}

TEST(PrefillLadder, DropsRungsAboveTheContextAndSortsTheRest) {
  auto ladder = PrefillLadder({4, 1024, 1, 64, 16, 4}, 64);
  ASSERT_TRUE(ladder.ok());
  EXPECT_EQ(*ladder, (std::vector<std::int64_t>{64, 16, 4, 1}));
}

TEST(PrefillLadder, RefusesALengthThatIsNotPositiveAndALadderWithoutRungs) {
  EXPECT_EQ(PrefillLadder({4, 0}, 64).code(), Code::kInvalidArgument);
  EXPECT_EQ(PrefillLadder({128}, 64).code(), Code::kInvalidArgument);
}

TEST(BuildDecoder, HasOneSubgraphForEachSignatureInOrderThenNormBodies) {
  const Graph graph = Decoder(TinyModel());
  ASSERT_EQ(graph.signatures.size(), 3u);
  const char* keys[] = {"prefill_8", "prefill_1", "decode"};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(graph.signatures[static_cast<std::size_t>(i)].key, keys[i]);
    EXPECT_EQ(graph.signatures[static_cast<std::size_t>(i)].subgraph, i);
  }
  // prefill_1 and decode have inputs of one shape and share a body.
  EXPECT_EQ(graph.subgraphs.size(), 5u);
}

TEST(BuildDecoder, NamesInputsAndOutputsWithTheirShapes) {
  const Graph graph = Decoder(TinyModel());
  const Signature& prefill = *graph.FindSignature("prefill_8");
  const Subgraph& subgraph = SubgraphOf(graph, "prefill_8");
  std::map<std::string, Shape> inputs;
  for (const auto& [name, id] : prefill.inputs) {
    inputs[name] = subgraph.tensors[static_cast<std::size_t>(id)].shape;
  }
  const std::map<std::string, Shape> expected = {
      {"embeddings", {1, 8, 64}},       {"input_pos", {8}},
      {"kv_cache_k_0", {1, 2, 32, 16}}, {"kv_cache_k_1", {1, 2, 32, 16}},
      {"kv_cache_k_2", {1, 2, 32, 16}}, {"kv_cache_v_0", {1, 2, 16, 32}},
      {"kv_cache_v_1", {1, 2, 16, 32}}, {"kv_cache_v_2", {1, 2, 16, 32}},
      {"mask", {1, 1, 8, 32}},
  };
  EXPECT_EQ(inputs, expected);
  EXPECT_EQ(prefill.outputs.size(), 6u);  // caches only
  const Signature& decode = *graph.FindSignature("decode");
  ASSERT_EQ(decode.outputs.size(), 7u);
  EXPECT_EQ(decode.outputs.back().first, "logits");
  EXPECT_EQ(SubgraphOf(graph, "decode")
                .tensors[static_cast<std::size_t>(decode.outputs.back().second)]
                .shape,
            (Shape{1, 1, 128}));
}

TEST(BuildDecoder, PrefillEndsItsLastLayerAtTheCache) {
  const Graph graph = Decoder(TinyModel());
  const Subgraph& prefill = SubgraphOf(graph, "prefill_8");
  EXPECT_EQ(RolesReadIn(graph, prefill, 2), (std::set<Role>{Role::kInputNorm, Role::kK, Role::kV}));
  EXPECT_EQ(RolesReadIn(graph, prefill, 1).size(), 9u);
  EXPECT_TRUE(RolesReadIn(graph, prefill, -1).empty());  // no final norm, no head
  EXPECT_EQ(RolesReadIn(graph, SubgraphOf(graph, "decode"), 2).size(), 9u);
}

TEST(BuildDecoder, EveryResultIsReadOrAnOutput) {
  const Graph graph = Decoder(TinyModel(true));
  for (const Subgraph& subgraph : graph.subgraphs) {
    std::set<TensorId> read(subgraph.outputs.begin(), subgraph.outputs.end());
    for (const Operation& op : subgraph.operations) read.insert(op.inputs.begin(), op.inputs.end());
    for (const Operation& op : subgraph.operations) {
      EXPECT_TRUE(read.contains(op.output))
          << subgraph.name << " " << subgraph.tensors[static_cast<std::size_t>(op.output)].name;
    }
  }
}

TEST(BuildDecoder, HasAsManyLinearsNormsAndMatMulsAsLitertTorchForItsTinyModel) {
  model::DecoderModel model = TinyModel();
  model.spec.num_layers = 2;
  model.layers.resize(2);
  const Graph graph = Decoder(model, {32, 8, 1});
  auto prefill = Histogram(SubgraphOf(graph, "prefill_8"));
  auto one = Histogram(SubgraphOf(graph, "prefill_1"));
  auto decode = Histogram(SubgraphOf(graph, "decode"));
  // Counts of golden/bundles/tiny-llama-fp32/dissect-model.txt.
  const std::map<std::string, int> expected_prefill = {{"MUL", 13},
                                                       {"RESHAPE", 10},
                                                       {"FULLY_CONNECTED", 9},
                                                       {"SLICE", 7},
                                                       {"TRANSPOSE", 6},
                                                       {"ADD", 6},
                                                       {"CONCATENATION", 5},
                                                       {"DYNAMIC_UPDATE_SLICE", 4},
                                                       {"STABLEHLO_COMPOSITE", 3},
                                                       {"PACK", 2},
                                                       {"BATCH_MATMUL", 2},
                                                       {"CAST", 1},
                                                       {"COS", 1},
                                                       {"SIN", 1},
                                                       {"SOFTMAX", 1},
                                                       {"LOGISTIC", 1}};
  EXPECT_EQ(prefill, expected_prefill);
  EXPECT_EQ(one["RESHAPE"], 9);
  EXPECT_EQ(one["SLICE"], 6);
  EXPECT_EQ(one.count("TRANSPOSE"), 0u);
  EXPECT_EQ(decode["FULLY_CONNECTED"], 15);
  EXPECT_EQ(decode["MUL"], 19);
  EXPECT_EQ(decode["RESHAPE"], 12);
  EXPECT_EQ(decode["STABLEHLO_COMPOSITE"], 5);
}

TEST(BuildDecoder, StoresEachWeightAndEachConstantOnce) {
  const Graph graph = Decoder(TinyModel());
  std::set<std::pair<Role, std::int64_t>> weights;
  std::set<std::vector<std::byte>> bytes;
  for (const Constant& constant : graph.constants) {
    if (constant.weight) {
      EXPECT_TRUE(weights.insert({constant.weight->role, constant.weight->layer}).second);
    } else {
      EXPECT_TRUE(bytes.insert(constant.bytes).second);
    }
  }
  EXPECT_EQ(weights.size(), 3u * 9u + 2u);
}

TEST(BuildDecoder, GivesBiasesToTheLinearsThatHaveThem) {
  const auto with_bias = [](const Graph& graph) {
    int count = 0;
    for (const Operation& op : SubgraphOf(graph, "decode").operations) {
      if (op.kind == OpKind::kFullyConnected && op.inputs[2] != kNoTensor) ++count;
    }
    return count;
  };
  EXPECT_EQ(with_bias(Decoder(TinyModel(true))), 21);
  EXPECT_EQ(with_bias(Decoder(TinyModel(false))), 0);
}

TEST(BuildDecoder, ScalesCosAndSinOnlyForAMagnitudeOtherThanOne) {
  model::DecoderModel model = TinyModel();
  const int plain = Histogram(SubgraphOf(Decoder(model), "decode"))["MUL"];
  model.spec.rope.magnitude = 1.1386f;
  EXPECT_EQ(Histogram(SubgraphOf(Decoder(model), "decode"))["MUL"], plain + 2);
}

TEST(BuildDecoder, UsesTheMaskAsItIsWhenEveryHeadHasItsOwnKeys) {
  model::DecoderModel model = TinyModel();
  const int grouped = Histogram(SubgraphOf(Decoder(model), "decode"))["CONCATENATION"];
  model.spec.num_kv_heads = 4;
  EXPECT_EQ(Histogram(SubgraphOf(Decoder(model), "decode"))["CONCATENATION"], grouped - 1);
}

TEST(BuildDecoder, KeepsTheSchemeOfEachWeight) {
  const Graph graph = Decoder(TinyModel(), {1}, "int4");
  for (const Constant& constant : graph.constants) {
    if (!constant.weight) continue;
    const codec::Coding coding = constant.weight->scheme.type.coding;
    switch (constant.weight->role) {
      case Role::kHead:
        EXPECT_EQ(coding, codec::Coding::kInt8);
        break;
      case Role::kQ:
        EXPECT_EQ(coding, codec::Coding::kInt4);
        EXPECT_EQ(constant.weight->scheme.type.block, 32);
        break;
      case Role::kInputNorm:
        EXPECT_EQ(coding, codec::Coding::kF32);
        break;
      default:
        break;
    }
  }
}

TEST(BuildDecoder, RefusesDimensionsThatDoNotFitIn32Bits) {
  model::DecoderModel model = TinyModel();
  const quant::Resolved schemes = Schemes(model);
  model.spec.vocab = std::int64_t{1} << 32;
  auto graph = BuildDecoder(model, schemes, {.context = 32, .prefill = {1}});
  EXPECT_EQ(graph.code(), Code::kUnsupported);
}

TEST(BuildEmbedder, LooksUpIdsAfterClampingThem) {
  const model::DecoderModel model = TinyModel();
  auto graph = BuildEmbedder(model, Schemes(model), {.context = 32, .prefill = {8, 1}});
  ASSERT_TRUE(graph.ok()) << graph.message();
  ASSERT_EQ(graph->signatures.size(), 3u);
  EXPECT_EQ(graph->signatures[0].key, "decode_embedder");
  EXPECT_EQ(graph->signatures[1].key, "prefill_embedder_8");
  std::vector<OpKind> kinds;
  for (const Operation& op : graph->subgraphs[1].operations) kinds.push_back(op.kind);
  EXPECT_EQ(kinds, (std::vector<OpKind>{OpKind::kMaximum, OpKind::kReshape,
                                        OpKind::kEmbeddingLookup, OpKind::kReshape}));
}

TEST(Verify, NamesAnOperationThatReadsWhatIsNotComputed) {
  Graph graph = Decoder(TinyModel());
  graph.subgraphs[0].operations[5].inputs[0] = graph.subgraphs[0].operations[9].output;
  const Status status = Verify(graph);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(status.message().find("prefill_8"), std::string_view::npos);
}

}  // namespace
}  // namespace hone::graph
