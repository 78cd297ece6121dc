// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift.h"

#include <utility>

#include "formats/litertlm/llm_metadata.h"
#include "model/lift_graph.h"
#include "model/lift_rules.h"

namespace hone::model {
namespace {

using formats::litertlm::Bundle;
using formats::litertlm::Section;
using formats::litertlm::SectionType;
using formats::tflite::Model;

constexpr const char* kDecode = "decode";
constexpr const char* kDecodeEmbedder = "decode_embedder";

// Puts the constants of a graph into the weights of a model.
class WeightBinder {
 public:
  WeightBinder(const LiftGraph& graph, DecoderModel* model) : graph_(graph), model_(*model) {}

  Status Bind(Role role, std::int64_t layer, int tensor, RowRange rows = {}) {
    if (tensor < 0) return Status();
    auto weight = graph_.MakeWeight(tensor, rows, RoleShape(model_.spec, role), &model_.keep_alive);
    if (!weight.ok()) {
      return std::move(weight).status().Context(StrCat("layer ", layer, ", ", RoleName(role)));
    }
    GetWeight(model_, role, layer) = *std::move(weight);
    return Status();
  }

  Status Bind(Role role, Role bias, std::int64_t layer, const LiftedLinear& linear) {
    HONE_TRY(Bind(role, layer, linear.weight, linear.rows));
    return Bind(bias, layer, linear.bias, linear.rows);
  }

  Status BindLayer(std::int64_t i, const LiftedLayer& layer) {
    HONE_TRY(Bind(Role::kInputNorm, i, layer.input_norm));
    HONE_TRY(Bind(Role::kQ, Role::kQBias, i, layer.q));
    HONE_TRY(Bind(Role::kK, Role::kKBias, i, layer.k));
    HONE_TRY(Bind(Role::kV, Role::kVBias, i, layer.v));
    HONE_TRY(Bind(Role::kO, Role::kOBias, i, layer.o));
    HONE_TRY(Bind(Role::kQNorm, i, layer.q_norm));
    HONE_TRY(Bind(Role::kKNorm, i, layer.k_norm));
    HONE_TRY(Bind(Role::kPostAttentionNorm, i, layer.post_attention_norm));
    HONE_TRY(Bind(Role::kFfnNorm, i, layer.ffn_norm));
    HONE_TRY(Bind(Role::kGate, Role::kGateBias, i, layer.gate));
    HONE_TRY(Bind(Role::kUp, Role::kUpBias, i, layer.up));
    HONE_TRY(Bind(Role::kDown, Role::kDownBias, i, layer.down));
    return Bind(Role::kPostFfnNorm, i, layer.post_ffn_norm);
  }

