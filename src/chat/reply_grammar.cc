// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/reply_grammar.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "chat/grammar_text.h"

namespace hone::chat {
namespace {

using bridge::Grammar;
using bridge::GrammarKind;

constexpr std::string_view kStart = "start: ";

bool HasSchema(const AnswerFormat& format) {
  return format.kind == FormatKind::kJsonSchema ||
         (format.kind == FormatKind::kJsonObject && format.schema.IsObject());
}

Grammar FormatGrammar(const AnswerFormat& format) {
  if (HasSchema(format)) return {GrammarKind::kJsonSchema, format.schema.Dump()};
  if (format.kind == FormatKind::kRegex) return {GrammarKind::kRegex, format.text};
  if (format.kind == FormatKind::kLark) return {GrammarKind::kLark, format.text};
  return {GrammarKind::kJsonObject, ""};
}

// A pattern between slashes, as Lark wants it.
std::string SlashedPattern(std::string_view pattern) {
  if (pattern.empty()) return "/(?:)/";  // two slashes begin a comment
  std::string out = "/";
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      out.append({c, pattern[++i]});
    } else if (c == '/') {
      out += "\\/";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out + "/";
}

// The rule of a text of the format, with its name in front.
std::string FormatRule(const AnswerFormat& format) {
  if (HasSchema(format)) return "format: " + LarkJson(format.schema, format.schema);
  if (format.kind == FormatKind::kRegex) {
    return StrCat("format: FORMAT\nFORMAT: ", SlashedPattern(format.text));
  }
  if (format.kind == FormatKind::kLark) return StrCat("format: %lark {\n", format.text, "\n}");
  return "format: %json {\"type\":\"object\"}";
}

bool IsStrict(const Json& tool) {
  const Json* function = tool.FindNonNull("function");
  const Json* strict = (function == nullptr ? tool : *function).FindNonNull("strict");
  return strict != nullptr && strict->IsBool() && strict->AsBool();
}

RequestStatus CheckFormat(const AnswerFormat& format) {
  if (format.kind == FormatKind::kText) return {};
  if (format.kind == FormatKind::kJsonSchema && !format.schema.IsObject()) {
    return MakeRequestError(
        Status(Code::kInvalidArgument,
               StrCat("the schema: found ", format.schema.TypeName(), ", expected an object")),
        RequestPart::kResponseFormat);
  }
  if (const Status status = bridge::CheckGrammar(FormatGrammar(format)); !status.ok()) {
    return MakeRequestError(status, RequestPart::kResponseFormat);
  }
  return {};
}

class Planner {
 public:
  Planner(const ChatModel& model, const ChatRequest& request, const ToolSet& tools)
      : model_(model), request_(request), tools_(tools) {}

  RequestResult<ReplyGrammar> Compile() {
    HONE_TRY(CheckFormat(request_.format));
    const bool has_format = request_.format.kind != FormatKind::kText;
    const ToolChoice choice = tools_.empty() && request_.tool_choice == ToolChoice::kAuto
                                  ? ToolChoice::kNone
                                  : request_.tool_choice;
    switch (choice) {
      case ToolChoice::kNone:
        if (has_format) return Use(FormatGrammar(request_.format), RequestPart::kResponseFormat);
        // Without tools in the prompt there is nothing to hold the model back from.
        if (tools_.empty() || model_.family() == nullptr) return ReplyGrammar{};
        return UseTools(ToolChoice::kNone);
      case ToolChoice::kAuto:
        if (has_format) return UseBoth();
        if (!request_.parallel_tool_calls || AnyStrict()) return UseTools(ToolChoice::kAuto);
        return ReplyGrammar{};
      default:
        return UseTools(choice);
    }
  }

 private:
  bool AnyStrict() const {
    return std::any_of(request_.tools_json.begin(), request_.tools_json.end(), IsStrict);
  }

  RequestResult<std::string> ToolText(ToolChoice choice) const {
    ToolGrammarOptions options;
    options.choice = choice;
    options.name = request_.tool_name;
    options.parallel = request_.parallel_tool_calls;
    options.special_id = [this](std::string_view marker) { return model_.SpecialId(marker); };
    auto text = BuildToolGrammar(*model_.family(), tools_, options);
    if (!text.ok()) {
      return MakeRequestError(std::move(text).status(), RequestPart::kToolChoice);
    }
    return *std::move(text);
  }

  RequestResult<ReplyGrammar> UseTools(ToolChoice choice) {
    if (tools_.empty()) {
      return MakeRequestError(
          Status(Code::kInvalidArgument, "tool_choice: a call is required, but there are no tools"),
          RequestPart::kToolChoice);
    }
    HONE_ASSIGN(const std::string text, ToolText(choice));
    HONE_ASSIGN(ReplyGrammar grammar, Use({GrammarKind::kLark, text}, RequestPart::kTools));
    grammar.binds_calls = choice != ToolChoice::kNone;
    return grammar;
  }

  // start: format | calls
  RequestResult<ReplyGrammar> UseBoth() {
    // The matcher reads the longest piece: "{" of a format and "{\"name\"" of a call without a
    // marker cannot both be open.
    if (model_.family()->bare) {
      return MakeRequestError(
          Status(Code::kUnsupported,
                 "this model writes calls of tools without a marker, so a format and tools cannot "
                 "be told apart; use tool_choice none or required, or leave one of them out"),
          RequestPart::kResponseFormat);
    }
    HONE_ASSIGN(std::string text, ToolText(ToolChoice::kRequired));
    text.insert(kStart.size(), "format | ");
    text += FormatRule(request_.format) + "\n";
    HONE_ASSIGN(ReplyGrammar grammar, Use({GrammarKind::kLark, text}, RequestPart::kTools));
    grammar.binds_calls = true;
    return grammar;
  }

  RequestResult<ReplyGrammar> Use(const Grammar& grammar, RequestPart part) {
    auto vocabulary = model_.vocabulary();
    if (!vocabulary.ok()) return MakeRequestError(std::move(vocabulary).status(), part);
    auto matcher = bridge::TokenMatcher::Compile(*vocabulary, grammar);
    if (!matcher.ok()) return MakeRequestError(std::move(matcher).status(), part);
    ReplyGrammar out;
    out.matcher = std::make_shared<const bridge::TokenMatcher>(*std::move(matcher));
    return out;
  }

  const ChatModel& model_;
  const ChatRequest& request_;
  const ToolSet& tools_;
};

}  // namespace

RequestResult<ReplyGrammar> CompileReplyGrammar(const ChatModel& model, const ChatRequest& request,
                                                const ToolSet& tools) {
  return Planner(model, request, tools).Compile();
}

}  // namespace hone::chat
