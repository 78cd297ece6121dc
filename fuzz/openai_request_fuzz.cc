// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Bodies of every endpoint. What is read keeps its promises; what is refused names a field.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/openai/read_request.h"

namespace hone::serve::openai {
namespace {

void CheckError(const ApiError& error) {
  HONE_CHECK(error.http_status == 400 && !error.message.empty());
  // The error itself can be sent.
  HONE_CHECK(ParseJson(ErrorJson(error).Dump()).ok());
}

void CheckChat(const ChatInput& chat) {
  for (const Json& message : chat.messages) {
    const Json* role = message.Find("role");
    HONE_CHECK(role != nullptr && role->IsString());
    const Json* content = message.Find("content");
    HONE_CHECK(content == nullptr || content->IsString() ||
               (content->IsArray() && !content->AsArray().empty()));
    const Json* calls = message.Find("tool_calls");
    HONE_CHECK(calls == nullptr || role->AsString() == "assistant");
    for (std::size_t i = 0; calls != nullptr && i < calls->AsArray().size(); ++i) {
      const Json* function = calls->AsArray()[i].Find("function");
      HONE_CHECK(function != nullptr && function->Find("arguments")->IsObject());
    }
  }
  HONE_CHECK(chat.tools.size() == chat.tools_json.size());
  for (const Tool& tool : chat.tools) {
    HONE_CHECK(!tool.name.empty() && tool.parameters.IsObject());
  }
  HONE_CHECK(chat.tools.empty() ? chat.tool_mode == ToolMode::kNone : true);
}

void CheckCall(const ApiResult<GenerateCall>& call, const ReadOptions& options) {
  if (!call.ok()) {
    CheckError(call.error());
    HONE_CHECK(!call.error().param.empty());
    return;
  }
  const GenerateRequest& request = call->generate;
  HONE_CHECK(options.lenient || call->reply.ignored.empty());
  HONE_CHECK(request.chat.has_value() == request.prompts.empty());
  HONE_CHECK(request.n >= 1 && request.NumChoices() <= options.max_choices);
  HONE_CHECK(!request.max_tokens || *request.max_tokens >= 0);
  for (const std::string& stop : request.stop) HONE_CHECK(!stop.empty());
  if (request.chat) {
    HONE_CHECK(!request.chat->messages.empty());
    CheckChat(*request.chat);
  }
}

void Run(std::string_view body, const ReadOptions& options) {
  const auto json = ParseBody(body, options);
  if (!json.ok()) {
    CheckError(json.error());
    return;
  }
  CheckCall(ReadChatCall(*json, options), options);
  CheckCall(ReadCompletionCall(*json, options), options);
  CheckCall(ReadResponsesCall(*json, options), options);
  const auto render = ReadApplyTemplate(*json, options);
  if (render.ok()) CheckChat(render->chat);
  if (!render.ok()) CheckError(render.error());
  const auto tokenize = ReadTokenize(*json, options);
  if (!tokenize.ok()) CheckError(tokenize.error());
  const auto detokenize = ReadDetokenize(*json, options);
  if (!detokenize.ok()) CheckError(detokenize.error());
}

}  // namespace
}  // namespace hone::serve::openai

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  hone::serve::openai::ReadOptions options;
  hone::serve::openai::Run(body, options);
  options.lenient = true;  // so that one unknown key does not hide what follows
  hone::serve::openai::Run(body, options);
  return 0;
}
