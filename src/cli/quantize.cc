// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone quantize: a bundle with its weights stored in another way.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "exporter/requantize.h"
#include "formats/litertlm/litertlm.h"
#include "quant/recipe.h"

namespace hone::cli {
namespace {

struct QuantizeArguments {
  std::string in, out, quant;
  bool strict = false, allow_requantize = false, allow_nonfinite = false;
  bool force = false, json = false;
  int threads = 0;
};

// A checkpoint has better sources than a bundle.
Status CheckIsBundle(const std::string& path) {
  const bool folder = IsDirectory(path);
  const std::string extension = std::filesystem::path(path).extension().string();
  if (!folder && extension != ".gguf" && extension != ".safetensors") return {};
  return Status(Code::kInvalidArgument,
                StrCat(path,
                       ": is a checkpoint, and this command takes a .litertlm bundle; use hone "
                       "convert ",
                       path, " -o OUT --quant ..."));
}

Status Quantize(const QuantizeArguments& arguments) {
  HONE_TRY(CheckIsBundle(arguments.in));
  exporter::RequantizeOptions options;
  HONE_ASSIGN(options.recipe, quant::LoadRecipe(arguments.quant));
  HONE_ASSIGN(options.num_threads, ResolveThreads(arguments.threads));
  HONE_TRY(CheckBundleOutput(arguments.out, arguments.in, arguments.force));
  options.strict = arguments.strict;
  options.allow_requantize = arguments.allow_requantize;
  options.allow_nonfinite = arguments.allow_nonfinite;
  options.cancel = CancelFlag();
  HONE_ASSIGN(const auto opened, formats::litertlm::Bundle::Open(arguments.in));
  for (const std::string& warning : opened->warnings()) PrintWarning(warning);
  Progress progress("Quantizing");
  options.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
    progress.Update(done, total, what);
  };
  auto report = exporter::RequantizeBundle(opened, options, arguments.out);
  progress.Clear();
  if (!report.ok()) return std::move(report).status();
  if (!arguments.json) {
    for (const std::string& note : report->notes) PrintNote(note);
    PrintText(StrCat(arguments.out, ": ", FormatBytes(report->bytes), ", ", options.recipe.name,
                     ", ", report->changed, " weights changed, ", report->kept, " kept, SHA-256 ",
                     report->sha256, "\n"));
    return {};
  }
  Json::Array notes;
  for (const std::string& note : report->notes) notes.emplace_back(note);
  PrintJson(Json(Json::Object{{"path", arguments.out},
                              {"bytes", report->bytes},
                              {"sha256", report->sha256},
                              {"recipe", options.recipe.name},
                              {"changed", static_cast<std::uint64_t>(report->changed)},
                              {"kept", static_cast<std::uint64_t>(report->kept)},
                              {"notes", Json(std::move(notes))}}));
  return {};
}

}  // namespace

void RegisterQuantize(CLI::App& app, Command* selected) {
  auto arguments = std::make_shared<QuantizeArguments>();
  CLI::App* sub = app.add_subcommand("quantize", "Store the weights of a bundle in another way");
  sub->footer(
      "Graphs, tokenizer and metadata stay as they are. From a checkpoint, hone convert gives a "
      "better result than a bundle that is int8 already.\n\n"
      "Example:\n  hone quantize model-f32.litertlm -o model.litertlm --quant int4");
  sub->add_option("FILE", arguments->in, "A .litertlm bundle")->required();
  sub->add_option("-o,--out", arguments->out, "The bundle to write")->required();
  sub->add_option("--quant", arguments->quant, "A preset of hone convert, or a recipe file")
      ->required();
  sub->add_flag("--strict", arguments->strict,
                "Refuse columns that a block does not divide, instead of storing int8");
  sub->add_flag("--allow-requantize", arguments->allow_requantize,
                "Quantize int4 weights again, although they have lost much already");
  sub->add_flag("--allow-nonfinite", arguments->allow_nonfinite,
                "Go on although weights hold NaN or infinity");
  sub->add_flag("--force", arguments->force, "Replace OUT if it exists");
  sub->add_option("--threads", arguments->threads, kThreadsHelp)
      ->transform(ThreadsWord)
      ->default_str("auto");
  sub->add_flag("--json", arguments->json, "Print the report as JSON");
  sub->callback(
      [arguments, selected] { *selected = [arguments] { return Quantize(*arguments); }; });
}

}  // namespace hone::cli
