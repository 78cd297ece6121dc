// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/export.h"

#include <algorithm>
#include <utility>

#include "base/cpu_info.h"
#include "base/thread_pool.h"
#include "exporter/bundle_writer.h"
#include "exporter/hone_json.h"
#include "exporter/llm_metadata_builder.h"
#include "exporter/tflite_writer.h"
#include "formats/litertlm/litertlm.h"
#include "formats/litertlm/llm_metadata.h"
#include "graph/builder.h"

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

Status AppendModel(BundleWriter& bundle, const char* model_type, const TfliteWriter& writer,
                   const WeightPass& pass) {
  HONE_TRY(bundle.Begin(SectionType::kTfliteModel, {{.key = "model_type", .value = model_type}}));
  HONE_TRY(writer.Write(pass, [&](ByteSpan bytes) { return bundle.Append(bytes); }));
  bundle.End();
  return Status();
}

void Append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Result<ExportReport> ExportBundle(const model::Checkpoint& checkpoint, const ExportOptions& options,
                                  const std::string& out) {
  const model::DecoderModel& model = checkpoint.model;
  HONE_ASSIGN(const std::int64_t context, ChooseContext(options.context, model.spec));
  graph::BuildOptions build;
  build.context = context;
  HONE_ASSIGN(build.prefill, graph::PrefillLadder(options.prefill, context));
  HONE_ASSIGN(const quant::Resolved schemes,
              quant::Resolve(options.recipe, model.spec, options.strict));
  HONE_ASSIGN(const BundleText text,
              BuildBundleText(model.spec, checkpoint.text, context, options.template_compat));
  HONE_ASSIGN(const graph::Graph decoder, graph::BuildDecoder(model, schemes, build));
  HONE_ASSIGN(const graph::Graph embedder, graph::BuildEmbedder(model, schemes, build));

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
  HONE_TRY(AppendModel(bundle, "tf_lite_prefill_decode", decoder_writer, pass));
  HONE_TRY(AppendModel(bundle, "tf_lite_embedder", embedder_writer, pass));
  const std::string hone_json =
      BuildHoneJson(model.spec, options.recipe, schemes, context, build.prefill, checkpoint.text,
                    text, bundle.digests());
  HONE_TRY(AppendSection(bundle, SectionType::kGenericBinaryData,
                         {{.key = "name", .value = "hone.json"}}, AsBytes(hone_json)));
  HONE_TRY(pass.CheckCancel());
  HONE_ASSIGN(BundleWriter::Finished finished, bundle.Finish());

  ExportReport report;
  report.bytes = finished.bytes;
  report.sha256 = std::move(finished.sha256);
  report.notes = schemes.notes;
  Append(report.notes, text.notes);
  report.warnings = checkpoint.text.warnings;
  Append(report.warnings, text.warnings);
  return report;
}

}  // namespace hone::exporter
