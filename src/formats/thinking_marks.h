// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The marks around a model's thinking, as its chat template writes them.
#pragma once

#include <string_view>

namespace hone::formats {

struct ThinkingMarks {
  std::string_view start, end;  // "": the template knows none
};

// The first of these pairs whose start is in the template: those of Qwen3, SmolLM3 and MiniCPM,
// then those of Mistral's and of ByteDance's models.
inline ThinkingMarks FindThinkingMarks(std::string_view template_source) {
  static constexpr ThinkingMarks kKnown[] = {
      {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}};
  for (const ThinkingMarks& marks : kKnown) {
    if (template_source.find(marks.start) != std::string_view::npos) return marks;
  }
  return {};
}

}  // namespace hone::formats
