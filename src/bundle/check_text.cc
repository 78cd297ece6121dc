// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What LlmMetadata says about text: stops, BOS, sampler, limits, vocabulary.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "bundle/check_groups.h"
#include "exporter/template_probe.h"
#include "formats/thinking_marks.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;

constexpr std::size_t kMaxNamed = 5;  // ids that a finding lists
constexpr std::size_t kMaxEnds = 64;  // stop texts that are looked for in other tokens
constexpr int kKnownRuntime[] = {0, 18, 1};

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

bool IsSpecial(const bridge::Tokenizer& tokenizer, std::int32_t id) {
  const auto& added = tokenizer.added_tokens();
  return std::any_of(added.begin(), added.end(),
                     [id](const bridge::AddedToken& t) { return t.id == id && t.special; });
}

// The ids that end an answer alone, and the texts of all stops.
struct Stops {
  std::set<std::int32_t> ids;
  std::set<std::string> texts;
  std::size_t resolved = 0;
};

Stops ResolveStops(const Subject& subject) {
  Stops stops;
  for (const litertlm::TokenUnion& stop : subject.llm->stop_tokens) {
    const ResolvedToken token = subject.Resolve(stop);
    if (token.ids.empty()) continue;
    ++stops.resolved;
    if (token.ids.size() == 1) stops.ids.insert(token.ids[0]);
    if (!token.text.empty()) stops.texts.insert(token.text);
  }
  return stops;
}

// White space and plain words as stop tokens; special tokens may be either.
void CheckOrdinary(const Subject& subject, std::int32_t id, Findings& out) {
  const bridge::Tokenizer& tokenizer = *subject.tokenizer;
  if (IsSpecial(tokenizer, id)) return;
  const auto decoded = tokenizer.Decode(std::span(&id, 1), /*skip_special=*/false);
  if (!decoded.ok()) return;
  std::string_view text = *decoded;
  if (text.empty()) return;
  if (std::all_of(text.begin(), text.end(), IsSpace)) {
    return out.Add("stop-whitespace", StrCat("stop token ", TokenText(subject, id)));
  }
  while (IsSpace(text.front())) text.remove_prefix(1);
  if (std::all_of(text.begin(), text.end(), IsLetter)) {
    out.Add("stop-plain-word", StrCat("stop token ", TokenText(subject, id)));
  }
}

// Tokens that hold a stop text and more, such as ".<|im_end|>\n", and do not stop.
void CheckFused(const Subject& subject, const Stops& stops, Findings& out) {
  const auto& added = subject.tokenizer->added_tokens();
  std::vector<std::string> ends;
  for (const bridge::AddedToken& token : added) {
    if (token.special && !token.content.empty() && stops.ids.contains(token.id) &&
        ends.size() < kMaxEnds) {
      ends.push_back(token.content);
    }
  }
  std::vector<std::int32_t> missing;
  for (const bridge::AddedToken& token : added) {
    if (stops.ids.contains(token.id)) continue;
    const bool holds = std::any_of(ends.begin(), ends.end(), [&](const std::string& end) {
      return token.content.size() > end.size() && token.content.find(end) != std::string::npos;
    });
    if (holds) missing.push_back(token.id);
  }
  if (missing.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), kMaxNamed); ++i) {
    names += StrCat(i == 0 ? "" : ", ", TokenText(subject, missing[i]));
  }
  if (missing.size() > kMaxNamed) names += ", ...";
  out.Add("stop-fused-missing",
          StrCat(missing.size(), " tokens hold a stop text and are no stop tokens: ", names));
}

void CheckEnds(const Subject& subject, const Stops& stops, Findings& out) {
  std::set<std::string> wanted;
  if (!subject.end_of_turn.empty()) wanted.insert(subject.end_of_turn);
  const Json* tokens = subject.hone ? subject.hone->Find("tokens") : nullptr;
  const Json* eos = tokens ? tokens->Find("eos") : nullptr;
  if (eos && eos->IsString() && !eos->AsString().empty()) wanted.insert(eos->AsString());
  for (const std::string& text : wanted) {
    const auto id = subject.tokenizer->TokenId(text);
    if (!id || stops.ids.contains(*id)) continue;
    const char* where = text == subject.end_of_turn
                            ? "which the chat template writes after an answer"
                            : "the eos token";
    out.Add("stop-eos-missing",
            StrCat("token ", TokenText(subject, *id), ", ", where, ", is no stop token"));
  }
}

