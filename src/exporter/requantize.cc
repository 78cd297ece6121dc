// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/requantize.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/cpu_info.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "exporter/bundle_writer.h"
#include "exporter/hone_json.h"
#include "exporter/requantize_model.h"
#include "model/lift.h"

namespace hone::exporter {
namespace {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;
using litertlm::Section;
using litertlm::SectionType;

constexpr std::size_t kCopyBytes = std::size_t{4} << 20;

bool IsHoneJson(const Section& section) {
  return section.type == SectionType::kGenericBinaryData && section.Item("name") == "hone.json";
}

class Requantizer {
 public:
  Requantizer(std::shared_ptr<const litertlm::Bundle> bundle, const RequantizeOptions& options)
      : bundle_(std::move(bundle)),
        options_(options),
        pool_(options.num_threads > 0 ? options.num_threads : AvailableThreads()) {}

  Result<RequantizeReport> Run(const std::string& out) {
    HONE_ASSIGN(const model::DecoderModel model, model::LiftBundle(bundle_));
    HONE_ASSIGN(schemes_, quant::Resolve(options_.recipe, model.spec, options_.strict));
    report_.notes = schemes_.notes;
    HONE_TRY(PlanModels(model));
    if (report_.changed == 0) {
      return Status(Code::kInvalidArgument,
                    StrCat("every weight is stored as '", options_.recipe.name,
                           "' asks already; there is nothing to do"));
    }
    HONE_ASSIGN(BundleWriter writer, BundleWriter::Create(out));
    const std::vector<Section>& sections = bundle_->header().sections;
    for (std::size_t i = 0; i < sections.size(); ++i) HONE_TRY(WriteSection(i, writer));
    HONE_ASSIGN(BundleWriter::Finished finished, Finish(writer));
    report_.bytes = finished.bytes;
    report_.sha256 = std::move(finished.sha256);
    return std::move(report_);
  }

 private:
  Status CheckCancel() const {
    if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
      return Status(Code::kCancelled, "cancelled");
    }
    return {};
  }

  // The two models that were lifted; others have no weights with roles.
  Status PlanModels(const model::DecoderModel& model) {
    const std::vector<Section>& sections = bundle_->header().sections;
    std::set<std::size_t> covered;
    for (const char* type : {"tf_lite_prefill_decode", "tf_lite_embedder"}) {
      const Section* section = bundle_->Find(SectionType::kTfliteModel, type);
      if (section == nullptr) continue;
      const auto index = static_cast<std::size_t>(section - sections.data());
      ModelRewriteOptions rewrite{
          .schemes = schemes_,
          .pool = pool_,
          .allow_requantize = options_.allow_requantize,
          .allow_nonfinite = options_.allow_nonfinite,
          .cancel = options_.cancel,
          .release = [this](ByteSpan bytes) { bundle_->map().Release(bytes); }};
      auto plan = ModelRewrite::Plan(bundle_->SectionBytes(*section), model, rewrite);
      if (!plan.ok()) {
        return std::move(plan).status().Context(StrCat("section ", index, " (", type, ")"));
      }
      covered.insert(plan->covered().begin(), plan->covered().end());
      report_.changed += plan->changed();
      report_.kept += plan->kept();
      total_ += plan->weight_bytes();
      rewrites_.emplace(index, *std::move(plan));
    }
    for (std::size_t i = 0; i < schemes_.assignments.size(); ++i) {
      if (covered.contains(i)) continue;
      const quant::Assignment& missing = schemes_.assignments[i];
      return Status(Code::kUnsupported,
                    StrCat("layer ", missing.layer, ", ", model::RoleName(missing.role),
                           ": its weight is no constant input of FULLY_CONNECTED or "
                           "EMBEDDING_LOOKUP, so it cannot be replaced"));
    }
    return {};
  }

  Status WriteSection(std::size_t index, BundleWriter& writer) {
    const Section& section = bundle_->header().sections[index];
    HONE_TRY(writer.Begin(section.type, section.items));
    if (const auto rewrite = rewrites_.find(index); rewrite != rewrites_.end()) {
      const auto wrote = [&](std::uint64_t bytes, std::string_view name) {
        done_ += bytes;
        if (options_.progress) options_.progress(done_, total_, name);
      };
      HONE_TRY(rewrite->second.Write([&](ByteSpan bytes) { return writer.Append(bytes); }, wrote));
    } else if (IsHoneJson(section)) {
      HONE_TRY(writer.Append(AsBytes(NewHoneJson(section, writer.digests()))));
    } else {
      HONE_TRY(Copy(bundle_->SectionBytes(section), writer));
    }
    writer.End();
    return {};
  }

  Status Copy(ByteSpan bytes, BundleWriter& writer) {
    for (std::size_t at = 0; at < bytes.size(); at += kCopyBytes) {
      HONE_TRY(CheckCancel());
      const ByteSpan part = bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at));
      HONE_TRY(writer.Append(part));
      bundle_->map().Release(part);
    }
    return {};
  }

  // hone.json with the new recipe and the new hashes of the sections before it. What is no JSON
  // object stays as it is.
  std::string NewHoneJson(const Section& section, const std::vector<SectionDigest>& digests) {
    std::string text(AsText(bundle_->SectionBytes(section)));
    auto json = ParseJson(text);
    if (!json.ok() || !json->IsObject()) return text;
    json->Set("recipe", RecipeJson(options_.recipe, schemes_));
    Json::Array list;
    for (const SectionDigest& digest : digests) {
      list.emplace_back(
          Json::Object{{"name", digest.name}, {"bytes", digest.bytes}, {"sha256", digest.sha256}});
    }
    json->Set("sections", Json(std::move(list)));
    return json->Dump(1) + "\n";
  }

  Result<BundleWriter::Finished> Finish(BundleWriter& writer) {
    HONE_TRY(CheckCancel());
    std::vector<litertlm::KeyValue> system = bundle_->header().system;
    for (litertlm::KeyValue& item : system) {
      if (item.key == "uuid") item.value = writer.ContentUuid();
    }
    return writer.Finish(std::move(system));
  }

  const std::shared_ptr<const litertlm::Bundle> bundle_;
  const RequantizeOptions& options_;
  ThreadPool pool_;
  quant::Resolved schemes_;
  std::map<std::size_t, ModelRewrite> rewrites_;  // by section
  RequantizeReport report_;
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace

Result<RequantizeReport> RequantizeBundle(const std::shared_ptr<const litertlm::Bundle>& bundle,
                                          const RequantizeOptions& options,
                                          const std::string& out) {
  auto report = Requantizer(bundle, options).Run(out);
  const bool named = report.message().find(bundle->path()) != std::string_view::npos;
  if (report.ok() || named || report.code() == Code::kCancelled) return report;
  return std::move(report).status().Context(bundle->path());
}

}  // namespace hone::exporter
