// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone convert: a checkpoint becomes a bundle.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "base/file.h"
#include "chat/tool_family.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/resolve_source.h"
#include "cli/tool_family_option.h"
#include "exporter/export.h"

namespace hone::cli {
namespace {

struct ConvertOptions {
  std::string source;
  std::string out;
  std::string quant = "int4";
  std::optional<std::int64_t> context;
  std::optional<std::string> prefill;
  std::string kv = "f32";
  std::string activation_type;
  std::string max_buffer;
  std::optional<std::string> tool_family;
  bool template_compat = false;
  bool strict = false;
  bool allow_nonfinite = false;
  bool force = false;
  bool json = false;
  int threads = 0;
};

Json ToJsonArray(const std::vector<std::string>& lines) {
  Json::Array array;
  for (const std::string& line : lines) array.emplace_back(line);
  return array;
}

void PrintReport(const ConvertOptions& options, const std::string& recipe,
                 const std::vector<std::string>& warnings, const exporter::ExportReport& report,
                 double seconds) {
  for (const std::string& warning : report.warnings) PrintWarning(warning);
  if (!options.json) {
    for (const std::string& note : report.notes) PrintNote(note);
    char time[32];
    std::snprintf(time, sizeof(time), "%.1f", seconds);
    PrintText(StrCat(options.out, ": ", FormatBytes(report.bytes), ", ", recipe, ", ", time,
                     " s, SHA-256 ", report.sha256, "\n"));
    return;
  }
  std::vector<std::string> all = warnings;
  all.insert(all.end(), report.warnings.begin(), report.warnings.end());
  Json json;
  json.Set("path", options.out);
  json.Set("bytes", report.bytes);
  json.Set("sha256", report.sha256);
  json.Set("recipe", recipe);
  json.Set("context", report.context);
  Json::Array ladder;
  for (const std::int64_t length : report.prefill) ladder.emplace_back(length);
  json.Set("prefill", Json(std::move(ladder)));
  json.Set("seconds", seconds);
  json.Set("notes", ToJsonArray(report.notes));
  json.Set("warnings", ToJsonArray(all));
  PrintJson(json);
}

Result<exporter::ExportOptions> MakeRequest(const ConvertOptions& options) {
  exporter::ExportOptions request;
  HONE_ASSIGN(request.recipe, quant::LoadRecipe(options.quant));
  HONE_ASSIGN(request.num_threads, ResolveThreads(options.threads));
  request.strict = options.strict;
  if (options.context && *options.context < 1) {
    return Status(Code::kInvalidArgument,
                  StrCat("--context: found ", *options.context, ", expected 1 or more"));
  }
  request.context = options.context.value_or(0);
  if (options.prefill) {
    constexpr std::int64_t kMost = 1 << 30;
    HONE_ASSIGN(request.prefill, ParseNumberList("--prefill", *options.prefill, 1, kMost));
  }
  if (!options.max_buffer.empty()) {
    HONE_ASSIGN(request.max_buffer, ParseByteCount("--max-buffer", options.max_buffer));
  }
  request.half_cache = options.kv == "f16";
  request.prefer_activation_type = options.activation_type;
  request.template_compat = options.template_compat;
  request.allow_nonfinite = options.allow_nonfinite;
  request.cancel = CancelFlag();
  if (options.tool_family) {
    HONE_ASSIGN(request.tool_family, ParseToolFamily(*options.tool_family));
  }
  return request;
}

Status Convert(const ConvertOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  HONE_TRY(CheckBundleOutput(options.out, options.source, options.force));
  HONE_ASSIGN(exporter::ExportOptions request, MakeRequest(options));
  HONE_ASSIGN(ResolvedSource source, ResolveSource(options.source));
  HONE_ASSIGN(const model::Checkpoint checkpoint, model::OpenCheckpoint(source.path));
  request.source = {.repository = std::move(source.repository),
                    .revision = std::move(source.revision)};
  if (!options.tool_family) {
    const auto* family = chat::DetectToolFamily(checkpoint.text.chat_template);
    if (family != nullptr) request.tool_family = family->name;
  }
  for (const std::string& warning : checkpoint.warnings) PrintWarning(warning);

  Progress progress("Converting");
  progress.Update(0, 1, "");
  request.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
    progress.Update(done, total, what);
  };
  auto report = exporter::ExportBundle(checkpoint, request, options.out);
  progress.Clear();
  if (!report.ok()) {
    // The exporter knows tensors; the user knows files.
    const bool named = report.message().find(options.source) != std::string_view::npos;
    Status status = std::move(report).status();
    if (status.code() != Code::kDataLoss || named) return status;
    return std::move(status).Context(options.source);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  PrintReport(options, request.recipe.name, checkpoint.warnings, *report, seconds.count());
  return {};
}

std::string PresetList() {
  std::string text;
  for (const std::string& name : quant::PresetNames()) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void RegisterConvert(CLI::App& app, Command* selected) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* sub = app.add_subcommand("convert", "Turn a checkpoint into a .litertlm bundle");
  sub->footer(
      "Example:\n  hone convert MiniCPM5-2B -o minicpm5.litertlm --quant int4 --context 4096");
  sub->add_option("SRC", options->source,
                  "A checkpoint folder, a .gguf file or a model of the hub, ORG/NAME")
      ->required();
  sub->add_option("-o,--out", options->out, "The bundle to write")->required();
  sub->add_option("--quant", options->quant,
                  StrCat("How to store weights: ", PresetList(), ", or a recipe file"))
      ->capture_default_str();
  sub->add_option("--context", options->context,
                  "Positions of the cache; default: the smaller of 4096 and the model's maximum");
  sub->add_option("--prefill", options->prefill,
                  "Prompt lengths with their own signature; default: 1024,256,64,16,4,1");
  sub->add_option("--kv", options->kv,
                  "Type of the cache in the bundle; f16 halves it, in every runtime")
      ->check(CLI::IsMember(std::vector<std::string>{"f32", "f16"}))
      ->capture_default_str();
  sub->add_option("--prefer-activation-type", options->activation_type,
                  "What a GPU should compute in: fp16, fp32 or fp32_fp16; default: it decides")
      ->check(CLI::IsMember(std::vector<std::string>{"fp16", "fp32", "fp32_fp16"}));
  sub->add_option("--max-buffer", options->max_buffer,
                  "Pick context and prefill lengths so that no tensor of the decoder is larger, "
                  "such as 1GiB or 128MiB");
  sub->add_option("--tool-family", options->tool_family,
                  "How the model writes tool calls, by name, or none; default: as its chat "
                  "template shows");
  sub->add_flag("--template-compat", options->template_compat,
                "Wrap a chat template that LiteRT-LM cannot run into one that it can");
  sub->add_flag("--strict", options->strict,
                "Refuse columns that a block does not divide, instead of storing int8");
  sub->add_flag("--allow-nonfinite", options->allow_nonfinite,
                "Convert although weights hold NaN or infinity");
  sub->add_flag("--force", options->force, "Replace OUT if it exists");
  sub->add_option("--threads", options->threads, kThreadsHelp)
      ->transform(ThreadsWord)
      ->default_str("auto");
  sub->add_flag("--json", options->json, "Print the report as JSON");
  sub->callback([options, selected] { *selected = [options] { return Convert(*options); }; });
}

}  // namespace hone::cli
