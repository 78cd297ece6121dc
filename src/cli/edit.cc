// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// hone edit: changes a bundle's text settings in place.
#include "bundle/edit.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/tool_family_option.h"
#include "formats/litertlm/litertlm.h"

namespace hone::cli {
namespace {

constexpr std::uint64_t kMaxTemplateBytes = 1ULL << 20;
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

struct EditArguments {
  std::string path;
  std::optional<std::string> chat_template, stop_ids, start_token, sampler, max_tokens, thinking;
  std::optional<std::string> tool_family;
  std::optional<std::string> name, author;
  std::vector<std::string> add_stop_ids, stop_strings, channels, activation, backends, system;
  bool no_stop_strings = false, dry_run = false, json = false;
  bool any = false;  // an option that changes something was given
};

Status Bad(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

Result<std::vector<std::int32_t>> ParseIds(std::string_view option, std::string_view text) {
  HONE_ASSIGN(const std::vector<std::int64_t> numbers, ParseNumberList(option, text, 0, kMaxInt32));
  return std::vector<std::int32_t>(numbers.begin(), numbers.end());
}

template <typename N>
Result<N> ParseNumber(std::string_view option, const std::string& text) {
  N value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end) return value;
  return Bad(StrCat(option, ": found '", text, "', expected a number"));
}

Status ParseSampler(const std::string& text, bundle::EditRequest& request) {
  for (const std::string& part : Split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    const std::string option = StrCat("--sampler ", key);
    if (key == "temperature") {
      HONE_ASSIGN(request.temperature, ParseNumber<float>(option, value));
    } else if (key == "top_p") {
      HONE_ASSIGN(request.top_p, ParseNumber<float>(option, value));
    } else if (key == "top_k") {
      HONE_ASSIGN(request.top_k, ParseNumber<std::int32_t>(option, value));
    } else if (key == "seed") {
      HONE_ASSIGN(request.seed, ParseNumber<std::int32_t>(option, value));
    } else {
      return Bad(
          StrCat("--sampler: found '", part, "', expected temperature=, top_p=, top_k= or seed="));
    }
  }
  return {};
}

// "fp32" or "embedder=fp32"; none removes.
bundle::ItemEdit ParseItem(const std::string& text) {
  bundle::ItemEdit edit;
  const std::size_t equals = text.find('=');
  edit.value = equals == std::string::npos ? text : text.substr(equals + 1);
  if (equals != std::string::npos) {
    const std::string type = text.substr(0, equals);
    edit.model_type = type.starts_with("tf_lite_") ? type : "tf_lite_" + type;
  }
  if (edit.value == "none") edit.value.clear();
  return edit;
}

Status ParseText(const EditArguments& arguments, bundle::EditRequest& request) {
  if (arguments.chat_template) {
    HONE_ASSIGN(request.chat_template, ReadFile(*arguments.chat_template, kMaxTemplateBytes));
    HONE_TRY(CheckUtf8(*arguments.chat_template, *request.chat_template));
  }
  if (arguments.stop_ids) {
    HONE_ASSIGN(request.stop_ids, ParseIds("--stop-ids", *arguments.stop_ids));
  }
  for (const std::string& text : arguments.add_stop_ids) {
    HONE_ASSIGN(const std::vector<std::int32_t> ids, ParseIds("--add-stop-id", text));
    request.add_stop_ids.insert(request.add_stop_ids.end(), ids.begin(), ids.end());
  }
  if (!arguments.stop_strings.empty() || arguments.no_stop_strings) {
    request.stop_strings = arguments.stop_strings;
  }
  if (arguments.start_token == "none") {
    request.remove_start_token = true;
  } else if (arguments.start_token) {
    HONE_ASSIGN(request.start_token,
                ParseNumber<std::int32_t>("--start-token", *arguments.start_token));
  }
  if (arguments.sampler) HONE_TRY(ParseSampler(*arguments.sampler, request));
  if (arguments.tool_family) {
    HONE_ASSIGN(request.tool_family, ParseToolFamily(*arguments.tool_family));
  }
  if (arguments.max_tokens) {
    HONE_ASSIGN(request.max_tokens,
                ParseNumber<std::int32_t>("--max-tokens", *arguments.max_tokens));
  }
  if (arguments.thinking) {
    request.thinking = *arguments.thinking == "on"    ? bundle::ThinkingDefault::kOn
                       : *arguments.thinking == "off" ? bundle::ThinkingDefault::kOff
                                                      : bundle::ThinkingDefault::kTemplate;
  }
  for (const std::string& text : arguments.channels) {
    std::vector<std::string> parts = Split(text, ',');
    if (parts.size() != 3)
      return Bad(StrCat("--channel: found '", text, "', expected NAME,START,END"));
    request.channels.push_back({parts[0], parts[1], parts[2]});
  }
  return {};
}

Status ParseHeader(const EditArguments& arguments, bundle::EditRequest& request) {
  for (const std::string& text : arguments.activation) {
    request.prefer_activation_type.push_back(ParseItem(text));
  }
  for (const std::string& text : arguments.backends) {
    request.backend_constraint.push_back(ParseItem(text));
  }
  if (arguments.name) request.system.emplace_back("Name", *arguments.name);
  if (arguments.author) request.system.emplace_back("Authors", *arguments.author);
  for (const std::string& text : arguments.system) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Bad(StrCat("--set-system: found '", text, "', expected KEY=VALUE"));
    }
    request.system.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return {};
}

void PrintPlan(const EditArguments& arguments, const bundle::EditPlan& plan) {
  if (arguments.json) {
    Json out = plan.ToJson();
    out.Set("path", arguments.path);
    out.Set("dry_run", arguments.dry_run);
    PrintJson(out);
    return;
  }
  for (const std::string& note : plan.notes) PrintNote(note);
  if (plan.changes.empty()) {
    PrintText(StrCat(arguments.path, ": everything is so already\n"));
    return;
  }
  for (const bundle::EditChange& change : plan.changes) {
    PrintText(StrCat(OneLine(change.field), ": ", OneLine(change.before), " -> ",
                     OneLine(change.after), "\n"));
  }
  std::uint64_t bytes = 0;
  for (const bundle::FileWrite& write : plan.in_place.writes) bytes += write.bytes.size();
  PrintText(StrCat(
      arguments.path, ": ", bytes, " bytes ", arguments.dry_run ? "would be written" : "written",
      ", ", plan.in_place.unreachable_bytes, " of ", plan.in_place.file_bytes,
      " bytes are unreachable",
      plan.in_place.unreachable_bytes > 0 ? " (hone unpack and hone pack give them back)\n"
                                          : "\n"));
}

Status Edit(const EditArguments& arguments) {
  if (!arguments.any) return Bad("nothing to change; see hone edit --help");
  bundle::EditRequest request;
  HONE_TRY(ParseText(arguments, request));
  HONE_TRY(ParseHeader(arguments, request));
  HONE_ASSIGN(const auto opened, formats::litertlm::Bundle::Open(arguments.path));
  HONE_ASSIGN(const bundle::EditPlan plan, bundle::PlanEdit(*opened, request));
  for (const std::string& warning : plan.warnings) PrintWarning(warning);
  if (!arguments.dry_run && !plan.changes.empty()) {
    HONE_TRY(bundle::WriteInPlace(arguments.path, plan.in_place));
  }
  PrintPlan(arguments, plan);
  return {};
}

void AddOptions(CLI::App* sub, EditArguments& a) {
  sub->add_option("FILE", a.path, "A .litertlm bundle, changed in place")->required();
  sub->add_option("--chat-template", a.chat_template, "A file with the new chat template");
  sub->add_option("--stop-ids", a.stop_ids, "Token ids that end an answer, 2,7; strings stay");
  sub->add_option("--add-stop-id", a.add_stop_ids, "One more of them");
  CLI::Option* strings = sub->add_option("--stop-strings", a.stop_strings,
                                         "Texts that end an answer, one an option; ids stay");
  strings->allow_extra_args(false);
  sub->add_flag("--no-stop-strings", a.no_stop_strings, "Remove the texts")->excludes(strings);
  sub->add_option("--start-token", a.start_token, "Id in front of every prompt, or none");
  sub->add_option("--sampler", a.sampler,
                  "temperature=0.7,top_p=0.95,top_k=40,seed=1, any of them");
  sub->add_option("--max-tokens", a.max_tokens, "Tokens of prompt and answer together");
  sub->add_option("--thinking", a.thinking,
                  "What a template with enable_thinking does unless told: on, off, or the "
                  "template's own default")
      ->check(CLI::IsMember(std::vector<std::string>{"on", "off", "default"}));
  sub->add_option("--tool-family", a.tool_family,
                  "How the model writes tool calls, by name, or none: the template decides");
  sub->add_option("--channel", a.channels, "NAME,START,END, such as thought,<think>,</think>");
  sub->add_option(
      "--prefer-activation-type", a.activation,
      "fp16, fp32, fp32_fp16 or none; embedder=fp32 for another model than the decoder");
  sub->add_option("--backend-constraint", a.backends,
                  "cpu,gpu,npu,gpu_artisan in order of preference, or none; as above");
  sub->add_option("--name", a.name, "System metadata Name");
  sub->add_option("--author", a.author, "System metadata Authors");
  sub->add_option("--set-system", a.system, "KEY=VALUE of the system metadata; KEY= removes it");
  sub->add_flag("--dry-run", a.dry_run, "Show the changes and write nothing");
  sub->add_flag("--json", a.json, "Print the changes as JSON");
  for (const char* name : {"--add-stop-id", "--channel", "--prefer-activation-type",
                           "--backend-constraint", "--set-system"}) {
    sub->get_option(name)->allow_extra_args(false);
  }
}

}  // namespace

void RegisterEdit(CLI::App& app, Command* selected) {
  auto arguments = std::make_shared<EditArguments>();
  CLI::App* sub =
      app.add_subcommand("edit", "Change a bundle's template, stops and settings in place");
  sub->footer(
      "Weights are not touched, and the file is valid at every instant.\n\n"
      "Example:\n  hone edit smollm2.litertlm --add-stop-id 2 --sampler temperature=0.7,top_k=40\n"
      "  hone edit smollm2.litertlm --chat-template chat.jinja --dry-run");
  AddOptions(sub, *arguments);
  sub->callback([arguments, selected, sub] {
    for (const CLI::Option* option : sub->get_options()) {
      const std::string name = option->get_name();
      const bool changes = name != "FILE" && name != "--json" && name != "--dry-run";
      if (changes && option->count() > 0) arguments->any = true;
    }
    *selected = [arguments] { return Edit(*arguments); };
  });
}

}  // namespace hone::cli
