// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone check: what is wrong or risky in a bundle.
#include "bundle/check.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/cli.h"

namespace hone::cli {
namespace {

struct CheckArguments {
  std::string path, backend, device_limit;
  bool deep = false, json = false;
  int threads = 0;
};

Status Check(const CheckArguments& arguments) {
  if (IsDirectory(arguments.path)) {
    return Status(Code::kInvalidArgument,
                  StrCat(arguments.path, ": is a folder, expected a .litertlm bundle"));
  }
  bundle::CheckOptions options;
  options.deep = arguments.deep;
  if (arguments.backend == "cpu") options.backend = bundle::Backend::kCpu;
  if (arguments.backend == "gpu") options.backend = bundle::Backend::kGpu;
  if (arguments.backend == "npu") options.backend = bundle::Backend::kNpu;
  if (!arguments.device_limit.empty()) {
    HONE_ASSIGN(options.device_limit, ParseByteCount("--device-limit", arguments.device_limit));
  }
  HONE_ASSIGN(options.num_threads, ResolveThreads(arguments.threads));
  options.cancel = CancelFlag();
  HONE_ASSIGN(const bundle::CheckReport report, bundle::CheckBundle(arguments.path, options));
  if (arguments.json) {
    PrintJson(bundle::CheckJson(report));
  } else {
    PrintText(bundle::CheckText(report));
  }
  const int errors = report.Count(bundle::Severity::kError);
  if (errors == 0) return {};
  return Status(kCheckFailed,
                StrCat(arguments.path, ": ", errors, errors == 1 ? " error" : " errors", " found"));
}

}  // namespace

void RegisterCheck(CLI::App& app, Command* selected) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* sub = app.add_subcommand("check", "Find what is wrong or risky in a .litertlm bundle");
  sub->footer(
      "Exit code 1 if there are errors. docs/checks.md explains every finding.\n\n"
      "Example:\n  hone check smollm2.litertlm\n"
      "  hone check smollm2.litertlm --backend gpu --device-limit 1GiB --json");
  sub->add_option("FILE", arguments->path, "A .litertlm bundle")->required();
  sub->add_flag("--deep", arguments->deep,
                "Also hashes, every weight, and running the graphs (slow)");
  sub->add_option("--backend", arguments->backend, "What the file is for: cpu, gpu or npu")
      ->check(CLI::IsMember(std::vector<std::string>{"cpu", "gpu", "npu"}));
  sub->add_option("--device-limit", arguments->device_limit,
                  "Largest buffer of the device, such as 1GiB or 128MiB");
  sub->add_option("--threads", arguments->threads, kThreadsHelp)
      ->check(WholeNumber)
      ->transform(ThreadsWord)
      ->default_str("auto");
  sub->add_flag("--json", arguments->json, "Print the findings as JSON");
  sub->callback([arguments, selected] { *selected = [arguments] { return Check(*arguments); }; });
}

}  // namespace hone::cli
