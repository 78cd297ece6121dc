// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone render: a chat template's text, byte for byte.
#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "bridge/chat_template.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "runtime/chat.h"
#include "runtime/engine.h"

namespace hone::cli {
namespace {

struct RenderArgs {
  std::string model, messages, tools;
  std::string template_file, context_file;
  std::string think = "auto";
  bool no_generation_prompt = false;
};

Result<Json> ReadJsonArray(const std::string& path, const char* what) {
  if (IsDirectory(path)) {
    return Status(Code::kInvalidArgument, StrCat(path, ": is a folder, expected a JSON file"));
  }
  HONE_ASSIGN(const std::string text, ReadFile(path));
  auto json = ParseJson(text);
  if (!json.ok()) return std::move(json).status().Context(path);
  if (!json->IsArray()) {
    return Status(Code::kInvalidArgument,
                  StrCat(path, ": found ", json->TypeName(), ", expected an array of ", what));
  }
  return json;
}

// Any template with any variables: the context goes in as it is.
Result<std::string> RenderFile(const RenderArgs& args) {
  HONE_ASSIGN(const std::string source, ReadFile(args.template_file));
  HONE_ASSIGN(const std::string context, ReadFile(args.context_file));
  auto compiled = bridge::ChatTemplate::Compile(source);
  if (!compiled.ok()) return std::move(compiled).status().Context(args.template_file);
  auto text = compiled->Render(context, LocalNow());
  if (!text.ok()) return std::move(text).status().Context(args.template_file);
  return text;
}

Result<std::string> RenderModel(const RenderArgs& args) {
  std::vector<std::string> warnings;
  HONE_ASSIGN(const runtime::TextSetup setup, runtime::LoadText(args.model, &warnings));
  PrintWarnings(warnings);
  HONE_ASSIGN(const Json messages, ReadJsonArray(args.messages, "messages"));
  runtime::RenderOptions options;
  options.think = ThinkFromWord(args.think);
  NoteUnusedThink(setup, args.think, /*raw=*/false);
  options.add_generation_prompt = !args.no_generation_prompt;
  options.local_now = LocalNow();
  if (!args.tools.empty()) {
    HONE_ASSIGN(options.tools, ReadJsonArray(args.tools, "tools"));
  }
  HONE_ASSIGN(std::string text, runtime::RenderChat(setup, messages, options));
  if (!options.tools.IsNull() && !options.tools.AsArray().empty()) {
    options.tools = Json();
    const auto without = runtime::RenderChat(setup, messages, options);
    if (without.ok() && *without == text) {
      PrintWarning("the chat template ignores the tools: the text is the same without them");
    }
  }
  return text;
}

Status Run(const RenderArgs& args) {
  const bool from_file = !args.template_file.empty() || !args.context_file.empty();
  if (from_file && (args.template_file.empty() || args.context_file.empty())) {
    return Status(Code::kInvalidArgument, "--template and --context belong together");
  }
  if (from_file && !args.model.empty()) {
    return Status(Code::kInvalidArgument,
                  "give either MODEL and messages, or --template and "
                  "--context");
  }
  if (!from_file && args.messages.empty()) {
    return Status(Code::kInvalidArgument,
                  "expected MODEL and a messages file, or --template and --context; see hone "
                  "render --help");
  }
  HONE_ASSIGN(const std::string text, from_file ? RenderFile(args) : RenderModel(args));
  PrintText(text);
  return Status();
}

}  // namespace

void RegisterRender(CLI::App& app, Command* selected) {
  auto args = std::make_shared<RenderArgs>();
  CLI::App* render = app.add_subcommand("render", "Print the prompt that a chat template makes");
  render->footer(
      "Examples:\n"
      "  hone render m.litertlm messages.json --tools tools.json --think off\n"
      "  hone render --template chat_template.jinja --context variables.json\n"
      "Exactly the bytes of the render are printed, nothing is added.");
  render->add_option("model", args->model,
                     "A .litertlm bundle, a .gguf file or a checkpoint folder");
  render->add_option("messages", args->messages, "A JSON array of messages");
  render->add_option("--tools", args->tools, "A JSON array of tools");
  render
      ->add_option("--think", args->think, "Thinking: on, off or what the template does by itself")
      ->check(CLI::IsMember(kThinkWords))
      ->capture_default_str();
  render->add_flag("--no-generation-prompt", args->no_generation_prompt,
                   "Do not open the assistant's turn");
  render->add_option("--template", args->template_file, "Any Jinja template");
  render->add_option("--context", args->context_file, "Its variables, a JSON object");
  render->callback([args, selected] { *selected = [args] { return Run(*args); }; });
}

}  // namespace hone::cli
