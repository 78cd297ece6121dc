// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <mutex>
#include <utility>

namespace hone {
namespace {
std::mutex g_mutex;
LogSink& Sink() {
  static LogSink sink;
  return sink;
}
void Log(LogLevel level, std::string_view line) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (Sink()) Sink()(level, line);
}
}  // namespace

void SetLogSink(LogSink sink) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  Sink() = std::move(sink);
}
void LogInfo(std::string_view line) { Log(LogLevel::kInfo, line); }
void LogWarning(std::string_view line) { Log(LogLevel::kWarning, line); }

}  // namespace hone
