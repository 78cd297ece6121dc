// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "formats/tflite/tflite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "formats/tflite/test_models.h"

namespace hone::formats::tflite {
namespace {

std::string GoldenPath(std::string_view name) {
  return StrCat(HONE_SHARED_DATA, "/golden/bundles/", name);
}

// Equal in everything but buffers, whose bytes are compared.
void ExpectSame(const Model& a, const Model& b) {
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.description, b.description);
  EXPECT_TRUE(a.subgraphs == b.subgraphs);
  EXPECT_TRUE(a.signatures == b.signatures);
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i) {
    EXPECT_EQ(AsText(a.buffers[i].data), AsText(b.buffers[i].data)) << "buffer " << i;
  }
}

TEST(Tflite, GoldenModelsSurviveReadAndWrite) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GoldenPath(""))) {
    if (entry.path().extension() != ".tflite") continue;
    ++files;
    const auto map = MappedFile::Open(entry.path());
    ASSERT_TRUE(map.ok()) << map.message();
    auto model = ReadModel(map->bytes());
    ASSERT_TRUE(model.ok()) << entry.path() << ": " << model.message();
    EXPECT_FALSE(model->signatures.empty());
    // Embedded, deferred inside the FlatBuffer, and outside it.
    for (const std::uint64_t external_above : {~0ULL, 0ULL}) {
      for (const bool defer : {false, true}) {
        const std::vector<std::byte> bytes = WriteToMemory(*model, defer, external_above);
        const auto again = ReadModel(bytes);
        ASSERT_TRUE(again.ok()) << entry.path() << ": " << again.message();
        ExpectSame(*model, *again);
        EXPECT_EQ(bytes, WriteToMemory(*again, defer, external_above));
      }
    }
  }
  EXPECT_EQ(files, 8);
}

// The part of a listing made by other tools that shows operators: "--- SUBGRAPH 0 b'name'",
// "[0] RESHAPE v1" and operands "      i0 #3 FLOAT32[1, 64]".
std::vector<std::string> GoldenListing(const std::string& text) {
  std::vector<std::string> out;
  std::size_t at = text.find("== OPS\n");
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.starts_with("--- SUBGRAPH")) {
      out.emplace_back(line.substr(0, line.find(" sig=")));
    } else if (line.starts_with("[")) {
      out.emplace_back(line.substr(0, line.find(" {")));
    } else if (line.starts_with("      ")) {
      out.emplace_back(line.substr(0, line.find(" \"")));
    }
  }
  return out;
}

std::vector<std::string> OwnListing(const Model& model) {
  std::vector<std::string> out;
  const auto operands = [&out](const Subgraph& graph, char kind,
                               const std::vector<std::int32_t>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      std::string line = StrCat("      ", kind, i, " ");
      if (list[i] < 0) {
        out.push_back(line + "-");
        continue;
      }
      const Tensor& tensor = graph.tensors[static_cast<std::size_t>(list[i])];
      line += StrCat("#", list[i], " ");
      for (const char* c = TensorTypeName(tensor.type); *c != 0; ++c) {
        line += static_cast<char>(std::toupper(*c));
      }
      line += "[";
      for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
        line += StrCat(d == 0 ? "" : ", ", tensor.shape[d]);
      }
      out.push_back(line + "]");
    }
  };
  for (std::size_t g = 0; g < model.subgraphs.size(); ++g) {
    const Subgraph& graph = model.subgraphs[g];
    out.push_back(StrCat("--- SUBGRAPH ", g, " b'", graph.name, "'"));
    for (std::size_t i = 0; i < graph.operators.size(); ++i) {
      const Operator& op = graph.operators[i];
      out.push_back(StrCat("[", i, "] ", OpName(op.op), " v", op.version));
      operands(graph, 'i', op.inputs);
      operands(graph, 'o', op.outputs);
    }
  }
  return out;
}

