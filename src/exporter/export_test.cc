// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "bridge/sha256.h"
#include "codec/weight.h"
#include "exporter/bundle_writer.h"
#include "formats/litertlm/litertlm.h"
#include "formats/litertlm/llm_metadata.h"
#include "formats/tflite/largest_tensors.h"
#include "formats/tflite/tflite.h"
#include "graph/builder.h"
#include "graph/largest_tensors.h"
#include "model/checkpoint.h"
#include "quant/quantize.h"

namespace hone::exporter {
namespace {

namespace fs = std::filesystem;
namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;

const std::string kGolden = std::string(HONE_SHARED_DATA) + "/golden/";

class Export : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.File(name); }

  static model::Checkpoint Open(const std::string& source) {
    auto checkpoint = model::OpenCheckpoint(kGolden + source);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.message();
    return *std::move(checkpoint);
  }

  static ExportOptions Options(const char* preset) {
    ExportOptions options;
    auto recipe = quant::GetPreset(preset);
    EXPECT_TRUE(recipe.ok());
    options.recipe = *std::move(recipe);
    options.num_threads = 1;
    return options;
  }

  ExportReport Write(const std::string& source, const ExportOptions& options,
                     const std::string& name) const {
    auto report = ExportBundle(Open(source), options, Path(name));
    EXPECT_TRUE(report.ok()) << report.message();
    return report.ok() ? *std::move(report) : ExportReport();
  }

  std::shared_ptr<const litertlm::Bundle> Load(const std::string& name) const {
    auto bundle = litertlm::Bundle::Open(Path(name));
    EXPECT_TRUE(bundle.ok()) << bundle.message();
    return bundle.ok() ? *std::move(bundle) : nullptr;
  }

  TestFolder folder_;
};

tflite::Model ReadSection(const litertlm::Bundle& bundle, std::string_view model_type) {
  const litertlm::Section* section = bundle.Find(litertlm::SectionType::kTfliteModel, model_type);
  EXPECT_NE(section, nullptr);
  auto model = tflite::ReadModel(bundle.SectionBytes(*section));
  EXPECT_TRUE(model.ok()) << model.message();
  return *std::move(model);
}

// "ADD v1 float32/3 float32/0 -> float32/3": type and rank of every operand.
std::set<std::string> Operations(const tflite::Model& model) {
  std::set<std::string> out;
  for (const tflite::Subgraph& subgraph : model.subgraphs) {
    const auto operand = [&](std::int32_t id) {
      if (id < 0) return std::string("-");
      const tflite::Tensor& t = subgraph.tensors[static_cast<std::size_t>(id)];
      return StrCat(tflite::TensorTypeName(t.type), "/", t.shape.size());
    };
    for (const tflite::Operator& op : subgraph.operators) {
      std::string text = StrCat(tflite::OpName(op.op), " v", op.version);
      for (const std::int32_t id : op.inputs) text += " " + operand(id);
      text += " ->";
      for (const std::int32_t id : op.outputs) text += " " + operand(id);
      out.insert(text);
    }
  }
  return out;
}

// The same from the listing of a bundle of litert-torch. Lines of an operation:
//   [8] RESHAPE v1
//         i0 #45 FLOAT32[1, 32, 64] "name"
//         i2 -
//         o0 #46 ...
std::set<std::string> ListedOperations(const std::string& path) {
  auto text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.message();
  std::set<std::string> out;
  std::string current;
  bool has_output = false;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second, third;
    words >> first >> second >> third;
    if (line.starts_with("[")) {
      if (!current.empty()) out.insert(current);
      current = second + " " + third;
      has_output = false;
      continue;
    }
    if (!line.starts_with("      ") || current.empty()) continue;
    if (first[0] == 'o' && !has_output) {
      current += " ->";
      has_output = true;
    }
    if (second == "-") {
      current += " -";
      continue;
    }
    const std::size_t open = line.find('[');
    const std::string shape = line.substr(open, line.find(']', open) - open + 1);
    const auto rank = shape == "[]" ? 0 : 1 + std::count(shape.begin(), shape.end(), ',');
    std::string type = third.substr(0, third.find('['));
    std::transform(type.begin(), type.end(), type.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    current += StrCat(" ", type, "/", rank);
  }
  out.insert(current);
  return out;
}

