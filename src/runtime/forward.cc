// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/forward.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/elementwise.h"

namespace hone::runtime {

void SharedInput::Set(const float* x, std::int64_t m, std::int64_t k) {
  x_ = x;
  m_ = m;
  k_ = k;
  plain_ready_ = q8_ready_ = false;
}

const kernels::PreparedRows& SharedInput::For(const PackedLinear& linear, ThreadPool& pool) {
  const kernels::InputKind kind = linear.linear.input_kind();
  const bool plain = kind == kernels::InputKind::kPlain;
  kernels::PreparedRows& rows = plain ? plain_ : q8_;
  bool& ready = plain ? plain_ready_ : q8_ready_;
  if (!ready) rows.Prepare(kind, x_, m_, k_, pool);
  ready = true;
  return rows;
}

Forward::Forward(const model::DecoderModel& model, const PackedModel& packed, ThreadPool& pool)
    : model_(model), spec_(model.spec), packed_(packed), pool_(pool) {}

void Forward::Resize(std::int64_t m) {
  const auto grow = [m](std::vector<float>& v, std::int64_t cols) {
    const auto size = static_cast<std::size_t>(m * cols);
    if (v.size() < size) v.resize(size);
  };
  grow(x_, spec_.hidden);
  grow(norm_, spec_.hidden);
  grow(out_, spec_.hidden);
  grow(cos_, spec_.head_dim / 2);
  grow(sin_, spec_.head_dim / 2);
  grow(q_, spec_.num_heads * spec_.head_dim);
  grow(attended_, spec_.num_heads * spec_.head_dim);
  grow(k_, spec_.num_kv_heads * spec_.head_dim);
  grow(v_, spec_.num_kv_heads * spec_.head_dim);
  grow(gate_, spec_.ffn);
  grow(up_, spec_.ffn);
}

Status Forward::Run(std::span<const std::int32_t> tokens, std::int64_t first_position,
                    KvCache& cache, std::int64_t first_logits_row, float* logits,
                    const std::atomic<bool>* cancel) {
  const auto m = static_cast<std::int64_t>(tokens.size());
  Resize(m);
  for (std::int64_t i = 0; i < m; ++i) {
    model::ReadRows(model_.embedding, tokens[static_cast<std::size_t>(i)], 1,
                    x_.data() + i * spec_.hidden);
  }
  kernels::RopeAngles(first_position, m, spec_.rope.inv_freq.data(), spec_.head_dim / 2,
                      spec_.rope.magnitude, cos_.data(), sin_.data());

  for (std::int64_t i = 0; i < spec_.num_layers; ++i) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return Status(Code::kCancelled, "cancelled");
    }
    const PackedLayer& layer = packed_.layers[static_cast<std::size_t>(i)];
    RunAttention(layer, i, m, first_position, cache);
    RunFeedForward(layer, m);
  }

  const std::int64_t rows = m - first_logits_row;
  if (rows <= 0 || logits == nullptr) return Status();
  kernels::RmsNorm(x_.data() + first_logits_row * spec_.hidden, packed_.final_norm.data(),
                   spec_.norm_epsilon, rows, spec_.hidden, norm_.data(), pool_);
  input_.Set(norm_.data(), rows, spec_.hidden);
  packed_.head.Run(input_.For(packed_.head, pool_), logits, pool_);
  return Status();
}

// x += o(attention(rope(q(norm x)), rope(k(norm x)), v(norm x)))
void Forward::RunAttention(const PackedLayer& layer, std::int64_t layer_idx, std::int64_t m,
                           std::int64_t first_position, KvCache& cache) {
  const std::int64_t heads = spec_.num_heads;
  const std::int64_t kv_heads = spec_.num_kv_heads;
  const std::int64_t head_dim = spec_.head_dim;

  kernels::RmsNorm(x_.data(), layer.input_norm.data(), spec_.norm_epsilon, m, spec_.hidden,
                   norm_.data(), pool_);
  input_.Set(norm_.data(), m, spec_.hidden);
  layer.q.Run(input_.For(layer.q, pool_), q_.data(), pool_);
  layer.k.Run(input_.For(layer.k, pool_), k_.data(), pool_);
  layer.v.Run(input_.For(layer.v, pool_), v_.data(), pool_);

  kernels::ApplyRope(q_.data(), cos_.data(), sin_.data(), m, heads, head_dim, pool_);
  kernels::ApplyRope(k_.data(), cos_.data(), sin_.data(), m, kv_heads, head_dim, pool_);
  kernels::StoreKv(cache.type(), k_.data(), m, first_position, kv_heads, head_dim,
                   cache.k_pages(layer_idx));
  kernels::StoreKv(cache.type(), v_.data(), m, first_position, kv_heads, head_dim,
                   cache.v_pages(layer_idx));
  kernels::AttentionArgs attention;
  attention.q = q_.data();
  attention.out = attended_.data();
  attention.m = m;
  attention.first_position = first_position;
  attention.heads = heads;
  attention.kv_heads = kv_heads;
  attention.head_dim = head_dim;
  attention.scale = spec_.attention_scale;
  attention.kv_type = cache.type();
  attention.k_pages = cache.k_pages(layer_idx);
  attention.v_pages = cache.v_pages(layer_idx);
  kernels::Attention(attention, pool_);

  input_.Set(attended_.data(), m, heads * head_dim);
  layer.o.Run(input_.For(layer.o, pool_), out_.data(), pool_);
  kernels::AddInPlace(x_.data(), out_.data(), m * spec_.hidden, pool_);
}

// x += down(silu(gate(norm x)) * up(norm x))
void Forward::RunFeedForward(const PackedLayer& layer, std::int64_t m) {
  kernels::RmsNorm(x_.data(), layer.ffn_norm.data(), spec_.norm_epsilon, m, spec_.hidden,
                   norm_.data(), pool_);
  input_.Set(norm_.data(), m, spec_.hidden);
  layer.gate.Run(input_.For(layer.gate, pool_), gate_.data(), pool_);
  layer.up.Run(input_.For(layer.up, pool_), up_.data(), pool_);
  kernels::SiluMul(gate_.data(), up_.data(), m * spec_.ffn, gate_.data(), pool_);
  input_.Set(gate_.data(), m, spec_.ffn);
  layer.down.Run(input_.For(layer.down, pool_), out_.data(), pool_);
  kernels::AddInPlace(x_.data(), out_.data(), m * spec_.hidden, pool_);
}

}  // namespace hone::runtime
