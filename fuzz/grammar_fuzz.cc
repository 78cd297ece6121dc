// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A kind ('s' schema, 'o' object, 'r' regular expression, 'l' Lark) and a grammar. One that is
// accepted is followed for some tokens: every mask holds tokens that may be taken and no others.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "bridge/grammar.h"

namespace {

using hone::bridge::Grammar;
using hone::bridge::GrammarKind;
using hone::bridge::Tokenizer;
using hone::bridge::TokenMatcher;
using hone::bridge::Vocabulary;

constexpr std::int32_t kEnd = 259, kPieces = 264, kLogits = 270;

// The 256 bytes, some longer pieces and an end token.
Vocabulary MakeVocabulary() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    char piece[24];
    std::snprintf(piece, sizeof piece, "\"<0x%02X>\":%d,", static_cast<unsigned>(byte), byte);
    vocab += piece;
  }
  const auto tokenizer = Tokenizer::FromJson(
      R"({"version":"1.0","added_tokens":[{"id":259,"content":"</s>","special":true,)"
      R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],)"
      R"("decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]},)"
      R"("model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","merges":[],"vocab":{)" +
      vocab +
      R"("<unk>":256,"{\"":257,"\":":258,"</s>":259,"true":260,"ab":261,"  ":262,"é":263}}})");
  HONE_CHECK(tokenizer.ok());
  const std::int32_t stop[] = {kEnd};
  auto made = Vocabulary::Make(*tokenizer, kLogits, stop, {});
  HONE_CHECK(made.ok());
  return *std::move(made);
}

GrammarKind KindOf(std::uint8_t byte) {
  switch (byte) {
    case 's':
      return GrammarKind::kJsonSchema;
    case 'o':
      return GrammarKind::kJsonObject;
    case 'r':
      return GrammarKind::kRegex;
    default:
      return GrammarKind::kLark;
  }
}

void Follow(TokenMatcher& matcher, std::uint32_t seed) {
  for (int step = 0; step < 24 && !matcher.HasEnded(); ++step) {
    const auto mask = matcher.Mask();
    if (!mask.ok()) return;  // more work than allowed
    std::vector<std::int32_t> allowed;
    for (std::int32_t id = 0; id < kLogits; ++id) {
      if (((*mask)[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) != 0) {
        allowed.push_back(id);
      }
    }
    HONE_CHECK(!allowed.empty() && allowed.back() < kPieces);
    seed = seed * 1664525U + 1013904223U;
    const std::int32_t id = allowed[(seed >> 8) % allowed.size()];
    if (id == kEnd && matcher.MayEnd()) return;
    const auto status = matcher.Accept(id);
    if (!status.ok()) {
      HONE_CHECK(status.code() != hone::Code::kInvalidArgument);
      return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Vocabulary vocabulary = MakeVocabulary();
  if (size == 0) return 0;
  Grammar grammar;
  grammar.kind = KindOf(data[0]);
  grammar.text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto matcher = TokenMatcher::Compile(vocabulary, grammar);
  if (!matcher.ok()) {
    HONE_CHECK(!matcher.message().empty());
    return 0;
  }
  auto copy = matcher->Clone();
  Follow(*matcher, static_cast<std::uint32_t>(size));
  if (copy.ok()) Follow(*copy, data[size / 2]);
  return 0;
}
