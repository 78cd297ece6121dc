// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The chat template on a fixed matrix of conversations, rendered as Transformers renders them, and
// what LiteRT-LM's engine makes of it.
#include <optional>
#include <utility>

#include "bundle/check_groups.h"
#include "exporter/template_check.h"

namespace hone::bundle {
namespace {

constexpr std::string_view kSystem = "honeprobesystem";
constexpr std::string_view kUser = "honeprobeuser";
constexpr std::string_view kSecondUser = "honeprobesecond";
constexpr std::string_view kAnswer = "honeprobeanswer";
constexpr std::string_view kThought = "honeprobethought";
constexpr std::string_view kTool = "honeprobetool";
constexpr std::string_view kResult = "honeproberesult";
constexpr std::int64_t kDay = 86400;

Json Message(std::string_view role, Json content) {
  return Json(Json::Object{{"role", role}, {"content", std::move(content)}});
}

Json Tools() {
  Json city(Json::Object{{"type", "string"}, {"description", "A city."}});
  Json properties(Json::Object{{"city", std::move(city)}});
  Json parameters(Json::Object{{"type", "object"},
                               {"properties", std::move(properties)},
                               {"required", Json(Json::Array{Json("city")})}});
  Json function(Json::Object{{"name", kTool},
                             {"description", "A probe with <signs> & \"quotes\"."},
                             {"parameters", std::move(parameters)}});
  return Json(
      Json::Array{Json(Json::Object{{"type", "function"}, {"function", std::move(function)}})});
}

// An answer that calls the tool, with the given content (null, "" or absent).
Json Call(std::optional<Json> content) {
  Json arguments(Json::Object{{"city", "Oslo"}});
  Json function(Json::Object{{"name", kTool}, {"arguments", std::move(arguments)}});
  Json call(Json::Object{{"id", "call1"}, {"type", "function"}, {"function", std::move(function)}});
  Json message(Json::Object{{"role", "assistant"}});
  if (content) message.Set("content", *std::move(content));
  message.Set("tool_calls", Json(Json::Array{std::move(call)}));
  return message;
}

Json ToolResult() {
  return Json(Json::Object{
      {"role", "tool"}, {"name", kTool}, {"tool_call_id", "call1"}, {"content", kResult}});
}

struct RenderOptions {
  bool tools = false;
  bool generation_prompt = true;
  std::optional<bool> thinking = std::nullopt;
  std::int64_t now = 0;
};

class Matrix {
 public:
  Matrix(const Subject& subject, Findings& out) : subject_(subject), out_(out) {}

  void Run() {
    CheckPlain();
    if (!plain_.ok()) return;
    CheckLiteRtLm();
    CheckSystem();
    CheckTools();
    CheckThinking();
    CheckHistory();
  }

 private:
  Result<std::string> Render(Json::Array messages, const RenderOptions& options) const {
    Json context(Json::Object{{"messages", Json(std::move(messages))}});
    context.Set("tools", options.tools ? Tools() : Json());
    context.Set("documents", Json());
    context.Set("add_generation_prompt", options.generation_prompt);
    context.Set("bos_token", subject_.text.bos_token);
    context.Set("eos_token", subject_.text.eos_token);
    context.Set("pad_token", subject_.text.pad_token);
    context.Set("unk_token", subject_.text.unk_token);
    if (options.thinking) context.Set("enable_thinking", *options.thinking);
    return subject_.chat_template->Render(context.Dump(), options.now);
  }

  static bool Has(const Result<std::string>& text, std::string_view word) {
    return text.ok() && text->find(word) != std::string::npos;
  }

  static Json::Array Turns() {
    return {Message("user", kUser), Message("assistant", kAnswer), Message("user", kSecondUser)};
  }

  void CheckPlain() {
    plain_ = Render({Message("user", kUser)}, {});
    if (!plain_.ok()) {
      out_.Add("template-fails", StrCat("one user message: ", plain_.message()));
      return;
    }
    const auto turns = Render(Turns(), {});
    if (!turns.ok()) {
      out_.Add("template-fails", StrCat("user, assistant, user: ", turns.message()));
    } else if (!Has(turns, kUser) || !Has(turns, kAnswer) || !Has(turns, kSecondUser)) {
      out_.Add("template-drops",
               StrCat("user, assistant, user: the prompt lacks the text of ",
                      !Has(turns, kAnswer) ? "the assistant's message" : "a user's message"));
    }
    const auto without = Render({Message("user", kUser)}, {.generation_prompt = false});
    if (without.ok() && *without == *plain_) {
      out_.Add("generation-prompt-missing",
               "add_generation_prompt true and false render the same text");
    }
    const auto later = Render({Message("user", kUser)}, {.now = 400 * kDay});
    if (later.ok() && *later != *plain_) {
      out_.Add("template-date", "the prompt of the same conversation changes with the date");
    }
  }

