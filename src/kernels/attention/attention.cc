// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/registry.h"

namespace hone::kernels {
namespace attention {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(isa, needs, tolerance, int8_tolerance) \
  {                                                        \
      "attention_f32__" #isa,                              \
      CpuTarget::needs,                                    \
      &attend_segment__##isa,                              \
      &merge__##isa,                                       \
      &finish__##isa,                                      \
      &store__##isa,                                       \
      tolerance,                                           \
      int8_tolerance},
#include "kernels/attention/kernels.inc"
#undef HONE_KERNEL
};

// Queries of one unit: enough to reuse a page, few enough that their scores stay in the cache.
constexpr std::int64_t kUnitQueries = 64;
constexpr std::int64_t kWholeUnit = -1;

// How a call is cut into units, and where they keep their results.
struct Plan {
  const AttentionArgs* call = nullptr;
  std::int64_t rows = 0;           // of a unit
  std::int64_t blocks = 0;         // of rows
  std::int64_t units = 0;          // blocks * kv heads
  std::int64_t first_segment = 0;  // of the first row
  std::int64_t segments = 0;       // from there to the end of the last row
  std::int64_t queries = 0;        // of a full unit
  std::int64_t padded = 0;
  // Threads share the segments of a unit: partials [units, segments + 1] from there on, the last of
  // a unit its total; counters [units].
  bool split = false;
  std::int64_t partials_at = 0, counters_at = 0;

  std::int64_t partial_floats() const { return (queries * (padded + 2) + 15) / 16 * 16; }
  std::int64_t scratch_floats() const {
    return (ScratchFloats(queries, padded) + 15) / 16 * 16 + 2 * partial_floats();
  }
};

Plan MakePlan(const AttentionArgs& call) {
  HONE_CHECK(call.kv_heads > 0 && call.heads % call.kv_heads == 0);
  Plan plan;
  plan.call = &call;
  const std::int64_t group = call.heads / call.kv_heads;
  plan.rows = std::max<std::int64_t>(1, std::min(call.m, kUnitQueries / group));
  plan.blocks = (call.m + plan.rows - 1) / plan.rows;
  plan.units = plan.blocks * call.kv_heads;
  if (call.window > 0) {
    plan.first_segment =
        std::max<std::int64_t>(0, call.first_position + 1 - call.window) / kSegmentPositions;
  }
  plan.segments = (call.first_position + call.m + kSegmentPositions - 1) / kSegmentPositions -
                  plan.first_segment;
  plan.queries = plan.rows * group;
  plan.padded = (call.head_dim + 15) / 16 * 16;
  return plan;
}

// The last rows first: they cost most.
Unit MakeUnit(const Plan& plan, std::int64_t index) {
  Unit unit;
  unit.call = plan.call;
  unit.first_row = (plan.blocks - 1 - index / plan.call->kv_heads) * plan.rows;
  unit.num_rows = std::min(plan.rows, plan.call->m - unit.first_row);
  unit.kv_head = index % plan.call->kv_heads;
  return unit;
}

// A unit of a plan, or one segment of it.
struct Task {
  const Plan* plan;
  std::int64_t unit, segment;
};

}  // namespace
}  // namespace attention

struct AttentionScratch::Buffers {
  std::vector<attention::Plan> plans;
  std::vector<attention::Task> tasks;
  std::vector<float> floats;
  std::vector<std::atomic<std::int64_t>> left;  // segments of a unit that are not done
};
AttentionScratch::AttentionScratch() : buffers_(std::make_unique<Buffers>()) {}
AttentionScratch::~AttentionScratch() = default;

