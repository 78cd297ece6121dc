// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/tflite_writer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "base/check.h"
#include "base/file.h"
#include "codec/weight.h"
#include "model/checkpoint.h"
#include "quant/quantize.h"

namespace hone::exporter {
namespace {

namespace tflite = formats::tflite;
using graph::ElementType;
using graph::OpKind;
using ChannelScales = std::map<std::pair<model::Role, std::int64_t>, std::vector<float>>;

// Values that one thread reads at once when it only looks for scales: a few MiB of float32.
constexpr std::int64_t kBandValues = std::int64_t{1} << 20;
// Values that all threads quantize together before they are handed on.
constexpr std::int64_t kQuantBandValues = std::int64_t{1} << 22;

std::int64_t BandRows(std::int64_t cols) { return std::max<std::int64_t>(1, kBandValues / cols); }

std::pair<model::Role, std::int64_t> Key(const graph::WeightSource& source) {
  return {source.role, source.layer};
}

bool HasBlocks(const quant::Scheme& scheme) { return scheme.type.block > 0; }
bool IsFloat(const quant::Scheme& scheme) { return scheme.type.coding == codec::Coding::kF32; }
bool HasChannelScales(const quant::Scheme& scheme) {
  return !IsFloat(scheme) && !HasBlocks(scheme);
}

tflite::TensorType WeightTensorType(const quant::Scheme& scheme) {
  switch (scheme.type.coding) {
    case codec::Coding::kInt8:
      return tflite::TensorType::kInt8;
    case codec::Coding::kInt4:
      return tflite::TensorType::kInt4;
    default:
      HONE_CHECK(scheme.type.coding == codec::Coding::kF32);
      return tflite::TensorType::kFloat32;
  }
}

struct OpName {
  OpKind kind;
  tflite::Op op;
  std::int32_t version;  // as litert-torch writes it
};
constexpr OpName kOps[] = {
    {OpKind::kAdd, tflite::Op::kAdd, 1},
    {OpKind::kBatchMatMul, tflite::Op::kBatchMatMul, 1},
    {OpKind::kCast, tflite::Op::kCast, 1},
    {OpKind::kComposite, tflite::Op::kStablehloComposite, 1},
    {OpKind::kConcatenation, tflite::Op::kConcatenation, 1},
    {OpKind::kCos, tflite::Op::kCos, 1},
    {OpKind::kDynamicUpdateSlice, tflite::Op::kDynamicUpdateSlice, 1},
    {OpKind::kEmbeddingLookup, tflite::Op::kEmbeddingLookup, 1},
    {OpKind::kFullyConnected, tflite::Op::kFullyConnected, 5},
    {OpKind::kGelu, tflite::Op::kGelu, 1},
    {OpKind::kLogistic, tflite::Op::kLogistic, 1},
    {OpKind::kMaximum, tflite::Op::kMaximum, 1},
    {OpKind::kMean, tflite::Op::kMean, 1},
    {OpKind::kMinimum, tflite::Op::kMinimum, 1},
    {OpKind::kMul, tflite::Op::kMul, 1},
    {OpKind::kPack, tflite::Op::kPack, 1},
    {OpKind::kReshape, tflite::Op::kReshape, 1},
    {OpKind::kRsqrt, tflite::Op::kRsqrt, 1},
    {OpKind::kSin, tflite::Op::kSin, 1},
    {OpKind::kSlice, tflite::Op::kSlice, 1},
    {OpKind::kSoftmax, tflite::Op::kSoftmax, 1},
    {OpKind::kSub, tflite::Op::kSub, 1},
    {OpKind::kTanh, tflite::Op::kTanh, 1},
    {OpKind::kTranspose, tflite::Op::kTranspose, 1},
};

tflite::TensorType PlainTensorType(ElementType type) {
  switch (type) {
    case ElementType::kInt32:
      return tflite::TensorType::kInt32;
    case ElementType::kFloat16:
      return tflite::TensorType::kFloat16;
    default:
      return tflite::TensorType::kFloat32;
  }
}

tflite::Operator ToOperator(const graph::Subgraph& subgraph, const graph::Operation& operation) {
  tflite::Operator out;
  const OpName& name = kOps[static_cast<std::size_t>(operation.kind)];
  HONE_CHECK(name.kind == operation.kind);
  const auto type_of = [&](graph::TensorId id) {
    return PlainTensorType(subgraph.tensors[static_cast<std::size_t>(id)].type);
  };
  out.op = name.op;
  out.version = name.version;
  out.inputs = operation.inputs;
  out.outputs = {operation.output};
  switch (operation.kind) {
    case OpKind::kConcatenation:
      out.options.axis = operation.axis;
      break;
    case OpKind::kPack:
      out.options.axis = 0;
      out.options.values_count = static_cast<std::int32_t>(operation.inputs.size());
      break;
    case OpKind::kMean:
      out.options.keep_dims = true;
      break;
    case OpKind::kFullyConnected:
      out.options.keep_num_dims = true;
      break;
    case OpKind::kBatchMatMul:
      out.options.adj_y = true;
      break;
    case OpKind::kCast:
      out.options.in_type = type_of(operation.inputs[0]);
      out.options.out_type = type_of(operation.output);
      break;
    case OpKind::kGelu:
      out.options.approximate = operation.approximate;
      break;
    case OpKind::kComposite:
      out.options.composite_name = "odml.rms_norm";
      out.options.decomposition_subgraph = operation.decomposition;
      out.options.composite_attributes =
          tflite::MakeCompositeAttributes("epsilon", operation.epsilon);
      break;
    default:
      break;
  }
  return out;
}

// Buffers of one constant. Index 0 is the empty buffer.
struct ConstantBuffers {
  std::uint32_t data = 0;
  std::uint32_t scales = 0;  // block scales
};

std::vector<ConstantBuffers> AddBuffers(const graph::Graph& graph, const model::DecoderModel& model,
                                        tflite::Model& out) {
  std::vector<ConstantBuffers> result;
  out.buffers.emplace_back();
  const auto add = [&](tflite::Buffer buffer) {
    out.buffers.push_back(buffer);
    return static_cast<std::uint32_t>(out.buffers.size()) - 1;
  };
  for (const graph::Constant& constant : graph.constants) {
    ConstantBuffers buffers;
    if (!constant.weight) {
      if (!constant.bytes.empty())
        buffers.data = add({.data = constant.bytes, .deferred_bytes = 0});
      result.push_back(buffers);
      continue;
    }
    const graph::WeightSource& source = *constant.weight;
    const model::Shape shape = model::RoleShape(model.spec, source.role);
    const codec::WeightType type = source.scheme.type;
    buffers.data =
        add({.data = {}, .deferred_bytes = codec::CodesBytes(type, shape.rows, shape.cols)});
    if (HasBlocks(source.scheme)) {
      buffers.scales =
          add({.data = {}, .deferred_bytes = codec::ScalesBytes(type, shape.rows, shape.cols)});
    }
    result.push_back(buffers);
  }
  return result;
}

class SubgraphConverter {
 public:
  SubgraphConverter(const graph::Graph& graph, const std::vector<ConstantBuffers>& buffers,
                    const ChannelScales& channel_scales)
      : graph_(graph), buffers_(buffers), channel_scales_(channel_scales) {}

