// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "formats/gguf/gguf_text_internal.h"

namespace hone::formats::internal {
namespace {

// Which words a text is cut into before merging. The patterns are those of the models' own
// tokenizer.json files, not rewrites for another regex engine.
enum class Splits {
  kGpt2,        // the pattern inside ByteLevel
  kDigitsGpt2,  // single digits, then the pattern inside ByteLevel
  kLlama3,
  kQwen2,
  kQwen35,
  kMiniCpm5,
  kTekken,
  kGpt4o,
  kDeepSeekV3,
  kDeepSeekCoder,
};

struct Row {
  std::string_view name;
  Splits splits;
  bool ignore_merges = false;
  bool add_bos = false;
  bool nfc = false;
};
constexpr std::array kRows = {
    Row{"gpt-2", Splits::kGpt2},
    Row{"phi-2", Splits::kGpt2},
    Row{"jais", Splits::kGpt2},
    Row{"trillion", Splits::kGpt2},
    Row{"granite-docling", Splits::kGpt2},
    Row{"gigachat", Splits::kGpt2},
    Row{"mpt", Splits::kGpt2, false, false, true},
    Row{"olmo", Splits::kGpt2, false, false, true},
    Row{"smollm", Splits::kDigitsGpt2},
    Row{"starcoder", Splits::kDigitsGpt2},
    Row{"refact", Splits::kDigitsGpt2},
    Row{"codeshell", Splits::kDigitsGpt2},
    Row{"llama-bpe", Splits::kLlama3, true, true},
    Row{"llama3", Splits::kLlama3, true, true},
    Row{"llama-v3", Splits::kLlama3, true, true},
    Row{"falcon3", Splits::kLlama3, true, true},
    Row{"falcon-h1", Splits::kLlama3, true, true},
    Row{"lfm2", Splits::kLlama3, true, true},
    Row{"smaug-bpe", Splits::kLlama3},
    Row{"dbrx", Splits::kLlama3},
    Row{"glm4", Splits::kLlama3},
    Row{"chatglm-bpe", Splits::kLlama3},
    Row{"qwen2", Splits::kQwen2, false, false, true},
    Row{"deepseek-r1-qwen", Splits::kQwen2},
    Row{"hunyuan", Splits::kQwen2},
    Row{"qwen35", Splits::kQwen35, false, false, true},
    Row{"minicpm5", Splits::kMiniCpm5, true},
    Row{"tekken", Splits::kTekken, true, true},
    Row{"gpt-4o", Splits::kGpt4o},
    Row{"llama4", Splits::kGpt4o},
    Row{"deepseek-v3", Splits::kDeepSeekV3},
    Row{"hunyuan-dense", Splits::kDeepSeekV3},
    Row{"deepseek-coder", Splits::kDeepSeekCoder},
};

constexpr std::string_view kContractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr std::string_view kWord = R"([^\r\n\p{L}\p{N}]?\p{L}+)";
constexpr std::string_view kOther = R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOtherSlash = R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
constexpr std::string_view kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";

// Contractions, words, numbers, and the rest, as Llama 3 and its kin have them.
std::string Llama3Pattern(std::string_view numbers) {
  return StrCat(kContractions, "|", kWord, "|", numbers, "|", kOther);
}

// Words by the shape of their letters: Upper* lower+, or Upper+ lower*.
std::string CasePattern(std::string_view suffix, std::string_view numbers) {
  const std::string_view lead = R"([^\r\n\p{L}\p{N}]?)";
  return StrCat(lead, kUpper, "*", kLower, "+", suffix, "|", lead, kUpper, "+", kLower, "*", suffix,
                "|", numbers, "|", kOtherSlash);
}

std::vector<std::string> Patterns(Splits splits) {
  switch (splits) {
    case Splits::kGpt2:
    case Splits::kDigitsGpt2:
      return {};
    case Splits::kLlama3:
      return {Llama3Pattern(R"(\p{N}{1,3})")};
    case Splits::kQwen2:
      return {Llama3Pattern(R"(\p{N})")};
    case Splits::kQwen35:
      return {StrCat(kContractions,
                     R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)",
                     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};
    case Splits::kMiniCpm5:
      return {R"(\p{N}{1,3})", Llama3Pattern(R"(\p{N}+)")};
    case Splits::kTekken:
      return {CasePattern("", R"(\p{N})")};
    case Splits::kGpt4o:
      return {CasePattern(StrCat(kContractions, "?"), R"(\p{N}{1,3})")};
    case Splits::kDeepSeekV3:
      return {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
              StrCat(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)",
                     R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)",
                     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};
    case Splits::kDeepSeekCoder:
      return {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
              "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", R"(\p{N})"};
  }
  return {};
}

Json ByteLevel(bool use_regex) {
  return Json(Json::Object{{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", use_regex}});
}

Json SequenceOf(Json::Array parts) {
  return Json(Json::Object{{"type", "Sequence"}, {"pretokenizers", std::move(parts)}});
}

Json MakePreTokenizer(Splits splits) {
  if (splits == Splits::kGpt2) return ByteLevel(true);
  Json::Array parts;
  if (splits == Splits::kDigitsGpt2) {
    parts.push_back(Json(Json::Object{{"type", "Digits"}, {"individual_digits", true}}));
  }
  for (std::string& pattern : Patterns(splits)) {
    parts.push_back(
        Json(Json::Object{{"type", "Split"},
                          {"pattern", Json(Json::Object{{"Regex", Json(std::move(pattern))}})},
                          {"behavior", "Isolated"},
                          {"invert", false}}));
  }
  parts.push_back(ByteLevel(splits == Splits::kDigitsGpt2));
  return SequenceOf(std::move(parts));
}

}  // namespace

std::optional<PreTokenizer> FindPreTokenizer(std::string_view name) {
  const auto row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == name; });
  if (row == kRows.end()) return std::nullopt;
  PreTokenizer out;
  out.pre_tokenizer = MakePreTokenizer(row->splits);
  if (row->nfc) out.normalizer = Json(Json::Object{{"type", "NFC"}});
  out.ignore_merges = row->ignore_merges;
  out.add_bos = row->add_bos;
  return out;
}

}  // namespace hone::formats::internal
