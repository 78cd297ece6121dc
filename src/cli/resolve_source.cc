// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/resolve_source.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "cli/cli.h"
#include "cli/hub_pull.h"
#include "hub/cache.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Only the hub can be meant.
bool NamesTheHub(const std::string& source, const Result<hub::RepoRef>& ref) {
  return source.starts_with("hf://") || source.starts_with("https://") ||
         (ref.ok() && source.find('@') != std::string::npos);
}

bool LooksLikeFile(const std::string& source) {
  for (const std::string_view end : {".gguf", ".litertlm", ".safetensors", ".json", ".tflite"}) {
    if (source.ends_with(end)) return true;
  }
  return false;
}

ResolvedSource FromSnapshot(const std::string& folder, const hub::RepoRef& ref) {
  return {.path = folder, .repository = ref.name, .revision = fs::path(folder).filename().string()};
}

Result<ResolvedSource> FromHub(const hub::RepoRef& ref) {
  HONE_ASSIGN(const hub::Settings settings, hub::ReadSettings());
  auto cached = hub::FindSnapshot(settings.cache, ref);
  // A commit never changes.
  if (cached.ok() && (settings.offline || hub::IsHex(ref.revision, 40))) {
    return FromSnapshot(*cached, ref);
  }
  if (settings.offline) {
    return Status(Code::kNotFound,
                  StrCat(cached.message(), ", and HF_HUB_OFFLINE forbids to download it"));
  }
  hub::PullOptions options;
  if (cached.ok()) options.transfer.max_tries = 1;  // there is another way
  auto report = PullFromHub(settings, ref, options);
  if (report.ok()) {
    return ResolvedSource{
        .path = report->folder, .repository = ref.name, .revision = report->commit};
  }
  if (!cached.ok() || report.code() != Code::kIo) return std::move(report).status();
  PrintNote(StrCat(report.message(), "; using what is in the cache"));
  return FromSnapshot(*cached, ref);
}

}  // namespace

Result<ResolvedSource> ResolveSource(const std::string& source) {
  const ResolvedSource path = {.path = source, .repository = "", .revision = ""};
  if (Exists(source)) return path;
  auto ref = hub::ParseRepoRef(source);
  const bool names_hub = NamesTheHub(source, ref);
  if (!names_hub) {
    if (!ref.ok() || LooksLikeFile(source))
      return path;  // its reader says that there is no such file
    if (Exists(source.substr(0, source.find('/')))) {
      return Status(Code::kNotFound,
                    StrCat(source,
                           ": no such file or folder; if you mean the model of the hub, write "
                           "hf://",
                           source));
    }
  }
  if (!ref.ok()) return std::move(ref).status();
  auto resolved = FromHub(*ref);
  if (resolved.ok() || names_hub) return resolved;
  return Status(
      resolved.code(),
      StrCat(source, ": no such file or folder here. From the hub: ", resolved.message()));
}

}  // namespace hone::cli
