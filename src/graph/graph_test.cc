// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "graph/builder.h"
#include "graph/ir.h"
#include "graph/largest_tensors.h"
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
  spec.ropes.resize(1);
  spec.ropes[0].inv_freq.assign(8, 0.5f);
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
  model.spec.ropes[0].magnitude = 1.1386f;
  EXPECT_EQ(Histogram(SubgraphOf(Decoder(model), "decode"))["MUL"], plain + 2);
}

const Operation& OperationNamed(const Subgraph& subgraph, std::string_view output) {
  for (const Operation& op : subgraph.operations) {
    if (subgraph.tensors[static_cast<std::size_t>(op.output)].name == output) return op;
  }
  ADD_FAILURE() << "no tensor " << output;
  return subgraph.operations[0];
}

const Shape& InputShape(const Subgraph& subgraph, const Operation& op, std::size_t i) {
  return subgraph.tensors[static_cast<std::size_t>(op.inputs[i])].shape;
}

TEST(BuildDecoder, AddsAWindowToTheMaskOnceForAllLayersThatHaveIt) {
  model::DecoderModel model = TinyModel();
  model.spec.layer_specs = {{.window = 8}, {}, {.window = 8}};
  const Graph graph = Decoder(model);
  for (const char* key : {"prefill_8", "decode"}) {
    const Subgraph& subgraph = SubgraphOf(graph, key);
    auto counts = Histogram(subgraph);
    EXPECT_EQ(counts["SUB"], 1) << key;
    EXPECT_EQ(counts["MAXIMUM"], 1) << key;
    EXPECT_EQ(counts["MINIMUM"], 1) << key;
    EXPECT_EQ(OperationNamed(subgraph, "layers.0.self_attn.masked").inputs[1],
              OperationNamed(subgraph, "window_8.mask").output + 1)
        << "stacked right behind";
  }
  const Subgraph& decode = SubgraphOf(graph, "decode");
  EXPECT_EQ(OperationNamed(decode, "layers.0.self_attn.masked").inputs[1],
            OperationNamed(decode, "layers.2.self_attn.masked").inputs[1]);
  EXPECT_NE(OperationNamed(decode, "layers.0.self_attn.masked").inputs[1],
            OperationNamed(decode, "layers.1.self_attn.masked").inputs[1]);
}

TEST(BuildDecoder, ReadsConstantsOfTheTypeOfTheOtherOperand) {
  model::DecoderModel model = TinyModel();
  model.spec.layer_specs.assign(3, {.window = 8});
  const Graph graph = Decoder(model);
  for (const Subgraph& subgraph : graph.subgraphs) {
    for (const Operation& op : subgraph.operations) {
      if (op.kind != OpKind::kAdd && op.kind != OpKind::kMul && op.kind != OpKind::kSub &&
          op.kind != OpKind::kMaximum && op.kind != OpKind::kMinimum) {
        continue;
      }
      const auto is_int = [&](TensorId id) {
        return subgraph.tensors[static_cast<std::size_t>(id)].type == ElementType::kInt32;
      };
      EXPECT_EQ(is_int(op.inputs[0]), is_int(op.inputs[1])) << OpKindName(op.kind);
      EXPECT_EQ(is_int(op.inputs[0]), is_int(op.output)) << OpKindName(op.kind);
    }
  }
}

TEST(BuildDecoder, LeavesOutAWindowAsWideAsTheCache) {
  model::DecoderModel model = TinyModel();
  const Graph plain = Decoder(model);
  model.spec.layer_specs.assign(3, {.window = 32});
  const Graph graph = Decoder(model);
  EXPECT_EQ(Histogram(SubgraphOf(graph, "decode")), Histogram(SubgraphOf(plain, "decode")));
  model.spec.layer_specs.assign(3, {.window = 31});
  EXPECT_EQ(Histogram(SubgraphOf(Decoder(model), "decode"))["SUB"], 1);
}

