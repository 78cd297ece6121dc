// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Models whose replies a test dictates: real tokenizer and templates, logits made by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "chat/answer.h"
#include "chat/chat_model.h"
#include "chat/prompt.h"
#include "runtime/tiny_model.h"

namespace hone::chat {

using Ids = std::vector<std::int32_t>;

// Byte-level BPE. <|im_end|> (3), ".<|im_end|>\n" (642) and others end an answer; <think> (640) and
// </think> (641) are added tokens that are not special.
inline const std::string kTestModel = HONE_SHARED_DATA "/golden/families/llama-gqa8/hf";
constexpr std::int64_t kTestVocab = 704;
constexpr std::int32_t kEndId = 3;
constexpr std::int32_t kThinkId = 640;
constexpr std::int32_t kEndThinkId = 641;

inline Json MustParse(std::string_view text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.message() << "\n" << text;
  return json.ok() ? *std::move(json) : Json();
}
inline std::string MustReadFile(const std::string& path) {
  auto text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.message();
  return text.ok() ? *std::move(text) : std::string();
}

inline runtime::TextSetup TestText() {
  auto text = runtime::LoadText(kTestModel, nullptr);
  EXPECT_TRUE(text.ok()) << text.message();
  return *std::move(text);
}
inline runtime::TextSetup WithTemplate(runtime::TextSetup text, const std::string& source) {
  auto compiled = bridge::ChatTemplate::Compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.message();
  text.template_source = source;
  text.chat_template = *std::move(compiled);
  return text;
}
inline runtime::TextSetup MiniCpmText() {
  return WithTemplate(TestText(),
                      MustReadFile(HONE_SHARED_DATA "/data/minicpm5/chat_template.jinja"));
}
// The tokenizer with these texts as special tokens.
inline runtime::TextSetup WithSpecialTokens(runtime::TextSetup text,
                                            const std::vector<std::string>& special) {
  Json json = MustParse(MustReadFile(kTestModel + "/tokenizer.json"));
  Json tokens = *json.Find("added_tokens");
  std::int32_t next = 645;
  for (const std::string& content : special) {
    bool known = false;
    for (Json& token : tokens.AsArray()) {
      if (token.Find("content")->AsString() != content) continue;
      token.Set("special", Json(true));
      known = true;
    }
    if (known) continue;
    tokens.AsArray().push_back(Json(Json::Object{{"id", Json(next++)},
                                                 {"content", Json(content)},
                                                 {"single_word", Json(false)},
                                                 {"lstrip", Json(false)},
                                                 {"rstrip", Json(false)},
                                                 {"normalized", Json(false)},
                                                 {"special", Json(true)}}));
  }
  json.Set("added_tokens", std::move(tokens));
  auto tokenizer = bridge::Tokenizer::FromJson(json.Dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.message();
  text.tokenizer = *std::move(tokenizer);
  return text;
}

// A loaded model, of which only the text counts.
struct TestModel {
  std::unique_ptr<runtime::Engine> engine;
  std::unique_ptr<ChatModel> chat;

  explicit TestModel(runtime::TextSetup text, std::int64_t context = 4000,
                     std::string_view family = "") {
    auto made = runtime::Engine::FromModel(
        runtime::MakeTinyModel({.vocab = kTestVocab, .max_positions = context}), std::move(text),
        {.num_threads = 1}, "tiny");
    EXPECT_TRUE(made.ok()) << made.message();
    engine = *std::move(made);
    chat = std::make_unique<ChatModel>(*engine, family);
  }
  const ChatModel& operator*() const { return *chat; }

  Ids Encode(std::string_view text) const {
    auto ids = chat->text().tokenizer->Encode(text);
    EXPECT_TRUE(ids.ok()) << ids.message();
    return ids.ok() ? *std::move(ids) : Ids();
  }
  // Each piece alone, so that no token crosses a border.
  Ids EncodePieces(const std::vector<std::string>& pieces) const {
    Ids all;
    for (const std::string& piece : pieces) {
      const Ids ids = Encode(piece);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  }
  // One token for each character of ASCII text.
  Ids EncodeCharacters(std::string_view text) const {
    std::vector<std::string> pieces;
    for (const char c : text) pieces.emplace_back(1, c);
    return EncodePieces(pieces);
  }
  std::string Decode(const Ids& ids) const {
    auto text = chat->text().tokenizer->Decode(ids, /*skip_special=*/false);
    EXPECT_TRUE(text.ok()) << text.message();
    return text.ok() ? *std::move(text) : std::string();
  }
};

inline ChatRequest Ask(std::string_view messages) {
  ChatRequest request;
  request.messages = MustParse(messages).AsArray();
  return request;
}
inline ChatRequest AskHello() { return Ask(R"([{"role": "user", "content": "hello"}])"); }

inline Prompt MustPrompt(const TestModel& model, const ChatRequest& request,
                         const PromptLimits& limits = {}) {
  auto prompt = MakePrompt(*model, request, limits);
  EXPECT_TRUE(prompt.ok()) << (prompt.ok() ? "" : prompt.error().message);
  return prompt.ok() ? *std::move(prompt) : Prompt();
}
// "part: message" of the error that must come.
inline std::string PromptErrorText(const TestModel& model, const ChatRequest& request,
                                   const PromptLimits& limits = {}) {
  const auto prompt = MakePrompt(*model, request, limits);
  if (prompt.ok()) return "no error";
  return StrCat(RequestPartName(prompt.error().part), ": ", prompt.error().message);
}

// An answer as its reader sees it.
struct Reply {
  std::string thinking, content;
  std::vector<std::string> calls;   // "name{arguments}"
  std::vector<std::string> pieces;  // of the content
  std::string before_calls;         // the content in front of the first call
  std::vector<TokenScore> tokens;
  std::string end = "none";  // "stop", "length", "cancelled", "error message"
  Ids ids;
  std::int64_t reasoning_tokens = 0;
  std::size_t used = 0;  // tokens of the script
};

class ReplyRecorder {
 public:
  Answer::Sink sink() {
    return [this](const AnswerEvent& event) { Add(event); };
  }
  Reply& reply() { return reply_; }

 private:
  void Add(const AnswerEvent& event) {
    EXPECT_EQ(reply_.end, "none") << "an event after the end";
    if (const auto* content = std::get_if<ContentDelta>(&event)) {
      reply_.content += content->text;
      if (!content->text.empty()) reply_.pieces.push_back(content->text);
      reply_.tokens.insert(reply_.tokens.end(), content->tokens.begin(), content->tokens.end());
    } else if (const auto* thinking = std::get_if<ThinkingDelta>(&event)) {
      reply_.thinking += thinking->text;
    } else if (const auto* begin = std::get_if<ToolCallBegin>(&event)) {
      EXPECT_FALSE(open_);
      open_ = true;
      if (reply_.calls.empty()) reply_.before_calls = reply_.content;
      reply_.calls.push_back(begin->name);
    } else if (const auto* arguments = std::get_if<ToolCallArguments>(&event)) {
      EXPECT_TRUE(open_);
      reply_.calls.back() += arguments->text;
    } else if (std::holds_alternative<ToolCallEnd>(event)) {
      EXPECT_TRUE(open_);
      open_ = false;
    } else {
      EXPECT_FALSE(open_);
      static constexpr const char* kNames[] = {"stop", "length", "cancelled", "error"};
      reply_.end = kNames[static_cast<int>(std::get<AnswerEnd>(event).reason)];
    }
  }
  Reply reply_;
  bool open_ = false;
};

// Logits in which one id is far above the others.
inline std::vector<float> Wanting(std::int32_t id) {
  std::vector<float> logits(static_cast<std::size_t>(kTestVocab), 0.0F);
  logits[static_cast<std::size_t>(id)] = 20.0F;
  return logits;
}

// The reply of a model that wants to say the script, and then a stop token. Ends as if the context
// were full if the model does not end it.
inline Reply Say(const TestModel& model, const Prompt& prompt, const Ids& script,
                 AnswerOptions options = {}) {
  options.plan = prompt.plan;
  ReplyRecorder recorder;
  auto answer = Answer::Make(*model, std::move(options), recorder.sink());
  if (!answer.ok()) {
    ADD_FAILURE() << answer.error().message;
    return {};
  }
  Ids history = prompt.ids;
  std::size_t at = 0;
  for (int step = 0; step < 2000 && !(*answer)->ended(); ++step) {
    const std::int32_t wanted = at < script.size() ? script[at] : kEndId;
    const auto id = (*answer)->Next(Wanting(wanted), history);
    if (!id) break;
    if (*id == wanted) ++at;
    history.push_back(*id);
  }
  (*answer)->Finish(runtime::FinishReason::kLength);
  EXPECT_TRUE((*answer)->ended());
  Reply reply = recorder.reply();
  if (reply.end == "error") reply.end = StrCat("error ", (*answer)->error().message());
  reply.ids.assign((*answer)->ids().begin(), (*answer)->ids().end());
  reply.reasoning_tokens = (*answer)->reasoning_tokens();
  reply.used = at;
  return reply;
}
inline Reply Say(const TestModel& model, const ChatRequest& request, std::string_view text,
                 AnswerOptions options = {}) {
  return Say(model, MustPrompt(model, request), model.Encode(text), std::move(options));
}

// "thinking|content|call call|end".
inline std::string Show(const Reply& reply) {
  return StrCat(reply.thinking, "|", reply.content, "|", Join(reply.calls, " "), "|", reply.end);
}

}  // namespace hone::chat
