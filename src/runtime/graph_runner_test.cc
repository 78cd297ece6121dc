// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How steps are cut into calls of a graph, against a graph that only remembers its tokens.
#include "runtime/graph_runner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hone::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kVocab = 3;

// What happened, and what the graph holds.
struct Log {
  Ids held;
  std::vector<std::string> calls;
};

class FakeGraph : public executor::BundleRunner {
 public:
  FakeGraph(Log& log, std::int64_t context, std::vector<std::int64_t> lengths)
      : log_(log), context_(context), lengths_(std::move(lengths)) {}
  std::int64_t context() const override { return context_; }
  std::int64_t vocab() const override { return kVocab; }
  std::int64_t size() const override { return static_cast<std::int64_t>(log_.held.size()); }
  void Truncate(std::int64_t size) override {
    log_.calls.push_back("truncate " + std::to_string(size));
    log_.held.resize(static_cast<std::size_t>(size));
  }
  const std::vector<std::int64_t>& prefill_lengths() const override { return lengths_; }
  Result<std::vector<float>> Decode(std::int32_t id, const std::atomic<bool>*) override {
    log_.calls.push_back("decode");
    log_.held.push_back(id);
    EXPECT_LE(size(), context_);
    return Logits();
  }
  Status Prefill(std::int64_t length, std::span<const std::int32_t> ids,
                 const std::atomic<bool>* cancel) override {
    EXPECT_LE(size() + length, context_) << "padding is written behind the end of the cache";
    EXPECT_LE(static_cast<std::int64_t>(ids.size()), length);
    log_.calls.push_back("prefill " + std::to_string(length) + " with " +
                         std::to_string(ids.size()));
    log_.held.insert(log_.held.end(), ids.begin(), ids.end());
    if (cancel != nullptr && cancel->load()) return Status(Code::kCancelled, "cancelled");
    return Status();
  }
  // A number that every token held has a part in.
  std::vector<float> Logits() const {
    float sum = 0;
    for (const std::int32_t id : log_.held) sum = sum * 0.5F + static_cast<float>(id);
    return {sum, sum + 1, sum + 2};
  }

 private:
  Log& log_;
  std::int64_t context_;
  std::vector<std::int64_t> lengths_;
};

Ids Count(std::int64_t n) {
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(i + 1));
  return ids;
}

std::unique_ptr<GraphSequence> Make(Log& log, std::int64_t context,
                                    std::vector<std::int64_t> lengths) {
  return std::make_unique<GraphSequence>(
      std::make_unique<FakeGraph>(log, context, std::move(lengths)));
}

using Calls = std::vector<std::string>;

TEST(GraphRunner, PrefillsAllButTheRowsAskedFor) {
  Log log;
  const auto sequence = Make(log, 1000, {128, 32, 8});
  const Ids ids = Count(171);
  std::vector<float> logits(kVocab);
  ASSERT_TRUE(sequence->Run({.tokens = ids, .first_logits_row = 170}, logits.data(), nullptr).ok());
  EXPECT_EQ(log.calls, (Calls{"prefill 128 with 128", "prefill 128 with 42", "decode"}));
  EXPECT_EQ(log.held, ids);
  EXPECT_EQ(logits[1], logits[0] + 1);
}

TEST(GraphRunner, TakesTheShortestSignatureThatHoldsTheRest) {
  Log log;
  const auto sequence = Make(log, 1000, {128, 32, 8});
  ASSERT_TRUE(sequence->Run({.tokens = Count(9), .first_logits_row = 9}, nullptr, nullptr).ok());
  ASSERT_TRUE(
      sequence
          ->Run({.tokens = Count(8), .first_position = 9, .first_logits_row = 8}, nullptr, nullptr)
          .ok());
  EXPECT_EQ(log.calls, (Calls{"prefill 32 with 9", "prefill 8 with 8"}));
}

TEST(GraphRunner, GivesAllRowsByDecoding) {
  Log one, all;
  const Ids ids = Count(5);
  std::vector<float> want(kVocab), got(5 * kVocab);
  const auto first = Make(all, 100, {4});
  ASSERT_TRUE(first->Run({.tokens = ids}, got.data(), nullptr).ok());
  EXPECT_EQ(all.calls, Calls(5, "decode"));
  for (std::int64_t row = 0; row < 5; ++row) {
    one = {};
    const auto sequence = Make(one, 100, {4});
    const auto part = std::span(ids).first(static_cast<std::size_t>(row + 1));
    ASSERT_TRUE(
        sequence->Run({.tokens = part, .first_logits_row = row}, want.data(), nullptr).ok());
    EXPECT_EQ(want,
              std::vector<float>(got.begin() + row * kVocab, got.begin() + (row + 1) * kVocab));
  }
}

TEST(GraphRunner, PadsNothingBehindTheEndOfTheCache) {
  Log log;
  const auto sequence = Make(log, 20, {16, 8});
  ASSERT_TRUE(sequence->Run({.tokens = Count(20), .first_logits_row = 20}, nullptr, nullptr).ok());
  EXPECT_EQ(log.calls, (Calls{"prefill 16 with 16", "decode", "decode", "decode", "decode"}));
  EXPECT_EQ(log.held, Count(20));
}

TEST(GraphRunner, DecodesWhereNoSignaturePrefills) {
  Log log;
  const auto sequence = Make(log, 20, {});
  ASSERT_TRUE(sequence->Run({.tokens = Count(3), .first_logits_row = 3}, nullptr, nullptr).ok());
  EXPECT_EQ(log.calls, Calls(3, "decode"));
}

TEST(GraphRunner, CancelsBetweenCallsAndForgetsOnRequest) {
  Log log;
  const auto sequence = Make(log, 100, {8});
  std::atomic<bool> cancel{false};
  ASSERT_TRUE(sequence->Run({.tokens = Count(6), .first_logits_row = 6}, nullptr, &cancel).ok());
  cancel = true;
  const Status status = sequence->Run(
      {.tokens = Count(30), .first_position = 6, .first_logits_row = 30}, nullptr, &cancel);
  EXPECT_EQ(status.code(), Code::kCancelled);
  sequence->Truncate(6);
  EXPECT_EQ(log.held, Count(6));
  sequence->Truncate(6);  // nothing to forget
  sequence->Truncate(2);
  EXPECT_EQ(log.held, Count(2));
}

}  // namespace
}  // namespace hone::runtime