TEST(Tflite, OperatorsAndOperandsAreThoseOfTheGoldenListings) {
  for (const char* name : {"tiny-llama-fp32", "tiny-llama-wi4b32"}) {
    const auto map = MappedFile::Open(GoldenPath(StrCat(name, "/model.tflite")));
    ASSERT_TRUE(map.ok()) << map.message();
    const auto model = ReadModel(map->bytes());
    ASSERT_TRUE(model.ok()) << model.message();
    const auto text = ReadFile(GoldenPath(StrCat(name, "/dissect-model.txt")));
    ASSERT_TRUE(text.ok()) << text.message();
    const std::vector<std::string> want = GoldenListing(*text);
    const std::vector<std::string> got = OwnListing(*model);
    ASSERT_GT(want.size(), 1000u);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], want[i]) << name << " line " << i;
  }
}

TEST(Tflite, OptionsOfTheGoldenDecodeGraphAreRead) {
  const auto map = MappedFile::Open(GoldenPath("tiny-llama-fp32/model.tflite"));
  ASSERT_TRUE(map.ok()) << map.message();
  const auto model = ReadModel(map->bytes());
  ASSERT_TRUE(model.ok()) << model.message();
  const SignatureDef* decode = model->FindSignature("decode");
  ASSERT_NE(decode, nullptr);
  for (const Operator& op : model->subgraphs[decode->subgraph].operators) {
    const OpOptions& o = op.options;
    EXPECT_FALSE(op.unknown_options);
    EXPECT_EQ(o.fused_activation, 0);
    EXPECT_EQ(o.keep_num_dims, op.op == Op::kFullyConnected);
    EXPECT_EQ(o.adj_y, op.op == Op::kBatchMatMul);
    EXPECT_EQ(o.beta, 1.0f);
    EXPECT_EQ(o.axis.has_value(), op.op == Op::kConcatenation || op.op == Op::kPack);
    EXPECT_EQ(o.values_count, op.op == Op::kPack ? 4 : 0);
    if (op.op == Op::kCast) {
      EXPECT_EQ(o.in_type, TensorType::kInt32);
      EXPECT_EQ(o.out_type, TensorType::kFloat32);
    }
  }
}

TEST(Tflite, EqualScalesAreStoredOnce) {
  const auto map = MappedFile::Open(GoldenPath("tiny-llama-wi8/model.tflite"));
  ASSERT_TRUE(map.ok()) << map.message();
  const auto model = ReadModel(map->bytes());
  ASSERT_TRUE(model.ok()) << model.message();
  // The source stores scales and zero points again for each signature.
  EXPECT_LT(WriteToMemory(*model, false, ~0ULL).size(), map->bytes().size() - 20000);
}

TEST(Tflite, CompositeAttributesAreThoseOfLitertTorch) {
  const auto map = MappedFile::Open(GoldenPath("tiny-llama-fp32/model.tflite"));
  ASSERT_TRUE(map.ok()) << map.message();
  const auto model = ReadModel(map->bytes());
  ASSERT_TRUE(model.ok()) << model.message();
  int composites = 0;
  for (const Subgraph& graph : model->subgraphs) {
    for (const Operator& op : graph.operators) {
      if (op.op != Op::kStablehloComposite) continue;
      ++composites;
      EXPECT_EQ(op.options.composite_name, "odml.rms_norm");
      EXPECT_EQ(op.options.composite_attributes, MakeCompositeAttributes("epsilon", 1e-5f));
      EXPECT_EQ(FindCompositeNumber(op.options.composite_attributes, "epsilon"), 1e-5f);
      EXPECT_EQ(FindCompositeNumber(op.options.composite_attributes, "epsilo"), std::nullopt);
    }
  }
  EXPECT_EQ(composites, 14);
}

TEST(Tflite, CompositeAttributesOfAnyLengthReadBack) {
  for (const std::size_t length : {1, 3, 4, 252, 253, 254, 255, 300}) {
    const std::string key(length, 'k');
    EXPECT_EQ(FindCompositeNumber(MakeCompositeAttributes(key, -2.5f), key), -2.5) << length;
  }
  // Cut anywhere, the attributes give no value or the value, and never leave their bytes.
  const auto whole = MakeCompositeAttributes("epsilon", 1.0f);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<long>(size));
    EXPECT_EQ(FindCompositeNumber(part, "epsilon"), std::nullopt) << size;
  }
}

