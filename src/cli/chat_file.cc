// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/chat_file.h"

#include <utility>

#include "base/env.h"
#include "base/file.h"
#include "base/span_util.h"
#include "cli/arguments.h"

namespace hone::cli {
namespace {

constexpr std::uint64_t kMaxFileBytes = 64 << 20;
// How MessagesText begins.
constexpr std::string_view kBegin = "[\n  {\n    \"role\":";

Status Damaged(std::size_t index, std::string_view what) {
  return Status(Code::kDataLoss, StrCat("message ", index, ": ", what));
}

Status CheckMessage(std::size_t index, const Json& message) {
  if (!message.IsObject()) {
    return Damaged(index, StrCat("found ", message.TypeName(), ", expected an object"));
  }
  const Json* role = message.Find("role");
  if (role == nullptr || !role->IsString()) return Damaged(index, "has no text \"role\"");
  const std::string& name = role->AsString();
  if (name != "system" && name != "user" && name != "assistant") {
    return Damaged(index,
                   StrCat("the role is ", role->Dump(), ", expected system, user or assistant"));
  }
  if (name == "system" && index > 0)
    return Damaged(index, "a system message can only be the first");
  const Json* content = message.Find("content");
  if (content == nullptr || !content->IsString()) return Damaged(index, "has no text \"content\"");
  for (const Json::Member& member : message.AsObject()) {
    if (member.first == "role" || member.first == "content") continue;
    if (member.first != "reasoning_content" || name != "assistant") {
      return Damaged(index, StrCat("has ", Json(member.first).Dump(),
                                   ", which a chat in the terminal cannot keep"));
    }
    if (!member.second.IsString()) return Damaged(index, "\"reasoning_content\" is no text");
  }
  return Status();
}

}  // namespace

Result<Json::Array> ParseMessages(std::string_view text) {
  auto parsed = ParseJson(text);
  if (!parsed.ok()) {
    return Status(Code::kDataLoss, StrCat("is no JSON: ", parsed.message()));
  }
  const Json* list = parsed->Find("messages");
  if (list == nullptr) list = &*parsed;
  if (!list->IsArray()) {
    return Status(Code::kDataLoss,
                  StrCat("found ", list->TypeName(), ", expected an array of messages"));
  }
  for (std::size_t i = 0; i < list->AsArray().size(); ++i) {
    HONE_TRY(CheckMessage(i, list->AsArray()[i]));
  }
  return Json::Array(list->AsArray());
}

std::string MessagesText(const Json::Array& messages) { return Json(messages).Dump(2) + "\n"; }

Status SaveMessages(const Json::Array& messages, const std::string& path,
                    const std::string& model) {
  HONE_TRY(CheckOutputPath(path));
  HONE_TRY(CheckReplaces(path, model, kBegin, "saved conversation"));
  return WriteFileAtomic(path, AsBytes(MessagesText(messages)));
}

Result<Json::Array> LoadMessages(const std::string& path) {
  HONE_ASSIGN(const std::string text, ReadFile(path, kMaxFileBytes));
  auto messages = ParseMessages(text);
  if (!messages.ok()) return std::move(messages).status().Context(path);
  return messages;
}

std::string TypedPath(std::string_view word) {
  const bool quoted = word.size() >= 2 && (word.front() == '"' || word.front() == '\'') &&
                      word.back() == word.front();
  if (quoted) return std::string(word.substr(1, word.size() - 2));
  if (!word.starts_with("~/")) return std::string(word);
  return GetEnv("HOME") + std::string(word.substr(1));
}

}  // namespace hone::cli
