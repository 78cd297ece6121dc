// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/repair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/float16.h"
#include "bridge/sha256.h"
#include "bundle/check.h"
#include "bundle/check_scales.h"
#include "bundle/mask_pattern.h"
#include "bundle/repair_graph.h"
#include "bundle/test_bundle.h"
#include "executor/executor.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;
using litertlm::SectionType;

constexpr const char* kClean = "tiny-llama-wi4b32/model-fixed-template-nobos.litertlm";
constexpr const char* kDecoder = "tf_lite_prefill_decode";

std::string ReadAllText(const std::string& path) {
  auto text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.message();
  return text.ok() ? *std::move(text) : "";
}

RepairReport Repair(const std::string& in, const std::string& out, const RepairOptions& options) {
  auto report = RepairBundle(in, out, options);
  EXPECT_TRUE(report.ok()) << report.message();
  return report.ok() ? *std::move(report) : RepairReport();
}

bool Finds(const std::string& path, std::string_view id) {
  const auto report = CheckBundle(path, {});
  EXPECT_TRUE(report.ok()) << report.message();
  if (!report.ok()) return false;
  return std::any_of(report->findings.begin(), report->findings.end(),
                     [&](const Finding& f) { return f.info->id == id; });
}

// Sets scale (row, block) of the tensor and the codes of its block.
struct Block {
  std::size_t index;
  std::uint16_t scale;
  std::vector<int> codes;  // 32, or empty: all zero
};

// The blockwise tensors of the decode graph, by place in it.
std::vector<std::size_t> BlockwiseTensors(const tflite::Model& model) {
  std::vector<std::size_t> out;
  const tflite::Subgraph& graph = model.subgraphs[model.FindSignature("decode")->subgraph];
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].quantization.scales_tensor) out.push_back(t);
  }
  return out;
}

void SetBlocks(tflite::Model& model, TestBundle::Storage& storage, std::size_t tensor_index,
               const std::vector<Block>& blocks) {
  const tflite::Subgraph& graph = model.subgraphs[model.FindSignature("decode")->subgraph];
  const tflite::Tensor& tensor = graph.tensors[tensor_index];
  const auto scales = static_cast<std::size_t>(*tensor.quantization.scales_tensor);
  std::vector<std::byte>& halves = OwnBuffer(model, graph.tensors[scales].buffer, storage);
  for (const Block& block : blocks) std::memcpy(&halves[2 * block.index], &block.scale, 2);
  std::vector<std::byte>& codes = OwnBuffer(model, tensor.buffer, storage);
  for (const Block& block : blocks) {
    for (std::size_t i = 0; i < 16; ++i) {
      const int low = block.codes.empty() ? 0 : block.codes[2 * i];
      const int high = block.codes.empty() ? 0 : block.codes[2 * i + 1];
      codes[16 * block.index + i] = static_cast<std::byte>(
          (static_cast<unsigned>(low) & 15U) | ((static_cast<unsigned>(high) & 15U) << 4));
    }
  }
}

