// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/requantize_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "model/checkpoint.h"
#include "quant/quantize.h"

namespace hone::exporter {
namespace {

namespace tflite = formats::tflite;
using codec::Coding;
using model::Role;
using tflite::TensorType;

// Buffers below this size are part of the tables.
constexpr std::size_t kSmallBuffer = 1024;
constexpr std::size_t kCopyBytes = std::size_t{4} << 20;
constexpr std::int64_t kBandValues = std::int64_t{1} << 20;

// A weight buffer of the model and what becomes of it.
struct WeightPlan {
  model::Weight source;  // as it is stored now
  quant::Scheme scheme;
  bool change = false;
  std::vector<float> row_scales;        // of the new form, if it has one for each row
  std::uint32_t codes = 0, scales = 0;  // new buffer indices; scales 0: none of its own
};

bool IsInt(const quant::Scheme& scheme) { return scheme.type.coding != Coding::kF32; }
bool HasRowScales(const quant::Scheme& scheme) { return IsInt(scheme) && scheme.type.block == 0; }

// The tensor's bytes as a weight. Row scales are read from the tensor's quantization, which must
// outlive the view.
Result<codec::WeightView> ViewOf(const tflite::Model& model, const tflite::Subgraph& graph,
                                 const tflite::Tensor& tensor) {
  const auto fail = [&](std::string_view why) {
    return Status(Code::kUnsupported,
                  StrCat("weight ", tensor.name, " (", tflite::TensorTypeName(tensor.type), " ",
                         ShapeText(tensor.shape), ") ", why));
  };
  const tflite::Quantization& q = tensor.quantization;
  codec::WeightView view;
  switch (tensor.type) {
    case TensorType::kFloat32:
      view.type = {Coding::kF32, 0};
      break;
    case TensorType::kFloat16:
      view.type = {Coding::kF16, 0};
      break;
    case TensorType::kBfloat16:
      view.type = {Coding::kBf16, 0};
      break;
    case TensorType::kInt8:
      view.type = {Coding::kInt8, 0};
      break;
    case TensorType::kInt4:
      view.type = {Coding::kInt4, q.scales_tensor ? q.block_size : 0};
      break;
    default:
      return fail("has a type that cannot be quantized again");
  }
  if (tensor.shape.size() != 2) return fail("is no matrix");
  view.rows = tensor.shape[0];
  view.cols = tensor.shape[1];
  view.codes = model.buffers[tensor.buffer].data;
  if (q.scales_tensor) {
    view.scales =
        model.buffers[graph.tensors[static_cast<std::size_t>(*q.scales_tensor)].buffer].data;
  } else if (!codec::Facts(view.type.coding).is_float) {
    view.scales = std::as_bytes(std::span<const float>(q.scale));
    const bool offset = std::any_of(q.zero_point.begin(), q.zero_point.end(),
                                    [](std::int64_t z) { return z != 0; });
    if (offset || q.quantized_dimension != 0) return fail("is not symmetric with a scale a row");
  }
  if (const Status status = codec::CheckView(view); !status.ok()) return fail(status.message());
  return view;
}

bool Overlap(ByteSpan a, ByteSpan b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() &&
         b.data() < a.data() + a.size();
}

// Takes tensors out of a subgraph and numbers the others anew.
void RemoveTensors(const std::set<std::int32_t>& gone, std::uint32_t graph_index,
                   tflite::Model& model) {
  if (gone.empty()) return;
  tflite::Subgraph& graph = model.subgraphs[graph_index];
  std::vector<std::int32_t> number(graph.tensors.size(), -1);
  std::vector<tflite::Tensor> left;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (gone.contains(static_cast<std::int32_t>(i))) continue;
    number[i] = static_cast<std::int32_t>(left.size());
    left.push_back(std::move(graph.tensors[i]));
  }
  graph.tensors = std::move(left);
  const auto renumber = [&](std::int32_t& id) {
    if (id >= 0) id = number[static_cast<std::size_t>(id)];
  };
  for (tflite::Tensor& tensor : graph.tensors) {
    if (tensor.quantization.scales_tensor) renumber(*tensor.quantization.scales_tensor);
    renumber(tensor.quantization.zero_points_tensor);
  }
  for (auto* list : {&graph.inputs, &graph.outputs})
    std::for_each(list->begin(), list->end(), renumber);
  for (tflite::Operator& op : graph.operators) {
    std::for_each(op.inputs.begin(), op.inputs.end(), renumber);
    std::for_each(op.outputs.begin(), op.outputs.end(), renumber);
  }
  for (tflite::SignatureDef& signature : model.signatures) {
    if (signature.subgraph != graph_index) continue;
    for (auto* list : {&signature.inputs, &signature.outputs}) {
      for (auto& [name, id] : *list) id = static_cast<std::uint32_t>(number[id]);
    }
  }
}

}  // namespace

