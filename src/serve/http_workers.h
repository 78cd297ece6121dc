// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Threads that run tasks in the order they came.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"

namespace hone::serve {

// Starts a thread that no signal is delivered to: those are for the program's own threads.
// kOutOfMemory if the system does not allow another one.
Result<std::thread> StartThread(std::function<void()> body);

class HttpWorkers {
 public:
  HttpWorkers() = default;
  ~HttpWorkers() { Stop(); }
  HttpWorkers(const HttpWorkers&) = delete;
  HttpWorkers& operator=(const HttpWorkers&) = delete;

  Status Start(int num_threads);
  // From any thread. Tasks must not throw.
  void Run(std::function<void()> task);
  // Waits for the tasks that run and drops the others. Tasks that come later are dropped too.
  void Stop();

 private:
  void Work();

  std::mutex mutex_;  // guards the following two
  bool stopping_ = false;
  std::deque<std::function<void()>> tasks_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

}  // namespace hone::serve
