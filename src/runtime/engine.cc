// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/cpu_info.h"
#include "base/thread_pool.h"
#include "runtime/graph_runner.h"
#include "runtime/kernel_runner.h"
#include "runtime/kv_cache.h"
#include "runtime/load_source.h"
#include "runtime/model_hash.h"
#include "runtime/sequence_state.h"
#include "runtime/step_runner.h"
#include "runtime/text_setup.h"

namespace hone::runtime {
namespace {

bool IsQuantized(const model::Weight& weight) {
  return weight.present() && !codec::Facts(weight.view.type.coding).is_float;
}

bool HasQuantizedLinear(const model::DecoderModel& model) {
  for (const model::LayerWeights& layer : model.layers) {
    for (const model::Weight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      if (IsQuantized(*weight)) return true;
    }
  }
  return IsQuantized(model.head);
}

kernels::Compute ChooseCompute(ComputeChoice choice, bool quantized_bundle) {
  if (choice == ComputeChoice::kF32) return kernels::Compute::kF32;
  if (choice == ComputeChoice::kQ8) return kernels::Compute::kQ8;
  return quantized_bundle ? kernels::Compute::kQ8 : kernels::Compute::kF32;
}

kernels::KvType ChooseKv(KvChoice choice, bool float_model) {
  if (choice == KvChoice::kF32) return kernels::KvType::kF32;
  if (choice == KvChoice::kF16) return kernels::KvType::kF16;
  if (choice == KvChoice::kInt8) return kernels::KvType::kInt8;
  return float_model ? kernels::KvType::kF32 : kernels::KvType::kF16;
}

// Gives back the pages of the bundle's map that a part covers. Nothing for a checkpoint.
std::function<void(ByteSpan)> ReleaseFrom(
    const std::shared_ptr<const formats::litertlm::Bundle>& bundle) {
  if (bundle == nullptr) return {};
  return [bundle](ByteSpan part) {
    const ByteSpan all = bundle->map().bytes();
    const bool inside = std::less_equal<>{}(all.data(), part.data()) &&
                        std::less_equal<>{}(part.data() + part.size(), all.data() + all.size());
    if (inside) bundle->map().Release(part);
  };
}

// Which rope tables use their list for longer sequences at this length: bit i for table i. Keys of
// one sequence must all have been turned by the same lists.
std::uint64_t RopeLists(const model::DecoderSpec& spec, std::int64_t length) {
  std::uint64_t lists = 0;
  for (std::size_t i = 0; i < spec.ropes.size(); ++i) {
    const auto& by_length = spec.ropes[i].by_length;
    if (by_length && by_length->kind == model::RopeByLength::Kind::kLongRope &&
        length > by_length->original_positions) {
      lists |= std::uint64_t{1} << (i % 64);
    }
  }
  return lists;
}

}  // namespace

struct Engine::Impl {
  Impl(model::DecoderModel m, int num_threads) : model(std::move(m)), pool(num_threads) {}

