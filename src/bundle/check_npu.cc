// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What GPU delegates and NPU compilers refuse or get wrong. NPU checks run for bundles that name an
// NPU in backend_constraint, and when the caller asks for one.
#include <algorithm>
#include <map>
#include <set>

#include "bundle/check_groups.h"
#include "bundle/mask_pattern.h"

namespace hone::bundle {
namespace {

namespace tflite = formats::tflite;
using tflite::Op;
using tflite::TensorType;

constexpr auto kTile = static_cast<Op>(69);
constexpr auto kGatherNd = static_cast<Op>(107);
constexpr auto kBroadcastTo = static_cast<Op>(130);
constexpr std::int64_t kMaxTiledMaskBytes = 1 << 20;

const char* Name(Op op) {
  if (op == kTile) return "TILE";
  if (op == kGatherNd) return "GATHER_ND";
  if (op == kBroadcastTo) return "BROADCAST_TO";
  if (op == Op::kConcatenation) return "CONCATENATION";
  return op == Op::kDynamicUpdateSlice ? "DYNAMIC_UPDATE_SLICE" : "operator";
}

std::size_t Rank(const tflite::Subgraph& graph, const tflite::Operator& op) {
  std::size_t rank = 0;
  for (const auto* list : {&op.inputs, &op.outputs}) {
    for (const std::int32_t index : *list) {
      if (index < 0) continue;
      rank = std::max(rank, graph.tensors[static_cast<std::size_t>(index)].shape.size());
    }
  }
  return rank;
}

TensorType OutputType(const tflite::Subgraph& graph, const tflite::Operator& op) {
  return op.outputs.empty() ? TensorType::kFloat32
                            : graph.tensors[static_cast<std::size_t>(op.outputs[0])].type;
}

// Counts operators by a sentence and remembers the first place of each.
class Tally {
 public:
  void Add(const std::string& what, const tflite::Subgraph& graph, std::size_t op) {
    auto& [count, first] = places_[what];
    if (count++ == 0) first = StrCat("subgraph '", graph.name, "' operator ", op);
  }
  void Report(const char* id, Findings& out) const {
    for (const auto& [what, place] : places_) {
      out.Add(id, StrCat(place.first, " ", what, ", the first: ", place.second));
    }
  }

 private:
  std::map<std::string, std::pair<std::size_t, std::string>> places_;
};

void CheckNpuOps(const tflite::Model& model, Findings& out) {
  Tally ranks, types;
  for (const tflite::Subgraph& graph : model.subgraphs) {
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      const tflite::Operator& op = graph.operators[i];
      const bool int16 = OutputType(graph, op) == TensorType::kInt16;
      const bool spreads = op.op == kBroadcastTo || op.op == kTile;
      if (spreads && Rank(graph, op) > 4) {
        ranks.Add(StrCat(Name(op.op), " of more than 4 dimensions"), graph, i);
      } else if (int16 && (op.op == kTile || op.op == Op::kDynamicUpdateSlice)) {
        types.Add(StrCat(Name(op.op), " on int16"), graph, i);
      }
    }
  }
  ranks.Report("npu-rank", out);
  types.Report("npu-op", out);
}

void CheckNpuMasks(const tflite::Model& model, Findings& out) {
  for (const RepeatedMask& mask : FindRepeatedMasks(model)) {
    const std::int64_t bytes = 2 * mask.heads() * mask.rows * mask.columns;
    if (bytes <= kMaxTiledMaskBytes) continue;
    out.Add("npu-mask-size",
            StrCat("subgraph '", model.subgraphs[mask.graph].name, "': the repeated mask has 2 * ",
                   mask.heads(), " * ", mask.rows, " * ", mask.columns, " = ", bytes,
                   " bytes, over ", kMaxTiledMaskBytes));
  }
}

void CheckNpuWeights(const tflite::Model& model, Findings& out) {
  std::set<std::uint32_t> blockwise;
  std::string first;
  bool int16 = false;
  for (const tflite::Subgraph& graph : model.subgraphs) {
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const tflite::Tensor& tensor = graph.tensors[t];
      int16 |= tensor.type == TensorType::kInt16;
      if (!tensor.quantization.scales_tensor || tensor.buffer == 0) continue;
      if (blockwise.empty()) first = StrCat("tensor ", t, " (", tensor.name, ")");
      blockwise.insert(tensor.buffer);
    }
  }
  if (!blockwise.empty()) {
    out.Add("npu-blockwise",
            StrCat(blockwise.size(), " weights are quantized in blocks, the first: ", first));
  }
  if (!int16) out.Add("npu-float", "no tensor of the decoder is int16: activations are float");
}

