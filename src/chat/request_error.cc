// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/request_error.h"

namespace hone::chat {

const char* RequestPartName(RequestPart part) {
  switch (part) {
    case RequestPart::kNone:
      return "";
    case RequestPart::kMessages:
      return "messages";
    case RequestPart::kPrompt:
      return "prompt";
    case RequestPart::kTools:
      return "tools";
    case RequestPart::kToolChoice:
      return "tool_choice";
    case RequestPart::kResponseFormat:
      return "response_format";
    case RequestPart::kThinking:
      return "thinking";
    case RequestPart::kThinkingBudget:
      return "thinking_budget";
    case RequestPart::kTemplateKwargs:
      return "chat_template_kwargs";
    case RequestPart::kLogitBias:
      return "logit_bias";
    case RequestPart::kStop:
      return "stop";
    case RequestPart::kPrediction:
      return "prediction";
  }
  return "";
}

RequestError MakeRequestError(const Status& status, RequestPart part) {
  RequestError error;
  error.part = part;
  error.code = status.code();
  error.message = status.message();
  if (status.code() == Code::kInvalidArgument) error.kind = RequestError::Kind::kInvalid;
  if (status.code() == Code::kUnsupported) error.kind = RequestError::Kind::kUnsupported;
  return error;
}

}  // namespace hone::chat