struct ModelRewrite::Impl {
  explicit Impl(const ModelRewriteOptions& o) : options(o) {}

  Status CheckCancel() const {
    if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
      return Status(Code::kCancelled, "cancelled");
    }
    return {};
  }

  Status FindWeights(const model::DecoderModel& lifted);
  Status AddWeight(std::size_t graph, std::int32_t tensor,
                   const std::vector<std::pair<ByteSpan, quant::Scheme>>& roles);
  Status ReadRowScales(WeightPlan& weight) const;
  Status Build();
  void NumberBuffers(tflite::Model& out);
  void ChangeTensors(std::uint32_t graph_index, tflite::Model& out) const;
  Status WriteWeight(const WeightPlan& weight, const Sink& sink,
                     const std::function<Status(std::uint64_t)>& advance, const Wrote& wrote) const;

  ModelRewriteOptions options;
  tflite::Model model;                              // as it is
  std::map<std::uint32_t, WeightPlan> weights;      // by old buffer
  std::map<std::uint32_t, ByteSpan> copied;         // new buffer: bytes that stay
  std::map<std::uint32_t, const WeightPlan*> made;  // new buffer of codes: weight
  std::set<std::uint32_t> new_scales;               // new buffers that follow their codes
  std::set<std::size_t> covered;                    // of the assignments
  tflite::WritePlan plan;
  std::uint64_t weight_bytes = 0;
};

// The weights are the second inputs of FULLY_CONNECTED and EMBEDDING_LOOKUP. Which role one has is
// seen from where the lifted model's views point; a copy of such a weight in another subgraph has
// the same bytes.
Status ModelRewrite::Impl::FindWeights(const model::DecoderModel& lifted) {
  std::vector<std::pair<ByteSpan, quant::Scheme>> roles;
  for (const quant::Assignment& assignment : options.schemes.assignments) {
    const model::Weight& weight = model::GetWeight(lifted, assignment.role, assignment.layer);
    roles.emplace_back(weight.view.codes, assignment.scheme);
  }
  for (std::size_t g = 0; g < model.subgraphs.size(); ++g) {
    for (const tflite::Operator& op : model.subgraphs[g].operators) {
      if (op.op != tflite::Op::kFullyConnected && op.op != tflite::Op::kEmbeddingLookup) continue;
      if (op.inputs.size() < 2 || op.inputs[1] < 0) continue;
      HONE_TRY(AddWeight(g, op.inputs[1], roles));
    }
  }
  return {};
}

Status ModelRewrite::Impl::AddWeight(std::size_t g, std::int32_t id,
                                     const std::vector<std::pair<ByteSpan, quant::Scheme>>& roles) {
  const tflite::Subgraph& graph = model.subgraphs[g];
  const tflite::Tensor& tensor = graph.tensors[static_cast<std::size_t>(id)];
  const ByteSpan data = model.buffers[tensor.buffer].data;
  if (data.empty() || weights.contains(tensor.buffer)) return {};
  HONE_ASSIGN(const codec::WeightView view, ViewOf(model, graph, tensor));
  std::optional<quant::Scheme> scheme;
  const auto match = [&](const auto& same) -> Status {
    for (std::size_t i = 0; i < roles.size(); ++i) {
      if (!same(roles[i].first)) continue;
      covered.insert(i);
      if (scheme && !(*scheme == roles[i].second)) {
        return Status(Code::kUnsupported,
                      StrCat("weight ", tensor.name,
                             " has several roles, for which the recipe has different schemes"));
      }
      scheme = roles[i].second;
    }
    return {};
  };
  HONE_TRY(match([&](ByteSpan bytes) { return Overlap(bytes, data); }));
  if (!scheme) HONE_TRY(match([&](ByteSpan bytes) { return std::ranges::equal(bytes, data); }));
  if (!scheme) {
    return Status(Code::kUnsupported,
                  StrCat("weight ", tensor.name, " belongs to no part of the model that is known"));
  }
  WeightPlan weight;
  weight.source.view = view;
  weight.source.name = tensor.name;
  weight.scheme = *scheme;
  weight.change = !(view.type == scheme->type);
  if (weight.change && view.type.coding == Coding::kInt4 && !options.allow_requantize) {
    return Status(Code::kUnsupported,
                  StrCat("weight ", tensor.name, " is ", codec::TypeName(view.type),
                         " already; what it lost does not come back: convert the source again, or "
                         "pass --allow-requantize"));
  }
  if (weight.change && HasRowScales(*scheme)) HONE_TRY(ReadRowScales(weight));
  weights.emplace(tensor.buffer, std::move(weight));
  return {};
}

