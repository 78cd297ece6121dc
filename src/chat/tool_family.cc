// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/tool_family.h"

#include <algorithm>
#include <array>
#include <string>

namespace hone::chat {
namespace {

constexpr ToolFamily kFamilies[] = {
    // name, shape, open, close, bare, list, arguments_key
    {"hermes", CallShape::kJson, "<tool_call>", "</tool_call>", false, false, "arguments"},
    {"qwen3_coder", CallShape::kFunctionXml, "<tool_call>", "</tool_call>", false, false, ""},
    {"seed_oss", CallShape::kFunctionXml, "<seed:tool_call>", "</seed:tool_call>", false, false,
     ""},
    {"minicpm5", CallShape::kParamXml, "<function", "</function>", false, false, ""},
    {"llama3_json", CallShape::kJson, "<|python_tag|>", "", true, false, "parameters"},
    {"pythonic", CallShape::kPython, "<|python_start|>", "<|python_end|>", true, true, ""},
    {"lfm2", CallShape::kPython, "<|tool_call_start|>", "<|tool_call_end|>", false, true, ""},
    {"mistral", CallShape::kNamedJson, "[TOOL_CALLS]", "", false, true, "arguments"},
    {"mistral_args", CallShape::kNamedJson, "[TOOL_CALLS]", "", false, false, "arguments"},
    {"granite", CallShape::kJson, "<|tool_call|>", "", false, true, "arguments"},
    {"phi4", CallShape::kJson, "<|tool_call|>", "<|/tool_call|>", false, true, "arguments"},
    {"nemotron", CallShape::kJson, "<TOOLCALL>", "</TOOLCALL>", false, true, "arguments"},
};

// A template belongs to the first rule of which it has all of "has" and none of "lacks".
struct Rule {
  std::string_view family;
  std::array<std::string_view, 3> has;
  std::array<std::string_view, 2> lacks = {};
};

// From the most particular to the least: a template of Qwen3-Coder holds the marker of Hermes too.
constexpr Rule kRules[] = {
    {"minicpm5", {"<function name=", "<param name="}},
    {"seed_oss", {"<function=", "<parameter=", "<seed:tool_call>"}},
    {"qwen3_coder", {"<function=", "<parameter=", "<tool_call>"}},
    {"lfm2", {"<|tool_call_start|>"}},
    {"lfm2", {"<|tool_list_start|>"}},
    {"nemotron", {"<TOOLCALL>"}},
    {"phi4", {"<|tool_call|>", "<|/tool_call|>"}},
    {"granite", {"<|tool_call|>"}},
    {"mistral_args", {"[TOOL_CALLS]", "[ARGS]"}},
    {"mistral", {"[TOOL_CALLS]"}},
    // GLM writes <arg_key>, MiniMax <invoke name=...>, in the same tags.
    {"hermes", {"<tool_call>", "</tool_call>", "arguments"}, {"<arg_key>", "<invoke"}},
    {"pythonic", {"<|python_start|>", "<|python_end|>"}, {"\"parameters\""}},
    // The words of the instructions for Llama 3.2 and 4.
    {"pythonic", {"func_name1(", "params_name1="}},
    {"pythonic", {"func1(params_name1="}},
    // Functionary 3.1 has Llama's tokens, and calls of its own.
    {"llama3_json", {"<|python_tag|>", "parameters"}, {"<function="}},
    {"llama3_json", {"\"parameters\": dictionary of argument name"}, {"<function="}},
};

// Only what the template does counts, not what its authors write beside it.
std::string WithoutComments(std::string_view source) {
  std::string out;
  while (!source.empty()) {
    const std::size_t begin = source.find("{#");
    out += source.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const std::size_t end = source.find("#}", begin + 2);
    if (end == std::string_view::npos) break;
    source.remove_prefix(end + 2);
  }
  return out;
}

}  // namespace

std::span<const ToolFamily> ToolFamilies() { return kFamilies; }

const ToolFamily* FindToolFamily(std::string_view name) {
  for (const ToolFamily& family : kFamilies) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

const ToolFamily* DetectToolFamily(std::string_view template_source) {
  const std::string source = WithoutComments(template_source);
  for (const Rule& rule : kRules) {
    const bool has = std::all_of(rule.has.begin(), rule.has.end(), [&](std::string_view mark) {
      return source.find(mark) != std::string::npos;
    });
    const bool lacks =
        std::all_of(rule.lacks.begin(), rule.lacks.end(), [&](std::string_view mark) {
          return mark.empty() || source.find(mark) == std::string::npos;
        });
    if (has && lacks) return FindToolFamily(rule.family);
  }
  return nullptr;
}

}  // namespace hone::chat
