// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/export.h"

#include <algorithm>
#include <utility>

#include "base/cpu_info.h"
#include "base/thread_pool.h"
#include "exporter/bundle_writer.h"
#include "exporter/fit_buffers.h"
#include "exporter/hone_json.h"
#include "exporter/llm_metadata_builder.h"
#include "exporter/tflite_writer.h"
#include "formats/litertlm/litertlm.h"
#include "formats/litertlm/llm_metadata.h"
#include "graph/builder.h"
#include "model/rope.h"

namespace hone::exporter {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::SectionType;

constexpr std::int64_t kDefaultContext = 4096;
// What litert-torch writes into files with these operators.
constexpr std::string_view kDecoderRuntime = "2.17.0";
constexpr std::string_view kEmbedderRuntime = "1.14.0";

Result<std::int64_t> ChooseContext(std::int64_t asked, const model::DecoderSpec& spec) {
  if (asked == 0) return std::min(kDefaultContext, spec.max_positions);
  if (asked < 1 || asked > spec.max_positions) {
    return Status(Code::kInvalidArgument,
                  StrCat("context ", asked, ": expected 1 to ", spec.max_positions,
                         ", the positions that the model was made for"));
  }
  return asked;
}

Status AppendSection(BundleWriter& bundle, SectionType type, std::vector<litertlm::KeyValue> items,
                     ByteSpan bytes) {
  HONE_TRY(bundle.Begin(type, std::move(items)));
  HONE_TRY(bundle.Append(bytes));
  bundle.End();
  return Status();
}

Status AppendModel(BundleWriter& bundle, std::vector<litertlm::KeyValue> items,
                   const TfliteWriter& writer, const WeightPass& pass) {
  HONE_TRY(bundle.Begin(SectionType::kTfliteModel, std::move(items)));
  HONE_TRY(writer.Write(pass, [&](ByteSpan bytes) { return bundle.Append(bytes); }));
  bundle.End();
  return Status();
}

void Append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Frequencies that depend on the length become those for the context, since a graph has one table.
// Returns what was done, one line for each kind of rope.
std::vector<std::string> FixRopes(std::int64_t context, model::DecoderSpec& spec) {
  std::vector<std::string> facts;
  for (model::RopeTable& table : spec.ropes) {
    if (!table.by_length) continue;
    const bool ntk = table.by_length->kind == model::RopeByLength::Kind::kDynamicNtk;
    const bool within = context <= table.by_length->original_positions;
    const char* which = ntk ? (within ? "theta as it is" : "theta grown")
                            : (within ? "short factors" : "long factors");
    std::string fact = StrCat("rope frequencies are those for a context of ", context,
                              " positions (", ntk ? "dynamic NTK, " : "LongRoPE, ", which, ")");
    if (std::find(facts.begin(), facts.end(), fact) == facts.end()) {
      facts.push_back(std::move(fact));
    }
    table = model::RopeForLength(table, context);
  }
  return facts;
}

struct Plan {
  model::DecoderModel model;  // with the ropes of the context
  graph::BuildOptions build;
  quant::Resolved schemes;
  std::vector<std::string> ropes;
  std::vector<std::string> notes;
};

// Context, prefill lengths and the scheme of every weight.
Result<Plan> MakePlan(const model::DecoderModel& model, const ExportOptions& options) {
  static const std::vector<std::int64_t> kDefaultPrefill = {1024, 256, 64, 16, 4, 1};
  Plan plan;
  plan.model = model;
  plan.build.half_cache = options.half_cache;
  HONE_ASSIGN(plan.build.context, ChooseContext(options.context, model.spec));
  HONE_ASSIGN(plan.build.prefill,
              graph::PrefillLadder(options.prefill.empty() ? kDefaultPrefill : options.prefill,
                                   plan.build.context));
  HONE_ASSIGN(plan.schemes, quant::Resolve(options.recipe, model.spec, options.strict));
  plan.notes = plan.schemes.notes;
  for (const std::int64_t length : options.prefill) {
    if (length <= plan.build.context) continue;
    plan.notes.push_back(
        StrCat("prefill length ", length, " is left out: the context is ", plan.build.context));
  }
  if (options.max_buffer != 0) {
    const FitRequest request{.max_bytes = options.max_buffer,
                             .keep_context = options.context != 0,
                             .keep_rungs = !options.prefill.empty()};
    HONE_ASSIGN(FitResult fit, FitBuffers(model, plan.schemes, plan.build, request));
    plan.build = std::move(fit.build);
    Append(plan.notes, fit.notes);
  }
  plan.ropes = FixRopes(plan.build.context, plan.model.spec);
  Append(plan.notes, plan.ropes);
  return plan;
}

std::vector<litertlm::KeyValue> DecoderItems(const ExportOptions& options) {
  std::vector<litertlm::KeyValue> items = {
      {.key = "model_type", .value = "tf_lite_prefill_decode"}};
  if (!options.prefer_activation_type.empty()) {
    items.push_back({.key = "prefer_activation_type", .value = options.prefer_activation_type});
  }
  return items;
}

}  // namespace

