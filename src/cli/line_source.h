// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Where the lines of a chat come from: a pipe, a plain terminal, or a line editor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hone::cli {

enum class LineEvent : std::uint8_t { kLine, kEnd, kInterrupted };

struct LineRead {
  LineEvent event = LineEvent::kEnd;
  // kLine: without the line end at its end; line ends inside if several lines were pasted.
  // kInterrupted: what had been typed, as far as it is known.
  std::string text;
};

// One thread at a time.
class LineSource {
 public:
  LineSource() = default;
  LineSource(const LineSource&) = delete;
  LineSource& operator=(const LineSource&) = delete;
  virtual ~LineSource() = default;

  // Waits for a line. prompt is printed where a person types. initial is in the line to begin with;
  // a source that cannot edit ignores it.
  virtual LineRead Read(const std::string& prompt, std::string_view initial) = 0;
  virtual bool can_edit() const { return false; }
  // A person types here: input that ends in the middle of a message is dropped.
  virtual bool is_terminal() const = 0;
  // A message that may be called back with the arrow keys.
  virtual void Remember(const std::string& message) { static_cast<void>(message); }
};

// Bytes from a file descriptor, with a look at a flag while it waits.
class InputBytes {
 public:
  enum class State : std::uint8_t { kData, kEnd, kInterrupted, kNothingYet };

  // cancel is polled; it may be null.
  InputBytes(int fd, const std::atomic<bool>* cancel) : fd_(fd), cancel_(cancel) {}

  // Waits until there are bytes in pending(), for about that long; a negative time is for ever.
  // More bytes are appended to those that are there.
  State Wait(int milliseconds);
  bool interrupted() const { return cancel_ != nullptr && cancel_->load(); }
  std::string& pending() { return pending_; }

 private:
  int fd_;
  const std::atomic<bool>* cancel_;
  std::string pending_;
};

// Lines as they are. In a terminal what is waiting behind a line belongs to it: it was pasted.
// What was printed so far is flushed before a line is read.
class PlainLines : public LineSource {
 public:
  // prompts: a prompt is printed to standard output.
  PlainLines(int fd, bool is_terminal, bool prompts, const std::atomic<bool>* cancel)
      : input_(fd, cancel), is_terminal_(is_terminal), prompts_(prompts) {}

  LineRead Read(const std::string& prompt, std::string_view initial) override;
  bool is_terminal() const override { return is_terminal_; }

 private:
  InputBytes input_;
  bool is_terminal_;
  bool prompts_;
};

}  // namespace hone::cli
