// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/json.h"
#include "hub/file_lock.h"

namespace hone::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartialSuffix = ".hone.incomplete";
constexpr std::string_view kTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder holds downloads that can be loaded again: https://bford.info/cachedir/\n";

std::string FolderName(const std::string& repo) {
  std::string name = "models--" + repo;
  const std::size_t slash = name.find('/');
  if (slash != std::string::npos) name.replace(slash, 1, "--");
  return name;
}

// The files that the index names, or an empty list if it is none.
std::vector<std::string> FilesOfIndex(const std::string& path) {
  std::vector<std::string> files;
  auto text = ReadFile(path, 64 << 20);
  if (!text.ok()) return files;
  auto json = ParseJson(*text);
  const Json* map = json.ok() ? json->Find("weight_map") : nullptr;
  if (map == nullptr || !map->IsObject()) return files;
  for (const auto& [tensor, file] : map->AsObject()) {
    if (file.IsString() && CheckFileName(file.AsString()).ok()) files.push_back(file.AsString());
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

bool HasSafetensors(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors" && FileExists(it->path().string())) return true;
  }
  return false;
}

}  // namespace

Status MakeFoldersBelow(const std::string& root, const std::string& name) {
  HONE_TRY(MakeFolders(root));
  std::string path = root;
  std::size_t begin = 0;
  for (std::size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', begin)) {
    path += "/" + name.substr(begin, slash - begin);
    begin = slash + 1;
    struct stat st{};
    if (::lstat(path.c_str(), &st) == 0) {
      if (S_ISDIR(st.st_mode)) continue;
      return Status(Code::kInvalidArgument,
                    StrCat(path, ": ", S_ISLNK(st.st_mode) ? "a link" : "a file",
                           ", expected a folder; move it away"));
    }
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      return Status(Code::kIo, StrCat(path, ": cannot create the folder: ", std::strerror(errno)));
    }
  }
  return {};
}

RepoCache::RepoCache(const std::string& cache, const std::string& repo)
    : cache_(cache),
      folder_(StrCat(cache, "/", FolderName(repo))),
      locks_(StrCat(cache, "/.locks/", FolderName(repo))) {}

std::string RepoCache::Blob(const std::string& etag) const {
  return StrCat(folder_, "/blobs/", etag);
}
std::string RepoCache::Partial(const std::string& etag) const {
  return StrCat(folder_, "/blobs/", etag, kPartialSuffix);
}
std::string RepoCache::Lock(const std::string& etag) const {
  return StrCat(locks_, "/", etag, ".lock");
}
std::string RepoCache::Snapshot(const std::string& commit) const {
  return StrCat(folder_, "/snapshots/", commit);
}

Result<std::string> RepoCache::CommitOf(const std::string& revision) const {
  if (IsHex(revision, 40)) return revision;
  auto text = ReadFile(StrCat(folder_, "/refs/", revision), 128);
  if (!text.ok()) return std::move(text).status();
  while (text->ends_with('\n')) text->pop_back();
  if (!IsHex(*text, 40)) {
    return Status(Code::kNotFound, StrCat(folder_, "/refs/", revision, ": found no commit in it"));
  }
  return *std::move(text);
}

Status RepoCache::WriteRef(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return {};
  const auto there = CommitOf(revision);
  if (there.ok() && *there == commit) return {};
  HONE_TRY(MakeFoldersBelow(folder_ + "/refs", revision));
  return WriteFileAtomic(StrCat(folder_, "/refs/", revision), AsBytes(commit));
}

bool RepoCache::Has(const std::string& commit, const std::string& name, std::uint64_t bytes) const {
  struct stat st{};
  const std::string path = StrCat(Snapshot(commit), "/", name);
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
         static_cast<std::uint64_t>(st.st_size) == bytes;
}

Status RepoCache::Link(const std::string& commit, const std::string& name,
                       const std::string& etag) const {
  HONE_TRY(MakeFoldersBelow(Snapshot(commit), name));
  const std::string path = StrCat(Snapshot(commit), "/", name);
  std::string target = "../../blobs/" + etag;
  for (const char c : name) target.insert(0, c == '/' ? "../" : "");
  if (::symlink(target.c_str(), path.c_str()) == 0) return {};
  const bool exists = errno == EEXIST;
  std::error_code ignored;
  if (exists && fs::read_symlink(path, ignored) == target) return {};
  // Another file, such as a link to a blob that is gone.
  if (exists && ::unlink(path.c_str()) == 0 && ::symlink(target.c_str(), path.c_str()) == 0) {
    return {};
  }
  return Status(Code::kIo, StrCat(path, ": cannot create a link: ", std::strerror(errno),
                                  "; on a disk without links use --local-dir"));
}

Status RepoCache::Prepare() const {
  HONE_TRY(MakeFolders(folder_ + "/blobs"));
  HONE_TRY(MakeFolders(folder_ + "/snapshots"));
  const std::string tag = cache_ + "/CACHEDIR.TAG";
  return FileExists(tag) ? Status() : WriteFileAtomic(tag, AsBytes(kTag));
}

std::vector<std::pair<std::string, std::uint64_t>> RepoCache::Unfinished() const {
  std::vector<std::pair<std::string, std::uint64_t>> found;
  std::error_code error;
  for (fs::directory_iterator it(folder_ + "/blobs", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(kPartialSuffix)) continue;
    struct stat st{};
    if (::lstat(it->path().c_str(), &st) != 0) continue;
    const auto lock = FileLock::Try(Lock(name.substr(0, name.size() - kPartialSuffix.size())));
    if (!lock.ok() || !*lock) continue;  // someone works on it
    found.emplace_back(it->path().string(), static_cast<std::uint64_t>(st.st_blocks) * 512);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::string> FindSnapshot(const std::string& cache, const RepoRef& ref) {
  const RepoCache repo(cache, ref.name);
  const auto missing = [&](std::string_view what) {
    return Status(Code::kNotFound, StrCat(ref.name, "@", ref.revision, ": ", what, " in ", cache));
  };
  const auto commit = repo.CommitOf(ref.revision);
  if (!commit.ok()) return missing("not");
  const std::string folder = repo.Snapshot(*commit);
  if (!FileExists(folder + "/config.json")) return missing("not or not whole");
  const std::vector<std::string> files = FilesOfIndex(folder + "/model.safetensors.index.json");
  for (const std::string& file : files) {
    if (!FileExists(StrCat(folder, "/", file)))
      return missing(StrCat("not whole (", file, " is missing)"));
  }
  if (files.empty() && !HasSafetensors(folder)) return missing("no weights");
  return folder;
}

}  // namespace hone::hub
