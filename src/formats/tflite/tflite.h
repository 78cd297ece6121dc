// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// TFLite models as plain structs: a checked reader and a streaming writer. See
// docs/formats/tflite.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::formats::tflite {

// Numbers as in the public schema.
enum class TensorType : std::int8_t {
  kFloat32 = 0,
  kFloat16 = 1,
  kInt32 = 2,
  kUint8 = 3,
  kInt64 = 4,
  kString = 5,
  kBool = 6,
  kInt16 = 7,
  kComplex64 = 8,
  kInt8 = 9,
  kFloat64 = 10,
  kComplex128 = 11,
  kUint64 = 12,
  kResource = 13,
  kVariant = 14,
  kUint32 = 15,
  kUint16 = 16,
  kInt4 = 17,
  kBfloat16 = 18,
  kInt2 = 19,
  kUint4 = 20,
};
const char* TensorTypeName(TensorType type);

// Numbers as in the public schema; any other number may appear in a foreign file.
enum class Op : std::int32_t {
  kAdd = 0,
  kConcatenation = 2,
  kDequantize = 6,
  kEmbeddingLookup = 7,
  kFloor = 8,
  kFullyConnected = 9,
  kLogistic = 14,
  kMul = 18,
  kRelu = 19,
  kRelu6 = 21,
  kReshape = 22,
  kSoftmax = 25,
  kTanh = 28,
  kCustom = 32,
  kPad = 34,
  kGather = 36,
  kTranspose = 39,
  kMean = 40,
  kSub = 41,
  kDiv = 42,
  kSqueeze = 43,
  kStridedSlice = 45,
  kExp = 47,
  kSplit = 49,
  kCast = 53,
  kMaximum = 55,
  kArgMax = 56,
  kMinimum = 57,
  kLess = 58,
  kNeg = 59,
  kPadV2 = 60,
  kGreater = 61,
  kGreaterEqual = 62,
  kLessEqual = 63,
  kSelect = 64,
  kSlice = 65,
  kSin = 66,
  kTile = 69,
  kExpandDims = 70,
  kEqual = 71,
  kNotEqual = 72,
  kLog = 73,
  kSum = 74,
  kSqrt = 75,
  kRsqrt = 76,
  kShape = 77,
  kPow = 78,
  kArgMin = 79,
  kReduceProd = 81,
  kReduceMax = 82,
  kPack = 83,
  kLogicalOr = 84,
  kOneHot = 85,
  kLogicalAnd = 86,
  kLogicalNot = 87,
  kUnpack = 88,
  kReduceMin = 89,
  kFloorDiv = 90,
  kReduceAny = 91,
  kSquare = 92,
  kZerosLike = 93,
  kFill = 94,
  kFloorMod = 95,
  kRange = 96,
  kSquaredDifference = 99,
  kAbs = 101,
  kSplitV = 102,
  kCeil = 104,
  kGatherNd = 107,
  kCos = 108,
  kRound = 116,
  kIf = 118,
  kWhile = 119,
  kSelectV2 = 123,
  kBatchMatMul = 126,
  kCumsum = 128,
  kCallOnce = 129,
  kBroadcastTo = 130,
  kReduceAll = 140,
  kGelu = 150,
  kDynamicUpdateSlice = 151,
  kStablehloComposite = 206,
};
std::string OpName(Op op);  // "FULLY_CONNECTED", "op 999"

// Bytes of constant data of num_elements values; nothing for strings, resources and unknown types.
std::optional<std::uint64_t> DataBytes(TensorType type, std::uint64_t num_elements);

struct Quantization {
  std::vector<float> scale;
  std::vector<std::int64_t> zero_point;
  std::int32_t quantized_dimension = 0;
  // Blockwise: index of the scales tensor in the same subgraph, and the block along the last axis.
  std::optional<std::int32_t> scales_tensor;
  std::int32_t zero_points_tensor = -1;
  std::int32_t block_size = 0;
  bool empty() const { return scale.empty() && !scales_tensor; }
  bool operator==(const Quantization&) const = default;
};

struct Tensor {
  std::string name;
  std::vector<std::int32_t> shape;
  TensorType type = TensorType::kFloat32;
  std::uint32_t buffer = 0;  // 0: no constant data
  Quantization quantization;
  bool has_rank = true;
  std::vector<std::int32_t> shape_signature;  // as shape with -1 for dimensions that can change
  bool operator==(const Tensor&) const = default;
};

