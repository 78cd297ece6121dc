// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "kernels/activation/activation.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

void SiluMulValues(benchmark::State& state, const activation::Kernel& kernel) {
  std::vector<float> gate = RandomFloats(6144, 1), up = RandomFloats(6144, 2), y(6144);
  for (auto _ : state) {
    kernel.silu_mul(gate.data(), up.data(), 6144, y.data());
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(6144 * static_cast<std::int64_t>(state.iterations()));
}

const int kRegistered = [] {
  for (const activation::Kernel& kernel : activation::Kernels()) {
    if (!CpuSupports(kernel.needs)) continue;
    benchmark::RegisterBenchmark(kernel.name, SiluMulValues, kernel);
  }
  return 0;
}();

}  // namespace
}  // namespace hone::kernels
