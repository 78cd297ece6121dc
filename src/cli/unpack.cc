// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone unpack: a bundle becomes a folder.
#include "bundle/unpack.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/progress.h"
#include "formats/litertlm/litertlm.h"

namespace hone::cli {
namespace {

struct UnpackArguments {
  std::string in, out;
  bool force = false, json = false;
};

Status Unpack(const UnpackArguments& arguments) {
  HONE_ASSIGN(const auto opened, formats::litertlm::Bundle::Open(arguments.in));
  for (const std::string& warning : opened->warnings()) PrintWarning(warning);
  Progress progress("Unpacking");
  bundle::UnpackOptions options;
  options.force = arguments.force;
  options.cancel = CancelFlag();
  options.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
    progress.Update(done, total, what);
  };
  auto report = bundle::UnpackBundle(*opened, arguments.out, options);
  progress.Clear();
  if (!report.ok()) return std::move(report).status();
  for (const std::string& warning : report->warnings) PrintWarning(warning);
  if (!arguments.json) {
    for (const std::string& file : report->files) PrintText(StrCat(arguments.out, "/", file, "\n"));
    return {};
  }
  Json::Array files, warnings;
  for (const std::string& file : report->files) files.emplace_back(file);
  for (const std::string& warning : report->warnings) warnings.emplace_back(warning);
  PrintJson(Json(Json::Object{{"folder", arguments.out},
                              {"files", Json(std::move(files))},
                              {"warnings", Json(std::move(warnings))}}));
  return {};
}

}  // namespace

void RegisterUnpack(CLI::App& app, Command* selected) {
  auto arguments = std::make_shared<UnpackArguments>();
  CLI::App* sub = app.add_subcommand("unpack", "Take a .litertlm bundle apart into a folder");
  sub->footer(
      "The folder is laid out as litert-lm-builder does; hone pack and litert-lm-builder put it "
      "together again.\n\n"
      "Example:\n  hone unpack smollm2.litertlm -o smollm2\n"
      "  hone pack smollm2 -o again.litertlm");
  sub->add_option("FILE", arguments->in, "A .litertlm bundle")->required();
  sub->add_option("-o,--out", arguments->out, "The folder to write to")->required();
  sub->add_flag("--force", arguments->force, "Replace files that exist");
  sub->add_flag("--json", arguments->json, "Print the report as JSON");
  sub->callback([arguments, selected] { *selected = [arguments] { return Unpack(*arguments); }; });
}

}  // namespace hone::cli
