// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Bodies of requests, read strictly: a field that is wrong, unknown or cannot be honoured is an
// error that names it. body is what ParseBody gave.
#pragma once

#include "base/json.h"
#include "serve/openai/api_error.h"
#include "serve/openai/field_reader.h"
#include "serve/openai/request.h"

namespace hone::serve::openai {

ApiResult<GenerateCall> ReadChatCall(const Json& body, const ReadOptions& options);
ApiResult<GenerateCall> ReadCompletionCall(const Json& body, const ReadOptions& options);
ApiResult<GenerateCall> ReadResponsesCall(const Json& body, const ReadOptions& options);

ApiResult<TokenizeRequest> ReadTokenize(const Json& body, const ReadOptions& options);
ApiResult<DetokenizeRequest> ReadDetokenize(const Json& body, const ReadOptions& options);
ApiResult<RenderRequest> ReadApplyTemplate(const Json& body, const ReadOptions& options);

}  // namespace hone::serve::openai
