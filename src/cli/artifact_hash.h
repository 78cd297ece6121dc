// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a model on this machine: a file, or a folder's files.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace hone::cli {

struct ArtifactHash {
  std::string sha256;
  std::uint64_t bytes = 0;
};

// Bytes of the file, or of the files that lie in the folder.
Result<std::uint64_t> ArtifactBytes(const std::string& path);

// A file's hash is that of its bytes. A folder's is that of the text that sha256sum prints for its
// files (not those of folders in it) in the order of their names: "HASH  NAME\n" each. Reads in
// pieces; progress is told the bytes that are done. kCancelled soon after cancel became true.
Result<ArtifactHash> HashArtifact(const std::string& path,
                                  const std::function<void(std::uint64_t done)>& progress,
                                  const std::atomic<bool>* cancel);

}  // namespace hone::cli
