// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/peek_model.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace hone::bundle {
namespace {

namespace tflite = formats::tflite;

struct Place {
  std::size_t graph = 0;
  std::size_t tensor = 0;
};

// What is known about a constant buffer.
struct Constant {
  Place first;                               // the first tensor that shows it
  std::uint32_t scales = 0;                  // buffer of its block scales
  std::string op, output, signature_output;  // its first use
};

class ModelFacts {
 public:
  ModelFacts(const tflite::Model& model, std::uint64_t section_bytes)
      : model_(model), section_bytes_(section_bytes) {
    for (std::size_t g = 0; g < model_.subgraphs.size(); ++g) FindConstants(g);
    for (std::size_t g = 0; g < model_.subgraphs.size(); ++g) FindUses(g);
  }

  Json Signatures() const {
    Json::Array out;
    for (const tflite::SignatureDef& signature : model_.signatures) {
      Json entry(Json::Object{});
      entry.Set("key", signature.key);
      entry.Set("inputs", TensorMaps(signature.subgraph, signature.inputs));
      entry.Set("outputs", TensorMaps(signature.subgraph, signature.outputs));
      out.push_back(std::move(entry));
    }
    return out;
  }

  Json Operators() const {
    std::map<std::string, std::int64_t> counts;
    for (const tflite::Subgraph& graph : model_.subgraphs) {
      for (const tflite::Operator& op : graph.operators) ++counts[tflite::OpName(op.op)];
    }
    Json out(Json::Object{});
    for (const auto& [name, count] : counts) out.Set(name, count);
    return out;
  }

  Json Weights(Json& bytes_by_precision) const {
    std::map<std::string, std::uint64_t> totals;
    Json::Array out;
    for (const auto& [buffer, constant] : constants_) {
      if (std::binary_search(scale_buffers_.begin(), scale_buffers_.end(), buffer)) continue;
      const tflite::Tensor& tensor = TensorAt(constant.first);
      const tflite::Quantization& q = tensor.quantization;
      const std::uint64_t scale_bytes =
          constant.scales != 0
              ? BufferBytes(constant.scales)
              : q.scale.size() * sizeof(float) + q.zero_point.size() * sizeof(std::int64_t);
      const std::uint64_t bytes = BufferBytes(buffer) + scale_bytes;
      const std::string precision = Precision(tensor);
      totals[precision] += bytes;
      Json entry(Json::Object{});
      entry.Set("name", tensor.name);
      entry.Set("shape", Shape(tensor));
      entry.Set("precision", precision);
      if (q.block_size != 0) entry.Set("block", q.block_size);
      entry.Set("bytes", bytes);
      entry.Set("scale_bytes", scale_bytes);
      entry.Set("share", section_bytes_ == 0
                             ? 0.0
                             : static_cast<double>(bytes) / static_cast<double>(section_bytes_));
      if (!constant.op.empty()) entry.Set("op", constant.op);
      if (!constant.output.empty()) entry.Set("output", constant.output);
      if (!constant.signature_output.empty()) {
        entry.Set("signature_output", constant.signature_output);
      }
      out.push_back(std::move(entry));
    }
    bytes_by_precision = Json(Json::Object{});
    for (const auto& [precision, bytes] : totals) bytes_by_precision.Set(precision, bytes);
    return out;
  }

 private:
  const tflite::Tensor& TensorAt(Place place) const {
    return model_.subgraphs[place.graph].tensors[place.tensor];
  }

  std::uint64_t BufferBytes(std::uint32_t buffer) const {
    return model_.buffers[buffer].data.size();
  }

  bool IsConstant(const tflite::Tensor& tensor) const {
    return tensor.buffer != 0 && !model_.buffers[tensor.buffer].data.empty();
  }

