// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bridge/stop_tokens.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/json.h"

namespace hone::bridge {
namespace {

constexpr std::string_view kProbeAnswer = "honeprobeanswer";

class Collector {
 public:
  explicit Collector(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void Add(std::int32_t id, std::string reason, std::string kept = "") {
    for (const StopToken& token : result.tokens) {
      if (token.id == id) return;
    }
    auto piece = tokenizer_.Piece(id);
    result.tokens.push_back(
        {id, piece.ok() ? *std::move(piece) : std::string(), std::move(kept), std::move(reason)});
  }

  StopTokens result;

 private:
  const Tokenizer& tokenizer_;
};

Json ProbeContext(const StopSources& sources, bool content_as_parts) {
  const auto content = [&](std::string_view text) {
    if (!content_as_parts) return Json(text);
    Json part(Json::Object{{"type", Json("text")}, {"text", Json(text)}});
    return Json(Json::Array{std::move(part)});
  };
  Json user(Json::Object{{"role", Json("user")}, {"content", content("hello")}});
  Json answer(Json::Object{{"role", Json("assistant")}, {"content", content(kProbeAnswer)}});
  Json context(Json::Object{});
  context.Set("messages", Json(Json::Array{std::move(user), std::move(answer)}));
  context.Set("tools", Json());
  context.Set("documents", Json());
  context.Set("add_generation_prompt", Json(false));
  const auto set_token = [&](std::string_view name, std::string_view text) {
    if (!text.empty()) context.Set(name, Json(text));
  };
  set_token("bos_token", sources.bos_token);
  set_token("eos_token", sources.eos_token);
  set_token("pad_token", sources.pad_token);
  set_token("unk_token", sources.unk_token);
  return context;
}

// What the template writes after an assistant's content, or nothing with a note.
std::optional<std::string> TextAfterAnswer(const ChatTemplate& chat_template,
                                           const StopSources& sources,
                                           std::vector<std::string>& notes) {
  std::string first_error;
  for (const bool as_parts : {false, true}) {
    auto text = chat_template.Render(ProbeContext(sources, as_parts).Dump(), 0);
    if (!text.ok()) {
      if (first_error.empty()) first_error = text.message();
      continue;
    }
    const std::size_t begin = text->rfind(kProbeAnswer);
    if (begin == std::string::npos) continue;
    return text->substr(begin + kProbeAnswer.size());
  }
  notes.push_back(
      first_error.empty()
          ? "chat template: does not write an assistant's content, so no stop token "
            "was found in it"
          : StrCat("chat template: cannot be probed for its stop token: ", first_error));
  return std::nullopt;
}

// The special token that tail begins with after white space; the longest where several match.
const AddedToken* LeadingSpecial(const Tokenizer& tokenizer, std::string_view tail) {
  const std::size_t begin = tail.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return nullptr;
  const AddedToken* best = nullptr;
  for (const AddedToken& token : tokenizer.added_tokens()) {
    // A fused token (".<|im_end|>\n") holds the stop text and more; the plain one is wanted, so
    // only the text without trailing white space counts.
    if (!token.special || token.content.empty()) continue;
    if (token.content.find_last_not_of(" \t\r\n") + 1 != token.content.size()) continue;
    if (!tail.substr(begin).starts_with(token.content)) continue;
    if (best == nullptr || token.content.size() > best->content.size()) best = &token;
  }
  return best;
}

}  // namespace

std::string TextBeforeStop(std::string_view token_text, std::span<const std::string> stop_texts) {
  std::size_t earliest = std::string_view::npos;
  for (const std::string& stop : stop_texts) {
    if (stop.empty() || stop.size() >= token_text.size()) continue;
    earliest = std::min(earliest, token_text.find(stop));
  }
  return earliest == std::string_view::npos ? "" : std::string(token_text.substr(0, earliest));
}

StopTokens FindStopTokens(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                          const StopSources& sources) {
  Collector stops(tokenizer);
  for (const std::int64_t id : sources.eos_ids) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      stops.result.notes.push_back(StrCat("end-of-sequence id ", id, " is no token id; ignored"));
      continue;
    }
    stops.Add(static_cast<std::int32_t>(id), "eos id of the configuration");
  }
  const auto add_text = [&](std::string_view text, const char* reason) {
    if (text.empty()) return;
    if (const auto id = tokenizer.TokenId(text)) {
      stops.Add(*id, reason);
    } else {
      stops.result.notes.push_back(
          StrCat("end-of-sequence token \"", text, "\" is not in the vocabulary; ignored"));
    }
  };
  for (const std::string& text : sources.eos_strings)
    add_text(text, "eos text of the configuration");
  add_text(sources.eos_token, "eos token of the tokenizer");

  if (chat_template == nullptr) return std::move(stops.result);
  const auto tail = TextAfterAnswer(*chat_template, sources, stops.result.notes);
  if (!tail) return std::move(stops.result);
  const AddedToken* stop = LeadingSpecial(tokenizer, *tail);
  if (stop == nullptr) return std::move(stops.result);
  stops.Add(stop->id, "written after an answer by the template");
  const std::string stop_text[] = {stop->content};
  for (const AddedToken& token : tokenizer.added_tokens()) {
    if (token.id == stop->id || token.content.find(stop->content) == std::string::npos) continue;
    stops.Add(token.id, StrCat("contains the stop text ", Json(stop->content).Dump()),
              TextBeforeStop(token.content, stop_text));
  }
  return std::move(stops.result);
}

}  // namespace hone::bridge
