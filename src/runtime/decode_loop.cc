// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// From a prompt to an answer:
//
//   keep what the cache already has -> prefill the rest -> until something ends the answer:
//     choose a token from the last logits -> is it a stop? -> show its text -> feed it back
//
// The token that is chosen last is never fed back: nobody needs the logits after it.
#include "runtime/decode_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/text_stream.h"

namespace hone::runtime {
namespace {

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool IsCancelled(const GenerateOptions& options) {
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

Status CheckPrompt(const model::DecoderSpec& spec, std::span<const std::int32_t> prompt) {
  if (prompt.empty()) return Status(Code::kInvalidArgument, "the prompt is empty");
  const auto num_tokens = static_cast<std::int64_t>(prompt.size());
  if (num_tokens > spec.max_positions) {
    return Status(Code::kInvalidArgument,
                  StrCat("the prompt has ", num_tokens, " tokens, but the context holds ",
                         spec.max_positions, "; shorten the prompt"));
  }
  return Status();
}

// Cuts the sequence to what it has in common with prompt and returns the rest of the prompt. At
// least one token is left to run: its logits begin the answer.
std::span<const std::int32_t> KeepCommonPrefix(Sequence& sequence,
                                               std::span<const std::int32_t> prompt) {
  const std::span<const std::int32_t> cached = sequence.tokens();
  const auto [differs, ignored] =
      std::mismatch(prompt.begin(), prompt.end(), cached.begin(), cached.end());
  const auto common =
      std::min(static_cast<std::size_t>(differs - prompt.begin()), prompt.size() - 1);
  sequence.Truncate(static_cast<std::int64_t>(common));
  return prompt.subspan(common);
}

std::int64_t TokenLimit(const GenerateOptions& options, std::int64_t room) {
  return options.max_tokens > 0 ? std::min(options.max_tokens, room) : room;
}

class Decoder {
 public:
  Decoder(Engine& engine, Sequence& sequence, const GenerateOptions& options)
      : engine_(engine),
        sequence_(sequence),
        options_(options),
        sampler_(options.sampler, engine.text().suppress_ids),
        stream_(engine.text().tokenizer ? &*engine.text().tokenizer : nullptr, options.skip_special,
                StopStrings(engine, options), options.on_text) {}

  Result<Generation> Run(std::span<const std::int32_t> prompt) {
    const Stopwatch total;
    const auto room = engine_.spec().max_positions - static_cast<std::int64_t>(prompt.size());
    const std::int64_t limit = TokenLimit(options_, room);

    const std::span<const std::int32_t> rest = KeepCommonPrefix(sequence_, prompt);
    HONE_ASSIGN(bool running, Feed(rest));
    result_.timings.prefill_tokens = running ? static_cast<std::int64_t>(rest.size()) : 0;
    result_.timings.prefill_seconds = total.Seconds();
    if (running && limit == 0) running = End(FinishReason::kLength);

    const Stopwatch decoding;
    while (running) {
      HONE_ASSIGN(const std::int32_t id, Choose());
      if (result_.timings.first_token_seconds == 0) {
        result_.timings.first_token_seconds = total.Seconds();
      }
      HONE_ASSIGN(running, Accept(id));
      if (running && static_cast<std::int64_t>(result_.ids.size()) == limit) {
        running = End(FinishReason::kLength);
      }
      if (!running) break;
      HONE_ASSIGN(running, Feed({&id, 1}));
      if (running) ++result_.timings.decode_tokens;
    }
    result_.timings.decode_seconds = decoding.Seconds();
    HONE_TRY(stream_.Finish(kept_text_));
    result_.text = stream_.text();
    return std::move(result_);
  }

 private:
  static std::vector<std::string> StopStrings(const Engine& engine,
                                              const GenerateOptions& options) {
    std::vector<std::string> all = engine.text().stop_strings;
    all.insert(all.end(), options.stop_strings.begin(), options.stop_strings.end());
    return all;
  }

  // Ends the answer. Returns false: the loop does not go on.
  bool End(FinishReason reason) {
    result_.finish = reason;
    return false;
  }

  // Runs tokens and keeps the last row's logits. False if cancelled: the sequence is as before.
  Result<bool> Feed(std::span<const std::int32_t> tokens) {
    if (IsCancelled(options_)) return End(FinishReason::kCancelled);
    Status status =
        engine_.Run(Step{{StepPart{&sequence_, tokens, false}}}, &logits_, options_.cancel);
    if (status.code() == Code::kCancelled) return End(FinishReason::kCancelled);
    if (!status.ok()) return status;
    return true;
  }

  Result<std::int32_t> Choose() {
    const std::int32_t id = sampler_.Sample(logits_, sequence_.tokens());
    if (id >= 0) return id;
    return Status(Code::kDataLoss,
                  StrCat("the model gave no usable logit at position ", sequence_.size(),
                         ": all are NaN, minus infinity or suppressed; the weights are damaged"));
  }

  // Takes the chosen token into the answer, or ends the answer with it.
  Result<bool> Accept(std::int32_t id) {
    const TextSetup& text = engine_.text();
    if (std::find(text.stop_ids.begin(), text.stop_ids.end(), id) != text.stop_ids.end()) {
      const auto kept = text.stop_kept_text.find(id);
      if (kept != text.stop_kept_text.end()) kept_text_ = kept->second;
      return End(FinishReason::kStop);
    }
    result_.ids.push_back(id);
    HONE_ASSIGN(const bool stop_string, stream_.Push(id));
    if (options_.on_token) options_.on_token(id);
    if (stop_string) return End(FinishReason::kStop);
    return true;
  }

  Engine& engine_;
  Sequence& sequence_;
  const GenerateOptions& options_;
  Sampler sampler_;
  TextStream stream_;
  std::vector<float> logits_;  // of the last row, [vocab]
  std::string kept_text_;      // what a fused stop token adds to the answer
  Generation result_;
};

}  // namespace

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "?";
}

Result<Generation> Generate(Engine& engine, Sequence& sequence,
                            std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  HONE_TRY(CheckPrompt(engine.spec(), prompt));
  if (!engine.text().tokenizer && !options.stop_strings.empty()) {
    return Status(Code::kUnsupported,
                  StrCat("stop strings need a tokenizer: ", engine.text().tokenizer_error));
  }
  return Decoder(engine, sequence, options).Run(prompt);
}

}  // namespace hone::runtime
