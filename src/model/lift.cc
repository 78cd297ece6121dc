// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift.h"

#include <utility>

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

  Status Bind(Role role, std::int64_t layer, int tensor) {
    if (tensor < 0) return Status();
    auto weight = graph_.MakeWeight(tensor, RoleShape(model_.spec, role), &model_.keep_alive);
    if (!weight.ok()) {
      return std::move(weight).status().Context(StrCat("layer ", layer, ", ", RoleName(role)));
    }
    GetWeight(model_, role, layer) = *std::move(weight);
    return Status();
  }

  Status Bind(Role role, Role bias, std::int64_t layer, const LiftedLinear& linear) {
    HONE_TRY(Bind(role, layer, linear.weight));
    return Bind(bias, layer, linear.bias);
  }

  Status BindLayer(std::int64_t i, const LiftedLayer& layer) {
    HONE_TRY(Bind(Role::kInputNorm, i, layer.input_norm));
    HONE_TRY(Bind(Role::kQ, Role::kQBias, i, layer.q));
    HONE_TRY(Bind(Role::kK, Role::kKBias, i, layer.k));
    HONE_TRY(Bind(Role::kV, Role::kVBias, i, layer.v));
    HONE_TRY(Bind(Role::kO, Role::kOBias, i, layer.o));
    HONE_TRY(Bind(Role::kFfnNorm, i, layer.ffn_norm));
    HONE_TRY(Bind(Role::kGate, Role::kGateBias, i, layer.gate));
    HONE_TRY(Bind(Role::kUp, Role::kUpBias, i, layer.up));
    return Bind(Role::kDown, Role::kDownBias, i, layer.down);
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

Status LiftEmbedder(const Model& embedder, DecoderModel* model) {
  HONE_ASSIGN(const LiftGraph graph, LiftGraph::Open(embedder, kDecodeEmbedder));
  auto table = ReadEmbedder(graph);
  if (!table.ok()) return std::move(table).status().Context(StrCat("signature ", kDecodeEmbedder));
  return WeightBinder(graph, model).Bind(Role::kEmbedding, 0, *table);
}

Status LiftDecoder(const Model& decoder, const LiftSource& embedder, DecoderModel* model) {
  HONE_ASSIGN(const LiftGraph graph, LiftGraph::Open(decoder, kDecode));
  auto lifted = ReadDecoder(graph);
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

// "section 4 (tf_lite_prefill_decode)".
std::string Label(const Bundle& bundle, const Section& section, std::string_view model_type) {
  const auto index = &section - bundle.header().sections.data();
  return StrCat("section ", index, " (", model_type, ")");
}

}  // namespace

Result<DecoderModel> LiftModels(const LiftSource& decoder, const LiftSource& embedder) {
  DecoderModel model;
  HONE_TRY(LiftDecoder(*decoder.model, embedder, &model).Context(decoder.label));
  if (!model.embedding.present()) {
    HONE_TRY(LiftEmbedder(*embedder.model, &model).Context(embedder.label));
  }
  return model;
}

Result<DecoderModel> LiftBundle(std::shared_ptr<const Bundle> bundle) {
  constexpr std::string_view kTypes[] = {"tf_lite_prefill_decode", "tf_lite_embedder"};
  Model models[2];
  LiftSource sources[2];
  for (int i = 0; i < 2; ++i) {
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
  HONE_ASSIGN(DecoderModel out, LiftModels(sources[0], sources[1]));
  out.keep_alive.push_back(std::move(bundle));
  return out;
}

}  // namespace hone::model
