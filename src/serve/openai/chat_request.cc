// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "serve/openai/common_fields.h"
#include "serve/openai/messages.h"
#include "serve/openai/read_request.h"
#include "serve/openai/tools.h"

namespace hone::serve::openai {
namespace {

ApiStatus ReadMaxTokens(const ObjectReader& body, GenerateRequest& request) {
  HONE_ASSIGN(const auto old_name, body.Int("max_tokens", 0, kMaxTokensLimit));
  HONE_ASSIGN(const auto new_name, body.Int("max_completion_tokens", 0, kMaxTokensLimit));
  if (old_name && new_name && *old_name != *new_name) {
    return InvalidField(
        "max_completion_tokens",
        StrCat("found ", *new_name, ", but max_tokens, which means the same, is ", *old_name));
  }
  request.max_tokens = new_name ? new_name : old_name;
  return ApiStatus();
}

ApiStatus ReadLogprobs(const ObjectReader& body, GenerateRequest& request) {
  HONE_ASSIGN(const auto logprobs, body.Bool("logprobs"));
  HONE_ASSIGN(const auto top, body.Int("top_logprobs", 0, kMaxTopLogprobs));
  request.logprobs = logprobs.value_or(false);
  request.top_logprobs = top.value_or(0);
  if (top && !request.logprobs) {
    return InvalidField("top_logprobs", "only allowed with \"logprobs\": true");
  }
  return ApiStatus();
}

ApiStatus ReadPrediction(const ObjectReader& body, ChatInput& chat) {
  HONE_ASSIGN(const auto prediction, body.Object("prediction"));
  if (!prediction) return ApiStatus();
  HONE_ASSIGN(const std::string type, prediction->NeedString("type"));
  if (type != "content") return prediction->Wrong("type", "\"content\"");
  const Json* content = prediction->Find("content");
  if (content == nullptr) return prediction->Wrong("content", "a string or a list of text parts");
  HONE_ASSIGN(const Json text,
              ReadTextParts(body.context(), *content, prediction->PathOf("content"), {"text"}));
  chat.prediction = JoinText(text);
  return ApiStatus();
}

ApiStatus ReadReasoningFormat(const ObjectReader& body, ReplyOptions& reply) {
  HONE_ASSIGN(const auto format, body.String("reasoning_format"));
  if (!format) return ApiStatus();
  if (*format != "none" && *format != "auto" && *format != "deepseek") {
    return body.Wrong("reasoning_format", "none, auto or deepseek");
  }
  reply.inline_thinking = *format == "none";
  return ApiStatus();
}

}  // namespace

ApiResult<GenerateCall> ReadChatCall(const Json& body_json, const ReadOptions& options) {
  ReadContext context{Endpoint::kChat, options};
  HONE_ASSIGN(const ObjectReader body, ObjectReader::Open(context, body_json, ""));
  GenerateCall call;
  GenerateRequest& request = call.generate;
  ChatInput& chat = request.chat.emplace();
  HONE_ASSIGN(request.model, ReadModelName(body));
  HONE_ASSIGN(chat.messages, ReadMessages(body));
  HONE_TRY(ReadMaxTokens(body, request));
  HONE_TRY(ReadChoiceCount(body, request));
  HONE_TRY(ReadSampling(body, request));
  HONE_TRY(ReadLogprobs(body, request));
  HONE_TRY(ReadStream(body, call.reply));
  HONE_TRY(ReadTools(body, /*nested=*/true, chat));
  HONE_TRY(ReadResponseFormat(body, chat.format));
  HONE_TRY(ReadThinking(body, chat));
  HONE_TRY(ReadReasoningFormat(body, call.reply));
  HONE_TRY(ReadPrediction(body, chat));
  call.reply.ignored = std::move(context.ignored);
  call.reply.warnings = std::move(context.warnings);
  return call;
}

ApiResult<RenderRequest> ReadApplyTemplate(const Json& body_json, const ReadOptions& options) {
  ReadContext context{Endpoint::kApplyTemplate, options};
  HONE_ASSIGN(const ObjectReader body, ObjectReader::Open(context, body_json, ""));
  RenderRequest request;
  HONE_ASSIGN(request.model, ReadModelName(body));
  HONE_ASSIGN(request.chat.messages, ReadMessages(body));
  HONE_TRY(ReadToolList(body, /*nested=*/true, request.chat));
  if (!request.chat.tools.empty()) request.chat.tool_mode = ToolMode::kAuto;
  HONE_TRY(ReadThinking(body, request.chat));
  HONE_ASSIGN(const auto prompt, body.Bool("add_generation_prompt"));
  request.chat.add_generation_prompt = prompt.value_or(true);
  request.ignored = std::move(context.ignored);
  request.warnings = std::move(context.warnings);
  return request;
}

}  // namespace hone::serve::openai
