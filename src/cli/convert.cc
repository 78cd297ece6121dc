// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone convert: a checkpoint becomes a bundle.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "exporter/export.h"

namespace hone::cli {
namespace {

struct ConvertOptions {
  std::string source;
  std::string out;
  std::string quant = "int4";
  std::int64_t context = 0;
  std::vector<std::int64_t> prefill;
  bool template_compat = false;
  bool strict = false;
  bool allow_nonfinite = false;
  bool force = false;
  bool json = false;
  int threads = 0;
};

// Refuses before the work what would fail after it.
Status CheckOutput(const ConvertOptions& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path out(options.out);
  if (fs::is_directory(out, ignored)) {
    return Status(Code::kInvalidArgument, StrCat(options.out, ": is a folder, expected a file"));
  }
  if (fs::equivalent(out, options.source, ignored)) {
    return Status(Code::kInvalidArgument, StrCat(options.out, ": would overwrite its own source"));
  }
  if (fs::exists(out, ignored) && !options.force) {
    return Status(Code::kInvalidArgument,
                  StrCat(options.out, ": exists already; pass --force to replace it"));
  }
  const fs::path folder = out.has_parent_path() ? out.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, ignored)) {
    return Status(Code::kNotFound, StrCat(folder.string(), ": no such folder"));
  }
  return {};
}

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
  json.Set("seconds", seconds);
  json.Set("notes", ToJsonArray(report.notes));
  json.Set("warnings", ToJsonArray(all));
  PrintJson(json);
}

Status Convert(const ConvertOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  HONE_TRY(CheckOutput(options));
  exporter::ExportOptions request;
  HONE_ASSIGN(request.recipe, quant::LoadRecipe(options.quant));
  HONE_ASSIGN(request.num_threads, ResolveThreads(options.threads));
  request.strict = options.strict;
  request.context = options.context;
  if (!options.prefill.empty()) request.prefill = options.prefill;
  request.template_compat = options.template_compat;
  request.allow_nonfinite = options.allow_nonfinite;
  request.cancel = CancelFlag();

  HONE_ASSIGN(const model::Checkpoint checkpoint, model::OpenCheckpoint(options.source));
  for (const std::string& warning : checkpoint.warnings) PrintWarning(warning);

  Progress progress("Converting");
  progress.Update(0, 1, "");
  request.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
    progress.Update(done, total, what);
  };
  auto report = exporter::ExportBundle(checkpoint, request, options.out);
  progress.Clear();
  if (!report.ok()) return std::move(report).status();
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
  sub->add_option("SRC", options->source, "A Hugging Face folder or a GGUF file")->required();
  sub->add_option("-o,--out", options->out, "The bundle to write")->required();
  sub->add_option("--quant", options->quant,
                  StrCat("How to store weights: ", PresetList(), ", or a recipe file"))
      ->capture_default_str();
  sub->add_option("--context", options->context,
                  "Positions of the cache; default: the smaller of 4096 and the model's maximum")
      ->check(CLI::PositiveNumber);
  sub->add_option("--prefill", options->prefill,
                  "Prompt lengths with their own signature, as 1024,256,64,16,4,1 (the default)")
      ->delimiter(',')
      ->allow_extra_args(false)  // else it would take SRC too
      ->check(CLI::PositiveNumber);
  sub->add_flag("--template-compat", options->template_compat,
                "Wrap a chat template that LiteRT-LM cannot run into one that it can");
  sub->add_flag("--strict", options->strict,
                "Refuse columns that a block does not divide, instead of storing int8");
  sub->add_flag("--allow-nonfinite", options->allow_nonfinite,
                "Convert although weights hold NaN or infinity");
  sub->add_flag("--force", options->force, "Replace OUT if it exists");
  sub->add_option("--threads", options->threads, "0: all that may run")->capture_default_str();
  sub->add_flag("--json", options->json, "Print the report as JSON");
  sub->callback([options, selected] { *selected = [options] { return Convert(*options); }; });
}

}  // namespace hone::cli
