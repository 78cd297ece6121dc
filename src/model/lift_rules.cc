// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift_rules.h"

#include <algorithm>
#include <utility>

#include "model/lift_reader.h"

namespace hone::model {
namespace {

using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

// The meaning of a signature's input by its name, which LiteRT-LM relies on.
Result<Value> InputMeaning(const std::string& name) {
  if (name == "embeddings") return Value{Kind::kResidual};
  if (name == "tokens") return Value{Kind::kTokens};
  if (name == "input_pos") return Value{Kind::kPosition};
  if (name == "mask") return Value{Kind::kMask};
  if (name.starts_with("kv_cache_k_") || name.starts_with("kv_cache_v_")) {
    return Value{Kind::kCache};
  }
  return Status(Code::kUnsupported, StrCat("input ", name,
                                           ": expected embeddings or tokens, "
                                           "input_pos, mask and kv_cache_k_* and kv_cache_v_*"));
}

// Every cache output is the cache input of the same name with the new position written.
Status CheckOutputs(const LiftGraph& graph, const LiftReader& reader, int* logits) {
  for (const auto& [name, id] : graph.signature().outputs) {
    if (name == "logits") {
      *logits = static_cast<int>(id);
      continue;
    }
    const auto& inputs = graph.signature().inputs;
    const auto input = std::find_if(inputs.begin(), inputs.end(),
                                    [&, &n = name](const auto& in) { return in.first == n; });
    const Value& value = reader.At(static_cast<int>(id));
    const int axis = name.starts_with("kv_cache_k_") ? 2 : 3;
    if (input == inputs.end() || value.kind != Kind::kWritten ||
        value.b != static_cast<int>(input->second) || value.n != axis) {
      return Status(Code::kUnsupported, StrCat("output ", name,
                                               ": expected the cache of that name with the new "
                                               "position written"));
    }
  }
  if (*logits < 0) return Status(Code::kUnsupported, "there is no output logits");
  // Two caches a layer; each is written once, so the outputs are all of them.
  const std::size_t caches = 2 * reader.lifted.layers.size();
  if (graph.signature().outputs.size() != caches + 1) {
    return Status(Code::kUnsupported, StrCat("the signature has ", graph.signature().outputs.size(),
                                             " outputs, expected logits and ", caches, " caches"));
  }
  return Status();
}

}  // namespace

Result<LiftedDecoder> ReadDecoder(const LiftGraph& graph) {
  LiftReader reader(graph);
  int start = -1;
  for (const auto& [name, tensor] : graph.signature().inputs) {
    HONE_ASSIGN(const Value value, InputMeaning(name));
    const int id = static_cast<int>(tensor);
    const bool single = value.kind == Kind::kTokens || value.kind == Kind::kPosition;
    if (single && graph.NumElements(id) != 1) {
      return Status(Code::kUnsupported, StrCat("input ", name, ": expected one value"));
    }
    HONE_TRY(reader.SetInput(id, value).Context(StrCat("input ", name)));
    if (value.kind == Kind::kResidual) start = id;
  }
  HONE_TRY(reader.Run());
  int logits = -1;
  HONE_TRY(CheckOutputs(graph, reader, &logits));
  HONE_TRY(reader.EndLogits(logits).Context("output logits"));
  LiftedDecoder& lifted = reader.lifted;
  for (std::size_t i = 0; start < 0 && i < graph.num_tensors(); ++i) {
    const Value& value = reader.At(static_cast<int>(i));
    if (value.kind == Kind::kResidual && value.n == 0) start = value.id;
  }
  lifted.embedding_table = reader.At(start).a;
  lifted.spec.hidden = graph.NumElements(start);
  lifted.spec.ffn = graph.shape(lifted.layers[0].gate.weight)[0];
  lifted.spec.num_layers = static_cast<std::int64_t>(lifted.layers.size());
  return std::move(lifted);
}

Result<int> ReadEmbedder(const LiftGraph& graph) {
  const auto& signature = graph.signature();
  if (signature.inputs.size() != 1 || signature.outputs.size() != 1) {
    return Status(Code::kUnsupported, "expected one input and one output");
  }
  LiftReader reader(graph);
  const int tokens = static_cast<int>(signature.inputs[0].second);
  if (graph.NumElements(tokens) != 1) {
    return Status(Code::kUnsupported, "expected one token id as input");
  }
  HONE_TRY(reader.SetInput(tokens, Value{Kind::kTokens}));
  HONE_TRY(reader.Run());
  const Value& out = reader.At(static_cast<int>(signature.outputs[0].second));
  if (out.kind != Kind::kResidual || out.a < 0) {
    return Status(Code::kUnsupported, "expected rows of a table as output");
  }
  return out.a;
}

}  // namespace hone::model
