// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/lift_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/lift_reader.h"

namespace hone::model {
namespace {

using Kind = LiftReader::Kind;
using Value = LiftReader::Value;

bool IsKeyCache(std::string_view name) {
  return name.starts_with("kv_cache_k_") || name.starts_with("k_cache_");
}
bool IsValueCache(std::string_view name) {
  return name.starts_with("kv_cache_v_") || name.starts_with("v_cache_");
}

Value Of(Kind kind) {
  Value out;
  out.kind = kind;
  return out;
}

// The meaning of a signature's input by its name, which LiteRT-LM relies on.
Result<Value> InputMeaning(LiftReader& reader, const std::string& name, int id,
                           std::int64_t local_window, const AuxiliaryFacts& auxiliary) {
  if (const auto found = auxiliary.inputs.find(name); found != auxiliary.inputs.end()) {
    return found->second;
  }
  if (name == "embeddings") return Of(Kind::kResidual);
  if (name == "tokens" || name == "token_ids") return Of(Kind::kTokens);
  if (name == "input_pos" || name == "positions") {
    Value out = Of(Kind::kAffine);
    out.affine.position = 1;
    return out;
  }
  if (name == "mask" || name == "attn_mask") return reader.RuntimeMask(id, 0);
  if (name == "local_mask" || name == "attn_mask_local" || name == "local_attn_mask") {
    if (local_window > 0) return reader.RuntimeMask(id, local_window);
    return LiftReader::Expected("a sliding_window_size in the ExecutorMetadata section");
  }
  if (name == "param_tensor") return Of(Kind::kAnyNumber);
  if (IsKeyCache(name) || IsValueCache(name)) {
    Value out = Of(Kind::kCache);
    const auto axis = auxiliary.cache_axes.find(name);
    if (axis != auxiliary.cache_axes.end()) out.n = axis->second;
    return out;
  }
  return LiftReader::Expected(
      "embeddings or tokens, input_pos, mask and kv_cache_k_* and kv_cache_v_*");
}

// "kv_slice_k_3" -> "kv_cache_k_3"
std::string CacheOf(std::string_view slice) {
  return "kv_cache_" + std::string(slice.substr(std::string_view("kv_slice_").size()));
}

// A slice is what a layer adds to the cache of the same name.
Status CheckSlice(const LiftGraph& graph, const LiftReader& reader, const std::string& name,
                  const Value& value) {
  const std::string cache = CacheOf(name);
  for (const auto& [input, id] : graph.signature().inputs) {
    if (input != cache) continue;
    for (const LiftedLayer& layer : reader.lifted.layers) {
      const bool keys = IsKeyCache(cache);
      if ((keys ? layer.key_cache : layer.value_cache) == static_cast<int>(id) &&
          (keys ? layer.key_update : layer.value_update) == value.id) {
        return Status();
      }
    }
  }
  return LiftReader::Expected("the new keys or values of the cache of that name");
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
    if (name.starts_with("kv_slice_")) {
      HONE_TRY(CheckSlice(graph, reader, name, value).Context(StrCat("output ", name)));
      continue;
    }
    const bool right = input != inputs.end() && value.kind == Kind::kWritten &&
                       value.b == static_cast<int>(input->second);
    const auto& layers = reader.lifted.layers;
    const bool used =
        right && std::any_of(layers.begin(), layers.end(), [&, &n = name](const LiftedLayer& l) {
          return (IsKeyCache(n) ? l.key_cache : l.value_cache) == value.b;
        });
    if (!used) {
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

Status CheckNumbers(const DecoderSpec& spec) {
  for (const float number :
       {spec.attention_scale, spec.embedding_multiplier, spec.residual_multiplier,
        spec.logits_multiplier, spec.attention_softcap, spec.logits_softcap}) {
    if (!std::isfinite(number)) {
      return Status(Code::kUnsupported, "a scale of the graph is not a finite number");
    }
  }
  return Status();
}

// The embedding, as it comes in or is looked up; -1: none.
int FindStart(const LiftGraph& graph, const LiftReader& reader) {
  for (std::size_t i = 0; i < graph.num_tensors(); ++i) {
    const Value& value = reader.At(static_cast<int>(i));
    if (value.kind == Kind::kResidual && value.n == 0) return static_cast<int>(i);
  }
  return -1;
}

// One graph of an auxiliary section. The runtime gives the position of the token, the token, and
// says that it is one.
Status ReadAuxiliaryGraph(const formats::tflite::Model& model, const char* key,
                          AuxiliaryFacts* facts) {
  HONE_ASSIGN(LiftGraph graph, LiftGraph::Open(model, key));
  LiftReader reader(graph);
  for (const auto& [name, tensor] : graph.signature().inputs) {
    Value value = Of(Kind::kAffine);
    if (name == "input_pos" || name == "time_step") {
      value.affine.position = 1;
    } else if (name == "valid_mask") {
      value.affine.offset = 1;
    } else if (name == "input_tokens") {
      value = Of(Kind::kTokens);
    } else if (IsKeyCache(name) || IsValueCache(name)) {
      value = Of(Kind::kCache);
    } else if (name.starts_with("kv_slice_")) {
      value = Of(Kind::kSlice);
    } else {
      return LiftReader::Expected("an input that LiteRT-LM gives").Context(StrCat("input ", name));
    }
    const int id = static_cast<int>(tensor);
    if (value.kind == Kind::kAffine && graph.NumElements(id) != 1) {
      return LiftReader::Expected("one value").Context(StrCat("input ", name));
    }
    HONE_TRY(reader.SetInput(id, std::move(value)).Context(StrCat("input ", name)));
  }
  HONE_TRY(reader.Run());
  const auto input = [&](const std::string& name) {
    for (const auto& [candidate, id] : graph.signature().inputs) {
      if (candidate == name) return static_cast<int>(id);
    }
    return -1;
  };
  for (const auto& [name, tensor] : graph.signature().outputs) {
    Value value = reader.At(static_cast<int>(tensor));
    value.id = -1;
    if (value.kind == Kind::kTrig || value.kind == Kind::kDistance) {
      facts->inputs[name] = std::move(value);
      continue;
    }
    const std::string slice =
        "kv_slice_" + name.substr(std::min(name.size(), CacheOf("kv_slice_").size()));
    if (value.kind != Kind::kWritten || value.b < 0 || value.b != input(name) ||
        value.a != input(slice)) {
      return LiftReader::Expected("rope, a mask, or a cache with its slice written")
          .Context(StrCat("output ", name));
    }
    facts->cache_axes[name] = value.n;
  }
  return Status();
}

}  // namespace

Result<LiftedDecoder> ReadDecoder(LiftGraph& graph, std::int64_t local_window,
                                  const AuxiliaryFacts& auxiliary) {
  LiftReader reader(graph);
  for (const auto& [name, tensor] : graph.signature().inputs) {
    const int id = static_cast<int>(tensor);
    const std::string context = StrCat("input ", name);
    auto value = InputMeaning(reader, name, id, local_window, auxiliary);
    if (!value.ok()) return std::move(value).status().Context(context);
    const bool single = value->kind == Kind::kTokens || value->kind == Kind::kAffine;
    if (single && graph.NumElements(id) != 1) {
      return Status(Code::kUnsupported, StrCat(context, ": expected one value"));
    }
    HONE_TRY(reader.SetInput(id, *std::move(value)).Context(context));
  }
  HONE_TRY(reader.Run());
  int logits = -1;
  HONE_TRY(CheckOutputs(graph, reader, &logits));
  HONE_TRY(reader.EndLogits(logits).Context("output logits"));
  reader.Finish();
  LiftedDecoder& lifted = reader.lifted;
  const int start = FindStart(graph, reader);
  lifted.embedding_table = reader.At(start).a;
  lifted.spec.hidden = graph.NumElements(start);
  lifted.spec.num_layers = static_cast<std::int64_t>(lifted.layers.size());
  HONE_TRY(CheckNumbers(lifted.spec));
  return std::move(lifted);
}

Result<AuxiliaryFacts> ReadAuxiliary(const formats::tflite::Model& model) {
  AuxiliaryFacts facts;
  for (const char* key : {"decode_rope", "decode_mask", "decode_cache_update"}) {
    HONE_TRY(ReadAuxiliaryGraph(model, key, &facts).Context(StrCat("signature ", key)));
  }
  return facts;
}

Result<LiftedEmbedder> ReadEmbedder(LiftGraph& graph) {
  const auto& signature = graph.signature();
  if (signature.inputs.size() != 1 || signature.outputs.size() != 1) {
    return Status(Code::kUnsupported, "expected one input and one output");
  }
  LiftReader reader(graph);
  const int tokens = static_cast<int>(signature.inputs[0].second);
  if (graph.NumElements(tokens) != 1) {
    return Status(Code::kUnsupported, "expected one token id as input");
  }
  HONE_TRY(reader.SetInput(tokens, Of(Kind::kTokens)));
  HONE_TRY(reader.Run());
  const Value& out = reader.At(static_cast<int>(signature.outputs[0].second));
  if (out.kind != Kind::kResidual || out.a < 0) {
    return Status(Code::kUnsupported, "expected rows of a table as output");
  }
  if (!std::isfinite(out.number)) {
    return Status(Code::kUnsupported, "expected rows of a table times a finite number");
  }
  return LiftedEmbedder{out.a, out.number};
}

}  // namespace hone::model