struct BadModel {
  const char* what;
  void (*damage)(TestModel&);
  const char* message;
};
const BadModel kBadModels[] = {
    {"buffer out of range", [](TestModel& m) { m.tensor(1).buffer = 99; },
     "subgraph 0 (main): tensor 1 (w): buffer 99, but the model has"},
    {"product overflow", [](TestModel& m) { m.tensor(0).shape = {1 << 30, 1 << 30, 1 << 30}; },
     "too many elements"},
    {"negative dimension", [](TestModel& m) { m.tensor(0).shape = {1, -2}; }, "dimension -2"},
    {"constant of the wrong size", [](TestModel& m) { m.tensor(1).shape = {4, 127}; },
     "tensor 1 (w): shape and type (508 x int4) need 254 bytes, but buffer 1 has 256"},
    {"operator input", [](TestModel& m) { m.op(0).inputs[1] = 77; },
     "operator 0 (FULLY_CONNECTED): input 1 is tensor 77, but the subgraph has 4 tensors"},
    {"subgraph input", [](TestModel& m) { m.graph().inputs = {-2}; }, "input 0 is tensor -2"},
    {"absent output", [](TestModel& m) { m.op(0).outputs = {-1}; }, "output 0 is tensor -1"},
    {"signature subgraph", [](TestModel& m) { m.model.signatures[0].subgraph = 5; },
     "signature 'decode': subgraph 5, but the model has 1 subgraphs"},
    {"signature tensor", [](TestModel& m) { m.model.signatures[0].inputs[0].second = 4; },
     "'x' is tensor 4"},
    {"signature twice", [](TestModel& m) { m.model.signatures.push_back(m.model.signatures[0]); },
     "appears twice"},
    {"15 scales for 16 blocks", [](TestModel& m) { m.SetScales({1, 15}); },
     "blocks of 32 need 16 scales, but tensor 2 has 15"},
    {"no scales", [](TestModel& m) { m.SetScales({0, 16}); }, "need 16 scales"},
    {"block of zero", [](TestModel& m) { m.tensor(1).quantization.block_size = 0; },
     "block size 0"},
    {"block that does not divide", [](TestModel& m) { m.tensor(1).quantization.block_size = 48; },
     "the last dimension 128 does not divide into blocks of 48"},
    {"scales index", [](TestModel& m) { m.tensor(1).quantization.scales_tensor = 50; },
     "names tensor 50"},
    {"scales of itself", [](TestModel& m) { m.tensor(1).quantization.scales_tensor = 1; },
     "names tensor 1"},
    {"scales not constant", [](TestModel& m) { m.tensor(2).buffer = 0; }, "are not constant"},
    {"channels", [](TestModel& m) { m.SetChannels(3, 3); }, "3 scales, but dimension 0 has 4"},
    {"dimension",
     [](TestModel& m) {
       m.SetChannels(4, 4);
       m.tensor(1).quantization.quantized_dimension = 2;
     },
     "quantized dimension 2, but the rank is 2"},
    {"zero points", [](TestModel& m) { m.SetChannels(4, 3); }, "4 scales but 3 zero points"},
    {"zero points alone", [](TestModel& m) { m.SetChannels(0, 4); }, "no scales"},
    {"scale not finite",
     [](TestModel& m) {
       m.SetChannels(4, 4);
       m.tensor(1).quantization.scale[2] = INFINITY;
     },
     "not finite"},
    {"composite body", [](TestModel& m) { m.MakeComposite(3); }, "names subgraph 3"},
    {"composite in itself", [](TestModel& m) { m.MakeComposite(0); }, "contains itself"},
    {"composite operands",
     [](TestModel& m) {
       m.MakeComposite(0);
       m.op(0).inputs.push_back(1);
     },
     "composite 'odml.test' has 2 inputs and 1 outputs, but its subgraph 0 has 1 and 1"},
    {"metadata", [](TestModel& m) { m.model.metadata = {{"a", 9}}; }, "metadata 'a': buffer 9"},
    {"no subgraphs", [](TestModel& m) { m.model.subgraphs.clear(); }, "no subgraphs"},
};

TEST(Tflite, BadModelsAreRefusedWhenReadWithTheNumbersThatDisagree) {
  for (const BadModel& bad : kBadModels) {
    TestModel test;
    bad.damage(test);
    const auto read = ReadModel(WriteUnchecked(test.model));
    ASSERT_FALSE(read.ok()) << bad.what;
    EXPECT_EQ(read.code(), Code::kDataLoss) << bad.what;
    EXPECT_NE(read.message().find(bad.message), std::string_view::npos)
        << bad.what << ": " << read.message();
    const auto plan = PlanModel(test.model);
    ASSERT_FALSE(plan.ok()) << bad.what;
    EXPECT_EQ(plan.code(), Code::kInvalidArgument) << bad.what;
  }
}

