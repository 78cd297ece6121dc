// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which files of a model are downloaded.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "hub/repo_info.h"

namespace hone::hub {

struct Selection {
  std::vector<std::string> include;  // patterns; empty: what hone convert reads
  std::vector<std::string> exclude;
};

// The chosen files in the order of the list. If nothing can be chosen the error says what there is
// and how to ask for it; repo is ORG/NAME.
Result<std::vector<RepoFile>> SelectFiles(const std::string& repo, const RepoInfo& info,
                                          const Selection& selection);

}  // namespace hone::hub
