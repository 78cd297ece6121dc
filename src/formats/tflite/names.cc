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
  switch (op) {
    case Op::kAdd:
      return "ADD";
    case Op::kConcatenation:
      return "CONCATENATION";
    case Op::kDequantize:
      return "DEQUANTIZE";
    case Op::kEmbeddingLookup:
      return "EMBEDDING_LOOKUP";
    case Op::kFullyConnected:
      return "FULLY_CONNECTED";
    case Op::kLogistic:
      return "LOGISTIC";
    case Op::kMul:
      return "MUL";
    case Op::kReshape:
      return "RESHAPE";
    case Op::kSoftmax:
      return "SOFTMAX";
    case Op::kTranspose:
      return "TRANSPOSE";
    case Op::kMean:
      return "MEAN";
    case Op::kSub:
      return "SUB";
    case Op::kCast:
      return "CAST";
    case Op::kMaximum:
      return "MAXIMUM";
    case Op::kSlice:
      return "SLICE";
    case Op::kSin:
      return "SIN";
    case Op::kSum:
      return "SUM";
    case Op::kRsqrt:
      return "RSQRT";
    case Op::kPack:
      return "PACK";
    case Op::kCos:
      return "COS";
    case Op::kBatchMatMul:
      return "BATCH_MATMUL";
    case Op::kDynamicUpdateSlice:
      return "DYNAMIC_UPDATE_SLICE";
    case Op::kStablehloComposite:
      return "STABLEHLO_COMPOSITE";
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
