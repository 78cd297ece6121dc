// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "formats/tflite/tflite.h"

namespace hone::formats::tflite {
namespace {

struct TypeFacts {
  const char* name;
  unsigned bits;  // of one value; 0: no fixed size
};
constexpr std::array<TypeFacts, 21> kTypes = {{
    {"float32", 32}, {"float16", 16},     {"int32", 32},  {"uint8", 8},      {"int64", 64},
    {"string", 0},   {"bool", 8},         {"int16", 16},  {"complex64", 64}, {"int8", 8},
    {"float64", 64}, {"complex128", 128}, {"uint64", 64}, {"resource", 0},   {"variant", 0},
    {"uint32", 32},  {"uint16", 16},      {"int4", 4},    {"bfloat16", 16},  {"int2", 2},
    {"uint4", 4},
}};

constexpr std::pair<Op, const char*> kOps[] = {
    {Op::kAdd, "ADD"},
    {Op::kConcatenation, "CONCATENATION"},
    {Op::kDequantize, "DEQUANTIZE"},
    {Op::kEmbeddingLookup, "EMBEDDING_LOOKUP"},
    {Op::kFloor, "FLOOR"},
    {Op::kFullyConnected, "FULLY_CONNECTED"},
    {Op::kLogistic, "LOGISTIC"},
    {Op::kMul, "MUL"},
    {Op::kRelu, "RELU"},
    {Op::kRelu6, "RELU6"},
    {Op::kReshape, "RESHAPE"},
    {Op::kSoftmax, "SOFTMAX"},
    {Op::kTanh, "TANH"},
    {Op::kCustom, "CUSTOM"},
    {Op::kPad, "PAD"},
    {Op::kGather, "GATHER"},
    {Op::kTranspose, "TRANSPOSE"},
    {Op::kMean, "MEAN"},
    {Op::kSub, "SUB"},
    {Op::kDiv, "DIV"},
    {Op::kSqueeze, "SQUEEZE"},
    {Op::kStridedSlice, "STRIDED_SLICE"},
    {Op::kExp, "EXP"},
    {Op::kSplit, "SPLIT"},
    {Op::kCast, "CAST"},
    {Op::kMaximum, "MAXIMUM"},
    {Op::kArgMax, "ARG_MAX"},
    {Op::kMinimum, "MINIMUM"},
    {Op::kLess, "LESS"},
    {Op::kNeg, "NEG"},
    {Op::kPadV2, "PADV2"},
    {Op::kGreater, "GREATER"},
    {Op::kGreaterEqual, "GREATER_EQUAL"},
    {Op::kLessEqual, "LESS_EQUAL"},
    {Op::kSelect, "SELECT"},
    {Op::kSlice, "SLICE"},
    {Op::kSin, "SIN"},
    {Op::kTile, "TILE"},
    {Op::kExpandDims, "EXPAND_DIMS"},
    {Op::kEqual, "EQUAL"},
    {Op::kNotEqual, "NOT_EQUAL"},
    {Op::kLog, "LOG"},
    {Op::kSum, "SUM"},
    {Op::kSqrt, "SQRT"},
    {Op::kRsqrt, "RSQRT"},
    {Op::kShape, "SHAPE"},
    {Op::kPow, "POW"},
    {Op::kArgMin, "ARG_MIN"},
    {Op::kReduceProd, "REDUCE_PROD"},
    {Op::kReduceMax, "REDUCE_MAX"},
    {Op::kPack, "PACK"},
    {Op::kLogicalOr, "LOGICAL_OR"},
    {Op::kOneHot, "ONE_HOT"},
    {Op::kLogicalAnd, "LOGICAL_AND"},
    {Op::kLogicalNot, "LOGICAL_NOT"},
    {Op::kUnpack, "UNPACK"},
    {Op::kReduceMin, "REDUCE_MIN"},
    {Op::kFloorDiv, "FLOOR_DIV"},
    {Op::kReduceAny, "REDUCE_ANY"},
    {Op::kSquare, "SQUARE"},
    {Op::kZerosLike, "ZEROS_LIKE"},
    {Op::kFill, "FILL"},
    {Op::kFloorMod, "FLOOR_MOD"},
    {Op::kRange, "RANGE"},
    {Op::kSquaredDifference, "SQUARED_DIFFERENCE"},
    {Op::kAbs, "ABS"},
    {Op::kSplitV, "SPLIT_V"},
    {Op::kCeil, "CEIL"},
    {Op::kGatherNd, "GATHER_ND"},
    {Op::kCos, "COS"},
    {Op::kRound, "ROUND"},
    {Op::kIf, "IF"},
    {Op::kWhile, "WHILE"},
    {Op::kSelectV2, "SELECT_V2"},
    {Op::kBatchMatMul, "BATCH_MATMUL"},
    {Op::kCumsum, "CUMSUM"},
    {Op::kCallOnce, "CALL_ONCE"},
    {Op::kBroadcastTo, "BROADCAST_TO"},
    {Op::kReduceAll, "REDUCE_ALL"},
    {Op::kGelu, "GELU"},
    {Op::kDynamicUpdateSlice, "DYNAMIC_UPDATE_SLICE"},
    {Op::kStablehloComposite, "STABLEHLO_COMPOSITE"},
};

const TypeFacts* FindType(TensorType type) {
  const auto i = static_cast<std::int8_t>(type);
  if (i < 0 || static_cast<std::size_t>(i) >= kTypes.size()) return nullptr;
  return &kTypes[static_cast<std::size_t>(i)];
}

}  // namespace

const char* TensorTypeName(TensorType type) {
  const TypeFacts* facts = FindType(type);
  return facts ? facts->name : "an unknown type";
}

std::optional<std::uint64_t> DataBytes(TensorType type, std::uint64_t num_elements) {
  const TypeFacts* facts = FindType(type);
  if (!facts || facts->bits == 0) return std::nullopt;
  const auto bits = MulChecked(num_elements, facts->bits);
  if (!bits) return std::nullopt;
  return *bits / 8 + (*bits % 8 != 0);
}

std::string OpName(Op op) {
  for (const auto& [known, name] : kOps) {
    if (known == op) return name;
  }
  return StrCat("op ", static_cast<std::int32_t>(op));
}

const SignatureDef* Model::FindSignature(std::string_view key) const {
  for (const SignatureDef& signature : signatures) {
    if (signature.key == key) return &signature;
  }
  return nullptr;
}

}  // namespace hone::formats::tflite