  tflite::Subgraph Convert(const graph::Subgraph& in) const {
    tflite::Subgraph out;
    out.name = in.name;
    out.inputs = in.inputs;
    out.outputs = in.outputs;
    for (const graph::Tensor& tensor : in.tensors) out.tensors.push_back(ConvertTensor(tensor));
    for (std::size_t i = 0; i < in.tensors.size(); ++i) AddBlockScales(in.tensors[i], i, out);
    for (const graph::Operation& op : in.operations) out.operators.push_back(ToOperator(in, op));
    return out;
  }

 private:
  tflite::Tensor ConvertTensor(const graph::Tensor& in) const {
    tflite::Tensor out;
    out.name = in.name;
    out.shape = in.shape;
    out.type = PlainTensorType(in.type);
    if (in.constant != graph::kNoConstant) out.buffer = Buffers(in).data;
    if (in.type == ElementType::kWeight) {
      const graph::WeightSource& source = Source(in);
      out.type = WeightTensorType(source.scheme);
      if (HasChannelScales(source.scheme)) {
        out.quantization.scale = channel_scales_.at(Key(source));
        out.quantization.zero_point.assign(out.quantization.scale.size(), 0);
      }
    }
    return out;
  }

  // A weight in blocks names a second tensor, [rows, cols / block], that holds its scales.
  void AddBlockScales(const graph::Tensor& in, std::size_t index, tflite::Subgraph& out) const {
    if (in.type != ElementType::kWeight || !HasBlocks(Source(in).scheme)) return;
    const std::int32_t block = Source(in).scheme.type.block;
    tflite::Tensor scales;
    scales.name = in.name + "_scales";
    scales.shape = {in.shape[0], in.shape[1] / block};
    scales.type = tflite::TensorType::kFloat16;
    scales.buffer = Buffers(in).scales;
    tflite::Quantization& quantization = out.tensors[index].quantization;
    quantization.scales_tensor = static_cast<std::int32_t>(out.tensors.size());
    quantization.block_size = block;
    out.tensors.push_back(std::move(scales));
  }

