// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/peek.h"

#include <utility>
#include <vector>

#include "bundle/peek_model.h"
#include "formats/litertlm/llm_metadata.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::Section;
using litertlm::SectionType;

constexpr std::string_view kHoneJsonName = "hone.json";

Json ItemsFacts(const std::vector<litertlm::KeyValue>& items) {
  Json out(Json::Object{});
  for (const litertlm::KeyValue& item : items) out.Set(item.key, item.value);
  return out;
}

Json TokenFacts(const litertlm::TokenUnion& token) {
  if (token.is_text) return token.text;
  Json::Array ids;
  for (const std::int32_t id : token.ids) ids.emplace_back(id);
  return ids;
}

Json SamplerFacts(const litertlm::SamplerParameters& sampler) {
  static constexpr const char* kTypes[] = {"unspecified", "top_k", "top_p", "greedy"};
  const auto type = static_cast<std::size_t>(sampler.type);
  Json out(Json::Object{});
  out.Set("type", type < std::size(kTypes) ? Json(kTypes[type]) : Json(static_cast<int>(type)));
  out.Set("k", sampler.k);
  out.Set("p", static_cast<double>(sampler.p));
  out.Set("temperature", static_cast<double>(sampler.temperature));
  if (sampler.seed) out.Set("seed", *sampler.seed);
  return out;
}

Json LlmFacts(const litertlm::LlmMetadata& m) {
  Json out(Json::Object{});
  out.Set("model_type", m.model_type);
  out.Set("max_num_tokens", m.max_num_tokens);
  if (m.start_token) out.Set("start_token", TokenFacts(*m.start_token));
  Json::Array stops;
  for (const litertlm::TokenUnion& token : m.stop_tokens) stops.push_back(TokenFacts(token));
  out.Set("stop_tokens", std::move(stops));
  if (m.pad_token) out.Set("pad_token", TokenFacts(*m.pad_token));
  if (m.sampler) out.Set("sampler", SamplerFacts(*m.sampler));
  Json::Array channels;
  for (const litertlm::Channel& channel : m.channels) {
    Json entry(Json::Object{});
    entry.Set("name", channel.name);
    entry.Set("start", channel.start);
    entry.Set("end", channel.end);
    if (channel.is_reasoning) entry.Set("is_reasoning", *channel.is_reasoning);
    channels.push_back(std::move(entry));
  }
  if (!channels.empty()) out.Set("channels", std::move(channels));
  if (!m.suppress_tokens.empty()) {
    litertlm::TokenUnion suppressed;
    suppressed.ids = m.suppress_tokens;
    out.Set("suppress_tokens", TokenFacts(suppressed));
  }
  if (m.supports_thinking) out.Set("supports_thinking", *m.supports_thinking);
  if (m.supports_function_calling) {
    out.Set("supports_function_calling", *m.supports_function_calling);
  }
  if (m.min_runtime_version) out.Set("min_runtime_version", *m.min_runtime_version);
  if (!m.prompt_templates.empty()) out.Set("prompt_templates_bytes", m.prompt_templates.size());
  if (!m.unknown.empty()) out.Set("unknown_bytes", m.unknown.size());
  if (m.jinja_prompt_template) out.Set("jinja_prompt_template", *m.jinja_prompt_template);
  return out;
}

Json ExecutorFacts(const litertlm::ExecutorMetadata& m) {
  static constexpr const char* kTypes[] = {"unspecified", "global_key",  "global_value",
                                           "local_key",   "local_value", "linear_attention"};
  Json out(Json::Object{});
  out.Set("max_history_size", m.max_history_size);
  Json::Array states;
  for (const litertlm::StateBuffer& state : m.state_buffers) {
    const auto type = static_cast<std::size_t>(state.type);
    Json entry(Json::Object{});
    entry.Set("name", state.decode_input);
    entry.Set("type", type < std::size(kTypes) ? Json(kTypes[type]) : Json(static_cast<int>(type)));
    entry.Set("sequence_axis", state.sequence_axis);
    entry.Set("maximum_sequence_length", state.maximum_sequence_length);
    states.push_back(std::move(entry));
  }
  out.Set("state_buffers", std::move(states));
  return out;
}

