// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <flatbuffers/flatbuffers.h>

#include <algorithm>

#include "formats/tflite/check_model.h"
#include "formats/tflite/options.h"
#include "formats/tflite/tflite.h"

namespace hone::formats::tflite {
namespace {

// The FlatBuffers verifier looks at less than 2 GiB. Whatever it accepts lies wholly in the part
// that it was given, so larger files are verified by their beginning.
constexpr std::uint64_t kMaxVerifiedBytes = 0x7ffffff0ULL;
constexpr flatbuffers::uoffset_t kMaxDepth = 64;
constexpr flatbuffers::uoffset_t kMaxTables = 4'000'000;

// A small file can name the same bytes again and again; what is copied must stay in proportion.
constexpr std::uint64_t kCopyFloorBytes = 16ULL << 20;
constexpr std::uint64_t kCopiesOfFile = 8;

class Reader {
 public:
  explicit Reader(ByteSpan bytes)
      : bytes_(bytes), copy_budget_(kCopyFloorBytes + kCopiesOfFile * bytes.size()) {}

  Result<Model> Run() {
    HONE_TRY(Verify());
    const fb::Model& root = *fb::GetModel(bytes_.data());
    if (root.version() != 3) {
      return Status(Code::kUnsupported,
                    StrCat("TFLite schema version ", root.version(), ", 3 is supported"));
    }
    if (root.external_buffers() && root.external_buffers()->size() != 0) {
      return Status(Code::kUnsupported, "weights in a separate TFLiteWeights section");
    }
    model_.version = root.version();
    model_.description = Text(root.description());
    HONE_TRY(ReadBuffers(root));
    HONE_TRY(ReadSubgraphs(root));
    HONE_TRY(ReadSignatures(root));
    for (std::size_t i = 0; root.metadata() && i < root.metadata()->size(); ++i) {
      const fb::Metadata& entry = *root.metadata()->Get(Index(i));
      HONE_TRY(Charge(1, sizeof(std::string) + TextBytes(entry.name())));
      model_.metadata.emplace_back(Text(entry.name()), entry.buffer());
    }
    HONE_TRY(CheckModel(model_, {}));
    return std::move(model_);
  }

 private:
  static flatbuffers::uoffset_t Index(std::size_t i) {
    return static_cast<flatbuffers::uoffset_t>(i);
  }
  static std::string Text(const flatbuffers::String* text) { return text ? text->str() : ""; }
  static std::size_t TextBytes(const flatbuffers::String* text) { return text ? text->size() : 0; }

