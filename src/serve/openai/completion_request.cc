// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "serve/openai/common_fields.h"
#include "serve/openai/read_request.h"

namespace hone::serve::openai {
namespace {

constexpr std::int64_t kDefaultMaxTokens = 16;
constexpr const char* kPromptForms =
    "a string, a list of strings, a list of token ids or a list of such lists";

ApiResult<Prompt> ReadIds(const Json::Array& ids, const std::string& path) {
  if (ids.empty()) return InvalidField(path, "found an empty list, expected token ids");
  HONE_ASSIGN(std::vector<std::int32_t> read, ReadTokenIds(ids, path));
  return Prompt(std::move(read));
}

// The first member says which form the list has; the others must have the same.
ApiStatus ReadPromptList(const Json::Array& list, std::vector<Prompt>& prompts) {
  if (list.empty()) return InvalidField("prompt", "the list is empty");
  const bool texts = list[0].IsString();
  const bool id_lists = list[0].IsArray();
  if (!texts && !id_lists) {
    HONE_ASSIGN(Prompt ids, ReadIds(list, "prompt"));
    prompts.push_back(std::move(ids));
    return ApiStatus();
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = StrCat("prompt[", i, "]");
    if (texts ? !list[i].IsString() : !list[i].IsArray()) {
      return InvalidField(path, StrCat("found ", Found(list[i]), ", expected ",
                                       texts ? "a string" : "a list of token ids", " as before"));
    }
    if (texts) {
      prompts.emplace_back(list[i].AsString());
      continue;
    }
    HONE_ASSIGN(Prompt ids, ReadIds(list[i].AsArray(), path));
    prompts.push_back(std::move(ids));
  }
  return ApiStatus();
}

ApiStatus ReadPrompt(const ObjectReader& body, GenerateRequest& request) {
  const Json* prompt = body.Find("prompt");
  if (prompt != nullptr && prompt->IsString()) {
    request.prompts.emplace_back(prompt->AsString());
    return ApiStatus();
  }
  if (prompt == nullptr || !prompt->IsArray()) return body.Wrong("prompt", kPromptForms);
  const std::int64_t limit = body.context().options.max_choices;
  const bool one = !prompt->AsArray().empty() && prompt->AsArray()[0].IsNumber();
  if (!one && static_cast<std::int64_t>(prompt->AsArray().size()) > limit) {
    return InvalidField(
        "prompt", StrCat("found ", prompt->AsArray().size(), " prompts, expected at most ", limit));
  }
  return ReadPromptList(prompt->AsArray(), request.prompts);
}

}  // namespace

ApiResult<GenerateCall> ReadCompletionCall(const Json& body_json, const ReadOptions& options) {
  ReadContext context{Endpoint::kCompletions, options};
  HONE_ASSIGN(const ObjectReader body, ObjectReader::Open(context, body_json, ""));
  GenerateCall call;
  GenerateRequest& request = call.generate;
  HONE_ASSIGN(request.model, ReadModelName(body));
  HONE_TRY(ReadPrompt(body, request));
  HONE_ASSIGN(const auto max_tokens, body.Int("max_tokens", 0, kMaxTokensLimit));
  request.max_tokens = max_tokens.value_or(kDefaultMaxTokens);
  HONE_TRY(ReadChoiceCount(body, request));
  HONE_ASSIGN(const auto best_of, body.Int("best_of", 1, options.max_n));
  if (best_of && *best_of != request.n) {
    return body.Wrong("best_of", StrCat(request.n, ", the value of n"));
  }
  HONE_ASSIGN(const auto echo, body.Bool("echo"));
  request.echo = echo.value_or(false);
  HONE_ASSIGN(const auto logprobs, body.Int("logprobs", 0, kMaxTopLogprobs));
  request.logprobs = logprobs.has_value();
  request.top_logprobs = logprobs.value_or(0);
  HONE_TRY(ReadSampling(body, request));
  HONE_TRY(ReadStream(body, call.reply));
  call.reply.ignored = std::move(context.ignored);
  call.reply.warnings = std::move(context.warnings);
  return call;
}

ApiResult<TokenizeRequest> ReadTokenize(const Json& body_json, const ReadOptions& options) {
  ReadContext context{Endpoint::kTokenize, options};
  HONE_ASSIGN(const ObjectReader body, ObjectReader::Open(context, body_json, ""));
  TokenizeRequest request;
  HONE_ASSIGN(request.model, ReadModelName(body));
  HONE_ASSIGN(const auto content, body.String("content"));
  HONE_ASSIGN(const auto prompt, body.String("prompt"));
  if (content && prompt) return InvalidField("prompt", "content is given already");
  if (!content && !prompt) return MissingField("content", "a string");
  request.text = content ? *content : *prompt;
  HONE_ASSIGN(const auto add_special, body.Bool("add_special"));
  HONE_ASSIGN(const auto parse_special, body.Bool("parse_special"));
  HONE_ASSIGN(const auto with_pieces, body.Bool("with_pieces"));
  request.add_special = add_special.value_or(false);
  request.parse_special = parse_special.value_or(true);
  request.with_pieces = with_pieces.value_or(false);
  request.ignored = std::move(context.ignored);
  return request;
}

ApiResult<DetokenizeRequest> ReadDetokenize(const Json& body_json, const ReadOptions& options) {
  ReadContext context{Endpoint::kDetokenize, options};
  HONE_ASSIGN(const ObjectReader body, ObjectReader::Open(context, body_json, ""));
  DetokenizeRequest request;
  HONE_ASSIGN(request.model, ReadModelName(body));
  HONE_ASSIGN(const Json::Array* tokens, body.Array("tokens"));
  if (tokens == nullptr) return MissingField("tokens", "a list of token ids");
  HONE_ASSIGN(request.tokens, ReadTokenIds(*tokens, "tokens"));
  request.ignored = std::move(context.ignored);
  return request;
}

}  // namespace hone::serve::openai