Result<ExportReport> ExportBundle(const model::Checkpoint& checkpoint, const ExportOptions& options,
                                  const std::string& out) {
  HONE_ASSIGN(const Plan plan, MakePlan(checkpoint.model, options));
  const model::DecoderModel& model = plan.model;
  const std::int64_t context = plan.build.context;
  HONE_ASSIGN(const BundleText text,
              BuildBundleText(model.spec, checkpoint.text, context, options.template_compat));
  HONE_ASSIGN(const graph::Graph decoder, graph::BuildDecoder(model, plan.schemes, plan.build));
  HONE_ASSIGN(const graph::Graph embedder, graph::BuildEmbedder(model, plan.schemes, plan.build));

  // Everything that the text and the shapes can get wrong has been refused by now; what is left is
  // the weights and the disk.
  HONE_ASSIGN(BundleWriter bundle, BundleWriter::Create(out));
  ThreadPool pool(options.num_threads > 0 ? options.num_threads : AvailableThreads());
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  WeightPass pass{.model = model,
                  .pool = pool,
                  .allow_nonfinite = options.allow_nonfinite,
                  .cancel = options.cancel,
                  .wrote = {}};
  if (options.progress) {
    pass.wrote = [&](std::uint64_t bytes, std::string_view name) {
      done += bytes;
      options.progress(done, total, name);
    };
  }
  HONE_ASSIGN(const TfliteWriter decoder_writer,
              TfliteWriter::Plan(decoder, kDecoderRuntime, pass));
  HONE_ASSIGN(const TfliteWriter embedder_writer,
              TfliteWriter::Plan(embedder, kEmbedderRuntime, pass));
  total = decoder_writer.weight_bytes() + embedder_writer.weight_bytes();

  HONE_TRY(AppendSection(bundle, SectionType::kLlmMetadata, {},
                         AsBytes(litertlm::EncodeLlmMetadata(text.metadata))));
  HONE_TRY(AppendSection(bundle, SectionType::kExecutorMetadata, {},
                         AsBytes(litertlm::EncodeExecutorMetadata(
                             BuildExecutorMetadata(model.spec.num_layers, context)))));
  HONE_TRY(AppendSection(bundle, SectionType::kHfTokenizerZlib, {},
                         litertlm::DeflateTokenizer(checkpoint.text.tokenizer_json)));
  HONE_TRY(AppendModel(bundle, DecoderItems(options), decoder_writer, pass));
  HONE_TRY(AppendModel(bundle, {{.key = "model_type", .value = "tf_lite_embedder"}},
                       embedder_writer, pass));
  const std::string hone_json = BuildHoneJson({.spec = model.spec,
                                               .recipe = options.recipe,
                                               .schemes = plan.schemes,
                                               .build = plan.build,
                                               .text = checkpoint.text,
                                               .bundle_text = text,
                                               .options = options,
                                               .ropes = plan.ropes,
                                               .sections = bundle.digests()});
  HONE_TRY(AppendSection(bundle, SectionType::kGenericBinaryData,
                         {{.key = "name", .value = "hone.json"}}, AsBytes(hone_json)));
  HONE_TRY(pass.CheckCancel());
  HONE_ASSIGN(BundleWriter::Finished finished, bundle.Finish());

  ExportReport report;
  report.bytes = finished.bytes;
  report.sha256 = std::move(finished.sha256);
  report.context = context;
  report.prefill = plan.build.prefill;
  report.notes = plan.notes;
  Append(report.notes, text.notes);
  report.warnings = checkpoint.text.warnings;
  Append(report.warnings, text.warnings);
  return report;
}

}  // namespace hone::exporter
