// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "executor/executor.h"
#include "executor/test_graph.h"
#include "formats/npy.h"
#include "formats/tflite/test_models.h"

namespace hone::executor {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kBundles = HONE_SHARED_DATA "/golden/bundles/";

formats::NpyArray ReadNpy(const std::string& path) {
  auto bytes = ReadFile(path);
  EXPECT_TRUE(bytes.ok()) << bytes.message();
  auto array = formats::ParseNpy(AsBytes(bytes.ok() ? *bytes : ""));
  EXPECT_TRUE(array.ok()) << array.message();
  return array.ok() ? *std::move(array) : formats::NpyArray();
}

Ids PromptIds(const std::string& path) {
  auto text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.message();
  auto json = ParseJson(text.ok() ? *text : "{\"prompt_ids\": []}");
  EXPECT_TRUE(json.ok()) << json.message();
  Ids ids;
  for (const Json& id : json->Find("prompt_ids")->AsArray()) {
    ids.push_back(static_cast<std::int32_t>(id.AsInt()));
  }
  return ids;
}

std::unique_ptr<BundleRunner> Open(const std::string& path) {
  auto bundle = formats::litertlm::Bundle::Open(path);
  EXPECT_TRUE(bundle.ok()) << bundle.message();
  if (!bundle.ok()) return nullptr;
  auto runner = BundleRunner::Open(*bundle);
  EXPECT_TRUE(runner.ok()) << runner.message();
  return runner.ok() ? *std::move(runner) : nullptr;
}

std::vector<float> DecodeOne(BundleRunner& runner, std::int32_t id) {
  auto logits = runner.Decode(id, nullptr);
  EXPECT_TRUE(logits.ok()) << logits.message();
  return logits.ok() ? *std::move(logits) : std::vector<float>(4096, NAN);
}

float MaxDiff(const std::vector<float>& got, const float* want) {
  float worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float diff = std::fabs(got[i] - want[i]);
    worst = std::max(worst, std::isnan(diff) ? HUGE_VALF : diff);
  }
  return worst;
}

struct Golden {
  const char* file;
  const char* ids;
  const char* logits;
  std::size_t first_row;  // of the prompt that the first row of logits belongs to
  float limit;
};

class GoldenBundle : public testing::TestWithParam<Golden> {};

