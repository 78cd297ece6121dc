// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "hub/repo_info.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "hub/repo.h"

namespace hone::hub {
namespace {

Status Bad(std::string_view what) {
  return Status(Code::kDataLoss, StrCat("the answer of the hub is no list of files: ", what,
                                        "; check HF_ENDPOINT or try again later"));
}

// A size in bytes, or nothing if there is none.
Status ReadSize(const Json& object, const std::string& name, RepoFile* file) {
  const Json* size = object.FindNonNull("size");
  if (size == nullptr) return {};
  // Up to 2^50, so that sums cannot wrap.
  if (!size->IsInt() || size->AsInt() < 0 || size->AsInt() > (std::int64_t{1} << 50)) {
    return Bad(StrCat("\"", name, "\" has a size that is no number of bytes"));
  }
  file->bytes = static_cast<std::uint64_t>(size->AsInt());
  file->has_bytes = true;
  return {};
}

Result<RepoFile> ReadFileEntry(const Json& entry) {
  RepoFile file;
  const Json* name = entry.Find("rfilename");
  if (name == nullptr || !name->IsString()) return Bad("a file has no name");
  file.name = name->AsString();
  HONE_TRY(CheckFileName(file.name));
  HONE_TRY(ReadSize(entry, file.name, &file));
  if (const Json* blob = entry.FindNonNull("blobId"); blob != nullptr) {
    if (!blob->IsString() || !IsHex(blob->AsString(), 40)) {
      return Bad(StrCat("\"", file.name, "\" has a blobId that is no SHA-1"));
    }
    file.etag = blob->AsString();
  }
  const Json* lfs = entry.FindNonNull("lfs");
  if (lfs == nullptr) return file;
  const Json* hash = lfs->FindNonNull("sha256");
  if (hash == nullptr || !hash->IsString() || !IsHex(hash->AsString(), 64)) {
    return Bad(StrCat("\"", file.name, "\" has no SHA-256 in its lfs record"));
  }
  file.etag = hash->AsString();
  HONE_TRY(ReadSize(*lfs, file.name, &file));
  return file;
}

// Sorted names: a file that is also the folder of another one cannot be on a disk. What stands
// between "a" and "a/b" in the order also begins with "a".
Status CheckNames(const std::vector<RepoFile>& files) {
  std::vector<std::string_view> names;
  for (const RepoFile& file : files) names.emplace_back(file.name);
  std::sort(names.begin(), names.end());
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (names[i] == names[i - 1]) return Bad(StrCat("\"", names[i], "\" appears twice"));
  }
  for (const std::string_view name : names) {
    for (std::size_t slash = name.find('/'); slash != std::string_view::npos;
         slash = name.find('/', slash + 1)) {
      if (std::binary_search(names.begin(), names.end(), name.substr(0, slash))) {
        return Bad(StrCat("\"", name.substr(0, slash), "\" is a file and a folder"));
      }
    }
  }
  return {};
}

}  // namespace

Result<RepoInfo> ParseRepoInfo(std::string_view text) {
  auto json = ParseJson(text);
  if (!json.ok()) return Bad(json.message());
  if (!json->IsObject()) return Bad(StrCat("found ", json->TypeName(), ", expected an object"));
  RepoInfo info;
  const Json* sha = json->Find("sha");
  if (sha == nullptr || !sha->IsString() || !IsHex(sha->AsString(), 40)) {
    return Bad("no commit under \"sha\"");
  }
  info.commit = sha->AsString();
  const Json* siblings = json->FindNonNull("siblings");
  if (siblings == nullptr) return info;
  if (!siblings->IsArray()) return Bad("\"siblings\" is no array");
  for (const Json& entry : siblings->AsArray()) {
    HONE_ASSIGN(RepoFile file, ReadFileEntry(entry));
    info.files.push_back(std::move(file));
  }
  HONE_TRY(CheckNames(info.files));
  return info;
}

}  // namespace hone::hub
