// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A lock that other programs see, the same that huggingface_hub takes (flock on a file).
#pragma once

#include <optional>
#include <string>

#include "base/status.h"

namespace hone::hub {

class FileLock {
 public:
  // Creates the file and its folders if need be. Nothing if another program holds the lock.
  static Result<std::optional<FileLock>> Try(const std::string& path);
  FileLock() = default;
  FileLock(FileLock&& o) noexcept;
  FileLock& operator=(FileLock&& o) noexcept;
  ~FileLock();

 private:
  int fd_ = -1;
};

// Creates the folder and those above it.
Status MakeFolders(const std::string& path);

}  // namespace hone::hub