TEST_F(Export, UsesOnlyOperationsTypesAndRanksThatLitertTorchUses) {
  std::set<std::string> decoder_ops, embedder_ops;
  for (const char* name : {"tiny-llama-fp32", "tiny-llama-wi8", "tiny-llama-wi4b32"}) {
    const std::string folder = kGolden + "bundles/" + name + "/";
    decoder_ops.merge(ListedOperations(folder + "dissect-model.txt"));
    auto map = MappedFile::Open(folder + "embedder.tflite");
    ASSERT_TRUE(map.ok()) << map.message();
    auto model = tflite::ReadModel(map->bytes());
    ASSERT_TRUE(model.ok()) << model.message();
    embedder_ops.merge(Operations(*model));
  }
  ASSERT_GT(decoder_ops.size(), 20u);
  ASSERT_GE(embedder_ops.size(), 4u);
  for (const char* preset : {"none", "int8", "int4"}) {
    ExportOptions options = Options(preset);
    options.context = 128;
    options.prefill = {32, 8, 1};
    Write("bundles/tiny-llama-hf", options, "m.litertlm");
    const auto bundle = Load("m.litertlm");
    for (const std::string& op : Operations(ReadSection(*bundle, "tf_lite_prefill_decode"))) {
      EXPECT_TRUE(decoder_ops.contains(op)) << preset << ": " << op;
    }
    for (const std::string& op : Operations(ReadSection(*bundle, "tf_lite_embedder"))) {
      EXPECT_TRUE(embedder_ops.contains(op)) << preset << ": " << op;
    }
  }
}

// What a plain Llama's decoder was before the builder learned about other models.
TEST_F(Export, AnLlamaDecoderKeepsItsBytes) {
  const std::pair<const char*, const char*> kExpected[] = {
      {"families/llama-gqa8/hf",
       "d646dff5dae9be766e811a92c1a8cef5358423589b7d4a1c5fc87a280d61815a"},
      {"families/llama-yarn/hf",
       "99cbaa1b7d47b548d1527f4e6c34f2f8b3dc0bda0046b2984a8921b7b7040647"}};
  for (const auto& [source, sha256] : kExpected) {
    ExportOptions options = Options("none");
    options.context = 128;
    options.prefill = {32, 8, 1};
    Write(source, options, "m.litertlm");
    const auto bundle = Load("m.litertlm");
    const litertlm::Section* section =
        bundle->Find(litertlm::SectionType::kTfliteModel, "tf_lite_prefill_decode");
    ASSERT_NE(section, nullptr);
    EXPECT_EQ(bridge::Sha256Hex(bundle->SectionBytes(*section)), sha256) << source;
  }
}

TEST_F(Export, WritesFloat16CachesAndThePreferredTypeOnlyWhenAsked) {
  ExportOptions options = Options("none");
  options.context = 64;
  Write("families/llama-gqa8/hf", options, "plain.litertlm");
  options.half_cache = true;
  options.prefer_activation_type = "fp32_fp16";
  options.source = {.repository = "org/name", .revision = "0123abcd"};
  Write("families/llama-gqa8/hf", options, "half.litertlm");
  for (const bool half : {false, true}) {
    const auto bundle = Load(half ? "half.litertlm" : "plain.litertlm");
    const tflite::Model model = ReadSection(*bundle, "tf_lite_prefill_decode");
    for (const tflite::SignatureDef& signature : model.signatures) {
      for (const auto& [name, id] : signature.inputs) {
        if (!name.starts_with("kv_cache_")) continue;
        EXPECT_EQ(model.subgraphs[signature.subgraph].tensors[id].type,
                  half ? tflite::TensorType::kFloat16 : tflite::TensorType::kFloat32);
      }
    }
    const litertlm::Section* section =
        bundle->Find(litertlm::SectionType::kTfliteModel, "tf_lite_prefill_decode");
    EXPECT_EQ(section->Item("prefer_activation_type"), half ? "fp32_fp16" : "");
    const litertlm::Section* facts = bundle->Find(litertlm::SectionType::kGenericBinaryData);
    auto json = ParseJson(AsText(bundle->SectionBytes(*facts)));
    ASSERT_TRUE(json.ok());
    EXPECT_EQ(json->Find("kv") != nullptr, half);
    ASSERT_EQ(json->Find("source") != nullptr, half);
    if (!half) continue;
    EXPECT_EQ(json->Find("source")->Find("revision")->AsString(), "0123abcd");
  }
}

