// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Attention of a step: m rows at the end of a context. bytes are keys and values read.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

// Pages of all layers would not fit the caches of a machine; so the bench goes round `kLayers`
// copies of a layer's cache.
constexpr int kLayers = 12;

struct LayerCache {
  std::vector<AlignedBuffer> memory;
  std::vector<void*> pages[2];
};

LayerCache MakeCache(const attention::Kernel& kernel, KvType type, std::int64_t context,
                     std::int64_t kv_heads, std::int64_t dim) {
  LayerCache cache;
  const std::vector<float> rows = RandomFloats(context * kv_heads * dim, 1);
  const std::uint64_t bytes = KvPageBytes(type, kv_heads, dim);
  for (const KvPart part : {KvPart::kKeys, KvPart::kValues}) {
    auto& pages = cache.pages[part == KvPart::kKeys ? 0 : 1];
    for (std::int64_t p = 0; p * kPagePositions < context; ++p) {
      cache.memory.push_back(AllocateAligned(bytes));
      std::memset(cache.memory.back().get(), 0, bytes);
      pages.push_back(cache.memory.back().get());
    }
    attention::StoreKvWith(kernel, type, part, rows.data(), context, 0, kv_heads, dim,
                           pages.data());
  }
  return cache;
}

void AttentionStep(benchmark::State& state, const attention::Kernel& kernel) {
  const std::int64_t heads = state.range(0), kv_heads = state.range(1), dim = state.range(2);
  const std::int64_t context = state.range(3), m = state.range(4);
  const auto type = static_cast<KvType>(state.range(5));
  ThreadPool pool(static_cast<int>(state.range(6)));
  std::vector<LayerCache> layers;
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(MakeCache(kernel, type, context, kv_heads, dim));
  }
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
  args.scale = 1.0f / 8;
  args.kv_type = type;
  AttentionScratch scratch;
  std::size_t layer = 0;
  for (auto _ : state) {
    args.k_pages = layers[layer].pages[0].data();
    args.v_pages = layers[layer].pages[1].data();
    layer = (layer + 1) % kLayers;
    attention::AttentionWith(kernel, {&args, 1}, pool, scratch);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetLabel(StrCat(kernel.name, " ", KvTypeName(type)));
  const auto bytes =
      static_cast<std::int64_t>(KvPageBytes(type, kv_heads, dim)) * 2 * context / kPagePositions;
  state.SetBytesProcessed(bytes * static_cast<std::int64_t>(state.iterations()));
  state.SetItemsProcessed(4 * m * (context - m / 2) * heads * dim *
                          static_cast<std::int64_t>(state.iterations()));
}

const int kRegistered = [] {
  for (const attention::Kernel& kernel : attention::Kernels()) {
    if (!CpuSupports(kernel.needs)) continue;
    auto* b = benchmark::RegisterBenchmark("AttentionStep", AttentionStep, kernel);
    b->ArgNames({"heads", "kv", "dim", "context", "m", "kv_type", "threads"})->UseRealTime();
    for (const std::int64_t threads : {1, 2}) {
      for (const std::int64_t type : {0, 1, 2}) {
        for (const std::int64_t context : {128, 2048, 4096, 16384}) {
          b->Args({16, 2, 128, context, 1, type, threads});
          b->Args({9, 3, 64, context, 1, type, threads});
        }
        for (const std::int64_t context : {256, 2304}) {
          b->Args({16, 2, 128, context, 256, type, threads});
          b->Args({9, 3, 64, context, 256, type, threads});
        }
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace hone::kernels
