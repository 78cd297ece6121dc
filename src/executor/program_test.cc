// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "executor/executor.h"
#include "executor/test_graph.h"

namespace hone::executor {
namespace {

using Type = TestGraph::Type;
using Op = TestGraph::Op;

Value F(TestGraph::Shape shape, const std::vector<float>& values) {
  return MakeFloats(std::move(shape), values);
}

void ExpectRefused(const Status& status, Code code, const std::string& text) {
  EXPECT_EQ(status.code(), code);
  EXPECT_NE(status.message().find(text), std::string_view::npos) << status.message();
}

// o0 = (i0 + 1) * (i0 + 1)
void BuildSquare(TestGraph& graph) {
  const std::int32_t x = graph.Input(F({2}, {1, 2}));
  const std::int32_t sum =
      graph.Add(Op::kAdd, {x, graph.Constant(F({}, {1}))}, Type::kFloat32, {2});
  graph.Output(graph.Add(Op::kMul, {sum, sum}, Type::kFloat32, {2}));
}

TEST(Program, RunsASignature) {
  TestGraph graph;
  BuildSquare(graph);
  const auto got = graph.Run();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_EQ(*ToFloats(got->at("o0")), (std::vector<float>{4, 9}));
}

TEST(Program, NamesWrongCalls) {
  TestGraph graph;
  BuildSquare(graph);
  const auto program = Program::Create(graph.model, "test");
  ASSERT_TRUE(program.ok()) << program.message();
  ExpectRefused(program->Run("other", {}).status(), Code::kNotFound, "no signature 'other'");
  ExpectRefused(program->Run("main", {}).status(), Code::kInvalidArgument,
                "test: signature 'main': input 'i0' is missing");
  ExpectRefused(program->Run("main", {{"i0", F({3}, {1, 2, 3})}}).status(), Code::kInvalidArgument,
                "input 'i0' is float32 [3] (12 bytes), float32 [2] is expected");
  Values values = graph.inputs;
  values["i1"] = F({}, {1});
  ExpectRefused(program->Run("main", values).status(), Code::kInvalidArgument, "2 inputs for 1");
  const std::atomic<bool> cancel = true;
  ExpectRefused(program->Run("main", graph.inputs, &cancel).status(), Code::kCancelled,
                "cancelled");
}

TEST(Program, OutputsMayBeInputsConstantsAndRepeated) {
  TestGraph graph;
  const std::int32_t x = graph.Input(F({1}, {3}));
  const std::int32_t c = graph.Constant(F({1}, {5}));
  const std::int32_t sum = graph.Add(Op::kAdd, {x, c}, Type::kFloat32, {1});
  for (const std::int32_t id : {x, c, sum, sum}) graph.Output(id);
  const auto got = graph.Run();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_EQ(*ToFloats(got->at("o0")), std::vector<float>{3});
  EXPECT_EQ(*ToFloats(got->at("o1")), std::vector<float>{5});
  EXPECT_EQ(*ToFloats(got->at("o2")), std::vector<float>{8});
  EXPECT_EQ(*ToFloats(got->at("o3")), std::vector<float>{8});
}

TEST(Program, CompositesRunTheirBodies) {
  TestGraph graph;
  const std::int32_t x = graph.Input(F({1}, {3}));
  TestGraph::OpOptions options;
  options.composite_name = "test.twice";
  options.decomposition_subgraph = 1;
  const std::int32_t y = graph.Add(Op::kStablehloComposite, {x}, Type::kFloat32, {1}, options);
  graph.Output(graph.Add(Op::kStablehloComposite, {y}, Type::kFloat32, {1}, options));
  graph.Body();
  const std::int32_t inner = graph.Input(F({1}, {0}));
  graph.Output(graph.Add(Op::kAdd, {inner, inner}, Type::kFloat32, {1}));
  const auto got = graph.Run();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_EQ(*ToFloats(got->at("o0")), std::vector<float>{12});
  graph.model.subgraphs[1].tensors[0].shape = {2};
  ExpectRefused(graph.Create(), Code::kDataLoss, "");
  graph.model.subgraphs[1].tensors[0].shape = {1};
  graph.model.subgraphs[1].operators[0].op = Op::kStablehloComposite;
  graph.model.subgraphs[1].operators[0].inputs = {0};
  graph.model.subgraphs[1].operators[0].options = options;
  ExpectRefused(graph.Create(), Code::kDataLoss, "contains itself");
}

TEST(Program, RefusesWhatItCannotRunByName) {
  TestGraph graph;
  BuildSquare(graph);
  auto& ops = graph.graph().operators;
  for (const auto& [op, name] :
       {std::pair(Op::kWhile, "WHILE"), std::pair(Op::kIf, "IF"),
        std::pair(Op::kCallOnce, "CALL_ONCE"), std::pair(Op::kCustom, "CUSTOM"),
        std::pair(static_cast<Op>(205), "op 205")}) {
    ops[1].op = op;
    ExpectRefused(graph.Create(), Code::kUnsupported,
                  std::string("test: subgraph 0 (main): operator 1 (") + name +
                      "): the operator is not supported");
  }
  ops[1].op = Op::kMul;
  ops[1].unknown_options = true;
  ExpectRefused(graph.Create(), Code::kUnsupported, "its options are not known");
}

TEST(Program, RefusesGraphsThatContradictThemselves) {
  const auto broken = [](auto change, const char* text) {
    TestGraph graph;
    BuildSquare(graph);
    change(graph);
    ExpectRefused(graph.Create(), Code::kDataLoss, text);
  };
  broken([](TestGraph& g) { std::swap(g.graph().operators[0], g.graph().operators[1]); },
         "is not computed yet");
  broken([](TestGraph& g) { g.graph().operators[1].outputs = {0}; }, "has a value already");
  broken([](TestGraph& g) { g.graph().operators[1].outputs = {1}; }, "has a value already");
  broken([](TestGraph& g) { g.graph().operators.pop_back(); }, "is never computed");
  broken([](TestGraph& g) { g.graph().operators[0].inputs = {0}; }, "has 1 inputs and 1 outputs");
  broken([](TestGraph& g) { g.graph().operators[0].inputs = {0, -1}; }, "input 1 is absent");
  broken([](TestGraph& g) { g.model.signatures[0].inputs.clear(); }, "has 0 names");
  broken([](TestGraph& g) { g.model.signatures[0].inputs.emplace_back("more", 1); },
         "'more' is no input");
  broken([](TestGraph& g) { g.graph().tensors.back().shape = {7}; }, "but the operator gives [2]");
  broken([](TestGraph& g) { g.graph().operators[0].inputs = {0, 99}; }, "tensor 99");
}

TEST(Program, BoundsMemoryAndWork) {
  TestGraph graph;
  const std::int32_t x = graph.Input(F({1}, {3}));
  std::int32_t big = x;
  for (int i = 0; i < 3; ++i) {
    big = graph.Add(Op::kTile, {big, graph.Ints({1 << (i == 0 ? 20 : 4)})}, Type::kFloat32,
                    {(1 << 20) << (4 * i)});
  }
  graph.Output(big);
  // 1 GiB and 64 MiB at one time, by a file of a few bytes.
  ExpectRefused(graph.Create(), Code::kUnsupported, "needs 1140850688 bytes");
  graph.graph().operators.pop_back();
  graph.graph().outputs[0] = graph.graph().operators[1].outputs[0];
  graph.model.signatures[0].outputs[0].second =
      static_cast<std::uint32_t>(graph.graph().outputs[0]);
  EXPECT_TRUE(graph.Create().ok());
  ExpectRefused(graph.Create({.max_bytes = 1 << 20}), Code::kUnsupported, "bytes for its tensors");
  ExpectRefused(graph.Create({.max_work = 1e6}), Code::kUnsupported, "more computation");
}

TEST(Program, RefusesShapesThatAreNotFixedAndTypesWithoutSize) {
  TestGraph graph;
  BuildSquare(graph);
  auto& tensors = graph.graph().tensors;
  tensors[0].shape = {-1};
  ExpectRefused(graph.Create(), Code::kUnsupported, "a dimension that is not fixed");
  tensors[0].shape = std::vector<std::int32_t>(9, 1);
  ExpectRefused(graph.Create(), Code::kUnsupported, "at most 8 are supported");
  tensors[0].shape = {2};
  tensors[0].type = Type::kString;
  ExpectRefused(graph.Create(), Code::kUnsupported, "string");
}

TEST(Program, ReadsConstantsThatLieAskew) {
  TestGraph graph;
  BuildSquare(graph);
  std::vector<std::byte> askew(16);
  const float one = 1;
  std::memcpy(askew.data() + 1, &one, sizeof(one));
  graph.model.buffers[1].data = ByteSpan(askew).subspan(1, 4);
  const auto got = graph.Run();
  ASSERT_TRUE(got.ok()) << got.message();
  EXPECT_EQ(*ToFloats(got->at("o0")), (std::vector<float>{4, 9}));
}

TEST(Program, FreesTensorsAfterTheirLastUse) {
  TestGraph graph;
  std::int32_t x = graph.Input(MakeFloats({1024}, std::vector<float>(1024, 1)));
  for (int i = 0; i < 100; ++i) x = graph.Add(Op::kSquare, {x}, Type::kFloat32, {1024});
  graph.Output(x);
  // The input and two of the hundred at one time.
  EXPECT_TRUE(graph.Create({.max_bytes = 3 * 4096}).ok());
  EXPECT_FALSE(graph.Create({.max_bytes = 3 * 4096 - 1}).ok());
}

TEST(Values, BecomeFloats) {
  const Value half{Type::kFloat16, {1}, {std::byte{0}, std::byte{0x3e}}};
  EXPECT_EQ(*ToFloats(half), std::vector<float>{1.5f});
  const Value flag{Type::kBool, {2}, {std::byte{0}, std::byte{1}}};
  EXPECT_EQ(*ToFloats(flag), (std::vector<float>{0, 1}));
  const std::int32_t number = 1;
  EXPECT_EQ(ToFloats(MakeInts({1}, {&number, 1})).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace hone::executor