  void FindConstants(std::size_t g) {
    const tflite::Subgraph& graph = model_.subgraphs[g];
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const tflite::Tensor& tensor = graph.tensors[t];
      if (!IsConstant(tensor)) continue;
      Constant& constant =
          constants_.try_emplace(tensor.buffer, Constant{{g, t}, 0, "", "", ""}).first->second;
      if (!tensor.quantization.scales_tensor || constant.scales != 0) continue;
      const auto scales = static_cast<std::size_t>(*tensor.quantization.scales_tensor);
      constant.scales = graph.tensors[scales].buffer;
      const auto place =
          std::lower_bound(scale_buffers_.begin(), scale_buffers_.end(), constant.scales);
      if (place == scale_buffers_.end() || *place != constant.scales) {
        scale_buffers_.insert(place, constant.scales);
      }
    }
  }

  void FindUses(std::size_t g) {
    const tflite::Subgraph& graph = model_.subgraphs[g];
    std::map<std::int32_t, std::string> outputs;
    for (const tflite::SignatureDef& signature : model_.signatures) {
      if (signature.subgraph != g) continue;
      for (const auto& [name, tensor] : signature.outputs) {
        outputs.emplace(static_cast<std::int32_t>(tensor), name);
      }
    }
    for (const tflite::Operator& op : graph.operators) {
      for (const std::int32_t input : op.inputs) {
        if (input < 0) continue;
        const tflite::Tensor& tensor = graph.tensors[static_cast<std::size_t>(input)];
        if (!IsConstant(tensor)) continue;
        Constant& constant = constants_.at(tensor.buffer);
        const std::int32_t output = op.outputs.empty() ? -1 : op.outputs[0];
        if (constant.op.empty()) {
          constant.op = tflite::OpName(op.op);
          if (output >= 0) constant.output = graph.tensors[static_cast<std::size_t>(output)].name;
        }
        const auto named = outputs.find(output);
        if (named != outputs.end()) constant.signature_output = named->second;
      }
    }
  }

  // As the codec module names weights; other types by their TFLite name.
  static std::string Precision(const tflite::Tensor& tensor) {
    const tflite::Quantization& q = tensor.quantization;
    switch (tensor.type) {
      case tflite::TensorType::kFloat32:
        return "f32";
      case tflite::TensorType::kFloat16:
        return "f16";
      case tflite::TensorType::kBfloat16:
        return "bf16";
      default:
        break;
    }
    std::string name = tflite::TensorTypeName(tensor.type);
    if (q.scales_tensor) return StrCat(name, "_block", q.block_size);
    if (q.scale.size() == 1 && tensor.shape.size() > 1 && tensor.shape[0] > 1) {
      return name + "_per_tensor";
    }
    return name;
  }

  static Json Shape(const tflite::Tensor& tensor) {
    const auto& dims = tensor.shape_signature.empty() ? tensor.shape : tensor.shape_signature;
    Json::Array out;
    for (const std::int32_t dim : dims) out.emplace_back(dim);
    return out;
  }

  Json TensorMaps(std::uint32_t graph,
                  const std::vector<std::pair<std::string, std::uint32_t>>& entries) const {
    Json::Array out;
    for (const auto& [name, index] : entries) {
      const tflite::Tensor& tensor = model_.subgraphs[graph].tensors[index];
      Json entry(Json::Object{});
      entry.Set("name", name);
      entry.Set("dtype", tflite::TensorTypeName(tensor.type));
      entry.Set("shape", Shape(tensor));
      out.push_back(std::move(entry));
    }
    return out;
  }

  const tflite::Model& model_;
  const std::uint64_t section_bytes_;
  std::map<std::uint32_t, Constant> constants_;  // by buffer
  std::vector<std::uint32_t> scale_buffers_;     // sorted
};

}  // namespace

void AddModelFacts(const tflite::Model& model, std::uint64_t section_bytes, Json& out) {
  const ModelFacts facts(model, section_bytes);
  Json totals;
  Json weights = facts.Weights(totals);
  out.Set("signatures", facts.Signatures());
  out.Set("operators", facts.Operators());
  out.Set("weights", std::move(weights));
  out.Set("bytes_by_precision", std::move(totals));
}

void AddBytes(const Json& from, Json& to) {
  for (const auto& [precision, bytes] : from.AsObject()) {
    const Json* old = to.Find(precision);
    to.Set(precision, bytes.AsInt() + (old ? old->AsInt() : 0));
  }
}

}  // namespace hone::bundle
