// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Messages to prompt: template variables as Transformers passes them, BOS rule, token ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "runtime/engine.h"

namespace hone::runtime {

enum class Think : std::uint8_t { kAuto, kOn, kOff };  // enable_thinking absent, true, false

struct RenderOptions {
  Think think = Think::kAuto;
  bool add_generation_prompt = true;
  Json tools;                  // an array, or null
  std::int64_t local_now = 0;  // seconds of the local wall clock
  // More variables for the template. They come last, so they replace those of the same name.
  Json::Object variables = {};
};

// The prompt text. messages is an array of objects; keys whose value is null are dropped, as
// Transformers does. tool_calls[].function.arguments given as a JSON object in a string are decoded
// once. bos_token is the real BOS text, or empty for a bundle with a start token (it is prepended
// as an id then). Without a template: kUnsupported.
Result<std::string> RenderChat(const TextSetup& text, const Json& messages,
                               const RenderOptions& options);

// Ids of a rendered prompt: special tokens in the text are recognized, none are added but the
// bundle's start token if the text does not begin with it.
Result<std::vector<std::int32_t>> EncodePrompt(const TextSetup& text, std::string_view prompt);

}  // namespace hone::runtime
