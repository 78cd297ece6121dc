// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The folder of downloads, in the layout of huggingface_hub: both programs find what the other one
// loaded.
//
//   CACHE/models--ORG--NAME/blobs/ETAG                  the bytes
//   CACHE/models--ORG--NAME/snapshots/COMMIT/PATH       a link to a blob
//   CACHE/models--ORG--NAME/refs/REVISION               a file with the commit
//   CACHE/.locks/models--ORG--NAME/ETAG.lock            held while the blob is loaded
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "hub/repo.h"

namespace hone::hub {

class RepoCache {
 public:
  RepoCache(const std::string& cache, const std::string& repo);

  std::string Blob(const std::string& etag) const;
  // Another name than huggingface_hub's, which takes the bytes of an ".incomplete" file for the
  // beginning of the blob. Ours may have holes.
  std::string Partial(const std::string& etag) const;
  std::string Lock(const std::string& etag) const;
  std::string Snapshot(const std::string& commit) const;

  // The commit that the revision had when it was last loaded. kNotFound if there is none.
  Result<std::string> CommitOf(const std::string& revision) const;
  Status WriteRef(const std::string& revision, const std::string& commit) const;

  // Makes snapshots/COMMIT/name a link to the blob. Refuses to go through a link on the way.
  Status Link(const std::string& commit, const std::string& name, const std::string& etag) const;
  // True if the snapshot has the file with that size.
  bool Has(const std::string& commit, const std::string& name, std::uint64_t bytes) const;

  // Creates the folders, with a CACHEDIR.TAG that tells backup programs to pass by.
  Status Prepare() const;

  // Downloads that were killed and that nobody goes on with: their paths and the disk they use.
  std::vector<std::pair<std::string, std::uint64_t>> Unfinished() const;

 private:
  std::string cache_, folder_, locks_;
};

// The snapshot of the revision in the cache if it has what hone convert needs: config.json and
// every .safetensors file that the index names. kNotFound says what is missing.
Result<std::string> FindSnapshot(const std::string& cache, const RepoRef& ref);

// Fails if a folder between root and root/name is a link, which could lead anywhere, and creates
// those that are missing.
Status MakeFoldersBelow(const std::string& root, const std::string& name);

}  // namespace hone::hub
