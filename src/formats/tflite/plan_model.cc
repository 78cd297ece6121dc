// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/tflite/plan_model.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "formats/tflite/check_model.h"
#include "formats/tflite/options.h"

namespace hone::formats::tflite {
namespace {

constexpr std::uint64_t kDataAlignment = 16;
// FlatBuffers offsets and the verifier end at 2 GiB.
constexpr std::uint64_t kMaxInsideBytes = 0x7fff0000ULL;
// Data that is embedded goes through memory; anything larger must be deferred.
constexpr std::uint64_t kMaxEmbeddedBytes = 1ULL << 30;

template <typename T>
using Offset = flatbuffers::Offset<T>;
template <typename T>
using Vector = flatbuffers::Vector<T>;

// Builds the tables. Deferred buffers get placeholders that PlanModel fills in.
class Builder {
 public:
  Builder(const Model& model, bool external) : model_(model), external_(external) {}

  std::vector<std::byte> Build() {
    const auto buffers = WriteBuffers();
    const auto metadata = WriteMetadata();
    // Operator codes are numbered while the subgraphs are written.
    std::vector<Offset<fb::SubGraph>> graphs;
    for (const Subgraph& graph : model_.subgraphs) graphs.push_back(WriteSubgraph(graph));
    const auto subgraphs = fbb_.CreateVector(graphs);
    std::vector<Offset<fb::OperatorCode>> codes;
    for (const auto& [op, version] : codes_) {
      const auto number = static_cast<std::int32_t>(op);
      const auto deprecated = static_cast<std::int8_t>(std::min(number, 127));
      codes.push_back(fb::CreateOperatorCode(fbb_, deprecated, 0, version, number));
    }
    const auto operator_codes = fbb_.CreateVector(codes);
    const auto signatures = WriteSignatures();
    const auto description = fbb_.CreateString(model_.description);
    fb::ModelBuilder root(fbb_);
    root.add_version(model_.version);
    root.add_operator_codes(operator_codes);
    root.add_subgraphs(subgraphs);
    root.add_description(description);
    root.add_buffers(buffers);
    if (!model_.metadata.empty()) root.add_metadata(metadata);
    root.add_signature_defs(signatures);
    fb::FinishModelBuffer(fbb_, root.Finish());
    const auto* bytes = reinterpret_cast<const std::byte*>(fbb_.GetBufferPointer());
    return {bytes, bytes + fbb_.GetSize()};
  }

 private:
  Offset<Vector<Offset<fb::Buffer>>> WriteBuffers() {
    std::vector<Offset<fb::Buffer>> out;
    for (const Buffer& buffer : model_.buffers) {
      Offset<Vector<std::uint8_t>> data = 0;
      if (!buffer.data.empty()) {
        fbb_.ForceVectorAlignment(buffer.data.size(), 1, kDataAlignment);
        data = fbb_.CreateVector(reinterpret_cast<const std::uint8_t*>(buffer.data.data()),
                                 buffer.data.size());
      }
      fb::BufferBuilder table(fbb_);
      if (!buffer.data.empty()) table.add_data(data);
      if (buffer.deferred_bytes != 0 && external_) {
        table.add_offset(1);  // 1 is never a place of data, so readers would ignore it.
        table.add_size(buffer.deferred_bytes);
      } else if (buffer.deferred_bytes != 0) {
        fbb_.AddElement<flatbuffers::uoffset_t>(fb::Buffer::VT_DATA, 1, 0);
      }
      out.push_back(table.Finish());
    }
    return fbb_.CreateVector(out);
  }

  Offset<Vector<Offset<fb::Metadata>>> WriteMetadata() {
    std::vector<Offset<fb::Metadata>> out;
    for (const auto& [name, buffer] : model_.metadata) {
      const auto text = fbb_.CreateString(name);
      out.push_back(fb::CreateMetadata(fbb_, text, buffer));
    }
    return fbb_.CreateVector(out);
  }

  Offset<fb::SubGraph> WriteSubgraph(const Subgraph& graph) {
    std::vector<Offset<fb::Tensor>> tensors;
    for (const Tensor& tensor : graph.tensors) tensors.push_back(WriteTensor(tensor));
    std::vector<Offset<fb::Operator>> operators;
    for (const Operator& op : graph.operators) operators.push_back(WriteOperator(op));
    const auto tensor_vector = fbb_.CreateVector(tensors);
    const auto inputs = fbb_.CreateVector(graph.inputs);
    const auto outputs = fbb_.CreateVector(graph.outputs);
    const auto operator_vector = fbb_.CreateVector(operators);
    const auto name = fbb_.CreateString(graph.name);
    return fb::CreateSubGraph(fbb_, tensor_vector, inputs, outputs, operator_vector, name);
  }