Status ModelRewrite::Impl::ReadRowScales(WeightPlan& weight) const {
  HONE_TRY(CheckCancel());
  if (!options.allow_nonfinite) HONE_TRY(model::CheckFinite(weight.source));
  const std::int64_t cols = weight.source.view.cols;
  weight.row_scales.resize(static_cast<std::size_t>(weight.source.view.rows));
  const std::int64_t band = std::max<std::int64_t>(1, kBandValues / cols);
  options.pool.For(weight.source.view.rows, band, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(cols));
    for (std::int64_t r = begin; r < end; ++r) {
      model::ReadRows(weight.source, r, 1, row.data());
      weight.row_scales[static_cast<std::size_t>(r)] = quant::ChooseScales(weight.scheme, row)[0];
    }
  });
  if (options.release) options.release(weight.source.view.codes);
  return {};
}

// Buffers keep their order; block scales follow the codes that they are for, so that one weight
// after the other can be written. Scales that nothing uses any more are left out.
void ModelRewrite::Impl::NumberBuffers(tflite::Model& out) {
  std::set<std::uint32_t> unused;
  for (const tflite::Subgraph& graph : model.subgraphs) {
    for (const tflite::Tensor& tensor : graph.tensors) {
      const auto weight = weights.find(tensor.buffer);
      if (weight == weights.end() || !weight->second.change) continue;
      if (!tensor.quantization.scales_tensor) continue;
      unused.insert(
          graph.tensors[static_cast<std::size_t>(*tensor.quantization.scales_tensor)].buffer);
    }
  }
  std::vector<std::uint32_t> number(model.buffers.size(), 0);
  out.buffers.clear();
  for (std::uint32_t i = 0; i < model.buffers.size(); ++i) {
    if (unused.contains(i)) continue;
    number[i] = static_cast<std::uint32_t>(out.buffers.size());
    tflite::Buffer buffer = model.buffers[i];
    const auto weight = weights.find(i);
    if (weight != weights.end() && weight->second.change) {
      WeightPlan& w = weight->second;
      const codec::WeightView& view = w.source.view;
      const std::uint64_t codes = codec::CodesBytes(w.scheme.type, view.rows, view.cols);
      out.buffers.push_back({.data = {}, .deferred_bytes = codes});
      w.codes = number[i];
      made.emplace(w.codes, &w);
      weight_bytes += codes;
      if (w.scheme.type.block > 0) {
        const std::uint64_t scales = codec::ScalesBytes(w.scheme.type, view.rows, view.cols);
        w.scales = static_cast<std::uint32_t>(out.buffers.size());
        out.buffers.push_back({.data = {}, .deferred_bytes = scales});
        new_scales.insert(w.scales);
        weight_bytes += scales;
      }
      continue;
    }
    if (buffer.data.size() >= kSmallBuffer) {
      copied.emplace(number[i], buffer.data);
      buffer = {.data = {}, .deferred_bytes = buffer.data.size()};
    }
    out.buffers.push_back(buffer);
  }
  for (tflite::Subgraph& graph : out.subgraphs) {
    for (tflite::Tensor& tensor : graph.tensors) tensor.buffer = number[tensor.buffer];
  }
  for (auto& [name, buffer] : out.metadata) buffer = number[buffer];
}

void ModelRewrite::Impl::ChangeTensors(std::uint32_t graph_index, tflite::Model& out) const {
  tflite::Subgraph& graph = out.subgraphs[graph_index];
  std::set<std::int32_t> gone;
  const std::size_t count = graph.tensors.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = made.find(graph.tensors[i].buffer);
    if (found == made.end()) continue;
    const WeightPlan& weight = *found->second;
    const codec::WeightType type = weight.scheme.type;
    if (const auto old = graph.tensors[i].quantization.scales_tensor) gone.insert(*old);
    tflite::Quantization quantization;
    TensorType stored = TensorType::kFloat32;
    if (type.coding == Coding::kInt8) stored = TensorType::kInt8;
    if (type.coding == Coding::kInt4) stored = TensorType::kInt4;
    if (HasRowScales(weight.scheme)) {
      quantization.scale = weight.row_scales;
      quantization.zero_point.assign(weight.row_scales.size(), 0);
    } else if (type.block > 0) {
      tflite::Tensor scales;
      scales.name = graph.tensors[i].name + "_scales";
      scales.shape = {graph.tensors[i].shape[0], graph.tensors[i].shape[1] / type.block};
      scales.type = TensorType::kFloat16;
      scales.buffer = weight.scales;
      quantization.scales_tensor = static_cast<std::int32_t>(graph.tensors.size());
      quantization.block_size = type.block;
      graph.tensors.push_back(std::move(scales));
    }
    graph.tensors[i].type = stored;
    graph.tensors[i].quantization = std::move(quantization);
  }
  RemoveTensors(gone, graph_index, out);
}