// The probe conversation as LiteRT-LM renders it; content as parts where strings fail.
std::string Render(const Subject& subject, bool empty_bos) {
  for (const bool parts : {false, true}) {
    auto text = exporter::RenderProbe(*subject.chat_template, subject.text,
                                      {.content_as_parts = parts, .empty_bos = empty_bos});
    if (text.ok()) return *std::move(text);
  }
  return "";
}

bool NewerThanKnown(const std::string& version) {
  std::size_t at = 0;
  for (const int known : kKnownRuntime) {
    int part = 0;
    while (at < version.size() && std::isdigit(static_cast<unsigned char>(version[at])) != 0 &&
           part < 100000) {
      part = part * 10 + (version[at++] - '0');
    }
    if (part != known) return part > known;
    if (at < version.size()) ++at;
  }
  return false;
}

}  // namespace

void CheckStops(const Subject& subject, Findings& out) {
  if (!subject.llm) return;
  const Stops stops = ResolveStops(subject);
  if (stops.resolved == 0 && (subject.tokenizer || subject.llm->stop_tokens.empty())) {
    out.Add("stop-missing", StrCat("LlmMetadata lists ", subject.llm->stop_tokens.size(),
                                   " stop tokens, none of which is a token"));
  }
  const std::int64_t vocab = subject.facts.vocab;
  for (const std::int32_t id : stops.ids) {
    if (id < 0 || (vocab > 0 && id >= vocab)) {
      out.Add("stop-out-of-vocabulary",
              StrCat("stop id ", id, ", but the model has the ids 0 to ", vocab - 1));
    } else if (subject.tokenizer) {
      CheckOrdinary(subject, id, out);
    }
  }
  if (!subject.tokenizer || stops.resolved == 0) return;
  CheckFused(subject, stops, out);
  CheckEnds(subject, stops, out);
}

void CheckStart(const Subject& subject, Findings& out) {
  if (!subject.llm || !subject.tokenizer) return;
  if (subject.llm->start_token) {
    const ResolvedToken start = subject.Resolve(*subject.llm->start_token);
    const bool outside = std::any_of(start.ids.begin(), start.ids.end(), [&](std::int32_t id) {
      return id < 0 || (subject.facts.vocab > 0 && id >= subject.facts.vocab);
    });
    if (start.ids.size() != 1 || outside) {
      return out.Add("start-token-unknown",
                     StrCat("the start token ", Json(start.text).Dump(), " is ", start.ids.size(),
                            " tokens", outside ? ", outside the vocabulary" : ""));
    }
    if (!subject.chat_template || start.text.empty()) return;
    if (Render(subject, /*empty_bos=*/true).starts_with(start.text)) {
      out.Add("bos-doubled",
              StrCat("the start token is ", Json(start.text).Dump(),
                     " and the chat template writes it too: a prompt begins with it twice"));
    }
    return;
  }
  const std::string& bos = subject.text.bos_token;
  if (bos.empty()) return;
  if (!subject.chat_template) {
    return out.Add("bos-missing", StrCat("the tokenizer puts ", Json(bos).Dump(),
                                         " in front of text, and there is no start token"));
  }
  if (Render(subject, true).starts_with(bos) || !Render(subject, false).starts_with(bos)) return;
  out.Add("bos-missing", StrCat("the chat template writes ", Json(bos).Dump(),
                                " by the variable bos_token, which LiteRT-LM leaves empty, and "
                                "there is no start token"));
}

void CheckSampler(const Subject& subject, Findings& out) {
  if (!subject.llm) return;
  if (!subject.llm->sampler) {
    return out.Add("sampler-missing", "LlmMetadata has no sampler parameters");
  }
  const litertlm::SamplerParameters& sampler = *subject.llm->sampler;
  if (sampler.type == litertlm::SamplerType::kTopK ||
      sampler.type == litertlm::SamplerType::kGreedy) {
    out.Add(
        "sampler-type",
        StrCat("the sampler is ", sampler.type == litertlm::SamplerType::kTopK ? "TOP_K" : "GREEDY",
               ", only TOP_P exists"));
  } else if (sampler.type == litertlm::SamplerType::kTopP && sampler.k <= 0) {
    out.Add("sampler-k", StrCat("the sampler's k is ", sampler.k, ", 1 or more is expected"));
  }
  const bool bad_p = !(sampler.p > 0 && sampler.p <= 1);
  const bool bad_temperature = !(sampler.temperature >= 0) || !std::isfinite(sampler.temperature);
  if (sampler.type == litertlm::SamplerType::kTopP && (bad_p || bad_temperature)) {
    out.Add("sampler-range",
            StrCat("the sampler has p ", sampler.p, " and temperature ", sampler.temperature));
  }
}

