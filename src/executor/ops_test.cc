// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Each operator against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/float16.h"
#include "executor/executor.h"
#include "executor/test_graph.h"

namespace hone::executor {
namespace {

using Type = TestGraph::Type;
using Op = TestGraph::Op;
using OpOptions = TestGraph::OpOptions;
using Shape = TestGraph::Shape;

Value F(Shape shape, const std::vector<float>& values) {
  return MakeFloats(std::move(shape), values);
}
Value I(Shape shape, const std::vector<std::int32_t>& values) {
  return MakeInts(std::move(shape), values);
}
template <typename T>
Value Raw(Type type, Shape shape, const std::vector<T>& values) {
  Value value{type, std::move(shape), {}};
  value.data.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(value.data.data(), values.data(), value.data.size());
  return value;
}
Value Bools(Shape shape, const std::vector<std::uint8_t>& values) {
  return Raw(Type::kBool, std::move(shape), values);
}
Value Longs(Shape shape, const std::vector<std::int64_t>& values) {
  return Raw(Type::kInt64, std::move(shape), values);
}
Value Halves(Shape shape, const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float v : values) bits.push_back(FloatToFp16(v));
  return Raw(Type::kFloat16, std::move(shape), bits);
}

template <typename T>
std::vector<T> As(const Value& value) {
  std::vector<T> out(value.data.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), value.data.data(), value.data.size());
  return out;
}

// Shape and bytes are equal; floats may differ in the last bits.
void ExpectSame(const Value& got, const Value& want) {
  ASSERT_EQ(got.type, want.type);
  EXPECT_EQ(got.shape, want.shape);
  ASSERT_EQ(got.data.size(), want.data.size());
  if (got.type == Type::kFloat32 || got.type == Type::kFloat16) {
    const auto a = *ToFloats(got);
    const auto b = *ToFloats(want);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(b[i])) {
        EXPECT_TRUE(std::isnan(a[i])) << i;
      } else if (std::isinf(b[i])) {
        EXPECT_EQ(a[i], b[i]) << i;
      } else {
        EXPECT_NEAR(a[i], b[i], 1e-6f + std::fabs(b[i]) * 1e-6f) << i;
      }
    }
  } else {
    EXPECT_TRUE(got.data == want.data);
  }
}

// Runs one operator. Operands marked Const lie in the file.
struct Operand {
  Value value;
  bool constant = false;
};
Operand Const(Value value) { return {std::move(value), true}; }
Operand In(Value value) { return {std::move(value), false}; }

void BuildOne(TestGraph& graph, Op op, const std::vector<Operand>& operands,
              const std::vector<Value>& want, const OpOptions& options) {
  std::vector<std::int32_t> in, out;
  for (const Operand& operand : operands) {
    in.push_back(operand.constant ? graph.Constant(operand.value) : graph.Input(operand.value));
  }
  for (const Value& value : want) {
    out.push_back(graph.Tensor(value.type, value.shape));
    graph.Output(out.back());
  }
  graph.AddMany(op, in, out, options);
}

void Check(Op op, const std::vector<Operand>& operands, const std::vector<Value>& want,
           const OpOptions& options = {}) {
  SCOPED_TRACE(formats::tflite::OpName(op));
  TestGraph graph;
  BuildOne(graph, op, operands, want, options);
  const auto got = graph.Run();
  ASSERT_TRUE(got.ok()) << got.message();
  for (std::size_t i = 0; i < want.size(); ++i) {
    ExpectSame(got->find("o" + std::to_string(i))->second, want[i]);
  }
}

// The text of the refusal, at Create or in Run.
std::string Refusal(Op op, const std::vector<Operand>& operands, const std::vector<Value>& want,
                    const OpOptions& options = {}) {
  TestGraph graph;
  BuildOne(graph, op, operands, want, options);
  const auto got = graph.Run();
  return got.ok() ? "it ran" : std::string(got.message());
}
#define EXPECT_REFUSED(text, ...) \
  EXPECT_NE(Refusal(__VA_ARGS__).find(text), std::string::npos) << Refusal(__VA_ARGS__)

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Ops, FunctionsOfOneFloat) {
  const auto check = [](Op op, float x, float want) {
    Check(op, {In(F({1}, {x}))}, {F({1}, {want})});
    Check(op, {In(Halves({1}, {x}))}, {Halves({1}, {want})});
  };
  check(Op::kExp, 1, 2.7182817f);
  check(Op::kLog, 8, 2.0794415f);
  check(Op::kSqrt, 2.25f, 1.5f);
  check(Op::kRsqrt, 0.25f, 2);
  check(Op::kSin, 0.5f, 0.47942555f);
  check(Op::kCos, 0.5f, 0.87758255f);
  check(Op::kTanh, 0.5f, 0.46211717f);
  check(Op::kLogistic, 0.5f, 0.62245935f);
  check(Op::kRelu, -2, 0);
  check(Op::kRelu, 2, 2);
  check(Op::kRelu6, 7, 6);
  check(Op::kSquare, -3, 9);
  check(Op::kFloor, -1.5f, -2);
  check(Op::kCeil, -1.5f, -1);
  check(Op::kRound, 2.5f, 2);
  check(Op::kNeg, 1.5f, -1.5f);
  check(Op::kAbs, -1.5f, 1.5f);
  check(Op::kGelu, 1, 0.8413447f);
  OpOptions tanh;
  tanh.approximate = true;
  Check(Op::kGelu, {In(F({1}, {1}))}, {F({1}, {0.841192f})}, tanh);
}

