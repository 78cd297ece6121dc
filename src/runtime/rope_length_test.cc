// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// LongRoPE of a checkpoint: all keys of a sequence follow its length, on whatever way it got there.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/reference_forward.h"
#include "runtime/decode_loop.h"
#include "runtime/engine.h"
#include "runtime/tiny_model.h"

namespace hone::runtime {
namespace {

constexpr std::int64_t kOriginal = 40;  // longer sequences use the other list
constexpr std::size_t kVocab = 97;
using Ids = std::vector<std::int32_t>;

model::DecoderModel MakeModel() {
  model::DecoderModel model = MakeTinyModel();
  model::RopeTable& table = model.spec.ropes[0];
  table.by_length = model::RopeByLength{};
  table.by_length->original_positions = kOriginal;
  table.by_length->long_inv_freq = table.inv_freq;
  for (float& f : table.by_length->long_inv_freq) f *= 0.5F;
  return model;
}

std::unique_ptr<Engine> MakeEngine() {
  auto engine = Engine::FromModel(MakeModel(), {}, {.num_threads = 2}, "tiny");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

Ids MakeIds(std::size_t count) {
  Ids ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * 31 + i * i * 7 + 5) % kVocab));
  }
  return ids;
}

Status Feed(Engine& engine, Sequence& sequence, std::span<const std::int32_t> ids,
            std::vector<float>* logits, const std::atomic<bool>* cancel = nullptr) {
  return engine.Run(Step{{{.sequence = &sequence, .tokens = ids}}}, logits, cancel);
}

// The logits behind the last token are those of the reference, which has no cache.
void ExpectReference(const Ids& ids, const std::vector<float>& logits) {
  const auto want = model::ReferenceLogits(MakeModel(), ids);
  ASSERT_TRUE(want.ok()) << want.message();
  ASSERT_EQ(logits.size(), kVocab);
  const std::size_t last = want->size() - kVocab;
  for (std::size_t i = 0; i < kVocab; ++i) {
    ASSERT_NEAR(logits[i], (*want)[last + i], 2e-4) << ids.size() << " tokens, logit " << i;
  }
}

TEST(RopeLength, DecodingAcrossTheOriginalLengthEqualsTheReference) {
  const auto engine = MakeEngine();
  const Ids ids = MakeIds(50);
  const auto sequence = *engine->NewSequence();
  std::vector<float> logits;
  ASSERT_TRUE(Feed(*engine, *sequence, std::span(ids).first(36), &logits).ok());
  for (std::size_t n = 37; n <= ids.size(); ++n) {
    ASSERT_TRUE(Feed(*engine, *sequence, std::span(ids).subspan(n - 1, 1), &logits).ok());
    EXPECT_EQ(sequence->size(), static_cast<std::int64_t>(n));
    ExpectReference(Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n)), logits);
  }
}

TEST(RopeLength, GoingBackBelowTheOriginalLengthEqualsTheReference) {
  const auto engine = MakeEngine();
  const Ids ids = MakeIds(60);
  const auto sequence = *engine->NewSequence();
  std::vector<float> logits;
  ASSERT_TRUE(Feed(*engine, *sequence, ids, &logits).ok());
  ExpectReference(ids, logits);
  sequence->Truncate(20);
  ASSERT_TRUE(Feed(*engine, *sequence, std::span(ids).subspan(20, 5), &logits).ok());
  ExpectReference(Ids(ids.begin(), ids.begin() + 25), logits);
  ASSERT_TRUE(Feed(*engine, *sequence, std::span(ids).subspan(25, 30), &logits).ok());
  ExpectReference(Ids(ids.begin(), ids.begin() + 55), logits);
}

TEST(RopeLength, ACancelledCrossingLosesNothing) {
  const auto engine = MakeEngine();
  const Ids ids = MakeIds(48);
  const auto sequence = *engine->NewSequence();
  std::vector<float> logits;
  ASSERT_TRUE(Feed(*engine, *sequence, std::span(ids).first(38), &logits).ok());
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(Feed(*engine, *sequence, std::span(ids).subspan(38), &logits, &cancel).code(),
            Code::kCancelled);
  EXPECT_EQ(sequence->size(), 38);
  const std::string path = testing::TempDir() + "rope_length_state";
  EXPECT_EQ(engine->SaveState(*sequence, "", path).code(), Code::kUnsupported);
  EXPECT_FALSE(std::filesystem::exists(path));
  // A shorter way on from there, and then the longer one.
  ASSERT_TRUE(Feed(*engine, *sequence, std::span(ids).subspan(38, 1), &logits).ok());
  ExpectReference(Ids(ids.begin(), ids.begin() + 39), logits);
  ASSERT_TRUE(Feed(*engine, *sequence, std::span(ids).subspan(39), &logits).ok());
  ExpectReference(ids, logits);
}

TEST(RopeLength, ASavedSequenceCrossesToo) {
  const auto engine = MakeEngine();
  const Ids ids = MakeIds(45);
  const std::string path = testing::TempDir() + "rope_length_saved";
  for (const std::size_t saved : {30U, 42U}) {
    const auto sequence = *engine->NewSequence();
    std::vector<float> logits;
    ASSERT_TRUE(Feed(*engine, *sequence, std::span(ids).first(saved), &logits).ok());
    ASSERT_TRUE(engine->SaveState(*sequence, "", path).ok());
    auto loaded = engine->LoadState(path);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    ASSERT_TRUE(Feed(*engine, *loaded->sequence, std::span(ids).subspan(saved), &logits).ok());
    ExpectReference(ids, logits);
    std::filesystem::remove(path);
  }
}

TEST(RopeLength, NeighboursInAStepDoNotMatter) {
  const auto engine = MakeEngine();
  const Ids ids = MakeIds(41), other = MakeIds(70);
  const auto a = *engine->NewSequence(), b = *engine->NewSequence();
  std::vector<float> logits;
  ASSERT_TRUE(Feed(*engine, *a, std::span(ids).first(40), nullptr).ok());
  ASSERT_TRUE(Feed(*engine, *b, std::span(other).first(69), nullptr).ok());
  const Step step{{{.sequence = b.get(), .tokens = std::span(other).subspan(69)},
                   {.sequence = a.get(), .tokens = std::span(ids).subspan(40)}}};
  ASSERT_TRUE(engine->Run(step, &logits).ok());
  ExpectReference(other, {logits.begin(), logits.begin() + kVocab});
  ExpectReference(ids, {logits.begin() + kVocab, logits.end()});
}

// Greedy, token by token, with the reference as the other side.
TEST(RopeLength, GenerateEqualsTheReference) {
  const auto engine = MakeEngine();
  Ids ids = MakeIds(35);
  const auto sequence = *engine->NewSequence();
  GenerateOptions options;
  options.max_tokens = 12;
  const auto generation = Generate(*engine, *sequence, ids, options);
  ASSERT_TRUE(generation.ok()) << generation.message();
  for (const std::int32_t id : generation->ids) {
    const auto logits = model::ReferenceLogits(MakeModel(), ids);
    ASSERT_TRUE(logits.ok());
    const auto row = std::span(*logits).last(kVocab);
    EXPECT_EQ(id, std::max_element(row.begin(), row.end()) - row.begin()) << ids.size();
    ids.push_back(id);
  }
  EXPECT_EQ(ids.size(), 47u);
}

}  // namespace
}  // namespace hone::runtime