  void CheckLiteRtLm() {
    const std::vector<std::string> problems = exporter::FindTemplateProblems(
        subject_.text.chat_template, *subject_.chat_template, subject_.text);
    for (const std::string& problem : problems) {
      out_.Add("template-litert-lm",
               StrCat("this template will fail in LiteRT-LM 0.18, because ", problem));
    }
  }

  void CheckSystem() {
    const auto text = Render({Message("system", kSystem), Message("user", kUser)}, {});
    if (!text.ok()) {
      out_.Add("system-refused", StrCat("system, user: ", text.message()));
    } else if (!Has(text, kSystem)) {
      out_.Add("system-dropped", "system, user: the prompt lacks the system message");
    }
  }

  void CheckTools() {
    const auto text = Render({Message("user", kUser)}, {.tools = true});
    const bool claimed = subject_.llm->supports_function_calling.value_or(false);
    if (!text.ok()) {
      out_.Add("tools-fail", StrCat("a user message with tools: ", text.message()));
      return;
    }
    if (!Has(text, kTool)) {
      out_.Add(claimed ? "tools-claimed" : "tools-dropped",
               StrCat("the prompt is the same with and without tools",
                      claimed ? ", and supports_function_calling is true" : ""));
      return;
    }
    const auto result =
        Render({Message("user", kUser), Call(Json("")), ToolResult()}, {.tools = true});
    if (!result.ok()) {
      out_.Add("tool-results", StrCat("user, tool call, tool result: ", result.message()));
      return;
    }
    if (!Has(result, kResult)) {
      out_.Add("tool-results", "user, tool call, tool result: the prompt lacks the tool's result");
    }
    const auto null = Render({Message("user", kUser), Call(Json()), ToolResult()}, {.tools = true});
    const auto absent =
        Render({Message("user", kUser), Call(std::nullopt), ToolResult()}, {.tools = true});
    if (!null.ok() && !absent.ok()) {
      out_.Add("null-content", StrCat("a tool call with content null: ", null.message()));
    } else if (null.ok() && null->find("None") != std::string::npos &&
               result->find("None") == std::string::npos) {
      out_.Add("null-content", "a tool call with content null is written as \"None\"");
    }
  }

  void CheckThinking() {
    const auto on = Render({Message("user", kUser)}, {.thinking = true});
    const auto off = Render({Message("user", kUser)}, {.thinking = false});
    const bool claimed = subject_.llm->supports_thinking.value_or(false);
    if (!on.ok() || !off.ok()) {
      const std::string_view why = on.ok() ? off.message() : on.message();
      out_.Add("thinking-fails", StrCat("enable_thinking ", !on.ok(), ": ", why));
      return;
    }
    if (*on == *off) {
      const bool mentions =
          subject_.text.chat_template.find("enable_thinking") != std::string::npos;
      if (claimed || mentions) {
        out_.Add("thinking-ignored", "enable_thinking true and false give the same prompt");
      }
      return;
    }
    const char* same = *plain_ == *on    ? "enable_thinking absent is as true"
                       : *plain_ == *off ? "enable_thinking absent is as false"
                                         : "enable_thinking absent is neither as true nor as false";
    out_.Add("thinking-default", same);
  }

  // LiteRT-LM renders the whole history at each turn and feeds what is new: the new text must begin
  // with the old one.
  void CheckHistory() {
    const bool thinks = subject_.text.chat_template.find("</think>") != std::string::npos;
    const std::string answer =
        thinks ? StrCat("<think>\n", kThought, "\n</think>\n\n", kAnswer) : std::string(kAnswer);
    const Json::Array before = {Message("user", kUser), Message("assistant", answer)};
    Json::Array after = before;
    after.push_back(Message("user", kSecondUser));
    const auto first = Render(before, {.generation_prompt = false});
    const auto second = Render(after, {});
    if (!first.ok() || !second.ok() || second->starts_with(*first)) return;
    out_.Add("history-rewritten",
             StrCat("the prompt of the second turn does not begin with the first turn",
                    thinks && !Has(second, kThought) ? ": earlier thoughts are taken out" : ""));
  }

  const Subject& subject_;
  Findings& out_;
  Result<std::string> plain_ = std::string();
};

}  // namespace

void CheckTemplate(const Subject& subject, Findings& out) {
  if (!subject.template_error.empty()) return out.Add("template-syntax", subject.template_error);
  if (!subject.llm || !subject.chat_template) return;
  Matrix(subject, out).Run();
}

}  // namespace hone::bundle
