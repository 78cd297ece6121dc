// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Hands bytes to a sink in order, on a thread of its own, so that hashing and writing one part
// overlap with quantizing the next.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::exporter {

using Sink = std::function<Status(ByteSpan)>;

class BackgroundSink {
 public:
  // The sink outlives this. Without background, or where the system gives no thread, Append calls
  // the sink itself.
  BackgroundSink(const Sink& sink, bool background);
  ~BackgroundSink();
  BackgroundSink(const BackgroundSink&) = delete;
  BackgroundSink& operator=(const BackgroundSink&) = delete;

  // Waits while much is underway. Returns the sink's error once there is one; nothing is handed to
  // the sink after it.
  Status Append(std::vector<std::byte> bytes);
  // Returns when the sink has everything.
  Status Finish();

 private:
  void Work();
  Status TakeError();  // mutex_ is held

  const Sink& sink_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<std::byte>> queue_;
  std::size_t underway_ = 0;  // bytes that the sink has not returned from
  bool stop_ = false;
  bool failed_ = false;
  Status error_;
};

}  // namespace hone::exporter