TEST_F(Export, TheLargestTensorsOfTheFileAreThoseOfTheGraph) {
  for (const char* preset : {"none", "int4"}) {
    ExportOptions options = Options(preset);
    options.context = 128;
    options.prefill = {32, 1};
    Write("families/llama-gqa8/hf", options, "m.litertlm");
    const model::Checkpoint checkpoint = Open("families/llama-gqa8/hf");
    auto schemes = quant::Resolve(options.recipe, checkpoint.model.spec, false);
    ASSERT_TRUE(schemes.ok());
    auto graph =
        graph::BuildDecoder(checkpoint.model, *schemes, {.context = 128, .prefill = {32, 1}});
    ASSERT_TRUE(graph.ok());
    const auto expected = graph::LargestTensors(*graph, 5);
    const auto found =
        tflite::LargestTensors(ReadSection(*Load("m.litertlm"), "tf_lite_prefill_decode"), 5);
    ASSERT_EQ(found.size() * 5, expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i / 5].key, expected[i].signature);
      EXPECT_EQ(found[i / 5].largest[i % 5].name, expected[i].name);
      EXPECT_EQ(found[i / 5].largest[i % 5].bytes, expected[i].bytes);
    }
  }
}

TEST_F(Export, HasTheSectionsOfABundleInOrder) {
  Write("families/llama-tied/hf", Options("int4"), "m.litertlm");
  const auto bundle = Load("m.litertlm");
  std::vector<std::string> names;
  for (const litertlm::Section& section : bundle->header().sections) {
    EXPECT_EQ(section.begin % litertlm::kSectionAlignment, 0u);
    names.push_back(StrCat(litertlm::SectionTypeName(section.type), " ", section.Item("model_type"),
                           section.Item("name")));
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{
                StrCat(litertlm::SectionTypeName(litertlm::SectionType::kLlmMetadata), " "),
                StrCat(litertlm::SectionTypeName(litertlm::SectionType::kExecutorMetadata), " "),
                StrCat(litertlm::SectionTypeName(litertlm::SectionType::kHfTokenizerZlib), " "),
                "TFLiteModel tf_lite_prefill_decode", "TFLiteModel tf_lite_embedder",
                "GenericBinaryData hone.json"}));
  EXPECT_TRUE(bundle->warnings().empty());
}

TEST_F(Export, GivesEqualBytesForEqualInputAndOptions) {
  ExportOptions options = Options("int4");
  const ExportReport first = Write("families/llama-gqa8/hf", options, "a.litertlm");
  options.num_threads = 3;
  const ExportReport second = Write("families/llama-gqa8/hf", options, "b.litertlm");
  EXPECT_EQ(first.sha256, second.sha256);
  auto bytes = ReadFile(Path("a.litertlm"));
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->size(), first.bytes);
  EXPECT_EQ(bridge::Sha256Hex(AsBytes(*bytes)), first.sha256);
  options.context = 64;
  EXPECT_NE(Write("families/llama-gqa8/hf", options, "c.litertlm").sha256, first.sha256);
}