namespace attention {
namespace {

// Everything of one run over the threads.
class Job {
 public:
  Job(std::span<const AttentionArgs> calls, int num_threads, AttentionScratch::Buffers& buffers)
      : buffers_(buffers), plans_(buffers.plans), tasks_(buffers.tasks), left_(buffers.left) {
    plans_.clear();
    tasks_.clear();
    std::int64_t units = 0;
    for (const AttentionArgs& call : calls) {
      if (call.m == 0) continue;
      plans_.push_back(MakePlan(call));
      units += plans_.back().units;
    }
    for (Plan& plan : plans_) {
      const std::int64_t kept = plan.units * (plan.segments + 1) * plan.partial_floats();
      // Where results are few they may be kept, and even tasks keep all threads busy to the end.
      plan.split = num_threads > 1 && plan.segments > 1 &&
                   (plan.blocks == 1 || units < std::int64_t{2} * num_threads) &&
                   partial_floats_ + kept <= kMostKeptFloats;
      scratch_ = std::max(scratch_, plan.scratch_floats());
      if (!plan.split) continue;
      plan.counters_at = counters_;
      plan.partials_at = partial_floats_;
      counters_ += plan.units;
      partial_floats_ += kept;
    }
    MakeTasks();
    workers_ = static_cast<int>(
        std::min<std::int64_t>(static_cast<std::int64_t>(tasks_.size()), num_threads));
  }

  // Of scratch and kept results.
  std::int64_t floats() const { return workers_ * scratch_ + partial_floats_; }

  void Run(const Kernel& kernel, ThreadPool& pool) {
    if (workers_ == 0) return;
    kernel_ = &kernel;
    const auto floats_with_gap = static_cast<std::size_t>(floats() + 16);
    if (buffers_.floats.size() < floats_with_gap) {
      buffers_.floats = {};  // not both at once
      buffers_.floats.resize(floats_with_gap);
    }
    first_ = buffers_.floats.data();
    while (reinterpret_cast<std::uintptr_t>(first_) % 64 != 0) ++first_;
    partials_ = first_ + workers_ * scratch_;
    if (left_.size() < static_cast<std::size_t>(counters_)) {
      left_ = std::vector<std::atomic<std::int64_t>>(static_cast<std::size_t>(counters_));
    }
    for (const Plan& plan : plans_) CountSegments(plan);
    if (workers_ == 1) {
      Work(0);
    } else {
      pool.Run(workers_, [this](int worker) { Work(worker); });
    }
  }

 private:
  // Whole units first, the small pieces last.
  void MakeTasks() {
    for (const bool split : {false, true}) {
      for (const Plan& plan : plans_) {
        if (plan.split != split) continue;
        for (std::int64_t u = 0; u < plan.units; ++u) {
          if (!split) {
            tasks_.push_back({&plan, u, kWholeUnit});
            continue;
          }
          const Unit unit = MakeUnit(plan, u);
          for (std::int64_t s = unit.first_segment(); s <= unit.last_segment(); ++s) {
            tasks_.push_back({&plan, u, s});
          }
        }
      }
    }
  }

  void CountSegments(const Plan& plan) {
    if (!plan.split) return;
    for (std::int64_t u = 0; u < plan.units; ++u) {
      const Unit unit = MakeUnit(plan, u);
      left_[static_cast<std::size_t>(plan.counters_at + u)].store(
          unit.last_segment() - unit.first_segment() + 1, std::memory_order_relaxed);
    }
  }

  static Partial MakePartial(const Plan& plan, float* memory) {
    return {memory + plan.queries * plan.padded, memory + plan.queries * (plan.padded + 1), memory};
  }

  // Segment s counted from the plan's first, or plan.segments for the total.
  Partial SplitPartial(const Plan& plan, std::int64_t unit, std::int64_t s) const {
    return MakePartial(plan, partials_ + plan.partials_at +
                                 (unit * (plan.segments + 1) + s) * plan.partial_floats());
  }

  void Work(int worker) {
    float* mine = first_ + worker * scratch_;
    for (std::size_t i = next_.fetch_add(1); i < tasks_.size(); i = next_.fetch_add(1)) {
      const Task& task = tasks_[i];
      if (task.segment == kWholeUnit) {
        RunUnit(*task.plan, task.unit, mine);
      } else {
        RunSegment(task, mine);
      }
    }
  }