 private:
  const LiftGraph& graph_;
  DecoderModel& model_;
};

Status BindDecoder(const LiftGraph& graph, const LiftedDecoder& lifted, DecoderModel* model) {
  WeightBinder binder(graph, model);
  for (std::size_t i = 0; i < lifted.layers.size(); ++i) {
    model->layers.emplace_back();
    HONE_TRY(binder.BindLayer(static_cast<std::int64_t>(i), lifted.layers[i]));
  }
  HONE_TRY(binder.Bind(Role::kFinalNorm, 0, lifted.final_norm));
  return binder.Bind(Role::kHead, 0, lifted.head.weight);
}

// The signature that LiteRT-LM calls for one token: decode_embedder, or the only one.
std::string EmbedderKey(const Model& embedder) {
  if (embedder.FindSignature(kDecodeEmbedder) == nullptr && embedder.signatures.size() == 1) {
    return embedder.signatures[0].key;
  }
  return kDecodeEmbedder;
}

Status LiftEmbedder(const Model& embedder, DecoderModel* model) {
  const std::string key = EmbedderKey(embedder);
  HONE_ASSIGN(LiftGraph graph, LiftGraph::Open(embedder, key));
  auto found = ReadEmbedder(graph);
  if (!found.ok()) return std::move(found).status().Context(StrCat("signature ", key));
  model->spec.embedding_multiplier *= found->multiplier;
  return WeightBinder(graph, model).Bind(Role::kEmbedding, 0, found->table);
}

Status LiftDecoder(const Model& decoder, const LiftSource& embedder, std::int64_t local_window,
                   const AuxiliaryFacts& auxiliary, DecoderModel* model) {
  HONE_ASSIGN(LiftGraph graph, LiftGraph::Open(decoder, kDecode));
  auto lifted = ReadDecoder(graph, local_window, auxiliary);
  if (!lifted.ok()) return std::move(lifted).status().Context(StrCat("signature ", kDecode));
  model->spec = lifted->spec;
  model->spec.architecture = "llama";
  model->spec.vocab = graph.shape(lifted->head.weight)[0];
  HONE_TRY(BindDecoder(graph, *lifted, model).Context(StrCat("signature ", kDecode)));
  if (lifted->embedding_table >= 0) {
    return WeightBinder(graph, model).Bind(Role::kEmbedding, 0, lifted->embedding_table);
  }
  if (embedder.model == nullptr) {
    return Status(Code::kUnsupported,
                  "the decoder takes embeddings, but there is no section "
                  "tf_lite_embedder that makes them");
  }
  return Status();
}

// The window of the runtime's local mask, from the ExecutorMetadata section; 0 if it is not given.
Result<std::int64_t> LocalWindow(const Bundle& bundle) {
  const Section* section = bundle.Find(SectionType::kExecutorMetadata);
  if (section == nullptr) return std::int64_t{0};
  HONE_ASSIGN(const auto metadata,
              formats::litertlm::ParseExecutorMetadata(bundle.SectionBytes(*section)));
  HONE_ASSIGN(const auto masks, formats::litertlm::ReadAttentionMasks(metadata));
  std::int64_t window = 0;
  for (const auto& mask : masks) {
    if (mask.local) window = mask.sliding_window;
  }
  return window;
}

// "section 4 (tf_lite_prefill_decode)".
std::string Label(const Bundle& bundle, const Section& section, std::string_view model_type) {
  const auto index = &section - bundle.header().sections.data();
  return StrCat("section ", index, " (", model_type, ")");
}

}  // namespace

Result<DecoderModel> LiftModels(const LiftSource& decoder, const LiftSource& embedder,
                                std::int64_t local_window, const LiftSource& auxiliary) {
  DecoderModel model;
  AuxiliaryFacts facts;
  if (auxiliary.model != nullptr) {
    auto found = ReadAuxiliary(*auxiliary.model);
    if (!found.ok()) return std::move(found).status().Context(auxiliary.label);
    facts = *std::move(found);
  }
  HONE_TRY(
      LiftDecoder(*decoder.model, embedder, local_window, facts, &model).Context(decoder.label));
  if (!model.embedding.present()) {
    HONE_TRY(LiftEmbedder(*embedder.model, &model).Context(embedder.label));
  }
  return model;
}

Result<DecoderModel> LiftBundle(std::shared_ptr<const Bundle> bundle) {
  constexpr std::string_view kTypes[] = {"tf_lite_prefill_decode", "tf_lite_embedder",
                                         "tf_lite_aux"};
  Model models[3];
  LiftSource sources[3];
  for (int i = 0; i < 3; ++i) {
    const Section* section = bundle->Find(SectionType::kTfliteModel, kTypes[i]);
    if (section == nullptr) continue;
    sources[i].label = Label(*bundle, *section, kTypes[i]);
    auto model = formats::tflite::ReadModel(bundle->SectionBytes(*section));
    if (!model.ok()) return std::move(model).status().Context(sources[i].label);
    models[i] = *std::move(model);
    sources[i].model = &models[i];
  }
  if (sources[0].model == nullptr) {
    return Status(Code::kUnsupported, StrCat("there is no TFLite section ", kTypes[0]));
  }
  HONE_ASSIGN(const std::int64_t window, LocalWindow(*bundle));
  HONE_ASSIGN(DecoderModel out, LiftModels(sources[0], sources[1], window, sources[2]));
  out.keep_alive.push_back(std::move(bundle));
  return out;
}

}  // namespace hone::model