  Offset<fb::Tensor> WriteTensor(const Tensor& tensor) {
    const auto shape = fbb_.CreateVector(tensor.shape);
    const auto name = fbb_.CreateString(tensor.name);
    Offset<Vector<std::int32_t>> signature = 0;
    if (!tensor.shape_signature.empty()) signature = fbb_.CreateVector(tensor.shape_signature);
    const auto quantization = WriteQuantization(tensor.quantization);
    fb::TensorBuilder table(fbb_);
    table.add_shape(shape);
    table.add_type(static_cast<std::int8_t>(tensor.type));
    table.add_buffer(tensor.buffer);
    table.add_name(name);
    if (!quantization.IsNull()) table.add_quantization(quantization);
    if (!signature.IsNull()) table.add_shape_signature(signature);
    table.add_has_rank(tensor.has_rank);
    return table.Finish();
  }

  Offset<fb::QuantizationParameters> WriteQuantization(const Quantization& q) {
    if (q == Quantization()) return 0;
    const auto [place, is_new] = quantizations_.try_emplace(QuantizationKey(q), 0);
    if (!is_new) return place->second;
    Offset<Vector<float>> scale = 0;
    Offset<Vector<std::int64_t>> zero_point = 0;
    if (!q.scale.empty()) scale = fbb_.CreateVector(q.scale);
    if (!q.zero_point.empty()) zero_point = fbb_.CreateVector(q.zero_point);
    Offset<fb::BlockwiseQuantization> block = 0;
    if (q.scales_tensor) {
      block = fb::CreateBlockwiseQuantization(fbb_, *q.scales_tensor, q.zero_points_tensor,
                                              q.block_size);
    }
    fb::QuantizationParametersBuilder table(fbb_);
    if (!scale.IsNull()) table.add_scale(scale);
    if (!zero_point.IsNull()) table.add_zero_point(zero_point);
    if (!block.IsNull()) {
      table.add_details_type(fb::QuantizationDetails::BlockwiseQuantization);
      table.add_details(block.Union());
    }
    table.add_quantized_dimension(q.quantized_dimension);
    place->second = table.Finish();
    return place->second;
  }

  // Equal keys for equal contents.
  static std::string QuantizationKey(const Quantization& q) {
    std::string key =
        StrCat(q.scale.size(), " ", q.quantized_dimension, " ", q.scales_tensor.value_or(-1), " ",
               q.scales_tensor.has_value(), " ", q.zero_points_tensor, " ", q.block_size, " ");
    key.append(reinterpret_cast<const char*>(q.scale.data()), q.scale.size() * sizeof(float));
    key.append(reinterpret_cast<const char*>(q.zero_point.data()),
               q.zero_point.size() * sizeof(std::int64_t));
    return key;
  }

  std::uint32_t CodeIndex(const Operator& op) {
    const std::pair code{op.op, op.version};
    const auto [place, is_new] =
        code_index_.try_emplace(code, static_cast<std::uint32_t>(codes_.size()));
    if (is_new) codes_.push_back(code);
    return place->second;
  }

  Offset<fb::Operator> WriteOperator(const Operator& op) {
    const std::uint32_t code = CodeIndex(op);
    const auto inputs = fbb_.CreateVector(op.inputs);
    const auto outputs = fbb_.CreateVector(op.outputs);
    const OptionFacts* facts = FindOptionFacts(op.op);
    const bool composite = op.op == Op::kStablehloComposite;
    Offset<void> options = 0;
    if (facts && facts->has_fields) options = WriteOptions(facts->type, op.options);
    if (composite) options = WriteComposite(op.options).Union();
    fb::OperatorBuilder table(fbb_);
    table.add_opcode_index(code);
    table.add_inputs(inputs);
    table.add_outputs(outputs);
    if (composite) {
      table.add_builtin_options_2_type(fb::BuiltinOptions2::StableHLOCompositeOptions);
      table.add_builtin_options_2(options);
    } else if (!options.IsNull()) {
      table.add_builtin_options_type(facts->type);
      table.add_builtin_options(options);
    }
    return table.Finish();
  }

  Offset<fb::StableHLOCompositeOptions> WriteComposite(const OpOptions& o) {
    const auto name = fbb_.CreateString(o.composite_name);
    const auto attributes =
        fbb_.CreateVector(reinterpret_cast<const std::uint8_t*>(o.composite_attributes.data()),
                          o.composite_attributes.size());
    return fb::CreateStableHLOCompositeOptions(fbb_, name, o.decomposition_subgraph, attributes);
  }

