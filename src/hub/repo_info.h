// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the hub says about a model at a revision: its commit and its files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hone::hub {

struct RepoFile {
  std::string name;  // has passed CheckFileName
  // The name of its blob: SHA-256 of the bytes for a large file, git's SHA-1 for a small one. "" if
  // the server did not say.
  std::string etag;
  std::uint64_t bytes = 0;
  bool has_bytes = false;  // whether the server said how large it is
};

struct RepoInfo {
  std::string commit;  // 40 hex digits
  std::vector<RepoFile> files;
};

// Reads the answer of /api/models/ORG/NAME/revision/REVISION?blobs=true. Refuses names that leave
// their folder, a name that appears twice, and one that is a file and a folder.
Result<RepoInfo> ParseRepoInfo(std::string_view json);

}  // namespace hone::hub
