// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/edit_metadata.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

#include "base/json.h"
#include "bridge/sha256.h"
#include "exporter/template_check.h"
#include "exporter/template_probe.h"
#include "formats/foreign_file.h"
#include "formats/litertlm/proto_fields.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::LlmMetadata;
using litertlm::TokenUnion;

// Numbers of LlmMetadata's fields.
enum : std::uint32_t {
  kStartToken = 1,
  kStopTokens = 2,
  kSamplerParams = 4,
  kMaxNumTokens = 5,
  kJinjaPromptTemplate = 7,
  kChannels = 8,
};

constexpr std::string_view kPrologueStart =
    "{% set enable_thinking = enable_thinking if enable_thinking is defined else ";
constexpr std::string_view kPrologueEnd = " %}\n";

Status Refuse(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

struct RawField {
  std::uint32_t number = 0;  // 0: of another wire type than that field has, so not to be touched
  std::string raw;
};

// A message as its encoded fields.
class RawMessage {
 public:
  Status Read(std::string_view message) {
    std::string none;
    return litertlm::ReadFields(
        message, none, [this](const litertlm::Field& field, bool* used) -> Status {
          *used = true;
          const bool known = field.number == kMaxNumTokens ? field.IsVarint(field.number)
                                                           : field.IsBytes(field.number);
          fields_.push_back({known ? field.number : 0, std::string(field.raw)});
          return {};
        });
  }
  // The encoded fields of one number.
  std::vector<std::string> Get(std::uint32_t number) const {
    std::vector<std::string> out;
    for (const RawField& field : fields_) {
      if (field.number == number) out.push_back(field.raw);
    }
    return out;
  }
  // Puts encoded fields where those of the number were; else before the first higher number.
  void Set(std::uint32_t number, const std::vector<std::string>& encoded) {
    const auto find = [this](const auto& wanted) {
      return std::find_if(fields_.begin(), fields_.end(), wanted);
    };
    auto at = find([=](const RawField& f) { return f.number == number; });
    if (at == fields_.end()) at = find([=](const RawField& f) { return f.number > number; });
    const auto index = at - fields_.begin();
    std::erase_if(fields_, [=](const RawField& f) { return f.number == number; });
    auto place = fields_.begin() + index;
    for (const std::string& raw : encoded) place = fields_.insert(place, {number, raw}) + 1;
  }
  std::string Join() const {
    std::string out;
    for (const RawField& field : fields_) out += field.raw;
    return out;
  }

 private:
  std::vector<RawField> fields_;
};

std::string Quoted(std::string_view text) { return Json(text).Dump(); }

std::string TokenText(const TokenUnion& token) {
  if (token.is_text) return Quoted(token.text);
  std::string out;
  for (const std::int32_t id : token.ids) out += StrCat(out.empty() ? "" : " ", id);
  return out.empty() ? "nothing" : out;
}

std::string StopsText(const std::vector<TokenUnion>& tokens) {
  std::string out = "[";
  for (const TokenUnion& token : tokens) {
    if (out.size() > 1) out += ", ";
    out += TokenText(token);
  }
  return out + "]";
}

std::string NumberText(double value) {
  char room[32];
  std::snprintf(room, sizeof(room), "%.6g", value);
  return room;
}

std::string SamplerText(const std::optional<litertlm::SamplerParameters>& sampler) {
  if (!sampler) return "none";
  static constexpr const char* kTypes[] = {"unspecified", "top_k", "top_p", "greedy"};
  const auto type = static_cast<std::size_t>(sampler->type);
  return StrCat(type < std::size(kTypes) ? kTypes[type] : "unknown", " k=", sampler->k,
                " p=", NumberText(sampler->p), " temperature=", NumberText(sampler->temperature),
                sampler->seed ? StrCat(" seed=", *sampler->seed) : std::string());
}

std::string ChannelsText(const std::vector<litertlm::Channel>& channels) {
  std::string out = "[";
  for (const litertlm::Channel& channel : channels) {
    if (out.size() > 1) out += ", ";
    out += StrCat(channel.name, " ", Quoted(channel.start), " to ", Quoted(channel.end));
  }
  return out + "]";
}

std::string TemplateText(std::string_view source) {
  return StrCat(source.size(), " bytes, SHA-256 ", bridge::Sha256Hex(AsBytes(source)));
}

class MetadataEditor {
 public:
  MetadataEditor(const EditRequest& request, const EditFacts& facts, EditPlan& plan)
      : request_(request), facts_(facts), plan_(plan) {}

  Status Run(std::string& message) {
    HONE_TRY(raw_.Read(message));
    HONE_ASSIGN(before_, litertlm::ParseLlmMetadata(AsBytes(message)));
    after_ = before_;
    HONE_TRY(EditStops());
    HONE_TRY(EditStartToken());
    HONE_TRY(EditSampler());
    HONE_TRY(EditMaxTokens());
    HONE_TRY(EditChannels());
    HONE_TRY(EditTemplate());
    message = raw_.Join();
    return {};
  }

 private:
  // The encoding of a message that has only what set gives it.
  template <typename Setter>
  static std::string Encode(const Setter& set) {
    LlmMetadata only;
    set(only);
    return litertlm::EncodeLlmMetadata(only);
  }
  void Change(std::string_view field, std::string before, std::string after) {
    if (before == after) return;
    plan_.changes.push_back({std::string(field), std::move(before), std::move(after)});
  }

  Status CheckId(std::string_view option, std::int32_t id) const {
    const std::int64_t vocab =
        facts_.vocab ? *facts_.vocab : (facts_.tokenizer ? facts_.tokenizer->size() : 0);
    if (id < 0 || (vocab > 0 && id >= vocab)) {
      return Refuse(StrCat(option, ": id ", id, " is outside the vocabulary of ", vocab, " ids"));
    }
    if (facts_.tokenizer && !facts_.tokenizer->Piece(id).ok()) {
      return Refuse(StrCat(option, ": id ", id, " stands for no token of the tokenizer"));
    }
    return {};
  }

  // An answer would end at the first blank or common word.
  void WarnOrdinary(std::int32_t id) {
    if (!facts_.tokenizer) return;
    for (const bridge::AddedToken& token : facts_.tokenizer->added_tokens()) {
      if (token.id == id && token.special) return;
    }
    const auto text = facts_.tokenizer->Decode(std::span(&id, 1), /*skip_special=*/false);
    if (!text.ok()) return;
    const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    const auto word = [&](char c) {
      return space(c) || std::isalpha(static_cast<unsigned char>(c)) != 0;
    };
    if (std::all_of(text->begin(), text->end(), word)) {
      plan_.warnings.push_back(StrCat("stop id ", id, " is ordinary text (", Quoted(*text),
                                      "): answers will end at it"));
    }
  }

  Status EditStops() {
    if (!request_.stop_ids && request_.add_stop_ids.empty() && !request_.stop_strings) return {};
    std::vector<std::string> encoded;
    std::vector<TokenUnion> tokens;
    const std::vector<std::string> old = raw_.Get(kStopTokens);
    for (std::size_t i = 0; i < old.size() && i < before_.stop_tokens.size(); ++i) {
      const TokenUnion& token = before_.stop_tokens[i];
      if (token.is_text ? request_.stop_strings.has_value() : request_.stop_ids.has_value())
        continue;
      encoded.push_back(old[i]);
      tokens.push_back(token);
    }
    const auto add = [&](TokenUnion token) {
      encoded.push_back(Encode([&](LlmMetadata& m) { m.stop_tokens.push_back(token); }));
      tokens.push_back(std::move(token));
    };
    std::vector<std::int32_t> ids = request_.stop_ids.value_or(std::vector<std::int32_t>());
    ids.insert(ids.end(), request_.add_stop_ids.begin(), request_.add_stop_ids.end());
    for (const std::int32_t id : ids) {
      HONE_TRY(CheckId("stop id", id));
      TokenUnion token;
      token.ids = {id};
      const auto same = [&](const TokenUnion& t) { return !t.is_text && t.ids == token.ids; };
      if (std::any_of(tokens.begin(), tokens.end(), same)) continue;
      WarnOrdinary(id);
      add(std::move(token));
    }
    for (const std::string& text : request_.stop_strings.value_or(std::vector<std::string>())) {
      if (text.empty() || !formats::IsUtf8(text)) {
        return Refuse("stop string: is empty or not UTF-8");
      }
      TokenUnion token;
      token.is_text = true;
      token.text = text;
      add(std::move(token));
    }
    if (tokens.empty()) {
      return Refuse(
          "no stop token would be left, and LiteRT-LM does not load a bundle without one");
    }
    Change("stop_tokens", StopsText(before_.stop_tokens), StopsText(tokens));
    after_.stop_tokens = std::move(tokens);
    raw_.Set(kStopTokens, encoded);
    return {};
  }

  Status EditStartToken() {
    if (!request_.start_token && !request_.remove_start_token) return {};
    const std::string old = before_.start_token ? TokenText(*before_.start_token) : "none";
    if (request_.remove_start_token) {
      after_.start_token.reset();
      raw_.Set(kStartToken, {});
      Change("start_token", old, "none");
      return {};
    }
    HONE_TRY(CheckId("start token", *request_.start_token));
    TokenUnion token;
    token.ids = {*request_.start_token};
    Change("start_token", old, TokenText(token));
    raw_.Set(kStartToken, {Encode([&](LlmMetadata& m) { m.start_token = token; })});
    after_.start_token = std::move(token);
    return {};
  }

  Status EditSampler() {
    if (!request_.temperature && !request_.top_p && !request_.top_k && !request_.seed) return {};
    if (request_.temperature &&
        !(std::isfinite(*request_.temperature) && *request_.temperature >= 0)) {
      return Refuse("sampler: temperature must be 0 or more");
    }
    if (request_.top_p && !(*request_.top_p > 0 && *request_.top_p <= 1)) {
      return Refuse("sampler: top_p must be above 0 and at most 1");
    }
    if (request_.top_k && *request_.top_k < 1) {
      return Refuse("sampler: top_k must be 1 or more, since LiteRT-LM needs that");
    }
    litertlm::SamplerParameters sampler = before_.sampler.value_or(litertlm::SamplerParameters());
    sampler.type = litertlm::SamplerType::kTopP;  // the only one of LiteRT-LM's CPU sampler
    if (!before_.sampler) sampler.temperature = 1.0f;
    if (request_.temperature) sampler.temperature = *request_.temperature;
    if (request_.top_p) sampler.p = *request_.top_p;
    if (request_.top_k) sampler.k = *request_.top_k;
    if (request_.seed) sampler.seed = *request_.seed;
    if (sampler.p == 0) sampler.p = 1.0f;
    if (sampler.k < 1) sampler.k = 1;
    if (sampler.k == 1) plan_.notes.push_back("top_k is 1, so answers are greedy");
    Change("sampler", SamplerText(before_.sampler), SamplerText(sampler));
    raw_.Set(kSamplerParams, {Encode([&](LlmMetadata& m) { m.sampler = sampler; })});
    return {};
  }

  Status EditMaxTokens() {
    if (!request_.max_tokens) return {};
    const std::int32_t tokens = *request_.max_tokens;
    if (tokens < 1) return Refuse("max tokens: must be 1 or more");
    if (facts_.context && tokens > *facts_.context) {
      return Refuse(StrCat("max tokens: ", tokens, " is more than the ", *facts_.context,
                           " positions of the bundle's cache; convert again with --context"));
    }
    Change("max_num_tokens", std::to_string(before_.max_num_tokens), std::to_string(tokens));
    raw_.Set(kMaxNumTokens, {Encode([&](LlmMetadata& m) { m.max_num_tokens = tokens; })});
    return {};
  }

  Status EditChannels() {
    if (request_.channels.empty()) return {};
    std::vector<std::string> encoded = raw_.Get(kChannels);
    std::vector<litertlm::Channel> channels = before_.channels;
    if (encoded.size() != channels.size())
      return Refuse("channels: a damaged one is in the bundle");
    for (const ChannelEdit& edit : request_.channels) {
      if (edit.name.empty() || edit.start.empty() || edit.end.empty()) {
        return Refuse("channel: name, start and end must not be empty");
      }
      if (!formats::IsUtf8(StrCat(edit.name, edit.start, edit.end))) {
        return Refuse("channel: is not UTF-8");
      }
      auto at = std::find_if(channels.begin(), channels.end(),
                             [&](const litertlm::Channel& c) { return c.name == edit.name; });
      if (at == channels.end()) {
        litertlm::Channel fresh;
        fresh.name = edit.name;
        if (edit.name == "thought") fresh.is_reasoning = true;
        at = channels.insert(channels.end(), std::move(fresh));
        encoded.emplace_back();
      }
      at->start = edit.start;
      at->end = edit.end;
      encoded[static_cast<std::size_t>(at - channels.begin())] =
          Encode([&](LlmMetadata& m) { m.channels.push_back(*at); });
    }
    Change("channels", ChannelsText(before_.channels), ChannelsText(channels));
    raw_.Set(kChannels, encoded);
    return {};
  }

  Status EditTemplate() {
    const std::string old = before_.jinja_prompt_template.value_or("");
    std::string changed = old;
    if (request_.chat_template) {
      const SplitTemplate before = SplitThinkingPrologue(old);
      changed = *request_.chat_template;
      if (before.thinking && !SplitThinkingPrologue(changed).thinking && !request_.thinking) {
        plan_.notes.push_back("the thinking default was part of the old template; set it again");
      }
    }
    if (request_.thinking) {
      HONE_TRY(SetThinking(changed));
    }
    const bool start_edited = request_.start_token || request_.remove_start_token;
    if (changed == old && !start_edited) return {};
    if (changed.empty()) {
      if (request_.chat_template) return Refuse("chat template: the new one is empty");
      return {};
    }
    HONE_TRY(CheckTemplate(changed, changed != old));
    if (changed == old) return {};
    Change("chat_template", old.empty() ? "none" : TemplateText(old), TemplateText(changed));
    raw_.Set(kJinjaPromptTemplate,
             {Encode([&](LlmMetadata& m) { m.jinja_prompt_template = changed; })});
    return {};
  }

  static Result<std::string> RenderThinking(const bridge::ChatTemplate& compiled, bool on) {
    Json message(Json::Object{{"role", "user"}, {"content", exporter::kProbeUser}});
    Json context(Json::Object{{"messages", Json(Json::Array{std::move(message)})},
                              {"add_generation_prompt", true},
                              {"bos_token", ""},
                              {"eos_token", ""},
                              {"enable_thinking", on}});
    return compiled.Render(context.Dump(), 0);
  }

  Status SetThinking(std::string& chat_template) const {
    const std::string source(SplitThinkingPrologue(chat_template).source);
    if (source.empty()) return Refuse("thinking: the bundle has no chat template");
    if (*request_.thinking == ThinkingDefault::kTemplate) {
      chat_template = source;
      return {};
    }
    HONE_ASSIGN(const bridge::ChatTemplate compiled, Compile(source));
    const auto on = RenderThinking(compiled, true);
    const auto off = RenderThinking(compiled, false);
    if (on.ok() && off.ok() && *on == *off) {
      return Refuse(
          "thinking: the chat template renders the same with enable_thinking true and "
          "false, so it has no such switch");
    }
    chat_template = ThinkingPrologue(*request_.thinking == ThinkingDefault::kOn) + source;
    return {};
  }

  static Result<bridge::ChatTemplate> Compile(std::string_view source) {
    auto compiled = bridge::ChatTemplate::Compile(source);
    if (compiled.ok()) return compiled;
    // A template of the user's is an argument, not damaged data.
    const Code code = compiled.code() == Code::kDataLoss ? Code::kInvalidArgument : compiled.code();
    return Status(code, StrCat("chat template: ", compiled.message()));
  }

  Status CheckTemplate(const std::string& source, bool is_new) {
    auto compiled_or = Compile(source);
    if (!compiled_or.ok() && !is_new) return {};  // not what is edited
    HONE_ASSIGN(const bridge::ChatTemplate compiled, std::move(compiled_or));
    const auto rendered = exporter::RenderProbe(compiled, facts_.text, {.empty_bos = true});
    if (!rendered.ok() && !is_new) return {};
    if (!rendered.ok()) {
      return Refuse(
          StrCat("chat template: cannot render a plain conversation: ", rendered.message()));
    }
    if (is_new && rendered->find(exporter::kProbeUser) == std::string::npos) {
      return Refuse("chat template: the user's text is missing from what it renders");
    }
    HONE_TRY(CheckStartTwice(*rendered));
    if (!is_new) return {};
    const std::string_view original = SplitThinkingPrologue(source).source;
    for (const std::string& problem :
         exporter::FindTemplateProblems(original, compiled, facts_.text)) {
      plan_.warnings.push_back(StrCat("chat template: LiteRT-LM 0.18 cannot run it: ", problem));
    }
    return {};
  }

  Status CheckStartTwice(std::string_view rendered) const {
    if (!after_.start_token || !facts_.tokenizer) return {};
    std::string start = after_.start_token->text;
    if (!after_.start_token->is_text) {
      const auto text = facts_.tokenizer->Decode(after_.start_token->ids, /*skip_special=*/false);
      if (text.ok()) start = *text;
    }
    if (start.empty() || !rendered.starts_with(start)) return {};
    return Refuse(StrCat("the chat template begins with ", Quoted(start),
                         " itself, so with that start token a prompt would begin with it twice; "
                         "use --start-token none"));
  }

  const EditRequest& request_;
  const EditFacts& facts_;
  EditPlan& plan_;
  RawMessage raw_;
  LlmMetadata before_, after_;
};

}  // namespace

std::string ThinkingPrologue(bool on) {
  return StrCat(kPrologueStart, on ? "true" : "false", kPrologueEnd);
}

SplitTemplate SplitThinkingPrologue(std::string_view chat_template) {
  for (const bool on : {true, false}) {
    const std::string prologue = ThinkingPrologue(on);
    if (chat_template.starts_with(prologue)) return {chat_template.substr(prologue.size()), on};
  }
  return {chat_template, std::nullopt};
}

Status EditMetadata(const EditRequest& request, const EditFacts& facts, std::string& message,
                    EditPlan& plan) {
  return MetadataEditor(request, facts, plan).Run(message);
}

}  // namespace hone::bundle