Json SectionFacts(const Section& section) {
  Json out(Json::Object{});
  out.Set("type", litertlm::SectionTypeName(section.type));
  out.Set("begin", section.begin);
  out.Set("end", section.end);
  out.Set("bytes", section.end - section.begin);
  out.Set("items", ItemsFacts(section.items));
  return out;
}

std::string ModelType(const Section& section) {
  const std::string_view type = section.Item("model_type");
  return type.empty() ? "tf_lite_prefill_decode" : std::string(type);
}

class Peeker {
 public:
  explicit Peeker(const litertlm::Bundle& bundle) : bundle_(bundle) {}

  Result<Json> Run() {
    const litertlm::Header& header = bundle_.header();
    Json out(Json::Object{});
    out.Set("file", bundle_.path());
    out.Set("bytes", bundle_.map().bytes().size());
    out.Set("version", StrCat(header.major, ".", header.minor, ".", header.patch));
    Json::Array warnings;
    for (const std::string& warning : bundle_.warnings()) warnings.emplace_back(warning);
    out.Set("warnings", std::move(warnings));
    out.Set("system", ItemsFacts(header.system));
    Json::Array sections;
    for (const Section& section : header.sections) sections.push_back(SectionFacts(section));
    out.Set("sections", std::move(sections));
    models_ = Json::Array();
    totals_ = Json(Json::Object{});
    for (std::size_t i = 0; i < header.sections.size(); ++i) {
      const Section& section = header.sections[i];
      HONE_TRY(
          AddSection(section, out)
              .Context(StrCat("section ", i, " (", litertlm::SectionTypeName(section.type), ")"))
              .Context(bundle_.path()));
    }
    out.Set("models", std::move(models_));
    out.Set("bytes_by_precision", std::move(totals_));
    return out;
  }

 private:
  Status AddSection(const Section& section, Json& out) {
    const ByteSpan bytes = bundle_.SectionBytes(section);
    switch (section.type) {
      case SectionType::kLlmMetadata: {
        if (out.Find("llm_metadata")) return {};
        HONE_ASSIGN(const auto metadata, litertlm::ParseLlmMetadata(bytes));
        out.Set("llm_metadata", LlmFacts(metadata));
        return {};
      }
      case SectionType::kExecutorMetadata: {
        if (out.Find("executor_metadata")) return {};
        HONE_ASSIGN(const auto metadata, litertlm::ParseExecutorMetadata(bytes));
        out.Set("executor_metadata", ExecutorFacts(metadata));
        return {};
      }
      case SectionType::kHfTokenizerZlib: {
        HONE_ASSIGN(const std::string text, litertlm::InflateTokenizer(bytes));
        Json entry(Json::Object{});
        entry.Set("type", litertlm::SectionTypeName(section.type));
        entry.Set("bytes", bytes.size());
        entry.Set("raw_bytes", text.size());
        if (!out.Find("tokenizer")) out.Set("tokenizer", std::move(entry));
        return {};
      }
      case SectionType::kTfliteModel:
        return AddModel(section);
      case SectionType::kGenericBinaryData: {
        if (section.Item("name") != kHoneJsonName) return {};
        HONE_ASSIGN(Json content, ParseJson(AsText(bytes)));
        out.Set("hone", std::move(content));
        return {};
      }
      default:
        return {};
    }
  }

  Status AddModel(const Section& section) {
    const ByteSpan bytes = bundle_.SectionBytes(section);
    Json entry(Json::Object{});
    entry.Set("model_type", ModelType(section));
    entry.Set("bytes", bytes.size());
    const auto model = formats::tflite::ReadModel(bytes);
    if (model.ok()) {
      AddModelFacts(*model, bytes.size(), entry);
      AddBytes(*entry.Find("bytes_by_precision"), totals_);
    } else if (model.code() == Code::kUnsupported) {
      entry.Set("error", model.message());
    } else {
      return Status(model.code(), std::string(model.message()));
    }
    models_.AsArray().push_back(std::move(entry));
    return {};
  }

  const litertlm::Bundle& bundle_;
  Json models_;
  Json totals_;
};

}  // namespace

Result<Json> PeekBundle(const litertlm::Bundle& bundle) { return Peeker(bundle).Run(); }

}  // namespace hone::bundle