  Offset<void> WriteOptions(fb::BuiltinOptions type, const OpOptions& o) {
    const auto activation = static_cast<std::int8_t>(o.fused_activation);
    switch (type) {
      case fb::BuiltinOptions::AddOptions:
        return fb::CreateAddOptions(fbb_, activation).Union();
      case fb::BuiltinOptions::MulOptions:
        return fb::CreateMulOptions(fbb_, activation).Union();
      case fb::BuiltinOptions::SubOptions:
        return fb::CreateSubOptions(fbb_, activation).Union();
      case fb::BuiltinOptions::ConcatenationOptions:
        return fb::CreateConcatenationOptions(fbb_, o.axis.value_or(0), activation).Union();
      case fb::BuiltinOptions::FullyConnectedOptions:
        return fb::CreateFullyConnectedOptions(fbb_, activation,
                                               static_cast<std::int8_t>(o.weights_format),
                                               o.keep_num_dims, o.asymmetric_quantize_inputs)
            .Union();
      case fb::BuiltinOptions::BatchMatMulOptions:
        return fb::CreateBatchMatMulOptions(fbb_, o.adj_x, o.adj_y, o.asymmetric_quantize_inputs)
            .Union();
      case fb::BuiltinOptions::SoftmaxOptions:
        return fb::CreateSoftmaxOptions(fbb_, o.beta).Union();
      case fb::BuiltinOptions::ReducerOptions:
        return fb::CreateReducerOptions(fbb_, o.keep_dims).Union();
      case fb::BuiltinOptions::PackOptions:
        return fb::CreatePackOptions(fbb_, o.values_count, o.axis.value_or(0)).Union();
      case fb::BuiltinOptions::DivOptions:
        return fb::CreateDivOptions(fbb_, activation).Union();
      case fb::BuiltinOptions::GeluOptions:
        return fb::CreateGeluOptions(fbb_, o.approximate).Union();
      default:
        return WriteShapeOptions(type, o);
    }
  }

  // Of the operators that move data or make shapes.
  Offset<void> WriteShapeOptions(fb::BuiltinOptions type, const OpOptions& o) {
    const std::int32_t axis = o.axis.value_or(0);
    const auto out_type = static_cast<std::int8_t>(o.out_type);
    switch (type) {
      case fb::BuiltinOptions::UnpackOptions:
        return fb::CreateUnpackOptions(fbb_, o.values_count, axis).Union();
      case fb::BuiltinOptions::SplitOptions:
        return fb::CreateSplitOptions(fbb_, o.values_count).Union();
      case fb::BuiltinOptions::SplitVOptions:
        return fb::CreateSplitVOptions(fbb_, o.values_count).Union();
      case fb::BuiltinOptions::GatherOptions:
        return fb::CreateGatherOptions(fbb_, axis, o.batch_dims).Union();
      case fb::BuiltinOptions::StridedSliceOptions:
        return fb::CreateStridedSliceOptions(fbb_, o.begin_mask, o.end_mask, o.ellipsis_mask,
                                             o.new_axis_mask, o.shrink_axis_mask, o.end_is_offset)
            .Union();
      case fb::BuiltinOptions::OneHotOptions:
        return fb::CreateOneHotOptions(fbb_, axis).Union();
      case fb::BuiltinOptions::CumsumOptions:
        return fb::CreateCumsumOptions(fbb_, o.exclusive, o.reverse).Union();
      case fb::BuiltinOptions::ShapeOptions:
        return fb::CreateShapeOptions(fbb_, out_type).Union();
      case fb::BuiltinOptions::ArgMaxOptions:
        return fb::CreateArgMaxOptions(fbb_, out_type).Union();
      case fb::BuiltinOptions::ArgMinOptions:
        return fb::CreateArgMinOptions(fbb_, out_type).Union();
      case fb::BuiltinOptions::SqueezeOptions:
        return fb::CreateSqueezeOptions(fbb_, fbb_.CreateVector(o.squeeze_dims)).Union();
      default:
        return 0;
    }
  }

  Offset<Vector<Offset<fb::SignatureDef>>> WriteSignatures() {
    std::vector<Offset<fb::SignatureDef>> out;
    for (const SignatureDef& signature : model_.signatures) {
      const auto inputs = WriteTensorMaps(signature.inputs);
      const auto outputs = WriteTensorMaps(signature.outputs);
      const auto key = fbb_.CreateString(signature.key);
      out.push_back(fb::CreateSignatureDef(fbb_, inputs, outputs, key, signature.subgraph));
    }
    return fbb_.CreateVector(out);
  }

  Offset<Vector<Offset<fb::TensorMap>>> WriteTensorMaps(
      const std::vector<std::pair<std::string, std::uint32_t>>& entries) {
    std::vector<Offset<fb::TensorMap>> out;
    for (const auto& [name, tensor] : entries) {
      const auto text = fbb_.CreateString(name);
      out.push_back(fb::CreateTensorMap(fbb_, text, tensor));
    }
    return fbb_.CreateVector(out);
  }

