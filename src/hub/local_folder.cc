// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/local_folder.h"

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "hub/blob_hash.h"
#include "hub/cache.h"

namespace hone::hub {
namespace {

constexpr const char* kNotes = ".cache/huggingface/download/";

// The etag in the notes if the file was not changed since they were written, else "".
std::string NotedEtag(const std::string& path, double changed) {
  const auto text = ReadFile(path, 4096);
  if (!text.ok()) return "";
  const std::size_t first = text->find('\n');
  if (first == std::string::npos) return "";
  const std::size_t second = text->find('\n', first + 1);
  if (second == std::string::npos) return "";
  const double noted = std::strtod(text->c_str() + second + 1, nullptr);
  // As huggingface_hub does it: times of files may be coarse.
  return changed - 1 <= noted ? text->substr(first + 1, second - first - 1) : "";
}

}  // namespace

std::string LocalFolder::File(const std::string& name) const { return StrCat(root_, "/", name); }
std::string LocalFolder::Partial(const RepoFile& file) const {
  return StrCat(root_, "/", kNotes, file.name, ".", file.etag.substr(0, 16), ".hone.incomplete");
}
std::string LocalFolder::Lock(const std::string& name) const {
  return StrCat(root_, "/", kNotes, name, ".lock");
}
std::string LocalFolder::Metadata(const std::string& name) const {
  return StrCat(root_, "/", kNotes, name, ".metadata");
}

Result<bool> LocalFolder::Has(const RepoFile& file, bool force) const {
  const std::string path = File(file.name);
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0) return false;
  if (!S_ISREG(st.st_mode)) {
    return Status(Code::kInvalidArgument,
                  StrCat(path, ": exists and is no regular file; move it away"));
  }
  const double changed =
      static_cast<double>(st.st_mtim.tv_sec) + static_cast<double>(st.st_mtim.tv_nsec) * 1e-9;
  const std::string noted = NotedEtag(Metadata(file.name), changed);
  const bool same_size = static_cast<std::uint64_t>(st.st_size) == file.bytes;
  if (noted == file.etag && same_size) return true;
  if (same_size) {
    HONE_ASSIGN(const bool same, FileHasEtag(path, file.etag, file.bytes));
    if (same) return true;
  }
  if (!noted.empty() || force) return false;  // an older revision, or the user agrees
  return Status(Code::kInvalidArgument,
                StrCat(path,
                       ": exists with other bytes than the hub's file; move it away or pass "
                       "--force to replace it"));
}

Status LocalFolder::Prepare(const std::string& name) const {
  HONE_TRY(MakeFoldersBelow(root_, name));
  return MakeFoldersBelow(root_, kNotes + name);
}

Status LocalFolder::Note(const RepoFile& file, const std::string& commit) const {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::array<char, 64> time{};
  std::snprintf(time.data(), time.size(), "%.6f", now.count());
  const std::string text = StrCat(commit, "\n", file.etag, "\n", time.data(), "\n");
  return WriteFileAtomic(Metadata(file.name), AsBytes(text));
}

}  // namespace hone::hub