// The weight named by a tensor's name in a section, with its scales.
codec::WeightView FindWeight(const tflite::Model& model, std::string_view name,
                             codec::WeightType type) {
  for (const tflite::Subgraph& subgraph : model.subgraphs) {
    for (const tflite::Tensor& t : subgraph.tensors) {
      if (t.name != name) continue;
      codec::WeightView view{.type = type,
                             .rows = t.shape[0],
                             .cols = t.shape[1],
                             .codes = model.buffers[t.buffer].data,
                             .scales = {}};
      if (t.quantization.scales_tensor) {
        const auto scales = static_cast<std::size_t>(*t.quantization.scales_tensor);
        view.scales = model.buffers[subgraph.tensors[scales].buffer].data;
        EXPECT_EQ(t.quantization.block_size, type.block);
      } else if (!t.quantization.scale.empty()) {
        view.scales = std::as_bytes(std::span(t.quantization.scale));
      }
      return view;
    }
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST_F(Export, StoresTheWeightsThatTheQuantizerMakes) {
  const model::Checkpoint checkpoint = Open("families/llama-gqa8/hf");
  ThreadPool pool(1);
  struct Case {
    const char* preset;
    const char* section;
    const char* name;
    const model::Weight* weight;
    quant::Scheme scheme;
  };
  const quant::Scheme int4{{codec::Coding::kInt4, 32}, quant::Algorithm::kOctav};
  const quant::Scheme int8{{codec::Coding::kInt8, 0}, quant::Algorithm::kMinMax};
  const Case cases[] = {
      {"none",
       "tf_lite_prefill_decode",
       "model.layers.1.mlp.down_proj.weight",
       &checkpoint.model.layers[1].down,
       {}},
      {"int4", "tf_lite_prefill_decode", "model.layers.2.self_attn.k_proj.weight",
       &checkpoint.model.layers[2].k, int4},
      {"int4", "tf_lite_prefill_decode", "lm_head.weight", &checkpoint.model.head, int8},
      {"int8", "tf_lite_embedder", "model.embed_tokens.weight", &checkpoint.model.embedding, int8},
  };
  for (const Case& c : cases) {
    Write("families/llama-gqa8/hf", Options(c.preset), "m.litertlm");
    const auto bundle = Load("m.litertlm");
    const tflite::Model model = ReadSection(*bundle, c.section);
    auto want = quant::QuantizeWeight(*c.weight, c.scheme, pool);
    ASSERT_TRUE(want.ok()) << want.message();
    const codec::WeightView got = FindWeight(model, c.name, c.scheme.type);
    EXPECT_EQ(got.rows, want->rows);
    EXPECT_EQ(got.cols, want->cols);
    EXPECT_TRUE(std::ranges::equal(got.codes, want->codes)) << c.preset << " " << c.name;
    EXPECT_TRUE(std::ranges::equal(got.scales, want->scales)) << c.preset << " " << c.name;
  }
}

TEST_F(Export, SharesWeightsBetweenSignatures) {
  Write("families/llama-gqa8/hf", Options("int4"), "m.litertlm");
  const auto bundle = Load("m.litertlm");
  const tflite::Model model = ReadSection(*bundle, "tf_lite_prefill_decode");
  std::set<std::uint32_t> buffers;
  int tensors = 0;
  for (const tflite::Subgraph& subgraph : model.subgraphs) {
    for (const tflite::Tensor& t : subgraph.tensors) {
      if (t.name != "model.layers.0.mlp.up_proj.weight") continue;
      buffers.insert(t.buffer);
      ++tensors;
    }
  }
  EXPECT_EQ(tensors, 6);  // five prefill lengths and decode
  EXPECT_EQ(buffers.size(), 1u);
}

TEST_F(Export, DescribesItselfInHoneJson) {
  Write("families/llama-gqa8/hf", Options("int4"), "m.litertlm");
  const auto bundle = Load("m.litertlm");
  const litertlm::Section* section = bundle->Find(litertlm::SectionType::kGenericBinaryData);
  ASSERT_NE(section, nullptr);
  auto json = ParseJson(AsText(bundle->SectionBytes(*section)));
  ASSERT_TRUE(json.ok()) << json.message();
  EXPECT_EQ(json->Find("format")->AsInt(), 1);
  EXPECT_EQ(json->Find("architecture")->AsString(), "llama");
  EXPECT_EQ(json->Find("recipe")->Find("name")->AsString(), "int4");
  EXPECT_NE(json->Find("recipe")->Find("schemes")->Find("q"), nullptr);
  EXPECT_EQ(json->Find("tokens")->Find("bos")->AsString(), "<s>");
  const Json::Array& sections = json->Find("sections")->AsArray();
  ASSERT_EQ(sections.size(), 5u);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    EXPECT_EQ(sections[i].Find("sha256")->AsString(),
              bridge::Sha256Hex(bundle->SectionBytes(bundle->header().sections[i])));
  }
}

TEST_F(Export, StoresTheToolFamilyWhereThereIsOne) {
  for (const char* family : {"", "hermes"}) {
    ExportOptions options = Options("int4");
    options.tool_family = family;
    Write("families/llama-gqa8/hf", options, "m.litertlm");
    const auto bundle = Load("m.litertlm");
    const litertlm::Section* section = bundle->Find(litertlm::SectionType::kGenericBinaryData);
    ASSERT_NE(section, nullptr);
    auto json = ParseJson(AsText(bundle->SectionBytes(*section)));
    ASSERT_TRUE(json.ok()) << json.message();
    const Json* stored = json->Find("tool_family");
    ASSERT_EQ(stored != nullptr, *family != '\0');
    if (stored != nullptr) {
      EXPECT_EQ(stored->AsString(), family);
    }
  }
}

TEST_F(Export, NamesEveryCacheInExecutorMetadata) {
  ExportOptions options = Options("int4");
  options.context = 64;
  Write("families/llama-gqa8/hf", options, "m.litertlm");
  const auto bundle = Load("m.litertlm");
  const litertlm::Section* section = bundle->Find(litertlm::SectionType::kExecutorMetadata);
  ASSERT_NE(section, nullptr);
  auto metadata = litertlm::ParseExecutorMetadata(bundle->SectionBytes(*section));
  ASSERT_TRUE(metadata.ok()) << metadata.message();
  ASSERT_EQ(metadata->state_buffers.size(), 6u);
  EXPECT_EQ(metadata->max_history_size, 64);
  EXPECT_EQ(metadata->state_buffers[5].decode_input, "kv_cache_v_2");
  EXPECT_EQ(metadata->state_buffers[5].sequence_axis, 3);
  EXPECT_EQ(metadata->state_buffers[4].sequence_axis, 2);
}

TEST_F(Export, EncodesExecutorMetadataAsLitertTorchDoes) {
  auto golden = ReadFile(kGolden + "bundles/tiny-llama-fp32/executor_metadata.pb");
  ASSERT_TRUE(golden.ok()) << golden.message();
  ExportOptions options = Options("none");
  options.context = 128;
  Write("bundles/tiny-llama-hf", options, "m.litertlm");
  const auto bundle = Load("m.litertlm");
  const litertlm::Section* section = bundle->Find(litertlm::SectionType::kExecutorMetadata);
  ASSERT_NE(section, nullptr);
  EXPECT_EQ(AsText(bundle->SectionBytes(*section)), *golden);
}

TEST_F(Export, ReportsProgressUpToTheTotal) {
  ExportOptions options = Options("int4");
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t all, std::string_view) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  };
  Write("families/llama-tied/hf", options, "m.litertlm");
  EXPECT_GT(total, 0u);
  EXPECT_EQ(last, total);
}

