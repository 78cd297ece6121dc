// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "chat/token_score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace hone::chat {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double LogSumExp(std::span<const float> logits) {
  double best = kNever;
  for (const float logit : logits) {
    if (!std::isnan(logit)) best = std::max(best, static_cast<double>(logit));
  }
  if (std::isinf(best)) return best;
  double sum = 0;
  for (const float logit : logits) {
    if (!std::isnan(logit)) sum += std::exp(static_cast<double>(logit) - best);
  }
  return best + std::log(sum);
}

std::string BytesOf(const bridge::Tokenizer* tokenizer, std::int32_t id) {
  if (tokenizer == nullptr) return "";
  auto bytes = tokenizer->TokenBytes(id);
  return bytes.ok() ? *std::move(bytes) : std::string();
}

// The ids of the largest logits, in order. Ids that only pad the vocabulary are left out: nothing
// can choose them.
std::vector<std::int32_t> LargestIds(const bridge::Tokenizer* tokenizer,
                                     std::span<const float> logits, std::int64_t count) {
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<std::int32_t> heap;  // its front is the smallest
  for (std::size_t i = 0; count > 0 && i < logits.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (std::isnan(logits[i])) continue;
    const bool is_full = static_cast<std::int64_t>(heap.size()) == count;
    if (is_full && !before(id, heap.front())) continue;
    if (tokenizer != nullptr && !tokenizer->TokenBytes(id).ok()) continue;
    if (is_full) {
      std::pop_heap(heap.begin(), heap.end(), before);
      heap.pop_back();
    }
    heap.push_back(id);
    std::push_heap(heap.begin(), heap.end(), before);
  }
  std::sort_heap(heap.begin(), heap.end(), before);
  return heap;
}

}  // namespace

TokenScore ScoreToken(const bridge::Tokenizer* tokenizer, std::span<const float> logits,
                      std::int32_t id, std::int64_t num_top) {
  const double norm = LogSumExp(logits);
  const auto logprob = [&](std::int32_t of) {
    const double logit = logits[static_cast<std::size_t>(of)];
    return std::isnan(logit) || std::isinf(norm) ? kNever : std::min(logit - norm, 0.0);
  };
  TokenScore score{id, BytesOf(tokenizer, id), logprob(id), {}};
  for (const std::int32_t candidate : LargestIds(tokenizer, logits, num_top)) {
    score.top.push_back({candidate, BytesOf(tokenizer, candidate), logprob(candidate)});
  }
  return score;
}

}  // namespace hone::chat
