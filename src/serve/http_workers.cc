// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/http_workers.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace hone::serve {

Result<std::thread> StartThread(std::function<void()> body) {
  // A new thread inherits the mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  std::string fault;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& e) {
    fault = e.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread.joinable()) {
    return Status(Code::kOutOfMemory, StrCat("cannot start a thread of the server: ", fault));
  }
  return thread;
}

Status HttpWorkers::Start(int num_threads) {
  for (int i = 0; i < num_threads; ++i) {
    HONE_ASSIGN(std::thread thread, StartThread([this] { Work(); }));
    threads_.push_back(std::move(thread));
  }
  return Status();
}

void HttpWorkers::Run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void HttpWorkers::Stop() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock: tasks own writers
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void HttpWorkers::Work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace hone::serve
