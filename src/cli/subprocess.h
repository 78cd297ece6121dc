// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs another program. No shell: arguments reach it as they are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::cli {

// Receives standard output piece by piece; an error makes the program end and is passed on.
using OutputSink = std::function<Status(ByteSpan)>;

// Runs argv[0], looked up in PATH, and waits for it. Its standard output goes to sink, or to our
// standard error if sink is empty, so that our own output stays clean. Returns the exit code, 128 +
// n for signal n. kNotFound if there is no such program.
Result<int> RunProgram(const std::vector<std::string>& argv, const OutputSink& sink = {});

}  // namespace hone::cli
