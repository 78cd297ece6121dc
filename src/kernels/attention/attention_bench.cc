// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Attention of a step: m rows at the end of a context. bytes are keys and values read.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

void AttentionStep(benchmark::State& state, const attention::Kernel& kernel) {
  const std::int64_t heads = state.range(0), kv_heads = state.range(1), dim = state.range(2);
  const std::int64_t context = state.range(3), m = state.range(4);
  const KvType type = state.range(5) != 0 ? KvType::kF16 : KvType::kF32;
  ThreadPool pool(static_cast<int>(state.range(6)));
  const std::int64_t pages = (context + kPagePositions - 1) / kPagePositions;
  std::vector<std::vector<float>> memory;
  std::vector<void*> pointers;
  for (std::int64_t p = 0; p < pages; ++p) {
    memory.emplace_back(static_cast<std::size_t>(kv_heads * kPagePositions * dim));
    pointers.push_back(memory.back().data());
  }
  const std::vector<float> rows = RandomFloats(context * kv_heads * dim, 1);
  attention::StoreKvWith(kernel, type, rows.data(), context, 0, kv_heads, dim, pointers.data());
  const std::vector<float> q = RandomFloats(m * heads * dim, 2);
  std::vector<float> out(q.size());
  AttentionArgs args;
  args.q = q.data();
  args.out = out.data();
  args.m = m;
  args.first_position = context - m;
  args.heads = heads;
  args.kv_heads = kv_heads;
  args.head_dim = dim;
  args.kv_type = type;
  args.k_pages = pointers.data();
  args.v_pages = pointers.data();
  for (auto _ : state) {
    attention::AttentionWith(kernel, args, pool);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetLabel(kernel.name);
  const std::int64_t bytes = 2 * context * kv_heads * dim * (type == KvType::kF16 ? 2 : 4);
  state.SetBytesProcessed(bytes * static_cast<std::int64_t>(state.iterations()));
  state.SetItemsProcessed(4 * m * (context - m / 2) * heads * dim *
                          static_cast<std::int64_t>(state.iterations()));
}

const int kRegistered = [] {
  for (const attention::Kernel& kernel : attention::Kernels()) {
    if (!CpuSupports(kernel.needs)) continue;
    auto* b = benchmark::RegisterBenchmark("AttentionStep", AttentionStep, kernel);
    b->ArgNames({"heads", "kv", "dim", "context", "m", "f16", "threads"})->UseRealTime();
    for (const std::int64_t f16 : {0, 1}) {
      b->Args({9, 3, 64, 2048, 1, f16, 1});
      b->Args({16, 2, 128, 2048, 1, f16, 1});
      b->Args({9, 3, 64, 256, 256, f16, 1});
      b->Args({16, 2, 128, 2048, 256, f16, 1});
    }
  }
  return 0;
}();

}  // namespace
}  // namespace hone::kernels