Status ModelRewrite::Impl::Build() {
  tflite::Model out = model;
  NumberBuffers(out);
  for (std::uint32_t g = 0; g < out.subgraphs.size(); ++g) ChangeTensors(g, out);
  HONE_ASSIGN(plan, tflite::PlanModel(out));
  return {};
}

Status ModelRewrite::Impl::WriteWeight(const WeightPlan& weight, const Sink& sink,
                                       const std::function<Status(std::uint64_t)>& advance,
                                       const Wrote& wrote) const {
  HONE_ASSIGN(
      const codec::WeightBuffer quantized,
      quant::QuantizeWeight(weight.source, weight.scheme, options.pool, options.allow_nonfinite));
  HONE_TRY(sink(quantized.codes));
  std::uint64_t bytes = quantized.codes.size();
  if (weight.scales != 0) {
    HONE_TRY(advance(plan.buffer_offsets[weight.scales]));
    HONE_TRY(sink(quantized.scales));
    bytes += quantized.scales.size();
  } else if (HasRowScales(weight.scheme)) {
    const ByteSpan planned = std::as_bytes(std::span(weight.row_scales));
    if (!std::ranges::equal(planned, ByteSpan(quantized.scales))) {
      return Status(Code::kInternal,
                    StrCat(weight.source.name, ": scales changed between two passes"));
    }
  }
  if (options.release) options.release(weight.source.view.codes);
  if (wrote) wrote(bytes, weight.source.name);
  return {};
}

ModelRewrite::ModelRewrite(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelRewrite::ModelRewrite(ModelRewrite&&) noexcept = default;
ModelRewrite& ModelRewrite::operator=(ModelRewrite&&) noexcept = default;
ModelRewrite::~ModelRewrite() = default;

Result<ModelRewrite> ModelRewrite::Plan(ByteSpan section, const model::DecoderModel& lifted,
                                        const ModelRewriteOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  HONE_ASSIGN(impl->model, tflite::ReadModel(section));
  HONE_TRY(impl->FindWeights(lifted));
  HONE_TRY(impl->Build());
  return ModelRewrite(std::move(impl));
}

std::size_t ModelRewrite::changed() const { return impl_->made.size(); }
std::size_t ModelRewrite::kept() const { return impl_->weights.size() - impl_->made.size(); }
const std::set<std::size_t>& ModelRewrite::covered() const { return impl_->covered; }
std::uint64_t ModelRewrite::weight_bytes() const { return impl_->weight_bytes; }

Status ModelRewrite::Write(const Sink& sink, const Wrote& wrote) const {
  const tflite::WritePlan& plan = impl_->plan;
  std::uint64_t position = 0;
  std::size_t next_extra = 0;
  const Sink write = [&](ByteSpan bytes) {
    position += bytes.size();
    return sink(bytes);
  };
  const auto zeros_to = [&](std::uint64_t end) -> Status {
    static constexpr std::array<std::byte, 4096> kZeros{};
    HONE_CHECK(end >= position);
    while (position < end) {
      const auto part = std::min<std::uint64_t>(end - position, kZeros.size());
      HONE_TRY(write(ByteSpan(kZeros).first(static_cast<std::size_t>(part))));
    }
    return {};
  };
  const auto advance = [&](std::uint64_t offset) -> Status {
    for (; next_extra < plan.extra.size() && plan.extra[next_extra].first < offset; ++next_extra) {
      HONE_TRY(zeros_to(plan.extra[next_extra].first));
      HONE_TRY(write(plan.extra[next_extra].second));
    }
    return zeros_to(offset);
  };
  HONE_TRY(write(plan.head));
  for (std::uint32_t b = 0; b < plan.buffer_offsets.size(); ++b) {
    if (plan.buffer_offsets[b] == 0 || impl_->new_scales.contains(b)) continue;
    HONE_TRY(impl_->CheckCancel());
    HONE_TRY(advance(plan.buffer_offsets[b]));
    if (const auto weight = impl_->made.find(b); weight != impl_->made.end()) {
      HONE_TRY(impl_->WriteWeight(*weight->second, write, advance, wrote));
      continue;
    }
    const ByteSpan bytes = impl_->copied.at(b);
    for (std::size_t at = 0; at < bytes.size(); at += kCopyBytes) {
      HONE_TRY(write(bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at))));
    }
    if (impl_->options.release) impl_->options.release(bytes);
  }
  return advance(plan.total_bytes);
}

}  // namespace hone::exporter
