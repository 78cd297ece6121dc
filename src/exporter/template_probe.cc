// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/template_probe.h"

#include <span>
#include <utility>

namespace hone::exporter {
namespace {

struct Turn {
  std::string_view role, content;
};

Json Message(const Turn& turn, bool as_parts) {
  Json content(turn.content);
  if (as_parts) {
    content = Json(Json::Array{Json(Json::Object{{"type", "text"}, {"text", turn.content}})});
  }
  return Json(Json::Object{{"role", turn.role}, {"content", std::move(content)}});
}

Json ProbeTools() {
  Json parameters(Json::Object{{"type", "object"}, {"properties", Json(Json::Object{})}});
  Json function(Json::Object{
      {"name", kProbeTool}, {"description", "A probe."}, {"parameters", std::move(parameters)}});
  return Json(
      Json::Array{Json(Json::Object{{"type", "function"}, {"function", std::move(function)}})});
}

Json Context(std::span<const Turn> turns, const formats::TextFacts& text,
             const ProbeOptions& options) {
  Json::Array messages;
  for (const Turn& turn : turns) messages.push_back(Message(turn, options.content_as_parts));
  Json context(Json::Object{{"messages", Json(std::move(messages))}});
  context.Set("tools", options.with_tools ? ProbeTools() : Json());
  context.Set("documents", Json());
  context.Set("add_generation_prompt", true);
  context.Set("bos_token", options.empty_bos ? std::string() : text.bos_token);
  context.Set("eos_token", text.eos_token);
  context.Set("pad_token", text.pad_token);
  context.Set("unk_token", text.unk_token);
  return context;
}

}  // namespace

Result<std::string> RenderProbe(const bridge::ChatTemplate& chat_template,
                                const formats::TextFacts& text, const ProbeOptions& options) {
  static constexpr Turn kTurns[] = {{"system", kProbeSystem},
                                    {"user", kProbeUser},
                                    {"assistant", kProbeAnswer},
                                    {"user", kProbeUser}};
  const std::span<const Turn> all(kTurns);
  for (const std::span<const Turn> turns : {all, all.subspan(1)}) {
    auto rendered = chat_template.Render(Context(turns, text, options).Dump(), 0);
    if (rendered.ok()) return rendered;
  }
  return chat_template.Render(Context(all.subspan(3), text, options).Dump(), 0);
}

}  // namespace hone::exporter
