// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A fixed set of threads that run the parts of one job together.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace hone {

class ThreadPool {
 public:
  // num_threads >= 1 counts the caller, so 1 starts no thread. The pool is smaller where the system
  // does not allow that many; num_threads() says how many there are.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Runs task(part) for each part in [0, num_parts), at most num_threads at once, and returns when
  // all are done. The caller takes parts too. Parts are taken one by one, so a thread that the
  // system holds up delays the job by the one part that it is at; several parts a thread are worth
  // it from about 10 us of work each. Which thread runs a part is not fixed, so a task's result
  // must depend on the part alone. Tasks must not throw and must not call Run. Only one thread may
  // call Run at a time: a second job while one is shared among threads ends the program.
  void Run(int num_parts, FunctionRef<void(int part)> task);

  // Splits [0, n) into ranges of at least grain items (the last may be shorter), a multiple of
  // grain each, and runs task(begin, end) for them.
  void For(std::int64_t n, std::int64_t grain,
           FunctionRef<void(std::int64_t begin, std::int64_t end)> task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone
