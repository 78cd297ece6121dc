// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/control_text.h"

#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "runtime/chat.h"

namespace hone::chat {
namespace {

using Ids = std::vector<std::int32_t>;

// The last block of the last private plane: 254 characters that nobody writes.
constexpr unsigned kFirstMark = 0x10FF00;
constexpr unsigned kLastMark = 0x10FFFD;

std::string Utf8Of(unsigned code) {
  std::string out;
  out.push_back(static_cast<char>(0xF0U | code >> 18U));
  out.push_back(static_cast<char>(0x80U | (code >> 12U & 0x3FU)));
  out.push_back(static_cast<char>(0x80U | (code >> 6U & 0x3FU)));
  out.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
  return out;
}

// The mark as templates write it: as it is, as JSON in ASCII ("\udbff\udffd"), and as Python shows
// a string ("\U0010fffd").
std::array<std::string, 3> FormsOf(std::string_view mark) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(mark[i])) & 0x3FU;
  };
  const unsigned code = (byte(0) & 7U) << 18U | byte(1) << 12U | byte(2) << 6U | byte(3);
  const unsigned rest = code - 0x10000U;
  char json[16];
  std::snprintf(json, sizeof json, "\\u%04x\\u%04x", 0xD800U + (rest >> 10U),
                0xDC00U + (rest & 0x3FFU));
  char python[16];
  std::snprintf(python, sizeof python, "\\U%08x", code);
  return {std::string(mark), json, python};
}

// The next mark at or behind from: where it is, and its bytes; npos if there is none.
std::pair<std::size_t, std::size_t> FindMark(std::string_view text,
                                             const std::array<std::string, 3>& forms,
                                             std::size_t from) {
  constexpr std::string_view kFirstBytes = "\xf4\\";
  for (std::size_t at = text.find_first_of(kFirstBytes, from); at != std::string_view::npos;
       at = text.find_first_of(kFirstBytes, at + 1)) {
    for (const std::string& form : forms) {
      if (text.substr(at, form.size()) == form) return {at, form.size()};
    }
  }
  return {std::string_view::npos, 0};
}

// Whether a text has the mark already, in any form; JSON doubles a backslash.
bool Uses(std::string_view all, std::string_view mark) {
  const auto forms = FormsOf(mark);
  return all.find(forms[0]) != std::string_view::npos ||
         all.find(forms[1].substr(7)) != std::string_view::npos ||
         all.find(forms[2].substr(1)) != std::string_view::npos;
}

bool IsTextPart(const Json& part) {
  const Json* text = part.Find("text");
  return part.IsObject() && text != nullptr && text->IsString();
}

bool BeginsWithSpace(const bridge::Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  if (ids.empty()) return false;
  const auto bytes = tokenizer.TokenBytes(ids[0]);
  return bytes.ok() && bytes->starts_with(' ');
}

// inside: other text is in front, so that no space belongs there which the piece does not have.
Result<Ids> EncodePiece(const bridge::Tokenizer& tokenizer, std::string_view piece, bool inside) {
  HONE_ASSIGN(Ids ids, tokenizer.Encode(piece));
  if (!inside || piece.starts_with(' ') || !BeginsWithSpace(tokenizer, ids)) return ids;
  // Many tokenizers put a space at the begin of a text, but not behind a special token.
  for (const bridge::AddedToken& token : tokenizer.added_tokens()) {
    if (!token.special) continue;
    HONE_ASSIGN(Ids behind, tokenizer.Encode(StrCat(token.content, piece)));
    if (behind.empty() || behind[0] != token.id) return ids;
    behind.erase(behind.begin());
    return BeginsWithSpace(tokenizer, behind) ? ids : behind;
  }
  return ids;
}

class Guard {
 public:
  Guard(const ChatModel& model, std::string mark) : model_(model), mark_(std::move(mark)) {}

  // answer: the text is the model's own, whose marks of thinking and calls count.
  Json Value(const Json& value, bool answer) {
    if (value.IsString()) return Json(Text(value.AsString(), answer));
    if (value.IsArray()) return Array(value.AsArray(), answer);
    if (value.IsObject()) return Json(Object(value.AsObject(), answer));
    return value;
  }
  Json::Object Object(const Json::Object& object, bool answer) {
    Json::Object out;
    for (const auto& [key, value] : object)
      out.emplace_back(Text(key, answer), Value(value, answer));
    return out;
  }
  bool any() const { return any_; }

 private:
  // Offsets behind the first character of each control text.
  std::vector<std::size_t> FindCuts(std::string_view text, bool answer) const {
    const unsigned kinds =
        answer ? ChatModel::kControl : ChatModel::kControl | ChatModel::kAnswerMark;
    std::vector<std::size_t> cuts;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if ((model_.control_texts().KindsAt(text.substr(i)) & kinds) == 0) continue;
      // A control text has two characters or more.
      std::size_t cut = i + 1;
      while ((static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) ++cut;
      cuts.push_back(cut);
    }
    return cuts;
  }

