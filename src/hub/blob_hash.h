// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The hash that names a blob, computed a bit at a time, so that other transfers go on meanwhile.
#pragma once

#include <optional>
#include <string>

#include "bridge/sha256.h"
#include "hub/partial_file.h"
#include "hub/sha1.h"

namespace hone::hub {

class BlobHash {
 public:
  // For the etag of a file of that size; without effect for an etag that is no hash.
  BlobHash(const std::string& etag, std::uint64_t size);
  void Update(ByteSpan bytes);
  // The etag as it must be for these bytes; "" if the etag is no hash.
  std::string Finish();

 private:
  std::optional<bridge::Sha256> sha256_;
  std::optional<Sha1> sha1_;
};

// True if the file at path has this size and hash.
Result<bool> FileHasEtag(const std::string& path, const std::string& etag, std::uint64_t size);

}  // namespace hone::hub
