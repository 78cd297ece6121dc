// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The runtime against logits and tokens that transformers and litert-torch wrote.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "formats/litertlm/litertlm.h"
#include "formats/npy.h"
#include "formats/tflite/tflite.h"
#include "runtime/batcher.h"
#include "runtime/decode_loop.h"
#include "runtime/engine.h"
#include "runtime/engine_words.h"

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kGolden = HONE_SHARED_DATA "/golden/";

Json ReadGolden(const std::string& path) {
  auto text = ReadFile(kGolden + path);
  EXPECT_TRUE(text.ok()) << text.message();
  auto json = ParseJson(text.ok() ? *text : "null");
  EXPECT_TRUE(json.ok()) << json.message();
  return *std::move(json);
}

formats::NpyArray ReadNpy(const std::string& path) {
  auto bytes = ReadFile(kGolden + path);
  EXPECT_TRUE(bytes.ok()) << bytes.message();
  auto array = formats::ParseNpy(AsBytes(*bytes));
  EXPECT_TRUE(array.ok()) << array.message();
  return *std::move(array);
}

Ids ToIds(const Json& array) {
  Ids ids;
  for (const Json& id : array.AsArray()) ids.push_back(static_cast<std::int32_t>(id.AsInt()));
  return ids;
}

std::vector<float> AllLogits(Engine& engine, const Ids& ids) {
  auto sequence = engine.NewSequence();
  EXPECT_TRUE(sequence.ok());
  std::vector<float> logits;
  const Status status = engine.Run(Step{{{sequence->get(), ids, true}}}, &logits);
  EXPECT_TRUE(status.ok()) << status.message();
  return logits;
}

// The largest difference between a row of got and a row of want, vocab values each.
float MaxDiff(const std::vector<float>& got, std::size_t got_row, const formats::NpyArray& want,
              std::size_t want_row) {
  const auto vocab = static_cast<std::size_t>(want.shape[1]);
  float worst = 0;
  for (std::size_t i = 0; i < vocab; ++i) {
    const float diff = std::fabs(got[got_row * vocab + i] - want.data[want_row * vocab + i]);
    worst = std::max(worst, std::isnan(diff) ? HUGE_VALF : diff);
  }
  return worst;
}

// Greedy tokens must agree up to the first step whose gap is below the limit.
void ExpectGreedy(Engine& engine, const Ids& prompt, const Ids& want, const Json& gaps,
                  double limit) {
  auto sequence = engine.NewSequence();
  ASSERT_TRUE(sequence.ok());
  GenerateOptions options;
  options.max_tokens = static_cast<std::int64_t>(want.size());
  auto answer = Generate(engine, **sequence, prompt, options);
  ASSERT_TRUE(answer.ok()) << answer.message();
  ASSERT_EQ(answer->ids.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (answer->ids[i] == want[i]) continue;
    EXPECT_LT(gaps.AsArray()[i].AsDouble(), limit)
        << "step " << i << ": got " << answer->ids[i] << ", want " << want[i];
    return;
  }
}

class Family : public testing::TestWithParam<const char*> {};

TEST_P(Family, GivesTheLogitsAndTokensOfTransformers) {
  const std::string folder = std::string("families/") + GetParam() + "/";
  const Json golden = ReadGolden(folder + "golden.json");
  const formats::NpyArray want = ReadNpy(folder + "logits.npy");
  // Without text: no stop tokens, as the recorded tokens went on after them.
  auto model = LoadModel(kGolden + folder + "hf", nullptr);
  ASSERT_TRUE(model.ok()) << model.message();
  auto engine =
      Engine::FromModel(*std::move(model), {}, {.num_threads = 2, .kv = KvChoice::kF32}, folder);
  ASSERT_TRUE(engine.ok()) << engine.message();
  for (const Json& prompt : golden.Find("prompts")->AsArray()) {
    const Ids ids = ToIds(*prompt.Find("ids"));
    const std::vector<float> got = AllLogits(**engine, ids);
    const auto row = [&](const char* key) {
      return static_cast<std::size_t>(prompt.Find(key)->AsInt());
    };
    EXPECT_LT(MaxDiff(got, ids.size() - 1, want, row("row_last")), 5e-4F) << ids.size();
    EXPECT_LT(MaxDiff(got, 3, want, row("row_pos3")), 5e-4F) << ids.size();
    ExpectGreedy(**engine, ids, ToIds(*prompt.Find("greedy_24")), *prompt.Find("greedy_gap"), 2e-3);
  }
}

