// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A layer takes five passes over the threads: q, k and v | attention | o | gate, up and activation
// | down. What lies between them is short: one thread does it for a few rows, all for many.
#include "runtime/forward.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "model/rope.h"

namespace hone::runtime {
namespace {

// Values below which a pass is not worth waking a thread.
constexpr std::int64_t kGrainValues = 16384;

// Rows of logits between two looks at cancel.
constexpr std::int64_t kHeadRows = 64;

Status CheckCancel(const std::atomic<bool>* cancel) {
  const bool cancelled = cancel != nullptr && cancel->load(std::memory_order_relaxed);
  return cancelled ? Status(Code::kCancelled, "cancelled") : Status();
}

std::int64_t NumRows(const ForwardPart& part) {
  return static_cast<std::int64_t>(part.tokens.size());
}

kernels::GateActivation GateOf(model::Activation activation) {
  switch (activation) {
    case model::Activation::kGeluTanh:
      return kernels::GateActivation::kGeluTanh;
    case model::Activation::kGelu:
      return kernels::GateActivation::kGelu;
    case model::Activation::kSilu:
      break;
  }
  return kernels::GateActivation::kSilu;
}

}  // namespace

void SharedInput::Set(const float* x, std::int64_t m, std::int64_t k) {
  SetNormed(x, nullptr, 0, m, k, nullptr);
}

void SharedInput::SetNormed(const float* x, const float* norm, float epsilon, std::int64_t m,
                            std::int64_t k, float* normed) {
  x_ = x;
  norm_ = norm;
  normed_ = normed;
  epsilon_ = epsilon;
  m_ = m;
  k_ = k;
  plain_ready_ = q8_ready_ = false;
}

kernels::LinearCall SharedInput::Call(const PackedLinear& linear, float* y, ThreadPool& pool) {
  const kernels::InputKind kind = linear.linear.input_kind();
  const bool plain = kind == kernels::InputKind::kPlain;
  kernels::PreparedRows& rows = plain ? plain_ : q8_;
  bool& ready = plain ? plain_ready_ : q8_ready_;
  if (!ready && norm_ == nullptr) rows.Prepare(kind, x_, m_, k_, pool);
  if (!ready && norm_ != nullptr) {
    rows.PrepareNormed(kind, x_, norm_, epsilon_, m_, k_, normed_, pool);
  }
  ready = true;
  return {&linear.linear, &rows, linear.bias.empty() ? nullptr : linear.bias.data(), y};
}

Forward::Forward(const model::DecoderModel& model, const PackedModel& packed, ThreadPool& pool)
    : model_(model),
      spec_(model.spec),
      packed_(packed),
      pool_(pool),
      angles_(model.spec.ropes.size()) {
  for (std::size_t i = 0; i < angles_.size(); ++i) {
    angles_[i].half = static_cast<std::int64_t>(spec_.ropes[i].inv_freq.size());
  }
}

void Forward::Resize() {
  const auto grow = [this](std::vector<float>& v, std::int64_t cols) {
    const auto size = static_cast<std::size_t>(m_ * cols);
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
  for (Angles& angles : angles_) {
    grow(angles.cos, angles.half);
    grow(angles.sin, angles.half);
  }
}

// Lays the parts out as one batch of rows.
void Forward::Begin(std::span<const ForwardPart> parts) {
  m_ = 0;
  pages_.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t rows = NumRows(parts[i]);
    for (std::int64_t done = 0; done < rows;) {
      const std::int64_t position = parts[i].first_position + done;
      const std::int64_t left_in_page =
          kernels::kPagePositions - position % kernels::kPagePositions;
      const std::int64_t count = std::min(rows - done, left_in_page);
      pages_.push_back({i, m_ + done, count, position});
      done += count;
    }
    m_ += rows;
  }
  Resize();
  attention_.assign(parts.size(), kernels::AttentionArgs{});
  std::int64_t row = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    kernels::AttentionArgs& args = attention_[i];
    args.q = q_.data() + row * spec_.num_heads * spec_.head_dim;
    args.out = attended_.data() + row * spec_.num_heads * spec_.head_dim;
    args.m = NumRows(parts[i]);
    args.first_position = parts[i].first_position;
    args.softcap = spec_.attention_softcap;
    args.heads = spec_.num_heads;
    args.kv_heads = spec_.num_kv_heads;
    args.head_dim = spec_.head_dim;
    args.scale = spec_.attention_scale;
    args.kv_type = parts[i].cache->type();
    row += args.m;
  }
}

template <typename Task>
void Forward::ForPages(std::int64_t values_per_row, const Task& task) {
  const auto num_pages = static_cast<std::int64_t>(pages_.size());
  if (m_ * values_per_row < kGrainValues) {
    for (const PageRows& rows : pages_) task(rows);
    return;
  }
  pool_.For(num_pages, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) task(pages_[static_cast<std::size_t>(i)]);
  });
}