  const ConstantBuffers& Buffers(const graph::Tensor& t) const {
    return buffers_[static_cast<std::size_t>(t.constant)];
  }
  const graph::WeightSource& Source(const graph::Tensor& t) const {
    return *graph_.constants[static_cast<std::size_t>(t.constant)].weight;
  }

  const graph::Graph& graph_;
  const std::vector<ConstantBuffers>& buffers_;
  const ChannelScales& channel_scales_;
};

void AddSignatures(const graph::Graph& graph, tflite::Model& out) {
  for (const graph::Signature& in : graph.signatures) {
    tflite::SignatureDef signature;
    signature.key = in.key;
    signature.subgraph = static_cast<std::uint32_t>(in.subgraph);
    for (const auto& [name, id] : in.inputs) {
      signature.inputs.emplace_back(name, static_cast<std::uint32_t>(id));
    }
    for (const auto& [name, id] : in.outputs) {
      signature.outputs.emplace_back(name, static_cast<std::uint32_t>(id));
    }
    out.signatures.push_back(std::move(signature));
  }
}

// Zero-padded text, as litert-torch writes the version.
std::array<std::byte, 16> VersionBytes(std::string_view text) {
  std::array<std::byte, 16> room{};
  HONE_CHECK(text.size() < room.size());
  std::memcpy(room.data(), text.data(), text.size());
  return room;
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// The error for a weight in which something was found that is not finite.
// The message of CheckFinite where it has one: it counts over the whole tensor.
Status NonFinite(const model::Weight& weight, Status otherwise) {
  const Status found = model::CheckFinite(weight);
  if (found.ok()) return otherwise;
  return Status(
      found.code(),
      StrCat(found.message(), "; the checkpoint is damaged, or convert with --allow-nonfinite"));
}

// Scales of all rows.
Result<std::vector<float>> ReadChannelScales(const model::Weight& weight,
                                             const quant::Scheme& scheme, const WeightPass& pass) {
  const std::int64_t cols = weight.view.cols;
  std::vector<float> scales(static_cast<std::size_t>(weight.view.rows));
  std::atomic<bool> finite = true;
  pass.pool.For(weight.view.rows, BandRows(cols), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(cols));
    for (std::int64_t r = begin; r < end; ++r) {
      model::ReadRows(weight, r, 1, row.data());
      if (!pass.allow_nonfinite && !AllFinite(row)) {
        finite = false;
        return;
      }
      scales[static_cast<std::size_t>(r)] = quant::ChooseScales(scheme, row)[0];
    }
  });
  if (!finite) {
    return NonFinite(weight, Status(Code::kInternal,
                                    StrCat(weight.name, ": not finite, but no value of it is")));
  }
  return scales;
}

// Hands a planned file to a sink, from the front to the back.
class PlanCursor {
 public:
  PlanCursor(const tflite::WritePlan& plan, BackgroundSink& sink) : plan_(plan), sink_(sink) {}

  Status Write(std::vector<std::byte> bytes) {
    position_ += bytes.size();
    return sink_.Append(std::move(bytes));
  }
  // For what went to the sink without the cursor.
  void Skip(std::uint64_t bytes) { position_ += bytes; }

  // Everything before offset that is neither head nor deferred data: small pieces and zeros.
  Status AdvanceTo(std::uint64_t offset) {
    for (; next_extra_ < plan_.extra.size(); ++next_extra_) {
      const auto& [at, bytes] = plan_.extra[next_extra_];
      if (at >= offset) break;
      HONE_TRY(WriteZeros(at));
      HONE_TRY(Write(bytes));
    }
    return WriteZeros(offset);
  }

 private:
  Status WriteZeros(std::uint64_t end) {
    HONE_CHECK(end >= position_);
    constexpr std::uint64_t kMost = 1 << 20;
    while (position_ < end) {
      const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(end - position_, kMost));
      HONE_TRY(Write(std::vector<std::byte>(part)));
    }
    return Status();
  }

  const tflite::WritePlan& plan_;
  BackgroundSink& sink_;
  std::uint64_t position_ = 0;
  std::size_t next_extra_ = 0;
};

}  // namespace

Status WeightPass::CheckCancel() const {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
    return Status(Code::kCancelled, "cancelled");
  }
  return Status();
}

