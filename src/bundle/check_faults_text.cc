// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "bridge/tokenizer.h"
#include "bundle/check_faults.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::LlmMetadata;
using litertlm::SectionType;
using Bytes = std::vector<std::byte>;

void SetText(Bytes& bytes, std::string_view text) {
  const ByteSpan from = AsBytes(text);
  bytes.assign(from.begin(), from.end());
}

template <typename T>
void Put(Bytes& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}

litertlm::TokenUnion Id(std::int32_t id) {
  litertlm::TokenUnion token;
  token.ids = {id};
  return token;
}

litertlm::SamplerParameters Sampler(litertlm::SamplerType type, std::int32_t k, float p) {
  litertlm::SamplerParameters out;
  out.type = type;
  out.k = k;
  out.p = p;
  out.temperature = 1;
  return out;
}

// The golden tokenizer's id of a piece.
std::int32_t PieceId(TestBundle& bundle, std::string_view piece) {
  std::optional<std::int32_t> id;
  bundle.EditTokenizer([&](std::string& json) {
    auto tokenizer = bridge::Tokenizer::FromJson(json);
    if (tokenizer.ok()) id = tokenizer->TokenId(piece);
  });
  EXPECT_TRUE(id.has_value()) << piece;
  return id.value_or(0);
}

void AddStop(TestBundle& bundle, std::int32_t id) {
  bundle.EditLlm([&](LlmMetadata& m) { m.stop_tokens.push_back(Id(id)); });
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// A part of the file that is larger than 2 GiB and has no bytes on the disk.
void AddHuge(TestBundle& bundle, SectionType type) {
  bundle.Add(type, "\xff\xff\xff\x7fTFL3", {{.key = "model_type", .value = "tf_lite_aux"}});
  bundle.edit_header = [](litertlm::Header& header) {
    header.sections.back().end = header.sections.back().begin + (std::uint64_t{1} << 31) + 4096;
  };
}

constexpr Fault kContainer[] = {
    {"not-a-bundle", nullptr, [](Bytes& b) { SetText(b, "PK\x03\x04 a zip archive"); }},
    {"web-page", nullptr, [](Bytes& b) { SetText(b, "<!doctype html><html>log in</html>"); }},
    {"lfs-pointer", nullptr,
     [](Bytes& b) {
       SetText(b, "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 1234\n");
     }},
    {"truncated", nullptr, [](Bytes& b) { b.resize(b.size() / 2); }},
    {"version-major", nullptr, [](Bytes& b) { Put(b, 8, std::uint32_t{2}); }},
    {"version-minor", nullptr, [](Bytes& b) { Put(b, 12, std::uint32_t{99}); }},
    {"header-end", nullptr, [](Bytes& b) { Put(b, 24, std::uint64_t{b.size() + 1}); }},
    {"header-damaged", nullptr,
     [](Bytes& b) { std::fill(b.begin() + 32, b.begin() + 64, std::byte{0xff}); }},
    {"header-size", [](TestBundle& b) { b.first_begin = 32768; },
     [](Bytes& b) { Put(b, 24, std::uint64_t{20000}); }},
    {"section-range",
     [](TestBundle& b) {
       b.edit_header = [](litertlm::Header& h) { h.sections[1].end = h.sections[1].begin - 1; };
     }},
    {"section-overlap",
     [](TestBundle& b) {
       b.edit_header = [](litertlm::Header& h) { h.sections[1].begin = h.sections[0].begin; };
     }},
    {"section-unaligned",
     [](TestBundle& b) {
       b.edit_header = [](litertlm::Header& h) {
         h.sections[1].begin += 0;
         h.sections[0].begin += 1;
       };
     }},
    {"section-empty", [](TestBundle& b) { b.Add(SectionType::kGenericBinaryData, ""); }},
    {"section-unknown",
     [](TestBundle& b) { b.Add(static_cast<SectionType>(42), "something new"); }},
    {"section-duplicate",
     [](TestBundle& b) {
       b.Add(SectionType::kLlmMetadata, b.Find(SectionType::kLlmMetadata)->content);
     }},
    {"section-over-2gib", [](TestBundle& b) { AddHuge(b, SectionType::kGenericBinaryData); }},
    {"tokenizer-two", [](TestBundle& b) { b.Add(SectionType::kSpTokenizer, "spiece"); }},
    {"metadata-missing", [](TestBundle& b) { b.Remove(SectionType::kLlmMetadata); }},
    {"metadata-damaged",
     [](TestBundle& b) { b.Find(SectionType::kLlmMetadata)->content = "\xff\xff\xff"; }},
    {"tokenizer-missing", [](TestBundle& b) { b.Remove(SectionType::kHfTokenizerZlib); }},
    {"tokenizer-size",
     [](TestBundle& b) {
       const std::uint64_t size = std::uint64_t{1} << 40;
       std::memcpy(b.Find(SectionType::kHfTokenizerZlib)->content.data(), &size, sizeof(size));
     }},
    {"tokenizer-damaged",
     [](TestBundle& b) { b.EditTokenizer([](std::string& json) { json = "{\"version\":"; }); }},
    {"tokenizer-unsupported",
     [](TestBundle& b) {
       b.Remove(SectionType::kHfTokenizerZlib);
       b.Add(SectionType::kSpTokenizer, "spiece");
     }},
    {"decoder-missing",
     [](TestBundle& b) { b.Remove(SectionType::kTfliteModel, "tf_lite_prefill_decode"); }},
    {"flatbuffer-over-2gib", [](TestBundle& b) { AddHuge(b, SectionType::kTfliteModel); }},
    {"model-damaged",
     [](TestBundle& b) {
       b.Find(SectionType::kTfliteModel, "tf_lite_embedder")->content = "not a model at all";
     }},
    {"model-unsupported",
     [](TestBundle& b) {
       b.EditModel("tf_lite_embedder", [](auto& model, auto&) { model.version = 2; });
     }},
    {"signature-missing",
     [](TestBundle& b) {
       b.EditModel("tf_lite_prefill_decode", [](auto& model, auto&) {
         std::erase_if(model.signatures, [](const auto& s) { return s.key == "decode"; });
       });
     }},
    {"embedder-missing",
     [](TestBundle& b) { b.Remove(SectionType::kTfliteModel, "tf_lite_embedder"); }},
};

constexpr Fault kText[] = {
    {"stop-missing",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.stop_tokens.clear(); }); }},
    {"stop-out-of-vocabulary", [](TestBundle& b) { AddStop(b, 9999); }},
    {"stop-whitespace", [](TestBundle& b) { AddStop(b, PieceId(b, "\xc4\x8a")); }},
    {"stop-plain-word", [](TestBundle& b) { AddStop(b, PieceId(b, "\xc4\xa0the")); }},
    {"stop-fused-missing",
     [](TestBundle& b) {
       b.EditTokenizer(
           [](std::string& json) { ReplaceAll(json, "<empty_output>", "~<|im_end|>"); });
     }},
    {"stop-eos-missing",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.stop_tokens = {Id(0)}; }); }},
    {"start-token-unknown",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.start_token = Id(9999); }); }},
    {"bos-doubled",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.start_token = Id(1); }); }},
    {"bos-missing",
     [](TestBundle& b) {
       b.SetHone(R"({"tokens":{"bos":"<|endoftext|>"}})");
       b.EditLlm([](LlmMetadata& m) {
         m.jinja_prompt_template = "{{ bos_token }}" + *m.jinja_prompt_template;
       });
     }},
    {"sampler-missing",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.sampler.reset(); }); }},
    {"sampler-type",
     [](TestBundle& b) {
       b.EditLlm([](LlmMetadata& m) { m.sampler = Sampler(litertlm::SamplerType::kGreedy, 1, 1); });
     }},
    {"sampler-k",
     [](TestBundle& b) {
       b.EditLlm([](LlmMetadata& m) { m.sampler = Sampler(litertlm::SamplerType::kTopP, 0, 1); });
     }},
    {"sampler-range",
     [](TestBundle& b) {
       b.EditLlm([](LlmMetadata& m) { m.sampler = Sampler(litertlm::SamplerType::kTopP, 1, 2); });
     }},
    {"max-tokens-missing",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.max_num_tokens = 0; }); }},
    {"max-tokens-over-cache",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.max_num_tokens = 129; }); }},
    {"model-type-missing",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.model_type.clear(); }); }},
    {"template-missing",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.jinja_prompt_template.reset(); }); }},
    {"channel-missing",
     [](TestBundle& b) {
       b.EditLlm(
           [](LlmMetadata& m) { *m.jinja_prompt_template += "{% if false %}<think>{% endif %}"; });
     }},
    {"flags-missing",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.supports_thinking.reset(); }); }},
    {"runtime-newer",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.min_runtime_version = "0.19.0"; }); }},
    {"suppress-out-of-vocabulary",
     [](TestBundle& b) { b.EditLlm([](LlmMetadata& m) { m.suppress_tokens = {512}; }); }},
};

