// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/background_sink.h"

#include <system_error>
#include <utility>

namespace hone::exporter {
namespace {

// More than this waits in Append: a few bands of a weight.
constexpr std::size_t kMostUnderway = std::size_t{32} << 20;

}  // namespace

BackgroundSink::BackgroundSink(const Sink& sink, bool background) : sink_(sink) {
  if (!background) return;
  try {
    thread_ = std::thread([this] { Work(); });
  } catch (const std::system_error&) {
    // A limit of the system: Append does the work.
  }
}

BackgroundSink::~BackgroundSink() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

Status BackgroundSink::TakeError() {
  if (error_.ok()) return Status(Code::kInternal, "written to after an error");
  return std::exchange(error_, Status());
}

Status BackgroundSink::Append(std::vector<std::byte> bytes) {
  if (!thread_.joinable()) return sink_(bytes);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return failed_ || underway_ < kMostUnderway; });
  if (failed_) return TakeError();
  underway_ += bytes.size();
  queue_.push_back(std::move(bytes));
  changed_.notify_all();
  return Status();
}

Status BackgroundSink::Finish() {
  if (!thread_.joinable()) return Status();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return failed_ || underway_ == 0; });
  return failed_ ? TakeError() : Status();
}

void BackgroundSink::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const std::vector<std::byte> bytes = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Status status = sink_(bytes);
    lock.lock();
    underway_ -= bytes.size();
    if (!status.ok()) {
      failed_ = true;
      error_ = std::move(status);
      queue_.clear();
      changed_.notify_all();
      return;
    }
    changed_.notify_all();
  }
}

}  // namespace hone::exporter
