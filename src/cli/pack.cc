// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone pack: a model.toml and its files become a bundle.
#include "bundle/pack.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/progress.h"

namespace hone::cli {
namespace {

struct PackArguments {
  std::string in, out;
  bool force = false, allow_outside = false, json = false;
};

Status Pack(const PackArguments& arguments) {
  HONE_TRY(CheckBundleOutput(arguments.out, arguments.in, arguments.force));
  Progress progress("Packing");
  bundle::PackOptions options;
  options.allow_outside = arguments.allow_outside;
  options.cancel = CancelFlag();
  options.progress = [&](std::uint64_t done, std::uint64_t total, std::string_view what) {
    progress.Update(done, total, what);
  };
  auto report = bundle::PackBundle(arguments.in, arguments.out, options);
  progress.Clear();
  if (!report.ok()) return std::move(report).status();
  if (!arguments.json) {
    PrintText(StrCat(arguments.out, ": ", FormatBytes(report->bytes), ", ", report->sections,
                     " sections, SHA-256 ", report->sha256, "\n"));
    return {};
  }
  PrintJson(Json(Json::Object{{"path", arguments.out},
                              {"bytes", report->bytes},
                              {"sections", static_cast<std::uint64_t>(report->sections)},
                              {"sha256", report->sha256}}));
  return {};
}

}  // namespace

void RegisterPack(CLI::App& app, Command* selected) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* sub = app.add_subcommand("pack", "Put a .litertlm bundle together from a model.toml");
  sub->footer(
      "Example:\n  hone unpack smollm2.litertlm -o smollm2\n"
      "  hone pack smollm2 -o again.litertlm\n  hone pack smollm2/model.toml -o again.litertlm");
  sub->add_option("SRC", arguments->in, "A folder with model.toml, or a model.toml")->required();
  sub->add_option("-o,--out", arguments->out, "The bundle to write")->required();
  sub->add_flag("--force", arguments->force, "Replace OUT if it exists");
  sub->add_flag("--allow-outside", arguments->allow_outside,
                "Let data_path leave the folder of model.toml");
  sub->add_flag("--json", arguments->json, "Print the report as JSON");
  sub->callback([arguments, selected] { *selected = [arguments] { return Pack(*arguments); }; });
}

}  // namespace hone::cli
