// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/tflite/check_model.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_set>

namespace hone::formats::tflite {
namespace {

// Deeper nesting of composites than this is refused, so that readers may recurse.
constexpr int kMaxCompositeDepth = 64;

class Checker {
 public:
  Checker(const Model& model, const CheckOptions& options) : model_(model), options_(options) {}

  Status Run() {
    if (model_.subgraphs.empty()) return Error("the model has no subgraphs");
    HONE_TRY(CheckBuffers());
    for (std::size_t i = 0; i < model_.subgraphs.size(); ++i) {
      HONE_TRY(
          CheckSubgraph(model_.subgraphs[i]).Context(SubgraphText(i, model_.subgraphs[i].name)));
    }
    depth_.assign(model_.subgraphs.size(), kUnvisited);
    for (std::size_t i = 0; i < model_.subgraphs.size(); ++i) HONE_TRY(CheckNesting(i, 0));
    return CheckSignatures();
  }

 private:
  template <typename... Parts>
  Status Error(const Parts&... parts) const {
    return Status(options_.code, StrCat(parts...));
  }

  std::uint64_t BufferBytes(std::uint32_t buffer) const {
    if (buffer >= model_.buffers.size()) return 0;
    const Buffer& b = model_.buffers[buffer];
    return b.deferred_bytes != 0 ? b.deferred_bytes : b.data.size();
  }

  Status CheckBuffers() const {
    if (BufferBytes(0) != 0) {
      return Error("buffer 0 must be empty, it has ", BufferBytes(0), " bytes");
    }
    for (std::size_t i = 0; i < model_.buffers.size(); ++i) {
      if (model_.buffers[i].deferred_bytes != 0 && !model_.buffers[i].data.empty()) {
        return Error("buffer ", i, " has data and deferred bytes; give one of them");
      }
    }
    for (const auto& [name, buffer] : model_.metadata) {
      if (buffer >= model_.buffers.size()) {
        return Error("metadata '", name, "': buffer ", buffer, ", but the model has ",
                     model_.buffers.size(), " buffers");
      }
    }
    return {};
  }

  Status CheckSubgraph(const Subgraph& graph) const {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor& tensor = graph.tensors[i];
      Status status = CheckTensor(tensor);
      if (status.ok() && tensor.quantization.scales_tensor) status = CheckBlockwise(graph, i);
      HONE_TRY(std::move(status).Context(TensorText(i, tensor.name)));
    }
    HONE_TRY(CheckIndices(graph, graph.inputs, "input", false));
    HONE_TRY(CheckIndices(graph, graph.outputs, "output", false));
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      const Operator& op = graph.operators[i];
      Status status = CheckIndices(graph, op.inputs, "input", true);
      if (status.ok()) status = CheckIndices(graph, op.outputs, "output", false);
      if (status.ok() && op.op == Op::kStablehloComposite) status = CheckComposite(op);
      HONE_TRY(std::move(status).Context(OperatorText(i, op.op)));
    }
    return {};
  }