// A template that takes strings and parts, with tools and results where asked for.
#define HONE_MESSAGE                                                                          \
  "<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% elif m.content %}" \
  "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}<|im_end|>\n"
#define HONE_LOOP "{% for m in messages %}" HONE_MESSAGE "{% endfor %}"
#define HONE_PROMPT "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define HONE_TOOLS "{% if tools %}{{ tools | tojson }}{% endif %}"

constexpr Fault kTemplate[] = {
    {"template-syntax", [](TestBundle& b) { b.SetTemplate("{% for m in %}"); }},
    {"template-fails",
     [](TestBundle& b) { b.SetTemplate("{{ raise_exception('no') }}" HONE_LOOP HONE_PROMPT); }},
    {"template-drops",
     [](TestBundle& b) {
       b.SetTemplate("{% for m in messages %}{% if m.role != 'assistant' %}" HONE_MESSAGE
                     "{% endif %}{% endfor %}" HONE_PROMPT);
     }},
    {"template-litert-lm",
     [](TestBundle& b) { b.SetTemplate("{{ messages[0].get('x', '') }}" HONE_LOOP HONE_PROMPT); }},
    {"generation-prompt-missing", [](TestBundle& b) { b.SetTemplate(HONE_LOOP); }},
    {"template-date",
     [](TestBundle& b) { b.SetTemplate("{{ strftime_now('%Y') }}" HONE_LOOP HONE_PROMPT); }},
    {"system-refused",
     [](TestBundle& b) {
       b.SetTemplate(
           "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}"
           "{% endif %}" HONE_LOOP HONE_PROMPT);
     }},
    {"system-dropped",
     [](TestBundle& b) {
       b.SetTemplate("{% for m in messages %}{% if m.role != 'system' %}" HONE_MESSAGE
                     "{% endif %}{% endfor %}" HONE_PROMPT);
     }},
    {"tools-fail",
     [](TestBundle& b) {
       b.SetTemplate(
           "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" HONE_LOOP HONE_PROMPT);
     }},
    {"tools-dropped", [](TestBundle& b) { b.SetTemplate(HONE_LOOP HONE_PROMPT); }},
    {"tools-claimed",
     [](TestBundle& b) {
       b.EditLlm([](LlmMetadata& m) { m.supports_function_calling = true; });
       b.SetTemplate(HONE_LOOP HONE_PROMPT);
     }},
    {"tool-results",
     [](TestBundle& b) {
       b.SetTemplate(HONE_TOOLS "{% for m in messages %}{% if m.role != 'tool' %}" HONE_MESSAGE
                                "{% endif %}{% endfor %}" HONE_PROMPT);
     }},
    {"null-content",
     [](TestBundle& b) {
       b.SetTemplate(HONE_TOOLS
                     "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
                     "<|im_end|>\n{% endfor %}" HONE_PROMPT);
     }},
    {"thinking-fails",
     [](TestBundle& b) {
       b.SetTemplate(
           "{% if enable_thinking is false %}{{ raise_exception('always') }}{% endif %}" HONE_LOOP
               HONE_PROMPT);
     }},
    {"thinking-ignored",
     [](TestBundle& b) {
       b.EditLlm([](LlmMetadata& m) { m.supports_thinking = true; });
       b.SetTemplate(HONE_LOOP HONE_PROMPT);
     }},
    {"thinking-default",
     [](TestBundle& b) {
       b.SetTemplate(HONE_LOOP HONE_PROMPT
                     "{% if enable_thinking is false %}(no thoughts){% endif %}");
     }},
    {"history-rewritten",
     [](TestBundle& b) {
       b.SetTemplate(
           "{% for m in messages %}<|im_start|>{{ m.role }}\n"
           "{{ m.content.split('</think>')[-1] if not loop.last else m.content }}"
           "<|im_end|>\n{% endfor %}" HONE_PROMPT);
     }},
};

}  // namespace

std::span<const Fault> ContainerFaults() { return kContainer; }
std::span<const Fault> TextFaults() { return kText; }
std::span<const Fault> TemplateFaults() { return kTemplate; }

}  // namespace hone::bundle
