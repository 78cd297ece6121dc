// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/prompt.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "chat/char_class.h"
#include "chat/control_text.h"
#include "chat/output_parser.h"
#include "chat/reply_grammar.h"
#include "chat/tool_arguments.h"
#include "runtime/chat.h"

namespace hone::chat {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::string_view kOwnVariables[] = {
    "messages",  "tools",     "documents", "add_generation_prompt", "enable_thinking", "bos_token",
    "eos_token", "pad_token", "unk_token"};

RequestError Invalid(RequestPart part, std::string message) {
  return MakeRequestError(Status(Code::kInvalidArgument, std::move(message)), part);
}
RequestError Unsupported(RequestPart part, std::string message) {
  return MakeRequestError(Status(Code::kUnsupported, std::move(message)), part);
}

std::int64_t LocalNow() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  if (localtime_r(&now, &local) == nullptr) return static_cast<std::int64_t>(now);
  return static_cast<std::int64_t>(timegm(&local));
}

std::string RoleOf(const Json& message) {
  const Json* role = message.Find("role");
  return role != nullptr && role->IsString() ? role->AsString() : std::string();
}

RequestError TooLong(RequestPart part, std::int64_t n_prompt, std::int64_t n_ctx,
                     std::string_view what) {
  RequestError error;
  error.kind = RequestError::Kind::kContext;
  error.part = part;
  error.code = Code::kInvalidArgument;
  error.n_prompt = n_prompt;
  error.n_ctx = n_ctx;
  error.message = StrCat(what, " has ", n_prompt, " tokens, but the context holds ", n_ctx);
  return error;
}

std::int64_t ContextOf(const ChatModel& model, const PromptLimits& limits) {
  return limits.context > 0 ? std::min(limits.context, model.context()) : model.context();
}

// What can be said without rendering.
RequestStatus CheckThinking(const ChatModel& model, const ThinkingRequest& thinking) {
  if (thinking.budget_tokens && *thinking.budget_tokens < 1) {
    return Invalid(RequestPart::kThinkingBudget,
                   StrCat("found ", *thinking.budget_tokens, " tokens, expected 1 or more"));
  }
  if (thinking.budget_tokens && thinking.mode == ThinkingMode::kOff) {
    return Invalid(RequestPart::kThinkingBudget, "thinking is off, so it has no budget");
  }
  if (model.has_thinking()) return {};
  constexpr std::string_view kWhy = "the model has no thinking channel";
  if (thinking.mode == ThinkingMode::kOn) {
    return Unsupported(RequestPart::kThinking, std::string(kWhy));
  }
  if (thinking.budget_tokens) {
    return Unsupported(RequestPart::kThinkingBudget, std::string(kWhy));
  }
  return {};
}

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Whether the template has the name as a word.
bool Mentions(std::string_view source, std::string_view name) {
  for (std::size_t at = source.find(name); at != std::string_view::npos;
       at = source.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool begins = at == 0 || !IsNameByte(source[at - 1]);
    if (begins && (end == source.size() || !IsNameByte(source[end]))) return true;
  }
  return false;
}

RequestStatus CheckVariables(const ChatModel& model, const Json::Object& variables) {
  for (const auto& [name, value] : variables) {
    const auto* const end = std::end(kOwnVariables);
    if (std::find(std::begin(kOwnVariables), end, name) != end) {
      return Invalid(RequestPart::kTemplateKwargs,
                     StrCat("\"", name, "\" is set by the rest of the request"));
    }
    // The source of a second template, for tools, is not known here.
    if (model.text().tool_template || name.empty()) continue;
    if (!Mentions(model.text().template_source, name)) {
      return Unsupported(RequestPart::kTemplateKwargs,
                         StrCat("the model's chat template does not read ", Json(name).Dump()));
    }
  }
  return {};
}

RequestStatus CheckContent(const Json& message, std::size_t index) {
  if (!message.IsObject() || RoleOf(message).empty()) {
    return Invalid(RequestPart::kMessages,
                   StrCat("messages[", index, "]: expected an object with a role"));
  }
  const Json* content = message.FindNonNull("content");
  if (content == nullptr || content->IsString()) return {};
  if (!content->IsArray()) {
    return Invalid(RequestPart::kMessages,
                   StrCat("messages[", index, "].content: found ", content->TypeName(),
                          ", expected a string or an array"));
  }
  std::size_t part_index = 0;
  for (const Json& part : content->AsArray()) {
    const Json* type = part.Find("type");
    const Json* text = part.Find("text");
    const bool is_text = type != nullptr && type->IsString() && type->AsString() == "text" &&
                         text != nullptr && text->IsString();
    if (!is_text) {
      return Unsupported(RequestPart::kMessages,
                         StrCat("messages[", index, "].content[", part_index,
                                "]: only text parts can be read by this model"));
    }
    ++part_index;
  }
  return {};
}