TEST(Tflite, TheTestModelItselfIsGood) {
  TestModel test;
  const std::vector<std::byte> bytes = WriteUnchecked(test.model);
  const auto read = ReadModel(bytes);
  ASSERT_TRUE(read.ok()) << read.message();
  ExpectSame(*read, test.model);
  EXPECT_NE(read->FindSignature("decode"), nullptr);
  EXPECT_EQ(read->FindSignature("prefill"), nullptr);
}

TEST(Tflite, WritingNeedsAZeroPointForEachScale) {
  TestModel test;
  test.SetChannels(4, 1);
  EXPECT_TRUE(ReadModel(WriteUnchecked(test.model)).ok());
  const auto plan = PlanModel(test.model);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.message().find("4 scales but 1 zero points"), std::string_view::npos);
}

TEST(Tflite, WritingRefusesOptionsThatWouldBeLost) {
  TestModel test;
  test.op(0).unknown_options = true;
  const auto plan = PlanModel(test.model);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.code(), Code::kUnsupported);
}

TEST(Tflite, OptionsOfEveryKindSurvive) {
  const auto survives = [](Op op, const OpOptions& options) {
    TestModel test;
    test.op(0).op = op;
    test.op(0).options = options;
    const std::vector<std::byte> bytes = WriteToMemory(test.model, false, ~0ULL);
    const auto read = ReadModel(bytes);
    ASSERT_TRUE(read.ok()) << OpName(op) << ": " << read.message();
    const Operator& back = read->subgraphs[0].operators[0];
    EXPECT_EQ(back.op, op);
    EXPECT_FALSE(back.unknown_options) << OpName(op);
    EXPECT_EQ(back.options, options) << OpName(op);
    EXPECT_NE(OpName(op).substr(0, 3), "op ");
  };
  OpOptions o;
  o.axis = -1;
  survives(Op::kOneHot, o);
  o.batch_dims = 1;
  survives(Op::kGather, o);
  o = {};
  o.axis = 2;
  o.values_count = 3;
  survives(Op::kUnpack, o);
  o.axis.reset();
  survives(Op::kSplit, o);
  survives(Op::kSplitV, o);
  o = {};
  o.begin_mask = 1;
  o.end_mask = 2;
  o.ellipsis_mask = 4;
  o.new_axis_mask = 8;
  o.shrink_axis_mask = 16;
  o.end_is_offset = true;
  survives(Op::kStridedSlice, o);
  o = {};
  o.squeeze_dims = {0, -2};
  survives(Op::kSqueeze, o);
  o = {};
  o.exclusive = o.reverse = true;
  survives(Op::kCumsum, o);
  o = {};
  o.approximate = true;
  survives(Op::kGelu, o);
  o = {};
  o.fused_activation = 3;
  survives(Op::kDiv, o);
  o = {};
  o.out_type = TensorType::kInt64;
  survives(Op::kShape, o);
  survives(Op::kArgMax, o);
  survives(Op::kArgMin, o);
  o = {};
  o.keep_dims = true;
  for (const Op op :
       {Op::kReduceMax, Op::kReduceMin, Op::kReduceProd, Op::kReduceAny, Op::kReduceAll}) {
    survives(op, o);
  }
  for (const Op op : {Op::kTanh, Op::kExp, Op::kPad, Op::kTile, Op::kSelectV2, Op::kLess,
                      Op::kBroadcastTo, Op::kGatherNd, Op::kFill, Op::kRange, Op::kPow}) {
    survives(op, {});
  }
}

TEST(Tflite, NewerOperatorsKeepTheirNumber) {
  TestModel test;
  test.op(0).op = static_cast<Op>(205);
  test.op(0).options = {};
  const std::vector<std::byte> bytes = WriteToMemory(test.model, false, ~0ULL);
  const auto read = ReadModel(bytes);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->subgraphs[0].operators[0].op, static_cast<Op>(205));
  EXPECT_EQ(OpName(read->subgraphs[0].operators[0].op), "op 205");
}

