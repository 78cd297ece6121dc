// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Lifts damaged decoders. Input that looks like a TFLite file is read as one; all other input is a
// list of changes to a small decoder that the lifter knows. What lifts must also run.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "model/lift.h"
#include "model/lift_test_graph.h"
#include "model/reference_forward.h"

namespace {

using hone::ByteSpan;
using hone::model::DecoderModel;
using hone::model::TinyGraph;
using hone::model::TinyGraphOptions;
namespace tflite = hone::formats::tflite;

void Run(const hone::Result<DecoderModel>& model) {
  if (!model.ok()) return;
  // A file can describe a large model with few bytes: run only small ones.
  const auto& spec = model->spec;
  if (spec.hidden * spec.ffn + spec.hidden * spec.vocab > 1 << 16 || spec.num_layers > 8) return;
  const std::int32_t ids[] = {0, 0};
  (void)hone::model::ReferenceLogits(*model, ids);
}

// Takes numbers from the input; zeros at its end.
class Script {
 public:
  explicit Script(ByteSpan bytes) : bytes_(bytes) {}
  bool done() const { return at_ >= bytes_.size(); }
  std::uint32_t Byte() { return done() ? 0 : std::to_integer<std::uint32_t>(bytes_[at_++]); }
  // Mostly small, sometimes odd.
  std::int32_t Number() {
    const std::uint32_t b = Byte();
    if (b < 250) return static_cast<std::int32_t>(b) - 2;
    constexpr std::int32_t kOdd[] = {0x7fffffff, -0x7fffffff, 1 << 30, 1 << 16, -128, 255};
    return kOdd[b - 250];
  }
  template <typename T>
  T* Pick(std::vector<T>& list) {
    return list.empty() ? nullptr : &list[Byte() % list.size()];
  }

 private:
  ByteSpan bytes_;
  std::size_t at_ = 0;
};

void ChangeOperator(Script& script, std::vector<tflite::Operator>& list) {
  tflite::Operator* op = script.Pick(list);
  if (op == nullptr) return;
  switch (script.Byte() % 10) {
    case 0:
      op->op = static_cast<tflite::Op>(script.Number());
      break;
    case 1:
      if (auto* input = script.Pick(op->inputs)) *input = script.Number();
      break;
    case 2:
      if (auto* output = script.Pick(op->outputs)) *output = script.Number();
      break;
    case 3:
      op->inputs.resize(script.Byte() % 6, script.Number());
      break;
    case 4:
      op->outputs.resize(script.Byte() % 3, script.Number());
      break;
    case 5:
      op->options.axis = script.Number();
      break;
    case 6:
      op->options.adj_y = !op->options.adj_y;
      op->options.decomposition_subgraph = script.Number();
      break;
    case 7:
      op->options.composite_attributes.resize(script.Byte() % 64);
      break;
    case 8:
      list.erase(list.begin() + (op - list.data()));
      break;
    default:
      list.push_back(*op);
  }
}

void ChangeTensor(Script& script, std::vector<tflite::Tensor>& list) {
  tflite::Tensor* tensor = script.Pick(list);
  if (tensor == nullptr) return;
  switch (script.Byte() % 8) {
    case 0:
      if (auto* dim = script.Pick(tensor->shape)) *dim = script.Number();
      break;
    case 1:
      tensor->shape.resize(script.Byte() % 6, script.Number());
      break;
    case 2:
      tensor->type = static_cast<tflite::TensorType>(script.Byte() % 21);
      break;
    case 3:
      tensor->buffer = static_cast<std::uint32_t>(script.Number());
      break;
    case 4:
      tensor->quantization.scale.resize(script.Byte() % 16, 0.5f);
      break;
    case 5:
      tensor->quantization.zero_point.resize(script.Byte() % 16, script.Number());
      break;
    case 6:
      tensor->quantization.scales_tensor = script.Number();
      break;
    default:
      tensor->quantization.block_size = script.Number();
  }
}

void ChangeSignature(Script& script, tflite::SignatureDef& signature) {
  auto& list = script.Byte() % 2 == 0 ? signature.inputs : signature.outputs;
  auto* entry = script.Pick(list);
  if (entry == nullptr) return;
  switch (script.Byte() % 3) {
    case 0:
      entry->second = static_cast<std::uint32_t>(script.Number());
      break;
    case 1:
      entry->first = list[script.Byte() % list.size()].first;
      break;
    default:
      list.erase(list.begin() + (entry - list.data()));
  }
}

// The kind of decoder that is changed, from the first bytes.
TinyGraphOptions ReadOptions(Script& script) {
  TinyGraphOptions options;
  const auto pick = [&script](auto& field, std::uint32_t count) {
    field = static_cast<std::decay_t<decltype(field)>>(script.Byte() % count);
  };
  const std::uint32_t bits = script.Byte();
  options.layers = 1 + static_cast<int>(bits & 1);
  options.biases = (bits & 2) != 0;
  options.inline_norms = (bits & 4) != 0;
  options.magnitude = (bits & 8) != 0;
  options.tokens_in_graph = (bits & 16) != 0;
  options.transposes = (bits & 32) != 0;
  options.explicit_heads = (bits & 64) != 0;
  options.composites = (bits & 128) != 0;
  const std::uint32_t more = script.Byte();
  options.post_norm = (more & 1) != 0;
  options.no_pre_norm = (more & 2) != 0;
  options.norm_plus_one = (more & 4) != 0;
  options.fused = (more & 8) != 0;
  options.swapped_caches = (more & 16) != 0;
  options.half_cache = (more & 32) != 0;
  options.added_biases = (more & 64) != 0;
  if ((more & 128) != 0) {
    options.scores_cap = 2;
    options.logits_cap = 3;
    options.embedding_scale = 4;
    options.residual_scale = 0.5f;
    options.logits_scale = 0.25f;
  }
  pick(options.window, 4);
  pick(options.mask, 3);
  pick(options.head_norm, 3);
  pick(options.gate, 5);
  pick(options.turn, 5);
  return options;
}

void Change(Script& script, tflite::Model& model) {
  tflite::Subgraph& graph = model.subgraphs[script.Byte() % model.subgraphs.size()];
  const std::uint32_t what = script.Byte() % 8;
  if (what < 4) {
    ChangeOperator(script, graph.operators);
  } else if (what < 6) {
    ChangeTensor(script, graph.tensors);
  } else if (what < 7) {
    ChangeSignature(script, model.signatures[0]);
  } else if (auto* buffer = script.Pick(model.buffers)) {
    buffer->data = buffer->data.first(script.Byte() % (buffer->data.size() + 1));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (size >= 8 && hone::AsText(bytes.subspan(4, 4)) == "TFL3") {
    const auto model = tflite::ReadModel(bytes);
    if (!model.ok()) return 0;
    const hone::model::LiftSource source{&*model, "fuzz"};
    const bool split = model->FindSignature("decode_rope") != nullptr;
    Run(hone::model::LiftModels(source, source, 3, split ? source : hone::model::LiftSource{}));
    return 0;
  }
  Script script(bytes);
  const TinyGraphOptions options = ReadOptions(script);
  TinyGraph graph(options);
  while (!script.done()) {
    Change(script, script.Byte() % 8 == 0 ? graph.embedder : graph.decoder);
  }
  Run(hone::model::LiftModels({&graph.decoder, "fuzz"}, {&graph.embedder, "fuzz"}, 3));
  return 0;
}
