// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone manifest: hashes of files and sections, written and verified.
#include "bundle/manifest.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/cli.h"

namespace hone::cli {
namespace {

struct ManifestArguments {
  std::vector<std::string> files;
  std::string out, verify;
  bool force = false, json = false;
};

Status Make(const ManifestArguments& arguments) {
  if (arguments.files.empty()) {
    return Status(Code::kInvalidArgument, "name at least one FILE, or a manifest with --verify");
  }
  if (!arguments.out.empty()) {
    HONE_TRY(CheckOutputPath(arguments.out));
    if (FileExists(arguments.out) && !arguments.force) {
      return Status(Code::kInvalidArgument,
                    StrCat(arguments.out, ": exists already; pass --force to replace it"));
    }
  }
  HONE_ASSIGN(const Json manifest, bundle::MakeManifest(arguments.files, CancelFlag()));
  if (arguments.out.empty()) {
    PrintJson(manifest);
    return {};
  }
  HONE_TRY(WriteFileAtomic(arguments.out, AsBytes(manifest.Dump(1) + "\n")));
  if (arguments.json) PrintJson(manifest);
  return {};
}

Status Verify(const ManifestArguments& arguments) {
  HONE_ASSIGN(const std::string text, ReadFile(arguments.verify, 64ULL << 20));
  auto manifest = ParseJson(text);
  if (!manifest.ok()) return std::move(manifest).status().Context(arguments.verify);
  std::string folder = std::filesystem::path(arguments.verify).parent_path().string();
  if (folder.empty()) folder = ".";
  auto results = bundle::VerifyManifest(*manifest, folder, arguments.files, CancelFlag());
  if (!results.ok()) return std::move(results).status().Context(arguments.verify);
  std::size_t bad = 0;
  Json::Array list;
  for (const bundle::ManifestResult& result : *results) {
    Json::Array differences;
    for (const std::string& difference : result.differences) differences.emplace_back(difference);
    bad += result.differences.empty() ? 0 : 1;
    if (!arguments.json) {
      PrintText(
          StrCat(OneLine(result.file), result.differences.empty() ? ": ok\n" : ": differs\n"));
      for (const std::string& difference : result.differences) {
        PrintText(StrCat("  ", OneLine(difference), "\n"));
      }
    }
    list.emplace_back(Json::Object{{"file", result.file},
                                   {"ok", result.differences.empty()},
                                   {"differences", Json(std::move(differences))}});
  }
  if (arguments.json) {
    PrintJson(Json(Json::Object{{"ok", bad == 0}, {"files", Json(std::move(list))}}));
  }
  if (bad == 0) return {};
  return Status(kCheckFailed,
                StrCat(bad, " of ", results->size(), results->size() == 1 ? " file" : " files",
                       " differ from ", arguments.verify));
}

}  // namespace

void RegisterManifest(CLI::App& app, Command* selected) {
  auto arguments = std::make_shared<ManifestArguments>();
  CLI::App* sub =
      app.add_subcommand("manifest", "Write down or verify the hashes of files and sections");
  sub->footer(
      "Exit code 1 if something differs.\n\n"
      "Example:\n  hone manifest smollm2.litertlm README.md -o manifest.json\n"
      "  hone manifest --verify manifest.json");
  sub->add_option("FILE", arguments->files, "Files; of a .litertlm bundle also its sections");
  CLI::Option* out =
      sub->add_option("-o,--out", arguments->out, "The manifest to write; else it is printed");
  sub->add_option(
         "--verify", arguments->verify,
         "Compare the files that this manifest names, which lie beside it unless FILE says "
         "where")
      ->excludes(out);
  sub->add_flag("--force", arguments->force, "Replace OUT if it exists");
  sub->add_flag("--json", arguments->json, "Print the result as JSON");
  sub->callback([arguments, selected] {
    *selected = [arguments] {
      return arguments->verify.empty() ? Make(*arguments) : Verify(*arguments);
    };
  });
}

}  // namespace hone::cli