TEST(Ops, SignsOfIntegersWrapAround) {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  Check(Op::kNeg, {In(I({3}, {5, -7, kLeast}))}, {I({3}, {-5, 7, kLeast})});
  Check(Op::kAbs, {In(I({3}, {5, -7, kLeast}))}, {I({3}, {5, 7, kLeast})});
  Check(Op::kAbs, {In(Longs({1}, {-7}))}, {Longs({1}, {7})});
}

TEST(Ops, TwoOperandsBroadcast) {
  const Operand a = In(F({2, 1, 2}, {1, 2, 3, 4}));
  const Operand b = In(F({2, 1}, {10, 20}));
  Check(Op::kAdd, {a, b}, {F({2, 2, 2}, {11, 12, 21, 22, 13, 14, 23, 24})});
  Check(Op::kSub, {a, b}, {F({2, 2, 2}, {-9, -8, -19, -18, -7, -6, -17, -16})});
  Check(Op::kMul, {a, In(F({}, {3}))}, {F({2, 1, 2}, {3, 6, 9, 12})});
  Check(Op::kDiv, {In(F({2}, {1, -1})), In(F({1}, {0}))}, {F({2}, {kInf, -kInf})});
  Check(Op::kMaximum, {In(F({3}, {1, 5, NAN})), In(F({3}, {2, 4, 1}))}, {F({3}, {2, 5, NAN})});
  Check(Op::kMinimum, {In(F({2}, {1, 5})), In(F({2}, {2, 4}))}, {F({2}, {1, 4})});
  Check(Op::kPow, {In(F({2}, {2, 9})), In(F({2}, {3, 0.5f}))}, {F({2}, {8, 3})});
  Check(Op::kSquaredDifference, {In(F({1}, {2})), In(F({1}, {5}))}, {F({1}, {9})});
  Check(Op::kFloorDiv, {In(F({2}, {7, -7})), In(F({1}, {2}))}, {F({2}, {3, -4})});
  Check(Op::kFloorMod, {In(F({2}, {7, -7})), In(F({1}, {2}))}, {F({2}, {1, 1})});
  Check(Op::kAdd, {In(Halves({1}, {1.5f})), In(Halves({1}, {2}))}, {Halves({1}, {3.5f})});
  EXPECT_REFUSED("do not fit", Op::kAdd, {In(F({2}, {1, 2})), In(F({3}, {1, 2, 3}))},
                 {F({3}, {0, 0, 0})});
  EXPECT_REFUSED("has the shape [3], but the operator gives [2]", Op::kAdd,
                 {In(F({2}, {1, 2})), In(F({2}, {1, 2}))}, {F({3}, {0, 0, 0})});
  EXPECT_REFUSED("the operands are float32 and int32", Op::kAdd, {In(F({1}, {1})), In(I({1}, {1}))},
                 {F({1}, {0})});
}

TEST(Ops, FusedActivations) {
  OpOptions options;
  const auto run = [&](std::int32_t activation, float want) {
    options.fused_activation = activation;
    Check(Op::kAdd, {In(F({1}, {5})), In(F({1}, {4}))}, {F({1}, {want})}, options);
  };
  run(1, 9);
  run(2, 1);
  run(3, 6);
  options.fused_activation = 4;
  EXPECT_REFUSED("fused activation 4", Op::kAdd, {In(F({1}, {5})), In(F({1}, {4}))}, {F({1}, {0})},
                 options);
}

TEST(Ops, IntegersOfTwoOperands) {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto check = [](Op op, std::int32_t a, std::int32_t b, std::int32_t want) {
    Check(op, {In(I({1}, {a})), In(I({1}, {b}))}, {I({1}, {want})});
  };
  check(Op::kAdd, kMost, 1, kLeast);
  check(Op::kSub, 3, 5, -2);
  check(Op::kMul, 1 << 20, 1 << 20, 0);
  check(Op::kDiv, -7, 2, -3);
  check(Op::kDiv, kLeast, -1, kLeast);
  check(Op::kMaximum, -3, 0, 0);
  check(Op::kMinimum, -3, 0, -3);
  check(Op::kPow, -3, 3, -27);
  check(Op::kSquaredDifference, 2, 5, 9);
  check(Op::kFloorDiv, -7, 2, -4);
  check(Op::kFloorMod, -7, 2, 1);
  check(Op::kFloorMod, kLeast, -1, 0);
  Check(Op::kMul, {In(Longs({1}, {1LL << 40})), In(Longs({1}, {3}))}, {Longs({1}, {3LL << 40})});
  EXPECT_REFUSED("divided by 0", Op::kDiv, {In(I({1}, {1})), In(I({1}, {0}))}, {I({1}, {0})});
  EXPECT_REFUSED("negative exponent", Op::kPow, {In(I({1}, {1})), In(I({1}, {-1}))}, {I({1}, {0})});
}