Result<TfliteWriter> TfliteWriter::Plan(const graph::Graph& graph,
                                        std::string_view min_runtime_version,
                                        const WeightPass& pass) {
  TfliteWriter writer;
  for (const graph::Constant& constant : graph.constants) {
    if (!constant.weight || !HasChannelScales(constant.weight->scheme)) continue;
    HONE_TRY(pass.CheckCancel());
    const graph::WeightSource& source = *constant.weight;
    const model::Weight& weight = model::GetWeight(pass.model, source.role, source.layer);
    HONE_ASSIGN(writer.channel_scales_[Key(source)],
                ReadChannelScales(weight, source.scheme, pass));
  }

  tflite::Model model;
  model.description = "Hone";
  const std::vector<ConstantBuffers> buffers = AddBuffers(graph, pass.model, model);
  const SubgraphConverter converter(graph, buffers, writer.channel_scales_);
  for (const graph::Subgraph& subgraph : graph.subgraphs) {
    model.subgraphs.push_back(converter.Convert(subgraph));
  }
  AddSignatures(graph, model);
  const std::array<std::byte, 16> version = VersionBytes(min_runtime_version);
  model.metadata.emplace_back("min_runtime_version",
                              static_cast<std::uint32_t>(model.buffers.size()));
  model.buffers.push_back({.data = version, .deferred_bytes = 0});
  HONE_ASSIGN(writer.plan_, tflite::PlanModel(model));

  for (std::size_t i = 0; i < graph.constants.size(); ++i) {
    if (!graph.constants[i].weight) continue;
    writer.deferred_.push_back({.source = *graph.constants[i].weight,
                                .codes = buffers[i].data,
                                .scales = buffers[i].scales});
    writer.weight_bytes_ += model.buffers[buffers[i].data].deferred_bytes +
                            model.buffers[buffers[i].scales].deferred_bytes;
  }
  return writer;
}

Status TfliteWriter::Write(const WeightPass& pass, const Sink& sink) const {
  BackgroundSink out(sink, pass.pool.num_threads() > 1);
  PlanCursor cursor(plan_, out);
  HONE_TRY(cursor.Write(plan_.head));
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    const DeferredBuffer& buffer = deferred_[i];
    if (i + 1 < deferred_.size()) {
      const graph::WeightSource& next = deferred_[i + 1].source;
      PrefetchPages(model::GetWeight(pass.model, next.role, next.layer).view.codes);
    }
    HONE_TRY(cursor.AdvanceTo(plan_.buffer_offsets[buffer.codes]));
    const model::Weight& weight =
        model::GetWeight(pass.model, buffer.source.role, buffer.source.layer);
    HONE_ASSIGN(std::vector<std::byte> scales, WriteCodes(buffer.source, pass, out));
    cursor.Skip(codec::CodesBytes(buffer.source.scheme.type, weight.view.rows, weight.view.cols));
    if (buffer.scales == 0) {
      HONE_TRY(CheckScales(buffer.source, scales, weight.name));
      continue;
    }
    const std::size_t bytes = scales.size();
    HONE_TRY(cursor.AdvanceTo(plan_.buffer_offsets[buffer.scales]));
    HONE_TRY(cursor.Write(std::move(scales)));
    if (pass.wrote) pass.wrote(bytes, weight.name);
  }
  HONE_TRY(cursor.AdvanceTo(plan_.total_bytes));
  return out.Finish();
}

Result<std::vector<std::byte>> TfliteWriter::WriteCodes(const graph::WeightSource& source,
                                                        const WeightPass& pass,
                                                        BackgroundSink& sink) const {
  const model::Weight& weight = model::GetWeight(pass.model, source.role, source.layer);
  const std::int64_t rows = weight.view.rows;
  const std::int64_t band = std::max<std::int64_t>(1, kQuantBandValues / weight.view.cols);
  std::vector<std::byte> scales;
  for (std::int64_t begin = 0; begin < rows; begin += band) {
    HONE_TRY(pass.CheckCancel());
    auto quantized = quant::QuantizeRows(weight, source.scheme, begin, std::min(band, rows - begin),
                                         pass.pool, pass.allow_nonfinite);
    // The numbers of a message are those of the whole weight.
    if (quantized.code() == Code::kDataLoss) {
      return NonFinite(weight, std::move(quantized).status());
    }
    if (!quantized.ok()) return std::move(quantized).status();
    scales.insert(scales.end(), quantized->scales.begin(), quantized->scales.end());
    const std::size_t bytes = quantized->codes.size();
    HONE_TRY(sink.Append(std::move(quantized->codes)));
    if (pass.wrote) pass.wrote(bytes, weight.name);
  }
  return scales;
}

// The tables at the front have the scales of the first pass.
Status TfliteWriter::CheckScales(const graph::WeightSource& source, ByteSpan scales,
                                 const std::string& name) const {
  if (!HasChannelScales(source.scheme)) return Status();
  const ByteSpan planned = std::as_bytes(std::span(channel_scales_.at(Key(source))));
  if (std::ranges::equal(planned, scales)) return Status();
  return Status(Code::kInternal, StrCat(name, ": scales changed between two passes"));
}

}  // namespace hone::exporter