  Status CheckIndices(const Subgraph& graph, std::span<const std::int32_t> list, const char* what,
                      bool may_be_absent) const {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (may_be_absent && list[i] == -1) continue;
      if (list[i] < 0 || static_cast<std::size_t>(list[i]) >= graph.tensors.size()) {
        return Error(what, " ", i, " is tensor ", list[i], ", but the subgraph has ",
                     graph.tensors.size(), " tensors");
      }
    }
    return {};
  }

  Status CheckTensor(const Tensor& tensor) const {
    if (tensor.buffer != 0 && tensor.buffer >= model_.buffers.size()) {
      return Error("buffer ", tensor.buffer, ", but the model has ", model_.buffers.size(),
                   " buffers");
    }
    const std::uint64_t stored = BufferBytes(tensor.buffer);
    std::uint64_t elements = 1;
    bool dynamic = false;
    for (const std::int32_t dim : tensor.shape) {
      if (dim == -1 && stored == 0) {
        dynamic = true;
        continue;
      }
      if (dim < 0) return Error("the shape has the dimension ", dim);
      const auto product = MulChecked(elements, static_cast<std::uint64_t>(dim));
      if (!product || *product > (1ULL << 60)) return Error("the shape has too many elements");
      elements = *product;
    }
    if (stored != 0) HONE_TRY(CheckData(tensor, elements, stored));
    if (dynamic) return {};
    return CheckScales(tensor);
  }

  Status CheckData(const Tensor& tensor, std::uint64_t elements, std::uint64_t stored) const {
    if (tensor.type == TensorType::kString) return {};
    const auto needed = DataBytes(tensor.type, elements);
    if (!needed) {
      return Error("constant data of ", TensorTypeName(tensor.type), " (number ",
                   static_cast<int>(tensor.type), ") is not supported");
    }
    if (*needed != stored) {
      return Error("shape and type (", elements, " x ", TensorTypeName(tensor.type), ") need ",
                   *needed, " bytes, but buffer ", tensor.buffer, " has ", stored);
    }
    return {};
  }

  Status CheckScales(const Tensor& tensor) const {
    const Quantization& q = tensor.quantization;
    if (q.scale.empty()) {
      if (q.zero_point.empty() || q.scales_tensor) return {};
      return Error("quantization has ", q.zero_point.size(), " zero points but no scales");
    }
    for (const float scale : q.scale) {
      if (!std::isfinite(scale)) return Error("quantization has a scale that is not finite");
    }
    const std::size_t points = q.zero_point.size();
    const bool points_fit =
        options_.for_writing ? points == q.scale.size() : points <= 1 || points == q.scale.size();
    if (!points_fit) {
      return Error("quantization has ", q.scale.size(), " scales but ", points, " zero points");
    }
    if (q.scale.size() == 1) return {};
    if (q.quantized_dimension < 0 ||
        static_cast<std::size_t>(q.quantized_dimension) >= tensor.shape.size()) {
      return Error("quantized dimension ", q.quantized_dimension, ", but the rank is ",
                   tensor.shape.size());
    }
    const std::int32_t channels = tensor.shape[static_cast<std::size_t>(q.quantized_dimension)];
    if (q.scale.size() != static_cast<std::size_t>(channels)) {
      return Error("quantization has ", q.scale.size(), " scales, but dimension ",
                   q.quantized_dimension, " has ", channels, " channels");
    }
    return {};
  }

  Status CheckBlockwise(const Subgraph& graph, std::size_t index) const {
    const Tensor& tensor = graph.tensors[index];
    const Quantization& q = tensor.quantization;
    for (const std::int32_t other : {*q.scales_tensor, q.zero_points_tensor}) {
      if (other == -1 && other != *q.scales_tensor) continue;
      if (other < 0 || static_cast<std::size_t>(other) >= graph.tensors.size() ||
          static_cast<std::size_t>(other) == index) {
        return Error("blockwise quantization names tensor ", other, ", but the subgraph has ",
                     graph.tensors.size(), " tensors");
      }
    }
    if (q.block_size <= 0) return Error("blockwise quantization has block size ", q.block_size);
    const std::int32_t last = tensor.shape.empty() ? 0 : tensor.shape.back();
    if (last <= 0 || last % q.block_size != 0) {
      return Error("the last dimension ", last, " does not divide into blocks of ", q.block_size);
    }
    const Tensor& scales = graph.tensors[static_cast<std::size_t>(*q.scales_tensor)];
    if (scales.type != TensorType::kFloat16 && scales.type != TensorType::kFloat32) {
      return Error("the scales are ", TensorTypeName(scales.type), ", float16 is expected");
    }
    const std::uint64_t expected =
        NumElements(tensor.shape) / static_cast<std::uint64_t>(q.block_size);
    if (NumElements(scales.shape) != expected) {
      return Error("blocks of ", q.block_size, " need ", expected, " scales, but tensor ",
                   *q.scales_tensor, " has ", NumElements(scales.shape));
    }
    if (BufferBytes(tensor.buffer) != 0 && BufferBytes(scales.buffer) == 0) {
      return Error("the scales (tensor ", *q.scales_tensor, ") are not constant");
    }
    return {};
  }

  // 0 for shapes that have no fixed number of elements; those are refused elsewhere if it matters.
  static std::uint64_t NumElements(std::span<const std::int32_t> shape) {
    std::uint64_t elements = 1;
    for (const std::int32_t dim : shape) {
      const auto product = MulChecked(elements, dim < 0 ? 0U : static_cast<std::uint64_t>(dim));
      if (!product) return 0;
      elements = *product;
    }
    return elements;
  }

  Status CheckComposite(const Operator& op) const {
    const std::int32_t body = op.options.decomposition_subgraph;
    if (body < 0 || static_cast<std::size_t>(body) >= model_.subgraphs.size()) {
      return Error("composite '", op.options.composite_name, "' names subgraph ", body,
                   ", but the model has ", model_.subgraphs.size(), " subgraphs");
    }
    const Subgraph& graph = model_.subgraphs[static_cast<std::size_t>(body)];
    if (graph.inputs.size() != op.inputs.size() || graph.outputs.size() != op.outputs.size()) {
      return Error("composite '", op.options.composite_name, "' has ", op.inputs.size(),
                   " inputs and ", op.outputs.size(), " outputs, but its subgraph ", body, " has ",
                   graph.inputs.size(), " and ", graph.outputs.size());
    }
    return {};
  }

  // Depth of nested composites below a subgraph, once for each subgraph.
  Status CheckNesting(std::size_t index, int level) {
    if (depth_[index] == kInProgress) {
      return Error(SubgraphText(index, model_.subgraphs[index].name), ": contains itself");
    }
    if (level > kMaxCompositeDepth) {
      return Error(SubgraphText(index, model_.subgraphs[index].name), ": composites are nested ",
                   "deeper than ", kMaxCompositeDepth);
    }
    if (depth_[index] != kUnvisited && level + depth_[index] <= kMaxCompositeDepth) return {};
    depth_[index] = kInProgress;
    int below = 0;
    std::unordered_set<std::int32_t> seen;
    for (const Operator& op : model_.subgraphs[index].operators) {
      const std::int32_t body = op.options.decomposition_subgraph;
      if (op.op != Op::kStablehloComposite || !seen.insert(body).second) continue;
      HONE_TRY(CheckNesting(static_cast<std::size_t>(body), level + 1));
      below = std::max(below, depth_[static_cast<std::size_t>(body)] + 1);
    }
    depth_[index] = below;
    return {};
  }

  Status CheckSignatures() const {
    std::unordered_set<std::string_view> keys;
    for (const SignatureDef& signature : model_.signatures) {
      const std::string text = StrCat("signature '", signature.key, "'");
      if (!keys.insert(signature.key).second) return Error(text, ": appears twice");
      if (signature.subgraph >= model_.subgraphs.size()) {
        return Error(text, ": subgraph ", signature.subgraph, ", but the model has ",
                     model_.subgraphs.size(), " subgraphs");
      }
      const std::size_t tensors = model_.subgraphs[signature.subgraph].tensors.size();
      for (const auto* list : {&signature.inputs, &signature.outputs}) {
        std::unordered_set<std::string_view> names;
        for (const auto& [name, tensor] : *list) {
          if (!names.insert(name).second) return Error(text, ": '", name, "' appears twice");
          if (tensor >= tensors) {
            return Error(text, ": '", name, "' is tensor ", tensor, ", but the subgraph has ",
                         tensors, " tensors");
          }
        }
      }
    }
    return {};
  }

  static constexpr int kUnvisited = -1;
  static constexpr int kInProgress = -2;

  const Model& model_;
  const CheckOptions options_;
  std::vector<int> depth_;  // [subgraphs]
};

}  // namespace

Status CheckModel(const Model& model, const CheckOptions& options) {
  return Checker(model, options).Run();
}

std::string SubgraphText(std::size_t index, const std::string& name) {
  return StrCat("subgraph ", index, " (", name, ")");
}
std::string TensorText(std::size_t index, const std::string& name) {
  return StrCat("tensor ", index, " (", name, ")");
}
std::string OperatorText(std::size_t index, Op op) {
  return StrCat("operator ", index, " (", OpName(op), ")");
}

}  // namespace hone::formats::tflite