TEST(Ops, ComparisonsAndLogic) {
  const Operand a = In(F({3}, {1, 2, 3}));
  const Operand b = In(F({}, {2}));
  Check(Op::kEqual, {a, b}, {Bools({3}, {0, 1, 0})});
  Check(Op::kNotEqual, {a, b}, {Bools({3}, {1, 0, 1})});
  Check(Op::kLess, {a, b}, {Bools({3}, {1, 0, 0})});
  Check(Op::kLessEqual, {a, b}, {Bools({3}, {1, 1, 0})});
  Check(Op::kGreater, {a, b}, {Bools({3}, {0, 0, 1})});
  Check(Op::kGreaterEqual, {a, b}, {Bools({3}, {0, 1, 1})});
  Check(Op::kLess, {In(I({2}, {-1, 1})), In(I({1}, {0}))}, {Bools({2}, {1, 0})});
  Check(Op::kLess, {In(Halves({1}, {-1})), In(Halves({1}, {0}))}, {Bools({1}, {1})});
  Check(Op::kEqual, {In(Bools({2}, {1, 0})), In(Bools({1}, {1}))}, {Bools({2}, {1, 0})});
  Check(Op::kEqual, {In(Longs({1}, {1LL << 40})), In(Longs({1}, {0}))}, {Bools({1}, {0})});
  const Operand p = In(Bools({4}, {0, 0, 1, 1}));
  const Operand q = In(Bools({4}, {0, 1, 0, 1}));
  Check(Op::kLogicalAnd, {p, q}, {Bools({4}, {0, 0, 0, 1})});
  Check(Op::kLogicalOr, {p, q}, {Bools({4}, {0, 1, 1, 1})});
  Check(Op::kLogicalNot, {p}, {Bools({4}, {1, 1, 0, 0})});
}

TEST(Ops, SelectTakesOneOrTheOther) {
  const Operand x = In(F({2, 2}, {1, 2, 3, 4}));
  const Operand y = In(F({2, 2}, {5, 6, 7, 8}));
  Check(Op::kSelectV2, {In(Bools({2}, {1, 0})), x, In(F({}, {9}))}, {F({2, 2}, {1, 9, 3, 9})});
  Check(Op::kSelect, {In(Bools({2}, {1, 0})), x, y}, {F({2, 2}, {1, 2, 7, 8})});
  Check(Op::kSelectV2, {In(Bools({1}, {0})), In(Bools({1}, {0})), In(Bools({1}, {1}))},
        {Bools({1}, {1})});
  Check(Op::kSelectV2, {In(Bools({1}, {0})), In(Halves({1}, {1})), In(Halves({1}, {2}))},
        {Halves({1}, {2})});
  Check(Op::kSelectV2, {In(Bools({1}, {1})), In(Longs({1}, {1})), In(Longs({1}, {2}))},
        {Longs({1}, {1})});
}

TEST(Ops, CastsBetweenAllTypes) {
  Check(Op::kCast, {In(F({3}, {-1.9f, 2.9f, 0}))}, {I({3}, {-1, 2, 0})});
  Check(Op::kCast, {In(F({3}, {1e20f, -1e20f, NAN}))},
        {I({3}, {std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min(),
                 0})});
  Check(Op::kCast, {In(I({2}, {-3, 7}))}, {F({2}, {-3, 7})});
  Check(Op::kCast, {In(I({2}, {-3, 7}))}, {Longs({2}, {-3, 7})});
  Check(Op::kCast, {In(Longs({2}, {-3, (1LL << 32) + 5}))}, {I({2}, {-3, 5})});
  Check(Op::kCast, {In(F({2}, {0.5f, 70000}))}, {Halves({2}, {0.5f, kInf})});
  Check(Op::kCast, {In(Halves({2}, {0.5f, -2}))}, {F({2}, {0.5f, -2})});
  Check(Op::kCast, {In(Bools({2}, {0, 1}))}, {F({2}, {0, 1})});
  Check(Op::kCast, {In(F({3}, {0, 0.25f, -1}))}, {Bools({3}, {0, 1, 1})});
  Check(Op::kCast, {In(Bools({2}, {0, 1}))}, {Bools({2}, {0, 1})});
  Check(Op::kCast, {In(Raw<std::int8_t>(Type::kInt8, {2}, {-5, 5}))}, {I({2}, {-5, 5})});
  Check(Op::kCast, {In(F({2}, {300, -300}))}, {Raw<std::int8_t>(Type::kInt8, {2}, {127, -128})});
  Check(Op::kCast, {In(I({1}, {-1}))}, {Raw<std::uint8_t>(Type::kUint8, {1}, {255})});
  EXPECT_REFUSED("is float64", Op::kCast, {In(Raw<double>(Type::kFloat64, {1}, {1}))},
                 {F({1}, {0})});
}

TestGraph::Quantization Scales(std::vector<float> scale) {
  TestGraph::Quantization q;
  q.zero_point.assign(scale.size(), 0);
  q.scale = std::move(scale);
  return q;
}