void Forward::Embed(std::span<const ForwardPart> parts) {
  ForPages(spec_.hidden, [&](const PageRows& rows) {
    const ForwardPart& part = parts[rows.part];
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::int64_t token = rows.position - part.first_position + i;
      model::ReadRows(model_.embedding, part.tokens[static_cast<std::size_t>(token)], 1,
                      x_.data() + (rows.row + i) * spec_.hidden);
    }
  });
  if (spec_.embedding_multiplier != 1.0f) {
    kernels::ScaleInPlace(x_.data(), spec_.embedding_multiplier, m_ * spec_.hidden, pool_);
  }
}

// Every row has the angles of its own position.
void Forward::ComputeAngles(std::span<const ForwardPart> parts) {
  for (std::size_t i = 0; i < angles_.size(); ++i) {
    Angles& angles = angles_[i];
    const bool by_length = spec_.ropes[i].by_length.has_value();
    if (by_length) {
      for_length_.clear();
      for (const ForwardPart& part : parts) {
        for_length_.push_back(model::RopeForLength(spec_.ropes[i], part.length));
      }
    }
    // A sine costs as much as some ten other values.
    ForPages(angles.half * 16, [&](const PageRows& rows) {
      const model::RopeTable& table = by_length ? for_length_[rows.part] : spec_.ropes[i];
      kernels::RopeAngles(rows.position, rows.count, table.inv_freq.data(), angles.half,
                          table.magnitude, angles.cos.data() + rows.row * angles.half,
                          angles.sin.data() + rows.row * angles.half);
    });
  }
}

Status Forward::Run(std::span<const ForwardPart> parts, float* logits,
                    const std::atomic<bool>* cancel) {
  Begin(parts);
  Embed(parts);
  ComputeAngles(parts);
  for (std::int64_t i = 0; i < spec_.num_layers && m_ > 0; ++i) {
    const PackedLayer& layer = packed_.layers[static_cast<std::size_t>(i)];
    HONE_TRY(CheckCancel(cancel));
    RunAttention(layer, i, parts);
    HONE_TRY(CheckCancel(cancel));
    RunFeedForward(layer);
  }
  return ComputeLogits(logits, cancel);
}

// Of the rows that are left after the last layer.
Status Forward::ComputeLogits(float* logits, const std::atomic<bool>* cancel) {
  for (std::int64_t first = 0; first < m_; first += kHeadRows) {
    if (first > 0) HONE_TRY(CheckCancel(cancel));
    const std::int64_t rows = std::min(kHeadRows, m_ - first);
    const float* x = x_.data() + first * spec_.hidden;
    float* out = logits + first * spec_.vocab;
    if (spec_.logits_multiplier != 1.0f) {
      kernels::RmsNorm(x, packed_.final_norm.data(), spec_.norm_epsilon, rows, spec_.hidden,
                       norm_.data(), pool_);
      kernels::ScaleInPlace(norm_.data(), spec_.logits_multiplier, rows * spec_.hidden, pool_);
      input_.Set(norm_.data(), rows, spec_.hidden);
    } else {
      input_.SetNormed(x, packed_.final_norm.data(), spec_.norm_epsilon, rows, spec_.hidden,
                       norm_.data());
    }
    const kernels::LinearCall head = input_.Call(packed_.head, out, pool_);
    kernels::RunLinears({&head, 1}, pool_);
    if (spec_.logits_softcap > 0) {
      kernels::Softcap(out, spec_.logits_softcap, rows * spec_.vocab, pool_);
    }
  }
  return Status();
}

void Forward::SetInput(const std::vector<float>& norm) {
  if (norm.empty()) {
    input_.Set(x_.data(), m_, spec_.hidden);
  } else {
    input_.SetNormed(x_.data(), norm.data(), spec_.norm_epsilon, m_, spec_.hidden, norm_.data());
  }
}

void Forward::AddOutput(const std::vector<float>& norm) {
  if (!norm.empty()) {
    kernels::RmsNorm(out_.data(), norm.data(), spec_.norm_epsilon, m_, spec_.hidden, out_.data(),
                     pool_);
  }
  if (spec_.residual_multiplier != 1.0f) {
    kernels::ScaleInPlace(out_.data(), spec_.residual_multiplier, m_ * spec_.hidden, pool_);
  }
  kernels::AddInPlace(x_.data(), out_.data(), m_ * spec_.hidden, pool_);
}

void Forward::NormHeads(const std::vector<float>& norm, std::int64_t rows, std::int64_t heads,
                        float* x) {
  if (spec_.qk_norm == model::QkNorm::kNone) return;
  const bool per_head = spec_.qk_norm == model::QkNorm::kPerHead;
  kernels::RmsNormRows(x, norm.data(), spec_.norm_epsilon, per_head ? rows * heads : rows,
                       per_head ? spec_.head_dim : heads * spec_.head_dim, x);
}

