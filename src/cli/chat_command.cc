// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_command.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace hone::cli {
namespace {

struct CommandRow {
  std::string_view name;
  ChatVerb verb;
  std::string_view arguments;
  std::string_view help;  // empty: another name of the row in front
};
constexpr std::array<CommandRow, 14> kCommands = {{
    {"/think", ChatVerb::kThink, "on|off|auto", "think before answering (auto: as the model does)"},
    {"/system", ChatVerb::kSystem, "[TEXT]", "set the system message, or show it; \"\" removes it"},
    {"/retry", ChatVerb::kRetry, "", "answer the last message again, with another seed"},
    {"/edit", ChatVerb::kEdit, "[TEXT]", "change the last message and answer it again"},
    {"/undo", ChatVerb::kUndo, "", "take the last message and its answer back"},
    {"/save", ChatVerb::kSave, "FILE", "write the conversation as JSON messages"},
    {"/load", ChatVerb::kLoad, "FILE", "go on with a conversation from such a file"},
    {"/tokens", ChatVerb::kTokens, "", "how full the context is, and by which messages"},
    {"/stats", ChatVerb::kStats, "", "speed of the last answer and of all"},
    {"/set", ChatVerb::kSet, "[NAME VALUE]", "temperature, top-p, seed, max-tokens and others"},
    {"/clear", ChatVerb::kClear, "", "forget the conversation"},
    {"/help", ChatVerb::kHelp, "", "this text"},
    {"/exit", ChatVerb::kExit, "", "leave (also Ctrl-D)"},
    {"/quit", ChatVerb::kExit, "", ""},
}};

constexpr std::string_view kSpace = " \t\r\n";

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// Letters that must be added, removed or changed (Levenshtein).
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

// The command that word begins, or is at most two letters away from.
std::string Nearest(std::string_view word) {
  constexpr std::size_t kFar = 3;
  if (word.size() > 20) return "";
  std::string_view best;
  std::size_t least = kFar;
  for (const CommandRow& row : kCommands) {
    std::size_t distance = EditDistance(word, row.name);
    if (word.size() > 1 && row.name.starts_with(word)) distance = 0;
    if (distance >= least) continue;
    least = distance;
    best = row.name;
  }
  return std::string(best);
}

}  // namespace

ChatLine ParseChatLine(std::string_view line) {
  ChatLine parsed;
  const std::string_view trimmed = Trim(line);
  if (!trimmed.starts_with('/')) {
    parsed.text = line;
    return parsed;
  }
  if (trimmed.starts_with("//")) {
    parsed.text = line;
    parsed.text.erase(line.find('/'), 1);
    return parsed;
  }
  const std::size_t end = std::min(trimmed.find_first_of(kSpace), trimmed.size());
  parsed.word = trimmed.substr(0, end);
  parsed.text = Trim(trimmed.substr(end));
  parsed.verb = ChatVerb::kUnknown;
  const std::string name = LowerCase(parsed.word);
  for (const CommandRow& row : kCommands) {
    if (row.name == name) parsed.verb = row.verb;
  }
  if (parsed.verb == ChatVerb::kUnknown) parsed.suggestion = Nearest(name);
  return parsed;
}

std::string ChatHelp() {
  constexpr std::size_t kColumn = 23;
  std::string out;
  for (const CommandRow& row : kCommands) {
    if (row.help.empty()) continue;
    std::string head = StrCat("  ", row.name, row.arguments.empty() ? "" : " ", row.arguments);
    head.resize(std::max(head.size() + 1, kColumn), ' ');
    out += StrCat(head, row.help, "\n");
    if (row.verb == ChatVerb::kThink) {
      out += "  /think show|hide     print the thinking, or not\n";
    }
  }
  return out +
         "  Ctrl-C               stop the answer; at the prompt: clear the line, twice: leave\n"
         "  \"\"\"                  opens and closes a message of several lines; so does \\ at "
         "the\n"
         "                       end of a line, Alt-Enter, or pasting\n"
         "  //...                a message that begins with a slash\n";
}

}  // namespace hone::cli
