// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the commands of a chat do.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "cli/arguments.h"
#include "cli/chat.h"
#include "cli/chat_file.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/utf8_text.h"

namespace hone::cli {
namespace {

const std::string& TextOf(const Json& message, std::string_view key) {
  return message.Find(key)->AsString();
}

// The beginning of a message, on one line.
std::string Excerpt(const std::string& text) {
  constexpr std::size_t kMost = 50;
  std::wstring wide = ToWide(text);
  std::replace(wide.begin(), wide.end(), L'\n', L' ');
  const bool cut = wide.size() > kMost;
  if (cut) wide.resize(kMost);
  return VisibleText(FromWide(wide)) + (cut ? "..." : "");
}

template <typename... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string SpeedText(const runtime::Timings& timings) {
  const auto line = [](const char* name, std::int64_t tokens, double seconds) {
    const double speed = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
    return Format("  %-8s %7lld tokens in %8.3f s, %9.2f tokens/s\n", name,
                  static_cast<long long>(tokens), seconds, speed);
  };
  return line("prefill", timings.prefill_tokens, timings.prefill_seconds) +
         line("decode", timings.decode_tokens, timings.decode_seconds);
}

}  // namespace

Result<bool> Chat::Obey(const ChatLine& line) {
  switch (line.verb) {
    case ChatVerb::kMessage:
      HONE_TRY(Say(line.text));
      break;
    case ChatVerb::kUnknown:
      PrintWarning(StrCat(line.word, " is no command",
                          line.suggestion.empty() ? "" : "; did you mean ", line.suggestion,
                          line.suggestion.empty() ? "" : "?", " (/help lists them; a message that ",
                          "begins with a slash is written with two)"));
      break;
    case ChatVerb::kThink:
      Think(line.text);
      break;
    case ChatVerb::kSystem:
      System(line.text);
      break;
    case ChatVerb::kRetry:
      HONE_TRY(Retry());
      break;
    case ChatVerb::kEdit:
      HONE_TRY(Edit(line.text));
      break;
    case ChatVerb::kUndo:
      Undo();
      break;
    case ChatVerb::kSave:
      Save(line.text);
      break;
    case ChatVerb::kLoad:
      Load(line.text);
      break;
    case ChatVerb::kTokens:
      Tokens();
      break;
    case ChatVerb::kStats:
      Stats();
      break;
    case ChatVerb::kSet:
      Set(line.text);
      break;
    case ChatVerb::kClear:
      Clear();
      break;
    case ChatVerb::kHelp:
      PrintText(ChatHelp());
      break;
    case ChatVerb::kExit:
      return false;
  }
  return true;
}

void Chat::Think(const std::string& word) {
  if (word.empty()) {
    PrintText(StrCat("Thinking is ", think_, ", and ", hide_thinking_ ? "hidden" : "shown", ".\n"));
  } else if (word == "show" || word == "hide") {
    hide_thinking_ = word == "hide";
  } else if (std::find(kThinkWords.begin(), kThinkWords.end(), word) != kThinkWords.end()) {
    think_ = word;
    NoteThink(engine_.text(), word, /*raw=*/false);
  } else {
    PrintWarning(StrCat("/think: found ", word, ", expected on, off, auto, show or hide"));
  }
}

void Chat::System(const std::string& text) {
  Json::Array& messages = conversation_.messages;
  const bool has = !messages.empty() && TextOf(messages[0], "role") == "system";
  if (text.empty()) {
    PrintText(
        has ? StrCat("The system message: ", VisibleText(TextOf(messages[0], "content")), "\n")
            : "There is no system message.\n");
    return;
  }
  if (const Status valid = CheckUtf8("/system", text); !valid.ok()) {
    return PrintWarning(valid.message());
  }
  if (has) messages.erase(messages.begin());
  if (text != "\"\"") messages.insert(messages.begin(), Message("system", text));
}

std::int64_t Chat::LastUser() const {
  const Json::Array& messages = conversation_.messages;
  for (std::size_t i = messages.size(); i > 0; --i) {
    if (TextOf(messages[i - 1], "role") == "user") return static_cast<std::int64_t>(i) - 1;
  }
  return -1;
}

Status Chat::Retry() {
  const std::int64_t last = LastUser();
  if (last < 0) {
    PrintWarning("/retry: there is no message to answer");
    return Status();
  }
  if (sampler_.temperature == 0) {
    PrintNote(
        "the temperature is 0, so the answer stays the same; /set temperature 0.7 changes it");
  }
  ++sampler_.seed;
  Json::Array before = conversation_.messages;
  conversation_.messages.resize(static_cast<std::size_t>(last) + 1);
  return Answer(std::move(before));
}

Status Chat::Edit(const std::string& text) {
  const std::int64_t last = LastUser();
  if (last < 0) {
    PrintWarning("/edit: there is no message to change");
    return Status();
  }
  const std::string old = TextOf(conversation_.messages[static_cast<std::size_t>(last)], "content");
  std::string changed = text;
  if (changed.empty()) {
    if (!lines_.can_edit() && look_.prompts) {
      PrintText(StrCat("The message was: ", VisibleText(old), "\nType the new one.\n"));
    }
    const MessageRead read = Read("edit> ", old);
    if (read.event == LineEvent::kInterrupted && !lines_.is_terminal()) {
      return Status(Code::kCancelled, "cancelled");
    }
    if (read.event != LineEvent::kLine) {
      PrintNote("the message stays as it was");
      return Status();
    }
    changed = read.text;
  }
  Json::Array before = conversation_.messages;
  conversation_.messages.resize(static_cast<std::size_t>(last));
  if (const Status valid = CheckUtf8("the message", changed); !valid.ok()) {
    conversation_.messages = std::move(before);
    PrintWarning(valid.message());
    return Status();
  }
  conversation_.messages.push_back(Message("user", std::move(changed)));
  return Answer(std::move(before));
}

void Chat::Undo() {
  const std::int64_t last = LastUser();
  if (last < 0) return PrintWarning("/undo: there is no message to take back");
  const auto index = static_cast<std::size_t>(last);
  PrintText(
      StrCat("Taken back: ", Excerpt(TextOf(conversation_.messages[index], "content")), "\n"));
  conversation_.messages.resize(index);
}

void Chat::Save(const std::string& word) {
  if (word.empty()) return PrintWarning("/save: expected the name of a file");
  const std::string path = TypedPath(word);
  const Status saved = SaveMessages(conversation_.messages, path, args_.model);
  if (!saved.ok()) return PrintWarning(StrCat("/save: ", saved.message()));
  PrintText(StrCat(conversation_.messages.size(), " messages are in ", OneLine(path), "\n"));
}

void Chat::Load(const std::string& word) {
  if (word.empty()) return PrintWarning("/load: expected the name of a file");
  const std::string path = TypedPath(word);
  auto messages = LoadMessages(path);
  if (!messages.ok()) {
    return PrintWarning(StrCat("/load: ", messages.message(), "; the conversation stays as it is"));
  }
  conversation_.messages = *std::move(messages);
  const bool open =
      !conversation_.messages.empty() && TextOf(conversation_.messages.back(), "role") == "user";
  PrintText(StrCat(conversation_.messages.size(), " messages from ", OneLine(path),
                   open ? "; /retry answers the last one\n" : "\n"));
}

void Chat::Tokens() {
  const auto counts = CountTokens(model_, conversation_.messages, ThinkFromWord(think_));
  if (!counts.ok()) return PrintWarning(StrCat("/tokens: ", counts.message()));
  const std::int64_t context = model_.context();
  const double share = 100.0 * static_cast<double>(counts->total) / static_cast<double>(context);
  PrintText(StrCat(counts->total, " of ", context, " tokens", Format(" (%.1f %%)", share), ", ",
                   std::max<std::int64_t>(context - counts->total, 0), " free\n"));
  std::int64_t rest = counts->total;
  for (std::size_t i = 0; i < counts->messages.size(); ++i) {
    const Json& message = conversation_.messages[i];
    rest -= counts->messages[i];
    PrintText(Format("  %3zu %-9s %6lld  ", i + 1, TextOf(message, "role").c_str(),
                     static_cast<long long>(counts->messages[i])) +
              Excerpt(TextOf(message, "content")) + "\n");
  }
  if (!counts->messages.empty()) {
    PrintText(Format("      %-9s %6lld\n", "template", static_cast<long long>(rest)));
  }
}

void Chat::Stats() {
  if (num_answers_ == 0) return PrintText("Nothing has been answered yet.\n");
  PrintText(StrCat("The last answer:\n", SpeedText(last_),
                   Format("  first token after %.3f s\n", last_.first_token_seconds), "All ",
                   num_answers_, " answers:\n", SpeedText(total_),
                   Format("  first token after %.3f s on average\n",
                          total_.first_token_seconds / static_cast<double>(num_answers_))));
}

void Chat::Set(const std::string& text) {
  const std::size_t gap = text.find_first_of(" \t=");
  if (text.empty()) {
    PrintText(StrCat(SamplingText(sampling_, sampler_), "  on-full             ", on_full_, "\n"));
    return;
  }
  const std::size_t value = gap == text.npos ? text.npos : text.find_first_not_of(" \t=", gap);
  if (value == text.npos) return PrintWarning("/set: expected a name and a value");
  const std::string name = text.substr(0, gap);
  const std::string word = text.substr(value);
  if (name == "on-full" || name == "on_full") {
    if (word != "error" && word != "trim") {
      return PrintWarning(StrCat("/set: on-full: found ", word, ", expected error or trim"));
    }
    on_full_ = word;
    return;
  }
  const Status set = SetSampling(name, word, sampling_);
  if (!set.ok()) return PrintWarning(StrCat("/set: ", set.message()));
  const std::uint64_t seed = sampler_.seed;
  sampler_ = MakeSampler(sampling_, engine_.text());
  if (name != "seed") sampler_.seed = seed;
}

// All but the system message.
void Chat::Clear() {
  Json::Array& messages = conversation_.messages;
  const bool system = !messages.empty() && TextOf(messages[0], "role") == "system";
  messages.resize(system ? 1 : 0);
}

}  // namespace hone::cli