// Codes two a byte, the first in the low half.
Value Int4(Shape shape, const std::vector<int>& codes) {
  std::vector<std::uint8_t> bytes((codes.size() + 1) / 2, 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const unsigned nibble = static_cast<unsigned>(codes[i]) & 15U;
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | (i % 2 == 0 ? nibble : nibble << 4U));
  }
  return Raw(Type::kInt4, std::move(shape), bytes);
}

// A table or weights [2, 4] as int4 in blocks of 2: rows 1 -2 | 3 4 and 7 -7 | 0 1.
std::int32_t Blockwise(TestGraph& graph) {
  const std::int32_t scales = graph.Constant(Halves({2, 2}, {0.5f, 1, 2, 0.25f}));
  TestGraph::Quantization q;
  q.scales_tensor = scales;
  q.block_size = 2;
  return graph.Constant(Int4({2, 4}, {1, -2, 3, 4, 7, -7, 0, 1}), q);
}

TEST(Ops, TablesOfEveryStorage) {
  const Operand ids = In(I({2}, {1, 0}));
  Check(Op::kEmbeddingLookup, {ids, Const(F({2, 2}, {1, 2, 3, 4}))}, {F({2, 2}, {3, 4, 1, 2})});
  Check(Op::kEmbeddingLookup, {ids, Const(Halves({2, 1}, {1, 2}))}, {Halves({2, 1}, {2, 1})});
  EXPECT_REFUSED("row 2 of a table that has 2 rows", Op::kEmbeddingLookup,
                 {In(I({1}, {2})), Const(F({2, 1}, {1, 2}))}, {F({1, 1}, {0})});
  EXPECT_REFUSED("row -1", Op::kEmbeddingLookup, {In(I({1}, {-1})), Const(F({2, 1}, {1, 2}))},
                 {F({1, 1}, {0})});
  TestGraph graph;
  const std::int32_t id = graph.Input(I({2}, {1, 0}));
  const Value codes = Raw<std::int8_t>(Type::kInt8, {2, 2}, {10, -20, 30, -128});
  const std::int32_t tables[] = {graph.Constant(codes, Scales({0.5f, 0.25f})),
                                 graph.Constant(codes, Scales({2})),
                                 graph.Constant(Int4({2, 2}, {1, -8, 7, 0}), Scales({0.5f, 3}))};
  for (const std::int32_t table : tables) {
    graph.Output(graph.Add(Op::kEmbeddingLookup, {id, table}, Type::kFloat32, {2, 2}));
  }
  graph.Output(graph.Add(Op::kEmbeddingLookup, {id, Blockwise(graph)}, Type::kFloat32, {2, 4}));
  const auto got = graph.Run();
  ASSERT_TRUE(got.ok()) << got.message();
  ExpectSame(got->at("o0"), F({2, 2}, {7.5f, -32, 5, -10}));
  ExpectSame(got->at("o1"), F({2, 2}, {60, -256, 20, -40}));
  ExpectSame(got->at("o2"), F({2, 2}, {21, 0, 0.5f, -4}));
  ExpectSame(got->at("o3"), F({2, 4}, {14, -14, 0, 0.25f, 0.5f, -1, 3, 4}));
}

TEST(Ops, DequantizeKnowsScalesAndZeroPoints) {
  Check(Op::kDequantize, {Const(Halves({2}, {1.5f, -2}))}, {F({2}, {1.5f, -2})});
  TestGraph graph;
  TestGraph::Quantization last = Scales({0.5f, 2});
  last.quantized_dimension = 1;
  last.zero_point = {1, 0};
  TestGraph::Quantization one = Scales({0.1f});
  one.zero_point = {128};
  const std::int32_t tensors[] = {
      graph.Constant(Raw<std::int8_t>(Type::kInt8, {1, 2}, {3, -4}), last),
      graph.Constant(Raw<std::uint8_t>(Type::kUint8, {1, 2}, {128, 255}), one),
      graph.Constant(Raw<std::int16_t>(Type::kInt16, {1, 2}, {-300, 7}), Scales({0.5f}))};
  for (const std::int32_t tensor : tensors) {
    graph.Output(graph.Add(Op::kDequantize, {tensor}, Type::kFloat32, {1, 2}));
  }
  graph.Output(graph.Add(Op::kDequantize, {Blockwise(graph)}, Type::kFloat32, {2, 4}));
  const auto got = graph.Run();
  ASSERT_TRUE(got.ok()) << got.message();
  ExpectSame(got->at("o0"), F({1, 2}, {1, -8}));
  ExpectSame(got->at("o1"), F({1, 2}, {0, 12.7f}));
  ExpectSame(got->at("o2"), F({1, 2}, {-150, 3.5f}));
  ExpectSame(got->at("o3"), F({2, 4}, {0.5f, -1, 3, 4, 14, -14, 0, 0.25f}));
}