// Scales of the int16 caches and their slices must agree between all signatures.
void CheckNpuCaches(const Subject& subject, Findings& out) {
  std::map<std::string, std::pair<float, std::string>> scales;
  std::set<std::string> told;
  std::vector<const SignatureFacts*> all;
  for (const SignatureFacts& rung : subject.facts.prefill) all.push_back(&rung);
  if (subject.facts.decode) all.push_back(&*subject.facts.decode);
  for (const SignatureFacts* facts : all) {
    for (const auto* list : {&facts->inputs, &facts->outputs}) {
      for (const Port& port : *list) {
        std::string name = port.name;
        if (name.starts_with("kv_slice_")) name.replace(0, 9, "kv_cache_");
        const auto& scale = port.tensor->quantization.scale;
        if (!name.starts_with("kv_cache_") || scale.size() != 1) continue;
        const std::string place = StrCat("'", facts->signature->key, "' ", port.name);
        const auto [known, is_new] = scales.try_emplace(name, scale[0], place);
        if (is_new || known->second.first == scale[0] || !told.insert(name).second) continue;
        out.Add("npu-cache-scales", StrCat(place, " has the scale ", scale[0], ", ",
                                           known->second.second, " has ", known->second.first));
      }
    }
  }
}

}  // namespace

void CheckGpu(const Subject& subject, Findings& out) {
  const Backend backend = subject.options->backend;
  const bool asked = backend == Backend::kAny || backend == Backend::kGpu;
  const char* const kNames[] = {"", "cpu", "gpu", "npu"};
  const char* name = kNames[static_cast<std::size_t>(backend)];
  if (backend != Backend::kAny && subject.decoder && !subject.AllowsBackend(name)) {
    out.Add("backend-excluded",
            StrCat("backend_constraint is ", Json(subject.Item("backend_constraint")).Dump(),
                   ", not ", name));
  }
  if (!asked || !subject.AllowsBackend("gpu")) return;
  if (subject.decoder == nullptr || !subject.decoder->model) return;
  Tally tally;
  for (const tflite::Subgraph& graph : subject.decoder->model->subgraphs) {
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      const tflite::Operator& op = graph.operators[i];
      if (op.op == kGatherNd || op.op == kBroadcastTo) {
        tally.Add(Name(op.op), graph, i);
      } else if (op.op == Op::kConcatenation && Rank(graph, op) > 4) {
        tally.Add("CONCATENATION of more than 4 dimensions", graph, i);
      } else if (op.options.composite_name == "odml.softmax") {
        tally.Add("composite odml.softmax", graph, i);
      }
    }
  }
  tally.Report("gpu-op", out);
}

void CheckNpu(const Subject& subject, Findings& out) {
  const bool claimed = !subject.Item("backend_constraint").empty() && subject.AllowsBackend("npu");
  if (subject.options->backend != Backend::kNpu && !claimed) return;
  if (subject.decoder == nullptr || !subject.decoder->model) return;
  const tflite::Model& model = *subject.decoder->model;
  CheckNpuWeights(model, out);
  CheckNpuMasks(model, out);
  CheckNpuOps(model, out);
  CheckNpuCaches(subject, out);
  const std::vector<UnusedInput> unused = FindUnusedCacheInputs(model);
  if (!unused.empty()) {
    out.Add("npu-unused-cache-input",
            StrCat(unused.size(),
                   " cache inputs of prefill signatures are read by nothing, the first: '",
                   model.signatures[unused[0].signature].key, "' ", unused[0].name));
  }
  if (subject.facts.prefill.size() > 1) {
    out.Add("npu-prefill-lengths", StrCat("there are ", subject.facts.prefill.size(),
                                          " prefill signatures, the NPU executor takes one"));
  }
  const bool aux = std::any_of(subject.models.begin(), subject.models.end(),
                               [](const ModelSection& m) { return m.model_type == "tf_lite_aux"; });
  if (!aux) out.Add("npu-aux-missing", "there is no tf_lite_aux section");
  if (!subject.facts.decode) return;
  for (const Port& port : subject.facts.decode->inputs) {
    if (!port.name.starts_with("kv_cache_k_") || port.tensor->shape.size() != 4) continue;
    const auto [small, large] = std::minmax(port.tensor->shape[2], port.tensor->shape[3]);
    if (large != subject.facts.context && large + 1 != subject.facts.context && small > 0) {
      out.Add("npu-cache-shape",
              StrCat(port.name, " has ", port.tensor->shape[2], " x ", port.tensor->shape[3],
                     ": the context of ", subject.facts.context, " is not the larger"));
      break;
    }
  }
}

}  // namespace hone::bundle