  void RunUnit(const Plan& plan, std::int64_t index, float* mine) const {
    const Unit unit = MakeUnit(plan, index);
    const Partial part = MakePartial(plan, mine);
    const Partial total = MakePartial(plan, mine + plan.partial_floats());
    for (std::int64_t s = unit.first_segment(); s <= unit.last_segment(); ++s) {
      kernel_->attend_segment(unit, s, mine + 2 * plan.partial_floats(), part);
      kernel_->merge(unit, s, part, total);
    }
    kernel_->finish(unit, total);
  }

  // Whoever finishes a unit's last segment merges all of them, in the same order as above.
  void RunSegment(const Task& task, float* mine) const {
    const Plan& plan = *task.plan;
    const Unit unit = MakeUnit(plan, task.unit);
    kernel_->attend_segment(unit, task.segment, mine + 2 * plan.partial_floats(),
                            SplitPartial(plan, task.unit, task.segment - plan.first_segment));
    auto& left = left_[static_cast<std::size_t>(plan.counters_at + task.unit)];
    if (left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const Partial total = SplitPartial(plan, task.unit, plan.segments);
    for (std::int64_t s = unit.first_segment(); s <= unit.last_segment(); ++s) {
      kernel_->merge(unit, s, SplitPartial(plan, task.unit, s - plan.first_segment), total);
    }
    kernel_->finish(unit, total);
  }

  const Kernel* kernel_ = nullptr;
  AttentionScratch::Buffers& buffers_;
  std::vector<Plan>& plans_;
  std::vector<Task>& tasks_;
  std::vector<std::atomic<std::int64_t>>& left_;
  std::atomic<std::size_t> next_{0};
  int workers_ = 0;
  std::int64_t scratch_ = 0;  // floats of one worker
  std::int64_t partial_floats_ = 0, counters_ = 0;
  float* first_ = nullptr;  // of the buffer, aligned to 64 bytes
  float* partials_ = nullptr;
};

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() {
  static const Kernel& kernel = FirstSupported(Kernels());
  return kernel;
}

std::int64_t WorkFloats(std::span<const AttentionArgs> calls, int num_threads) {
  AttentionScratch scratch;
  return Job(calls, num_threads, scratch.buffers()).floats();
}

void AttentionWith(const Kernel& kernel, std::span<const AttentionArgs> calls, ThreadPool& pool,
                   AttentionScratch& scratch) {
  Job(calls, pool.num_threads(), scratch.buffers()).Run(kernel, pool);
}

void StoreKvWith(const Kernel& kernel, KvType type, KvPart part, const float* rows, std::int64_t m,
                 std::int64_t first_position, std::int64_t kv_heads, std::int64_t head_dim,
                 void* const* pages) {
  StoreArgs args;
  args.type = type;
  args.part = part;
  args.stride = kv_heads * head_dim;
  args.head_dim = head_dim;
  for (std::int64_t i = 0; i < m; i += args.count) {
    const std::int64_t position = first_position + i;
    args.slot = position % kPagePositions;
    args.count = std::min(m - i, kPagePositions - args.slot);
    auto* page = static_cast<std::byte*>(pages[position / kPagePositions]);
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      args.x = rows + (i * kv_heads + h) * head_dim;
      args.piece = page + h * HeadBytes(type, head_dim);
      kernel.store(args);
    }
  }
}

}  // namespace attention

const char* KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kInt8:
      return "int8";
  }
  return "unknown";
}

std::uint64_t KvPageBytes(KvType type, std::int64_t kv_heads, std::int64_t head_dim) {
  return static_cast<std::uint64_t>(kv_heads * attention::HeadBytes(type, head_dim));
}

void StoreKv(KvType type, KvPart part, const float* rows, std::int64_t m,
             std::int64_t first_position, std::int64_t kv_heads, std::int64_t head_dim,
             void* const* pages) {
  attention::StoreKvWith(attention::Find(), type, part, rows, m, first_position, kv_heads, head_dim,
                         pages);
}

void Attention(std::span<const AttentionArgs> calls, ThreadPool& pool, AttentionScratch& scratch) {
  attention::AttentionWith(attention::Find(), calls, pool, scratch);
}

}  // namespace hone::kernels