TEST(Ops, FloatLinears) {
  const Operand x = In(F({1, 2, 2}, {1, 2, 3, 4}));
  const Operand w = Const(F({3, 2}, {1, 0, 0, 1, 1, -1}));
  Check(Op::kFullyConnected, {x, w}, {F({2, 3}, {1, 2, -1, 3, 4, -1})});
  OpOptions options;
  options.keep_num_dims = true;
  options.fused_activation = 1;
  Check(Op::kFullyConnected, {x, w, Const(F({3}, {10, 20, 0}))},
        {F({1, 2, 3}, {11, 22, 0, 13, 24, 0})}, options);
  Check(Op::kFullyConnected, {In(Halves({1, 2}, {1, 2})), w}, {Halves({1, 3}, {1, 2, -1})});
  Check(Op::kFullyConnected, {In(F({1, 2}, {1, 2})), Const(Halves({1, 2}, {3, 4}))},
        {F({1, 1}, {11})});
  EXPECT_REFUSED("the weights [3, 2]", Op::kFullyConnected, {In(F({1, 3}, {1, 2, 3})), w},
                 {F({1, 3}, {0, 0, 0})});
  options = {};
  options.weights_format = 1;
  EXPECT_REFUSED("weights format 1", Op::kFullyConnected, {x, w}, {F({2, 3}, {0, 0, 0, 0, 0, 0})},
                 options);
}

// Activations in 8 bits: of 0, 1, 2, 2.55 with scale 0.01 every one is exact, and the zero point is
// -128. Of -1, 0, 0.55, 1.55 likewise, with zero point -28.
TEST(Ops, QuantizedLinearsRoundTheirInput) {
  TestGraph graph;
  const std::int32_t x = graph.Input(F({2, 4}, {0, 1, 2, 2.55f, -1, 0, 0.55f, 1.55f}));
  const std::int32_t rows[] = {
      graph.Constant(Raw<std::int8_t>(Type::kInt8, {1, 4}, {100, -50, 25, 127}), Scales({0.5f})),
      graph.Constant(Int4({1, 4}, {1, -2, 3, 4}), Scales({0.5f}))};
  for (const std::int32_t w : rows) {
    graph.Output(graph.Add(Op::kFullyConnected, {x, w, -1}, Type::kFloat32, {2, 1}));
  }
  graph.Output(graph.Add(Op::kFullyConnected, {x, Blockwise(graph)}, Type::kFloat32, {2, 2}));
  // An input that 8 bits cannot say: 0.004 becomes 0.
  const std::int32_t coarse = graph.Input(F({1, 4}, {0, 0.004f, 0.006f, 2.55f}));
  graph.Output(graph.Add(Op::kFullyConnected, {coarse, rows[0]}, Type::kFloat32, {1, 1}));
  const auto got = graph.Run();
  ASSERT_TRUE(got.ok()) << got.message();
  ExpectSame(got->at("o0"), F({2, 1}, {161.925f, 55.3f}));
  ExpectSame(got->at("o1"), F({2, 1}, {7.1f, 3.425f}));
  ExpectSame(got->at("o2"), F({2, 2}, {15.2f, -13.3625f, 7.35f, -13.6125f}));
  ExpectSame(got->at("o3"), F({1, 1}, {162.05f}));
}

