// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/json.h"
#include "serve/http_workers.h"
#include "serve/openai/utf8.h"

namespace hone::serve {
namespace {

constexpr std::size_t kMaxLines = 10'000;

const char* ReasonName(CancelReason reason) {
  switch (reason) {
    case CancelReason::kNone:
      break;
    case CancelReason::kClientGone:
      return "client_gone";
    case CancelReason::kTooSlow:
      return "too_slow";
    case CancelReason::kShutdown:
      return "shutdown";
  }
  return "";
}

// "2026-01-31T12:00:00Z"
std::string TimeText(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm utc{};
  std::array<char, 32> text{};
  if (::gmtime_r(&time, &utc) == nullptr) return "";
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), size};
}

}  // namespace

std::string AccessLine(const HttpAccess& access, std::int64_t seconds) {
  Json json;
  json.Set("time", TimeText(seconds));
  json.Set("remote", access.remote);
  json.Set("method", openai::EscapeInvalid(access.method));
  json.Set("path", openai::EscapeInvalid(access.path));
  json.Set("status", Json(access.status));
  json.Set("request_bytes", Json(access.request_body_bytes));
  json.Set("response_bytes", Json(access.response_bytes));
  json.Set("ms", Json(static_cast<double>(access.duration.count()) / 1000));
  json.Set("stream", Json(access.streamed));
  if (access.cancelled != CancelReason::kNone) json.Set("cancelled", ReasonName(access.cancelled));
  return json.Dump() + "\n";
}

Result<std::unique_ptr<AccessLog>> AccessLog::Open(const std::string& path) {
  int descriptor = STDERR_FILENO;
  if (path != "-") {
    descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) {
      return Status(Code::kIo, StrCat(path, ": cannot be opened: ", std::strerror(errno)));
    }
  }
  std::unique_ptr<AccessLog> log(new AccessLog(descriptor, path != "-"));
  HONE_ASSIGN(log->thread_, StartThread([raw = log.get()] { raw->Work(); }));
  return log;
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (owned_) ::close(descriptor_);
}

void AccessLog::Add(const HttpAccess& access) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string line =
      AccessLine(access, std::chrono::duration_cast<std::chrono::seconds>(now).count());
  {
    const std::lock_guard lock(mutex_);
    if (lines_.size() >= kMaxLines) {
      ++num_lost_;
      return;
    }
    lines_.push_back(std::move(line));
  }
  wake_.notify_one();
}

void AccessLog::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !lines_.empty(); });
    if (lines_.empty()) return;
    std::deque<std::string> lines;
    lines.swap(lines_);
    const std::uint64_t num_lost = std::exchange(num_lost_, 0);
    lock.unlock();
    std::string text;
    for (const std::string& line : lines) text += line;
    if (num_lost > 0) text += StrCat("{\"lost_lines\":", num_lost, "}\n");
    WriteAll(text);
    lock.lock();
  }
}

// A full disk loses lines; the server goes on.
void AccessLog::WriteAll(const std::string& text) const {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t written = ::write(descriptor_, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    at += static_cast<std::size_t>(written);
  }
}

}  // namespace hone::serve