TEST_P(Family, GivesTheSameBitsToPromptsInOneStep) {
  const std::string folder = std::string("families/") + GetParam() + "/";
  const Json golden = ReadGolden(folder + "golden.json");
  auto model = LoadModel(kGolden + folder + "hf", nullptr);
  ASSERT_TRUE(model.ok()) << model.message();
  auto engine =
      Engine::FromModel(*std::move(model), {}, {.num_threads = 2, .kv = KvChoice::kF16}, folder);
  ASSERT_TRUE(engine.ok()) << engine.message();
  std::vector<Ids> prompts;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<float> want, got;
  for (const Json& prompt : golden.Find("prompts")->AsArray()) {
    prompts.push_back(ToIds(*prompt.Find("ids")));
    const std::vector<float> alone = AllLogits(**engine, prompts.back());
    want.insert(want.end(), alone.begin(), alone.end());
    auto sequence = (*engine)->NewSequence();
    ASSERT_TRUE(sequence.ok()) << sequence.message();
    sequences.push_back(*std::move(sequence));
  }
  Step step;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    step.parts.push_back({sequences[i].get(), prompts[i], true});
  }
  ASSERT_TRUE((*engine)->Run(step, &got).ok());
  EXPECT_EQ(got, want);
}

INSTANTIATE_TEST_SUITE_P(Golden, Family,
                         testing::Values("llama-gqa8", "llama-tied", "llama-sharded", "llama-bias",
                                         "llama3-rope", "llama-yarn", "mistral-sliding", "qwen2",
                                         "qwen3", "smollm3", "minicpm4-short", "minicpm4-long"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Small checkpoints of families that golden/families does not have.
class TinyFamily : public testing::TestWithParam<std::string> {};

TEST_P(TinyFamily, GivesTheLogitsOfTransformers) {
  const std::string folder = HONE_TESTDATA "/families/" + GetParam() + "/";
  auto golden_text = ReadFile(folder + "golden.json");
  ASSERT_TRUE(golden_text.ok()) << golden_text.message();
  auto golden = ParseJson(*golden_text);
  ASSERT_TRUE(golden.ok()) << golden.message();
  auto npy = ReadFile(folder + "logits.npy");
  ASSERT_TRUE(npy.ok()) << npy.message();
  auto want = formats::ParseNpy(AsBytes(*npy));
  ASSERT_TRUE(want.ok()) << want.message();
  auto engine = Engine::Open(folder, {.num_threads = 2, .kv = KvChoice::kF32});
  ASSERT_TRUE(engine.ok()) << engine.message();
  std::size_t want_row = 0;
  for (const Json& prompt : golden->Find("prompts")->AsArray()) {
    const Ids ids = ToIds(*prompt.Find("ids"));
    const std::vector<float> got = AllLogits(**engine, ids);
    for (const Json& position : prompt.Find("positions")->AsArray()) {
      EXPECT_LT(MaxDiff(got, static_cast<std::size_t>(position.AsInt()), *want, want_row), 5e-4F)
          << ids.size() << " tokens, position " << position.AsInt();
      ++want_row;
    }
  }
  EXPECT_EQ(want_row, static_cast<std::size_t>(want->shape[0]));
}

std::vector<std::string> TinyFamilies() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(HONE_TESTDATA "/families")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Golden, TinyFamily, testing::ValuesIn(TinyFamilies()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Batcher, GivesTheTokensOfGenerate) {
  const Json golden = ReadGolden("families/qwen3/golden.json");
  auto engine = Engine::Open(kGolden + "families/qwen3/hf", {.num_threads = 2});
  ASSERT_TRUE(engine.ok()) << engine.message();
  struct Request {
    std::unique_ptr<Sequence> sequence;
    std::unique_ptr<Sampler> sampler;
    Ids want, got;
  };
  std::vector<Request> requests(golden.Find("prompts")->AsArray().size());
  Batcher batcher(**engine);
  const Ids& stop_ids = (*engine)->text().stop_ids;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    const Ids ids = ToIds(*golden.Find("prompts")->AsArray()[i].Find("ids"));
    auto sequence = (*engine)->NewSequence();
    ASSERT_TRUE(sequence.ok()) << sequence.message();
    request.sequence = *std::move(sequence);
    GenerateOptions options;
    options.max_tokens = 12;
    options.sampler = {.temperature = 1, .top_p = 0.9F, .seed = i};
    auto answer = Generate(**engine, *request.sequence, ids, options);
    ASSERT_TRUE(answer.ok()) << answer.message();
    request.want = answer->ids;
    request.sequence->Truncate(0);
    request.sampler = std::make_unique<Sampler>(options.sampler, (*engine)->text().suppress_ids);
    auto id = batcher.Submit(
        {.sequence = request.sequence.get(),
         .prompt = ids,
         .choose = [&](std::span<const float> logits,
                       std::span<const std::int32_t> history) -> std::optional<std::int32_t> {
           const std::int32_t next = request.sampler->Sample(logits, history);
           if (std::count(stop_ids.begin(), stop_ids.end(), next) > 0) return std::nullopt;
           request.got.push_back(next);
           if (request.got.size() == 12) return std::nullopt;
           return next;
         },
         .done = [](const Result<FinishReason>& end) { EXPECT_TRUE(end.ok()) << end.message(); }});
    ASSERT_TRUE(id.ok()) << id.message();
  }
  while (batcher.Step()) {
  }
  for (const Request& request : requests) EXPECT_EQ(request.got, request.want);
}

struct BundleCase {
  const char* file;
  const char* logits;
  std::size_t first_row;  // of the prompt that the first row of logits belongs to
};

class GoldenBundle : public testing::TestWithParam<BundleCase> {};

TEST_P(GoldenBundle, GivesTheRecordedLogits) {
  const BundleCase& c = GetParam();
  const bool untied = std::string_view(c.file).find("untied") != std::string_view::npos;
  const Json golden = ReadGolden(untied ? "bundles/tiny-llama-untied-golden.json"
                                        : "bundles/tiny-llama-golden.json");
  const Ids ids = ToIds(*golden.Find("prompt_ids"));
  const formats::NpyArray want = ReadNpy(std::string("bundles/") + c.logits);
  auto engine = Engine::Open(kGolden + "bundles/" + c.file, {.kv = KvChoice::kF32});
  ASSERT_TRUE(engine.ok()) << engine.message();
  const std::vector<float> got = AllLogits(**engine, ids);
  for (std::size_t row = 0; row < static_cast<std::size_t>(want.shape[0]); ++row) {
    EXPECT_LT(MaxDiff(got, c.first_row + row, want, row), 1e-3F) << "position " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, GoldenBundle,
    testing::Values(BundleCase{"tiny-llama-fp32/model.litertlm", "tiny-llama-golden-logits.npy", 0},
                    BundleCase{"tiny-llama-fp32/model-fixed-template-nobos.litertlm",
                               "tiny-llama-golden-logits.npy", 0},
                    BundleCase{"tiny-llama-wi8/model.litertlm",
                               "tiny-llama-wi8-dequant-logits-qd8sim.npy", 0},
                    BundleCase{"tiny-llama-wi8/model-fixed-template-nobos.litertlm",
                               "tiny-llama-wi8-dequant-logits-qd8sim.npy", 0},
                    BundleCase{"tiny-llama-wi4b32/model.litertlm",
                               "tiny-llama-wi4b32-dequant-logits-qd8sim.npy", 0},
                    BundleCase{"tiny-llama-wi4b32/model-fixed-template-nobos.litertlm",
                               "tiny-llama-wi4b32-dequant-logits-qd8sim.npy", 0},
                    BundleCase{"tiny-llama-untied-wi8/model.litertlm",
                               "tiny-llama-untied-wi8/litert_logits_8_16.npy", 8}),
    [](const auto& test) {
      std::string name = test.param.file;
      name = name.substr(0, name.find(".litertlm"));
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

TEST(GoldenBundle, ComputesDequantizedWeightsWithFloatActivationsOnRequest) {
  const Ids ids = ToIds(*ReadGolden("bundles/tiny-llama-golden.json").Find("prompt_ids"));
  for (const std::string name : {"tiny-llama-wi8", "tiny-llama-wi4b32"}) {
    const formats::NpyArray want = ReadNpy("bundles/" + name + "-dequant-logits.npy");
    auto engine = Engine::Open(kGolden + "bundles/" + name + "/model.litertlm",
                               {.compute = ComputeChoice::kF32, .kv = KvChoice::kF32});
    ASSERT_TRUE(engine.ok()) << engine.message();
    const std::vector<float> got = AllLogits(**engine, ids);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      EXPECT_LT(MaxDiff(got, row, want, row), 1e-3F) << name << " position " << row;
    }
  }
}

TEST(GoldenBundle, ChoosesComputeAndCacheByItsWeights) {
  auto quantized = Engine::Open(kGolden + "bundles/tiny-llama-wi4b32/model.litertlm", {});
  ASSERT_TRUE(quantized.ok()) << quantized.message();
  EXPECT_EQ((*quantized)->compute(), kernels::Compute::kQ8);
  EXPECT_EQ((*quantized)->kv_type(), kernels::KvType::kF16);
  auto floats = Engine::Open(kGolden + "bundles/tiny-llama-fp32/model.litertlm", {});
  ASSERT_TRUE(floats.ok()) << floats.message();
  EXPECT_EQ((*floats)->compute(), kernels::Compute::kF32);
  EXPECT_EQ((*floats)->kv_type(), kernels::KvType::kF32);
}

TEST(GraphEngine, GivesTheRecordedLogitsAndTheTokensOfTheKernels) {
  const Json golden = ReadGolden("bundles/tiny-llama-golden.json");
  const Ids ids = ToIds(*golden.Find("prompt_ids"));
  const formats::NpyArray want = ReadNpy("bundles/tiny-llama-golden-logits.npy");
  const std::string path = kGolden + "bundles/tiny-llama-fp32/model.litertlm";
  auto graph = Engine::Open(path, {.run = RunChoice::kGraph});
  ASSERT_TRUE(graph.ok()) << graph.message();
  auto kernels = Engine::Open(path, {.run = RunChoice::kKernels});
  ASSERT_TRUE(kernels.ok()) << kernels.message();
  EXPECT_TRUE((*graph)->runs_graph());
  EXPECT_EQ(WordsOf(**graph).engine, "graph");
  EXPECT_EQ(WordsOf(**graph).compute + WordsOf(**graph).kv, "");
  EXPECT_FALSE((*kernels)->runs_graph());
  EXPECT_EQ((*graph)->spec().vocab, (*kernels)->spec().vocab);
  EXPECT_EQ((*graph)->spec().max_positions, (*kernels)->spec().max_positions);
  const std::vector<float> got = AllLogits(**graph, ids);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    EXPECT_LT(MaxDiff(got, row, want, row), 1e-3F) << "position " << row;
  }
  GenerateOptions options;
  options.max_tokens = 6;
  Ids tokens[2];
  for (int i = 0; i < 2; ++i) {
    Engine& engine = i == 0 ? **graph : **kernels;
    auto sequence = engine.NewSequence();
    ASSERT_TRUE(sequence.ok()) << sequence.message();
    // The second answer keeps a part of the first one's cache.
    for (const std::size_t length : {ids.size(), ids.size() - 3}) {
      auto answer = Generate(engine, **sequence, std::span(ids).first(length), options);
      ASSERT_TRUE(answer.ok()) << answer.message();
      tokens[i].insert(tokens[i].end(), answer->ids.begin(), answer->ids.end());
    }
  }
  EXPECT_FALSE(tokens[0].empty());
  EXPECT_EQ(tokens[0], tokens[1]);
}

TEST(GraphEngine, SequencesHaveCachesOfTheirOwnAndForgetWhatTheyAreTold) {
  const Ids ids = ToIds(*ReadGolden("bundles/tiny-llama-golden.json").Find("prompt_ids"));
  auto engine =
      Engine::Open(kGolden + "bundles/tiny-llama-fp32/model.litertlm", {.run = RunChoice::kGraph});
  ASSERT_TRUE(engine.ok()) << engine.message();
  const Ids other(ids.rbegin(), ids.rend());
  const std::vector<float> want = AllLogits(**engine, ids);
  auto a = (*engine)->NewSequence();
  auto b = (*engine)->NewSequence();
  ASSERT_TRUE(a.ok() && b.ok());
  std::vector<float> got, ignored;
  const auto front = std::span(ids).first(4), back = std::span(ids).subspan(4);
  ASSERT_TRUE((*engine)->Run(Step{{{a->get(), ids, false}}}, nullptr).ok());
  ASSERT_TRUE((*engine)->Run(Step{{{b->get(), other, false}}}, &ignored).ok());
  (*a)->Truncate(0);
  ASSERT_TRUE((*engine)->Run(Step{{{a->get(), front, true}}}, &got).ok());
  const std::atomic<bool> cancel{true};
  EXPECT_EQ((*engine)->Run(Step{{{a->get(), back, true}}}, &ignored, &cancel).code(),
            Code::kCancelled);
  EXPECT_EQ((*a)->size(), 4);
  std::vector<float> rest;
  ASSERT_TRUE((*engine)->Run(Step{{{a->get(), back, true}}}, &rest).ok());
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, want);
}

TEST(GraphEngine, HoldsNoMoreThanTheContextAskedFor) {
  const std::string path = kGolden + "bundles/tiny-llama-fp32/model.litertlm";
  auto engine = Engine::Open(path, {.run = RunChoice::kGraph, .context = 5});
  ASSERT_TRUE(engine.ok()) << engine.message();
  EXPECT_EQ((*engine)->spec().max_positions, 5);
  auto sequence = (*engine)->NewSequence();
  ASSERT_TRUE(sequence.ok());
  const Ids six(6, 1);
  const Status status = (*engine)->Run(Step{{{sequence->get(), six}}}, nullptr);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
  auto larger = Engine::Open(path, {.run = RunChoice::kGraph, .context = 1000000});
  EXPECT_EQ(larger.code(), Code::kInvalidArgument);
  EXPECT_NE(larger.message().find("the context asked for is 1000000"), std::string::npos)
      << larger.message();
}

TEST(GraphEngine, RefusesWhatHasNoGraph) {
  auto engine = Engine::Open(kGolden + "families/qwen2/hf", {.run = RunChoice::kGraph});
  EXPECT_EQ(engine.code(), Code::kInvalidArgument);
  EXPECT_NE(engine.message().find(".litertlm"), std::string::npos) << engine.message();
}

// A golden bundle whose activation is tanh(x) x: a graph like any other, but no model that the
// lifter knows.
void WriteBundleThatCannotBeLifted(const std::string& path) {
  namespace litertlm = formats::litertlm;
  auto bundle = litertlm::Bundle::Open(kGolden + "bundles/tiny-llama-fp32/model.litertlm");
  ASSERT_TRUE(bundle.ok()) << bundle.message();
  const litertlm::Section* decoder =
      (*bundle)->Find(litertlm::SectionType::kTfliteModel, "tf_lite_prefill_decode");
  ASSERT_NE(decoder, nullptr);
  auto model = formats::tflite::ReadModel((*bundle)->SectionBytes(*decoder));
  ASSERT_TRUE(model.ok()) << model.message();
  for (auto& subgraph : model->subgraphs) {
    for (auto& op : subgraph.operators) {
      if (op.op == formats::tflite::Op::kLogistic) op.op = formats::tflite::Op::kTanh;
    }
  }
  auto plan = formats::tflite::PlanModel(*model);
  ASSERT_TRUE(plan.ok()) << plan.message();
  ASSERT_EQ(plan->total_bytes, plan->head.size());
  litertlm::Header header = (*bundle)->header();
  std::string file;
  std::uint64_t at = litertlm::kSectionAlignment;
  for (std::size_t i = 0; i < header.sections.size(); ++i) {
    const litertlm::Section& old = (*bundle)->header().sections[i];
    const ByteSpan bytes = &old == decoder ? ByteSpan(plan->head) : (*bundle)->SectionBytes(old);
    header.sections[i].begin = at;
    header.sections[i].end = at + bytes.size();
    file.resize(at);
    file += AsText(bytes);
    at = (file.size() + litertlm::kSectionAlignment - 1) / litertlm::kSectionAlignment *
         litertlm::kSectionAlignment;
  }
  auto head = litertlm::EncodeHeader(header);
  ASSERT_TRUE(head.ok()) << head.message();
  file.replace(0, head->size(), AsText(*head));
  std::ofstream(path, std::ios::binary) << file;
}

TEST(GraphEngine, RunsABundleThatCannotBeLiftedAndSaysThatItIsSlow) {
  const std::string path = testing::TempDir() + "/hone_not_lifted.litertlm";
  WriteBundleThatCannotBeLifted(path);
  if (HasFatalFailure()) return;
  const Ids ids = ToIds(*ReadGolden("bundles/tiny-llama-golden.json").Find("prompt_ids"));
  auto engine = Engine::Open(path, {});
  ASSERT_TRUE(engine.ok()) << engine.message();
  EXPECT_TRUE((*engine)->runs_graph());
  ASSERT_FALSE((*engine)->warnings().empty());
  const std::string& warning = (*engine)->warnings().back();
  EXPECT_NE(warning.find("slow"), std::string::npos) << warning;
  EXPECT_NE(warning.find("signature decode"), std::string::npos) << warning;
  auto forced = Engine::Open(path, {.run = RunChoice::kGraph});
  ASSERT_TRUE(forced.ok()) << forced.message();
  EXPECT_EQ(AllLogits(**engine, ids), AllLogits(**forced, ids));
  // Asked for kernels, or for the model as stored, it is refused.
  EXPECT_EQ(Engine::Open(path, {.run = RunChoice::kKernels}).code(), Code::kUnsupported);
  EXPECT_EQ(LoadModel(path, nullptr).code(), Code::kUnsupported);
  std::filesystem::remove(path);
}

TEST(GoldenBundle, SaysWhatEndsAnAnswer) {
  auto text =
      LoadText(kGolden + "bundles/tiny-llama-fp32/model-fixed-template-nobos.litertlm", nullptr);
  ASSERT_TRUE(text.ok()) << text.message();
  EXPECT_TRUE(text->is_bundle);
  ASSERT_TRUE(text->tokenizer.has_value());
  EXPECT_TRUE(text->chat_template.has_value()) << text->template_error;
  EXPECT_FALSE(text->start_id.has_value());
  EXPECT_EQ(text->stop_ids, Ids{2});
  EXPECT_FALSE(text->stop_strings.empty());
  auto exported = LoadText(kGolden + "bundles/tiny-llama-fp32/model.litertlm", nullptr);
  ASSERT_TRUE(exported.ok()) << exported.message();
  EXPECT_EQ(exported->start_id, 1);  // "<|im_start|>"
}

}  // namespace
}  // namespace hone::runtime
