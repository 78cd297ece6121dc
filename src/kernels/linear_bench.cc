// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Linear layers of a 2 B model, for every weight type. items are multiply-adds times two, bytes are
// packed weights, so bytes_per_second of the m = 1 cases compares with the memory's read speed.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/linear.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

// Enough copies of the matrix that no cache holds them.
constexpr std::uint64_t kDecodeBytes = 512U << 20;

void LinearRun(benchmark::State& state, codec::WeightType type, Compute compute) {
  const std::int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  ThreadPool pool(static_cast<int>(state.range(3)));
  codec::WeightBuffer w{type, n, k, {}, {}};
  w.codes = RandomBytes(static_cast<std::int64_t>(codec::CodesBytes(type, n, k)), 1);
  // Byte 0x38 makes small positive scales of both widths; for floats, small weights.
  w.scales.assign(codec::ScalesBytes(type, n, k), std::byte{0x38});
  if (compute == Compute::kF32) w.codes.assign(w.codes.size(), std::byte{0x38});
  std::vector<Linear> linears;
  std::uint64_t bytes = 0;
  do {
    auto linear = Linear::Pack(w.view(), compute, pool);
    if (!linear.ok()) return state.SkipWithError("cannot pack");
    bytes += linear->packed_bytes();
    linears.push_back(*std::move(linear));
  } while (m == 1 && bytes < kDecodeBytes);
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
    }
  }
  b->UseRealTime()->ArgNames({"n", "k", "m", "threads"});
}

using codec::Coding;
BENCHMARK_CAPTURE(LinearRun, int4_block32, codec::WeightType{Coding::kInt4, 32}, Compute::kQ8)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(LinearRun, int4_block128, codec::WeightType{Coding::kInt4, 128}, Compute::kQ8)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(LinearRun, int8, codec::WeightType{Coding::kInt8, 0}, Compute::kQ8)
    ->Apply(Shapes);
BENCHMARK_CAPTURE(LinearRun, f32, codec::WeightType{Coding::kF32, 0}, Compute::kF32)->Apply(Shapes);
BENCHMARK_CAPTURE(LinearRun, f16, codec::WeightType{Coding::kF16, 0}, Compute::kF32)->Apply(Shapes);

}  // namespace
}  // namespace hone::kernels
