// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_grammar.h"

#include <utility>

#include "base/text.h"
#include "chat/grammar_text.h"

namespace hone::chat {
namespace {

constexpr std::string_view kAnyText = "/(?s:.*)/";

class Builder {
 public:
  Builder(const ToolFamily& family, const ToolGrammarOptions& options)
      : family_(family), options_(options) {}

  std::string Build(const std::vector<const Tool*>& tools) {
    std::string answer;
    if (tools.empty()) {
      answer = FreeText();
    } else {
      AddCalls(tools);
      const bool must = options_.choice != ToolChoice::kAuto;
      answer = must           ? "(SPACE? calls)"
               : family_.bare ? "(first_calls | PLAIN)"
                              : "(told_calls? FREE)";
      if (must) AddSpace();
      if (!must) AddAuto();
    }
    return StrCat("start: ", Thinking(), answer, "\n", rules_.text());
  }

 private:
  std::optional<std::int32_t> SpecialId(std::string_view marker) const {
    return options_.special_id ? options_.special_id(marker) : std::nullopt;
  }

  // A marker with the text behind it: one string, or a special token and a string.
  std::string Marked(std::string_view marker, std::string_view text) const {
    const auto id = SpecialId(marker);
    if (!id) return LarkString(StrCat(marker, text));
    return StrCat("<[", *id, "]>", text.empty() ? "" : StrCat(" ", LarkString(text)));
  }
  std::string Open() const { return Marked(family_.open, BehindOpen()); }
  // The closing marker with a space in front, or "".
  std::string Close() const { return family_.close.empty() ? "" : " " + Marked(family_.close, ""); }
  // The text that every call has behind the marker.
  std::string_view BehindOpen() const {
    return family_.shape == CallShape::kParamXml ? " name=\"" : "";
  }

  // "think " or "": the thinking in front of the answer.
  std::string Thinking() {
    if (options_.think_end.empty()) return "";
    if (SpecialId(options_.think_end)) {
      rules_.Add("thinking", StrCat(kAnyText, " ", Marked(options_.think_end, "")));
    } else {
      rules_.Add("thinking[lazy]", StrCat("/(?s:.*)", LarkRegex(options_.think_end), "/"));
    }
    if (options_.starts_in_thinking) return "thinking ";
    return StrCat("(", Marked(options_.think_start, ""), " thinking)? ");
  }

  // Text in which no call begins.
  std::string FreeText() {
    if (SpecialId(family_.open)) return rules_.Add("FREE", kAnyText);
    const std::string_view after = family_.shape == CallShape::kParamXml ? "[ \\t\\r\\n]" : "";
    return rules_.Add("FREE",
                      StrCat(kAnyText, " & ~/(?s:.*)", LarkRegex(family_.open), after, "(?s:.*)/"));
  }

  void AddSpace() { rules_.Add("SPACE", "/[ \\t\\r\\n]{1,16}/"); }

  void AddAuto() {
    if (family_.bare) {
      // White space may be in front, as after thinking. It is one lexeme with a marker that is
      // text: the lexer does not go back to the white space once plain text could go on.
      AddSpace();
      std::string first = "SPACE? calls";
      if (!SpecialId(family_.open)) {
        rules_.Add("OPEN", StrCat("/[ \\t\\r\\n]*", LarkRegex(family_.open), "/"));
        first = StrCat("SPACE? list | OPEN list", Close());
      }
      rules_.Add("first_calls", first);
      // An answer that begins like a bare call must be one.
      const std::string_view bracket = family_.shape == CallShape::kPython ? "\\[" : "{";
      std::string plain = StrCat("/[ \\t\\r\\n]*([^", bracket, " \\t\\r\\n](?s:.*))?/");
      // The lexer would read an opened thinking as plain text, and no call could follow it.
      if (!options_.think_start.empty() && !options_.starts_in_thinking &&
          !SpecialId(options_.think_start)) {
        plain += StrCat(" & ~/", LarkRegex(options_.think_start), "(?s:.*)/");
      }
      rules_.Add("PLAIN", SpecialId(family_.open) ? plain : StrCat(plain, " & ", FreeText()));
      return;
    }
    FreeText();
    // Free text runs up to the marker; then a call must come.
    if (SpecialId(family_.open)) {
      rules_.Add("told", StrCat(kAnyText, " ", Open()));
    } else {
      rules_.Add("told[lazy]",
                 StrCat("/(?s:.*)", LarkRegex(StrCat(family_.open, BehindOpen())), "/"));
    }
    const bool more = options_.parallel && !family_.list;
    rules_.Add("told_calls", more ? "(told call)+" : "told call");
  }

