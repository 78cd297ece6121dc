// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone repair: mends what hone check finds in a bundle's weights and graphs.
#include "bundle/repair.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/cli.h"

namespace hone::cli {
namespace {

struct RepairArguments {
  std::string in, out;
  bool in_place = false, force = false, json = false;
  bundle::RepairOptions options;
};

Status CheckArguments(const RepairArguments& arguments) {
  if (IsDirectory(arguments.in)) {
    return Status(Code::kInvalidArgument,
                  StrCat(arguments.in, ": is a folder, expected a .litertlm bundle"));
  }
  const int places = (arguments.out.empty() ? 0 : 1) + (arguments.in_place ? 1 : 0);
  if (places == 0 && arguments.options.dry_run) return {};
  if (places != 1) {
    return Status(Code::kInvalidArgument,
                  "give either -o OUT or --in-place, so that it is clear what is written");
  }
  if (arguments.in_place) return CheckOutputPath(arguments.in);
  return CheckBundleOutput(arguments.out, arguments.in,
                           arguments.force || arguments.options.dry_run);
}

Status Repair(const RepairArguments& arguments) {
  HONE_TRY(CheckArguments(arguments));
  bundle::RepairOptions options = arguments.options;
  if (!options.npu_mask && !options.unused_cache_inputs) options.scales = true;
  options.cancel = CancelFlag();
  const std::string& out = arguments.in_place ? arguments.in : arguments.out;
  HONE_ASSIGN(const bundle::RepairReport report, bundle::RepairBundle(arguments.in, out, options));
  if (arguments.json) {
    PrintJson(bundle::RepairJson(report));
  } else {
    PrintText(bundle::RepairText(report));
  }
  return {};
}

}  // namespace

void RegisterRepair(CLI::App& app, Command* selected) {
  auto arguments = std::make_shared<RepairArguments>();
  CLI::App* sub = app.add_subcommand(
      "repair", "Mend block scales and graph patterns of a .litertlm bundle that runtimes refuse");
  sub->footer(
      "Without --scales, --npu-mask or --unused-cache-inputs it repairs scales. A file without\n"
      "faults is not written. Guide: docs/guides/repair.md.\n\n"
      "Example:\n  hone repair model.litertlm --in-place\n"
      "  hone repair model.litertlm -o npu.litertlm --npu-mask --unused-cache-inputs");
  sub->add_option("IN", arguments->in, "A .litertlm bundle")->required();
  sub->add_option("-o,--out", arguments->out, "The repaired bundle");
  sub->add_flag("--in-place", arguments->in_place, "Replace IN by the repaired bundle");
  sub->add_flag("--scales", arguments->options.scales,
                "Zero and subnormal block scales become the tensor's smallest normal scale");
  sub->add_flag("--npu-mask", arguments->options.npu_mask,
                "Repeated masks become additions that broadcast over explicit heads");
  sub->add_flag("--unused-cache-inputs", arguments->options.unused_cache_inputs,
                "Remove cache inputs of prefill signatures that nothing reads");
  sub->add_flag("--dry-run", arguments->options.dry_run, "Report, and write nothing");
  sub->add_flag("--force", arguments->force, "Replace OUT if it exists");
  sub->add_flag("--json", arguments->json, "Print the report as JSON");
  sub->callback([arguments, selected] { *selected = [arguments] { return Repair(*arguments); }; });
}

}  // namespace hone::cli