TEST(RepairScales, ChangesOnlyTheScalesOfAllZeroBlocks) {
  // As the published int4 bundle: 1,664 zero scales over many tensors.
  constexpr std::size_t kZeros = 1664;
  TestBundle bundle(kClean);
  bundle.EditModel(kDecoder, [&](tflite::Model& model, TestBundle::Storage& storage) {
    std::size_t left = kZeros;
    for (const std::size_t tensor : BlockwiseTensors(model)) {
      const tflite::Subgraph& graph = model.subgraphs[model.FindSignature("decode")->subgraph];
      const auto& shape = graph.tensors[tensor].shape;
      const auto total =
          static_cast<std::size_t>(shape[0]) * static_cast<std::size_t>(shape[1]) / 32;
      std::vector<Block> blocks;
      for (std::size_t i = 0; i + 1 < total && left > 0; ++i, --left) blocks.push_back({i, 0, {}});
      SetBlocks(model, storage, tensor, blocks);
    }
    ASSERT_EQ(left, 0u);
  });
  const std::string in = bundle.Write(), out = TestPath("repaired.litertlm");
  ASSERT_TRUE(Finds(in, "scale-zero"));
  const RepairReport report = Repair(in, out, {.scales = true});
  EXPECT_EQ(report.scales_changed, kZeros);
  EXPECT_EQ(
      report.bytes_changed, 2 * kZeros - [&] {
        // A replacement whose low byte is zero changes one byte only.
        std::uint64_t same = 0;
        for (const RepairedTensor& tensor : report.tensors) {
          if ((FloatToFp16(tensor.scale) & 0xffU) == 0) same += tensor.zero;
        }
        return same;
      }());
  const std::string before = ReadAllText(in), after = ReadAllText(out);
  ASSERT_EQ(before.size(), after.size());
  std::uint64_t differ = 0;
  for (std::size_t i = 0; i < before.size(); ++i) differ += before[i] != after[i] ? 1U : 0U;
  EXPECT_EQ(differ, report.bytes_changed);
  EXPECT_EQ(report.sha256_before, bridge::Sha256Hex(AsBytes(before)));
  EXPECT_EQ(report.sha256_after, bridge::Sha256Hex(AsBytes(after)));
  EXPECT_FALSE(Finds(out, "scale-zero"));
  for (const RepairedTensor& tensor : report.tensors) {
    EXPECT_EQ(tensor.recoded_blocks, 0u) << tensor.where;
    EXPECT_GE(tensor.scale, 0x1p-14f);
  }
  std::filesystem::remove(in);
  std::filesystem::remove(out);
}

// The scale and the values of one block of the first blockwise tensor, in a file.
struct ReadBlock {
  float scale = 0;
  std::vector<float> values;
};
ReadBlock BlockOf(const std::string& path, std::size_t index) {
  TestBundle bundle = TestBundle::Open(path);
  ReadBlock out;
  const std::string& content = bundle.Find(SectionType::kTfliteModel, kDecoder)->content;
  const auto model = tflite::ReadModel(AsBytes(content));
  EXPECT_TRUE(model.ok()) << model.message();
  const tflite::Subgraph& graph = model->subgraphs[model->FindSignature("decode")->subgraph];
  const tflite::Tensor& tensor = graph.tensors[BlockwiseTensors(*model)[0]];
  const auto scales = static_cast<std::size_t>(*tensor.quantization.scales_tensor);
  std::uint16_t half = 0;
  std::memcpy(&half, model->buffers[graph.tensors[scales].buffer].data.data() + 2 * index, 2);
  out.scale = Fp16ToFloat(half);
  for (std::size_t i = 0; i < 16; ++i) {
    const auto byte = static_cast<unsigned>(model->buffers[tensor.buffer].data[16 * index + i]);
    for (const unsigned nibble : {byte & 15U, byte >> 4}) {
      const int code = nibble >= 8 ? static_cast<int>(nibble) - 16 : static_cast<int>(nibble);
      out.values.push_back(out.scale * static_cast<float>(code));
    }
  }
  return out;
}

TEST(RepairScales, KeepsValuesWithinHalfAStep) {
  std::vector<int> codes(32);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int>(i % 15) - 7;
  TestBundle bundle(kClean);
  bundle.EditModel(kDecoder, [&](tflite::Model& model, TestBundle::Storage& storage) {
    SetBlocks(model, storage, BlockwiseTensors(model)[0],
              {{0, 0x0000, codes},
               {1, 0x8000, {}},
               {2, 0x03ff, codes},
               {3, 0x0001, codes},
               {4, 0x0400, codes}});
  });
  const std::string in = bundle.Write(), out = TestPath("repaired.litertlm");
  const RepairReport report = Repair(in, out, {.scales = true});
  ASSERT_EQ(report.tensors.size(), 1u);
  EXPECT_EQ(report.tensors[0].zero, 2u);
  EXPECT_EQ(report.tensors[0].subnormal, 2u);
  EXPECT_EQ(report.tensors[0].scale, 0x1p-14f);  // of block 4, the smallest normal
  for (const std::size_t index : {0u, 1u, 2u, 3u, 4u}) {
    const ReadBlock before = BlockOf(in, index), after = BlockOf(out, index);
    EXPECT_TRUE(std::isnormal(after.scale));
    EXPECT_GE(after.scale, 0x1p-14f) << index;
    for (std::size_t i = 0; i < before.values.size(); ++i) {
      EXPECT_LE(std::abs(after.values[i] - before.values[i]), after.scale / 2) << index << " " << i;
    }
  }
  // A block whose scale was zero stays zero, whatever its codes were.
  for (const float value : BlockOf(out, 0).values) EXPECT_EQ(value, 0);
  EXPECT_EQ(BlockOf(in, 4).values, BlockOf(out, 4).values);
  std::filesystem::remove(in);
  std::filesystem::remove(out);
}

