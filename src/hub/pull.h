// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Downloads a model of the hub, into the cache or into a folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/repo.h"
#include "hub/select.h"
#include "hub/settings.h"
#include "hub/transfer.h"

namespace hone::hub {

struct PullOptions {
  Selection selection;
  std::string local_dir;  // "" for the cache
  bool force = false;     // replace files of local_dir that did not come from the hub
  std::size_t max_answer_bytes = 32U << 20;  // of the list of files
  std::uint64_t spare_disk_bytes = 64U << 20;
  TransferOptions transfer;
};

struct PulledFile {
  std::string name;
  std::string etag;
  std::uint64_t bytes = 0;
  bool was_there = false;
};

struct PullReport {
  std::string commit;
  std::string folder;  // with the files
  std::vector<PulledFile> files;
  std::uint64_t bytes = 0;         // of all files
  std::uint64_t loaded_bytes = 0;  // that came over the network
};

// The folder of the report is whole when this returns. After an error, also kCancelled, what was
// loaded is kept for the next call, under names that nobody takes for whole files.
Result<PullReport> Pull(const Settings& settings, const RepoRef& ref, const PullOptions& options);

}  // namespace hone::hub
