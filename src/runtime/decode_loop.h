// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The loop: prefill the prompt, then sample, check stops, stream text, feed the token back.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/draft.h"
#include "runtime/engine.h"
#include "runtime/sampler.h"
#include "runtime/token_chooser.h"

namespace hone::runtime {

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled };
const char* FinishReasonName(FinishReason reason);  // "stop", "length", "cancelled"

// Whether a token's result does not depend on the step that it is run in, so that guessed tokens
// can be verified several at a time. Not so on graphs, and on models whose rope frequencies follow
// the length of the sequence.
bool MaySpeculate(const Engine& engine);

struct GenerateOptions {
  SamplerOptions sampler;
  std::int64_t max_tokens = 0;            // 0: as many as the context holds
  std::vector<std::string> stop_strings;  // besides the model's own
  bool skip_special = true;               // in the text
  // Guesses tokens from the text and runs several in one step. The answer is the same in every way;
  // only the speed changes. Has no effect where MaySpeculate says no.
  Speculation speculation = Speculation::kAuto;
  // What the answer must look like. Where the grammar leaves no choice, several tokens run in one
  // step (under the same conditions as guessed ones). A complete answer ends with kStop, also
  // without a stop token; one that is cut (kLength, a stop string) may be incomplete.
  Constraint constraint;
  const std::atomic<bool>* cancel = nullptr;
  // Called with whole UTF-8 text as it becomes certain (text that may begin a stop string is held
  // back).
  std::function<void(std::string_view text)> on_text;
  // Called for each generated token, after the text that it made certain.
  std::function<void(std::int32_t id)> on_token;
};

struct Timings {
  double prefill_seconds = 0, decode_seconds = 0, first_token_seconds = 0;
  std::int64_t prefill_tokens = 0, decode_tokens = 0;
};

struct SpeculationCounts {
  std::int64_t steps = 0;     // that ran guessed tokens
  std::int64_t drafted = 0;   // guessed tokens in them
  std::int64_t accepted = 0;  // of these, in the answer
  std::int64_t forced = 0;    // tokens that a grammar forced, run in the step of the one before
};

struct Generation {
  std::string text;
  std::vector<std::int32_t> ids;  // generated, the stop id left out
  FinishReason finish = FinishReason::kStop;
  Timings timings;
  SpeculationCounts speculation;
};

// Appends prompt to the sequence (its common prefix with the cached tokens is not computed again:
// the sequence is truncated to it) and generates. An empty prompt is kInvalidArgument; a prompt
// longer than the context too, with both numbers. Reaching the context ends with kLength. The text
// of a stop token or stop string is left out; what a fused stop token (".<|im_end|>\n") holds in
// front of the stop text is kept. Without a tokenizer ids are generated and the text stays empty.
Result<Generation> Generate(Engine& engine, Sequence& sequence,
                            std::span<const std::int32_t> prompt, const GenerateOptions& options);

}  // namespace hone::runtime
