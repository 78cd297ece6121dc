// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/select.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "hub/repo.h"

namespace hone::hub {
namespace {

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return MatchesGlob(pattern, name); });
}

bool AtTop(std::string_view name) { return name.find('/') == std::string_view::npos; }

// What hone convert reads. It looks at the top of a folder only.
bool IsDefault(std::string_view name, bool skip_consolidated) {
  if (!AtTop(name)) return false;
  for (const std::string_view other : {"pytorch_model", "tf_model", "flax_model"}) {
    if (name.starts_with(other)) return false;
  }
  // Some models come twice: also as one set of files in their maker's own layout.
  if (skip_consolidated && name.starts_with("consolidated")) return false;
  constexpr std::array<std::string_view, 7> kPatterns = {
      "*.json",  "*.safetensors", "tokenizer*", "chat_template*",
      "*.jinja", "merges.txt",    "vocab.txt"};
  return std::any_of(kPatterns.begin(), kPatterns.end(),
                     [&](std::string_view pattern) { return MatchesGlob(pattern, name); });
}

struct Kind {
  std::string_view suffix;
  std::string_view what;
};
// In the order in which they are offered.
constexpr std::array<Kind, 7> kKinds = {
    {{".litertlm", ".litertlm bundles, which hone run takes"},
     {".gguf", "GGUF files, which hone run and hone convert take"},
     {".task", ".task bundles of MediaPipe"},
     {".tflite", ".tflite files"},
     {".onnx", "ONNX files"},
     {".bin", "pickle files (.bin), which Hone does not read"},
     {".pth", "pickle files (.pth), which Hone does not read"}}};

std::vector<const RepoFile*> WithSuffix(const RepoInfo& info, std::string_view suffix) {
  std::vector<const RepoFile*> found;
  for (const RepoFile& file : info.files) {
    if (file.name.ends_with(suffix)) found.push_back(&file);
  }
  return found;
}

std::string ListNames(const std::vector<const RepoFile*>& files) {
  constexpr std::size_t kMost = 12;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMost, files.size()); ++i) {
    out += StrCat(i == 0 ? "" : ", ", files[i]->name);
  }
  if (files.size() > kMost) out += StrCat(" and ", files.size() - kMost, " more");
  return out;
}

Status NothingToConvert(const std::string& repo, const RepoInfo& info) {
  std::string there;
  std::string ask;
  for (const Kind& kind : kKinds) {
    const auto found = WithSuffix(info, kind.suffix);
    if (found.empty()) continue;
    there += StrCat(there.empty() ? "" : "; ", kind.what, ": ", ListNames(found));
    if (ask.empty()) ask = found.front()->name;
  }
  if (there.empty()) {
    std::vector<const RepoFile*> all;
    for (const RepoFile& file : info.files) all.push_back(&file);
    if (all.empty()) {
      return Status(Code::kUnsupported,
                    StrCat(repo, ": the hub has this model, but no file in it"));
    }
    there = ListNames(all);
    ask = all.front()->name;
  }
  return Status(Code::kUnsupported,
                StrCat(repo,
                       ": no config.json with .safetensors files, so there is nothing that hone "
                       "convert can read; it has ",
                       there,
                       "; ask for a file by name, for example: "
                       "hone pull ",
                       repo, " --include '", ask, "'"));
}

}  // namespace

Result<std::vector<RepoFile>> SelectFiles(const std::string& repo, const RepoInfo& info,
                                          const Selection& selection) {
  const bool defaults = selection.include.empty();
  bool has_config = false;
  bool has_weights = false;
  bool skip_consolidated = false;
  for (const RepoFile& file : info.files) {
    if (!AtTop(file.name)) continue;
    has_config = has_config || file.name == "config.json" || file.name == "adapter_config.json";
    if (!file.name.ends_with(".safetensors")) continue;
    has_weights = true;
    skip_consolidated = skip_consolidated || file.name.starts_with("model");
  }
  if (defaults && (!has_config || !has_weights)) return NothingToConvert(repo, info);
  std::vector<RepoFile> chosen;
  for (const RepoFile& file : info.files) {
    const bool wanted = defaults ? IsDefault(file.name, skip_consolidated)
                                 : MatchesAny(selection.include, file.name);
    if (wanted && !MatchesAny(selection.exclude, file.name)) chosen.push_back(file);
  }
  if (!chosen.empty()) return chosen;
  std::vector<const RepoFile*> all;
  for (const RepoFile& file : info.files) all.push_back(&file);
  return Status(Code::kInvalidArgument,
                StrCat(repo, ": no file matches the patterns; it has ",
                       all.empty() ? std::string("no file at all") : ListNames(all)));
}

}  // namespace hone::hub
