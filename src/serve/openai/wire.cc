// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "serve/openai/wire.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <random>
#include <utility>

#include "serve/openai/utf8.h"

namespace hone::serve::openai {
namespace {

Json CandidateJson(const std::string& bytes, double logprob) {
  Json::Array values;
  for (const char c : bytes)
    values.push_back(Json(static_cast<int>(static_cast<unsigned char>(c))));
  return Json(Json::Object{{"token", EscapeInvalid(bytes)},
                           {"logprob", Json(WireLogprob(logprob))},
                           {"bytes", Json(std::move(values))}});
}

Json TextList(const std::vector<std::string>& texts) {
  Json::Array out;
  for (const std::string& text : texts) out.push_back(Json(text));
  return Json(std::move(out));
}

}  // namespace

std::string MakeId(std::string_view prefix) {
  static constexpr char kLetters[] =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr int kIdLetters = 24;
  static std::mutex mutex;
  static std::random_device device;
  const std::lock_guard lock(mutex);
  std::uniform_int_distribution<std::size_t> pick(0, sizeof(kLetters) - 2);
  std::string out(prefix);
  for (int i = 0; i < kIdLetters; ++i) out.push_back(kLetters[pick(device)]);
  return out;
}

std::string SseData(const Json& json, std::string_view event_name) {
  std::string out;
  if (!event_name.empty()) out = StrCat("event: ", event_name, "\n");
  return out + StrCat("data: ", json.Dump(), "\n\n");
}

std::string SseComment(std::string_view text) { return StrCat(": ", text, "\n\n"); }

Json UsageJson(const Usage& usage) {
  return Json(Json::Object{
      {"prompt_tokens", Json(usage.prompt_tokens)},
      {"completion_tokens", Json(usage.completion_tokens)},
      {"total_tokens", Json(usage.prompt_tokens + usage.completion_tokens)},
      {"prompt_tokens_details", Json(Json::Object{{"cached_tokens", Json(usage.cached_tokens)}})},
      {"completion_tokens_details",
       Json(Json::Object{{"reasoning_tokens", Json(usage.reasoning_tokens)}})}});
}

double WireLogprob(double logprob) {
  constexpr double kImpossible = -9999;
  if (std::isnan(logprob) || logprob < kImpossible) return kImpossible;
  return std::min(logprob, 0.0);
}

Json::Array TokenLogprobsJson(std::span<const TokenScore> tokens, std::int64_t max_top) {
  Json::Array out;
  for (const TokenScore& token : tokens) {
    std::vector<TokenCandidate> best = token.top;
    std::stable_sort(best.begin(), best.end(), [](const auto& a, const auto& b) {
      return WireLogprob(a.logprob) > WireLogprob(b.logprob);
    });
    Json::Array top;
    for (const TokenCandidate& candidate : best) {
      if (static_cast<std::int64_t>(top.size()) == max_top) break;
      top.push_back(CandidateJson(candidate.bytes, candidate.logprob));
    }
    Json json = CandidateJson(token.bytes, token.logprob.value_or(0));
    json.Set("top_logprobs", Json(std::move(top)));
    out.push_back(std::move(json));
  }
  return out;
}

void Notices::CopyTo(Json& object) const {
  if (!ignored_.empty()) object.Set("ignored_fields", TextList(ignored_));
  if (!warnings_.empty()) object.Set("warnings", TextList(warnings_));
}

void Notices::MoveTo(Json& object) {
  CopyTo(object);
  ignored_.clear();
  warnings_.clear();
}

}  // namespace hone::serve::openai
