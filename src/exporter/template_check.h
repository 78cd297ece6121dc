// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What LiteRT-LM 0.18 (minijinja 2.14 without Python's methods) cannot do with a chat template, and
// a wrapped template that it can run. See docs/formats/graph.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bridge/chat_template.h"
#include "formats/hf_config/text_facts.h"

namespace hone::exporter {

// One sentence for each feature that LiteRT-LM cannot run, with the first line that uses it. Empty:
// nothing was found. Methods, statements and arguments are found in the source; that a message's
// content may be a list of parts is found by rendering.
std::vector<std::string> FindTemplateProblems(std::string_view source,
                                              const bridge::ChatTemplate& compiled,
                                              const formats::TextFacts& text);

struct WrappedTemplate {
  std::string source;
  std::vector<std::string> problems;  // what is left of them, lines as in the original
};

// The template behind a few lines that turn content given as text parts into a string, and without
// tojson's ensure_ascii=False, which is LiteRT-LM's only behaviour. It renders what the original
// renders: this is checked on probe conversations, and a difference is kUnsupported.
Result<WrappedTemplate> WrapTemplate(std::string_view source, const bridge::ChatTemplate& compiled,
                                     const formats::TextFacts& text);

}  // namespace hone::exporter