TEST(RepairScales, TakesTwoToTheMinus14WhereATensorHasNoNormalScale) {
  TestBundle bundle(kClean);
  bundle.EditModel(kDecoder, [&](tflite::Model& model, TestBundle::Storage& storage) {
    const std::size_t tensor = BlockwiseTensors(model)[0];
    const tflite::Subgraph& graph = model.subgraphs[model.FindSignature("decode")->subgraph];
    const auto& shape = graph.tensors[tensor].shape;
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < static_cast<std::size_t>(shape[0] * shape[1] / 32); ++i) {
      blocks.push_back({i, 0, {}});
    }
    SetBlocks(model, storage, tensor, blocks);
  });
  const std::string in = bundle.Write();
  const RepairReport report = Repair(in, in, {.scales = true});  // in place
  ASSERT_EQ(report.tensors.size(), 1u);
  EXPECT_EQ(report.tensors[0].scale, 0x1p-14f);
  EXPECT_EQ(BlockOf(in, 0).scale, 0x1p-14f);
  EXPECT_FALSE(Finds(in, "scale-zero"));
  std::filesystem::remove(in);
}

TEST(RepairScales, WritesNothingWhereNothingIsWrongAndInADryRun) {
  TestBundle bundle(kClean);
  const std::string in = bundle.Write(), out = TestPath("repaired.litertlm");
  RepairReport report = Repair(in, out, {.scales = true});
  EXPECT_FALSE(report.changed());
  EXPECT_EQ(report.sha256_after, report.sha256_before);
  EXPECT_FALSE(FileExists(out));
  bundle.EditModel(kDecoder, [&](tflite::Model& model, TestBundle::Storage& storage) {
    SetBlocks(model, storage, BlockwiseTensors(model)[0], {{0, 0, {}}});
  });
  const std::string faulty = bundle.Write("faulty.litertlm");
  const std::string before = ReadAllText(faulty);
  report = Repair(faulty, faulty, {.scales = true, .dry_run = true});
  EXPECT_TRUE(report.changed());
  EXPECT_EQ(report.scales_changed, 1u);
  EXPECT_EQ(report.sha256_after, "");
  EXPECT_EQ(ReadAllText(faulty), before);
  std::filesystem::remove(in);
  std::filesystem::remove(faulty);
}

TEST(RepairScales, KeepsTheHashesInHoneJsonRight) {
  TestBundle bundle(kClean);
  bundle.EditModel(kDecoder, [&](tflite::Model& model, TestBundle::Storage& storage) {
    SetBlocks(model, storage, BlockwiseTensors(model)[0], {{0, 0, {}}});
  });
  const std::string& content = bundle.Find(SectionType::kTfliteModel, kDecoder)->content;
  bundle.SetHone(StrCat(R"({"sections":[{"name":"TFLiteModel tf_lite_prefill_decode","bytes":)",
                        content.size(), R"(,"sha256":")", bridge::Sha256Hex(AsBytes(content)),
                        R"("}]})"));
  const std::string in = bundle.Write();
  CheckOptions deep;
  deep.deep = true;
  const auto has_mismatch = [&] {
    const auto report = CheckBundle(in, deep);
    return std::any_of(report->findings.begin(), report->findings.end(), [](const Finding& f) {
      return f.info->id == std::string_view("hash-mismatch");
    });
  };
  ASSERT_FALSE(has_mismatch());
  const RepairReport report = Repair(in, in, {.scales = true});
  EXPECT_EQ(report.scales_changed, 1u);
  EXPECT_FALSE(has_mismatch());
  std::filesystem::remove(in);
}

// --- graphs

