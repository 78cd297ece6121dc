// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/line_source.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "cli/cli.h"

namespace hone::cli {
namespace {

// A signal between the look at the flag and the wait is seen this much later.
constexpr int kLookMilliseconds = 200;
// A terminal hands over what was pasted without pauses.
constexpr int kPasteMilliseconds = 10;

// The first line of text, which has one, without its end.
std::string TakeLine(std::string& text) {
  const std::size_t end = text.find('\n');
  std::string line = text.substr(0, end);
  text.erase(0, end == std::string::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

InputBytes::State InputBytes::Wait(int milliseconds) {
  int left = milliseconds;
  while (true) {
    if (interrupted()) return State::kInterrupted;
    const int wait = left < 0 ? kLookMilliseconds : std::min(left, kLookMilliseconds);
    pollfd input{fd_, POLLIN, 0};
    const int ready = ::poll(&input, 1, wait);
    if (ready < 0 && errno != EINTR) return State::kEnd;
    if (ready > 0) {
      std::array<char, 65536> chunk;
      const ssize_t count = ::read(fd_, chunk.data(), chunk.size());
      if (count > 0) {
        pending_.append(chunk.data(), static_cast<std::size_t>(count));
        return State::kData;
      }
      if (count == 0 || (errno != EINTR && errno != EAGAIN)) return State::kEnd;
    }
    if (left >= 0) {
      if (left <= wait) return State::kNothingYet;
      left -= wait;
    }
  }
}

LineRead PlainLines::Read(const std::string& prompt, std::string_view /*initial*/) {
  if (prompts_) PrintText(prompt);
  std::fflush(stdout);
  std::string& pending = input_.pending();
  if (input_.interrupted()) return {LineEvent::kInterrupted, std::exchange(pending, {})};
  while (pending.find('\n') == std::string::npos) {
    const InputBytes::State state = input_.Wait(-1);
    if (state == InputBytes::State::kInterrupted) {
      return {LineEvent::kInterrupted, std::exchange(pending, {})};
    }
    if (state != InputBytes::State::kData) {
      if (pending.empty()) return {LineEvent::kEnd, ""};
      return {LineEvent::kLine, std::exchange(pending, {})};
    }
  }
  if (!is_terminal_) return {LineEvent::kLine, TakeLine(pending)};
  while (input_.Wait(kPasteMilliseconds) == InputBytes::State::kData) {
  }
  std::string text = std::exchange(pending, {});
  if (text.ends_with('\n')) text.pop_back();
  return {LineEvent::kLine, std::move(text)};
}

}  // namespace hone::cli
