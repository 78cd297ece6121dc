// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How long a request is tried again.
#pragma once

#include <chrono>

#include "hub/explain.h"
#include "hub/transfer.h"

namespace hone::hub {

using Clock = std::chrono::steady_clock;

struct Retry {
  int tries = 0;  // that brought nothing

  // Counts a try that failed. Returns when the next one may begin, or why there is none. The result
  // is the network's failure or an answer that may change (MayWorkLater); cut says that an answer
  // ended early.
  Result<Clock::time_point> Next(const Settings& settings, const RepoRef& ref,
                                 const std::string& file, const HttpResult& result,
                                 const TransferOptions& options);
};

}  // namespace hone::hub