tflite::Model ReadDecoder(const std::string& content) {
  auto model = tflite::ReadModel(AsBytes(content));
  EXPECT_TRUE(model.ok()) << model.message();
  return *std::move(model);
}

TEST(RepairGraph, FindsTheRepeatedMaskOfEveryLayer) {
  TestBundle bundle(kClean);
  const std::string& content = bundle.Find(SectionType::kTfliteModel, kDecoder)->content;
  const tflite::Model model = ReadDecoder(content);
  const std::vector<RepeatedMask> masks = FindRepeatedMasks(model);
  ASSERT_EQ(masks.size(), 4u);  // one of each signature
  for (const RepeatedMask& mask : masks) {
    EXPECT_EQ(mask.repeats, 2);
    EXPECT_EQ(mask.kv_heads, 2);
    EXPECT_EQ(mask.columns, 128);
    EXPECT_TRUE(mask.only_adds);
  }
  // Decode has two layers; of a prefill only the first reaches the attention.
  std::map<std::int64_t, std::size_t> adds;
  for (const RepeatedMask& mask : masks) adds[mask.rows] += mask.adds.size();
  EXPECT_EQ(adds[32], 1u);
  EXPECT_EQ(adds[8], 1u);
  EXPECT_EQ(adds[1], 3u);
}

TEST(RepairGraph, TheRewrittenMaskComputesTheSameBitForBit) {
  for (const char* name : {"tiny-llama-fp32/model.litertlm", "tiny-llama-wi4b32/model.litertlm"}) {
    const std::string in = TestBundle(name).Write();
    const std::string out = TestPath("repaired.litertlm");
    const RepairReport report = Repair(in, out, {.npu_mask = true});
    EXPECT_EQ(report.masks_changed, 5u);
    EXPECT_TRUE(report.tables_rewritten);
    ASSERT_EQ(report.proofs.size(), 4u);
    for (const std::string& proof : report.proofs) {
      EXPECT_NE(proof.find("bit for bit"), std::string::npos) << proof;
    }
    EXPECT_EQ(report.sha256_after, bridge::Sha256Hex(AsBytes(ReadAllText(out))));
    TestBundle repaired = TestBundle::Open(out), original = TestBundle::Open(in);
    const tflite::Model model =
        ReadDecoder(repaired.Find(SectionType::kTfliteModel, kDecoder)->content);
    EXPECT_TRUE(FindRepeatedMasks(model).empty());
    // The other sections are as they were.
    ASSERT_EQ(repaired.parts.size(), original.parts.size());
    for (std::size_t i = 0; i < repaired.parts.size(); ++i) {
      if (repaired.parts[i].section.Item("model_type") == kDecoder) continue;
      EXPECT_EQ(repaired.parts[i].content, original.parts[i].content);
    }
    std::filesystem::remove(in);
    std::filesystem::remove(out);
  }
}

TEST(RepairGraph, KeepsHashesAndSizesInHoneJsonRight) {
  TestBundle bundle(kClean);
  const std::string content = bundle.Find(SectionType::kTfliteModel, kDecoder)->content;
  bundle.SetHone(StrCat(R"({"sections":[{"name":"TFLiteModel tf_lite_prefill_decode","bytes":)",
                        content.size(), R"(,"sha256":")", bridge::Sha256Hex(AsBytes(content)),
                        R"("}],"context":128})"));
  const std::string in = bundle.Write();
  const RepairReport report = Repair(in, in, {.npu_mask = true});
  EXPECT_TRUE(report.tables_rewritten);
  TestBundle repaired = TestBundle::Open(in);
  const std::string& after = repaired.Find(SectionType::kTfliteModel, kDecoder)->content;
  EXPECT_NE(after, content);
  const auto hone = ParseJson(repaired.Find(SectionType::kGenericBinaryData)->content);
  ASSERT_TRUE(hone.ok()) << hone.message();
  const Json& entry = hone->Find("sections")->AsArray()[0];
  EXPECT_EQ(entry.Find("bytes")->AsInt(), static_cast<std::int64_t>(after.size()));
  EXPECT_EQ(entry.Find("sha256")->AsString(), bridge::Sha256Hex(AsBytes(after)));
  EXPECT_EQ(hone->Find("context")->AsInt(), 128);
  std::filesystem::remove(in);
}

