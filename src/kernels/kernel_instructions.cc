// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Runs each hot kernel once on a fixed size. tools/check_instructions.py counts the instructions of
// the functions hone_case_*, everything that they call included.
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/test_util.h"

namespace hone::kernels {
namespace {

constexpr std::int64_t kN = 256, kK = 512;

// A weight matrix, m rows and the product.
struct Product {
  Product(codec::WeightType type, Compute compute, std::int64_t m, ThreadPool& p)
      : pool(p), y(static_cast<std::size_t>(m * kN)) {
    codec::WeightBuffer w{type, kN, kK, {}, {}};
    w.codes = RandomBytes(static_cast<std::int64_t>(codec::CodesBytes(type, kN, kK)), 1);
    // Byte 0x38 makes small positive scales of both widths; for floats, small weights.
    w.scales.assign(codec::ScalesBytes(type, kN, kK), std::byte{0x38});
    if (compute == Compute::kF32) w.codes.assign(w.codes.size(), std::byte{0x38});
    auto packed = Linear::Pack(w.view(), compute, pool);
    if (!packed.ok()) return;
    linear.emplace(*std::move(packed));
    x = RandomFloats(m * kK, 2);
    rows.Prepare(linear->input_kind(), x.data(), m, kK, pool);
  }
  void Run() { linear->Run(rows, nullptr, y.data(), pool); }

  ThreadPool& pool;
  std::optional<Linear> linear;
  std::vector<float> x, y;
  PreparedRows rows;
};

// m rows at the end of a context of 512 positions.
struct Attend {
  Attend(KvType type, std::int64_t m, ThreadPool& p) : pool(p) {
    constexpr std::int64_t kContext = 512, kHeads = 8, kKvHeads = 2, kDim = 64;
    const std::vector<float> kv = RandomFloats(kContext * kKvHeads * kDim, 1);
    const std::uint64_t bytes = KvPageBytes(type, kKvHeads, kDim);
    for (std::vector<void*>* pages : {&keys, &values}) {
      for (std::int64_t at = 0; at < kContext; at += kPagePositions) {
        memory.push_back(AllocateAligned(bytes));
        std::memset(memory.back().get(), 0, bytes);
        pages->push_back(memory.back().get());
      }
    }
    StoreKv(type, KvPart::kKeys, kv.data(), kContext, 0, kKvHeads, kDim, keys.data());
    StoreKv(type, KvPart::kValues, kv.data(), kContext, 0, kKvHeads, kDim, values.data());
    q = RandomFloats(m * kHeads * kDim, 2);
    out.resize(q.size());
    args.q = q.data();
    args.out = out.data();
    args.m = m;
    args.first_position = kContext - m;
    args.heads = kHeads;
    args.kv_heads = kKvHeads;
    args.head_dim = kDim;
    args.scale = 0.125f;
    args.kv_type = type;
    args.k_pages = keys.data();
    args.v_pages = values.data();
  }
  void Run() { Attention({&args, 1}, pool, scratch); }

  ThreadPool& pool;
  std::vector<AlignedBuffer> memory;
  std::vector<void*> keys, values;
  std::vector<float> q, out;
  AttentionArgs args;
  AttentionScratch scratch;
};

// A row of 4096 values.
struct Row {
  explicit Row(ThreadPool& p) : pool(p), x(RandomFloats(kSize, 1)), y(RandomFloats(kSize, 2)) {}
  void Norm() { RmsNorm(x.data(), y.data(), 1e-6f, 1, kSize, out.data(), pool); }
  void Silu() { SiluMul(x.data(), y.data(), kSize, out.data(), pool); }
  void Quantize() { rows.Prepare(InputKind::kRowQ8, x.data(), 1, kSize, pool); }

  static constexpr std::int64_t kSize = 4096;
  ThreadPool& pool;
  std::vector<float> x, y, out = std::vector<float>(kSize);
  PreparedRows rows;
};

}  // namespace
}  // namespace hone::kernels

// HONE_CASE(name, what it runs on, call): not inlined, so that its cost has a name.
#define HONE_CASES(CASE)                                                              \
  CASE(int4_block32_m1, Product, ({Coding::kInt4, 32}, Compute::kQ8, 1, pool), Run)   \
  CASE(int4_block32_m4, Product, ({Coding::kInt4, 32}, Compute::kQ8, 4, pool), Run)   \
  CASE(int4_block32_m24, Product, ({Coding::kInt4, 32}, Compute::kQ8, 24, pool), Run) \
  CASE(int4_row_m1, Product, ({Coding::kInt4, 0}, Compute::kQ8, 1, pool), Run)        \
  CASE(int4_row_m24, Product, ({Coding::kInt4, 0}, Compute::kQ8, 24, pool), Run)      \
  CASE(int8_m1, Product, ({Coding::kInt8, 0}, Compute::kQ8, 1, pool), Run)            \
  CASE(int8_m4, Product, ({Coding::kInt8, 0}, Compute::kQ8, 4, pool), Run)            \
  CASE(int8_m24, Product, ({Coding::kInt8, 0}, Compute::kQ8, 24, pool), Run)          \
  CASE(f32_m1, Product, ({Coding::kF32, 0}, Compute::kF32, 1, pool), Run)             \
  CASE(f16_m24, Product, ({Coding::kF16, 0}, Compute::kF32, 24, pool), Run)           \
  CASE(attention_f16_m1, Attend, (KvType::kF16, 1, pool), Run)                        \
  CASE(attention_f16_m32, Attend, (KvType::kF16, 32, pool), Run)                      \
  CASE(attention_int8_m1, Attend, (KvType::kInt8, 1, pool), Run)                      \
  CASE(rmsnorm, Row, (pool), Norm)                                                    \
  CASE(silu_mul, Row, (pool), Silu)                                                   \
  CASE(quantize_row, Row, (pool), Quantize)

#define HONE_DEFINE(name, type, arguments, call) \
  extern "C" __attribute__((noinline)) void hone_case_##name(hone::kernels::type& on) { on.call(); }
HONE_CASES(HONE_DEFINE)

int main() {
  using namespace hone::kernels;
  using hone::codec::Coding;
  hone::ThreadPool pool(1);
#define HONE_RUN(name, type, arguments, call) \
  {                                           \
    type on arguments;                        \
    hone_case_##name(on);                     \
  }
  HONE_CASES(HONE_RUN)
  return 0;
}
