// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Steps of a running sequence get no memory. A program of its own: it counts every operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "runtime/engine.h"
#include "runtime/tiny_model.h"

namespace {

std::atomic<std::int64_t> num_allocations{0};

void* Allocate(std::size_t bytes) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace hone::runtime {
namespace {

std::unique_ptr<Engine> MakeEngine(ComputeChoice compute, KvChoice kv) {
  auto engine =
      Engine::FromModel(MakeTinyModel(), {}, {.num_threads = 2, .compute = compute, .kv = kv}, "");
  EXPECT_TRUE(engine.ok()) << engine.message();
  return *std::move(engine);
}

TEST(StepAllocations, TheCounterCounts) {
  const std::int64_t before = num_allocations;
  const auto memory = std::make_unique<std::vector<int>>(10);
  EXPECT_EQ(num_allocations - before, 2);
}

// Two sequences, one token each, within a page of the cache.
TEST(StepAllocations, DecodingWithinAPageGetsNoMemory) {
  for (const auto& [compute, kv] : {std::pair{ComputeChoice::kF32, KvChoice::kF32},
                                    {ComputeChoice::kQ8, KvChoice::kF16},
                                    {ComputeChoice::kQ8, KvChoice::kInt8}}) {
    const auto engine = MakeEngine(compute, kv);
    const auto a = *engine->NewSequence(), b = *engine->NewSequence();
    const std::vector<std::int32_t> prompt(70, 3);
    std::vector<float> logits;
    for (Sequence* sequence : {a.get(), b.get()}) {
      const Step step{{{.sequence = sequence, .tokens = prompt}}};
      ASSERT_TRUE(engine->Run(step, &logits).ok());
    }
    const std::int32_t id = 5;
    const Step step{{{.sequence = a.get(), .tokens = std::span(&id, 1)},
                     {.sequence = b.get(), .tokens = std::span(&id, 1)}}};
    ASSERT_TRUE(engine->Run(step, &logits).ok());  // buffers grow
    const std::int64_t before = num_allocations;
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(engine->Run(step, &logits).ok());
    EXPECT_EQ(num_allocations - before, 0);
  }
}

}  // namespace
}  // namespace hone::runtime
