// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/text_setup.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "bridge/stop_tokens.h"
#include "formats/hf_config/hf_config.h"
#include "formats/thinking_marks.h"

namespace hone::runtime {
namespace {

namespace litertlm = formats::litertlm;

Status SetTokenizer(const std::string& json, TextSetup& text) {
  auto tokenizer = bridge::Tokenizer::FromJson(json);
  if (tokenizer.ok()) {
    text.tokenizer = *std::move(tokenizer);
    return Status();
  }
  if (tokenizer.code() == Code::kDataLoss) {
    // The library does not say which part it cannot read.
    if (const auto parsed = ParseJson(json); parsed.ok()) {
      auto checked = formats::CheckTokenizerJson(*parsed);
      if (!checked.ok()) tokenizer = std::move(checked).status();
    }
  }
  if (tokenizer.code() != Code::kUnsupported) {
    return std::move(tokenizer).status().Context("tokenizer");
  }
  text.tokenizer_error = tokenizer.message();
  return Status();
}

void SetThinkingMarks(TextSetup& text) {
  const formats::ThinkingMarks marks = formats::FindThinkingMarks(text.template_source);
  text.think_start = marks.start;
  text.think_end = marks.end;
}

// The template itself may be wrong: the error is kept. Not enough memory is an error at once.
Status SetTemplate(std::string source, TextSetup& text) {
  text.template_source = std::move(source);
  if (text.template_source.empty()) return Status();
  auto compiled = bridge::ChatTemplate::Compile(text.template_source);
  if (compiled.ok()) {
    text.chat_template = *std::move(compiled);
  } else if (compiled.code() == Code::kOutOfMemory) {
    return std::move(compiled).status();
  } else {
    text.template_error = compiled.message();
  }
  return Status();
}

// Ids of a token union that is one token, or nothing.
std::optional<std::int32_t> SingleId(const litertlm::TokenUnion& token, const TextSetup& text) {
  if (!token.is_text) {
    if (token.ids.size() == 1) return token.ids[0];
    return std::nullopt;
  }
  if (!text.tokenizer) return std::nullopt;
  if (const auto id = text.tokenizer->TokenId(token.text)) return id;
  const auto ids = text.tokenizer->Encode(token.text);
  if (ids.ok() && ids->size() == 1) return (*ids)[0];
  return std::nullopt;
}

std::string UnionText(const litertlm::TokenUnion& token, const TextSetup& text) {
  if (token.is_text) return token.text;
  if (!text.tokenizer) return "";
  auto decoded = text.tokenizer->Decode(token.ids, /*skip_special=*/false);
  return decoded.ok() ? *std::move(decoded) : "";
}

void AddUnique(std::vector<std::int32_t>& ids, std::int32_t id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

void SetStops(const litertlm::LlmMetadata& metadata, TextSetup& text,
              std::vector<std::string>& warnings) {
  int ignored = 0;
  for (const litertlm::TokenUnion& token : metadata.stop_tokens) {
    if (const auto id = SingleId(token, text)) {
      AddUnique(text.stop_ids, *id);
      continue;
    }
    std::string stop = UnionText(token, text);
    if (!stop.empty() && text.tokenizer) {
      text.stop_strings.push_back(std::move(stop));
    } else if (!stop.empty() || !token.ids.empty()) {
      ++ignored;
    }
  }
  if (ignored > 0) {
    warnings.push_back(StrCat(ignored, " of the metadata's ", metadata.stop_tokens.size(),
                              " stop tokens need the tokenizer, which is absent; ignored"));
  }
  if (text.stop_ids.empty() && text.stop_strings.empty()) {
    warnings.push_back("the metadata has no stop token: an answer only ends at the token limit");
  }
  if (!text.tokenizer) return;
  std::vector<std::string> stop_texts;
  for (const std::int32_t id : text.stop_ids) {
    auto piece = text.tokenizer->Decode({&id, 1}, /*skip_special=*/false);
    stop_texts.push_back(piece.ok() ? *std::move(piece) : std::string());
  }
  for (std::size_t i = 0; i < stop_texts.size(); ++i) {
    std::string kept = bridge::TextBeforeStop(stop_texts[i], stop_texts);
    if (!kept.empty()) text.stop_kept_text[text.stop_ids[i]] = std::move(kept);
  }
  if (!stop_texts.empty()) text.eos_text = stop_texts[0];
}

// hone.json is Hone's own section: other bundles have none. What is wrong in it is a warning, for
// the model runs without it.
void SetToolFamily(const litertlm::Bundle& bundle, TextSetup& text,
                   std::vector<std::string>& warnings) {
  for (const litertlm::Section& section : bundle.header().sections) {
    if (section.type != litertlm::SectionType::kGenericBinaryData ||
        section.Item("name") != "hone.json") {
      continue;
    }
    const auto json = ParseJson(AsText(bundle.SectionBytes(section)));
    if (!json.ok() || !json->IsObject()) {
      warnings.push_back(StrCat("hone.json is not read: ",
                                json.ok() ? "it is not a JSON object" : json.message()));
      continue;
    }
    const Json* family = json->Find("tool_family");
    if (family == nullptr) continue;
    if (family->IsString()) {
      text.tool_family = family->AsString();
    } else {
      warnings.push_back("hone.json: tool_family is not a string; it is not used");
    }
  }
}

void SetSampling(const std::optional<litertlm::SamplerParameters>& sampler, TextSetup& text) {
  if (!sampler) return;
  const litertlm::SamplerType type = sampler->type;
  if (type != litertlm::SamplerType::kTopK && type != litertlm::SamplerType::kTopP) return;
  if (sampler->k == 1 || !(sampler->temperature > 0)) return;  // greedy
  text.temperature = sampler->temperature;
  text.top_k = std::max(sampler->k, 0);
  if (type == litertlm::SamplerType::kTopP && sampler->p > 0) text.top_p = sampler->p;
}

}  // namespace

Result<TextSetup> MakeCheckpointText(const formats::TextFacts& facts,
                                     std::vector<std::string>& warnings) {
  TextSetup text;
  warnings.insert(warnings.end(), facts.warnings.begin(), facts.warnings.end());
  if (facts.tokenizer_json.empty()) {
    text.tokenizer_error = "the checkpoint has no tokenizer";
  } else {
    HONE_TRY(SetTokenizer(facts.tokenizer_json, text));
  }
  HONE_TRY(SetTemplate(facts.chat_template, text));
  for (const auto& [name, source] : facts.named_templates) {
    if (name != "tool_use") continue;
    auto compiled = bridge::ChatTemplate::Compile(source);
    if (compiled.ok()) {
      text.tool_template = *std::move(compiled);
    } else {
      warnings.push_back(StrCat("the chat template named \"tool_use\": ", compiled.message()));
    }
  }
  text.bos_text = facts.bos_token;
  text.eos_text = facts.eos_token;
  text.pad_text = facts.pad_token;
  text.unk_text = facts.unk_token;

  if (text.tokenizer) {
    bridge::StopTokens stops =
        bridge::FindStopTokens(*text.tokenizer, text.chat_template ? &*text.chat_template : nullptr,
                               {facts.eos_ids, facts.eos_strings, facts.bos_token, facts.eos_token,
                                facts.pad_token, facts.unk_token});
    for (bridge::StopToken& stop : stops.tokens) {
      text.stop_ids.push_back(stop.id);
      if (!stop.kept.empty()) text.stop_kept_text[stop.id] = std::move(stop.kept);
    }
    warnings.insert(warnings.end(), stops.notes.begin(), stops.notes.end());
  } else {
    for (const std::int64_t id : facts.eos_ids) {
      if (id >= 0 && id <= INT32_MAX) AddUnique(text.stop_ids, static_cast<std::int32_t>(id));
    }
  }

  const formats::SamplingFacts& sampling = facts.sampling;
  if (sampling.do_sample) {
    // What Transformers samples with where generation_config.json is silent.
    text.temperature = static_cast<float>(sampling.temperature.value_or(1.0));
    text.top_p = static_cast<float>(sampling.top_p.value_or(1.0));
    text.top_k = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(sampling.top_k.value_or(50), 0, INT32_MAX));
    text.min_p = static_cast<float>(sampling.min_p.value_or(0.0));
  }
  text.repetition_penalty = static_cast<float>(sampling.repetition_penalty.value_or(1.0));
  SetThinkingMarks(text);
  return text;
}

Result<TextSetup> MakeMetadataText(const litertlm::LlmMetadata& metadata,
                                   const std::string& tokenizer_json, TextSetup text,
                                   std::vector<std::string>& warnings) {
  text.is_bundle = true;
  if (!tokenizer_json.empty()) HONE_TRY(SetTokenizer(tokenizer_json, text));
  HONE_TRY(SetTemplate(metadata.jinja_prompt_template.value_or(""), text));
  SetStops(metadata, text, warnings);
  if (metadata.start_token) {
    text.start_id = SingleId(*metadata.start_token, text);
    if (!text.start_id && text.tokenizer) {
      warnings.push_back(StrCat("start token \"", UnionText(*metadata.start_token, text),
                                "\" of the metadata is not one token; it is not prepended"));
    }
  }
  if (metadata.pad_token) text.pad_text = UnionText(*metadata.pad_token, text);
  text.suppress_ids = metadata.suppress_tokens;
  SetSampling(metadata.sampler, text);
  for (const litertlm::Channel& channel : metadata.channels) {
    if (channel.name != "thought" && !channel.is_reasoning.value_or(false)) continue;
    text.think_start = channel.start;
    text.think_end = channel.end;
    break;
  }
  if (metadata.channels.empty()) SetThinkingMarks(text);  // exported before there were channels
  return text;
}

void SuppressUnusedIds(std::int64_t vocab, TextSetup& text) {
  if (!text.tokenizer) return;
  const std::int64_t size = text.tokenizer->size();
  std::vector<std::int32_t>& ids = text.suppress_ids;
  for (std::int64_t i = 0; i < vocab; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (i >= size || !text.tokenizer->Piece(id).ok()) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

Result<TextSetup> MakeBundleText(const litertlm::Bundle& bundle,
                                 std::vector<std::string>& warnings) {
  TextSetup text;
  std::string tokenizer_json;
  if (const auto* section = bundle.Find(litertlm::SectionType::kHfTokenizerZlib)) {
    auto inflated = litertlm::InflateTokenizer(bundle.SectionBytes(*section));
    if (!inflated.ok()) return std::move(inflated).status().Context("tokenizer section");
    tokenizer_json = *std::move(inflated);
  } else if (bundle.Find(litertlm::SectionType::kSpTokenizer) != nullptr) {
    text.tokenizer_error =
        "the bundle has a SentencePiece tokenizer section, which Hone cannot read; convert the "
        "model with a tokenizer.json";
  } else {
    text.tokenizer_error = "the bundle has no tokenizer section";
  }
  litertlm::LlmMetadata metadata;
  if (const auto* section = bundle.Find(litertlm::SectionType::kLlmMetadata)) {
    auto parsed = litertlm::ParseLlmMetadata(bundle.SectionBytes(*section));
    if (!parsed.ok()) return std::move(parsed).status().Context("LlmMetadata section");
    metadata = *std::move(parsed);
  } else {
    warnings.push_back("the bundle has no LlmMetadata section: no stop tokens, no chat template");
  }
  SetToolFamily(bundle, text, warnings);
  return MakeMetadataText(metadata, tokenizer_json, std::move(text), warnings);
}

}  // namespace hone::runtime
