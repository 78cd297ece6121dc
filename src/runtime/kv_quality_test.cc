// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What an int8 key/value cache costs: SmolLM2-135M-Instruct (its file is the first argument) reads
// 2,000 tokens of a book with it and with a cache of f16. A second argument "q8" computes with
// 8-bit activations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "runtime/chat.h"
#include "runtime/engine.h"

namespace hone::runtime {
namespace {

std::string g_model_path;
ComputeChoice g_compute = ComputeChoice::kAuto;

constexpr std::size_t kTokens = 2000;
constexpr std::size_t kChunk = 125;  // so that the logits of two models stay small

// Natural logarithms of the probabilities, and the index of the largest.
std::size_t LogSoftmax(std::span<const float> logits, std::vector<double>* log_p) {
  const auto top = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x} - double{*top});
  log_p->clear();
  for (const float x : logits) log_p->push_back(double{x} - double{*top} - std::log(sum));
  return static_cast<std::size_t>(top - logits.begin());
}

struct Drift {
  std::vector<double> kl;  // of each position, sorted at the end
  std::size_t same_top = 0;
  double nll[2] = {0, 0};  // of the next token, summed
};

// One model and what it has read.
struct Reader {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Sequence> sequence;
  std::vector<float> logits;
};

Result<Reader> OpenReader(KvChoice kv) {
  Reader reader;
  HONE_ASSIGN(reader.engine, Engine::Open(g_model_path, {.compute = g_compute, .kv = kv}));
  HONE_ASSIGN(reader.sequence, reader.engine->NewSequence());
  return reader;
}

void AddChunk(const Reader& base, const Reader& other, std::span<const std::int32_t> next,
              Drift* drift) {
  const auto vocab = static_cast<std::size_t>(base.engine->spec().vocab);
  std::vector<double> p, q;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const std::size_t top = LogSoftmax({base.logits.data() + i * vocab, vocab}, &p);
    if (LogSoftmax({other.logits.data() + i * vocab, vocab}, &q) == top) ++drift->same_top;
    double kl = 0;
    for (std::size_t j = 0; j < vocab; ++j) kl += std::exp(p[j]) * (p[j] - q[j]);
    drift->kl.push_back(kl);
    const auto id = static_cast<std::size_t>(next[i]);
    drift->nll[0] -= p[id];
    drift->nll[1] -= q[id];
  }
}

TEST(KvQuality, Int8KeepsTheDistributionsOfF16) {
  auto text = ReadFile(HONE_SHARED_DATA "/data/text/alice.txt");
  ASSERT_TRUE(text.ok()) << text.message();
  auto base = OpenReader(KvChoice::kF16);
  ASSERT_TRUE(base.ok()) << base.message();
  auto other = OpenReader(KvChoice::kInt8);
  ASSERT_TRUE(other.ok()) << other.message();
  ASSERT_EQ(other->engine->kv_type(), kernels::KvType::kInt8);
  auto ids = EncodePrompt(base->engine->text(), text->substr(0, 20000));
  ASSERT_TRUE(ids.ok()) << ids.message();
  ASSERT_GT(ids->size(), kTokens);

  Drift drift;
  for (std::size_t i = 0; i < kTokens; i += kChunk) {
    const std::span<const std::int32_t> chunk(ids->data() + i, kChunk);
    for (Reader* reader : {&*base, &*other}) {
      const Status status = reader->engine->Run(
          Step{{{.sequence = reader->sequence.get(), .tokens = chunk, .all_logits = true}}},
          &reader->logits);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    AddChunk(*base, *other, {ids->data() + i + 1, kChunk}, &drift);
  }
  std::sort(drift.kl.begin(), drift.kl.end());
  double sum = 0;
  for (const double kl : drift.kl) sum += kl;
  const double mean = sum / double{kTokens};
  std::printf(
      "int8 against f16 cache, %zu tokens: mean KL %.6f, median %.6f, p99 %.6f, largest %.6f, same "
      "top token %.2f %%, perplexity %.4f against %.4f\n",
      kTokens, mean, drift.kl[kTokens / 2], drift.kl[kTokens * 99 / 100], drift.kl.back(),
      100.0 * static_cast<double>(drift.same_top) / double{kTokens},
      std::exp(drift.nll[1] / double{kTokens}), std::exp(drift.nll[0] / double{kTokens}));
  EXPECT_LE(mean, 0.002);
  EXPECT_GE(drift.same_top, kTokens * 97 / 100);
}

}  // namespace
}  // namespace hone::runtime

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: kv_quality_test SmolLM2-135M-Instruct.Q4_1.gguf [q8]\n");
    return 2;
  }
  hone::runtime::g_model_path = argv[1];
  if (argc == 3) hone::runtime::g_compute = hone::runtime::ComputeChoice::kQ8;
  return RUN_ALL_TESTS();
}
