// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Downloads with a progress line, notes and Ctrl-C.
#pragma once

#include "base/status.h"
#include "hub/pull.h"

namespace hone::cli {

// Fills options.transfer's progress, note and cancel.
Result<hub::PullReport> PullFromHub(const hub::Settings& settings, const hub::RepoRef& ref,
                                    hub::PullOptions options);

}  // namespace hone::cli