void Forward::FinishHeads(const PackedLayer& layer, std::int64_t layer_idx,
                          std::span<const ForwardPart> parts) {
  const std::int64_t heads = spec_.num_heads;
  const std::int64_t kv_heads = spec_.num_kv_heads;
  const std::int64_t head_dim = spec_.head_dim;
  const std::int32_t rope = model::GetLayerSpec(spec_, layer_idx).rope;
  ForPages((heads + 2 * kv_heads) * head_dim, [&](const PageRows& rows) {
    float* q = q_.data() + rows.row * heads * head_dim;
    float* k = k_.data() + rows.row * kv_heads * head_dim;
    const float* v = v_.data() + rows.row * kv_heads * head_dim;
    NormHeads(layer.q_norm, rows.count, heads, q);
    NormHeads(layer.k_norm, rows.count, kv_heads, k);
    if (rope != model::kNoRope) {
      const Angles& angles = angles_[static_cast<std::size_t>(rope)];
      const float* cos = angles.cos.data() + rows.row * angles.half;
      const float* sin = angles.sin.data() + rows.row * angles.half;
      kernels::ApplyRopeRows(q, cos, sin, rows.count, heads, head_dim, angles.half);
      kernels::ApplyRopeRows(k, cos, sin, rows.count, kv_heads, head_dim, angles.half);
    }
    const KvCache& cache = *parts[rows.part].cache;
    kernels::StoreKv(cache.type(), kernels::KvPart::kKeys, k, rows.count, rows.position, kv_heads,
                     head_dim, cache.k_pages(layer_idx));
    kernels::StoreKv(cache.type(), kernels::KvPart::kValues, v, rows.count, rows.position, kv_heads,
                     head_dim, cache.v_pages(layer_idx));
  });
}

// Behind the last layer's keys and values only rows whose logits are asked for go on.
void Forward::KeepWantedRows(std::span<const ForwardPart> parts) {
  std::int64_t row = 0, kept = 0;
  std::size_t calls = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t skipped = parts[i].first_logits_row;
    kernels::AttentionArgs args = attention_[i];
    const float* from = x_.data() + (row + skipped) * spec_.hidden;
    row += args.m;
    args.m -= skipped;
    if (args.m <= 0) continue;
    args.q += skipped * spec_.num_heads * spec_.head_dim;
    args.out = attended_.data() + kept * spec_.num_heads * spec_.head_dim;
    args.first_position += skipped;
    std::copy(from, from + args.m * spec_.hidden, x_.data() + kept * spec_.hidden);
    kept += args.m;
    attention_[calls++] = args;
  }
  attention_.resize(calls);
  m_ = kept;
}

// x += o(attention(rope(q(in)), rope(k(in)), v(in))), with the norms that the model has
void Forward::RunAttention(const PackedLayer& layer, std::int64_t layer_idx,
                           std::span<const ForwardPart> parts) {
  SetInput(layer.input_norm);
  const kernels::LinearCall qkv[] = {input_.Call(layer.q, q_.data(), pool_),
                                     input_.Call(layer.k, k_.data(), pool_),
                                     input_.Call(layer.v, v_.data(), pool_)};
  kernels::RunLinears(qkv, pool_);
  FinishHeads(layer, layer_idx, parts);

  const std::int64_t window = model::GetLayerSpec(spec_, layer_idx).window;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    attention_[i].window = window;
    attention_[i].k_pages = parts[i].cache->k_pages(layer_idx);
    attention_[i].v_pages = parts[i].cache->v_pages(layer_idx);
  }
  if (layer_idx == spec_.num_layers - 1) KeepWantedRows(parts);
  if (m_ == 0) return;
  kernels::Attention(std::span<const kernels::AttentionArgs>(attention_), pool_,
                     attention_scratch_);

  input_.Set(attended_.data(), m_, spec_.num_heads * spec_.head_dim);
  const kernels::LinearCall o = input_.Call(layer.o, out_.data(), pool_);
  kernels::RunLinears({&o, 1}, pool_);
  AddOutput(layer.post_attention_norm);
}

// x += down(activation(gate(in)) * up(in)), with the norms that the model has
void Forward::RunFeedForward(const PackedLayer& layer) {
  if (m_ == 0) return;
  SetInput(layer.ffn_norm);
  kernels::RunGated(input_.Call(layer.gate, gate_.data(), pool_),
                    input_.Call(layer.up, up_.data(), pool_), GateOf(spec_.activation), pool_);
  input_.Set(gate_.data(), m_, spec_.ffn);
  const kernels::LinearCall down = input_.Call(layer.down, out_.data(), pool_);
  kernels::RunLinears({&down, 1}, pool_);
  AddOutput(layer.post_ffn_norm);
}

}  // namespace hone::runtime