  std::string Text(const std::string& text, bool answer) {
    const std::vector<std::size_t> cuts = FindCuts(text, answer);
    if (cuts.empty()) return text;
    any_ = true;
    std::string out;
    std::size_t from = 0;
    for (const std::size_t cut : cuts) {
      out.append(text, from, cut - from).append(mark_);
      from = cut;
    }
    return out.append(text, from);
  }

  Json Array(const Json::Array& array, bool answer) {
    Json::Array out;
    for (const Json& value : array) out.push_back(Value(value, answer));
    // Templates join the parts of a content: a control text may cross their borders.
    std::string joined;
    for (const Json& part : array) {
      if (!IsTextPart(part)) return Json(std::move(out));
      joined += part.Find("text")->AsString();
    }
    std::size_t begin = 0;
    const std::vector<std::size_t> cuts = FindCuts(joined, answer);
    for (std::size_t i = 0; i < array.size(); ++i) {
      const std::string& text = array[i].Find("text")->AsString();
      std::string marked;
      std::size_t from = 0;
      for (const std::size_t cut : cuts) {
        if (cut <= begin || cut > begin + text.size()) continue;
        marked.append(text, from, cut - begin - from).append(mark_);
        from = cut - begin;
      }
      marked.append(text, from);
      if (marked.size() != text.size()) any_ = true;
      out[i].Set("text", Json(std::move(marked)));
      begin += text.size();
    }
    return Json(std::move(out));
  }

  const ChatModel& model_;
  std::string mark_;
  bool any_ = false;
};

GuardedChat GuardWith(const ChatModel& model, const Json::Array& messages, const Json::Array& tools,
                      const Json::Object& variables, const std::string& mark) {
  Guard guard(model, mark);
  GuardedChat out;
  for (const Json& message : messages) {
    const Json* role = message.Find("role");
    const bool answer = role != nullptr && role->IsString() && role->AsString() == "assistant";
    out.messages.push_back(guard.Value(message, answer));
  }
  for (const Json& tool : tools) out.tools.push_back(guard.Value(tool, /*answer=*/false));
  out.variables = guard.Object(variables, /*answer=*/false);
  if (guard.any()) out.mark = mark;
  return out;
}

}  // namespace

Result<GuardedChat> GuardControlTexts(const ChatModel& model, const Json::Array& messages,
                                      const Json::Array& tools, const Json::Object& variables) {
  GuardedChat guarded = GuardWith(model, messages, tools, variables, Utf8Of(kLastMark));
  if (guarded.mark.empty()) return guarded;
  const std::string all = StrCat(Json(messages).Dump(), Json(tools).Dump(), Json(variables).Dump(),
                                 model.text().template_source);
  for (unsigned code = kLastMark; code >= kFirstMark; --code) {
    const std::string mark = Utf8Of(code);
    if (Uses(all, mark)) continue;
    if (mark == guarded.mark) return guarded;
    return GuardWith(model, messages, tools, variables, mark);
  }
  return Status(Code::kInvalidArgument,
                "messages: they spell control tokens, and use all characters from U+10FF00 to "
                "U+10FFFD, one of which is needed to keep these texts");
}

std::string RemoveMarks(std::string_view rendered, std::string_view mark) {
  if (mark.empty()) return std::string(rendered);
  std::string out;
  const auto forms = FormsOf(mark);
  for (std::size_t from = 0; true;) {
    const auto [at, bytes] = FindMark(rendered, forms, from);
    out += rendered.substr(from, at - from);
    if (at == std::string_view::npos) return out;
    from = at + bytes;
  }
}

Result<std::vector<std::int32_t>> EncodeMarked(const runtime::TextSetup& text,
                                               std::string_view rendered, std::string_view mark) {
  if (mark.empty()) return runtime::EncodePrompt(text, rendered);
  if (!text.tokenizer) return runtime::EncodePrompt(text, rendered);  // says what is missing
  const auto forms = FormsOf(mark);
  Ids ids;
  for (std::size_t from = 0; true;) {
    const auto [at, bytes] = FindMark(rendered, forms, from);
    const std::string_view piece = rendered.substr(from, at - from);
    if (!piece.empty()) {
      HONE_ASSIGN(const Ids more, EncodePiece(*text.tokenizer, piece, /*inside=*/from > 0));
      ids.insert(ids.end(), more.begin(), more.end());
    }
    if (at == std::string_view::npos) break;
    from = at + bytes;
  }
  if (text.start_id && (ids.empty() || ids[0] != *text.start_id)) {
    ids.insert(ids.begin(), *text.start_id);
  }
  return ids;
}

}  // namespace hone::chat
