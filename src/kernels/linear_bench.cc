// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Linear layers for every weight type, beside a plain read loop. items are multiply-adds times two,
// bytes are packed weights, so bytes_per_second of the m = 1 cases and of the layers compares with
// that of ReadLoop in the same run (docs/perf/kernels.md).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/aligned_buffer.h"
#include "kernels/linear.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

using codec::Coding;
using codec::WeightType;

// Enough copies of the matrices that no cache holds them.
constexpr std::uint64_t kDecodeBytes = 512U << 20;

Result<Linear> MakeLinear(WeightType type, Compute compute, std::int64_t n, std::int64_t k,
                          ThreadPool& pool) {
  codec::WeightBuffer w{type, n, k, {}, {}};
  w.codes = RandomBytes(static_cast<std::int64_t>(codec::CodesBytes(type, n, k)), 1);
  // Bytes that make small positive scales, so that outputs are about 1 and no activation meets
  // subnormal values: 0x20 for fp16, 0x38 for float32. 0x38 for small float weights, too.
  const auto scale = static_cast<std::byte>(type.block == 0 ? 0x38 : 0x20);
  w.scales.assign(codec::ScalesBytes(type, n, k), scale);
  if (compute == Compute::kF32) w.codes.assign(w.codes.size(), std::byte{0x38});
  return Linear::Pack(w.view(), compute, pool);
}

// Sums 8-byte words, with memory in large pages where the system has them. Argument: threads.
void ReadLoop(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const AlignedBuffer memory = AllocateAligned(kDecodeBytes);
  if (memory == nullptr) return state.SkipWithError("no memory");
  std::memset(memory.get(), 1, kDecodeBytes);
  constexpr std::uint64_t kPart = 4U << 20;
  constexpr std::uint64_t kAhead = 4608;  // as the kernels; without it the loop is slower than they
  for (auto _ : state) {
    pool.Run(static_cast<int>(kDecodeBytes / kPart), [&](int part) {
      const std::byte* p = memory.get() + static_cast<std::uint64_t>(part) * kPart;
      std::uint64_t sums[8] = {};
      for (std::uint64_t at = 0; at < kPart; at += sizeof(sums)) {
        __builtin_prefetch(p + at + kAhead);
        std::uint64_t words[8];
        std::memcpy(words, p + at, sizeof(words));
        for (int i = 0; i < 8; ++i) sums[i] += words[i];
      }
      for (std::uint64_t& sum : sums) benchmark::DoNotOptimize(sum);
    });
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(kDecodeBytes) *
                          static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(ReadLoop)->Arg(1)->Arg(2)->UseRealTime()->ArgNames({"threads"});

void LinearRun(benchmark::State& state, WeightType type, Compute compute) {
  const std::int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  ThreadPool pool(static_cast<int>(state.range(3)));
  std::vector<Linear> linears;
  std::uint64_t bytes = 0;
  do {
    auto linear = MakeLinear(type, compute, n, k, pool);
    if (!linear.ok()) return state.SkipWithError("cannot pack");
    bytes += linear->packed_bytes();
    linears.push_back(*std::move(linear));
  } while (m <= 16 && bytes < kDecodeBytes);
  const std::vector<float> x = RandomFloats(m * k, 2);
  PreparedRows rows;
  rows.Prepare(linears[0].input_kind(), x.data(), m, k, pool);
  std::vector<float> y(static_cast<std::size_t>(m * n));
  for (auto _ : state) {
    for (const Linear& linear : linears) linear.Run(rows, nullptr, y.data(), pool);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetLabel(linears[0].kernel_name());
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) *
                          static_cast<std::int64_t>(state.iterations()));
  state.SetItemsProcessed(static_cast<std::int64_t>(linears.size()) * 2 * m * n * k *
                          static_cast<std::int64_t>(state.iterations()));
}

void Shapes(benchmark::internal::Benchmark* b) {
  for (const int threads : {1, 2}) {
    for (const std::int64_t m : {1, 8, 256}) {
      b->Args({2048, 2048, m, threads});
      b->Args({6144, 2048, m, threads});
      b->Args({2048, 6144, m, threads});
      b->Args({1536, 576, m, threads});
    }
  }
  b->UseRealTime()->ArgNames({"n", "k", "m", "threads"});
}

BENCHMARK_CAPTURE(LinearRun, int4_block32, WeightType{Coding::kInt4, 32}, Compute::kQ8)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(LinearRun, int4_block128, WeightType{Coding::kInt4, 128}, Compute::kQ8)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(LinearRun, int8, WeightType{Coding::kInt8, 0}, Compute::kQ8)->Apply(Shapes);
BENCHMARK_CAPTURE(LinearRun, f32, WeightType{Coding::kF32, 0}, Compute::kF32)->Apply(Shapes);
BENCHMARK_CAPTURE(LinearRun, f16, WeightType{Coding::kF16, 0}, Compute::kF32)->Apply(Shapes);

// The products of one decoder layer as the engine runs them, without attention.
struct Layer {
  std::vector<Linear> linears;  // q, k, v, o, gate, up, down
  static Result<Layer> Make(WeightType type, std::int64_t hidden, std::int64_t kv, std::int64_t ffn,
                            ThreadPool& pool) {
    Layer layer;
    const std::int64_t shapes[][2] = {{hidden, hidden}, {kv, hidden},  {kv, hidden},
                                      {hidden, hidden}, {ffn, hidden}, {ffn, hidden},
                                      {hidden, ffn}};
    for (const auto& shape : shapes) {
      HONE_ASSIGN(Linear linear, MakeLinear(type, Compute::kQ8, shape[0], shape[1], pool));
      layer.linears.push_back(std::move(linear));
    }
    return layer;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Linear& linear : linears) sum += linear.packed_bytes();
    return sum;
  }
};

