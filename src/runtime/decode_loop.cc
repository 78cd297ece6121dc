// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// From a prompt to an answer:
//
//   keep what the cache already has -> prefill the rest -> until something ends the answer:
//     choose a token from the last logits -> is it a stop? -> show its text -> feed it back
//
// The token that is chosen last is never fed back: nobody needs the logits after it.
//
// A step may feed guessed tokens behind the chosen one. Each row's logits then choose a token as if
// the row had come alone; while that is the guessed one, the next row is the next step's result.
// The rest is cut off the sequence. Tokens that a grammar forces are guesses that come true.
#include "runtime/decode_loop.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

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

// Most forced tokens of one step.
constexpr std::size_t kMaxForced = 32;

class Decoder {
 public:
  Decoder(Engine& engine, Sequence& sequence, const GenerateOptions& options)
      : engine_(engine),
        sequence_(sequence),
        options_(options),
        speculates_(options.speculation != Speculation::kOff && MaySpeculate(engine)),
        speculator_(options.speculation, speculates_ ? engine.spec().max_positions : 0),
        chooser_(engine.text(), options.sampler, options.constraint),
        stream_(engine.text().tokenizer ? &*engine.text().tokenizer : nullptr, options.skip_special,
                StopStrings(engine, options), options.on_text) {}

