// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Times grammars with the vocabulary of a tokenizer.json: making the vocabulary, compiling a JSON
// schema, and the mask in front of each token of an answer of some 200 tokens.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "bridge/grammar.h"
#include "bridge/tokenizer.h"

namespace hone {
namespace {

constexpr int kVocabularies = 5;
constexpr int kAnswers = 9;  // each from a grammar that is compiled anew

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "id": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    "customer": {"type": "object", "properties": {
      "name": {"type": "string"}, "email": {"type": "string", "format": "email"}, "age": {"type": "integer", "minimum": 18, "maximum": 120},
      "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}, "country": {"enum": ["FR", "DE", "JP"]}},
        "required": ["street", "city", "country"], "additionalProperties": false}},
      "required": ["name", "email", "age", "address"], "additionalProperties": false},
    "items": {"type": "array", "minItems": 1, "maxItems": 20, "items": {"type": "object", "properties": {
      "title": {"type": "string", "maxLength": 80}, "price": {"type": "number", "minimum": 0}, "count": {"type": "integer", "minimum": 1},
      "tags": {"type": "array", "items": {"type": "string"}}},
      "required": ["title", "price", "count", "tags"], "additionalProperties": false}},
    "paid": {"type": "boolean"},
    "note": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 400}]}
  },
  "required": ["id", "customer", "items", "paid", "note"], "additionalProperties": false})";

constexpr const char* kAnswer =
    R"js({"id": "ABC-2041", "customer": {"name": "Élodie Martin", "email": "elodie.martin@example.org", "age": 41, )js"
    R"js("address": {"street": "12 rue de la République", "city": "Lyon", "country": "FR"}}, "items": [)js"
    R"js({"title": "Mechanical keyboard, 87 keys", "price": 129.9, "count": 1, "tags": ["hardware", "input", "usb-c"]}, )js"
    R"js({"title": "Notebook \"Grid A5\"", "price": 7.5, "count": 12, "tags": ["paper"]}, )js"
    R"js({"title": "お茶 (green tea)", "price": 18, "count": 2, "tags": []}], "paid": true, )js"
    R"js("note": "Please ring twice; the door at the back is open until six in the evening, and the neighbours know."})js";

double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

void Print(const char* what, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const auto at = [&](double part) {
    return ms[static_cast<std::size_t>(part * static_cast<double>(ms.size() - 1))];
  };
  std::printf("%-34s %5zu times: median %8.3f ms, least %8.3f, 99%% %8.3f, most %8.3f\n", what,
              ms.size(), at(0.5), ms.front(), at(0.99), ms.back());
}

// The masks of one answer, in milliseconds, by position.
Result<std::vector<double>> TimeMasks(bridge::TokenMatcher& matcher,
                                      const std::vector<std::int32_t>& ids) {
  std::vector<double> ms;
  for (const std::int32_t id : ids) {
    const auto begin = std::chrono::steady_clock::now();
    HONE_ASSIGN(const auto mask, matcher.Mask());
    ms.push_back(MillisecondsSince(begin));
    HONE_CHECK((mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) != 0);
    HONE_TRY(matcher.Accept(id));
  }
  HONE_CHECK(matcher.MayEnd());
  return ms;
}

Status Run(const std::string& path) {
  HONE_ASSIGN(const std::string json, ReadFile(path));
  HONE_ASSIGN(const bridge::Tokenizer tokenizer, bridge::Tokenizer::FromJson(json));
  HONE_ASSIGN(const std::vector<std::int32_t> ids,
              tokenizer.Encode(kAnswer, {.parse_special_tokens = false}));
  std::printf("%lld ids, an answer of %zu tokens\n", static_cast<long long>(tokenizer.size()),
              ids.size());

  std::vector<double> made;
  bridge::Vocabulary vocabulary;
  for (int i = 0; i < kVocabularies; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    HONE_ASSIGN(vocabulary, bridge::Vocabulary::Make(tokenizer, tokenizer.size(), {}, {}));
    made.push_back(MillisecondsSince(begin));
  }
  Print("vocabulary", std::move(made));

  const bridge::Grammar grammar{bridge::GrammarKind::kJsonSchema, kSchema};
  std::vector<double> compiled, cold, warm, cold_answer, warm_answer;
  for (int i = 0; i < kAnswers; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    HONE_ASSIGN(bridge::TokenMatcher matcher, bridge::TokenMatcher::Compile(vocabulary, grammar));
    compiled.push_back(MillisecondsSince(begin));
    HONE_ASSIGN(bridge::TokenMatcher first, matcher.Clone());
    HONE_ASSIGN(const std::vector<double> masks, TimeMasks(first, ids));
    HONE_ASSIGN(bridge::TokenMatcher second, matcher.Clone());
    HONE_ASSIGN(const std::vector<double> again, TimeMasks(second, ids));
    double sums[2] = {};
    for (std::size_t j = 0; j < ids.size(); ++j) {
      sums[0] += masks[j];
      sums[1] += again[j];
    }
    cold.insert(cold.end(), masks.begin(), masks.end());
    warm.insert(warm.end(), again.begin(), again.end());
    cold_answer.push_back(sums[0]);
    warm_answer.push_back(sums[1]);
  }
  Print("compiling the schema", std::move(compiled));
  Print("mask, first answer", std::move(cold));
  Print("mask, second answer of the matcher", std::move(warm));
  Print("all masks of a first answer", std::move(cold_answer));
  Print("all masks of a second answer", std::move(warm_answer));
  return {};
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: grammar_speed TOKENIZER.json\n");
    return 2;
  }
  const hone::Status status = hone::Run(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return 1;
}
