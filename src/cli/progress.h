// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A line with percent and time left on stderr, only if that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace hone::cli {

class Progress {
 public:
  explicit Progress(std::string title);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Removes the line.
  ~Progress();

  // Draws at most ten times a second. From one thread at a time.
  void Update(std::uint64_t done, std::uint64_t total, std::string_view what);
  void Clear();
  double Seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string title_;
  bool terminal_ = false;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point last_;
};

// "Converting 42% 12 s left (layer 3 gate)", cut to width.
std::string ProgressLine(std::string_view title, std::uint64_t done, std::uint64_t total,
                         double seconds, std::string_view what, std::size_t width);

}  // namespace hone::cli
