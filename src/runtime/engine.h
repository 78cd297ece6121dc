// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Engine (a loaded model), Sequence (tokens and cache), Step (rows of one or more sequences).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "bridge/chat_template.h"
#include "bridge/tokenizer.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "model/decoder_spec.h"

namespace hone::formats::litertlm {
class Bundle;
}

namespace hone::runtime {

enum class ComputeChoice : std::uint8_t { kAuto, kF32, kQ8 };
enum class KvChoice : std::uint8_t { kAuto, kF32, kF16 };
// kGraph runs the graphs of a bundle operator by operator: slow, and computed exactly as they say;
// compute and kv do not apply. kAuto: kernels, or the graph of a bundle that cannot be lifted to
// them, with a warning.
enum class RunChoice : std::uint8_t { kAuto, kKernels, kGraph };

struct EngineOptions {
  int num_threads = 0;                           // 0: all available
  ComputeChoice compute = ComputeChoice::kAuto;  // auto: q8 for quantized bundles, f32 else
  KvChoice kv = KvChoice::kAuto;                 // auto: f32 for float weights, f16 else
  RunChoice run = RunChoice::kAuto;
};

// What a source says about text, the same for a bundle, a checkpoint folder and a GGUF file.
struct TextSetup {
  bool is_bundle = false;
  std::optional<bridge::Tokenizer> tokenizer;
  std::string tokenizer_error;  // why tokenizer is absent
  std::string template_source;
  std::optional<bridge::ChatTemplate> chat_template;
  // The template of a list that is named "tool_use": used instead when tools are given.
  std::optional<bridge::ChatTemplate> tool_template;
  std::string template_error;  // why chat_template is absent although a source exists
  std::string bos_text, eos_text, pad_text, unk_text;
  // The BOS id that a bundle's start_token names; the runtime prepends it to a rendered prompt that
  // does not begin with it. Absent for checkpoints: the template alone decides there.
  std::optional<std::int32_t> start_id;
  std::vector<std::int32_t> stop_ids;
  // Text of a stop token that belongs to the answer: "." of ".<|im_end|>\n". Other stop ids have no
  // entry.
  std::map<std::int32_t, std::string> stop_kept_text;
  std::vector<std::string> stop_strings;  // stops that are no single token
  // Never sampled: what the source lists, and in an engine every id that the tokenizer does not
  // have.
  std::vector<std::int32_t> suppress_ids;
  // Sampling that the source recommends; temperature 0 means greedy.
  float temperature = 0;
  float top_p = 1;
  std::int32_t top_k = 0;
  float min_p = 0;
  float repetition_penalty = 1;
  std::string think_start, think_end;  // "" if the model has no thinking channel
};

// The text side alone, without weights: fast, for tokenizing and rendering. Warnings are appended.
Result<TextSetup> LoadText(const std::string& path, std::vector<std::string>* warnings);
// The weights as stored, not packed: for the reference. Warnings are appended.
Result<model::DecoderModel> LoadModel(const std::string& path, std::vector<std::string>* warnings);

class Sequence;

// A batch of rows. Batch 1 for now: exactly one part.
struct StepPart {
  Sequence* sequence = nullptr;
  std::span<const std::int32_t> tokens;  // appended to the sequence
  bool all_logits = false;               // logits of every row, or of the last one only
};
struct Step {
  std::vector<StepPart> parts;
};

// A loaded model. Read-only after Open but for the work buffers: one thread may run steps at a
// time.
class Engine {
 public:
  // A .litertlm bundle, a checkpoint folder or a .gguf file.
  static Result<std::unique_ptr<Engine>> Open(const std::string& path,
                                              const EngineOptions& options);
  // A model that is already in memory. source names it in messages.
  static Result<std::unique_ptr<Engine>> FromModel(model::DecoderModel model, TextSetup text,
                                                   const EngineOptions& options,
                                                   const std::string& source);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Of a graph only vocab and max_positions are known.
  const model::DecoderSpec& spec() const;
  const model::DecoderModel& model() const;  // weights as stored, for the reference
  bool runs_graph() const;
  const TextSetup& text() const;
  kernels::Compute compute() const;
  kernels::KvType kv_type() const;
  int num_threads() const;
  double load_seconds() const;
  const std::vector<std::string>& warnings() const;

  // An empty sequence. Its cache grows by pages of kernels::kPagePositions.
  Result<std::unique_ptr<Sequence>> NewSequence();

  // Runs the rows and appends their keys and values. logits receives [rows asked for, vocab]; null
  // skips the head. Long parts are run in chunks inside. cancel is polled before each layer:
  // kCancelled leaves the sequence as it was before the step. kInvalidArgument: an id outside the
  // vocabulary, or more tokens than the context has room for (the message has both numbers).
  // Rope frequencies that change with the length (LongRoPE and dynamic NTK of a checkpoint) follow
  // the size of the sequence after the step, for all of its rows. Keys that are cached already keep
  // the frequencies of their own step, as in transformers: for these models alone, how tokens are
  // split into steps can change the result.
  Status Run(const Step& step, std::vector<float>* logits,
             const std::atomic<bool>* cancel = nullptr);

 private:
  Engine();
  static std::unique_ptr<Engine> Make(model::DecoderModel model, TextSetup text,
                                      const EngineOptions& options);
  Status UseKernels(const EngineOptions& options, const std::function<void(ByteSpan)>& release);
  Status UseGraph(std::shared_ptr<const formats::litertlm::Bundle> bundle);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Tokens and their cache. Must not outlive its engine.
class Sequence {
 public:
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  std::span<const std::int32_t> tokens() const;
  std::int64_t size() const { return static_cast<std::int64_t>(tokens().size()); }
  // Forgets all tokens from position on.
  void Truncate(std::int64_t position);

 private:
  friend class Engine;
  Sequence();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::runtime