  // calls: all of them, with the first marker. call: what comes behind a marker.
  void AddCalls(const std::vector<const Tool*>& tools) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < tools.size(); ++i) names.push_back(AddTool(*tools[i], i));
    rules_.Add("one", Join(names, " | "));
    const std::string close = Close();
    const bool more = options_.parallel && !family_.list;
    std::string call = "one";
    if (family_.list) {
      call = StrCat("\"[\" one", options_.parallel ? " (\", \" one)*" : "", " \"]\"");
    } else if (family_.shape == CallShape::kJson && !family_.close.empty()) {
      call = "\"\\n\"? one \"\\n\"?";
    }
    if (family_.bare) {
      // Without a marker there is no closing one either.
      const std::string list = rules_.Add("list", call + (more ? " (\"; \" one)*" : ""));
      rules_.Add("calls", StrCat(list, " | ", Open(), " ", list, close));
      return;
    }
    // XML: the tools' rules end in the closing marker already.
    rules_.Add("call",
               family_.shape == CallShape::kFunctionXml || family_.shape == CallShape::kParamXml
                   ? call
                   : call + close);
    const std::string one = StrCat(Open(), " call");
    rules_.Add("calls", more ? StrCat(one, " (\"\\n\"? ", one, ")*") : one);
  }

  std::string AddTool(const Tool& tool, std::size_t index) {
    const std::string rule = StrCat("t", index);
    const auto arguments = ArgumentsOf(tool);
    const Json& root = tool.parameters;
    const std::string json = LarkJson(tool.parameters, tool.parameters);
    switch (family_.shape) {
      case CallShape::kNamedJson:
        if (!family_.list) {
          const std::string name = SpecialId("[ARGS]")
                                       ? StrCat(LarkString(tool.name), " ", Marked("[ARGS]", ""))
                                       : LarkString(tool.name + "[ARGS]");
          return rules_.Add(rule, StrCat(name, " ", ArgumentsJson(tool, json)));
        }
        [[fallthrough]];
      case CallShape::kJson: {
        const std::string head =
            StrCat("{\"name\": ", Json(tool.name).Dump(), ", \"", family_.arguments_key, "\": ");
        return rules_.Add(rule, StrCat(LarkString(head), " ", ArgumentsJson(tool, json), " \"}\""));
      }
      case CallShape::kParamXml: {
        const auto one = [&](std::size_t i) {
          return StrCat(Marked("<param", StrCat(" name=\"", arguments[i].name, "\">")), " ",
                        XmlValue(arguments[i], root, rules_), " ", Marked("</param>", ""));
        };
        rules_.Add(rule + "_args", ArgumentList(arguments, rule, "", one, rules_));
        return rules_.Add(rule, StrCat(LarkString(tool.name + "\">"), " ", rule, "_args ",
                                       Marked(family_.close, "")));
      }
      case CallShape::kFunctionXml: {
        const auto one = [&](std::size_t i) {
          return StrCat(LarkString(StrCat("<parameter=", arguments[i].name, ">\n")), " ",
                        FunctionXmlValue(arguments[i], root, rules_));
        };
        rules_.Add(rule + "_args", ArgumentList(arguments, rule, "", one, rules_));
        return rules_.Add(rule,
                          StrCat(LarkString(StrCat("\n<function=", tool.name, ">\n")), " ", rule,
                                 "_args \"</function>\\n\" ", Marked(family_.close, "")));
      }
      default: {
        const auto one = [&](std::size_t i) {
          return StrCat(LarkString(arguments[i].name + "="), " ",
                        PythonValue(arguments[i], root, rules_));
        };
        rules_.Add(rule + "_args", ArgumentList(arguments, rule, "\", \"", one, rules_));
        return rules_.Add(rule, StrCat(LarkString(tool.name + "("), " ", rule, "_args \")\""));
      }
    }
  }

  // A tool without parameters still has an object of arguments.
  static std::string ArgumentsJson(const Tool& tool, const std::string& json) {
    if (tool.parameters.AsObject().empty()) {
      const Json any(Json::Object{{"type", "object"}});
      return LarkJson(any, any);
    }
    return json;
  }

  const ToolFamily& family_;
  const ToolGrammarOptions& options_;
  LarkRules rules_;
};

}  // namespace

Result<std::string> BuildToolGrammar(const ToolFamily& family, const ToolSet& tools,
                                     const ToolGrammarOptions& options) {
  std::vector<const Tool*> chosen;
  for (const Tool& tool : tools.tools()) {
    const bool named = options.choice != ToolChoice::kNamed || tool.name == options.name;
    if (named && options.choice != ToolChoice::kNone) chosen.push_back(&tool);
  }
  if (options.choice == ToolChoice::kNamed && chosen.empty()) {
    return Status(Code::kInvalidArgument,
                  StrCat("tool_choice: no tool is named ", Json(options.name).Dump()));
  }
  if (options.choice == ToolChoice::kRequired && chosen.empty()) {
    return Status(Code::kInvalidArgument,
                  "tool_choice: a call is required, but there are no tools");
  }
  return Builder(family, options).Build(chosen);
}

}  // namespace hone::chat