TEST(RepairGraph, TheRunnerGivesTheSameLogitsBeforeAndAfter) {
  const std::string in = TestBundle(kClean).Write();
  const std::string out = TestPath("repaired.litertlm");
  Repair(in, out, {.npu_mask = true});
  std::vector<std::vector<float>> logits;
  for (const std::string& path : {in, out}) {
    auto bundle = litertlm::Bundle::Open(path);
    ASSERT_TRUE(bundle.ok()) << bundle.message();
    auto runner = executor::BundleRunner::Open(*bundle);
    ASSERT_TRUE(runner.ok()) << runner.message();
    const std::vector<std::int32_t> ids = {5, 17, 200, 9, 3};
    ASSERT_TRUE((*runner)->Prefill(8, ids, nullptr).ok());
    auto got = (*runner)->Decode(42, nullptr);
    ASSERT_TRUE(got.ok()) << got.message();
    logits.push_back(*std::move(got));
  }
  EXPECT_EQ(logits[0], logits[1]);
  std::filesystem::remove(in);
  std::filesystem::remove(out);
}

TEST(RepairGraph, AWrongRewriteIsNotWritten) {
  TestBundle bundle(kClean);
  const std::string& content = bundle.Find(SectionType::kTfliteModel, kDecoder)->content;
  const tflite::Model model = ReadDecoder(content);
  RepairReport report;
  RewrittenModel rewritten = RewriteGraph(model, {.npu_mask = true}, report);
  tflite::Subgraph& graph =
      rewritten.model.subgraphs[rewritten.model.FindSignature("prefill_8")->subgraph];
  for (tflite::Operator& op : graph.operators) {
    if (op.op == tflite::Op::kSoftmax) op.options.beta = 1.5f;
  }
  const Status status = ProveEqual(model, rewritten.model, {}, report);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("computes something else"), std::string::npos)
      << status.message();
}

// A prefill whose last layer does not read its keys: they come from the first layer's cache.
void Unread(tflite::Model& model) {
  const tflite::SignatureDef& signature = *model.FindSignature("prefill_8");
  std::int32_t from = -1, to = -1;
  for (const auto& [name, tensor] : signature.inputs) {
    if (name == "kv_cache_k_1") from = static_cast<std::int32_t>(tensor);
    if (name == "kv_cache_k_0") to = static_cast<std::int32_t>(tensor);
  }
  for (tflite::Operator& op : model.subgraphs[signature.subgraph].operators) {
    std::replace(op.inputs.begin(), op.inputs.end(), from, to);
  }
}

TEST(RepairGraph, UnusedCacheInputsGo) {
  TestBundle bundle(kClean);
  bundle.EditModel(kDecoder, [](tflite::Model& model, TestBundle::Storage&) { Unread(model); });
  const std::string in = bundle.Write(), out = TestPath("repaired.litertlm");
  const RepairReport report = Repair(in, out, {.unused_cache_inputs = true});
  EXPECT_EQ(report.inputs_removed, 1u);
  TestBundle repaired = TestBundle::Open(out);
  const std::string& content = repaired.Find(SectionType::kTfliteModel, kDecoder)->content;
  const tflite::Model model = ReadDecoder(content);
  EXPECT_TRUE(FindUnusedCacheInputs(model).empty());
  const tflite::SignatureDef& signature = *model.FindSignature("prefill_8");
  EXPECT_EQ(signature.inputs.size(), 6u);
  EXPECT_EQ(model.subgraphs[signature.subgraph].inputs.size(), 6u);
  EXPECT_EQ(model.FindSignature("decode")->inputs.size(), 7u);
  std::filesystem::remove(in);
  std::filesystem::remove(out);
}

TEST(Repair, DamagedFilesAreNamed) {
  const std::string path = TestPath("damaged.litertlm");
  ASSERT_TRUE(WriteFileAtomic(path, AsBytes("LITERTLM")).ok());
  const auto report = RepairBundle(path, path, {.scales = true});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.code(), Code::kDataLoss);
  EXPECT_NE(report.message().find(path), std::string::npos) << report.message();
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace hone::bundle
