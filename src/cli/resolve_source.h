// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What SRC on a command line names.
#pragma once

#include <string>

#include "base/status.h"

namespace hone::cli {

struct ResolvedSource {
  std::string path;        // a folder or a file on this machine
  std::string repository;  // "openbmb/MiniCPM5-2B"; empty: not from a hub
  std::string revision;    // the commit; empty: not known
};

// A path that exists is that path, and so is what cannot be a model of the hub. ORG/NAME or
// ORG/NAME@REVISION is looked for on the hub and downloaded, or taken from the cache of earlier
// downloads if the hub cannot be reached.
Result<ResolvedSource> ResolveSource(const std::string& source);

}  // namespace hone::cli
