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
#include <string_view>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "bridge/chat_template.h"
#include "bridge/tokenizer.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "model/decoder_spec.h"
#include "runtime/prefix_cache.h"

namespace hone::formats::litertlm {
class Bundle;
}

namespace hone::runtime {

enum class ComputeChoice : std::uint8_t { kAuto, kF32, kQ8 };
enum class KvChoice : std::uint8_t { kAuto, kF32, kF16, kInt8 };
// kGraph runs the graphs of a bundle operator by operator: slow, and computed exactly as they say;
// compute and kv do not apply. kAuto: kernels, or the graph of a bundle that cannot be lifted to
// them, with a warning.
enum class RunChoice : std::uint8_t { kAuto, kKernels, kGraph };

struct EngineOptions {
  int num_threads = 0;                           // 0: all available
  ComputeChoice compute = ComputeChoice::kAuto;  // auto: q8 for quantized bundles, f32 else
  KvChoice kv = KvChoice::kAuto;                 // auto: f32 for float weights, f16 else
  RunChoice run = RunChoice::kAuto;
  std::int64_t context = 0;  // most positions of a sequence; 0: those of the model, and never more
  // Bound of the pages kept for ReusePrefix; 0: none are kept.
  std::uint64_t prefix_cache_bytes = 0;
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
  // The name of how the model writes tool calls, as its bundle says; "" if it says nothing. It may
  // be a name that this version does not know (chat/tool_family.h).
  std::string tool_family;
};

// The text side alone, without weights: fast, for tokenizing and rendering. Warnings are appended.
Result<TextSetup> LoadText(const std::string& path, std::vector<std::string>* warnings);
// The weights as stored, not packed: for the reference. Warnings are appended.
Result<model::DecoderModel> LoadModel(const std::string& path, std::vector<std::string>* warnings);

class Sequence;
struct SequenceRows;
struct StateFacts;

// A sequence from a file, and what was kept beside it.
struct SavedSequence {
  std::unique_ptr<Sequence> sequence;
  std::string text;
  std::string note;  // not empty: what may differ from the machine that wrote the file
};

// Rows of one sequence: a token to decode, a piece of a prompt, or a draft to verify.
struct StepPart {
  Sequence* sequence = nullptr;
  std::span<const std::int32_t> tokens;  // appended to the sequence
  bool all_logits = false;               // logits of every row, or of the last one only
  // Tokens of the same prompt that follow in later steps. If there are any, the last row's logits
  // are not asked for.
  std::int64_t more = 0;
};
// What is computed together: at least one part, each of another sequence.
struct Step {
  std::vector<StepPart> parts;
};

// A loaded model. Read-only after Open but for the work buffers: one thread may run steps at a
// time. Every method but NewSequence and the const getters (not prefix_cache_stats) belongs to the
// thread that runs steps, and so do the sequences in them.
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
  // max_positions is that of EngineOptions::context, if it is given.
  const model::DecoderSpec& spec() const;
  const model::DecoderModel& model() const;  // weights as stored, for the reference
  bool runs_graph() const;
  const TextSetup& text() const;
  kernels::Compute compute() const;
  kernels::KvType kv_type() const;
  int num_threads() const;
  double load_seconds() const;
  // Of the linears, each once; empty for a graph.
  std::vector<std::string> KernelNames() const;
  const std::vector<std::string>& warnings() const;

  // An empty sequence. Its cache grows by pages of kernels::kPagePositions.
  Result<std::unique_ptr<Sequence>> NewSequence();

  // Runs the rows of all parts together and appends their keys and values. logits receives
  // [rows asked for, vocab] in part order; null skips the head. A row's result has the same bits
  // whatever the other parts are and however a prompt is split into steps. Long parts are run in
  // chunks inside. cancel is polled in each layer: kCancelled. kInvalidArgument: no parts, a part
  // without tokens or without a sequence of this engine, a sequence in two parts, an id outside the
  // vocabulary, or more tokens than the context has room for (the message has both numbers, and the
  // part if there are several). Any failure leaves every sequence as it was before the step.
  // Rope frequencies that change with the length (LongRoPE and dynamic NTK of a checkpoint) follow
  // the size of the sequence after the step and StepPart::more, for all of its rows. When that size
  // crosses LongRoPE's original one, in either direction, the whole sequence is run again inside
  // this step, as transformers' generate() does; with dynamic NTK, keys keep the frequencies of
  // their own step, as there.
  Status Run(const Step& step, std::vector<float>* logits,
             const std::atomic<bool>* cancel = nullptr);

  // Before a prompt is run: if the pages of its beginning are known from any sequence, and are more
  // than what the sequence has in common with it, the sequence becomes that beginning. Returns how
  // many tokens it then holds that way, a multiple of kernels::kPagePositions and less than the
  // prompt; 0 leaves it as it was. What follows has the bits that computing anew would give. Always
  // 0 without prefix_cache_bytes, for a graph, and where keys depend on the length (RopeByLength).
  std::int64_t ReusePrefix(Sequence& sequence, std::span<const std::int32_t> prompt);
  // Positions that it goes by: kernels::kPagePositions, or 0 where it always gives 0.
  std::int64_t prefix_page() const;
  PrefixCacheStats prefix_cache_stats() const;

  // Writes tokens, keys and values of a sequence to a file (docs/formats/sequence_state.md), whole
  // or not at all. text is kept beside them: what the caller needs to go on. kUnsupported for a
  // graph, and where a step failed that had to run the sequence again; kInvalidArgument for a
  // sequence without tokens.
  Status SaveState(const Sequence& sequence, std::string_view text, const std::string& path);
  // A sequence that goes on from a file, with the bits that it would have had. The pages are
  // mapped, not copied. Messages say what was found and expected: kDataLoss for a damaged file,
  // kInvalidArgument for one of another model, kUnsupported for another version.
  Result<SavedSequence> LoadState(const std::string& path);

 private:
  Engine();
  static std::unique_ptr<Engine> Make(model::DecoderModel model, TextSetup text,
                                      const EngineOptions& options);
  Status UseKernels(const EngineOptions& options, const std::function<void(ByteSpan)>& release);
  Status UseGraph(const EngineOptions& options,
                  std::shared_ptr<const formats::litertlm::Bundle> bundle);
  Status CapContext(std::int64_t context);
  class UndoStep;
  Status CheckPart(const StepPart& part) const;
  SequenceRows PlanPart(const StepPart& part);
  void KeepPages(const StepPart& part);
  StateFacts GetStateFacts();
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
