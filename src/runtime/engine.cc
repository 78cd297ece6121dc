// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/cpu_info.h"
#include "base/thread_pool.h"
#include "runtime/forward.h"
#include "runtime/kv_cache.h"
#include "runtime/load_source.h"
#include "runtime/packed_model.h"

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

}  // namespace

struct Engine::Impl {
  Impl(model::DecoderModel m, int num_threads) : model(std::move(m)), pool(num_threads) {}

  model::DecoderModel model;
  TextSetup text;
  ThreadPool pool;
  kernels::Compute compute = kernels::Compute::kF32;
  kernels::KvType kv_type = kernels::KvType::kF32;
  std::optional<PackedModel> packed;
  std::optional<Forward> forward;
  double load_seconds = 0;
  std::vector<std::string> warnings;
};

struct Sequence::Impl {
  const void* owner;
  std::vector<std::int32_t> tokens;
  KvCache cache;
};

Engine::Engine() = default;
Engine::~Engine() = default;
Sequence::Sequence() = default;
Sequence::~Sequence() = default;

Result<std::unique_ptr<Engine>> Engine::Open(const std::string& path,
                                             const EngineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  HONE_ASSIGN(LoadedSource source, LoadSource(path, SourceParts::kAll));
  std::function<void(ByteSpan)> release;
  if (source.bundle != nullptr) {
    release = [bundle = source.bundle](ByteSpan part) {
      const ByteSpan all = bundle->map().bytes();
      const bool inside = std::less_equal<>{}(all.data(), part.data()) &&
                          std::less_equal<>{}(part.data() + part.size(), all.data() + all.size());
      if (inside) bundle->map().Release(part);
    };
  }
  HONE_ASSIGN(auto engine,
              Load(*std::move(source.model), std::move(source.text), options, path, release));
  engine->impl_->warnings = std::move(source.warnings);
  engine->impl_->load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::FromModel(model::DecoderModel model, TextSetup text,
                                                  const EngineOptions& options,
                                                  const std::string& source) {
  const auto start = std::chrono::steady_clock::now();
  HONE_ASSIGN(auto engine, Load(std::move(model), std::move(text), options, source, {}));
  engine->impl_->load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::Load(model::DecoderModel model, TextSetup text,
                                             const EngineOptions& options,
                                             const std::string& source,
                                             const std::function<void(ByteSpan)>& release) {
  const int num_threads = options.num_threads > 0 ? options.num_threads : AvailableThreads();
  std::unique_ptr<Engine> engine(new Engine);
  engine->impl_ = std::make_unique<Impl>(std::move(model), num_threads);
  Impl& impl = *engine->impl_;
  impl.text = std::move(text);
  const bool quantized_bundle = impl.text.is_bundle && HasQuantizedLinear(impl.model);
  impl.compute = ChooseCompute(options.compute, quantized_bundle);
  impl.kv_type = ChooseKv(options.kv, !quantized_bundle && impl.compute == kernels::Compute::kF32);
  auto packed = PackModel(impl.model, impl.compute, impl.pool, release);
  if (!packed.ok()) return std::move(packed).status().Context(source);
  impl.packed = *std::move(packed);
  impl.forward.emplace(impl.model, *impl.packed, impl.pool);
  return engine;
}

const model::DecoderSpec& Engine::spec() const { return impl_->model.spec; }
const model::DecoderModel& Engine::model() const { return impl_->model; }
const TextSetup& Engine::text() const { return impl_->text; }
kernels::Compute Engine::compute() const { return impl_->compute; }
kernels::KvType Engine::kv_type() const { return impl_->kv_type; }
int Engine::num_threads() const { return impl_->pool.num_threads(); }
double Engine::load_seconds() const { return impl_->load_seconds; }
const std::vector<std::string>& Engine::warnings() const { return impl_->warnings; }

Result<std::unique_ptr<Sequence>> Engine::NewSequence() {
  const model::DecoderSpec& s = spec();
  std::unique_ptr<Sequence> sequence(new Sequence);
  sequence->impl_.reset(new Sequence::Impl{
      this, {}, KvCache(impl_->kv_type, s.num_layers, s.num_kv_heads, s.head_dim)});
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
  HONE_TRY(sequence.cache.Reserve(old_size + num_tokens));
  Status status = RunChunks(part, sequence.cache, logits, cancel);
  if (status.ok()) {
    sequence.tokens.insert(sequence.tokens.end(), part.tokens.begin(), part.tokens.end());
  } else {
    sequence.cache.Shrink(old_size);
  }
  return status;
}

Status Engine::RunChunks(const StepPart& part, KvCache& cache, std::vector<float>* logits,
                         const std::atomic<bool>* cancel) {
  const auto num_tokens = static_cast<std::int64_t>(part.tokens.size());
  // Rows of the part from this one on are asked for.
  const std::int64_t first_wanted =
      logits == nullptr ? num_tokens : (part.all_logits ? 0 : num_tokens - 1);
  const auto vocab = static_cast<std::size_t>(spec().vocab);
  if (logits != nullptr) {
    logits->resize(static_cast<std::size_t>(num_tokens - first_wanted) * vocab);
  }
  for (std::int64_t begin = 0; begin < num_tokens; begin += Forward::kChunkRows) {
    const std::int64_t count = std::min(Forward::kChunkRows, num_tokens - begin);
    const std::int64_t first_row = std::clamp<std::int64_t>(first_wanted - begin, 0, count);
    float* out = nullptr;
    if (first_row < count) {
      out = logits->data() + static_cast<std::size_t>(begin + first_row - first_wanted) * vocab;
    }
    HONE_TRY(impl_->forward->Run(
        part.tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
        part.sequence->size() + begin, cache, first_row, out, cancel));
  }
  return Status();
}

std::span<const std::int32_t> Sequence::tokens() const { return impl_->tokens; }

void Sequence::Truncate(std::int64_t position) {
  position = std::clamp<std::int64_t>(position, 0, size());
  impl_->tokens.resize(static_cast<std::size_t>(position));
  impl_->cache.Shrink(position);
}

}  // namespace hone::runtime