TEST(Ops, MatrixProductsOfBatches) {
  const Operand x = In(F({2, 1, 2}, {1, 2, 3, 4}));
  const Operand y = In(F({1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  Check(Op::kBatchMatMul, {x, y}, {F({2, 1, 3}, {9, 12, 15, 19, 26, 33})});
  OpOptions options;
  options.adj_y = true;
  Check(Op::kBatchMatMul, {x, In(F({1, 3, 2}, {1, 4, 2, 5, 3, 6}))},
        {F({2, 1, 3}, {9, 12, 15, 19, 26, 33})}, options);
  options.adj_x = true;
  options.adj_y = false;
  Check(Op::kBatchMatMul, {In(F({2, 1}, {1, 2})), In(F({2, 2}, {1, 2, 3, 4}))},
        {F({1, 2}, {7, 10})}, options);
  Check(Op::kBatchMatMul, {In(Halves({1, 1}, {2})), In(Halves({1, 1}, {3}))},
        {Halves({1, 1}, {6})});
  EXPECT_REFUSED("do not fit", Op::kBatchMatMul, {x, In(F({1, 1}, {1}))}, {F({2, 1, 1}, {0, 0})});
}

TEST(Ops, ShapesThatOnlyRename) {
  const Operand x = In(F({1, 2, 2}, {1, 2, 3, 4}));
  Check(Op::kReshape, {x, Const(I({2}, {4, -1}))}, {F({4, 1}, {1, 2, 3, 4})});
  Check(Op::kReshape, {x, In(I({1}, {4}))}, {F({4}, {1, 2, 3, 4})});
  Check(Op::kReshape, {In(F({1}, {7})), Const(I({0}, {}))}, {F({}, {7})});
  Check(Op::kSqueeze, {x}, {F({2, 2}, {1, 2, 3, 4})});
  Check(Op::kExpandDims, {x, Const(I({}, {0}))}, {F({1, 1, 2, 2}, {1, 2, 3, 4})});
  EXPECT_REFUSED("different numbers of elements", Op::kReshape, {x, Const(I({1}, {5}))},
                 {F({5}, {0, 0, 0, 0, 0})});
  EXPECT_REFUSED("but the operator gives [5]", Op::kReshape, {x, In(I({1}, {5}))},
                 {F({4}, {0, 0, 0, 0})});
}

TEST(Ops, Transpose) {
  const Operand x = In(F({1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  Check(Op::kTranspose, {x, Const(I({3}, {2, 0, 1}))}, {F({3, 1, 2}, {1, 4, 2, 5, 3, 6})});
  Check(Op::kTranspose, {In(Halves({2, 2}, {1, 2, 3, 4})), Const(I({2}, {1, 0}))},
        {Halves({2, 2}, {1, 3, 2, 4})});
  EXPECT_REFUSED("no permutation", Op::kTranspose, {x, Const(I({3}, {0, 0, 1}))},
                 {F({3, 1, 2}, {0, 0, 0, 0, 0, 0})});
  EXPECT_REFUSED("is not constant", Op::kTranspose, {x, In(I({3}, {2, 0, 1}))},
                 {F({3, 1, 2}, {0, 0, 0, 0, 0, 0})});
}

TEST(Ops, SliceWithKnownAndUnknownPlaces) {
  const Operand x = In(I({2, 3}, {1, 2, 3, 4, 5, 6}));
  Check(Op::kSlice, {x, Const(I({2}, {0, 1})), Const(I({2}, {-1, 2}))}, {I({2, 2}, {2, 3, 5, 6})});
  Check(Op::kSlice, {x, In(I({2}, {1, 1})), Const(I({2}, {1, 1}))}, {I({1, 1}, {5})});
  EXPECT_REFUSED("are read from 2 on", Op::kSlice, {x, In(I({2}, {0, 2})), Const(I({2}, {2, 2}))},
                 {I({2, 2}, {0, 0, 0, 0})});
  EXPECT_REFUSED("are read from -1 on", Op::kSlice,
                 {x, Const(I({2}, {0, -1})), Const(I({2}, {2, 2}))}, {I({2, 2}, {0, 0, 0, 0})});
  EXPECT_REFUSED("larger than the input", Op::kSlice,
                 {x, Const(I({2}, {0, 0})), Const(I({2}, {2, 4}))},
                 {I({2, 4}, {0, 0, 0, 0, 0, 0, 0, 0})});
}

TEST(Ops, StridedSliceCountsAsPythonDoes) {
  const Operand x = In(I({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}));
  const auto ints = [](std::int32_t a, std::int32_t b) { return Const(I({2}, {a, b})); };
  Check(Op::kStridedSlice, {x, ints(0, 1), ints(2, 4), ints(1, 2)}, {I({2, 2}, {1, 3, 5, 7})});
  Check(Op::kStridedSlice, {x, ints(0, -1), ints(1, -9), ints(1, -2)}, {I({1, 2}, {3, 1})});
  OpOptions options;
  options.begin_mask = 3;
  options.end_mask = 2;
  Check(Op::kStridedSlice, {x, ints(1, 3), ints(1, 0), ints(1, 1)}, {I({1, 4}, {0, 1, 2, 3})},
        options);
  options = {};
  options.shrink_axis_mask = 1;
  Check(Op::kStridedSlice, {x, ints(-1, 0), ints(0, 2), ints(1, 1)}, {I({2}, {4, 5})}, options);
  options = {};
  options.new_axis_mask = 1;
  Check(Op::kStridedSlice, {x, ints(0, 1), ints(0, 2), ints(1, 1)}, {I({1, 1, 4}, {4, 5, 6, 7})},
        options);
  Check(Op::kStridedSlice, {x, In(I({1}, {1})), In(I({1}, {2})), In(I({1}, {1}))},
        {I({1, 4}, {4, 5, 6, 7})});
  EXPECT_REFUSED("a step of 0", Op::kStridedSlice, {x, ints(0, 0), ints(2, 4), ints(1, 0)},
                 {I({2, 4}, {0, 0, 0, 0, 0, 0, 0, 0})});
  options = {};
  options.shrink_axis_mask = 1;
  EXPECT_REFUSED("index 2 of a dimension of 2", Op::kStridedSlice,
                 {x, ints(2, 0), ints(0, 2), ints(1, 1)}, {I({2}, {0, 0})}, options);
  options = {};
  options.ellipsis_mask = 1;
  EXPECT_REFUSED("ellipsis", Op::kStridedSlice, {x, ints(0, 0), ints(0, 0), ints(1, 1)},
                 {I({2}, {0, 0})}, options);
}

TEST(Ops, JoiningAndParting) {
  OpOptions axis;
  axis.axis = -1;
  const Operand a = In(F({2, 1}, {1, 2}));
  const Operand b = In(F({2, 2}, {3, 4, 5, 6}));
  Check(Op::kConcatenation, {a, b, a}, {F({2, 4}, {1, 3, 4, 1, 2, 5, 6, 2})}, axis);
  EXPECT_REFUSED("but the operator gives", Op::kConcatenation, {a, b}, {F({2, 2}, {0, 0, 0, 0})},
                 axis);
  axis.axis = 1;
  Check(Op::kPack, {In(F({2}, {1, 2})), In(F({2}, {3, 4}))}, {F({2, 2}, {1, 3, 2, 4})}, axis);
  Check(Op::kUnpack, {b}, {F({2}, {3, 5}), F({2}, {4, 6})}, axis);
  axis.axis = 0;
  Check(Op::kPack, {In(I({}, {1})), In(I({}, {2}))}, {I({2}, {1, 2})}, axis);
  Check(Op::kUnpack, {b}, {F({2}, {3, 4}), F({2}, {5, 6})}, axis);
  axis.axis = 2;
  EXPECT_REFUSED("axis 2 of a tensor of rank 2", Op::kUnpack, {b}, {F({2}, {0, 0})}, axis);
  const Operand c = In(F({1, 4}, {1, 2, 3, 4}));
  Check(Op::kSplit, {Const(I({}, {1})), c}, {F({1, 2}, {1, 2}), F({1, 2}, {3, 4})});
  Check(Op::kSplitV, {c, Const(I({2}, {1, -1})), Const(I({}, {1}))},
        {F({1, 1}, {1}), F({1, 3}, {2, 3, 4})});
  EXPECT_REFUSED("of 4", Op::kSplitV, {c, Const(I({2}, {1, -1})), Const(I({}, {1}))},
                 {F({1, 1}, {1}), F({1, 2}, {2, 3})});
}

TEST(Ops, PaddingAndRepeating) {
  const Operand x = In(F({1, 2}, {1, 2}));
  const Operand pads = Const(I({2, 2}, {1, 0, 0, 2}));
  Check(Op::kPad, {x, pads}, {F({2, 4}, {0, 0, 0, 0, 1, 2, 0, 0})});
  Check(Op::kPadV2, {x, pads, Const(F({}, {9}))}, {F({2, 4}, {9, 9, 9, 9, 1, 2, 9, 9})});
  EXPECT_REFUSED("a padding of -1", Op::kPad, {x, Const(I({2, 2}, {-1, 0, 0, 2}))},
                 {F({2, 4}, {0, 0, 0, 0, 0, 0, 0, 0})});
  Check(Op::kTile, {x, Const(I({2}, {2, 2}))}, {F({2, 4}, {1, 2, 1, 2, 1, 2, 1, 2})});
  Check(Op::kBroadcastTo, {In(F({2, 1}, {1, 2})), Const(I({3}, {2, 2, 3}))},
        {F({2, 2, 3}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2})});
  EXPECT_REFUSED("does not repeat", Op::kBroadcastTo, {x, Const(I({2}, {1, 3}))},
                 {F({1, 3}, {0, 0, 0})});
}

TEST(Ops, UpdatesAreMovedSoThatTheyFit) {
  const Operand x = In(F({1, 4}, {1, 2, 3, 4}));
  const Operand update = In(F({1, 2}, {8, 9}));
  const auto check = [&](std::int32_t at, const std::vector<float>& want) {
    Check(Op::kDynamicUpdateSlice, {x, update, In(I({2}, {0, at}))}, {F({1, 4}, want)});
  };
  check(1, {1, 8, 9, 4});
  check(3, {1, 2, 8, 9});
  check(-5, {8, 9, 3, 4});
  EXPECT_REFUSED("larger", Op::kDynamicUpdateSlice, {update, x, In(I({2}, {0, 0}))},
                 {F({1, 2}, {0, 0})});
}

TEST(Ops, GatheringByIndex) {
  const Operand x = In(F({2, 3}, {1, 2, 3, 4, 5, 6}));
  OpOptions options;
  options.axis = 1;
  Check(Op::kGather, {x, In(I({2}, {2, 0}))}, {F({2, 2}, {3, 1, 6, 4})}, options);
  options.batch_dims = 1;
  Check(Op::kGather, {x, In(Longs({2, 1}, {2, 0}))}, {F({2, 1}, {3, 4})}, options);
  Check(Op::kGather, {x, In(I({}, {1}))}, {F({3}, {4, 5, 6})});
  EXPECT_REFUSED("index 2 of a dimension of 2", Op::kGather, {x, In(I({}, {2}))},
                 {F({3}, {0, 0, 0})});
  EXPECT_REFUSED("index -1", Op::kGather, {x, In(I({}, {-1}))}, {F({3}, {0, 0, 0})});
  Check(Op::kGatherNd, {x, In(I({2, 2}, {0, 2, 1, 0}))}, {F({2}, {3, 4})});
  Check(Op::kGatherNd, {x, In(I({1, 1}, {1}))}, {F({1, 3}, {4, 5, 6})});
  EXPECT_REFUSED("index 3", Op::kGatherNd, {x, In(I({1, 2}, {0, 3}))}, {F({1}, {0})});
}

TEST(Ops, MakersOfElements) {
  OpOptions options;
  options.axis = -1;
  const std::vector<Operand> one_hot = {In(I({2}, {1, 5})), Const(I({}, {3})), In(F({}, {2})),
                                        In(F({}, {-1}))};
  Check(Op::kOneHot, one_hot, {F({2, 3}, {-1, 2, -1, -1, -1, -1})}, options);
  options.axis = 0;
  Check(Op::kOneHot, one_hot, {F({3, 2}, {-1, -1, 2, -1, -1, -1})}, options);
  Check(Op::kRange, {In(I({}, {2})), In(I({}, {9})), In(I({}, {3}))}, {I({3}, {2, 5, 8})});
  Check(Op::kRange, {In(F({}, {1})), In(F({}, {0})), In(F({}, {-0.5f}))}, {F({2}, {1, 0.5f})});
  EXPECT_REFUSED("another length", Op::kRange, {In(I({}, {2})), In(I({}, {9})), In(I({}, {0}))},
                 {I({3}, {0, 0, 0})});
  Check(Op::kFill, {In(I({2}, {1, 2})), In(F({}, {7}))}, {F({1, 2}, {7, 7})});
  EXPECT_REFUSED("but the operator gives [3]", Op::kFill, {In(I({1}, {3})), In(F({}, {7}))},
                 {F({1}, {0})});
  Check(Op::kShape, {In(F({1, 2}, {0, 0}))}, {I({2}, {1, 2})});
  Check(Op::kShape, {In(F({1, 2}, {0, 0}))}, {Longs({2}, {1, 2})});
  Check(Op::kZerosLike, {In(F({2}, {1, 2}))}, {F({2}, {0, 0})});
}

TEST(Ops, SoftmaxOfRows) {
  OpOptions options;
  options.beta = 2;
  Check(Op::kSoftmax, {In(F({2, 2}, {0, 0.5f, 1, 1}))},
        {F({2, 2}, {0.26894143f, 0.7310586f, 0.5f, 0.5f})}, options);
  // A row that is masked as LiteRT-LM masks it, and one far from zero.
  const float masked = -0.7f * std::numeric_limits<float>::max();
  Check(Op::kSoftmax, {In(F({2, 2}, {masked, masked, 1000, 999}))},
        {F({2, 2}, {0.5f, 0.5f, 0.7310586f, 0.26894143f})});
  Check(Op::kSoftmax, {In(Halves({1, 2}, {0, 0}))}, {Halves({1, 2}, {0.5f, 0.5f})});
}

TEST(Ops, ReductionsOverAxes) {
  const Operand x = In(F({2, 3}, {1, 5, 3, -2, 0, 2}));
  const Operand last = Const(I({1}, {-1}));
  OpOptions keep;
  keep.keep_dims = true;
  Check(Op::kSum, {x, last}, {F({2}, {9, 0})});
  Check(Op::kMean, {x, last}, {F({2, 1}, {3, 0})}, keep);
  Check(Op::kReduceMax, {x, Const(I({1}, {0}))}, {F({3}, {1, 5, 3})});
  Check(Op::kReduceMin, {x, Const(I({2}, {0, 1}))}, {F({}, {-2})});
  Check(Op::kReduceProd, {x, last}, {F({2}, {15, 0})});
  Check(Op::kSum, {In(I({2}, {3, 4})), Const(I({}, {0}))}, {I({}, {7})});
  Check(Op::kMean, {In(I({2}, {-3, -4})), Const(I({1}, {0}))}, {I({}, {-3})});
  Check(Op::kReduceMax, {In(I({2}, {-3, -4})), Const(I({1}, {0}))}, {I({}, {-3})});
  Check(Op::kSum, {In(Halves({2}, {1, 2})), Const(I({1}, {0}))}, {Halves({}, {3})});
  Check(Op::kReduceAny, {In(Bools({2, 2}, {0, 1, 0, 0})), last}, {Bools({2}, {1, 0})});
  Check(Op::kReduceAll, {In(Bools({2, 2}, {1, 1, 1, 0})), last}, {Bools({2}, {1, 0})});
  EXPECT_REFUSED("axis 2 of a tensor of rank 2", Op::kSum, {x, Const(I({1}, {2}))},
                 {F({2}, {0, 0})});
  EXPECT_REFUSED("is not constant", Op::kSum, {x, In(I({1}, {1}))}, {F({2}, {0, 0})});
}

TEST(Ops, ScansAndPlacesOfTheLargest) {
  const Operand x = In(F({2, 3}, {1, 5, 5, 4, 0, 2}));
  const Operand last = Const(I({}, {1}));
  Check(Op::kArgMax, {x, last}, {I({2}, {1, 0})});
  Check(Op::kArgMin, {x, Const(I({1}, {0}))}, {Longs({3}, {0, 1, 1})});
  OpOptions options;
  Check(Op::kCumsum, {x, last}, {F({2, 3}, {1, 6, 11, 4, 4, 6})}, options);
  options.exclusive = true;
  Check(Op::kCumsum, {x, last}, {F({2, 3}, {0, 1, 6, 0, 4, 4})}, options);
  options.reverse = true;
  Check(Op::kCumsum, {In(I({3}, {1, 2, 3})), Const(I({}, {0}))}, {I({3}, {5, 3, 0})}, options);
}

}  // namespace
}  // namespace hone::executor
