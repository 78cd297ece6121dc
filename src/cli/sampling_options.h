// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How answers are sampled: options of hone run, which a chat can change with /set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "runtime/engine.h"
#include "runtime/sampler.h"

namespace CLI {
class App;
}

namespace hone::cli {

// What is absent is as the model recommends.
struct SamplingArgs {
  std::optional<float> temperature, top_p, min_p;
  std::optional<std::int32_t> top_k;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> max_tokens;
};

// Registers --temperature and the others.
void AddSamplingOptions(CLI::App& app, SamplingArgs& args);

// Names the option that is out of its range, what was found and what is expected.
Status CheckSampling(const SamplingArgs& args);

// One of them by its name ("top-p" or "top_p") and its value as text, as the option would have it;
// "default" takes it back. Nothing is changed by what is refused: an unknown name (the message
// lists the names), no number, a number out of its range.
Status SetSampling(std::string_view name, std::string_view value, SamplingArgs& args);

// What the model recommends, then what the user says. Without a seed it is another one each time.
runtime::SamplerOptions MakeSampler(const SamplingArgs& args, const runtime::TextSetup& text);

// Says so if the temperature is 0 and another option has no effect by that.
void NoteGreedy(const SamplingArgs& args, const runtime::SamplerOptions& sampler);

// One line for each, "  temperature         0.7", as they are now.
std::string SamplingText(const SamplingArgs& args, const runtime::SamplerOptions& sampler);

}  // namespace hone::cli
