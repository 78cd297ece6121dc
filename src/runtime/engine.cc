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
#include "runtime/load_source.h"
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

}  // namespace

struct Engine::Impl {
  Impl(model::DecoderModel m, int num_threads) : model(std::move(m)), pool(num_threads) {}

  model::DecoderModel model;
  TextSetup text;
  ThreadPool pool;
  kernels::Compute compute = kernels::Compute::kF32;
  kernels::KvType kv_type = kernels::KvType::kF32;
  std::unique_ptr<StepRunner> runner;
  bool runs_graph = false;
  double load_seconds = 0;
  std::vector<std::string> warnings;
};

struct Sequence::Impl {
  const void* owner;
  std::vector<std::int32_t> tokens;
  std::unique_ptr<SequenceRunner> runner;
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
  HONE_ASSIGN(LoadedSource source, LoadSource(path, parts));
  if (options.run == RunChoice::kGraph && source.bundle == nullptr) {
    return Status(Code::kInvalidArgument,
                  StrCat(path, ": only a .litertlm bundle has a graph to run"));
  }
  std::unique_ptr<Engine> engine;
  Status status;
  if (source.model) {
    engine = Make(*std::move(source.model), std::move(source.text), options);
    status = engine->UseKernels(options, ReleaseFrom(source.bundle));
  } else {
    if (!source.not_lifted.empty()) {
      source.warnings.push_back(StrCat("the bundle's graph is not one that the kernels can run (",
                                       source.not_lifted,
                                       "); it runs operator by operator, which is slow"));
    }
    engine = Make({}, std::move(source.text), options);
    status = engine->UseGraph(source.bundle);
    if (!status.ok() && !source.not_lifted.empty()) {
      return Status(status.code(),
                    StrCat(path, ": ", source.not_lifted,
                           "; nor does its graph run operator by operator: ", status.message()));
    }
  }
  if (!status.ok()) return std::move(status).Context(path);
  engine->impl_->warnings = std::move(source.warnings);
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
  Impl& impl = *impl_;
  const bool quantized_bundle = impl.text.is_bundle && HasQuantizedLinear(impl.model);
  impl.compute = ChooseCompute(options.compute, quantized_bundle);
  impl.kv_type = ChooseKv(options.kv, !quantized_bundle && impl.compute == kernels::Compute::kF32);
  HONE_ASSIGN(impl.runner,
              MakeKernelRunner(impl.model, impl.compute, impl.kv_type, impl.pool, release));
  SuppressUnusedIds(impl.model.spec.vocab, impl.text);
  return Status();
}

Status Engine::UseGraph(std::shared_ptr<const formats::litertlm::Bundle> bundle) {
  HONE_ASSIGN(GraphRunner graph, MakeGraphRunner(std::move(bundle)));
  impl_->runner = std::move(graph.runner);
  impl_->runs_graph = true;
  impl_->model.spec.vocab = graph.vocab;
  impl_->model.spec.max_positions = graph.context;
  SuppressUnusedIds(graph.vocab, impl_->text);
  return Status();
}

const model::DecoderSpec& Engine::spec() const { return impl_->model.spec; }
const model::DecoderModel& Engine::model() const { return impl_->model; }
bool Engine::runs_graph() const { return impl_->runs_graph; }
const TextSetup& Engine::text() const { return impl_->text; }
kernels::Compute Engine::compute() const { return impl_->compute; }
kernels::KvType Engine::kv_type() const { return impl_->kv_type; }
int Engine::num_threads() const { return impl_->pool.num_threads(); }
double Engine::load_seconds() const { return impl_->load_seconds; }
const std::vector<std::string>& Engine::warnings() const { return impl_->warnings; }

Result<std::unique_ptr<Sequence>> Engine::NewSequence() {
  HONE_ASSIGN(auto runner, impl_->runner->NewSequence());
  std::unique_ptr<Sequence> sequence(new Sequence);
  sequence->impl_.reset(new Sequence::Impl{this, {}, std::move(runner)});
  return sequence;
}

Status Engine::Run(const Step& step, std::vector<float>* logits, const std::atomic<bool>* cancel) {
  if (step.parts.size() != 1 || step.parts[0].sequence == nullptr) {
    return Status(Code::kInvalidArgument, StrCat("a step has ", step.parts.size(),
                                                 " parts; this engine runs exactly one sequence "
                                                 "a step"));
  }
  const StepPart& part = step.parts[0];
  Sequence::Impl& sequence = *part.sequence->impl_;
  if (sequence.owner != this) {
    return Status(Code::kInvalidArgument, "the sequence belongs to another engine");
  }
  if (part.tokens.empty()) return Status(Code::kInvalidArgument, "a step without tokens");
  for (const std::int32_t id : part.tokens) {
    if (id < 0 || id >= spec().vocab) {
      return Status(Code::kInvalidArgument,
                    StrCat("token id ", id, " is outside the vocabulary of ", spec().vocab));
    }
  }
  const std::int64_t old_size = part.sequence->size();
  const auto num_tokens = static_cast<std::int64_t>(part.tokens.size());
  if (num_tokens > spec().max_positions - old_size) {
    return Status(Code::kInvalidArgument,
                  StrCat(old_size + num_tokens, " tokens do not fit: the context holds ",
                         spec().max_positions, " (", old_size, " are used already)"));
  }
  // Rows from this one on are asked for.
  const std::int64_t first_wanted =
      logits == nullptr ? num_tokens : (part.all_logits ? 0 : num_tokens - 1);
  if (logits != nullptr) {
    logits->resize(static_cast<std::size_t>((num_tokens - first_wanted) * spec().vocab));
  }
  Status status = sequence.runner->Run({.tokens = part.tokens,
                                        .first_position = old_size,
                                        .first_logits_row = first_wanted,
                                        .logits = logits != nullptr ? logits->data() : nullptr},
                                       cancel);
  if (status.ok()) {
    sequence.tokens.insert(sequence.tokens.end(), part.tokens.begin(), part.tokens.end());
  } else {
    sequence.runner->Truncate(old_size);
  }
  return status;
}

std::span<const std::int32_t> Sequence::tokens() const { return impl_->tokens; }

void Sequence::Truncate(std::int64_t position) {
  position = std::clamp<std::int64_t>(position, 0, size());
  impl_->tokens.resize(static_cast<std::size_t>(position));
  impl_->runner->Truncate(position);
}

}  // namespace hone::runtime