TEST(Tflite, DeferredBuffersLieAlignedInOrderBehindTheTables) {
  TestModel test;
  test.model.buffers[1] = {{}, 256};
  test.model.buffers[2] = {{}, 32};
  for (const std::uint64_t external_above : {~0ULL, 0ULL}) {
    const auto plan = PlanModel(test.model, external_above);
    ASSERT_TRUE(plan.ok()) << plan.message();
    EXPECT_EQ(plan->external_buffers, external_above == 0);
    EXPECT_EQ(plan->extra.size(), external_above == 0 ? 0u : 2u);
    EXPECT_EQ(plan->buffer_offsets[0], 0u);
    EXPECT_GE(plan->buffer_offsets[1], plan->head.size());
    EXPECT_EQ(plan->buffer_offsets[1] % 16, 0u);
    EXPECT_EQ(plan->buffer_offsets[2] % 16, 0u);
    EXPECT_GE(plan->buffer_offsets[2], plan->buffer_offsets[1] + 256);
    EXPECT_EQ(plan->total_bytes, plan->buffer_offsets[2] + 32);
  }
}

TEST(Tflite, ModelsOverTwoGigabytesGoOutsideTheFlatBuffer) {
  TestModel test;
  test.tensor(1).shape = {1 << 17, 1 << 15};  // 2 GiB of int4
  test.tensor(2).shape = {1 << 17, 1 << 10};
  test.model.buffers[1] = {{}, 1ULL << 31};
  test.model.buffers[2] = {{}, 1ULL << 28};
  const auto plan = PlanModel(test.model);
  ASSERT_TRUE(plan.ok()) << plan.message();
  EXPECT_TRUE(plan->external_buffers);
  EXPECT_GT(plan->total_bytes, (1ULL << 31) + (1ULL << 28));
  // A file of that size with the tables alone; the rest is a hole that takes no disk.
  const std::string path = ::testing::TempDir() + "over_two_gigabytes.tflite";
  ASSERT_TRUE(WriteFileAtomic(path, plan->head).ok());
  std::filesystem::resize_file(path, plan->total_bytes);
  const auto map = MappedFile::Open(path);
  ASSERT_TRUE(map.ok()) << map.message();
  std::filesystem::remove(path);
  const auto read = ReadModel(map->bytes());
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_TRUE(read->subgraphs == test.model.subgraphs);
  EXPECT_EQ(read->buffers[1].data.size(), 1ULL << 31);
  EXPECT_EQ(read->buffers[2].data.data() - map->bytes().data(),
            static_cast<std::ptrdiff_t>(plan->buffer_offsets[2]));
}

TEST(Tflite, ASingleByteCannotBeDeferredOutside) {
  TestModel test;
  Tensor flag = test.tensor(0);
  flag.name = "flag";
  flag.shape = {1};
  flag.type = TensorType::kInt8;
  flag.buffer = 3;
  test.graph().tensors.push_back(flag);
  test.model.buffers.push_back({{}, 1});
  EXPECT_TRUE(PlanModel(test.model).ok());
  EXPECT_EQ(PlanModel(test.model, 0).code(), Code::kInvalidArgument);
}

TEST(Tflite, CutAndForeignFilesAreRefused) {
  TestModel test;
  const std::vector<std::byte> bytes = WriteUnchecked(test.model);
  for (std::size_t size = 0; size < bytes.size(); size += 4) {
    EXPECT_FALSE(ReadModel(ByteSpan(bytes).first(size)).ok()) << size;
  }
  EXPECT_NE(ReadModel(AsBytes("GGUFGGUFGGUF")).message().find("TFL3"), std::string_view::npos);
}

TEST(Tflite, ExternalDataMustLieInTheFile) {
  TestModel test;
  std::vector<std::byte> bytes = WriteToMemory(test.model, true, 0);
  ASSERT_TRUE(ReadModel(bytes).ok());
  bytes.resize(bytes.size() - 1);
  const auto read = ReadModel(bytes);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.message().find("buffer 2: 32 bytes at offset"), std::string_view::npos)
      << read.message();
}

}  // namespace
}  // namespace hone::formats::tflite