TEST_F(Export, LeavesNoFileWhenCancelled) {
  ExportOptions options = Options("int4");
  std::atomic<bool> cancel = false;
  options.cancel = &cancel;
  options.progress = [&](std::uint64_t, std::uint64_t, std::string_view) { cancel = true; };
  auto report = ExportBundle(Open("families/llama-tied/hf"), options, Path("m.litertlm"));
  EXPECT_EQ(report.code(), Code::kCancelled);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(Export, LeavesNoFileWhenAWeightIsNotFinite) {
  for (const char* preset : {"none", "int8", "int4"}) {
    auto report = ExportBundle(Open("bad/inf-weight"), Options(preset), Path("m.litertlm"));
    EXPECT_EQ(report.code(), Code::kDataLoss) << preset;
    EXPECT_NE(report.message().find("model.layers.1.mlp.down_proj.weight"), std::string_view::npos)
        << report.message();
    EXPECT_TRUE(fs::is_empty(folder_.path())) << preset;
  }
}

TEST_F(Export, RefusesATemplateWithWrongSyntaxBeforeAFileAppears) {
  auto report = ExportBundle(Open("bad/template-bad-jinja"), Options("int4"), Path("m.litertlm"));
  EXPECT_EQ(report.code(), Code::kDataLoss);
  EXPECT_NE(report.message().find("chat_template"), std::string_view::npos) << report.message();
  EXPECT_NE(report.message().find("line"), std::string_view::npos) << report.message();
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(Export, RefusesAContextThatTheModelDoesNotHave) {
  ExportOptions options = Options("int4");
  options.context = 1'000'000;
  auto report = ExportBundle(Open("families/llama-tied/hf"), options, Path("m.litertlm"));
  EXPECT_EQ(report.code(), Code::kInvalidArgument);
  EXPECT_NE(report.message().find("1000000"), std::string_view::npos);
}

TEST_F(Export, NamesNoTimeInItsHeader) {
  Write("families/llama-tied/hf", Options("int4"), "m.litertlm");
  std::vector<std::string> keys;
  const auto bundle = Load("m.litertlm");
  for (const litertlm::KeyValue& entry : bundle->header().system) {
    keys.push_back(entry.key);
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"Authors", "uuid"}));
}

TEST(UuidFromDigest, SetsVersionAndVariant) {
  EXPECT_EQ(UuidFromDigest(std::string(64, 'f')), "ffffffff-ffff-8fff-afff-ffffffffffff");
  EXPECT_EQ(UuidFromDigest("0123456789abcdef0123456789abcdef00"),
            "01234567-89ab-8def-8123-456789abcdef");
}

}  // namespace
}  // namespace hone::exporter
