// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A folder of the user's with a model's files, with the notes of huggingface_hub about where each
// file came from (.cache/huggingface/download/PATH.metadata).
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "hub/repo_info.h"

namespace hone::hub {

class LocalFolder {
 public:
  explicit LocalFolder(std::string root) : root_(std::move(root)) {}

  std::string File(const std::string& name) const;
  std::string Partial(const RepoFile& file) const;
  std::string Lock(const std::string& name) const;

  // True if the file is there and right. A file that did not come from the hub, or that was changed
  // since, and has other bytes is refused unless force.
  Result<bool> Has(const RepoFile& file, bool force) const;
  // Creates the folders for the file.
  Status Prepare(const std::string& name) const;
  // Notes that the file is that of the commit.
  Status Note(const RepoFile& file, const std::string& commit) const;

 private:
  std::string Metadata(const std::string& name) const;
  std::string root_;
};

}  // namespace hone::hub
