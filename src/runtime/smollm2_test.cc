// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// SmolLM2-135M-Instruct from its GGUF file (the only argument) against transformers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "runtime/benchmark.h"
#include "runtime/chat.h"
#include "runtime/decode_loop.h"
#include "runtime/engine.h"

namespace hone::runtime {
namespace {

std::string g_model_path;

using Ids = std::vector<std::int32_t>;

Ids ToIds(const Json& array) {
  Ids ids;
  for (const Json& id : array.AsArray()) ids.push_back(static_cast<std::int32_t>(id.AsInt()));
  return ids;
}

TEST(SmolLm2, AnswersAsTransformersDoes) {
  auto text = ReadFile(HONE_SHARED_DATA "/golden/smollm2/greedy.json");
  ASSERT_TRUE(text.ok()) << text.message();
  auto golden = ParseJson(*text);
  ASSERT_TRUE(golden.ok()) << golden.message();
  auto engine = Engine::Open(g_model_path, {});
  ASSERT_TRUE(engine.ok()) << engine.message();
  EXPECT_EQ((*engine)->compute(), kernels::Compute::kF32);
  EXPECT_EQ((*engine)->kv_type(), kernels::KvType::kF32);

  for (const Json& c : golden->Find("prompts")->AsArray()) {
    const std::string prompt = c.Find("prompt")->AsString();
    SCOPED_TRACE(prompt);
    const Json message(Json::Object{{"role", Json("user")}, {"content", Json(prompt)}});
    auto rendered = RenderChat((*engine)->text(), Json(Json::Array{message}), {});
    ASSERT_TRUE(rendered.ok()) << rendered.message();
    EXPECT_EQ(*rendered, c.Find("rendered")->AsString());
    auto ids = EncodePrompt((*engine)->text(), *rendered);
    ASSERT_TRUE(ids.ok()) << ids.message();
    EXPECT_EQ(*ids, ToIds(*c.Find("prompt_ids")));

    auto sequence = (*engine)->NewSequence();
    ASSERT_TRUE(sequence.ok());
    GenerateOptions options;
    Ids want = ToIds(*c.Find("new_ids"));
    options.max_tokens = static_cast<std::int64_t>(want.size());
    const bool stops = want.back() == 2;  // <|im_end|>, which is not part of the answer
    if (stops) want.pop_back();
    auto answer = Generate(**engine, **sequence, *ids, options);
    ASSERT_TRUE(answer.ok()) << answer.message();
    std::size_t step = 0;
    while (step < want.size() && step < answer->ids.size() && answer->ids[step] == want[step]) {
      ++step;
    }
    if (step == want.size() && step == answer->ids.size()) {
      EXPECT_EQ(answer->finish, stops ? FinishReason::kStop : FinishReason::kLength);
      EXPECT_EQ(answer->text, c.Find("text")->AsString());
      continue;
    }
    const double gap = c.Find("gaps")->AsArray()[step].AsDouble();
    EXPECT_LT(gap, 5e-3) << "differs at step " << step;
    std::printf("differs at step %zu, gap %g: %s\n", step, gap, prompt.c_str());
  }
}

// A real model passes the gate of hone bench, with exact and with int8 activations.
TEST(SmolLm2, PassesTheGateOfTheBenchmark) {
  for (const ComputeChoice compute : {ComputeChoice::kF32, ComputeChoice::kQ8}) {
    auto engine = Engine::Open(g_model_path, {.compute = compute});
    ASSERT_TRUE(engine.ok()) << engine.message();
    auto gate = RunGate(**engine, nullptr);
    ASSERT_TRUE(gate.ok()) << gate.message();
    EXPECT_TRUE(gate->passed) << gate->reason << ": " << gate->answer;
    ASSERT_TRUE(gate->nll.has_value());
    // Far from the limit: 6.48.
    EXPECT_LT(*gate->nll, 4);
    std::printf("mean NLL %.4f, limit %.4f\n", *gate->nll, gate->nll_limit);
  }
}

}  // namespace
}  // namespace hone::runtime

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: smollm2_test SmolLM2-135M-Instruct.Q4_1.gguf\n");
    return 2;
  }
  hone::runtime::g_model_path = argv[1];
  return RUN_ALL_TESTS();
}
