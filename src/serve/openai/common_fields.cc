// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/common_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "serve/openai/utf8.h"

namespace hone::serve::openai {
namespace {

ApiStatus ReadLogitBias(const ObjectReader& body, SamplingFields& sampling) {
  const Json* bias = body.Find("logit_bias");
  if (bias == nullptr) return ApiStatus();
  if (!bias->IsObject()) return body.Wrong("logit_bias", "an object of token ids and numbers");
  const std::int64_t limit = body.context().options.max_logit_bias;
  if (static_cast<std::int64_t>(bias->AsObject().size()) > limit) {
    return InvalidField("logit_bias", StrCat("found ", bias->AsObject().size(),
                                             " entries, expected at most ", limit));
  }
  for (const auto& [key, value] : bias->AsObject()) {
    std::int32_t id = -1;
    const char* end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, id);
    const std::string path = StrCat("logit_bias.", ShortText(key));
    if (parsed.ec != std::errc() || parsed.ptr != end || id < 0) {
      return InvalidField(path, "the key is not a token id");
    }
    if (!value.IsNumber() || !(value.AsDouble() >= -100 && value.AsDouble() <= 100)) {
      return InvalidField(path,
                          StrCat("found ", Found(value), ", expected a number from -100 to 100"));
    }
    if (!sampling.logit_bias.emplace(id, value.AsDouble()).second) {
      return InvalidField(path, "the same token id appears twice");
    }
  }
  return ApiStatus();
}

ApiStatus AddStop(const Json& value, const std::string& path, std::vector<std::string>& stop) {
  if (!value.IsString()) {
    return InvalidField(path, StrCat("found ", Found(value), ", expected a string"));
  }
  if (value.AsString().empty()) {
    return InvalidField(path, "an empty string would stop every answer at once");
  }
  stop.push_back(value.AsString());
  return ApiStatus();
}

ApiStatus ReadStop(const ObjectReader& body, std::vector<std::string>& stop) {
  const Json* value = body.Find("stop");
  if (value == nullptr) return ApiStatus();
  if (value->IsString()) return AddStop(*value, "stop", stop);
  if (!value->IsArray()) return body.Wrong("stop", "a string or a list of strings");
  const std::int64_t limit = body.context().options.max_stop;
  if (static_cast<std::int64_t>(value->AsArray().size()) > limit) {
    return InvalidField(
        "stop", StrCat("found ", value->AsArray().size(), " strings, expected at most ", limit));
  }
  for (std::size_t i = 0; i < value->AsArray().size(); ++i) {
    HONE_TRY(AddStop(value->AsArray()[i], StrCat("stop[", i, "]"), stop));
  }
  return ApiStatus();
}

struct Effort {
  const char* name;
  ThinkMode mode;
  std::int64_t budget_tokens;  // 0: no bound
};
constexpr Effort kEfforts[] = {
    {"none", ThinkMode::kOff, 0},  {"minimal", ThinkMode::kOn, 256},
    {"low", ThinkMode::kOn, 1024}, {"medium", ThinkMode::kOn, 4096},
    {"high", ThinkMode::kOn, 0},   {"xhigh", ThinkMode::kOn, 0},
};

// Variables that the server sets itself.
bool IsReservedVariable(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "messages",  "tools",     "documents", "add_generation_prompt",
      "bos_token", "eos_token", "pad_token", "unk_token"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

ApiResult<std::string> ReadModelName(const ObjectReader& body) {
  HONE_ASSIGN(const auto model, body.String("model"));
  return model.value_or("");
}

ApiStatus ReadSampling(const ObjectReader& body, GenerateRequest& request) {
  SamplingFields& sampling = request.sampling;
  HONE_ASSIGN(sampling.temperature, body.Number("temperature", 0, 2));
  HONE_ASSIGN(sampling.top_p, body.Number("top_p", 0, 1));
  HONE_ASSIGN(sampling.min_p, body.Number("min_p", 0, 1));
  HONE_ASSIGN(sampling.top_k, body.Int("top_k", -1, std::numeric_limits<std::int32_t>::max()));
  if (sampling.top_k) sampling.top_k = std::max<std::int64_t>(*sampling.top_k, 0);
  HONE_ASSIGN(sampling.presence_penalty, body.Number("presence_penalty", -2, 2));
  HONE_ASSIGN(sampling.frequency_penalty, body.Number("frequency_penalty", -2, 2));
  HONE_ASSIGN(sampling.repetition_penalty, body.Number("repetition_penalty", 0, 10));
  if (sampling.repetition_penalty == 0.0) {
    return body.Wrong("repetition_penalty", "a number over 0");
  }
  HONE_ASSIGN(sampling.seed, body.Int("seed", std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::int64_t>::max()));
  HONE_TRY(ReadLogitBias(body, sampling));
  return ReadStop(body, request.stop);
}

ApiStatus ReadStream(const ObjectReader& body, ReplyOptions& reply) {
  HONE_ASSIGN(const auto stream, body.Bool("stream"));
  reply.stream = stream.value_or(false);
  HONE_ASSIGN(const auto options, body.Object("stream_options"));
  if (!options) return ApiStatus();
  if (!reply.stream) return InvalidField("stream_options", "only allowed with \"stream\": true");
  if (body.context().endpoint == Endpoint::kResponses) return ApiStatus();
  HONE_ASSIGN(const auto usage, options->Bool("include_usage"));
  reply.include_usage = usage.value_or(false);
  return ApiStatus();
}

ApiStatus ReadChoiceCount(const ObjectReader& body, GenerateRequest& request) {
  const ReadOptions& options = body.context().options;
  HONE_ASSIGN(const auto n, body.Int("n", 1, options.max_n));
  request.n = n.value_or(1);
  if (request.NumChoices() > options.max_choices) {
    return InvalidField(request.NumPrompts() > 1 ? "prompt" : "n",
                        StrCat(request.NumPrompts(), " prompts with ", request.n,
                               " choices each are more than ", options.max_choices, " choices"));
  }
  return ApiStatus();
}

ApiStatus ThinkingFields::SetMode(const std::string& path, ThinkMode mode) {
  if (thinking_.mode != ThinkMode::kDefault && thinking_.mode != mode) {
    return InvalidField(
        path, StrCat("turns thinking ", mode == ThinkMode::kOn ? "on" : "off", ", but ",
                     thinking_.field, " turns it ", mode == ThinkMode::kOn ? "off" : "on"));
  }
  if (thinking_.mode == ThinkMode::kDefault) thinking_.field = path;
  thinking_.mode = mode;
  return ApiStatus();
}

ApiStatus ThinkingFields::AddEffort(const std::string& path, const std::string& effort) {
  for (const Effort& row : kEfforts) {
    if (effort != row.name) continue;
    HONE_TRY(SetMode(path, row.mode));
    if (row.mode == ThinkMode::kOn) effort_path_ = path;
    if (row.budget_tokens > 0) thinking_.budget_tokens = row.budget_tokens;
    return ApiStatus();
  }
  return InvalidField(path, StrCat("found ", Found(Json(effort)),
                                   ", expected none, minimal, low, medium, high or xhigh"));
}

ApiStatus ThinkingFields::AddSwitch(const std::string& path, bool on) {
  return SetMode(path, on ? ThinkMode::kOn : ThinkMode::kOff);
}

ApiStatus ThinkingFields::AddBudget(const std::string& path, std::int64_t budget_tokens) {
  if (!effort_path_.empty()) {
    return InvalidField(path, StrCat("give either this or ", effort_path_, ", not both"));
  }
  HONE_TRY(SetMode(path, budget_tokens > 0 ? ThinkMode::kOn : ThinkMode::kOff));
  if (budget_tokens > 0) thinking_.budget_tokens = budget_tokens;
  return ApiStatus();
}

ApiStatus ReadThinking(const ObjectReader& body, ChatInput& chat) {
  ThinkingFields fields;
  HONE_ASSIGN(const auto effort, body.String("reasoning_effort"));
  if (effort) HONE_TRY(fields.AddEffort("reasoning_effort", *effort));
  HONE_ASSIGN(const auto budget, body.Int("thinking_budget", 0, kMaxTokensLimit));
  if (budget) HONE_TRY(fields.AddBudget("thinking_budget", *budget));
  HONE_ASSIGN(const auto plain, body.Bool("enable_thinking"));
  if (plain) {
    HONE_TRY(fields.AddSwitch("enable_thinking", *plain));
    body.context().warnings.push_back(
        "enable_thinking: better written as chat_template_kwargs.enable_thinking or "
        "reasoning_effort");
  }
  const Json* kwargs = body.Find("chat_template_kwargs");
  if (kwargs != nullptr && !kwargs->IsObject()) {
    return body.Wrong("chat_template_kwargs", "an object");
  }
  if (kwargs != nullptr) {
    for (const auto& [key, value] : kwargs->AsObject()) {
      const std::string path = StrCat("chat_template_kwargs.", key);
      if (IsReservedVariable(key)) {
        return InvalidField(path, "the server sets this variable itself");
      }
      if (key != "enable_thinking") {
        chat.template_kwargs.emplace_back(key, value);
        continue;
      }
      if (value.IsNull()) continue;
      if (!value.IsBool()) {
        return InvalidField(path, StrCat("found ", Found(value), ", expected true or false"));
      }
      HONE_TRY(fields.AddSwitch(path, value.AsBool()));
    }
  }
  chat.thinking = fields.thinking();
  return ApiStatus();
}

}  // namespace hone::serve::openai