TEST_P(GoldenBundle, GivesTheRecordedLogits) {
  const Golden& c = GetParam();
  const Ids ids = PromptIds(kBundles + c.ids);
  const formats::NpyArray want = ReadNpy(kBundles + c.logits);
  auto runner = Open(kBundles + c.file);
  ASSERT_NE(runner, nullptr);
  const std::size_t rows = static_cast<std::size_t>(want.shape[0]);
  for (std::size_t i = 0; i < c.first_row + rows; ++i) {
    const std::vector<float> got = DecodeOne(*runner, ids[i]);
    ASSERT_EQ(static_cast<std::int64_t>(got.size()), want.shape[1]);
    if (i < c.first_row) continue;
    EXPECT_LT(MaxDiff(got, want.data.data() + (i - c.first_row) * got.size()), c.limit) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, GoldenBundle,
    testing::Values(Golden{"tiny-llama-fp32/model.litertlm", "tiny-llama-golden.json",
                           "tiny-llama-golden-logits.npy", 0, 2e-5f},
                    Golden{"tiny-llama-fp32/model.litertlm", "tiny-llama-golden.json",
                           "tiny-llama-fp32/litert_logits_8_16.npy", 8, 2e-5f},
                    Golden{"tiny-llama-wi8/model.litertlm", "tiny-llama-golden.json",
                           "tiny-llama-wi8-dequant-logits-qd8sim.npy", 0, 1e-3f},
                    Golden{"tiny-llama-wi8/model.litertlm", "tiny-llama-golden.json",
                           "tiny-llama-wi8/litert_logits_8_16.npy", 8, 1e-3f},
                    Golden{"tiny-llama-wi4b32/model.litertlm", "tiny-llama-golden.json",
                           "tiny-llama-wi4b32-dequant-logits-qd8sim.npy", 0, 1e-3f},
                    Golden{"tiny-llama-wi4b32/model.litertlm", "tiny-llama-golden.json",
                           "tiny-llama-wi4b32/litert_logits_8_16.npy", 8, 1e-3f},
                    Golden{"tiny-llama-untied-wi8/model.litertlm", "tiny-llama-untied-golden.json",
                           "tiny-llama-untied-wi8/litert_logits_8_16.npy", 8, 1e-3f}),
    [](const auto& test) {
      std::string name = std::string(test.param.file) + test.param.logits;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

// What litert-torch exports with other options; see tests/testdata/bundles/README.md.
const std::string kVariants = HONE_TESTDATA "/bundles/";

class Variant : public testing::TestWithParam<const char*> {};

TEST_P(Variant, GivesThePeersLogitsByDecodeAndBehindPrefill) {
  const std::string folder = kVariants + GetParam();
  const Ids ids = PromptIds(kVariants + "prompt.json");
  const std::span<const std::int32_t> all(ids);
  const bool halves = std::string_view(GetParam()) == "fp16-kv";
  // The peer cannot run float16 activations: there the float model is near.
  const formats::NpyArray want = ReadNpy(folder + (halves ? "/float_logits.npy" : "/logits.npy"));
  const float limit = halves ? 0.05f : 2e-5f;
  auto runner = Open(folder + "/model.litertlm");
  ASSERT_NE(runner, nullptr);
  EXPECT_EQ(runner->context(), 32);
  EXPECT_EQ(runner->vocab(), 64);
  EXPECT_EQ(runner->prefill_lengths(), std::vector<std::int64_t>{4});
  ASSERT_EQ(want.data.size(), ids.size() * 64);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_LT(MaxDiff(DecodeOne(*runner, ids[i]), want.data.data() + i * 64), limit) << i;
  }
  // A whole chunk and a padded one.
  runner->Truncate(0);
  for (const auto& chunk : {all.first(4), all.subspan(4, 2)}) {
    const Status status = runner->Prefill(4, chunk, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  for (std::size_t i = 6; i < ids.size(); ++i) {
    EXPECT_LT(MaxDiff(DecodeOne(*runner, ids[i]), want.data.data() + i * 64), limit) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(LitertTorch, Variant,
                         testing::Values("tokens-in-graph", "bool-mask", "gpu-composites",
                                         "split-cache", "fp16-kv", "weight-only-wi4",
                                         "mistral-window", "gemma3-window"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(BundleRunner, PrefillAndDecodeGiveWhatDecodeAloneGives) {
  const Ids ids = PromptIds(kBundles + "tiny-llama-golden.json");
  auto alone = Open(kBundles + "tiny-llama-fp32/model.litertlm");
  auto runner = Open(kBundles + "tiny-llama-fp32/model.litertlm");
  ASSERT_NE(alone, nullptr);
  ASSERT_NE(runner, nullptr);
  ASSERT_EQ(runner->prefill_lengths(), (std::vector<std::int64_t>{32, 8, 1}));
  EXPECT_EQ(runner->context(), 128);
  EXPECT_EQ(runner->vocab(), 512);
  std::vector<std::vector<float>> want;
  for (std::size_t i = 0; i < 12; ++i) want.push_back(DecodeOne(*alone, ids[i]));
  const std::span<const std::int32_t> all(ids);
  // A whole chunk, a padded one that ends in the middle of the context, and one of length 1.
  ASSERT_TRUE(runner->Prefill(8, all.first(8), nullptr).ok());
  ASSERT_TRUE(runner->Prefill(32, all.subspan(8, 2), nullptr).ok());
  ASSERT_TRUE(runner->Prefill(1, all.subspan(10, 1), nullptr).ok());
  EXPECT_EQ(runner->size(), 11);
  EXPECT_LT(MaxDiff(DecodeOne(*runner, ids[11]), want[11].data()), 1e-5f);
  // What is forgotten has no effect.
  runner->Truncate(5);
  EXPECT_EQ(runner->size(), 5);
  EXPECT_LT(MaxDiff(DecodeOne(*runner, ids[5]), want[5].data()), 1e-5f);
}

TEST(BundleRunner, RefusesWhatDoesNotFit) {
  auto runner = Open(kBundles + "tiny-llama-fp32/model.litertlm");
  ASSERT_NE(runner, nullptr);
  const Ids ids(33, 5);
  const std::span<const std::int32_t> all(ids);
  const auto refused = [&](const Status& status, const char* text) {
    EXPECT_NE(status.message().find(text), std::string_view::npos) << status.message();
  };
  refused(runner->Prefill(16, all.first(2), nullptr), "no prefill signature of length 16");
  refused(runner->Prefill(32, all, nullptr), "takes 1 to 32 tokens, not 33");
  refused(runner->Prefill(32, {}, nullptr), "not 0");
  refused(runner->Decode(512, nullptr).status(), "row 512 of a table that has 512 rows");
  refused(runner->Decode(-1, nullptr).status(), "token -1");
  EXPECT_EQ(runner->size(), 0);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(runner->Prefill(32, all.first(32), nullptr).ok());
  refused(runner->Decode(1, nullptr).status(), "the context has 128");
  runner->Truncate(100);
  refused(runner->Prefill(32, all.first(1), nullptr), "writes 32 positions behind 100");
}

// A decoder whose logits tell what it was given: columns that the mask shows, columns that the
// local mask shows, the sum of the cache (of tokens), and the end in the parameters.
class Probe {
 public:
  using Type = TestGraph::Type;
  using Op = TestGraph::Op;

  Probe() {
    const auto input = [this](const char* name, Type type, TestGraph::Shape shape) {
      std::size_t bytes = type == Type::kBool ? 1 : type == Type::kFloat16 ? 2 : 4;
      for (const std::int32_t dim : shape) bytes *= static_cast<std::size_t>(dim);
      const std::int32_t id = graph.Input({type, std::move(shape), std::vector<std::byte>(bytes)});
      signature().inputs.back().first = name;
      return id;
    };
    const std::int32_t tokens = input("tokens", Type::kInt32, {1, 1});
    const std::int32_t position = input("input_pos", Type::kInt32, {1});
    const std::int32_t mask = input("mask", Type::kFloat16, {1, 1, 1, 8});
    const std::int32_t local = input("local_mask", Type::kBool, {1, 1, 1, 8});
    const std::int32_t params = input("param_tensor", Type::kInt32, {1, 1, 1, 7});
    const std::int32_t cache = input("kv_cache_k_0", Type::kFloat32, {1, 1, 8, 1});
    const std::int32_t zero = graph.Constant(MakeInts({1}, std::vector<std::int32_t>{0}));
    const std::int32_t place =
        graph.Add(Op::kConcatenation, {zero, zero, position, zero}, Type::kInt32, {4});
    const std::int32_t number = graph.Add(Op::kCast, {tokens}, Type::kFloat32, {1, 1});
    const std::int32_t row = graph.Add(Op::kReshape, {number}, Type::kFloat32, {1, 1, 1, 1});
    const std::int32_t updated =
        graph.Add(Op::kDynamicUpdateSlice, {cache, row, place}, Type::kFloat32, {1, 1, 8, 1});
    const std::int32_t half = graph.Constant({Type::kFloat16, {}, std::vector<std::byte>(2)});
    const std::int32_t seen = graph.Add(Op::kEqual, {mask, half}, Type::kBool, {1, 1, 1, 8});
    const std::int32_t end =
        graph.Add(Op::kSlice, {params, graph.Ints({0, 0, 0, 1}), graph.Ints({1, 1, 1, 1})},
                  Type::kInt32, {1, 1, 1, 1});
    std::vector<std::int32_t> parts;
    for (const std::int32_t id : {seen, local, updated, end}) {
      const TestGraph::Shape shape = graph.graph().tensors[static_cast<std::size_t>(id)].shape;
      const std::int32_t floats = graph.Add(Op::kCast, {id}, Type::kFloat32, shape);
      parts.push_back(graph.Add(Op::kSum, {floats, graph.Ints({0, 1, 2, 3})}, Type::kFloat32, {}));
    }
    const std::int32_t packed = graph.Add(Op::kPack, parts, Type::kFloat32, {4});
    graph.Output(graph.Add(Op::kReshape, {packed}, Type::kFloat32, {1, 1, 4}));
    signature().outputs.back().first = "logits";
    graph.Output(updated);
    signature().outputs.back().first = "kv_cache_k_0";
    signature().key = "decode";
  }
  formats::tflite::SignatureDef& signature() { return graph.model.signatures[0]; }

  // A bundle of this decoder and, unless 0, of metadata with a sliding window.
  Result<std::unique_ptr<BundleRunner>> Open(char window) {
    const auto model = formats::tflite::WriteToMemory(graph.model, false, ~0ULL);
    const std::string metadata = {0x0a, 0x08, 0x1a, 0x06, 0x08, 0x01, 0x10, 0x01, 0x18, window};
    formats::litertlm::Header header;
    header.sections.resize(2);
    header.sections[0].type = formats::litertlm::SectionType::kExecutorMetadata;
    header.sections[0].begin = formats::litertlm::kSectionAlignment;
    header.sections[0].end = header.sections[0].begin + metadata.size();
    header.sections[1].type = formats::litertlm::SectionType::kTfliteModel;
    header.sections[1].begin = 2 * formats::litertlm::kSectionAlignment;
    header.sections[1].end = header.sections[1].begin + model.size();
    if (window == 0) header.sections.erase(header.sections.begin());
    HONE_ASSIGN(std::vector<std::byte> bytes, formats::litertlm::EncodeHeader(header));
    bytes.resize(header.sections.back().end);
    std::copy(model.begin(), model.end(), bytes.end() - static_cast<std::ptrdiff_t>(model.size()));
    std::memcpy(bytes.data() + formats::litertlm::kSectionAlignment, metadata.data(),
                metadata.size());
    const std::string path = testing::TempDir() + "hone_probe.litertlm";
    HONE_TRY(WriteFileAtomic(path, bytes));
    HONE_ASSIGN(auto bundle, formats::litertlm::Bundle::Open(path));
    auto runner = BundleRunner::Open(std::move(bundle));
    std::remove(path.c_str());
    return runner;
  }

  TestGraph graph;
};

TEST(BundleRunner, FillsMasksParametersAndCaches) {
  Probe probe;
  auto runner = probe.Open(2);
  ASSERT_TRUE(runner.ok()) << runner.message();
  EXPECT_EQ((*runner)->context(), 8);
  EXPECT_TRUE((*runner)->prefill_lengths().empty());
  EXPECT_EQ(DecodeOne(**runner, 5), (std::vector<float>{1, 1, 5, 1}));
  EXPECT_EQ(DecodeOne(**runner, 7), (std::vector<float>{2, 2, 12, 2}));
  EXPECT_EQ(DecodeOne(**runner, 9), (std::vector<float>{3, 2, 21, 3}));
  (*runner)->Truncate(1);
  EXPECT_EQ(DecodeOne(**runner, 1), (std::vector<float>{2, 2, 15, 2}));
}

TEST(BundleRunner, RefusesByNameWhatItCannotDrive) {
  const auto refused = [](char window, auto change, const std::string& text) {
    Probe probe;
    change(probe);
    const auto runner = probe.Open(window);
    EXPECT_NE(runner.message().find(text), std::string_view::npos)
        << text << ": " << runner.message();
  };
  const auto rename = [](std::size_t i, const char* name) {
    return [i, name](Probe& probe) { probe.signature().inputs[i].first = name; };
  };
  refused(0, [](Probe&) {}, "no sliding window");
  refused(2, rename(4, "mystery"), "signature 'decode': input 'mystery' is of a kind");
  refused(2, rename(5, "kv_cache_c_0"), "input 'kv_cache_c_0' is of a kind");
  refused(2, rename(4, "mask_global"), "");
  refused(2, rename(0, "embeddings"), "input 'embeddings' is int32 [ 1 1 ]");
  refused(2, rename(1, "attn_mask"), "input 'attn_mask' is int32");
  refused(2, [](Probe& p) { p.signature().key = "other"; }, "no signature 'decode'");
  refused(2, [](Probe& p) { p.signature().outputs[0].first = "other"; }, "no output 'logits'");
  refused(
      2, [](Probe& p) { p.signature().outputs[1].first = "other"; }, "no output 'kv_cache_k_0'");
}

TEST(BundleRunner, StopsWhenCancelledAndGoesOnAfterwards) {
  const Ids ids = PromptIds(kBundles + "tiny-llama-golden.json");
  auto runner = Open(kBundles + "tiny-llama-fp32/model.litertlm");
  ASSERT_NE(runner, nullptr);
  const std::vector<float> want = DecodeOne(*runner, ids[0]);
  runner->Truncate(0);
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(runner->Decode(ids[0], &cancel).code(), Code::kCancelled);
  EXPECT_EQ(runner->size(), 0);
  EXPECT_EQ(DecodeOne(*runner, ids[0]), want);
}

}  // namespace
}  // namespace hone::executor
