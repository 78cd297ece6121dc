// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/chunk_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hone::runtime {
namespace {

// A machine on which a step waits for the weights or for its sums, whichever takes longer.
struct Machine {
  double weights = 0.050;  // seconds to read them
  double row = 0.005;      // seconds of sums a row
  double Step(std::int64_t decode_rows, std::int64_t prompt_rows) const {
    return std::max(weights, row * static_cast<double>(prompt_rows + decode_rows)) +
           0.001 * static_cast<double>(decode_rows);
  }
};

// Runs steps in which others decode and a long prompt waits; returns the longest.
double LongestStep(ChunkPolicy& policy, const Machine& machine, std::int64_t decode_rows, int steps,
                   std::int64_t* prompt_rows = nullptr) {
  double longest = 0;
  for (int i = 0; i < steps; ++i) {
    const std::int64_t rows = policy.PromptRows(decode_rows);
    const double seconds = machine.Step(decode_rows, rows);
    policy.Record(decode_rows, rows, seconds);
    longest = std::max(longest, seconds);
    if (prompt_rows != nullptr) *prompt_rows += rows;
  }
  return longest;
}

TEST(ChunkPolicy, GivesFullChunksWhenNobodyDecodes) {
  ChunkPolicy policy;
  EXPECT_EQ(policy.PromptRows(0), 256);
  policy.Record(1, 0, 0.05);
  policy.Record(1, 8, 0.09);
  EXPECT_EQ(policy.PromptRows(0), 256);
}

TEST(ChunkPolicy, MeasuresDecodingBeforeItMixesPromptsIn) {
  ChunkPolicy policy;
  EXPECT_EQ(policy.PromptRows(3), 0);
  policy.Record(3, 0, 0.06);
  EXPECT_GE(policy.PromptRows(3), 4);
  EXPECT_EQ(policy.PromptRows(2), 0);
  EXPECT_DOUBLE_EQ(policy.DecodeSeconds(3), 0.06);
  EXPECT_EQ(policy.DecodeSeconds(2), 0);
}

TEST(ChunkPolicy, KeepsStepsBelowFourTimesTheSoloTimeFromTheFirstOn) {
  for (const double row : {0.0005, 0.002, 0.005, 0.015}) {
    for (const std::int64_t others : {1, 4, 8}) {
      for (const bool chunk_before : {false, true}) {
        const Machine machine{.row = row};
        ChunkPolicy policy;
        const double solo = machine.Step(1, 0);
        if (chunk_before) policy.Record(0, 256, machine.Step(0, 256));
        policy.Record(1, 0, solo);
        EXPECT_LT(LongestStep(policy, machine, others, 400), 4 * solo)
            << row << " " << others << " " << chunk_before;
      }
    }
  }
}

TEST(ChunkPolicy, UsesTheRoomThatThereIs) {
  const Machine machine;
  ChunkPolicy policy;
  policy.Record(1, 0, machine.Step(1, 0));
  std::int64_t rows = 0;
  LongestStep(policy, machine, 1, 100, &rows);
  // 3 times 51 ms hold 30 rows of 5 ms.
  EXPECT_GT(rows, 100 * 20);
  EXPECT_LT(rows, 100 * 32);
}

TEST(ChunkPolicy, FollowsRowsThatBecomeDearer) {
  Machine machine;
  ChunkPolicy policy;
  policy.Record(1, 0, machine.Step(1, 0));
  LongestStep(policy, machine, 1, 100);
  machine.row *= 1.25;  // the prompt is long: attention costs more
  EXPECT_LT(LongestStep(policy, machine, 1, 100), 4 * 0.051);
}

TEST(ChunkPolicy, GoesOnWithPromptsWhereThereIsNoRoom) {
  ChunkPolicy policy;
  policy.Record(1, 0, 0.05);
  policy.Record(60, 0, 0.4);
  EXPECT_EQ(policy.PromptRows(60), 4);
}

TEST(ChunkPolicy, MeasuresDecodingAgainAfterManyMixedSteps) {
  const Machine machine;
  ChunkPolicy policy;
  policy.Record(2, 0, machine.Step(2, 0));
  int zeros = 0;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t rows = policy.PromptRows(2);
    if (rows == 0) ++zeros;
    policy.Record(2, rows, machine.Step(2, rows));
  }
  EXPECT_GE(zeros, 3);
  EXPECT_LE(zeros, 6);
}

TEST(ChunkPolicy, OneStepThatWasHeldUpDoesNotSpoilTheAverages) {
  ChunkPolicy policy;
  for (int i = 0; i < 10; ++i) policy.Record(1, 0, 0.05);
  policy.Record(1, 0, 5.0);
  EXPECT_LT(policy.SoloSeconds(), 0.07);
  for (int i = 0; i < 10; ++i) policy.Record(1, 16, 0.10);
  const std::int64_t before = policy.PromptRows(1);
  policy.Record(1, before, 5.0);
  EXPECT_GE(policy.PromptRows(1), before / 2);
}

TEST(ChunkPolicy, TheEndOfAPromptIsNoReasonToBeginAnew) {
  const Machine machine;
  ChunkPolicy policy;
  policy.Record(1, 0, machine.Step(1, 0));
  LongestStep(policy, machine, 1, 50);
  const std::int64_t rows = policy.PromptRows(1);
  EXPECT_GT(rows, 20);
  policy.Record(1, 2, machine.Step(1, 2));
  EXPECT_EQ(policy.PromptRows(1), rows);
}

TEST(ChunkPolicy, GuessesTheSoloTimeUntilItIsSeen) {
  ChunkPolicy policy;
  policy.Record(5, 0, 0.1);
  EXPECT_DOUBLE_EQ(policy.SoloSeconds(), 0.05);
  policy.Record(1, 0, 0.08);
  EXPECT_DOUBLE_EQ(policy.SoloSeconds(), 0.08);
  policy.Record(3, 0, 0.07);
  EXPECT_DOUBLE_EQ(policy.SoloSeconds(), 0.07);
  policy.Record(200, 0, 0.5);  // more rows than are kept apart
  EXPECT_DOUBLE_EQ(policy.DecodeSeconds(300), 0.5);
}

}  // namespace
}  // namespace hone::runtime