TEST(BuildDecoder, TurnsNothingInALayerWithoutRopeAndGivesEachTableItsOwnAngles) {
  model::DecoderModel model = TinyModel();
  model.spec.ropes.push_back(model.spec.ropes[0]);
  model.spec.ropes[1].inv_freq.assign(8, 0.25f);
  model.spec.layer_specs = {{.rope = 0}, {.rope = 1}, {.rope = model::kNoRope}};
  auto counts = Histogram(SubgraphOf(Decoder(model), "decode"));
  EXPECT_EQ(counts["COS"], 2);
  EXPECT_EQ(counts["CAST"], 1);
  EXPECT_EQ(counts["SLICE"], 2 * 2 * 2);  // halves of q and k in two layers
  model.spec.layer_specs.assign(3, {.rope = model::kNoRope});
  counts = Histogram(SubgraphOf(Decoder(model), "decode"));
  EXPECT_EQ(counts.count("COS"), 0u);
  EXPECT_EQ(counts.count("CAST"), 0u);
}

TEST(BuildDecoder, TurnsTheFirstDimensionsOfAHeadAndKeepsTheRest) {
  model::DecoderModel model = TinyModel();
  model.spec.ropes[0].inv_freq.resize(6);  // 12 of 16 dimensions
  const Graph graph = Decoder(model);
  const Subgraph& decode = SubgraphOf(graph, "decode");
  const Operation& turned = OperationNamed(decode, "layers.0.self_attn.rotated");
  EXPECT_EQ(InputShape(decode, turned, 0), (Shape{1, 2, 1, 12}));
  EXPECT_EQ(Histogram(decode)["SLICE"], 3 * 2 * 4);
}

TEST(BuildDecoder, NormsQueriesAndKeysByHeadOrByRow) {
  model::DecoderModel model = TinyModel();
  const auto norm_shape = [&](const char* name) {
    const Graph graph = Decoder(model);
    const Subgraph& prefill = SubgraphOf(graph, "prefill_8");
    const Operation& norm = OperationNamed(prefill, name);
    EXPECT_EQ(norm.kind, OpKind::kComposite);
    return InputShape(prefill, norm, 0);
  };
  model.spec.qk_norm = model::QkNorm::kPerHead;
  EXPECT_EQ(norm_shape("layers.0.self_attn.q_norm"), (Shape{1, 8, 4, 16}));
  EXPECT_EQ(norm_shape("layers.0.self_attn.k_norm"), (Shape{1, 8, 2, 16}));
  model.spec.qk_norm = model::QkNorm::kWholeRow;
  EXPECT_EQ(norm_shape("layers.0.self_attn.q_norm"), (Shape{1, 8, 64}));
  EXPECT_EQ(norm_shape("layers.0.self_attn.k_norm"), (Shape{1, 8, 32}));
}

TEST(BuildDecoder, PutsNormsBehindAttentionAndFeedForwardInsteadOfBefore) {
  model::DecoderModel model = TinyModel();
  model.spec.post_norm = true;
  EXPECT_EQ(Histogram(SubgraphOf(Decoder(model), "decode"))["STABLEHLO_COMPOSITE"], 3 * 4 + 1);
  model.spec.pre_norm = false;
  const Graph graph = Decoder(model);
  EXPECT_EQ(Histogram(SubgraphOf(graph, "decode"))["STABLEHLO_COMPOSITE"], 3 * 2 + 1);
  EXPECT_EQ(RolesReadIn(graph, SubgraphOf(graph, "prefill_8"), 2),
            (std::set<Role>{Role::kK, Role::kV}));
}

TEST(BuildDecoder, MultipliesAndCapsOnlyWhereTheModelDoes) {
  model::DecoderModel model = TinyModel();
  auto plain = Histogram(SubgraphOf(Decoder(model), "decode"));
  model.spec.residual_multiplier = 0.5f;
  EXPECT_EQ(Histogram(SubgraphOf(Decoder(model), "decode"))["MUL"], plain["MUL"] + 6);
  model.spec.logits_multiplier = 0.25f;
  EXPECT_EQ(Histogram(SubgraphOf(Decoder(model), "decode"))["MUL"], plain["MUL"] + 7);
  model.spec.attention_softcap = 50.0f;
  model.spec.logits_softcap = 30.0f;
  auto capped = Histogram(SubgraphOf(Decoder(model), "decode"));
  EXPECT_EQ(capped["MUL"], plain["MUL"] + 7 + 8);
  EXPECT_EQ(capped["TANH"], 4);
  EXPECT_EQ(Histogram(SubgraphOf(Decoder(model), "prefill_8"))["TANH"], 2);
}

