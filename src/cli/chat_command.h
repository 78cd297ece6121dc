// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a line of a chat is: a message, or a command that begins with a slash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::cli {

enum class ChatVerb : std::uint8_t {
  kMessage,  // what the user says to the model
  kUnknown,  // begins with a slash, but is no command
  kThink,
  kSystem,
  kRetry,
  kEdit,
  kUndo,
  kSave,
  kLoad,
  kTokens,
  kStats,
  kSet,
  kClear,
  kHelp,
  kExit,
};

struct ChatLine {
  ChatVerb verb = ChatVerb::kMessage;
  std::string text;        // the message; of a command, what stands behind its name, trimmed
  std::string word;        // of a command, its name as typed, with the slash
  std::string suggestion;  // of kUnknown: the command that was probably meant, or ""
};

// A line that begins with "//" is a message that begins with one slash. White space around a
// command does not matter; a message stays as it is.
ChatLine ParseChatLine(std::string_view line);

// The commands, one a line, with what they do.
std::string ChatHelp();

}  // namespace hone::cli
