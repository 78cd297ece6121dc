// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Finds out what a chat template does by rendering small conversations with it.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "bridge/chat_template.h"
#include "formats/hf_config/text_facts.h"

namespace hone::exporter {

struct ProbeOptions {
  bool content_as_parts = false;  // [{"type": "text", "text": ...}], as LiteRT-LM passes it
  bool empty_bos = false;         // as LiteRT-LM passes it
  bool with_tools = false;
};

// The words of the probe conversations; none is part of another.
inline constexpr std::string_view kProbeSystem = "honeprobesystem";
inline constexpr std::string_view kProbeUser = "honeprobeuser";
inline constexpr std::string_view kProbeAnswer = "honeprobeanswer";
inline constexpr std::string_view kProbeTool = "honeprobetool";

// Renders system, user, assistant and user messages with the generation prompt; a template that
// refuses the system message, or more than one turn, gets less. The error is that of the shortest.
Result<std::string> RenderProbe(const bridge::ChatTemplate& chat_template,
                                const formats::TextFacts& text, const ProbeOptions& options);

}  // namespace hone::exporter
