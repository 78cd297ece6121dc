// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/forward.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "model/rope.h"

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
    : model_(model),
      spec_(model.spec),
      packed_(packed),
      pool_(pool),
      angles_(model.spec.ropes.size()) {}

void Forward::Resize(std::int64_t m) {
  const auto grow = [m](std::vector<float>& v, std::int64_t cols) {
    const auto size = static_cast<std::size_t>(m * cols);
    if (v.size() < size) v.resize(size);
  };
  grow(x_, spec_.hidden);
  grow(norm_, spec_.hidden);
  grow(out_, spec_.hidden);
  grow(q_, spec_.num_heads * spec_.head_dim);
  grow(attended_, spec_.num_heads * spec_.head_dim);
  grow(k_, spec_.num_kv_heads * spec_.head_dim);
  grow(v_, spec_.num_kv_heads * spec_.head_dim);
  grow(gate_, spec_.ffn);
  grow(up_, spec_.ffn);
}

void Forward::Embed(std::span<const std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    model::ReadRows(model_.embedding, tokens[i], 1,
                    x_.data() + static_cast<std::int64_t>(i) * spec_.hidden);
  }
  if (spec_.embedding_multiplier != 1.0f) {
    kernels::ScaleInPlace(x_.data(), spec_.embedding_multiplier,
                          static_cast<std::int64_t>(tokens.size()) * spec_.hidden, pool_);
  }
}

void Forward::ComputeAngles(std::int64_t first_position, std::int64_t m, std::int64_t length) {
  for (std::size_t i = 0; i < angles_.size(); ++i) {
    const model::RopeTable* table = &spec_.ropes[i];
    model::RopeTable for_length;
    if (table->by_length) {
      for_length = model::RopeForLength(*table, length);
      table = &for_length;
    }
    Angles& angles = angles_[i];
    angles.half = static_cast<std::int64_t>(table->inv_freq.size());
    const auto size = static_cast<std::size_t>(m * angles.half);
    if (angles.cos.size() < size) angles.cos.resize(size);
    if (angles.sin.size() < size) angles.sin.resize(size);
    kernels::RopeAngles(first_position, m, table->inv_freq.data(), angles.half, table->magnitude,
                        angles.cos.data(), angles.sin.data());
  }
}

Status Forward::Run(std::span<const std::int32_t> tokens, std::int64_t first_position,
                    std::int64_t length, KvCache& cache, std::int64_t first_logits_row,
                    float* logits, const std::atomic<bool>* cancel) {
  const auto m = static_cast<std::int64_t>(tokens.size());
  Resize(m);
  Embed(tokens);
  ComputeAngles(first_position, m, length);
  for (std::int64_t i = 0; i < spec_.num_layers; ++i) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return Status(Code::kCancelled, "cancelled");
    }
    const PackedLayer& layer = packed_.layers[static_cast<std::size_t>(i)];
    RunAttention(layer, i, m, first_position, cache);
    RunFeedForward(layer, m);
  }
  const std::int64_t rows = m - first_logits_row;
  if (rows > 0 && logits != nullptr) ComputeLogits(first_logits_row, rows, logits);
  return Status();
}

void Forward::ComputeLogits(std::int64_t first_row, std::int64_t rows, float* logits) {
  kernels::RmsNorm(x_.data() + first_row * spec_.hidden, packed_.final_norm.data(),
                   spec_.norm_epsilon, rows, spec_.hidden, norm_.data(), pool_);
  if (spec_.logits_multiplier != 1.0f) {
    kernels::ScaleInPlace(norm_.data(), spec_.logits_multiplier, rows * spec_.hidden, pool_);
  }
  input_.Set(norm_.data(), rows, spec_.hidden);
  packed_.head.Run(input_.For(packed_.head, pool_), logits, pool_);
  if (spec_.logits_softcap > 0) {
    kernels::Softcap(logits, spec_.logits_softcap, rows * spec_.vocab, pool_);
  }
}

void Forward::SetInput(const std::vector<float>& norm, std::int64_t m) {
  const float* in = x_.data();
  if (!norm.empty()) {
    kernels::RmsNorm(x_.data(), norm.data(), spec_.norm_epsilon, m, spec_.hidden, norm_.data(),
                     pool_);
    in = norm_.data();
  }
  input_.Set(in, m, spec_.hidden);
}

