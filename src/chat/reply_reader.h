// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Tokens of an answer become events: text, thinking and calls of tools.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "chat/answer_event.h"
#include "chat/chat_model.h"
#include "chat/content_filter.h"
#include "chat/output_parser.h"
#include "chat/prompt.h"
#include "chat/token_trace.h"
#include "runtime/text_stream.h"

namespace hone::chat {

// Stop strings of the model end any text; those of the request end content only. One thread at a
// time. The model must outlive it.
class ReplyReader {
 public:
  using Sink = std::function<void(AnswerEvent event)>;
  ReplyReader(const ChatModel& model, const AnswerPlan& plan, std::vector<std::string> stops,
              Sink sink);
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // The next token. score: if log-probabilities are asked for.
  Status Push(std::int32_t id, std::optional<TokenScore> score);
  // No more tokens. kept: text of a stop token that belongs to the answer. cuts_mark: the answer
  // ends inside a mark that was to close the thinking. Nothing may follow.
  Status Finish(std::string_view kept, bool cuts_mark = false);

  // A stop string has ended the answer.
  bool stopped() const { return stopped_ || filter_.stopped(); }
  bool may_close_thinking() const { return parser_ && parser_->may_close_thinking(); }
  bool in_thinking() const { return parser_ && parser_->in_thinking(); }
  // There is content or a call already.
  bool begun() const { return begun_; }

 private:
  void Read(std::string_view text);
  void ReadByte(char c);
  void Take(const std::vector<Event>& events);
  void TakeEvent(const Event& event);
  void AddContent(std::string_view text, std::vector<PlacedToken> tokens);
  // What only might have begun a stop string.
  void ReleaseHeld();
  void Append(ContentDelta delta);
  void CloseCall();
  void Send();
  template <typename Delta>
  Delta& Last();

  Sink sink_;
  std::optional<OutputParser> parser_;  // of a chat
  ContentFilter filter_;
  TokenTrace trace_;
  runtime::TextStream stream_;
  std::vector<AnswerEvent> out_;
  bool scored_ = false;   // tokens come with scores
  bool stopped_ = false;  // by a stop string of the model
  bool begun_ = false;
  bool call_is_open_ = false;
  bool drops_malformed_ = false;  // the rest of a call that was given out in part
};

}  // namespace hone::chat