// Messages as the template gets them: arguments of calls as objects, no content that is an empty
// list.
RequestResult<Json::Array> PrepareMessages(const Json::Array& messages) {
  if (messages.empty()) return Invalid(RequestPart::kMessages, "messages: there are none");
  for (std::size_t i = 0; i < messages.size(); ++i) HONE_TRY(CheckContent(messages[i], i));
  auto decoded = DecodeToolArguments(Json(messages));
  if (!decoded.ok()) return MakeRequestError(std::move(decoded).status(), RequestPart::kMessages);
  for (Json& message : decoded->AsArray()) {
    const Json* content = message.Find("content");
    if (content != nullptr && content->IsArray() && content->AsArray().empty()) {
      message.Set("content", Json(""));
    }
  }
  return std::move(decoded->AsArray());
}

// One conversation, rendered with all of its messages or with fewer.
class Renderer {
 public:
  Renderer(const ChatModel& model, const ChatRequest& request, const PromptLimits& limits)
      : model_(model), request_(request), limits_(limits) {
    options_.add_generation_prompt = request.add_generation_prompt;
    options_.local_now = limits.local_now != 0 ? limits.local_now : LocalNow();
    // Also for a model whose channel nobody has declared: its template may know the switch.
    if (request.thinking.mode != ThinkingMode::kDefault) {
      options_.think =
          request.thinking.mode == ThinkingMode::kOn ? runtime::Think::kOn : runtime::Think::kOff;
    }
  }

  RequestStatus Prepare(bool is_bound) {
    HONE_ASSIGN(const Json::Array messages, PrepareMessages(request_.messages));
    HONE_TRY(CheckVariables(model_, request_.template_kwargs));
    if (limits_.allow_control_tokens) {
      chat_ = {messages, request_.tools_json, request_.template_kwargs, ""};
    } else {
      auto guarded =
          GuardControlTexts(model_, messages, request_.tools_json, request_.template_kwargs);
      if (!guarded.ok()) {
        return MakeRequestError(std::move(guarded).status(), RequestPart::kMessages);
      }
      chat_ = *std::move(guarded);
    }
    options_.variables = chat_.variables;
    if (!chat_.tools.empty()) options_.tools = Json(chat_.tools);
    is_bound_ = is_bound;
    FindTurns();
    return CheckTools();
  }

  // Without the oldest turns. The marks of control texts are still in it.
  RequestResult<std::string> Render(std::size_t dropped_turns) const {
    HONE_ASSIGN(std::string text, RenderWith(KeptMessages(dropped_turns), options_));
    return text + ChannelText(text);
  }
  RequestResult<Ids> Encode(const std::string& rendered) const {
    auto ids = EncodeMarked(model_.text(), rendered, chat_.mark);
    if (!ids.ok()) return MakeRequestError(std::move(ids).status(), RequestPart::kMessages);
    return *std::move(ids);
  }
  std::string Plain(const std::string& rendered) const { return RemoveMarks(rendered, chat_.mark); }