void CheckLimits(const Subject& subject, Findings& out) {
  if (!subject.llm) return;
  const litertlm::LlmMetadata& llm = *subject.llm;
  const std::int64_t context = subject.facts.context;
  if (llm.max_num_tokens <= 0) {
    out.Add("max-tokens-missing", "LlmMetadata has no max_num_tokens");
  } else if (context > 0 && llm.max_num_tokens > context) {
    out.Add("max-tokens-over-cache", StrCat("max_num_tokens is ", llm.max_num_tokens,
                                            ", the cache has ", context, " positions"));
  }
  if (llm.model_type.empty()) out.Add("model-type-missing", "LlmMetadata has no llm_model_type");
  if (!llm.jinja_prompt_template || llm.jinja_prompt_template->empty()) {
    out.Add("template-missing", "LlmMetadata has no jinja_prompt_template");
  } else if (llm.channels.empty()) {
    const std::string_view start = formats::FindThinkingMarks(*llm.jinja_prompt_template).start;
    if (!start.empty()) {
      out.Add("channel-missing",
              StrCat("the chat template writes ", start, ", and no channel is declared"));
    }
  }
  if (!llm.supports_thinking || !llm.supports_function_calling) {
    out.Add("flags-missing",
            "LlmMetadata does not say supports_thinking and supports_function_calling");
  }
  if (llm.min_runtime_version && NewerThanKnown(*llm.min_runtime_version)) {
    out.Add("runtime-newer",
            StrCat("min_runtime_version is ", Json(*llm.min_runtime_version).Dump(),
                   ", the newest that Hone knows is 0.18.1"));
  }
}

void CheckVocabulary(const Subject& subject, Findings& out) {
  const std::int64_t vocab = subject.facts.vocab;
  if (vocab <= 0) return;
  std::vector<std::int32_t> suppressed;
  if (subject.llm) suppressed = subject.llm->suppress_tokens;
  std::sort(suppressed.begin(), suppressed.end());
  const auto outside = std::count_if(suppressed.begin(), suppressed.end(),
                                     [&](std::int32_t id) { return id < 0 || id >= vocab; });
  if (outside > 0) {
    out.Add("suppress-out-of-vocabulary", StrCat(outside, " of ", suppressed.size(),
                                                 " suppressed ids are outside 0 to ", vocab - 1));
  }
  if (!subject.tokenizer) return;
  if (subject.tokenizer->size() > vocab) {
    return out.Add("tokenizer-too-large", StrCat("the tokenizer has ", subject.tokenizer->size(),
                                                 " ids, the model ", vocab, " logits"));
  }
  // Behind the tokenizer's ids all are without a token; only the listed ones are not open.
  const std::int64_t known = subject.tokenizer->size();
  const auto listed = std::unique(suppressed.begin(), suppressed.end());
  suppressed.erase(listed, suppressed.end());
  const auto behind = std::count_if(suppressed.begin(), suppressed.end(),
                                    [&](std::int32_t id) { return id >= known && id < vocab; });
  std::int64_t open = vocab - known - behind, first = open > 0 ? known : -1;
  for (std::int64_t id = known - 1; id >= 0; --id) {
    const auto token = static_cast<std::int32_t>(id);
    if (subject.tokenizer->Piece(token).ok()) continue;
    if (std::binary_search(suppressed.begin(), suppressed.end(), token)) continue;
    ++open;
    first = id;
  }
  if (open > 0) {
    out.Add("vocabulary-padded", StrCat(open, " of ", vocab,
                                        " ids have no token and are not "
                                        "suppressed, one is ",
                                        first));
  }
}

}  // namespace hone::bundle