// Arguments: hidden, columns of k and v, ffn, m, threads.
void LayerRun(benchmark::State& state, WeightType type) {
  const std::int64_t hidden = state.range(0), kv = state.range(1), ffn = state.range(2);
  const std::int64_t m = state.range(3);
  ThreadPool pool(static_cast<int>(state.range(4)));
  std::vector<Layer> layers;
  std::uint64_t bytes = 0;
  do {
    auto layer = Layer::Make(type, hidden, kv, ffn, pool);
    if (!layer.ok()) return state.SkipWithError("cannot pack");
    bytes += layer->bytes();
    layers.push_back(*std::move(layer));
  } while (m <= 16 && bytes < kDecodeBytes);
  const std::vector<float> x = RandomFloats(m * hidden, 2),
                           weight(static_cast<std::size_t>(hidden), 1);
  std::vector<float> normed(x.size()), q(x.size()), out(x.size());
  std::vector<float> keys(static_cast<std::size_t>(m * kv)), values(keys.size());
  std::vector<float> gate(static_cast<std::size_t>(m * ffn)), up(gate.size());
  PreparedRows in, mid;
  constexpr InputKind kQ8 = InputKind::kRowQ8;
  for (auto _ : state) {
    for (const Layer& layer : layers) {
      const Linear* w = layer.linears.data();
      in.PrepareNormed(kQ8, x.data(), weight.data(), 1e-5f, m, hidden, normed.data(), pool);
      const LinearCall qkv[] = {{w, &in, nullptr, q.data()},
                                {w + 1, &in, nullptr, keys.data()},
                                {w + 2, &in, nullptr, values.data()}};
      RunLinears(qkv, pool);
      mid.Prepare(kQ8, q.data(), m, hidden, pool);
      w[3].Run(mid, nullptr, out.data(), pool);
      in.PrepareNormed(kQ8, x.data(), weight.data(), 1e-5f, m, hidden, normed.data(), pool);
      RunGated({w + 4, &in, nullptr, gate.data()}, {w + 5, &in, nullptr, up.data()},
               GateActivation::kSilu, pool);
      mid.Prepare(kQ8, gate.data(), m, ffn, pool);
      w[6].Run(mid, nullptr, out.data(), pool);
    }
    benchmark::DoNotOptimize(out.data());
  }
  const auto runs = static_cast<std::int64_t>(state.iterations());
  const auto count = static_cast<std::int64_t>(layers.size());
  state.SetLabel(layers[0].linears[0].kernel_name());
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * runs);
  state.SetItemsProcessed(count * 2 * m * hidden * (2 * hidden + 2 * kv + 3 * ffn) * runs);
}

// The 2B shape and SmolLM2-135M.
void LayerShapes(benchmark::internal::Benchmark* b) {
  for (const int threads : {1, 2}) {
    for (const std::int64_t m : {1, 8, 256}) {
      b->Args({2048, 256, 6144, m, threads});
      b->Args({576, 192, 1536, m, threads});
    }
  }
  b->UseRealTime()->ArgNames({"hidden", "kv", "ffn", "m", "threads"});
}
BENCHMARK_CAPTURE(LayerRun, int4_block32, WeightType{Coding::kInt4, 32})->Apply(LayerShapes);
BENCHMARK_CAPTURE(LayerRun, int8, WeightType{Coding::kInt8, 0})->Apply(LayerShapes);

}  // namespace
}  // namespace hone::kernels
