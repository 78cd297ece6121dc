// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/tflite/options.h"

namespace hone::formats::tflite {
namespace {

using fb::BuiltinOptions;

constexpr OptionFacts kFacts[] = {
    {Op::kAdd, BuiltinOptions::AddOptions, true},
    {Op::kConcatenation, BuiltinOptions::ConcatenationOptions, true},
    {Op::kDequantize, BuiltinOptions::DequantizeOptions, false},
    {Op::kEmbeddingLookup, BuiltinOptions::NONE, false},
    {Op::kFullyConnected, BuiltinOptions::FullyConnectedOptions, true},
    {Op::kLogistic, BuiltinOptions::NONE, false},
    {Op::kMul, BuiltinOptions::MulOptions, true},
    {Op::kReshape, BuiltinOptions::ReshapeOptions, false},
    {Op::kSoftmax, BuiltinOptions::SoftmaxOptions, true},
    {Op::kTranspose, BuiltinOptions::TransposeOptions, false},
    {Op::kMean, BuiltinOptions::ReducerOptions, true},
    {Op::kSub, BuiltinOptions::SubOptions, true},
    {Op::kCast, BuiltinOptions::CastOptions, false},
    {Op::kMaximum, BuiltinOptions::MaximumMinimumOptions, false},
    {Op::kSlice, BuiltinOptions::SliceOptions, false},
    {Op::kSin, BuiltinOptions::NONE, false},
    {Op::kSum, BuiltinOptions::ReducerOptions, true},
    {Op::kRsqrt, BuiltinOptions::NONE, false},
    {Op::kPack, BuiltinOptions::PackOptions, true},
    {Op::kCos, BuiltinOptions::CosOptions, false},
    {Op::kBatchMatMul, BuiltinOptions::BatchMatMulOptions, true},
    {Op::kDynamicUpdateSlice, BuiltinOptions::DynamicUpdateSliceOptions, false},
    {Op::kStablehloComposite, BuiltinOptions::NONE, false},
};

}  // namespace

const OptionFacts* FindOptionFacts(Op op) {
  for (const OptionFacts& facts : kFacts) {
    if (facts.op == op) return &facts;
  }
  return nullptr;
}

}  // namespace hone::formats::tflite