  std::size_t num_turns() const { return turns_.size(); }
  std::int64_t CountMessages(std::size_t turns) const {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < turns; ++i) count += static_cast<std::int64_t>(turns_[i].size());
    return count;
  }

 private:
  RequestResult<std::string> RenderWith(const Json::Array& messages,
                                        const runtime::RenderOptions& options) const {
    auto text = runtime::RenderChat(model_.text(), Json(messages), options);
    if (!text.ok()) return MakeRequestError(std::move(text).status(), RequestPart::kMessages);
    return *std::move(text);
  }

  // A turn is a message of the user with what follows; messages of the system belong to none.
  void FindTurns() {
    for (std::size_t i = 0; i < chat_.messages.size(); ++i) {
      const std::string role = RoleOf(chat_.messages[i]);
      if (role == "system" || role == "developer") continue;
      if (role == "user" || turns_.empty()) turns_.emplace_back();
      turns_.back().push_back(i);
    }
  }
  Json::Array KeptMessages(std::size_t dropped_turns) const {
    std::vector<bool> keep(chat_.messages.size(), true);
    for (std::size_t i = 0; i < dropped_turns; ++i) {
      for (const std::size_t message : turns_[i]) keep[message] = false;
    }
    Json::Array kept;
    for (std::size_t i = 0; i < keep.size(); ++i) {
      if (keep[i]) kept.push_back(chat_.messages[i]);
    }
    return kept;
  }

  RequestStatus CheckTools() const {
    if (chat_.tools.empty()) return {};
    HONE_ASSIGN(const std::string with, RenderWith(chat_.messages, options_));
    runtime::RenderOptions options = options_;
    options.tools = Json();
    const auto without = RenderWith(chat_.messages, options);
    if (without.ok() && *without == with) {
      return Unsupported(RequestPart::kTools,
                         "the model's chat template does not show tools to the model");
    }
    if (model_.family() == nullptr && request_.tool_choice != ToolChoice::kNone) {
      return Unsupported(RequestPart::kTools,
                         "how this model writes calls of tools is not known, so they could not be "
                         "read from its answers");
    }
    return {};
  }

  // What closes or opens the thinking where the template leaves that undone.
  std::string ChannelText(std::string_view rendered) const {
    if (!model_.has_thinking() || !request_.add_generation_prompt) return "";
    const runtime::TextSetup& text = model_.text();
    const bool opened = PromptOpensThinking(rendered, text.think_start);
    if (request_.thinking.mode == ThinkingMode::kOff) {
      if (opened) return StrCat("\n", text.think_end, "\n\n");
      const bool closed =
          WithoutSpaceBehind(rendered).ends_with(WithoutSpaceBehind(text.think_end));
      if (closed || model_.template_switches_thinking()) return "";
      return StrCat(text.think_start, "\n\n", text.think_end, "\n\n");
    }
    // A grammar lets the answer open the channel only with a single token.
    const bool must_open = request_.thinking.mode == ThinkingMode::kOn && is_bound_ && !opened &&
                           !model_.think_start_id();
    return must_open ? text.think_start : "";
  }

  const ChatModel& model_;
  const ChatRequest& request_;
  const PromptLimits& limits_;
  runtime::RenderOptions options_;
  GuardedChat chat_;
  bool is_bound_ = false;
  std::vector<std::vector<std::size_t>> turns_;  // indices of messages
};

// The prompt without its oldest turns, as few as possible.
class Trimmer {
 public:
  Trimmer(const Renderer& renderer, std::int64_t context, std::int64_t reserve)
      : renderer_(renderer), room_(context - std::max<std::int64_t>(reserve, 0)) {}

  RequestStatus Run() {
    HONE_TRY(Try(0));
    if (size() <= room_ || renderer_.num_turns() < 2) return {};
    // The size falls with the turns: the least number that fits is between these.
    std::size_t too_few = 0;
    std::size_t enough = renderer_.num_turns() - 1;
    while (enough - too_few > 1) {
      const std::size_t middle = too_few + (enough - too_few) / 2;
      HONE_TRY(Try(middle));
      (size() <= room_ ? enough : too_few) = middle;
    }
    if (turns_ != enough) HONE_TRY(Try(enough));
    return {};
  }

  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  std::size_t turns() const { return turns_; }
  Ids& ids() { return ids_; }
  const std::string& rendered() const { return rendered_; }
  RequestStatus Try(std::size_t turns) {
    turns_ = turns;
    HONE_ASSIGN(rendered_, renderer_.Render(turns));
    HONE_ASSIGN(ids_, renderer_.Encode(rendered_));
    return {};
  }

 private:
  const Renderer& renderer_;
  const std::int64_t room_;  // tokens
  std::size_t turns_ = 0;
  std::string rendered_;
  Ids ids_;
};

// part: what needs the tokenizer.
RequestStatus CheckModel(const ChatModel& model, RequestPart part) {
  if (!model.text().tokenizer) {
    return Unsupported(part, StrCat("no tokenizer: ", model.text().tokenizer_error));
  }
  return {};
}

RequestResult<AnswerPlan> MakePlan(const ChatModel& model, const ChatRequest& request,
                                   std::vector<std::string>& warnings) {
  auto tools = ToolSet::Parse(Json(request.tools_json));
  if (!tools.ok()) return MakeRequestError(std::move(tools).status(), RequestPart::kTools);
  AnswerPlan plan;
  plan.is_chat = true;
  plan.thinking_off = request.thinking.mode == ThinkingMode::kOff;
  plan.thinking_budget = request.thinking.budget_tokens;
  plan.prediction = request.prediction;
  plan.tools = *std::move(tools);
  HONE_ASSIGN(ReplyGrammar grammar, CompileReplyGrammar(model, request, plan.tools));
  if (grammar.matcher) warnings = grammar.matcher->Warnings();
  plan.matcher = std::move(grammar.matcher);
  plan.calls_are_bound = grammar.binds_calls;
  if (request.tool_choice != ToolChoice::kNone && !plan.tools.empty()) {
    plan.family = model.family();
  }
  return plan;
}