TEST(BuildDecoder, UsesGeluInThePlaceOfSilu) {
  model::DecoderModel model = TinyModel();
  for (const auto activation : {model::Activation::kGeluTanh, model::Activation::kGelu}) {
    model.spec.activation = activation;
    const Graph graph = Decoder(model);
    auto counts = Histogram(SubgraphOf(graph, "decode"));
    EXPECT_EQ(counts["GELU"], 3);
    EXPECT_EQ(counts.count("LOGISTIC"), 0u);
    for (const Operation& op : SubgraphOf(graph, "decode").operations) {
      if (op.kind == OpKind::kGelu) {
        EXPECT_EQ(op.approximate, activation == model::Activation::kGeluTanh);
      }
    }
  }
}

TEST(BuildDecoder, CastsAroundFloat16Caches) {
  const model::DecoderModel model = TinyModel();
  auto graph =
      BuildDecoder(model, Schemes(model), {.context = 32, .prefill = {8, 1}, .half_cache = true});
  ASSERT_TRUE(graph.ok()) << graph.message();
  const Subgraph& decode = SubgraphOf(*graph, "decode");
  EXPECT_EQ(Histogram(decode)["CAST"], 1 + 3 * 4);
  EXPECT_EQ(Histogram(SubgraphOf(*graph, "prefill_8"))["CAST"], 1 + 3 * 4 - 2);
  for (const auto& [name, id] : graph->FindSignature("decode")->outputs) {
    const ElementType type = decode.tensors[static_cast<std::size_t>(id)].type;
    EXPECT_EQ(type, name == "logits" ? ElementType::kFloat32 : ElementType::kFloat16) << name;
  }
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

TEST(BuildEmbedder, MultipliesEmbeddingsOnlyWhereTheModelDoes) {
  model::DecoderModel model = TinyModel();
  model.spec.embedding_multiplier = 8.0f;
  auto graph = BuildEmbedder(model, Schemes(model), {.context = 32, .prefill = {8}});
  ASSERT_TRUE(graph.ok()) << graph.message();
  EXPECT_EQ(Histogram(graph->subgraphs[0])["MUL"], 1);
}

TEST(LargestTensors, CountsEachTensorOnceByWhatItsTypeTakes) {
  const Graph graph = Decoder(TinyModel(), {8, 1}, "int4");
  const std::vector<TensorSize> sizes = LargestTensors(graph, 1000);
  std::map<std::string, std::uint64_t> decode;
  for (const TensorSize& tensor : sizes) {
    if (tensor.signature == "decode") decode[tensor.name] = tensor.bytes;
  }
  EXPECT_EQ(decode["lm_head.weight"], 128u * 64);                             // int8
  EXPECT_EQ(decode["model.layers.0.self_attn.q_proj.weight"], 64u * 64 / 2);  // int4
  EXPECT_EQ(decode["decode_kv_cache_k_0"], 32u * 32 * 4);
  EXPECT_EQ(decode["layers.0.self_attn.scores"], 4u * 32 * 4);
  EXPECT_FALSE(decode.contains("layers.0.self_attn.reshape"));
  const std::vector<TensorSize> first = LargestTensors(graph, 2);
  ASSERT_EQ(first.size(), 6u);
  EXPECT_EQ(first[0].signature, "prefill_8");
  EXPECT_GE(first[0].bytes, first[1].bytes);
  EXPECT_EQ(first[4].name, "lm_head.weight");
  EXPECT_TRUE(first[4].constant);
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
