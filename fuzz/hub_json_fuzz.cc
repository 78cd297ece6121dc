// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "hub/repo.h"
#include "hub/repo_info.h"
#include "hub/select.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto ref = hone::hub::ParseRepoRef(text); ref.ok()) {
    HONE_CHECK(hone::hub::CheckFileName(ref->name).ok());
    HONE_CHECK(ref->revision.find("..") == std::string::npos && ref->revision[0] != '/');
  }
  const auto info = hone::hub::ParseRepoInfo(text);
  if (!info.ok()) return 0;
  HONE_CHECK(hone::hub::IsHex(info->commit, 40));
  for (const hone::hub::RepoFile& file : info->files) {
    HONE_CHECK(hone::hub::CheckFileName(file.name).ok());
    HONE_CHECK(file.etag.empty() || hone::hub::IsBlobName(file.etag));
  }
  static_cast<void>(hone::hub::SelectFiles("a/b", *info, {}));
  static_cast<void>(
      hone::hub::SelectFiles("a/b", *info, {.include = {"*[a-c]*.json"}, .exclude = {"*x/"}}));
  return 0;
}