  Status Verify() {
    if (bytes_.size() < 8 || AsText(bytes_.subspan(4, 4)) != fb::ModelIdentifier()) {
      return Status(Code::kDataLoss,
                    StrCat("not a TFLite model: 'TFL3' is expected at byte 4 of ", bytes_.size()));
    }
    if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % 8 != 0) {
      return Status(Code::kUnsupported,
                    "the model does not begin at a multiple of 8 bytes; pack it again");
    }
    const std::size_t size = std::min<std::uint64_t>(bytes_.size(), kMaxVerifiedBytes);
    flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes_.data()), size,
                                   kMaxDepth, kMaxTables);
    if (!fb::VerifyModelBuffer(verifier)) {
      return Status(Code::kDataLoss,
                    StrCat("the TFLite tables are damaged or cut off (", bytes_.size(), " bytes)"));
    }
    return {};
  }

  Status Charge(std::uint64_t count, std::uint64_t each) {
    const std::uint64_t bytes = count * each;  // Both come from 32-bit numbers.
    if (bytes > copy_budget_) {
      return Status(Code::kDataLoss, StrCat("the TFLite tables unfold to far more than the ",
                                            bytes_.size(), " bytes of the model"));
    }
    copy_budget_ -= bytes;
    return {};
  }

  template <typename T>
  Status Copy(const flatbuffers::Vector<T>* from, std::vector<T>& to) {
    if (!from) return {};
    HONE_TRY(Charge(from->size(), sizeof(T)));
    to.reserve(from->size());
    for (flatbuffers::uoffset_t i = 0; i < from->size(); ++i) to.push_back(from->Get(i));
    return {};
  }

  Status ReadBuffers(const fb::Model& root) {
    if (!root.buffers()) return {};
    HONE_TRY(Charge(root.buffers()->size(), sizeof(Buffer)));
    model_.buffers.resize(root.buffers()->size());
    for (std::size_t i = 0; i < model_.buffers.size(); ++i) {
      const fb::Buffer& buffer = *root.buffers()->Get(Index(i));
      if (buffer.data() && buffer.data()->size() != 0) {
        model_.buffers[i].data = {reinterpret_cast<const std::byte*>(buffer.data()->data()),
                                  buffer.data()->size()};
      } else if (buffer.offset() > 1) {
        const auto data = SubSpan(bytes_, buffer.offset(), buffer.size());
        if (!data) {
          return Status(Code::kDataLoss,
                        StrCat("buffer ", i, ": ", buffer.size(), " bytes at offset ",
                               buffer.offset(), ", but the model has ", bytes_.size(), " bytes"));
        }
        model_.buffers[i].data = *data;
      }
    }
    return {};
  }

  Status ReadSubgraphs(const fb::Model& root) {
    if (!root.subgraphs()) return {};
    HONE_TRY(Charge(root.subgraphs()->size(), sizeof(Subgraph)));
    model_.subgraphs.resize(root.subgraphs()->size());
    for (std::size_t i = 0; i < model_.subgraphs.size(); ++i) {
      Subgraph& graph = model_.subgraphs[i];
      const fb::SubGraph& from = *root.subgraphs()->Get(Index(i));
      HONE_TRY(Charge(1, TextBytes(from.name())));
      graph.name = Text(from.name());
      HONE_TRY(ReadSubgraph(root, from, graph).Context(SubgraphText(i, graph.name)));
    }
    return {};
  }

  Status ReadSubgraph(const fb::Model& root, const fb::SubGraph& from, Subgraph& graph) {
    HONE_TRY(Copy(from.inputs(), graph.inputs));
    HONE_TRY(Copy(from.outputs(), graph.outputs));
    if (from.tensors()) {
      HONE_TRY(Charge(from.tensors()->size(), sizeof(Tensor)));
      graph.tensors.resize(from.tensors()->size());
    }
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      HONE_TRY(ReadTensor(*from.tensors()->Get(Index(i)), graph.tensors[i])
                   .Context(TensorText(i, graph.tensors[i].name)));
    }
    if (from.operators()) {
      HONE_TRY(Charge(from.operators()->size(), sizeof(Operator)));
      graph.operators.resize(from.operators()->size());
    }
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      Operator& op = graph.operators[i];
      HONE_TRY(
          ReadOperator(root, *from.operators()->Get(Index(i)), op).Context(OperatorText(i, op.op)));
      if (op.op == Op::kCast) ReadCastTypes(graph, op);
    }
    return {};
  }

  Status ReadTensor(const fb::Tensor& from, Tensor& tensor) {
    HONE_TRY(Charge(1, TextBytes(from.name())));
    tensor.name = Text(from.name());
    HONE_TRY(Copy(from.shape(), tensor.shape));
    HONE_TRY(Copy(from.shape_signature(), tensor.shape_signature));
    tensor.type = static_cast<TensorType>(from.type());
    tensor.buffer = from.buffer();
    tensor.has_rank = from.has_rank();
    if (from.sparsity()) return Status(Code::kUnsupported, "sparse data");
    if (from.external_buffer() != 0) {
      return Status(Code::kUnsupported, "data in a separate TFLiteWeights section");
    }
    return from.quantization() ? ReadQuantization(*from.quantization(), tensor.quantization)
                               : Status();
  }

  Status ReadQuantization(const fb::QuantizationParameters& from, Quantization& q) {
    HONE_TRY(Copy(from.scale(), q.scale));
    HONE_TRY(Copy(from.zero_point(), q.zero_point));
    q.quantized_dimension = from.quantized_dimension();
    if (from.details_type() == fb::QuantizationDetails::NONE) return {};
    const fb::BlockwiseQuantization* block = from.details_as_BlockwiseQuantization();
    if (!block || (block->block_shape() && block->block_shape()->size() != 0)) {
      return Status(Code::kUnsupported,
                    StrCat("quantization details of type ", static_cast<int>(from.details_type()),
                           "; per channel and blockwise are supported"));
    }
    q.scales_tensor = block->scales();
    q.zero_points_tensor = block->zero_points();
    q.block_size = block->block_size();
    return {};
  }

  Status ReadOperator(const fb::Model& root, const fb::Operator& from, Operator& op) {
    const std::size_t codes = root.operator_codes() ? root.operator_codes()->size() : 0;
    if (from.opcode_index() >= codes) {
      return Status(Code::kDataLoss,
                    StrCat("operator code ", from.opcode_index(), ", but the model has ", codes));
    }
    const fb::OperatorCode& code = *root.operator_codes()->Get(from.opcode_index());
    op.op = static_cast<Op>(
        std::max(static_cast<std::int32_t>(code.deprecated_builtin_code()), code.builtin_code()));
    op.version = code.version();
    HONE_TRY(Copy(from.inputs(), op.inputs));
    HONE_TRY(Copy(from.outputs(), op.outputs));
    HONE_TRY(CheckCalledSubgraphs(root, from));
    return ReadOptions(from, op);
  }

  // IF, WHILE and CALL_ONCE are not kept, but what they name must exist.
  Status CheckCalledSubgraphs(const fb::Model& root, const fb::Operator& from) {
    std::int32_t called[2] = {0, 0};
    if (const auto* branch = from.builtin_options_as_IfOptions()) {
      called[0] = branch->then_subgraph_index();
      called[1] = branch->else_subgraph_index();
    } else if (const auto* loop = from.builtin_options_as_WhileOptions()) {
      called[0] = loop->cond_subgraph_index();
      called[1] = loop->body_subgraph_index();
    } else if (const auto* once = from.builtin_options_as_CallOnceOptions()) {
      called[0] = once->init_subgraph_index();
    }
    for (const std::int32_t index : called) {
      if (index < 0 || static_cast<std::uint32_t>(index) >= root.subgraphs()->size()) {
        return Status(Code::kDataLoss, StrCat("calls subgraph ", index, ", but the model has ",
                                              root.subgraphs()->size()));
      }
    }
    return {};
  }

  Status ReadOptions(const fb::Operator& from, Operator& op) {
    const fb::BuiltinOptions type = from.builtin_options_type();
    const OptionFacts* facts = FindOptionFacts(op.op);
    if (type != fb::BuiltinOptions::NONE && (!facts || type != facts->type)) {
      op.unknown_options = true;
    }
    const bool composite = op.op == Op::kStablehloComposite;
    if (from.builtin_options_2_type() != fb::BuiltinOptions2::NONE && !composite) {
      op.unknown_options = true;
    }
    if (!facts || op.unknown_options) return {};
    if (composite) return ReadComposite(from, op.options);
    if (!facts->has_fields || !from.builtin_options()) return {};
    if (const auto* squeeze = from.builtin_options_as_SqueezeOptions()) {
      return Copy(squeeze->squeeze_dims(), op.options.squeeze_dims);
    }
    ReadFields(from, op.options);
    return {};
  }

  Status ReadComposite(const fb::Operator& from, OpOptions& o) {
    const auto* composite = from.builtin_options_2_as_StableHLOCompositeOptions();
    if (!composite) return Status(Code::kDataLoss, "the composite has no options");
    HONE_TRY(Charge(1, TextBytes(composite->name())));
    o.composite_name = Text(composite->name());
    o.decomposition_subgraph = composite->decomposition_subgraph_index();
    if (const auto* bytes = composite->composite_attributes()) {
      HONE_TRY(Charge(1, bytes->size()));
      const auto* begin = reinterpret_cast<const std::byte*>(bytes->data());
      o.composite_attributes.assign(begin, begin + bytes->size());
    }
    return {};
  }

  static void ReadFields(const fb::Operator& from, OpOptions& o) {
    if (const auto* add = from.builtin_options_as_AddOptions()) {
      o.fused_activation = add->fused_activation_function();
    } else if (const auto* mul = from.builtin_options_as_MulOptions()) {
      o.fused_activation = mul->fused_activation_function();
    } else if (const auto* sub = from.builtin_options_as_SubOptions()) {
      o.fused_activation = sub->fused_activation_function();
    } else if (const auto* concat = from.builtin_options_as_ConcatenationOptions()) {
      o.axis = concat->axis();
      o.fused_activation = concat->fused_activation_function();
    } else if (const auto* fc = from.builtin_options_as_FullyConnectedOptions()) {
      o.fused_activation = fc->fused_activation_function();
      o.weights_format = fc->weights_format();
      o.keep_num_dims = fc->keep_num_dims();
      o.asymmetric_quantize_inputs = fc->asymmetric_quantize_inputs();
    } else if (const auto* bmm = from.builtin_options_as_BatchMatMulOptions()) {
      o.adj_x = bmm->adj_x();
      o.adj_y = bmm->adj_y();
      o.asymmetric_quantize_inputs = bmm->asymmetric_quantize_inputs();
    } else if (const auto* softmax = from.builtin_options_as_SoftmaxOptions()) {
      o.beta = softmax->beta();
    } else if (const auto* reduce = from.builtin_options_as_ReducerOptions()) {
      o.keep_dims = reduce->keep_dims();
    } else if (const auto* pack = from.builtin_options_as_PackOptions()) {
      o.axis = pack->axis();
      o.values_count = pack->values_count();
    } else if (const auto* div = from.builtin_options_as_DivOptions()) {
      o.fused_activation = div->fused_activation_function();
    } else if (const auto* gelu = from.builtin_options_as_GeluOptions()) {
      o.approximate = gelu->approximate();
    } else {
      ReadShapeFields(from, o);
    }
  }

  // Of the operators that move data or make shapes.
  static void ReadShapeFields(const fb::Operator& from, OpOptions& o) {
    if (const auto* unpack = from.builtin_options_as_UnpackOptions()) {
      o.axis = unpack->axis();
      o.values_count = unpack->num();
    } else if (const auto* split = from.builtin_options_as_SplitOptions()) {
      o.values_count = split->num_splits();
    } else if (const auto* split_v = from.builtin_options_as_SplitVOptions()) {
      o.values_count = split_v->num_splits();
    } else if (const auto* gather = from.builtin_options_as_GatherOptions()) {
      o.axis = gather->axis();
      o.batch_dims = gather->batch_dims();
    } else if (const auto* slice = from.builtin_options_as_StridedSliceOptions()) {
      o.begin_mask = slice->begin_mask();
      o.end_mask = slice->end_mask();
      o.ellipsis_mask = slice->ellipsis_mask();
      o.new_axis_mask = slice->new_axis_mask();
      o.shrink_axis_mask = slice->shrink_axis_mask();
      o.end_is_offset = slice->offset();
    } else if (const auto* one_hot = from.builtin_options_as_OneHotOptions()) {
      o.axis = one_hot->axis();
    } else if (const auto* cumsum = from.builtin_options_as_CumsumOptions()) {
      o.exclusive = cumsum->exclusive();
      o.reverse = cumsum->reverse();
    } else if (const auto* shape = from.builtin_options_as_ShapeOptions()) {
      o.out_type = static_cast<TensorType>(shape->out_type());
    } else if (const auto* arg_max = from.builtin_options_as_ArgMaxOptions()) {
      o.out_type = static_cast<TensorType>(arg_max->output_type());
    } else if (const auto* arg_min = from.builtin_options_as_ArgMinOptions()) {
      o.out_type = static_cast<TensorType>(arg_min->output_type());
    }
  }

  static void ReadCastTypes(const Subgraph& graph, Operator& op) {
    const auto type_of = [&graph](const std::vector<std::int32_t>& list) {
      const bool known = list.size() == 1 && list[0] >= 0 &&
                         static_cast<std::size_t>(list[0]) < graph.tensors.size();
      return known ? graph.tensors[static_cast<std::size_t>(list[0])].type : TensorType::kFloat32;
    };
    op.options.in_type = type_of(op.inputs);
    op.options.out_type = type_of(op.outputs);
  }

  Status ReadSignatures(const fb::Model& root) {
    if (!root.signature_defs()) return {};
    HONE_TRY(Charge(root.signature_defs()->size(), sizeof(SignatureDef)));
    for (const fb::SignatureDef* from : *root.signature_defs()) {
      SignatureDef signature;
      HONE_TRY(Charge(1, TextBytes(from->signature_key())));
      signature.key = Text(from->signature_key());
      signature.subgraph = from->subgraph_index();
      HONE_TRY(ReadTensorMaps(from->inputs(), signature.inputs));
      HONE_TRY(ReadTensorMaps(from->outputs(), signature.outputs));
      model_.signatures.push_back(std::move(signature));
    }
    return {};
  }

  Status ReadTensorMaps(const flatbuffers::Vector<flatbuffers::Offset<fb::TensorMap>>* from,
                        std::vector<std::pair<std::string, std::uint32_t>>& to) {
    if (!from) return {};
    for (const fb::TensorMap* entry : *from) {
      HONE_TRY(Charge(1, sizeof(to[0]) + TextBytes(entry->name())));
      to.emplace_back(Text(entry->name()), entry->tensor_index());
    }
    return {};
  }

  ByteSpan bytes_;
  std::uint64_t copy_budget_;
  Model model_;
};

}  // namespace

Result<Model> ReadModel(ByteSpan bytes) { return Reader(bytes).Run(); }

}  // namespace hone::formats::tflite