  model::DecoderModel model;
  TextSetup text;
  ThreadPool pool;
  kernels::Compute compute = kernels::Compute::kF32;
  kernels::KvType kv_type = kernels::KvType::kF32;
  std::unique_ptr<StepRunner> runner;
  std::uint64_t step = 0;          // number of the last one
  std::vector<SequenceRows> rows;  // of the step that runs
  bool runs_graph = false;
  double load_seconds = 0;
  std::vector<std::string> warnings;
  std::function<void(ByteSpan)> release;  // of the source's pages; may be empty
  std::unique_ptr<PrefixCache> prefixes;  // null: off
  std::optional<std::uint64_t> model_hash;
};

struct Sequence::Impl {
  const void* owner = nullptr;
  std::vector<std::int32_t> tokens;
  // How many of them the runner holds; the others are run again first. Fewer than all only after
  // a step failed that had to compute the cache anew.
  std::int64_t cached = 0;
  std::uint64_t rope_lists = 0;      // that the cached keys were turned by (RopeLists)
  std::vector<std::int32_t> replay;  // tokens to run again, then those of the part
  std::unique_ptr<SequenceRunner> runner;
  std::uint64_t last_step = 0;   // the number of the last step that it was in
  std::int64_t kept_blocks = 0;  // that the prefix cache was offered
  std::int64_t from_file = 0;    // the first positions, which this process did not compute
  std::string file_target = {};  // for which these were computed
};

Engine::Engine() = default;
Engine::~Engine() = default;
Sequence::Sequence() = default;
Sequence::~Sequence() = default;

Result<std::unique_ptr<Engine>> Engine::Open(const std::string& path,
                                             const EngineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const SourceParts parts = options.run == RunChoice::kGraph     ? SourceParts::kText
                            : options.run == RunChoice::kKernels ? SourceParts::kAll
                                                                 : SourceParts::kAllOrGraph;
  const TextWhen when = options.num_threads == 1 ? TextWhen::kNow : TextWhen::kMeanwhile;
  HONE_ASSIGN(LoadedSource source, LoadSource(path, parts, when));
  if (options.run == RunChoice::kGraph && source.bundle == nullptr) {
    return Status(Code::kInvalidArgument,
                  StrCat(path, ": only a .litertlm bundle has a graph to run"));
  }
  std::unique_ptr<Engine> engine;
  Status status;
  if (source.model) {
    engine = Make(*std::move(source.model), std::move(source.text), options);
    status = engine->UseKernels(options, ReleaseFrom(source.bundle));
    if (source.text_meanwhile.valid()) {
      HONE_TRY(source.FinishText());
      engine->impl_->text = std::move(source.text);
      SuppressUnusedIds(engine->impl_->model.spec.vocab, engine->impl_->text);
    }
  } else {
    HONE_TRY(source.FinishText());
    if (!source.not_lifted.empty()) {
      source.warnings.push_back(StrCat("the bundle's graph is not one that the kernels can run (",
                                       source.not_lifted,
                                       "); it runs operator by operator, which is slow"));
    }
    engine = Make({}, std::move(source.text), options);
    status = engine->UseGraph(options, source.bundle);
    if (!status.ok() && !source.not_lifted.empty()) {
      return Status(status.code(),
                    StrCat(path, ": ", source.not_lifted,
                           "; nor does its graph run operator by operator: ", status.message()));
    }
  }
  if (!status.ok()) return std::move(status).Context(path);
  engine->impl_->warnings = std::move(source.warnings);
  if (const std::string slow = SlowCpuWarning(); !slow.empty() && !engine->runs_graph()) {
    engine->impl_->warnings.push_back(slow);
  }
  engine->impl_->load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::FromModel(model::DecoderModel model, TextSetup text,
                                                  const EngineOptions& options,
                                                  const std::string& source) {
  if (options.run == RunChoice::kGraph) {
    return Status(Code::kInvalidArgument, StrCat(source, ": a model in memory has no graph"));
  }
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Engine> engine = Make(std::move(model), std::move(text), options);
  Status status = engine->UseKernels(options, {});
  if (!status.ok()) return std::move(status).Context(source);
  engine->impl_->load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

std::unique_ptr<Engine> Engine::Make(model::DecoderModel model, TextSetup text,
                                     const EngineOptions& options) {
  const int num_threads = options.num_threads > 0 ? options.num_threads : AvailableThreads();
  std::unique_ptr<Engine> engine(new Engine);
  engine->impl_ = std::make_unique<Impl>(std::move(model), num_threads);
  engine->impl_->text = std::move(text);
  return engine;
}

Status Engine::UseKernels(const EngineOptions& options,
                          const std::function<void(ByteSpan)>& release) {
  HONE_TRY(CapContext(options.context));
  Impl& impl = *impl_;
  const bool quantized_bundle = impl.text.is_bundle && HasQuantizedLinear(impl.model);
  impl.compute = ChooseCompute(options.compute, quantized_bundle);
  impl.kv_type = ChooseKv(options.kv, !quantized_bundle && impl.compute == kernels::Compute::kF32);
  HONE_ASSIGN(impl.runner,
              MakeKernelRunner(impl.model, impl.compute, impl.kv_type, impl.pool, release));
  impl.release = release;
  const model::DecoderSpec& model_spec = impl.model.spec;
  const bool by_length = std::any_of(model_spec.ropes.begin(), model_spec.ropes.end(),
                                     [](const auto& rope) { return rope.by_length.has_value(); });
  if (options.prefix_cache_bytes > 0 && !by_length) {
    impl.prefixes = std::make_unique<PrefixCache>(
        options.prefix_cache_bytes,
        KvCache::BlockBytes(impl.kv_type, model_spec.num_layers, model_spec.num_kv_heads,
                            model_spec.head_dim));
  }
  SuppressUnusedIds(impl.model.spec.vocab, impl.text);
  return Status();
}

Status Engine::UseGraph(const EngineOptions& options,
                        std::shared_ptr<const formats::litertlm::Bundle> bundle) {
  HONE_ASSIGN(GraphRunner graph, MakeGraphRunner(std::move(bundle)));
  impl_->runner = std::move(graph.runner);
  impl_->runs_graph = true;
  impl_->model.spec.vocab = graph.vocab;
  impl_->model.spec.max_positions = graph.context;
  SuppressUnusedIds(graph.vocab, impl_->text);
  return CapContext(options.context);
}

Status Engine::CapContext(std::int64_t context) {
  std::int64_t& most = impl_->model.spec.max_positions;
  if (context < 0 || context > most) {
    return Status(Code::kInvalidArgument,
                  StrCat("the context asked for is ", context, ", expected at most the model's ",
                         most, ", or 0 for that one"));
  }
  if (context > 0) most = context;
  return Status();
}

const model::DecoderSpec& Engine::spec() const { return impl_->model.spec; }
const model::DecoderModel& Engine::model() const { return impl_->model; }
bool Engine::runs_graph() const { return impl_->runs_graph; }
const TextSetup& Engine::text() const { return impl_->text; }
kernels::Compute Engine::compute() const { return impl_->compute; }
kernels::KvType Engine::kv_type() const { return impl_->kv_type; }
int Engine::num_threads() const { return impl_->pool.num_threads(); }
std::vector<std::string> Engine::KernelNames() const { return impl_->runner->KernelNames(); }
double Engine::load_seconds() const { return impl_->load_seconds; }
const std::vector<std::string>& Engine::warnings() const { return impl_->warnings; }

Result<std::unique_ptr<Sequence>> Engine::NewSequence() {
  HONE_ASSIGN(auto runner, impl_->runner->NewSequence());
  std::unique_ptr<Sequence> sequence(new Sequence);
  sequence->impl_ = std::make_unique<Sequence::Impl>();
  sequence->impl_->owner = this;
  sequence->impl_->runner = std::move(runner);
  return sequence;
}

Status Engine::CheckPart(const StepPart& part) const {
  if (part.sequence == nullptr) return Status(Code::kInvalidArgument, "no sequence is given");
  const Sequence::Impl& sequence = *part.sequence->impl_;
  if (sequence.owner != this) {
    return Status(Code::kInvalidArgument, "the sequence belongs to another engine");
  }
  if (sequence.last_step == impl_->step) {
    return Status(Code::kInvalidArgument, "the sequence is in this step already");
  }
  if (part.tokens.empty()) return Status(Code::kInvalidArgument, "a step without tokens");
  for (const std::int32_t id : part.tokens) {
    if (id < 0 || id >= spec().vocab) {
      return Status(Code::kInvalidArgument,
                    StrCat("token id ", id, " is outside the vocabulary of ", spec().vocab));
    }
  }
  const std::int64_t size = part.sequence->size();
  const auto num_tokens = static_cast<std::int64_t>(part.tokens.size());
  if (num_tokens > spec().max_positions - size) {
    return Status(Code::kInvalidArgument,
                  StrCat(size + num_tokens, " tokens do not fit: the context holds ",
                         spec().max_positions, " (", size, " are used already)"));
  }
  return Status();
}

// Takes back what a step that did not end well has written to the caches.
class Engine::UndoStep {
 public:
  explicit UndoStep(const Step& step) : step_(step) {}
  ~UndoStep() {
    if (!undo_) return;
    for (const StepPart& part : step_.parts) {
      Sequence::Impl& sequence = *part.sequence->impl_;
      sequence.runner->Truncate(sequence.cached);
    }
  }
  UndoStep(const UndoStep&) = delete;
  UndoStep& operator=(const UndoStep&) = delete;
  void Keep() { undo_ = false; }

 private:
  const Step& step_;
  bool undo_ = true;
};

Status Engine::Run(const Step& step, std::vector<float>* logits, const std::atomic<bool>* cancel) {
  Impl& impl = *impl_;
  if (step.parts.empty()) return Status(Code::kInvalidArgument, "a step without parts");
  ++impl.step;
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    Status status = CheckPart(step.parts[i]);
    if (!status.ok()) {
      if (step.parts.size() == 1) return status;
      return std::move(status).Context(StrCat("part ", i));
    }
    step.parts[i].sequence->impl_->last_step = impl.step;
  }
  impl.rows.clear();
  std::int64_t num_wanted = 0;
  for (const StepPart& part : step.parts) {
    SequenceRows rows = PlanPart(part);
    const auto num_tokens = static_cast<std::int64_t>(part.tokens.size());
    std::int64_t wanted = part.all_logits ? num_tokens : (part.more > 0 ? 0 : 1);
    if (logits == nullptr) wanted = 0;
    num_wanted += wanted;
    rows.first_logits_row = static_cast<std::int64_t>(rows.tokens.size()) - wanted;
    impl.rows.push_back(rows);
  }
  if (logits != nullptr) logits->resize(static_cast<std::size_t>(num_wanted * spec().vocab));
  UndoStep undo(step);
  HONE_TRY(impl.runner->Run(impl.rows, logits != nullptr ? logits->data() : nullptr, cancel));
  undo.Keep();
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    const StepPart& part = step.parts[i];
    Sequence::Impl& sequence = *part.sequence->impl_;
    sequence.tokens.insert(sequence.tokens.end(), part.tokens.begin(), part.tokens.end());
    sequence.cached = part.sequence->size();
    sequence.rope_lists = RopeLists(spec(), impl.rows[i].length);
    KeepPages(part);
  }
  return Status();
}

// The rows of a part, but for what is asked of them. Makes room for its tokens in the sequence.
SequenceRows Engine::PlanPart(const StepPart& part) {
  Sequence::Impl& sequence = *part.sequence->impl_;
  const std::int64_t size = part.sequence->size();
  const auto num_tokens = static_cast<std::int64_t>(part.tokens.size());
  const std::int64_t length = size + num_tokens + std::max<std::int64_t>(part.more, 0);
  if (sequence.cached > 0 && sequence.rope_lists != RopeLists(spec(), length)) {
    sequence.runner->Truncate(0);
    sequence.cached = 0;
    sequence.from_file = 0;
  }
  // What follows the run of the step must not fail for want of memory.
  const auto needed = static_cast<std::size_t>(size + num_tokens);
  if (sequence.tokens.capacity() < needed) {
    sequence.tokens.reserve(std::max(needed, 2 * sequence.tokens.capacity()));
  }
  std::span<const std::int32_t> tokens = part.tokens;
  if (sequence.cached < size) {
    sequence.replay.assign(sequence.tokens.begin() + sequence.cached, sequence.tokens.end());
    sequence.replay.insert(sequence.replay.end(), tokens.begin(), tokens.end());
    tokens = sequence.replay;
  }
  return {.sequence = sequence.runner.get(),
          .tokens = tokens,
          .first_position = sequence.cached,
          .length = length};
}

// Offers the full blocks of a part's sequence to the prefix cache.
void Engine::KeepPages(const StepPart& part) {
  Sequence::Impl& sequence = *part.sequence->impl_;
  if (impl_->prefixes == nullptr || sequence.from_file > 0) return;
  // Rows whose logits are all asked for may be a draft that is taken back at once.
  const auto size =
      part.sequence->size() - (part.all_logits ? static_cast<std::int64_t>(part.tokens.size()) : 0);
  const std::int64_t full = size / kernels::kPagePositions;
  if (full <= sequence.kept_blocks) return;
  sequence.kept_blocks = full;
  impl_->prefixes->Offer(
      std::span(sequence.tokens).first(static_cast<std::size_t>(full * kernels::kPagePositions)),
      sequence.runner->kv_cache()->blocks());
}

std::int64_t Engine::ReusePrefix(Sequence& sequence, std::span<const std::int32_t> prompt) {
  if (impl_->prefixes == nullptr || sequence.impl_->owner != this || prompt.empty()) return 0;
  const std::span<const std::int32_t> held = sequence.tokens();
  const auto differs = std::mismatch(prompt.begin(), prompt.end(), held.begin(), held.end()).first;
  // At least one token is left to run: its logits are wanted.
  const auto blocks =
      impl_->prefixes->Find(prompt.first(prompt.size() - 1), differs - prompt.begin());
  if (blocks.empty()) return 0;
  const auto known = static_cast<std::int64_t>(blocks.size()) * kernels::kPagePositions;
  sequence.Truncate(0);
  sequence.impl_->runner->kv_cache()->Attach(blocks, known);
  sequence.impl_->tokens.assign(prompt.begin(), prompt.begin() + known);
  sequence.impl_->cached = known;
  sequence.impl_->kept_blocks = static_cast<std::int64_t>(blocks.size());
  return known;
}

std::int64_t Engine::prefix_page() const {
  return impl_->prefixes != nullptr ? kernels::kPagePositions : 0;
}

PrefixCacheStats Engine::prefix_cache_stats() const {
  return impl_->prefixes != nullptr ? impl_->prefixes->stats() : PrefixCacheStats();
}

StateFacts Engine::GetStateFacts() {
  Impl& impl = *impl_;
  if (!impl.model_hash) impl.model_hash = ModelHash(impl.model, impl.pool, impl.release);
  return {.model_hash = *impl.model_hash,
          .compute = impl.compute,
          .kv_type = impl.kv_type,
          .num_layers = spec().num_layers,
          .num_kv_heads = spec().num_kv_heads,
          .head_dim = spec().head_dim,
          .vocab = spec().vocab,
          .max_positions = spec().max_positions};
}

Status Engine::SaveState(const Sequence& sequence, std::string_view text, const std::string& path) {
  if (sequence.impl_->owner != this) {
    return Status(Code::kInvalidArgument, "the sequence belongs to another engine");
  }
  const KvCache* cache = sequence.impl_->runner->kv_cache();
  if (cache == nullptr) {
    return Status(Code::kUnsupported,
                  StrCat(path, ": a bundle that runs as a graph has no pages to save"));
  }
  if (sequence.impl_->cached < sequence.size() ||
      sequence.impl_->rope_lists != RopeLists(spec(), sequence.size())) {
    return Status(Code::kUnsupported,
                  StrCat(path,
                         ": the sequence was interrupted while its keys were computed for "
                         "another length; run it on before saving it"));
  }
  return WriteSequenceState(
      path, GetStateFacts(), sequence.tokens(), text, cache->blocks(),
      {.positions = sequence.impl_->from_file, .target = sequence.impl_->file_target});
}

Result<SavedSequence> Engine::LoadState(const std::string& path) {
  HONE_ASSIGN(auto sequence, NewSequence());
  KvCache* cache = sequence->impl_->runner->kv_cache();
  if (cache == nullptr) {
    return Status(Code::kUnsupported,
                  StrCat(path, ": a bundle that runs as a graph cannot use saved pages"));
  }
  HONE_ASSIGN(SequenceState state, OpenSequenceState(path, GetStateFacts()));
  cache->Attach(state.blocks, static_cast<std::int64_t>(state.tokens.size()));
  sequence->impl_->tokens = std::move(state.tokens);
  sequence->impl_->from_file = sequence->size();
  sequence->impl_->cached = sequence->size();
  sequence->impl_->rope_lists = RopeLists(spec(), sequence->size());
  sequence->impl_->file_target = std::move(state.target);
  return SavedSequence{std::move(sequence), std::move(state.text), std::move(state.note)};
}

std::span<const std::int32_t> Sequence::tokens() const { return impl_->tokens; }

void Sequence::Truncate(std::int64_t position) {
  position = std::clamp<std::int64_t>(position, 0, size());
  impl_->tokens.resize(static_cast<std::size_t>(position));
  impl_->cached = std::min(impl_->cached, position);
  impl_->runner->Truncate(impl_->cached);
  impl_->kept_blocks = std::min(impl_->kept_blocks, position / kernels::kPagePositions);
  impl_->from_file = std::min(impl_->from_file, position);
}

}  // namespace hone::runtime