void Forward::AddOutput(const std::vector<float>& norm, std::int64_t m) {
  if (!norm.empty()) {
    kernels::RmsNorm(out_.data(), norm.data(), spec_.norm_epsilon, m, spec_.hidden, out_.data(),
                     pool_);
  }
  if (spec_.residual_multiplier != 1.0f) {
    kernels::ScaleInPlace(out_.data(), spec_.residual_multiplier, m * spec_.hidden, pool_);
  }
  kernels::AddInPlace(x_.data(), out_.data(), m * spec_.hidden, pool_);
}

void Forward::NormHeads(const std::vector<float>& norm, std::int64_t m, std::int64_t heads,
                        float* x) {
  if (spec_.qk_norm == model::QkNorm::kNone) return;
  const bool per_head = spec_.qk_norm == model::QkNorm::kPerHead;
  kernels::RmsNorm(x, norm.data(), spec_.norm_epsilon, per_head ? m * heads : m,
                   per_head ? spec_.head_dim : heads * spec_.head_dim, x, pool_);
}

// x += o(attention(rope(q(in)), rope(k(in)), v(in))), with the norms that the model has
void Forward::RunAttention(const PackedLayer& layer, std::int64_t layer_idx, std::int64_t m,
                           std::int64_t first_position, KvCache& cache) {
  const std::int64_t heads = spec_.num_heads;
  const std::int64_t kv_heads = spec_.num_kv_heads;
  const std::int64_t head_dim = spec_.head_dim;
  const model::LayerSpec facts = model::GetLayerSpec(spec_, layer_idx);

  SetInput(layer.input_norm, m);
  layer.q.Run(input_.For(layer.q, pool_), q_.data(), pool_);
  layer.k.Run(input_.For(layer.k, pool_), k_.data(), pool_);
  layer.v.Run(input_.For(layer.v, pool_), v_.data(), pool_);
  NormHeads(layer.q_norm, m, heads, q_.data());
  NormHeads(layer.k_norm, m, kv_heads, k_.data());

  if (facts.rope != model::kNoRope) {
    const Angles& angles = angles_[static_cast<std::size_t>(facts.rope)];
    kernels::ApplyRope(q_.data(), angles.cos.data(), angles.sin.data(), m, heads, head_dim,
                       angles.half, pool_);
    kernels::ApplyRope(k_.data(), angles.cos.data(), angles.sin.data(), m, kv_heads, head_dim,
                       angles.half, pool_);
  }
  kernels::StoreKv(cache.type(), k_.data(), m, first_position, kv_heads, head_dim,
                   cache.k_pages(layer_idx));
  kernels::StoreKv(cache.type(), v_.data(), m, first_position, kv_heads, head_dim,
                   cache.v_pages(layer_idx));
  kernels::AttentionArgs attention;
  attention.q = q_.data();
  attention.out = attended_.data();
  attention.m = m;
  attention.first_position = first_position;
  attention.window = facts.window;
  attention.softcap = spec_.attention_softcap;
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
  AddOutput(layer.post_attention_norm, m);
}

// x += down(activation(gate(in)) * up(in)), with the norms that the model has
void Forward::RunFeedForward(const PackedLayer& layer, std::int64_t m) {
  SetInput(layer.ffn_norm, m);
  layer.gate.Run(input_.For(layer.gate, pool_), gate_.data(), pool_);
  layer.up.Run(input_.For(layer.up, pool_), up_.data(), pool_);
  switch (spec_.activation) {
    case model::Activation::kSilu:
      kernels::SiluMul(gate_.data(), up_.data(), m * spec_.ffn, gate_.data(), pool_);
      break;
    case model::Activation::kGeluTanh:
      kernels::GeluTanhMul(gate_.data(), up_.data(), m * spec_.ffn, gate_.data(), pool_);
      break;
    case model::Activation::kGelu:
      kernels::GeluErfMul(gate_.data(), up_.data(), m * spec_.ffn, gate_.data(), pool_);
      break;
  }
  input_.Set(gate_.data(), m, spec_.ffn);
  layer.down.Run(input_.For(layer.down, pool_), out_.data(), pool_);
  AddOutput(layer.post_ffn_norm, m);
}

}  // namespace hone::runtime
