// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/llm_metadata_builder.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "bridge/stop_tokens.h"
#include "exporter/template_check.h"
#include "exporter/template_probe.h"
#include "formats/thinking_marks.h"
#include "graph/builder.h"

namespace hone::exporter {
namespace {

namespace litertlm = formats::litertlm;

litertlm::TokenUnion IdToken(std::int32_t id) {
  litertlm::TokenUnion token;
  token.ids = {id};
  return token;
}

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Why a stop id is suspicious: "" if it is not.
std::string OrdinaryText(const bridge::Tokenizer& tokenizer, std::int32_t id) {
  for (const bridge::AddedToken& token : tokenizer.added_tokens()) {
    if (token.id == id && token.special) return "";
  }
  const auto decoded = tokenizer.Decode(std::span(&id, 1), /*skip_special=*/false);
  if (!decoded.ok() || decoded->empty()) return "no token";
  std::string_view text = *decoded;
  if (std::all_of(text.begin(), text.end(), IsSpace)) {
    return StrCat("white space (", Json(*decoded).Dump(), ")");
  }
  while (IsSpace(text.front())) text.remove_prefix(1);
  if (std::all_of(text.begin(), text.end(), IsLetter)) {
    return StrCat("a plain word (", Json(*decoded).Dump(), ")");
  }
  return "";
}

Status AddStopTokens(const model::DecoderSpec& spec, const formats::TextFacts& text,
                     const bridge::Tokenizer& tokenizer, const bridge::ChatTemplate* chat_template,
                     BundleText& out) {
  bridge::StopSources sources;
  sources.eos_ids = text.eos_ids;
  sources.eos_strings = text.eos_strings;
  sources.bos_token = text.bos_token;
  sources.eos_token = text.eos_token;
  sources.pad_token = text.pad_token;
  sources.unk_token = text.unk_token;
  bridge::StopTokens stops = bridge::FindStopTokens(tokenizer, chat_template, sources);
  for (std::string& note : stops.notes) out.warnings.push_back(std::move(note));
  for (const bridge::StopToken& stop : stops.tokens) {
    if (stop.id >= spec.vocab) {
      out.warnings.push_back(StrCat("stop id ", stop.id, " (", stop.reason,
                                    ") is beyond the vocabulary of ", spec.vocab, "; left out"));
      continue;
    }
    const std::string ordinary = OrdinaryText(tokenizer, stop.id);
    if (!ordinary.empty()) {
      out.warnings.push_back(StrCat("stop id ", stop.id, " (", stop.reason, ") is ", ordinary,
                                    ": answers will end at it"));
    }
    out.metadata.stop_tokens.push_back(IdToken(stop.id));
    out.notes.push_back(
        StrCat("stop token ", stop.id, " ", Json(stop.text).Dump(), ": ", stop.reason));
  }
  if (out.metadata.stop_tokens.empty()) {
    return Status(Code::kUnsupported,
                  "no stop token: config.json, generation_config.json and the tokenizer name none, "
                  "and LiteRT-LM needs one; add eos_token_id to generation_config.json");
  }
  return Status();
}

// Whether the runtime must put the BOS id in front of a prompt: the template writes the BOS text
// only through its bos_token variable, which LiteRT-LM leaves empty. A template that spells it out
// needs nothing, one that never writes it wants none. Without a template the tokenizer decides.
bool NeedsStartToken(const formats::TextFacts& text, const bridge::Tokenizer& tokenizer,
                     std::int32_t bos_id, const bridge::ChatTemplate* chat_template,
                     std::vector<std::string>& warnings) {
  if (chat_template == nullptr) {
    if (text.add_bos_token) return *text.add_bos_token;
    const auto ids = tokenizer.Encode("a", {.add_special_tokens = true});
    return ids.ok() && !ids->empty() && ids->front() == bos_id;
  }
  const auto without = RenderProbe(*chat_template, text, {.empty_bos = true});
  if (without.ok() && without->starts_with(text.bos_token)) return false;
  const auto with = RenderProbe(*chat_template, text, {});
  if (!with.ok()) {
    warnings.push_back(
        StrCat("the chat template cannot render a plain conversation: ", with.message()));
    return false;
  }
  return with->starts_with(text.bos_token);
}

void AddSpecialTokens(const formats::TextFacts& text, const bridge::Tokenizer& tokenizer,
                      const bridge::ChatTemplate* chat_template, BundleText& out) {
  if (const auto pad = tokenizer.TokenId(text.pad_token); pad && !text.pad_token.empty()) {
    out.metadata.pad_token = IdToken(*pad);
  }
  if (text.bos_token.empty()) return;
  const auto bos = tokenizer.TokenId(text.bos_token);
  if (!bos) {
    out.warnings.push_back(StrCat("the BOS token ", Json(text.bos_token).Dump(),
                                  " is not in the tokenizer; prompts get none"));
    return;
  }
  if (NeedsStartToken(text, tokenizer, *bos, chat_template, out.warnings)) {
    out.metadata.start_token = IdToken(*bos);
  }
}

// LiteRT-LM has only the TOP_P sampler, and it needs k >= 1.
litertlm::SamplerParameters Sampler(const formats::SamplingFacts& sampling,
                                    const model::DecoderSpec& spec,
                                    std::vector<std::string>& notes) {
  litertlm::SamplerParameters out;
  out.type = litertlm::SamplerType::kTopP;
  out.k = 1;
  out.p = 1.0f;
  out.temperature = 1.0f;
  const double temperature = sampling.temperature.value_or(1.0);
  if (!sampling.do_sample || temperature <= 0) return out;
  const std::int64_t k = sampling.top_k.value_or(kDefaultTopK);
  out.k = static_cast<std::int32_t>(std::min<std::int64_t>(spec.vocab, k < 1 ? kUnlimitedTopK : k));
  out.p = static_cast<float>(std::clamp(sampling.top_p.value_or(1.0), 0.0, 1.0));
  out.temperature = static_cast<float>(temperature);
  if (sampling.min_p.value_or(0) > 0) {
    notes.push_back("generation_config's min_p has no place in a bundle; left out");
  }
  if (sampling.repetition_penalty.value_or(1) != 1) {
    notes.push_back("generation_config's repetition_penalty has no place in a bundle; left out");
  }
  return out;
}

// Ids of the vocabulary that stand for no token: padding rows of the embedding.
void AddSuppressedIds(const model::DecoderSpec& spec, const bridge::Tokenizer& tokenizer,
                      BundleText& out) {
  std::vector<std::int32_t> unused;
  for (std::int64_t id = 0; id < spec.vocab; ++id) {
    const auto token = static_cast<std::int32_t>(id);
    if (id >= tokenizer.size() || !tokenizer.Piece(token).ok()) unused.push_back(token);
  }
  if (unused.empty()) return;
  out.notes.push_back(
      StrCat(unused.size(), " ids of the vocabulary have no token and are suppressed"));
  out.metadata.suppress_tokens = std::move(unused);
}

Status AddTemplate(const formats::TextFacts& text, const bridge::ChatTemplate& compiled,
                   bool template_compat, BundleText& out) {
  std::string source = text.chat_template;
  std::vector<std::string> problems = FindTemplateProblems(source, compiled, text);
  bool wrapping_helps = false;
  if (!problems.empty()) {
    auto wrapped = WrapTemplate(source, compiled, text);
    if (template_compat) {
      if (!wrapped.ok()) return std::move(wrapped).status();
      source = std::move(wrapped->source);
      problems = std::move(wrapped->problems);
      out.wrapped_template = true;
      out.notes.push_back("the chat template is wrapped: content given as parts becomes a string");
    } else {
      wrapping_helps = wrapped.ok() && wrapped->problems.empty();
    }
  }
  for (const std::string& problem : problems) {
    out.warnings.push_back(StrCat("chat template: LiteRT-LM 0.18 cannot run it: ", problem,
                                  wrapping_helps ? "; --template-compat avoids this" : ""));
  }
  if (const formats::ThinkingMarks marks = formats::FindThinkingMarks(source);
      !marks.start.empty()) {
    litertlm::Channel thought;
    thought.name = "thought";
    thought.start = marks.start;
    thought.end = marks.end;
    thought.is_reasoning = true;
    out.metadata.channels.push_back(std::move(thought));
    out.metadata.supports_thinking = true;
  }
  const auto with_tools = RenderProbe(compiled, text, {.with_tools = true});
  out.metadata.supports_function_calling =
      with_tools.ok() && with_tools->find(kProbeTool) != std::string::npos;
  out.metadata.jinja_prompt_template = std::move(source);
  out.has_template = true;
  return Status();
}

}  // namespace

Result<BundleText> BuildBundleText(const model::DecoderSpec& spec, const formats::TextFacts& text,
                                   std::int64_t context, bool template_compat) {
  HONE_ASSIGN(const bridge::Tokenizer tokenizer, bridge::Tokenizer::FromJson(text.tokenizer_json));
  if (tokenizer.size() > spec.vocab) {
    return Status(Code::kDataLoss,
                  StrCat("tokenizer.json: the tokenizer has ", tokenizer.size(),
                         " ids but the embedding has ", spec.vocab,
                         " rows (vocab_size); one of the two files is from another model"));
  }
  BundleText out;
  out.metadata.max_num_tokens = static_cast<std::int32_t>(context);
  out.metadata.model_type = "generic_model";
  out.metadata.supports_thinking = false;
  out.metadata.supports_function_calling = false;
  out.metadata.sampler = Sampler(text.sampling, spec, out.notes);
  std::optional<bridge::ChatTemplate> compiled;
  if (text.chat_template.empty()) {
    out.warnings.push_back("the source has no chat template: chat is off, raw prompts work");
  } else {
    auto result = bridge::ChatTemplate::Compile(text.chat_template);
    if (!result.ok()) return std::move(result).status().Context(text.chat_template_name);
    compiled = *std::move(result);
    HONE_TRY(AddTemplate(text, *compiled, template_compat, out));
    for (const auto& [name, unused] : text.named_templates) {
      out.warnings.push_back(StrCat("the chat template named ", Json(name).Dump(),
                                    " is left out: a bundle holds one template"));
    }
  }
  const bridge::ChatTemplate* chat_template = compiled ? &*compiled : nullptr;
  HONE_TRY(AddStopTokens(spec, text, tokenizer, chat_template, out));
  AddSpecialTokens(text, tokenizer, chat_template, out);
  AddSuppressedIds(spec, tokenizer, out);
  return out;
}

litertlm::ExecutorMetadata BuildExecutorMetadata(std::int64_t num_layers, std::int64_t context) {
  litertlm::ExecutorMetadata out;
  out.max_history_size = static_cast<std::int32_t>(context);
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    for (const bool key : {true, false}) {
      litertlm::StateBuffer buffer;
      const std::string name = key ? graph::KeyCacheName(layer) : graph::ValueCacheName(layer);
      buffer.prefill_input = buffer.prefill_output = name;
      buffer.decode_input = buffer.decode_output = name;
      buffer.type = key ? litertlm::StateType::kGlobalKey : litertlm::StateType::kGlobalValue;
      buffer.sequence_axis = key ? 2 : 3;
      buffer.maximum_sequence_length = static_cast<std::int32_t>(context);
      out.state_buffers.push_back(std::move(buffer));
    }
  }
  return out;
}

}  // namespace hone::exporter