// Options of the operators that Hone reads or writes, one field each; others are kept as "unknown".
// The types of a CAST are those of its operands when it is read, and are not written.
struct OpOptions {
  std::optional<std::int32_t> axis;   // CONCATENATION, PACK, UNPACK, GATHER, ONE_HOT
  bool keep_dims = false;             // MEAN, SUM, REDUCE_...
  bool keep_num_dims = false;         // FULLY_CONNECTED
  bool adj_x = false, adj_y = false;  // BATCH_MATMUL
  float beta = 1.0f;                  // SOFTMAX
  std::int32_t fused_activation = 0;  // ADD, MUL, SUB, DIV, FULLY_CONNECTED, CONCATENATION; 0 none
  std::int32_t weights_format = 0;    // FULLY_CONNECTED
  bool asymmetric_quantize_inputs = false;  // FULLY_CONNECTED, BATCH_MATMUL
  std::int32_t values_count = 0;            // PACK, UNPACK, SPLIT, SPLIT_V
  std::int32_t batch_dims = 0;              // GATHER
  bool exclusive = false, reverse = false;  // CUMSUM
  bool approximate = false;                 // GELU: the formula with tanh
  std::vector<std::int32_t> squeeze_dims;   // SQUEEZE; none: all dimensions of 1
  // STRIDED_SLICE: bits by dimension.
  std::int32_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0,
               shrink_axis_mask = 0;
  bool end_is_offset = false;  // STRIDED_SLICE: end counts from begin
  // CAST; out_type also SHAPE, ARG_MAX, ARG_MIN
  TensorType in_type = TensorType::kFloat32, out_type = TensorType::kFloat32;
  std::string composite_name;  // STABLEHLO_COMPOSITE
  std::int32_t decomposition_subgraph = -1;
  std::vector<std::byte> composite_attributes;  // a FlexBuffer
  bool operator==(const OpOptions&) const = default;
};

struct Operator {
  Op op = Op::kAdd;
  std::int32_t version = 1;
  std::vector<std::int32_t> inputs;  // -1: absent optional input
  std::vector<std::int32_t> outputs;
  OpOptions options;
  bool unknown_options = false;  // read from a file: an options table that Hone does not know
  bool operator==(const Operator&) const = default;
};

struct Subgraph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<std::int32_t> inputs, outputs;
  std::vector<Operator> operators;
  bool operator==(const Subgraph&) const = default;
};

struct SignatureDef {
  std::string key;
  std::uint32_t subgraph = 0;
  std::vector<std::pair<std::string, std::uint32_t>> inputs, outputs;  // name, tensor index
  bool operator==(const SignatureDef&) const = default;
};

// Constant data. Reading: data views the file. Writing: either data is given (small, embedded), or
// deferred_bytes is set and the bytes are written later at the planned place.
struct Buffer {
  ByteSpan data;
  std::uint64_t deferred_bytes = 0;
};

struct Model {
  std::uint32_t version = 3;
  std::string description;
  std::vector<Buffer> buffers;  // buffers[0] is empty by convention
  std::vector<Subgraph> subgraphs;
  std::vector<SignatureDef> signatures;
  std::vector<std::pair<std::string, std::uint32_t>> metadata;  // name, buffer
  const SignatureDef* FindSignature(std::string_view key) const;
};

// The value of the composite attribute, if the FlexBuffer map has that key as a number.
std::optional<double> FindCompositeNumber(ByteSpan attributes, std::string_view key);
// A FlexBuffer map with one float64/float32 entry, as litert-torch writes for odml.rms_norm.
std::vector<std::byte> MakeCompositeAttributes(std::string_view key, float value);

// bytes is the whole TFLite file (or section) and begins at a multiple of 8 in memory. Runs the
// FlatBuffers verifier, then checks every index (buffers, tensors, operators, subgraphs,
// signatures), shapes, scale counts, composites that contain themselves, and that constant data has
// the size that shape and type need (int4: two a byte). Buffers may lie outside the FlatBuffer. The
// result views bytes. Errors name subgraph, operator or tensor, and the two numbers compared.
Result<Model> ReadModel(ByteSpan bytes);

// Where a model's bytes go. head comes first, then the extra pieces and the deferred buffers, in
// order of their offsets (relative to the start of the model; deferred buffers are 16-byte aligned
// and increasing); gaps are zeros.
struct WritePlan {
  std::vector<std::byte> head;
  std::vector<std::uint64_t> buffer_offsets;  // [buffers]; 0 for buffers that are not deferred
  // Offset and bytes of small pieces in the gaps: the length word before each deferred buffer that
  // lies inside the FlatBuffer.
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> extra;
  std::uint64_t total_bytes = 0;
  bool external_buffers = false;  // buffers lie outside the FlatBuffer (total over 2 GiB)
};
// Reproducible: equal models give equal plans. Deferred buffers stay inside the FlatBuffer (as
// vectors behind the tables) up to external_above total bytes, outside it beyond. Equal
// Quantization objects are stored once. The model is checked as ReadModel does; also, the number of
// zero points must equal the number of scales, because TFLite loads nothing else.
Result<WritePlan> PlanModel(const Model& model, std::uint64_t external_above = 0x7fff0000ULL);

}  // namespace hone::formats::tflite
