// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Threads may have small stacks: 128 KB where musl starts them.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/int_gemm_test_util.h"
#include "kernels/linear.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // guards around every local array
#else
constexpr bool kSanitized = false;
#endif
constexpr std::size_t kStackBytes = 128 * 1024;

// Runs work on a thread of a stack of kStackBytes. Behind the stack lies a page that may not be
// touched, so too much ends the test.
void RunOnASmallStack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread;
  const auto run = [](void* arg) -> void* {
    (*static_cast<const std::function<void()>*>(arg))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run,
                           const_cast<std::function<void()>*>(&work)),  // NOLINT
            0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  ASSERT_EQ(pthread_attr_destroy(&attributes), 0);
}

codec::WeightBuffer Weight(codec::WeightType type, std::int64_t n, std::int64_t k) {
  codec::WeightBuffer w{type, n, k, {}, {}};
  w.codes = RandomBytes(static_cast<std::int64_t>(codec::CodesBytes(type, n, k)), 1);
  w.scales.assign(codec::ScalesBytes(type, n, k), std::byte{0x20});
  return w;
}

// Packing, both ways of a gated pair, few and many rows.
TEST(SmallStack, HoldsPackingAndGatedPairs) {
  if (kSanitized) GTEST_SKIP() << "sanitizers put guards around every array on the stack";
  const std::int64_t n = 96;
  for (const auto& [block, k] : {std::pair{32, std::int64_t{512}}, {0, gemm_int4::kMaxDepth}}) {
    const codec::WeightBuffer w = Weight({codec::Coding::kInt4, block}, n, k);
    RunOnASmallStack([&] {
      ThreadPool pool(1);
      auto linear = Linear::Pack(w.view(), Compute::kQ8, pool);
      ASSERT_TRUE(linear.ok()) << linear.message();
      for (const std::int64_t m : {1, 13, 70, 300}) {
        if (m * w.cols > std::int64_t{1} << 20) continue;
        const std::vector<float> x = RandomFloats(m * w.cols, 2);
        PreparedRows rows;
        rows.Prepare(InputKind::kRowQ8, x.data(), m, w.cols, pool);
        std::vector<float> gate(static_cast<std::size_t>(m * n)), up = gate;
        RunGated({&*linear, &rows, nullptr, gate.data()}, {&*linear, &rows, nullptr, up.data()},
                 GateActivation::kSilu, pool);
      }
    });
  }
}

// Each kernel of the integer products, not only that of this machine.
TEST(SmallStack, HoldsEveryIntegerKernel) {
  if (kSanitized) GTEST_SKIP() << "sanitizers put guards around every array on the stack";
  const std::int64_t m = 300, n = 33, k = 1024;
  const IntRows rows(m, k, 3);
  const std::vector<std::byte> zeros(
      static_cast<std::size_t>(NumPanels(n) * gemm_int8::PanelBytes(k)));
  std::vector<float> y(static_cast<std::size_t>(m * n));
  const auto run = [&](IntGemmFn fn, std::int64_t block, std::int64_t panel_bytes) {
    IntGemmArgs args = rows.args;
    args.w = zeros.data();
    args.block = block;
    args.panel_bytes = panel_bytes;
    args.n = args.y_stride = n;
    args.y = y.data();
    RunOnASmallStack([&] { fn(args); });
  };
  for (const gemm_int4::Kernel& kernel : Runnable(gemm_int4::Kernels())) {
    for (const std::int64_t block : {0, 32, 1024}) {
      run(kernel.fn, block, gemm_int4::PanelBytes(k, block));
    }
  }
  for (const gemm_int8::Kernel& kernel : Runnable(gemm_int8::Kernels())) {
    run(kernel.fn, 0, gemm_int8::PanelBytes(k));
  }
}

TEST(SmallStack, HoldsAttention) {
  if (kSanitized) GTEST_SKIP() << "sanitizers put guards around every array on the stack";
  const std::int64_t heads = 16, dim = 256, m = 64;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kInt8}) {
    std::vector<std::byte> page(KvPageBytes(type, 2, dim) + 64);
    void* aligned = page.data() + (64 - reinterpret_cast<std::uintptr_t>(page.data()) % 64) % 64;
    const std::vector<float> rows = RandomFloats(m * heads * dim, 4);
    std::vector<float> out(rows.size());
    AttentionArgs args;
    args.q = rows.data();
    args.out = out.data();
    args.m = m;
    args.heads = heads;
    args.kv_heads = 2;
    args.head_dim = dim;
    args.kv_type = type;
    args.k_pages = args.v_pages = &aligned;
    for (const attention::Kernel& kernel : Runnable(attention::Kernels())) {
      RunOnASmallStack([&] {
        ThreadPool pool(1);
        attention::StoreKvWith(kernel, type, KvPart::kKeys, rows.data(), m, 0, 2, dim, &aligned);
        AttentionScratch scratch;
        attention::AttentionWith(kernel, {&args, 1}, pool, scratch);
      });
    }
  }
}

}  // namespace
}  // namespace hone::kernels
