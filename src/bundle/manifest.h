// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Hashes of files and of the sections inside bundles, written down and compared later.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace hone::bundle {

inline constexpr int kManifestFormat = 1;

// {"format", "hone", "files": [{"name", "bytes", "sha256"}]}; a bundle also has "sections" (index,
// type, name, bytes, sha256) and, from its hone.json, "architecture", "recipe", "source" and
// "made_by". Names are without folders, so no two may be equal.
Result<Json> MakeManifest(const std::vector<std::string>& files,
                          const std::atomic<bool>* cancel = nullptr);

struct ManifestResult {
  std::string file;
  std::vector<std::string> differences;  // sentences; empty: as the manifest says
};
// Files are looked up by name among those given, else in folder. kDataLoss if the manifest is none.
Result<std::vector<ManifestResult>> VerifyManifest(const Json& manifest, const std::string& folder,
                                                   const std::vector<std::string>& files,
                                                   const std::atomic<bool>* cancel = nullptr);

}  // namespace hone::bundle
