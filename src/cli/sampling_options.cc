// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/sampling_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <random>
#include <vector>

#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cli.h"

namespace hone::cli {
namespace {

constexpr float kBig = 1e6F;

// A real number with its range.
struct RealOption {
  const char* name;
  std::optional<float> SamplingArgs::* member;
  float low, high;
  const char* help;
};
constexpr std::array<RealOption, 6> kReals = {{
    {"temperature", &SamplingArgs::temperature, 0, 100, "0: always the best token"},
    {"top-p", &SamplingArgs::top_p, 0, 1, "Choose among the best tokens that sum to p; 1: off"},
    {"min-p", &SamplingArgs::min_p, 0, 1, "Drop tokens below p times the best; 0: off"},
    {"repetition-penalty", &SamplingArgs::repetition_penalty, 1e-3F, 1e3F, "1: off"},
    {"presence-penalty", &SamplingArgs::presence_penalty, -kBig, kBig, "0: off"},
    {"frequency-penalty", &SamplingArgs::frequency_penalty, -kBig, kBig, "0: off"},
}};

std::string NumberText(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

Status CheckRange(const RealOption& option, const std::optional<float>& value) {
  if (!value || (*value >= option.low && *value <= option.high)) return Status();  // NaN fails both
  return Status(Code::kInvalidArgument,
                StrCat("--", option.name, ": found ", NumberText(static_cast<double>(*value)),
                       ", expected ", NumberText(static_cast<double>(option.low)), " to ",
                       NumberText(static_cast<double>(option.high))));
}

template <typename Number>
Status ParseNumber(std::string_view name, std::string_view value, std::optional<Number>& out) {
  Number number{};
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || stop != value.data() + value.size()) {
    return Status(Code::kInvalidArgument,
                  StrCat("--", name, ": found \"", value, "\", expected ",
                         std::is_floating_point_v<Number> ? "a number" : "a whole number"));
  }
  out = number;
  return Status();
}

Status ParseValue(std::string_view name, std::string_view value, SamplingArgs& args) {
  const bool take_back = value == "default";
  for (const RealOption& option : kReals) {
    if (name != option.name) continue;
    (args.*option.member).reset();
    return take_back ? Status() : ParseNumber(name, value, args.*option.member);
  }
  const auto whole = [&](auto& member) {
    member.reset();
    return take_back ? Status() : ParseNumber(name, value, member);
  };
  if (name == "top-k") return whole(args.top_k);
  if (name == "seed") return whole(args.seed);
  if (name == "max-tokens") return whole(args.max_tokens);
  return Status(Code::kInvalidArgument,
                StrCat("\"", name,
                       "\" cannot be set; there are temperature, top-k, top-p, min-p, "
                       "repetition-penalty, presence-penalty, frequency-penalty, seed "
                       "and max-tokens"));
}

std::string Row(std::string_view name, std::string_view value) {
  std::string line = StrCat("  ", name);
  line.resize(std::max<std::size_t>(line.size() + 1, 22), ' ');
  return StrCat(line, value, "\n");
}

}  // namespace

void AddSamplingOptions(CLI::App& app, SamplingArgs& args) {
  app.add_option("--max-tokens", args.max_tokens, "Most tokens of an answer (default: no limit)")
      ->check(WholeNumber);
  for (const RealOption& option : kReals) {
    app.add_option(StrCat("--", option.name), args.*option.member, option.help);
  }
  app.add_option("--top-k", args.top_k, "Choose among the k best tokens; 0: off")
      ->check(WholeNumber);
  app.add_option("--seed", args.seed, "Seed of the sampler (default: another each time)")
      ->check(WholeNumber);
}

Status CheckSampling(const SamplingArgs& args) {
  for (const RealOption& option : kReals) HONE_TRY(CheckRange(option, args.*option.member));
  if (args.top_k && *args.top_k < 0) {
    return Status(Code::kInvalidArgument,
                  StrCat("--top-k: found ", *args.top_k, ", expected 0 (off) or more"));
  }
  if (args.max_tokens && *args.max_tokens < 1) {
    return Status(Code::kInvalidArgument,
                  StrCat("--max-tokens: found ", *args.max_tokens, ", expected 1 or more"));
  }
  if (args.seed && *args.seed < 0) {
    return Status(Code::kInvalidArgument,
                  StrCat("--seed: found ", *args.seed, ", expected 0 or more"));
  }
  return Status();
}

Status SetSampling(std::string_view name, std::string_view value, SamplingArgs& args) {
  std::string option(name);
  std::replace(option.begin(), option.end(), '_', '-');
  SamplingArgs changed = args;
  HONE_TRY(ParseValue(option, value, changed));
  HONE_TRY(CheckSampling(changed));
  args = changed;
  return Status();
}

runtime::SamplerOptions MakeSampler(const SamplingArgs& args, const runtime::TextSetup& text) {
  runtime::SamplerOptions sampler;
  sampler.temperature = args.temperature.value_or(text.temperature);
  sampler.top_k = args.top_k.value_or(text.top_k);
  sampler.top_p = args.top_p.value_or(text.top_p);
  sampler.min_p = args.min_p.value_or(text.min_p);
  sampler.repetition_penalty = args.repetition_penalty.value_or(text.repetition_penalty);
  sampler.presence_penalty = args.presence_penalty.value_or(0.0F);
  sampler.frequency_penalty = args.frequency_penalty.value_or(0.0F);
  sampler.seed =
      args.seed ? static_cast<std::uint64_t>(*args.seed) : std::uint64_t{std::random_device{}()};
  return sampler;
}

void NoteGreedy(const SamplingArgs& args, const runtime::SamplerOptions& sampler) {
  if (sampler.temperature != 0) return;
  if (!args.top_k && !args.top_p && !args.min_p && !args.seed) return;
  PrintNote(
      "the temperature is 0, so the best token is always taken; --temperature turns sampling on");
}

std::string SamplingText(const SamplingArgs& args, const runtime::SamplerOptions& sampler) {
  const auto real = [](float value) { return NumberText(static_cast<double>(value)); };
  return Row("temperature", real(sampler.temperature)) + Row("top-k", StrCat(sampler.top_k)) +
         Row("top-p", real(sampler.top_p)) + Row("min-p", real(sampler.min_p)) +
         Row("repetition-penalty", real(sampler.repetition_penalty)) +
         Row("presence-penalty", real(sampler.presence_penalty)) +
         Row("frequency-penalty", real(sampler.frequency_penalty)) +
         Row("seed", StrCat(sampler.seed)) +
         Row("max-tokens", args.max_tokens ? StrCat(*args.max_tokens) : "no limit");
}

}  // namespace hone::cli