  Result<Generation> Run(std::span<const std::int32_t> prompt) {
    Status status = Loop(prompt);
    sequence_.Truncate(confirmed_);  // guessed tokens that were not chosen
    HONE_TRY(std::move(status));
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

  Status Loop(std::span<const std::int32_t> prompt) {
    const Stopwatch total;
    const auto room = engine_.spec().max_positions - static_cast<std::int64_t>(prompt.size());
    limit_ = TokenLimit(options_, room);

    engine_.ReusePrefix(sequence_, prompt);
    const std::span<const std::int32_t> rest = KeepCommonPrefix(sequence_, prompt);
    confirmed_ = sequence_.size();
    HONE_ASSIGN(bool running, Feed(rest, /*all_logits=*/false));
    if (running) confirmed_ = sequence_.size();
    result_.timings.prefill_tokens = running ? static_cast<std::int64_t>(rest.size()) : 0;
    result_.timings.prefill_seconds = total.Seconds();
    if (running && limit_ == 0) running = End(FinishReason::kLength);

    const Stopwatch decoding;
    while (running) {
      HONE_ASSIGN(const std::optional<std::int32_t> chosen, Choose());
      if (!chosen) {
        End(FinishReason::kStop);
        break;
      }
      const std::int32_t id = *chosen;
      if (result_.timings.first_token_seconds == 0) {
        result_.timings.first_token_seconds = total.Seconds();
        if (speculates_) {
          for (const std::int32_t known : prompt) speculator_.Append(known);
        }
      }
      HONE_ASSIGN(running, Accept(id));
      if (running && chooser_.done()) running = End(FinishReason::kStop);
      if (running && static_cast<std::int64_t>(result_.ids.size()) == limit_) {
        running = End(FinishReason::kLength);
      }
      if (!running) break;
      HONE_ASSIGN(running, Advance(id));
      if (running) ++result_.timings.decode_tokens;
    }
    result_.timings.decode_seconds = decoding.Seconds();
    return Status();
  }

  // Ends the answer. Returns false: the loop does not go on.
  bool End(FinishReason reason) {
    result_.finish = reason;
    return false;
  }

  // Runs tokens; logits_ has the rows of all of them or of the last. False if cancelled: the
  // sequence is as before.
  Result<bool> Feed(std::span<const std::int32_t> tokens, bool all_logits) {
    if (IsCancelled(options_)) return End(FinishReason::kCancelled);
    Status status =
        engine_.Run(Step{{StepPart{&sequence_, tokens, all_logits}}}, &logits_, options_.cancel);
    if (status.code() == Code::kCancelled) return End(FinishReason::kCancelled);
    if (!status.ok()) return status;
    return true;
  }

  // Makes the logits after id ready: they are there if id was guessed, else a step computes them.
  Result<bool> Advance(std::int32_t id) {
    if (speculates_) speculator_.Append(id);
    if (row_ < guessed_.size() && guessed_[row_] == id) {
      if (IsCancelled(options_)) return End(FinishReason::kCancelled);
      ++row_;
      ++confirmed_;
      ++(are_forced_ ? result_.speculation.forced : result_.speculation.accepted);
      return true;
    }
    if (!guessed_.empty()) {
      if (!are_forced_) speculator_.CountAccepted(static_cast<int>(row_));
      sequence_.Truncate(confirmed_);
      guessed_ = {};
    }
    row_ = 0;
    if (speculates_) Guess(limit_ - static_cast<std::int64_t>(result_.ids.size()) - 1);
    if (!guessed_.empty()) return FeedGuessed(id);
    const Stopwatch step;
    HONE_ASSIGN(const bool running, Feed({&id, 1}, /*all_logits=*/false));
    if (running && speculates_) speculator_.CountStep(step.Seconds());
    if (running) ++confirmed_;
    return running;
  }

  // Tokens that may follow the last one: those that the grammar forces, else guessed ones.
  void Guess(std::int64_t limit) {
    const std::span<const std::int32_t> forced = chooser_.Forced();
    const auto most = std::min({kMaxForced, static_cast<std::size_t>(limit), forced.size()});
    forced_.assign(forced.begin(), forced.begin() + static_cast<std::ptrdiff_t>(most));
    are_forced_ = !forced_.empty();
    guessed_ = are_forced_ ? std::span<const std::int32_t>(forced_) : speculator_.Propose(limit);
  }

  Result<bool> FeedGuessed(std::int32_t id) {
    fed_.assign(1, id);
    fed_.insert(fed_.end(), guessed_.begin(), guessed_.end());
    const Stopwatch step;
    Result<bool> running = Feed(fed_, /*all_logits=*/true);
    if (!running.ok()) {
      // Memory for one row may be there although that for all is not.
      guessed_ = {};
      speculates_ = false;
      running = Feed({&id, 1}, /*all_logits=*/false);
    } else if (*running && !are_forced_) {
      speculator_.CountStep(step.Seconds());
      ++result_.speculation.steps;
      result_.speculation.drafted += static_cast<std::int64_t>(guessed_.size());
    } else if (!*running) {
      guessed_ = {};
    }
    if (running.ok() && *running) ++confirmed_;
    return running;
  }

  Result<std::optional<std::int32_t>> Choose() {
    const auto vocab = static_cast<std::size_t>(engine_.spec().vocab);
    return chooser_.Choose(std::span<const float>(logits_).subspan(row_ * vocab, vocab),
                           sequence_.tokens().first(static_cast<std::size_t>(confirmed_)));
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
  bool speculates_;
  Speculator speculator_;
  TokenChooser chooser_;
  TextStream stream_;
  std::int64_t limit_ = 0;                 // most tokens of the answer
  std::int64_t confirmed_ = 0;             // tokens of the sequence that are certain
  std::vector<float> logits_;              // of the rows of the last step, [rows, vocab]
  std::size_t row_ = 0;                    // whose logits choose the next token
  std::span<const std::int32_t> guessed_;  // tokens of rows 1 and up of the last step
  bool are_forced_ = false;                // whether a grammar forces guessed_
  std::vector<std::int32_t> forced_;
  std::vector<std::int32_t> fed_;
  std::string kept_text_;  // what a fused stop token adds to the answer
  Generation result_;
};

}  // namespace

bool MaySpeculate(const Engine& engine) {
  const auto& ropes = engine.spec().ropes;
  return !engine.runs_graph() &&
         std::none_of(ropes.begin(), ropes.end(),
                      [](const model::RopeTable& rope) { return rope.by_length.has_value(); });
}

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
