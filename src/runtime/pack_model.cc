// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/file.h"
#include "kernels/aligned_buffer.h"
#include "runtime/packed_model.h"

namespace hone::runtime {
namespace {

class Packer {
 public:
  Packer(const model::DecoderModel& model, kernels::Compute compute, ThreadPool& pool,
         const std::function<void(ByteSpan)>& release)
      : model_(model), compute_(compute), pool_(pool), release_(release) {}

  Result<PackedLinear> Linear(const model::Weight& weight, const model::Weight& bias) {
    HONE_ASSIGN(kernels::Linear linear, Pack(weight));
    PackedLinear packed{std::move(linear), {}};
    if (bias.present()) packed.bias = model::ReadAll(bias);
    return packed;
  }

  // Asks the system to read what Layer() will need.
  void Prefetch(const model::LayerWeights& layer) const {
    if (!release_) return;  // not in a map
    for (const model::Weight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      PrefetchPages(weight->view.codes);
      PrefetchPages(weight->view.scales);
    }
  }

  Result<PackedLayer> Layer(const model::LayerWeights& layer) {
    HONE_TRY(CheckNorms(layer));
    HONE_ASSIGN(PackedLinear q, Linear(layer.q, layer.q_bias));
    HONE_ASSIGN(PackedLinear k, Linear(layer.k, layer.k_bias));
    HONE_ASSIGN(PackedLinear v, Linear(layer.v, layer.v_bias));
    HONE_ASSIGN(PackedLinear o, Linear(layer.o, layer.o_bias));
    HONE_ASSIGN(PackedLinear gate, Linear(layer.gate, layer.gate_bias));
    HONE_ASSIGN(PackedLinear up, Linear(layer.up, layer.up_bias));
    HONE_ASSIGN(PackedLinear down, Linear(layer.down, layer.down_bias));
    return PackedLayer{.input_norm = Norm(layer.input_norm),
                       .q = std::move(q),
                       .k = std::move(k),
                       .v = std::move(v),
                       .o = std::move(o),
                       .q_norm = Norm(layer.q_norm),
                       .k_norm = Norm(layer.k_norm),
                       .post_attention_norm = Norm(layer.post_attention_norm),
                       .ffn_norm = Norm(layer.ffn_norm),
                       .gate = std::move(gate),
                       .up = std::move(up),
                       .down = std::move(down),
                       .post_ffn_norm = Norm(layer.post_ffn_norm)};
  }

 private:
  // A norm that is forgotten, or there unasked, would change the numbers without a word.
  Status CheckNorms(const model::LayerWeights& layer) const {
    const model::DecoderSpec& spec = model_.spec;
    const bool qk_norm = spec.qk_norm != model::QkNorm::kNone;
    const bool right = layer.input_norm.present() == spec.pre_norm &&
                       layer.ffn_norm.present() == spec.pre_norm &&
                       layer.q_norm.present() == qk_norm && layer.k_norm.present() == qk_norm &&
                       layer.post_attention_norm.present() == spec.post_norm &&
                       layer.post_ffn_norm.present() == spec.post_norm;
    if (right) return Status();
    return Status(Code::kInternal, "the norms of a layer are not those that the model describes");
  }

  static std::vector<float> Norm(const model::Weight& weight) {
    return weight.present() ? model::ReadAll(weight) : std::vector<float>();
  }

  Result<kernels::Linear> Pack(const model::Weight& weight) {
    auto linear = weight.interleaved_head_dim > 0
                      ? PackReordered(weight)
                      : kernels::Linear::Pack(weight.view, compute_, pool_, &arena_);
    if (!linear.ok()) return std::move(linear).status().Context(weight.name);
    // Also of a tied embedding: the rows that are looked up are mapped again one by one.
    if (release_) {
      release_(weight.view.codes);
      release_(weight.view.scales);
    }
    return linear;
  }

  // Rows whose order differs from the role's are decoded in the right order first.
  Result<kernels::Linear> PackReordered(const model::Weight& weight) {
    const std::vector<float> rows = model::ReadAll(weight);
    codec::WeightView view;
    view.type = {codec::Coding::kF32, 0};
    view.rows = weight.view.rows;
    view.cols = weight.view.cols;
    view.codes = std::as_bytes(std::span<const float>(rows));
    return kernels::Linear::Pack(view, compute_, pool_, &arena_);
  }

  const model::DecoderModel& model_;
  kernels::Compute compute_;
  ThreadPool& pool_;
  const std::function<void(ByteSpan)>& release_;
  kernels::PackArena arena_;
};

}  // namespace

Result<PackedModel> PackModel(const model::DecoderModel& model, kernels::Compute compute,
                              ThreadPool& pool, const std::function<void(ByteSpan)>& release) {
  Packer packer(model, compute, pool, release);
  std::vector<PackedLayer> layers;
  layers.reserve(model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (i + 1 < model.layers.size()) packer.Prefetch(model.layers[i + 1]);
    HONE_ASSIGN(PackedLayer layer, packer.Layer(model.layers[i]));
    layers.push_back(std::move(layer));
  }
  const model::Weight& head = model.head.present() ? model.head : model.embedding;
  HONE_ASSIGN(PackedLinear packed_head, packer.Linear(head, {}));
  return PackedModel{.layers = std::move(layers),
                     .final_norm = model::ReadAll(model.final_norm),
                     .head = std::move(packed_head)};
}

}  // namespace hone::runtime