RequestStatus CheckRequest(const ChatModel& model, const ChatRequest& request) {
  HONE_TRY(CheckModel(model, RequestPart::kMessages));
  HONE_TRY(CheckThinking(model, request.thinking));
  const bool needs_call =
      request.tool_choice == ToolChoice::kRequired || request.tool_choice == ToolChoice::kNamed;
  if (needs_call && request.tools_json.empty()) {
    return Invalid(RequestPart::kToolChoice, "a call is required, but there are no tools");
  }
  return {};
}

RequestResult<Prompt> MakeChatPrompt(const ChatModel& model, const ChatRequest& request,
                                     const PromptLimits& limits) {
  Renderer renderer(model, request, limits);
  const bool may_be_bound = request.format.kind != FormatKind::kText || !request.tools_json.empty();
  HONE_TRY(renderer.Prepare(may_be_bound));
  Prompt prompt;
  HONE_ASSIGN(prompt.plan, MakePlan(model, request, prompt.warnings));

  const std::int64_t context = ContextOf(model, limits);
  Trimmer trimmer(renderer, context, limits.reserve);
  HONE_TRY(limits.on_full == OnFull::kTrim ? trimmer.Run() : trimmer.Try(0));
  if (trimmer.size() > context) {
    return TooLong(RequestPart::kMessages, trimmer.size(), context,
                   trimmer.turns() > 0 ? "the prompt without its older turns" : "the prompt");
  }
  prompt.dropped_messages = renderer.CountMessages(trimmer.turns());
  if (prompt.dropped_messages > 0) {
    prompt.warnings.push_back(StrCat("the context of ", context, " tokens is full: the oldest ",
                                     prompt.dropped_messages, " messages were left out"));
  }
  prompt.ids = std::move(trimmer.ids());
  prompt.text = renderer.Plain(trimmer.rendered());
  prompt.opens_thinking =
      model.has_thinking() && PromptOpensThinking(trimmer.rendered(), model.text().think_start);
  prompt.plan.starts_in_thinking = prompt.opens_thinking;
  return prompt;
}

RequestStatus CheckIds(const ChatModel& model, const Ids& ids, std::int64_t context) {
  if (ids.empty()) return Invalid(RequestPart::kPrompt, "the prompt is empty");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= model.vocab()) {
      return Invalid(RequestPart::kPrompt, StrCat("token ", i, ": found id ", ids[i],
                                                  ", expected 0 to ", model.vocab() - 1));
    }
  }
  const auto n_prompt = static_cast<std::int64_t>(ids.size());
  if (n_prompt > context) return TooLong(RequestPart::kPrompt, n_prompt, context, "the prompt");
  return {};
}

}  // namespace

RequestResult<Prompt> MakePrompt(const ChatModel& model, const ChatRequest& request,
                                 const PromptLimits& limits) {
  HONE_TRY(CheckRequest(model, request));
  return MakeChatPrompt(model, request, limits);
}

RequestResult<std::string> RenderPrompt(const ChatModel& model, const ChatRequest& request,
                                        const PromptLimits& limits) {
  HONE_TRY(CheckRequest(model, request));
  Renderer renderer(model, request, limits);
  HONE_TRY(
      renderer.Prepare(request.format.kind != FormatKind::kText || !request.tools_json.empty()));
  HONE_ASSIGN(const std::string rendered, renderer.Render(0));
  return renderer.Plain(rendered);
}

RequestResult<Prompt> MakeTextPrompt(const ChatModel& model, std::string_view text,
                                     const PromptLimits& limits) {
  HONE_TRY(CheckModel(model, RequestPart::kPrompt));
  auto encoded = model.text().tokenizer->Encode(text, {.add_special_tokens = true});
  if (!encoded.ok()) return MakeRequestError(std::move(encoded).status(), RequestPart::kPrompt);
  Ids& ids = *encoded;
  const auto start = model.text().start_id;
  if (start && (ids.empty() || ids[0] != *start)) ids.insert(ids.begin(), *start);
  // The text may spell the token that the tokenizer adds.
  const std::string& bos = model.text().bos_text;
  const bool spelled = !bos.empty() && text.starts_with(bos);
  if (spelled && ids.size() > 1 && ids[0] == ids[1]) ids.erase(ids.begin());
  HONE_ASSIGN(Prompt prompt, MakeIdsPrompt(model, std::move(ids), limits));
  prompt.text = text;
  return prompt;
}

RequestResult<Prompt> MakeIdsPrompt(const ChatModel& model, std::vector<std::int32_t> ids,
                                    const PromptLimits& limits) {
  HONE_TRY(CheckIds(model, ids, ContextOf(model, limits)));
  Prompt prompt;
  prompt.ids = std::move(ids);
  if (model.text().tokenizer) {
    auto text = model.text().tokenizer->Decode(prompt.ids, /*skip_special=*/false);
    if (text.ok()) prompt.text = *std::move(text);
  }
  return prompt;
}

}  // namespace hone::chat
