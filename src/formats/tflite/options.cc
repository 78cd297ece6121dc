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
    {Op::kFloor, BuiltinOptions::NONE, false},
    {Op::kRelu, BuiltinOptions::NONE, false},
    {Op::kRelu6, BuiltinOptions::NONE, false},
    {Op::kTanh, BuiltinOptions::NONE, false},
    {Op::kPad, BuiltinOptions::PadOptions, false},
    {Op::kGather, BuiltinOptions::GatherOptions, true},
    {Op::kDiv, BuiltinOptions::DivOptions, true},
    {Op::kSqueeze, BuiltinOptions::SqueezeOptions, true},
    {Op::kStridedSlice, BuiltinOptions::StridedSliceOptions, true},
    {Op::kExp, BuiltinOptions::ExpOptions, false},
    {Op::kSplit, BuiltinOptions::SplitOptions, true},
    {Op::kArgMax, BuiltinOptions::ArgMaxOptions, true},
    {Op::kMinimum, BuiltinOptions::MaximumMinimumOptions, false},
    {Op::kLess, BuiltinOptions::LessOptions, false},
    {Op::kNeg, BuiltinOptions::NegOptions, false},
    {Op::kPadV2, BuiltinOptions::PadV2Options, false},
    {Op::kGreater, BuiltinOptions::GreaterOptions, false},
    {Op::kGreaterEqual, BuiltinOptions::GreaterEqualOptions, false},
    {Op::kLessEqual, BuiltinOptions::LessEqualOptions, false},
    {Op::kSelect, BuiltinOptions::SelectOptions, false},
    {Op::kTile, BuiltinOptions::TileOptions, false},
    {Op::kExpandDims, BuiltinOptions::ExpandDimsOptions, false},
    {Op::kEqual, BuiltinOptions::EqualOptions, false},
    {Op::kNotEqual, BuiltinOptions::NotEqualOptions, false},
    {Op::kLog, BuiltinOptions::NONE, false},
    {Op::kSqrt, BuiltinOptions::NONE, false},
    {Op::kShape, BuiltinOptions::ShapeOptions, true},
    {Op::kPow, BuiltinOptions::PowOptions, false},
    {Op::kArgMin, BuiltinOptions::ArgMinOptions, true},
    {Op::kReduceProd, BuiltinOptions::ReducerOptions, true},
    {Op::kReduceMax, BuiltinOptions::ReducerOptions, true},
    {Op::kLogicalOr, BuiltinOptions::LogicalOrOptions, false},
    {Op::kOneHot, BuiltinOptions::OneHotOptions, true},
    {Op::kLogicalAnd, BuiltinOptions::LogicalAndOptions, false},
    {Op::kLogicalNot, BuiltinOptions::LogicalNotOptions, false},
    {Op::kUnpack, BuiltinOptions::UnpackOptions, true},
    {Op::kReduceMin, BuiltinOptions::ReducerOptions, true},
    {Op::kFloorDiv, BuiltinOptions::FloorDivOptions, false},
    {Op::kReduceAny, BuiltinOptions::ReducerOptions, true},
    {Op::kSquare, BuiltinOptions::SquareOptions, false},
    {Op::kZerosLike, BuiltinOptions::ZerosLikeOptions, false},
    {Op::kFill, BuiltinOptions::FillOptions, false},
    {Op::kFloorMod, BuiltinOptions::FloorModOptions, false},
    {Op::kRange, BuiltinOptions::RangeOptions, false},
    {Op::kSquaredDifference, BuiltinOptions::SquaredDifferenceOptions, false},
    {Op::kAbs, BuiltinOptions::AbsOptions, false},
    {Op::kSplitV, BuiltinOptions::SplitVOptions, true},
    {Op::kCeil, BuiltinOptions::NONE, false},
    {Op::kGatherNd, BuiltinOptions::GatherNdOptions, false},
    {Op::kRound, BuiltinOptions::NONE, false},
    {Op::kSelectV2, BuiltinOptions::SelectV2Options, false},
    {Op::kCumsum, BuiltinOptions::CumsumOptions, true},
    {Op::kBroadcastTo, BuiltinOptions::BroadcastToOptions, false},
    {Op::kReduceAll, BuiltinOptions::ReducerOptions, true},
    {Op::kGelu, BuiltinOptions::GeluOptions, true},
};

}  // namespace

const OptionFacts* FindOptionFacts(Op op) {
  for (const OptionFacts& facts : kFacts) {
    if (facts.op == op) return &facts;
  }
  return nullptr;
}

}  // namespace hone::formats::tflite
