// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Messages from the library. It never prints by itself: they go to the sink that the program sets.
#pragma once

#include <functional>
#include <string_view>

namespace hone {

enum class LogLevel { kInfo, kWarning };

// Receives one line without a newline. May be called from any thread.
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Sets the sink for the whole process; an empty one drops everything (the default).
// Call before other threads start.
void SetLogSink(LogSink sink);

void LogInfo(std::string_view line);
void LogWarning(std::string_view line);

}  // namespace hone
