// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/registry.h"

namespace hone::kernels {
namespace attention {
namespace {

constexpr Kernel kKernels[] = {
#define HONE_KERNEL(isa, needs, tolerance) \
  {                                        \
      "attention_f32__" #isa,              \
      CpuTarget::needs,                    \
      &attend_segment__##isa,              \
      &merge__##isa,                       \
      &finish__##isa,                      \
      &store_f16__##isa,                   \
      tolerance},
#include "kernels/attention/kernels.inc"
#undef HONE_KERNEL
};

// Queries of one unit: enough to reuse a page, few enough that their scores stay in the cache.
constexpr std::int64_t kUnitQueries = 32;

// How a call is cut into units.
struct Plan {
  std::int64_t rows = 0;           // of a unit
  std::int64_t blocks = 0;         // of rows
  std::int64_t units = 0;          // blocks * kv heads
  std::int64_t first_segment = 0;  // of the first row
  std::int64_t segments = 0;       // from there to the end of the last row
  std::int64_t queries = 0;        // of a full unit
  std::int64_t padded = 0;
};

Plan MakePlan(const AttentionArgs& args) {
  Plan plan;
  const std::int64_t group = args.heads / args.kv_heads;
  plan.rows = std::max<std::int64_t>(1, std::min(args.m, kUnitQueries / group));
  plan.blocks = (args.m + plan.rows - 1) / plan.rows;
  plan.units = plan.blocks * args.kv_heads;
  if (args.window > 0) {
    plan.first_segment =
        std::max<std::int64_t>(0, args.first_position + 1 - args.window) / kSegmentPositions;
  }
  plan.segments = (args.first_position + args.m + kSegmentPositions - 1) / kSegmentPositions -
                  plan.first_segment;
  plan.queries = plan.rows * group;
  plan.padded = (args.head_dim + 15) / 16 * 16;
  return plan;
}

// The last rows first: they cost most.
Unit MakeUnit(const AttentionArgs& args, const Plan& plan, std::int64_t index) {
  Unit unit;
  unit.call = &args;
  unit.first_row = (plan.blocks - 1 - index / args.kv_heads) * plan.rows;
  unit.num_rows = std::min(plan.rows, args.m - unit.first_row);
  unit.kv_head = index % args.kv_heads;
  return unit;
}

std::int64_t PartialFloats(const Plan& plan) { return plan.queries * (plan.padded + 2); }

Partial MakePartial(const Plan& plan, float* memory) {
  return {memory, memory + plan.queries, memory + 2 * plan.queries};
}

// Each thread takes whole units.
void RunUnits(const Kernel& kernel, const AttentionArgs& args, const Plan& plan, ThreadPool& pool) {
  const std::int64_t scratch = ScratchFloats(plan.queries, plan.padded);
  const std::int64_t each = scratch + 2 * PartialFloats(plan);
  const auto workers = static_cast<int>(std::min<std::int64_t>(plan.units, pool.num_threads()));
  std::vector<float> memory(static_cast<std::size_t>(workers * each));
  std::atomic<std::int64_t> next{0};
  pool.Run(workers, [&](int worker) {
    float* mine = memory.data() + worker * each;
    const Partial part = MakePartial(plan, mine + scratch);
    const Partial total = MakePartial(plan, mine + scratch + PartialFloats(plan));
    for (std::int64_t i = next.fetch_add(1); i < plan.units; i = next.fetch_add(1)) {
      const Unit unit = MakeUnit(args, plan, i);
      for (std::int64_t s = unit.first_segment(); s * kSegmentPositions <= unit.last_position();
           ++s) {
        kernel.attend_segment(unit, s, mine, part);
        kernel.merge(unit, s, part, total);
      }
      kernel.finish(unit, total);
    }
  });
}

// Few units, many positions: threads share the segments of a unit, which are merged afterwards in
// the same order as above.
void RunSegments(const Kernel& kernel, const AttentionArgs& args, const Plan& plan,
                 ThreadPool& pool) {
  const std::int64_t scratch = ScratchFloats(plan.queries, plan.padded);
  const std::int64_t partial = PartialFloats(plan);
  const std::int64_t tasks = plan.units * plan.segments;
  const auto workers = static_cast<int>(std::min<std::int64_t>(tasks, pool.num_threads()));
  std::vector<float> memory(
      static_cast<std::size_t>(workers * scratch + (tasks + plan.units) * partial));
  float* partials = memory.data() + workers * scratch;
  std::atomic<std::int64_t> next{0};
  pool.Run(workers, [&](int worker) {
    for (std::int64_t i = next.fetch_add(1); i < tasks; i = next.fetch_add(1)) {
      const Unit unit = MakeUnit(args, plan, i / plan.segments);
      const std::int64_t s = plan.first_segment + i % plan.segments;
      if (s < unit.first_segment() || s * kSegmentPositions > unit.last_position()) continue;
      kernel.attend_segment(unit, s, memory.data() + worker * scratch,
                            MakePartial(plan, partials + i * partial));
    }
  });
  for (std::int64_t u = 0; u < plan.units; ++u) {
    const Unit unit = MakeUnit(args, plan, u);
    const Partial total = MakePartial(plan, partials + (tasks + u) * partial);
    for (std::int64_t s = unit.first_segment(); s * kSegmentPositions <= unit.last_position();
         ++s) {
      const std::int64_t task = u * plan.segments + s - plan.first_segment;
      kernel.merge(unit, s, MakePartial(plan, partials + task * partial), total);
    }
    kernel.finish(unit, total);
  }
}

}  // namespace

std::span<const Kernel> Kernels() { return kKernels; }

const Kernel& Find() { return FirstSupported(Kernels()); }

void AttentionWith(const Kernel& kernel, const AttentionArgs& args, ThreadPool& pool) {
  if (args.m == 0) return;
  HONE_CHECK(args.kv_heads > 0 && args.heads % args.kv_heads == 0);
  const Plan plan = MakePlan(args);
  if (plan.units < 2 * pool.num_threads() && plan.segments > 1 && pool.num_threads() > 1) {
    RunSegments(kernel, args, plan, pool);
  } else {
    RunUnits(kernel, args, plan, pool);
  }
}

void StoreKvWith(const Kernel& kernel, KvType type, const float* rows, std::int64_t m,
                 std::int64_t first_position, std::int64_t kv_heads, std::int64_t head_dim,
                 void* const* pages) {
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t position = first_position + i;
    void* page = pages[position / kPagePositions];
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      const float* from = rows + (i * kv_heads + h) * head_dim;
      const std::int64_t offset = (h * kPagePositions + position % kPagePositions) * head_dim;
      if (type == KvType::kF32) {
        std::memcpy(static_cast<float*>(page) + offset, from,
                    static_cast<std::size_t>(head_dim) * sizeof(float));
      } else {
        kernel.store_f16(from, head_dim, static_cast<std::uint16_t*>(page) + offset);
      }
    }
  }
}

}  // namespace attention

void StoreKv(KvType type, const float* rows, std::int64_t m, std::int64_t first_position,
             std::int64_t kv_heads, std::int64_t head_dim, void* const* pages) {
  static const attention::Kernel& kernel = attention::Find();
  attention::StoreKvWith(kernel, type, rows, m, first_position, kv_heads, head_dim, pages);
}

void Attention(const AttentionArgs& args, ThreadPool& pool) {
  static const attention::Kernel& kernel = attention::Find();
  attention::AttentionWith(kernel, args, pool);
}

}  // namespace hone::kernels
