// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone peek: what a bundle holds.
#include "bundle/peek.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/file.h"
#include "bundle/peek_check.h"
#include "cli/cli.h"
#include "formats/litertlm/litertlm.h"

namespace hone::cli {
namespace {

struct PeekOptions {
  std::string path;
  bool json = false;
};

Status Peek(const PeekOptions& options) {
  if (IsDirectory(options.path)) {
    return Status(Code::kInvalidArgument,
                  StrCat(options.path,
                         ": is a folder, expected a .litertlm bundle; hone convert makes one from "
                         "a checkpoint folder"));
  }
  HONE_ASSIGN(const auto bundle, formats::litertlm::Bundle::Open(options.path));
  for (const std::string& warning : bundle->warnings()) PrintWarning(warning);
  HONE_ASSIGN(Json facts, bundle::PeekBundle(*bundle));
  HONE_ASSIGN(const int threads, ResolveThreads(0));
  HONE_TRY(bundle::AddCheckedFacts(options.path, threads, facts));
  if (options.json) {
    PrintJson(facts);
  } else {
    PrintText(bundle::PeekText(facts));
  }
  return {};
}

}  // namespace

void RegisterPeek(CLI::App& app, Command* selected) {
  auto options = std::make_shared<PeekOptions>();
  CLI::App* sub = app.add_subcommand("peek", "Show what a .litertlm bundle holds");
  sub->footer("Example:\n  hone peek smollm2.litertlm\n  hone peek smollm2.litertlm --json");
  sub->add_option("FILE", options->path, "A .litertlm bundle")->required();
  sub->add_flag("--json", options->json, "Print everything as JSON");
  sub->callback([options, selected] { *selected = [options] { return Peek(*options); }; });
}

}  // namespace hone::cli