  const Model& model_;
  const bool external_;
  flatbuffers::FlatBufferBuilder fbb_;
  std::vector<std::pair<Op, std::int32_t>> codes_;
  std::map<std::pair<Op, std::int32_t>, std::uint32_t> code_index_;
  std::map<std::string, Offset<fb::QuantizationParameters>> quantizations_;
};

std::vector<std::byte> AsBytesVector(std::uint32_t value) {
  std::vector<std::byte> out(sizeof(value));
  std::memcpy(out.data(), &value, sizeof(value));
  return out;
}

// Lays out the deferred buffers behind the tables and writes their places into the tables.
WritePlan LayOut(const Model& model, std::vector<std::byte> head, bool external) {
  WritePlan plan;
  plan.head = std::move(head);
  plan.external_buffers = external;
  plan.buffer_offsets.assign(model.buffers.size(), 0);
  std::byte* base = plan.head.data();
  const auto* tables = fb::GetModel(base)->buffers();
  std::uint64_t end = plan.head.size();
  for (std::size_t i = 0; i < model.buffers.size(); ++i) {
    const std::uint64_t bytes = model.buffers[i].deferred_bytes;
    if (bytes == 0) continue;
    const auto* table = tables->Get(static_cast<flatbuffers::uoffset_t>(i));
    constexpr std::uint64_t kLengthBytes = sizeof(flatbuffers::uoffset_t);
    const std::uint64_t data = RoundUp(external ? end : end + kLengthBytes, kDataAlignment);
    const auto* field = reinterpret_cast<const std::byte*>(
        reinterpret_cast<const flatbuffers::Table*>(table)->GetAddressOf(
            external ? fb::Buffer::VT_OFFSET : fb::Buffer::VT_DATA));
    std::byte* place = base + (field - base);
    if (external) {
      std::memcpy(place, &data, sizeof(data));
    } else {
      const std::uint64_t vector = data - kLengthBytes;
      // A total over the limit is planned again outside; until then the cut offset does no harm.
      const auto offset =
          static_cast<std::uint32_t>(vector - static_cast<std::uint64_t>(field - base));
      std::memcpy(place, &offset, sizeof(offset));
      plan.extra.emplace_back(vector, AsBytesVector(static_cast<std::uint32_t>(bytes)));
    }
    plan.buffer_offsets[i] = data;
    end = data + bytes;
  }
  plan.total_bytes = end;
  return plan;
}

Status CheckWritable(const Model& model) {
  HONE_TRY(CheckModel(model, {.code = Code::kInvalidArgument, .for_writing = true}));
  for (std::size_t i = 0; i < model.subgraphs.size(); ++i) {
    const Subgraph& graph = model.subgraphs[i];
    for (std::size_t k = 0; k < graph.operators.size(); ++k) {
      if (!graph.operators[k].unknown_options) continue;
      return Status(Code::kUnsupported, StrCat(SubgraphText(i, graph.name), ": ",
                                               OperatorText(k, graph.operators[k].op),
                                               ": its options are unknown and would be lost"));
    }
  }
  std::uint64_t embedded = 0;
  for (const Buffer& buffer : model.buffers) {
    embedded += buffer.data.size();
    if (buffer.deferred_bytes > (1ULL << 50)) {
      return Status(Code::kInvalidArgument,
                    StrCat("a buffer of ", buffer.deferred_bytes, " bytes is too large"));
    }
  }
  if (embedded > kMaxEmbeddedBytes) {
    return Status(Code::kInvalidArgument,
                  StrCat("embedded constants have ", embedded, " bytes, at most ",
                         kMaxEmbeddedBytes, " are allowed; defer the large ones"));
  }
  return {};
}

}  // namespace

WritePlan PlanUnchecked(const Model& model, bool external) {
  return LayOut(model, Builder(model, external).Build(), external);
}

Result<WritePlan> PlanModel(const Model& model, std::uint64_t external_above) {
  HONE_TRY(CheckWritable(model));
  WritePlan plan = PlanUnchecked(model, false);
  if (plan.extra.empty() && plan.total_bytes <= kMaxInsideBytes) return plan;
  if (plan.total_bytes <= std::min(external_above, kMaxInsideBytes)) return plan;
  for (std::size_t i = 0; i < model.buffers.size(); ++i) {
    // TFLite takes a size of 1 outside the FlatBuffer for "not set yet".
    if (model.buffers[i].deferred_bytes != 1) continue;
    return Status(Code::kInvalidArgument,
                  StrCat("buffer ", i, ": a single byte cannot be deferred; give its data"));
  }
  return PlanUnchecked(model, true);
}

}  // namespace hone::formats::tflite
