// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/requantize.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_folder.h"
#include "exporter/export.h"
#include "model/lift.h"
#include "quant/quantize.h"

namespace hone::exporter {
namespace {

namespace fs = std::filesystem;
namespace litertlm = formats::litertlm;
using litertlm::SectionType;

class Requantize : public ::testing::Test {
 protected:
  std::string Path(std::string_view name) const { return folder_.File(name); }

  static std::shared_ptr<const litertlm::Bundle> Open(const std::string& path) {
    auto bundle = litertlm::Bundle::Open(path);
    EXPECT_TRUE(bundle.ok()) << bundle.message();
    return bundle.ok() ? *bundle : nullptr;
  }
  static std::string Golden(std::string_view name) {
    return StrCat(HONE_SHARED_DATA, "/golden/bundles/", name, "/model.litertlm");
  }
  static Result<RequantizeReport> Run(const std::string& in, std::string_view preset,
                                      const std::string& out, bool allow = false) {
    RequantizeOptions options;
    options.recipe = *quant::GetPreset(preset);
    options.allow_requantize = allow;
    options.num_threads = 2;
    return RequantizeBundle(Open(in), options, out);
  }
  // A bundle of one of the golden checkpoints.
  void Convert(std::string_view preset, const std::string& out) const {
    const auto checkpoint =
        model::OpenCheckpoint(StrCat(HONE_SHARED_DATA, "/golden/bundles/tiny-llama-hf"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.message();
    ExportOptions options;
    options.recipe = *quant::GetPreset(preset);
    options.context = 32;
    options.prefill = {8, 1};
    const auto report = ExportBundle(*checkpoint, options, out);
    ASSERT_TRUE(report.ok()) << report.message();
  }

  TestFolder folder_;
};

// Every section but the models and hone.json.
void ExpectOthersEqual(const litertlm::Bundle& a, const litertlm::Bundle& b) {
  ASSERT_EQ(a.header().sections.size(), b.header().sections.size());
  for (std::size_t i = 0; i < a.header().sections.size(); ++i) {
    const litertlm::Section& x = a.header().sections[i];
    const litertlm::Section& y = b.header().sections[i];
    EXPECT_EQ(x.type, y.type);
    ASSERT_EQ(x.items.size(), y.items.size());
    for (std::size_t k = 0; k < x.items.size(); ++k) EXPECT_EQ(x.items[k].value, y.items[k].value);
    if (x.type == SectionType::kTfliteModel || x.Item("name") == "hone.json") continue;
    EXPECT_EQ(AsText(a.SectionBytes(x)), AsText(b.SectionBytes(y)));
  }
}

// Weights of `after` are those of `before` quantized by the recipe; the rest is untouched.
void ExpectQuantized(const std::string& before, const std::string& after, std::string_view preset) {
  const auto old_model = model::LiftBundle(*litertlm::Bundle::Open(before));
  const auto new_model = model::LiftBundle(*litertlm::Bundle::Open(after));
  ASSERT_TRUE(old_model.ok()) << old_model.message();
  ASSERT_TRUE(new_model.ok()) << new_model.message();
  const auto schemes = quant::Resolve(*quant::GetPreset(preset), old_model->spec, false);
  ASSERT_TRUE(schemes.ok());
  ThreadPool pool(2);
  for (const quant::Assignment& a : schemes->assignments) {
    const model::Weight& old_weight = model::GetWeight(*old_model, a.role, a.layer);
    const model::Weight& new_weight = model::GetWeight(*new_model, a.role, a.layer);
    EXPECT_EQ(codec::TypeName(new_weight.view.type), codec::TypeName(a.scheme.type));
    const auto expected = quant::QuantizeWeight(old_weight, a.scheme, pool);
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(AsText(new_weight.view.codes), AsText(expected->codes)) << new_weight.name;
    EXPECT_EQ(AsText(new_weight.view.scales), AsText(expected->scales)) << new_weight.name;
  }
  for (std::size_t i = 0; i < old_model->layers.size(); ++i) {
    EXPECT_EQ(AsText(old_model->layers[i].input_norm.view.codes),
              AsText(new_model->layers[i].input_norm.view.codes));
  }
}

TEST_F(Requantize, AFloatBundleOfTheOtherToolBecomesInt8AndInt4) {
  for (const char* preset : {"int8", "int4", "boctav4"}) {
    const std::string out = Path(StrCat(preset, ".litertlm"));
    const auto report = Run(Golden("tiny-llama-fp32"), preset, out);
    ASSERT_TRUE(report.ok()) << report.message();
    EXPECT_EQ(report->kept, 0u);
    ExpectQuantized(Golden("tiny-llama-fp32"), out, preset);
    ExpectOthersEqual(*Open(Golden("tiny-llama-fp32")), *Open(out));
    EXPECT_LT(report->bytes, fs::file_size(Golden("tiny-llama-fp32")));
  }
}

TEST_F(Requantize, OurFloatBundleGetsTheWeightsOfADirectConversion) {
  Convert("none", Path("none.litertlm"));
  for (const char* preset : {"int8", "int4"}) {
    Convert(preset, Path("direct.litertlm"));
    ASSERT_TRUE(Run(Path("none.litertlm"), preset, Path("again.litertlm")).ok());
    const auto direct = model::LiftBundle(Open(Path("direct.litertlm")));
    const auto again = model::LiftBundle(Open(Path("again.litertlm")));
    ASSERT_TRUE(direct.ok() && again.ok());
    for (const model::Role role : {model::Role::kEmbedding, model::Role::kHead, model::Role::kQ,
                                   model::Role::kK, model::Role::kV, model::Role::kO,
                                   model::Role::kGate, model::Role::kUp, model::Role::kDown}) {
      const auto& a = model::GetWeight(*direct, role, 0).view;
      const auto& b = model::GetWeight(*again, role, 0).view;
      EXPECT_TRUE(a.type == b.type) << model::RoleName(role);
      EXPECT_EQ(AsText(a.codes), AsText(b.codes)) << model::RoleName(role);
      EXPECT_EQ(AsText(a.scales), AsText(b.scales)) << model::RoleName(role);
    }
    // hone.json tells the new recipe.
    const auto bundle = Open(Path("again.litertlm"));
    for (const litertlm::Section& section : bundle->header().sections) {
      if (section.Item("name") != "hone.json") continue;
      EXPECT_NE(AsText(bundle->SectionBytes(section)).find(StrCat("\"name\": \"", preset, "\"")),
                std::string_view::npos);
    }
  }
}

TEST_F(Requantize, Int4IsRefusedUnlessAllowedAndItsScalesLeave) {
  const auto refused = Run(Golden("tiny-llama-wi4b32"), "int8", Path("x.litertlm"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("--allow-requantize"), std::string_view::npos);
  EXPECT_FALSE(FileExists(Path("x.litertlm")));
  const auto report = Run(Golden("tiny-llama-wi4b32"), "int8", Path("x.litertlm"), true);
  ASSERT_TRUE(report.ok()) << report.message();
  EXPECT_EQ(report->kept, 1u);  // the embedding is int8
  const auto bundle = Open(Path("x.litertlm"));
  const auto model = formats::tflite::ReadModel(
      bundle->SectionBytes(*bundle->Find(SectionType::kTfliteModel, "tf_lite_prefill_decode")));
  ASSERT_TRUE(model.ok()) << model.message();
  for (const auto& graph : model->subgraphs) {
    for (const auto& tensor : graph.tensors) {
      EXPECT_FALSE(tensor.name.ends_with("_scales")) << tensor.name;
      EXPECT_FALSE(tensor.quantization.scales_tensor.has_value());
    }
  }
  EXPECT_TRUE(model::LiftBundle(bundle).ok());
}

TEST_F(Requantize, Int8BecomesInt4AndWhatIsSoAlreadyIsSaid) {
  ASSERT_TRUE(Run(Golden("tiny-llama-wi8"), "boctav4", Path("b.litertlm")).ok());
  EXPECT_TRUE(model::LiftBundle(Open(Path("b.litertlm"))).ok());
  const auto same = Run(Golden("tiny-llama-wi8"), "int8", Path("c.litertlm"));
  ASSERT_FALSE(same.ok());
  EXPECT_NE(same.message().find("nothing to do"), std::string_view::npos);
  // And back to floats: what the codes stand for.
  ASSERT_TRUE(Run(Golden("tiny-llama-wi8"), "none", Path("f.litertlm")).ok());
  ExpectQuantized(Golden("tiny-llama-wi8"), Path("f.litertlm"), "none");
}

TEST_F(Requantize, CancelLeavesNothing) {
  std::atomic<bool> cancel = true;
  RequantizeOptions options;
  options.recipe = *quant::GetPreset("int8");
  options.cancel = &cancel;
  const auto report =
      RequantizeBundle(Open(Golden("tiny-llama-fp32")), options, Path("x.litertlm"));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.code(), Code::kCancelled);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

}  // namespace
}  // namespace hone::exporter
