// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone pull: downloads a model of the hub, or the sample model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/hub_pull.h"
#include "cli/sample_model.h"

namespace hone::cli {
namespace {

struct PullArguments {
  std::string name;
  std::string token;
  hub::PullOptions options;
  bool json = false;
};

void PrintSample(const PullArguments& args, const SampleReport& report) {
  if (!args.json) {
    PrintText(report.was_there ? StrCat(report.file, ": already here\n")
                               : StrCat(report.file, ": ", FormatBytes(report.bytes), ", SHA-256 ",
                                        report.sha256, "\n"));
    return;
  }
  Json json;
  json.Set("path", report.file);
  json.Set("bytes", report.bytes);
  json.Set("sha256", report.sha256);
  json.Set("was_there", report.was_there);
  PrintJson(json);
}

// The file if there is only one, else the folder.
std::string ResultPath(const hub::PullReport& report) {
  if (report.files.size() != 1) return report.folder;
  return StrCat(report.folder, "/", report.files.front().name);
}

void PrintReport(const PullArguments& args, const hub::RepoRef& ref, const hub::PullReport& report,
                 double seconds) {
  if (!args.json) {
    const auto there = std::count_if(report.files.begin(), report.files.end(),
                                     [](const hub::PulledFile& file) { return file.was_there; });
    PrintNote(StrCat(ref.name, "@", ref.revision, " is commit ", report.commit, ": ",
                     report.files.size(), report.files.size() == 1 ? " file, " : " files, ",
                     FormatBytes(report.bytes), ", ", there, " already here, ",
                     FormatBytes(report.loaded_bytes), " loaded"));
    PrintText(ResultPath(report) + "\n");
    return;
  }
  Json::Array files;
  for (const hub::PulledFile& file : report.files) {
    Json entry;
    entry.Set("name", file.name);
    entry.Set("bytes", file.bytes);
    entry.Set(hub::HashOfEtag(file.etag) == "SHA-256" ? "sha256" : "etag", file.etag);
    entry.Set("was_there", file.was_there);
    files.push_back(std::move(entry));
  }
  Json json;
  json.Set("repository", ref.name);
  json.Set("revision", ref.revision);
  json.Set("commit", report.commit);
  json.Set("path", ResultPath(report));
  json.Set("bytes", report.bytes);
  json.Set("loaded_bytes", report.loaded_bytes);
  json.Set("seconds", seconds);
  json.Set("files", std::move(files));
  PrintJson(json);
}

Status RefuseOptions(const PullArguments& args) {
  const hub::PullOptions& o = args.options;
  if (o.selection.include.empty() && o.selection.exclude.empty() && o.local_dir.empty() &&
      args.token.empty()) {
    return {};
  }
  return Status(Code::kInvalidArgument,
                StrCat(args.name,
                       ": the sample model is one file for the current folder; --include, "
                       "--exclude, --local-dir and --token are for models of the hub"));
}

Status Pull(const PullArguments& args) {
  const auto start = std::chrono::steady_clock::now();
  if (IsSampleModel(args.name)) {
    HONE_TRY(RefuseOptions(args));
    HONE_ASSIGN(const SampleReport report, PullSampleModel(args.options.force));
    PrintSample(args, report);
    return {};
  }
  auto ref = hub::ParseRepoRef(args.name);
  if (!ref.ok()) {
    return Status(ref.code(), StrCat(ref.message(), ", or smollm2-135m for the sample model"));
  }
  HONE_ASSIGN(hub::Settings settings, hub::ReadSettings());
  if (!args.token.empty()) {
    HONE_ASSIGN(settings.token, hub::CheckToken(args.token, "--token"));
    settings.token_source = "--token";
  }
  auto report = PullFromHub(settings, *ref, args.options);
  if (!report.ok()) return std::move(report).status();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  PrintReport(args, *ref, *report, seconds.count());
  return {};
}

}  // namespace

void RegisterPull(CLI::App& app, Command* selected) {
  auto args = std::make_shared<PullArguments>();
  CLI::App* sub = app.add_subcommand("pull", "Download a model and print where it is");
  sub->footer(
      "Downloads go into the cache that Python's huggingface_hub uses (HF_HOME); hone --help-env\n"
      "lists the variables. Whatever ends a download, the same command goes on where it "
      "stopped.\n\n"
      "Examples:\n"
      "  hone pull openbmb/MiniCPM5-2B\n"
      "  hone pull ORG/NAME@v1.0 --local-dir name\n"
      "  hone pull ORG/NAME-GGUF --include '*Q8_0.gguf'\n"
      "  hone pull smollm2-135m                            # the sample model, into this folder");
  sub->add_option("NAME", args->name, "ORG/NAME, ORG/NAME@REVISION or smollm2-135m")->required();
  sub->add_option("--include", args->options.selection.include,
                  "Only the files that match; default: what hone convert reads")
      ->allow_extra_args(false);
  sub->add_option("--exclude", args->options.selection.exclude, "Without the files that match")
      ->allow_extra_args(false);
  sub->add_option("--local-dir", args->options.local_dir, "A folder for the files, not the cache");
  sub->add_option("--token", args->token,
                  "An access token; others on this machine can see it, HF_TOKEN they cannot");
  sub->add_flag("--force", args->options.force,
                "Replace files that have other bytes than the model's");
  sub->add_flag("--json", args->json, "Print the report as JSON");
  sub->callback([args, selected] { *selected = [args] { return Pull(*args); }; });
}

}  // namespace hone::cli
