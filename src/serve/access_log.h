// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One line of JSON for each request, to a file or to standard error.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "serve/http_types.h"

namespace hone::serve {

// "{"time":...,"remote":...,"method":...,"path":...,"status":...}" and a newline. It has no query,
// header field or body, so no keys and no prompts. seconds: since 1970.
std::string AccessLine(const HttpAccess& access, std::int64_t seconds);

// Writes on a thread of its own, so that a slow disk does not hold up the server. Lines that it
// cannot keep up with are counted, and the count is written instead.
class AccessLog {
 public:
  // Appends to the file at path, made readable for the owner only; "-" is standard error.
  static Result<std::unique_ptr<AccessLog>> Open(const std::string& path);
  // Writes what is left.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // From any thread; never blocks.
  void Add(const HttpAccess& access);

 private:
  AccessLog(int descriptor, bool owned) : descriptor_(descriptor), owned_(owned) {}
  void Work();
  void WriteAll(const std::string& text) const;

  int descriptor_;
  bool owned_;
  std::thread thread_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<std::string> lines_;
  std::uint64_t num_lost_ = 0;
};

}  // namespace hone::serve
