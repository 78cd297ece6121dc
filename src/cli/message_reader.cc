// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/message_reader.h"

#include <utility>

namespace hone::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr std::string_view kSpace = " \t\r\n";
constexpr const char* kMorePrompt = ". ";

bool IsBlank(std::string_view text) { return text.find_first_not_of(kSpace) == text.npos; }

std::string_view WithoutSpaceBehind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

bool Continues(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size() && text[text.size() - 1 - count] == '\\') ++count;
  return count % 2 == 1;
}

}  // namespace

bool MessageBuilder::Add(std::string_view text) {
  if (!open_) {
    open_ = true;
    const std::size_t first = text.find_first_not_of(kSpace);
    message_.quoted = first != text.npos && text.substr(first).starts_with(kQuotes);
    message_.is_literal = message_.quoted || text.find('\n') != text.npos;
    if (message_.quoted) {
      text.remove_prefix(first + kQuotes.size());
      if (text.starts_with('\n')) text.remove_prefix(1);
      if (IsBlank(text)) return false;
    }
  } else if (has_line_) {
    message_.text += '\n';
  }
  has_line_ = true;
  return Close(text);
}

// Adds text, and says whether it ends the message.
bool MessageBuilder::Close(std::string_view text) {
  if (!message_.quoted) {
    const bool more = Continues(text);
    if (more) text.remove_suffix(1);
    message_.text += text;
    return !more;
  }
  const std::string_view trimmed = WithoutSpaceBehind(text);
  const bool ends = trimmed.ends_with(kQuotes);
  if (ends) text = trimmed.substr(0, trimmed.size() - kQuotes.size());
  message_.text += text;
  if (ends && message_.text.ends_with('\n')) message_.text.pop_back();
  return ends;
}

MessageBuilder::Message MessageBuilder::Take() {
  open_ = has_line_ = false;
  return std::exchange(message_, {});
}

MessageRead MessageReader::Read(const std::string& prompt, std::string_view initial) {
  MessageBuilder builder;
  bool first = true;
  while (true) {
    LineRead line = source_.Read(first ? prompt : kMorePrompt, first ? initial : "");
    if (line.event == LineEvent::kInterrupted) {
      const std::string before = builder.Take().text;
      return {LineEvent::kInterrupted, first ? std::move(line.text) : before + "\n" + line.text};
    }
    const bool at_end = line.event == LineEvent::kEnd;
    if (at_end && (first || source_.is_terminal())) return {LineEvent::kEnd, ""};
    const bool complete = at_end || builder.Add(line.text);
    if (!complete) {
      first = false;
      continue;
    }
    MessageBuilder::Message message = builder.Take();
    first = true;
    if (IsBlank(message.text)) {
      if (at_end) return {LineEvent::kEnd, ""};
      continue;
    }
    source_.Remember(message.quoted ? "\"\"\"\n" + message.text + "\n\"\"\"" : message.text);
    return {LineEvent::kLine, std::move(message.text), message.is_literal};
  }
}

}  // namespace hone::cli
