// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/fields.h"

#include <array>
#include <initializer_list>
#include <vector>

#include "base/status.h"

namespace hone::serve::openai {
namespace {

using Rows = std::vector<FieldRow>;
constexpr FieldUse kHonoured = FieldUse::kHonoured;
constexpr FieldUse kNoEffect = FieldUse::kNoEffect;
constexpr FieldUse kRefused = FieldUse::kRefused;

const Rows kModel = {
    {"model", kHonoured, R"("m")",
     "Name from `/v1/models`. May be left out if the server has one model. Another name is a 404 "
     "that lists the names"},
};

const Rows kMessages = {
    {"messages", kHonoured, R"([{"role":"user","content":"hi"}])", "The conversation, not empty"},
    {"messages[].role", kHonoured, R"("user")",
     "`system`, `developer` (the same), `user`, `assistant` or `tool`"},
    {"messages[].type", kRefused, R"("image")",
     "messages have a role; parts of the content have types", R"("text")"},
    {"messages[].content", kHonoured, R"("hi")",
     "A string, or a list of text parts. An assistant message with `tool_calls` or "
     "`reasoning_content` may have none (absent, null, `\"\"` or `[]`)"},
    {"messages[].content[].type", kHonoured, R"("text")", "`text`; the models read nothing else"},
    {"messages[].content[].text", kHonoured, R"("hi")", "Text of the part"},
    {"messages[].name", kHonoured, R"("bob")", "Name of the speaker or tool, for the template"},
    {"messages[].tool_calls", kHonoured,
     R"([{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}])",
     "Calls that the assistant made; only in assistant messages"},
    {"messages[].tool_calls[].id", kHonoured, R"("c1")", "Id of the call, not empty"},
    {"messages[].tool_calls[].type", kHonoured, R"("function")", "`function`; may be left out"},
    {"messages[].tool_calls[].index", kNoEffect, "0",
     "Streamed calls have it; the order of the list counts"},
    {"messages[].tool_calls[].function", kHonoured, R"({"name":"f","arguments":"{}"})",
     "Name and arguments"},
    {"messages[].tool_calls[].function.name", kHonoured, R"("f")", "Name of the tool"},
    {"messages[].tool_calls[].function.arguments", kHonoured, R"("{\"a\": 1}")",
     "A JSON object in a string, or the object itself; decoded once for the template. Empty, null "
     "or absent: `{}`. Anything else is refused"},
    {"messages[].tool_call_id", kHonoured, R"("c1")",
     "Which call a tool message answers; needed there, and only there"},
    {"messages[].reasoning_content", kHonoured, R"("hm")",
     "Thinking of an earlier answer. The template decides whether the model sees it again"},
    {"messages[].reasoning", kHonoured, R"("hm")", "Another name of `reasoning_content`"},
    {"messages[].refusal", kRefused, R"("no")", "the models do not mark refusals"},
    {"messages[].annotations", kRefused, R"([{"type":"url_citation"}])", "the models do not cite",
     "[]"},
    {"messages[].audio", kRefused, R"({"id":"a"})", "the models neither hear nor speak"},
    {"messages[].function_call", kRefused, R"({"name":"f","arguments":"{}"})",
     "replaced by `tool_calls`"},
};

const Rows kTools = {
    {"tools", kHonoured, R"([{"type":"function","function":{"name":"f"}}])",
     "Functions that the model may call. `[]`: none"},
    {"tools[].type", kHonoured, R"("function")", "`function`"},
    {"tools[].function", kHonoured, R"({"name":"f"})", "The function"},
    {"tools[].function.name", kHonoured, R"("f")",
     "1 to 128 letters, digits, `_`, `-`, `.`, `:` or `/`; each name once"},
    {"tools[].function.description", kHonoured, R"("adds")", "For the model"},
    {"tools[].function.parameters", kHonoured, R"({"type":"object"})",
     "JSON schema of the arguments, an object. Absent: no parameters"},
    {"tools[].function.strict", kHonoured, "true", "The arguments must match the schema exactly"},
};

const Rows kThinking = {
    {"reasoning_effort", kHonoured, R"("low")",
     "`none`: the model does not think. `minimal`, `low`, `medium`: at most 256, 1024 or 4096 "
     "tokens of thinking. `high`, `xhigh`: thinking without a bound. A model without a thinking "
     "channel refuses all but `none`"},
    {"thinking_budget", kHonoured, "64",
     "Tokens of thinking, at most; 0: no thinking. Not together with another `reasoning_effort`. "
     "An extension"},
    {"enable_thinking", kHonoured, "false",
     "The same as `chat_template_kwargs.enable_thinking`; the answer has a warning. An extension"},
    {"chat_template_kwargs", kHonoured, R"({"enable_thinking":false})",
     "More variables for the template, which must not be those that the server sets itself. An "
     "extension"},
    {"chat_template_kwargs.enable_thinking", kHonoured, "false",
     "`true` or `false`: thinking on or off; `\"false\"` and `0` are refused, since templates take "
     "them for true. Contradictions with `reasoning_effort` or `thinking_budget` are refused"},
};

const Rows kSampling = {
    {"temperature", kHonoured, "0.5", "0 to 2; 0: always the likeliest token"},
    {"top_p", kHonoured, "0.9", "0 to 1"},
    {"top_k", kHonoured, "40", "0 or -1: off. An extension"},
    {"min_p", kHonoured, "0.05", "0 to 1. An extension"},
    {"presence_penalty", kHonoured, "0.5", "-2 to 2"},
    {"frequency_penalty", kHonoured, "0.5", "-2 to 2"},
    {"repetition_penalty", kHonoured, "1.1", "Over 0 to 10; 1: off. An extension"},
    {"seed", kHonoured, "7",
     "An integer of 64 bits. The same request with the same seed has the same answer"},
    {"logit_bias", kHonoured, R"({"5":-100})",
     "Token id (as a string) to a number from -100 to 100 that is added to its logit"},
    {"stop", kHonoured, R"(["\n"])",
     "A string or up to 16 strings that end the answer and are left out of it; matched in the "
     "text, also across tokens. Not matched inside the thinking. An empty string is refused"},
};

const Rows kStream = {
    {"stream", kHonoured, "true", "Server-sent events instead of one JSON object"},
    {"stream_options", kHonoured, R"({"include_usage":true})", "Only with `stream: true`"},
    {"stream_options.include_usage", kHonoured, "true",
     "One more chunk at the end, with `usage` and no choices"},
    {"stream_options.include_obfuscation", kRefused, "true", "nothing is padded", "false"},
};

const Rows kHarmless = {
    {"user", kNoEffect, R"("u1")", "Marks the end user for OpenAI"},
    {"safety_identifier", kNoEffect, R"("u1")", "Marks the end user for OpenAI"},
    {"metadata", kNoEffect, R"({"a":"b"})", "Labels for stored answers; nothing is stored"},
    {"prompt_cache_key", kNoEffect, R"("k")", "Prompts are cached by their tokens"},
    {"prompt_cache_retention", kNoEffect, R"("24h")", "Prompts are cached while there is room"},
    {"service_tier", kNoEffect, R"("auto")", "There is one tier"},
    {"store", kRefused, "true", "answers are not stored", "false"},
};

const Rows kChatOnly = {
    {"max_tokens", kHonoured, "16",
     "Tokens of the answer (thinking included), at most. 0: an empty answer with `length`"},
    {"max_completion_tokens", kHonoured, "16",
     "The same as `max_tokens`; both together must be equal"},
    {"n", kHonoured, "2", "Answers to the same messages, 1 to 16"},
    {"logprobs", kHonoured, "true", "Log-probabilities of the content's tokens"},
    {"top_logprobs", kHonoured, "3", "0 to 20 candidates for each token; needs `logprobs: true`"},
    {"tool_choice", kHonoured, R"("auto")",
     "`none`, `auto`, `required`, or `{\"type\": \"function\", \"function\": {\"name\": ...}}`; "
     "enforced. Default: `auto` with tools, else `none`"},
    {"tool_choice.type", kHonoured, R"("function")", "`function`"},
    {"tool_choice.function", kHonoured, R"({"name":"f"})", "Which tool must be called"},
    {"tool_choice.function.name", kHonoured, R"("f")", "One of `tools`"},
    {"parallel_tool_calls", kHonoured, "false", "`false`: at most one call. Default: `true`"},
    {"response_format", kHonoured, R"({"type":"json_object"})",
     "What the content must match. Thinking is free of it, and so are tool calls, which have their "
     "own schemas. An answer cut by `max_tokens` (`length`) is not complete"},
    {"response_format.type", kHonoured, R"("text")",
     "`text`, `json_object`, `json_schema`; extensions: `regex`, `grammar`"},
    {"response_format.json_schema", kHonoured, R"({"name":"r","schema":{"type":"object"}})",
     "Of `json_schema`"},
    {"response_format.json_schema.name", kHonoured, R"("r")", "For the reader"},
    {"response_format.json_schema.description", kHonoured, R"("d")", "For the reader"},
    {"response_format.json_schema.schema", kHonoured, R"({"type":"object"})",
     "The schema, an object; needed"},
    {"response_format.json_schema.strict", kHonoured, "true",
     "The schema is always enforced, or refused before anything is generated"},
    {"response_format.schema", kHonoured, R"({"type":"object"})",
     "The schema without the wrapper, also of `json_object`. An extension"},
    {"response_format.regex", kHonoured, R"("a+")", "Of `regex`. An extension"},
    {"response_format.grammar", kHonoured, R"("start: \"a\"")", "Of `grammar`: Lark. An extension"},
    {"prediction", kHonoured, R"({"type":"content","content":"x"})",
     "Text that the answer will mostly repeat: a draft, which changes speed and nothing else"},
    {"prediction.type", kHonoured, R"("content")", "`content`"},
    {"prediction.content", kHonoured, R"("x")", "A string or a list of text parts"},
    {"prediction.content[].type", kHonoured, R"("text")", "`text`"},
    {"prediction.content[].text", kHonoured, R"("x")", "Text of the part"},
    {"reasoning_format", kHonoured, R"("none")",
     "Where the thinking goes. `deepseek` or `auto` (the default): into `reasoning_content`. "
     "`none`: into the content, between `<think>` and `</think>`. An extension"},
    {"modalities", kRefused, R"(["text","audio"])", "answers are text", R"(["text"])"},
    {"audio", kRefused, R"({"voice":"a","format":"wav"})", "answers are text"},
    {"verbosity", kRefused, R"("low")", "the models have no such setting", R"("medium")"},
    {"web_search_options", kRefused, "{}", "the server does not search the web"},
    {"moderation", kRefused, "{}", "the server does not moderate"},
    {"functions", kRefused, R"([{"name":"f"}])", "replaced by `tools`", "[]"},
    {"function_call", kRefused, R"("auto")", "replaced by `tool_choice`"},
};

const Rows kCompletionsOnly = {
    {"prompt", kHonoured, R"("hi")",
     "A string, a list of strings, a list of token ids, or a list of such lists; a string has the "
     "model's first token (BOS) put in front once, ids are used as they are"},
    {"max_tokens", kHonoured, "16",
     "Tokens after the prompt, at most. Default: 16, as OpenAI has it"},
    {"n", kHonoured, "2", "Choices for each prompt, 1 to 16"},
    {"best_of", kHonoured, "1", "Must equal `n`"},
    {"echo", kHonoured, "true",
     "The prompt comes first in `text`, and in `logprobs` too, where its first token has null"},
    {"logprobs", kHonoured, "1", "0 to 20 candidates for each token; an integer"},
    {"suffix", kRefused, R"("end")", "text is only generated after the prompt", R"("")"},
};

const Rows kResponsesOnly = {
    {"input", kHonoured, R"("hi")", "A string (a user message), or a list of items, not empty"},
    {"input[].type", kHonoured, R"("message")",
     "`message` (may be left out), `function_call`, `function_call_output` or `reasoning`"},
    {"input[].role", kHonoured, R"("user")", "`system`, `developer`, `user` or `assistant`"},
    {"input[].content", kHonoured, R"("hi")",
     "A string or a list of parts; of `reasoning` a list of `reasoning_text` parts"},
    {"input[].content[].type", kHonoured, R"("input_text")",
     "`input_text`, `output_text` or `reasoning_text`"},
    {"input[].content[].text", kHonoured, R"("hi")", "Text of the part"},
    {"input[].content[].annotations", kRefused, R"([{"type":"url_citation"}])",
     "the models do not cite", "[]"},
    {"input[].content[].logprobs", kNoEffect, "[]", "Answers have it; the text counts"},
    {"input[].call_id", kHonoured, R"("c1")", "Id of a call and of its output"},
    {"input[].name", kHonoured, R"("f")", "Name of the called function"},
    {"input[].arguments", kHonoured, R"("{}")", "As `arguments` of chat completions"},
    {"input[].output", kHonoured, R"("5")",
     "What the function gave: a string or `input_text` parts"},
    {"input[].output[].type", kHonoured, R"("input_text")", "`input_text`"},
    {"input[].output[].text", kHonoured, R"("hi")", "Text of the part"},
    {"input[].id", kNoEffect, R"("msg_1")", "Answers have it; the order of the list counts"},
    {"input[].status", kNoEffect, R"("completed")", "Answers have it"},
    {"input[].summary", kRefused, R"([{"type":"summary_text","text":"s"}])",
     "give the thinking itself as `content`", "[]"},
    {"input[].encrypted_content", kRefused, R"("x")", "thinking is plain text here"},
    {"instructions", kHonoured, R"("be brief")", "A system message in front of the input"},
    {"max_output_tokens", kHonoured, "16", "Tokens of the answer (thinking included), at most"},
    {"tools", kHonoured, R"([{"type":"function","name":"f"}])",
     "Functions that the model may call. `[]`: none. Tools of OpenAI's servers are refused"},
    {"tools[].type", kHonoured, R"("function")", "`function`"},
    {"tools[].name", kHonoured, R"("f")", "As in chat completions"},
    {"tools[].description", kHonoured, R"("adds")", "For the model"},
    {"tools[].parameters", kHonoured, R"({"type":"object"})", "JSON schema of the arguments"},
    {"tools[].strict", kHonoured, "true", "The arguments must match the schema exactly"},
    {"tool_choice", kHonoured, R"("auto")",
     "`none`, `auto`, `required`, or `{\"type\": \"function\", \"name\": ...}`; enforced"},
    {"tool_choice.type", kHonoured, R"("function")", "`function`"},
    {"tool_choice.name", kHonoured, R"("f")", "One of `tools`"},
    {"parallel_tool_calls", kHonoured, "false", "`false`: at most one call. Default: `true`"},
    {"text", kHonoured, R"({"format":{"type":"text"}})", "Form of the answer"},
    {"text.format", kHonoured, R"({"type":"text"})", "What the text must match"},
    {"text.format.type", kHonoured, R"("text")",
     "`text`, `json_object`, `json_schema`; extensions: `regex`, `grammar`"},
    {"text.format.name", kHonoured, R"("r")", "For the reader"},
    {"text.format.description", kHonoured, R"("d")", "For the reader"},
    {"text.format.schema", kHonoured, R"({"type":"object"})", "Of `json_schema`; needed"},
    {"text.format.strict", kHonoured, "true", "The schema is always enforced"},
    {"text.format.regex", kHonoured, R"("a+")", "Of `regex`. An extension"},
    {"text.format.grammar", kHonoured, R"("start: \"a\"")", "Of `grammar`: Lark. An extension"},
    {"text.verbosity", kRefused, R"("low")", "the models have no such setting", R"("medium")"},
    {"reasoning", kHonoured, R"({"effort":"low"})", "Thinking"},
    {"reasoning.effort", kHonoured, R"("low")", "As `reasoning_effort` of chat completions"},
    {"reasoning.summary", kRefused, R"("detailed")",
     "thinking is not summarized; it comes whole, as an item of type `reasoning`", R"("auto")"},
    {"reasoning.generate_summary", kRefused, R"("detailed")", "thinking is not summarized",
     R"("auto")"},
    {"include", kHonoured, R"(["message.output_text.logprobs"])",
     "`message.output_text.logprobs` adds log-probabilities; other values are refused"},
    {"top_logprobs", kHonoured, "3",
     "0 to 20 candidates for each token; needs `message.output_text.logprobs` in `include`"},
    {"stream", kHonoured, "true", "Server-sent events instead of one JSON object"},
    {"stream_options", kHonoured, "{}", "Only with `stream: true`"},
    {"stream_options.include_obfuscation", kRefused, "true", "nothing is padded", "false"},
    {"metadata", kHonoured, R"({"a":"b"})", "Repeated in the answer"},
    {"user", kNoEffect, R"("u1")", "Marks the end user for OpenAI"},
    {"safety_identifier", kNoEffect, R"("u1")", "Marks the end user for OpenAI"},
    {"prompt_cache_key", kNoEffect, R"("k")", "Prompts are cached by their tokens"},
    {"prompt_cache_retention", kNoEffect, R"("24h")", "Prompts are cached while there is room"},
    {"service_tier", kNoEffect, R"("auto")", "There is one tier"},
    {"store", kRefused, "true",
     "answers are not stored, also not by default: send the whole conversation as `input`",
     "false"},
    {"previous_response_id", kRefused, R"("resp_1")",
     "answers are not stored: send the whole conversation as `input`"},
    {"conversation", kRefused, R"("conv_1")",
     "conversations are not stored: send the whole conversation as `input`"},
    {"background", kRefused, "true", "the answer comes in this request", "false"},
    {"prompt", kRefused, R"({"id":"p"})", "there are no stored prompts"},
    {"truncation", kRefused, R"("auto")",
     "what happens when the context is full is an option of the server", R"("disabled")"},
    {"context_management", kRefused, "[{}]",
     "what happens when the context is full is an option of the server", "[]"},
    {"max_tool_calls", kRefused, "3", "it bounds tools of OpenAI's servers"},
};

const Rows kTokenizeRows = {
    {"content", kHonoured, R"("hi")", "The text; needed, unless `prompt` is given"},
    {"prompt", kHonoured, R"("hi")", "Another name of `content`"},
    {"add_special", kHonoured, "true",
     "Add what the tokenizer adds to a text, such as BOS. Default: `false`"},
    {"parse_special", kHonoured, "false",
     "`true` (the default): names of special tokens in the text become these tokens"},
    {"with_pieces", kHonoured, "true",
     "`tokens` is a list of `{\"id\", \"piece\"}`; a piece that is no whole text is a list of "
     "bytes"},
};

const Rows kDetokenizeRows = {
    {"tokens", kHonoured, "[1, 2]", "Token ids; may be empty"},
};

const Rows kApplyOnly = {
    {"add_generation_prompt", kHonoured, "false",
     "`true` (the default): the prompt ends where the assistant begins"},
};

Rows Concat(std::initializer_list<const Rows*> parts) {
  Rows out;
  for (const Rows* part : parts) out.insert(out.end(), part->begin(), part->end());
  return out;
}

std::array<Rows, std::size(kEndpoints)> MakeTables() {
  return {
      Concat(
          {&kModel, &kMessages, &kChatOnly, &kSampling, &kTools, &kThinking, &kStream, &kHarmless}),
      Concat({&kModel, &kCompletionsOnly, &kSampling, &kStream, &kHarmless}),
      Concat({&kModel, &kResponsesOnly, &kSampling}),
      Concat({&kModel, &kTokenizeRows}),
      Concat({&kModel, &kDetokenizeRows}),
      Concat({&kModel, &kMessages, &kTools, &kThinking, &kApplyOnly}),
  };
}

const char* UseName(FieldUse use) {
  switch (use) {
    case FieldUse::kHonoured:
      return "honoured";
    case FieldUse::kNoEffect:
      return "no effect";
    case FieldUse::kRefused:
      return "refused";
  }
  return "";
}

}  // namespace

std::string_view EndpointPath(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChat:
      return "/v1/chat/completions";
    case Endpoint::kCompletions:
      return "/v1/completions";
    case Endpoint::kResponses:
      return "/v1/responses";
    case Endpoint::kTokenize:
      return "/tokenize";
    case Endpoint::kDetokenize:
      return "/detokenize";
    case Endpoint::kApplyTemplate:
      return "/apply-template";
  }
  return "";
}

std::span<const FieldRow> Fields(Endpoint endpoint) {
  static const std::array<Rows, std::size(kEndpoints)> kTables = MakeTables();
  return kTables[static_cast<std::size_t>(endpoint)];
}

const FieldRow* FindField(Endpoint endpoint, std::string_view path) {
  for (const FieldRow& row : Fields(endpoint)) {
    if (row.path == path) return &row;
  }
  return nullptr;
}

std::string FieldTable(Endpoint endpoint) {
  std::string out = "| field | | |\n|---|---|---|\n";
  for (const FieldRow& row : Fields(endpoint)) {
    out += StrCat("| `", row.path, "` | ", UseName(row.use));
    if (!row.only.empty()) out += StrCat(", except `", row.only, "`");
    out += StrCat(" | ", row.text, " |\n");
  }
  return out;
}

}  // namespace hone::serve::openai
