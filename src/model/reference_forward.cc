// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The whole mathematics of a decoder on one page: plain loops, float32 values, no kernels. Sums run
// in double from left to right, so every result has one right answer that faster code is held to.
#include "model/reference_forward.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/rope.h"

namespace hone::model {
namespace {

using Row = std::span<const float>;

// One row of numbers for each position.
struct Rows {
  std::int64_t count;
  std::int64_t width;
  std::vector<float> data;  // [count, width]

  Rows(std::int64_t num_rows, std::int64_t num_columns)
      : count(num_rows),
        width(num_columns),
        data(static_cast<std::size_t>(num_rows * num_columns)) {}
  std::span<float> operator[](std::int64_t i) {
    return {data.data() + i * width, static_cast<std::size_t>(width)};
  }
  Row operator[](std::int64_t i) const {
    return {data.data() + i * width, static_cast<std::size_t>(width)};
  }
};

float Dot(Row a, Row b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return static_cast<float>(sum);
}

// y[n] = sum over k of w[n, k] x[k], plus bias[n] if there is one. Decodes one row of w at a time.
Rows Linear(const Weight& w, const Weight& bias, const Rows& x) {
  Rows y(x.count, w.view.rows);
  const std::vector<float> b = bias.present() ? ReadAll(bias) : std::vector<float>();
  std::vector<float> w_row(static_cast<std::size_t>(w.view.cols));
  for (std::int64_t n = 0; n < w.view.rows; ++n) {
    ReadRows(w, n, 1, w_row.data());
    const float offset = b.empty() ? 0.0f : b[static_cast<std::size_t>(n)];
    for (std::int64_t t = 0; t < x.count; ++t) {
      y[t][static_cast<std::size_t>(n)] = Dot(w_row, x[t]) + offset;
    }
  }
  return y;
}

// y = x / sqrt(mean(x^2) + epsilon) * weight, over each part of a row that is as long as weight.
Rows RmsNorm(const Weight& weight, float epsilon, const Rows& x) {
  Rows y(x.count, x.width);
  const std::vector<float> w = ReadAll(weight);
  for (std::int64_t t = 0; t < x.count; ++t) {
    for (std::size_t begin = 0; begin < x[t].size(); begin += w.size()) {
      const Row part = x[t].subspan(begin, w.size());
      const float mean_square = Dot(part, part) / static_cast<float>(w.size());
      const float scale = 1.0f / std::sqrt(mean_square + epsilon);
      for (std::size_t i = 0; i < w.size(); ++i) y[t][begin + i] = part[i] * scale * w[i];
    }
  }
  return y;
}

// Turns every head of row t by the angles of position t: (a, b) -> (a cos - b sin, b cos + a sin)
// for each pair of dimensions i and i + half of those that turn. The others stay.
void Rotate(const RopeTable& rope, std::int64_t head_dim, Rows& x) {
  const std::size_t half = rope.inv_freq.size();
  for (std::int64_t t = 0; t < x.count; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(t) * rope.inv_freq[i];
      const float c = std::cos(angle) * rope.magnitude;
      const float s = std::sin(angle) * rope.magnitude;
      const std::span<float> row = x[t];
      for (std::size_t head = 0; head < row.size(); head += static_cast<std::size_t>(head_dim)) {
        const float a = row[head + i];
        const float b = row[head + i + half];
        row[head + i] = a * c - b * s;
        row[head + i + half] = b * c + a * s;
      }
    }
  }
}

// Numbers stay between -cap and cap; 0 is no cap.
float Softcap(float x, float cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

// x becomes exp(x) / sum(exp(x)). The largest value is taken off first so that exp cannot overflow.
void Softmax(std::span<float> x) {
  const float largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (float& value : x) {
    value = std::exp(value - largest);
    sum += static_cast<double>(value);
  }
  for (float& value : x) value = static_cast<float>(static_cast<double>(value) / sum);
}

// Position t looks at the positions of its window: itself and those before it, or all of them if
// there is no window. Query head h reads key and value head h / (heads per kv).
Rows Attend(const DecoderSpec& spec, std::int64_t window, const Rows& q, const Rows& k,
            const Rows& v) {
  Rows out(q.count, q.width);
  const auto dim = static_cast<std::size_t>(spec.head_dim);
  const std::int64_t heads_per_kv = spec.num_heads / spec.num_kv_heads;
  for (std::int64_t t = 0; t < q.count; ++t) {
    const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, t - window + 1);
    for (std::int64_t h = 0; h < spec.num_heads; ++h) {
      const std::size_t q_at = static_cast<std::size_t>(h) * dim;
      const std::size_t kv_at = static_cast<std::size_t>(h / heads_per_kv) * dim;
      std::vector<float> weights;  // of positions first to t
      for (std::int64_t p = first; p <= t; ++p) {
        const float dot = Dot(q[t].subspan(q_at, dim), k[p].subspan(kv_at, dim));
        weights.push_back(Softcap(dot * spec.attention_scale, spec.attention_softcap));
      }
      Softmax(weights);
      for (std::size_t i = 0; i < dim; ++i) {
        double sum = 0;
        for (std::int64_t p = first; p <= t; ++p) {
          sum += static_cast<double>(weights[static_cast<std::size_t>(p - first)]) *
                 static_cast<double>(v[p][kv_at + i]);
        }
        out[t][q_at + i] = static_cast<float>(sum);
      }
    }
  }
  return out;
}

float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0f + std::exp(-x));
    case Activation::kGeluTanh:
      return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    case Activation::kGelu:
      return 0.5f * x * (1.0f + std::erf(x * 0.7071067812f));
  }
  return x;
}

void Scale(float factor, Rows& x) {
  for (float& value : x.data) value *= factor;
}

void AddTo(Rows& x, const Rows& y, float factor) {
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] += y.data[i] * factor;
}

Rows Attention(const DecoderSpec& spec, const LayerSpec& layer, const LayerWeights& w,
               const Rows& x) {
  Rows q = Linear(w.q, w.q_bias, x);        // [tokens, heads * head_dim]
  Rows k = Linear(w.k, w.k_bias, x);        // [tokens, kv_heads * head_dim]
  const Rows v = Linear(w.v, w.v_bias, x);  // [tokens, kv_heads * head_dim]
  if (spec.qk_norm != QkNorm::kNone) {      // the length of the weight says over what
    q = RmsNorm(w.q_norm, spec.norm_epsilon, q);
    k = RmsNorm(w.k_norm, spec.norm_epsilon, k);
  }
  if (layer.rope != kNoRope) {
    const RopeTable rope = RopeForLength(spec.ropes[static_cast<std::size_t>(layer.rope)], x.count);
    Rotate(rope, spec.head_dim, q);
    Rotate(rope, spec.head_dim, k);
  }
  return Linear(w.o, w.o_bias, Attend(spec, layer.window, q, k, v));
}

Rows FeedForward(const DecoderSpec& spec, const LayerWeights& w, const Rows& x) {
  Rows gate = Linear(w.gate, w.gate_bias, x);  // [tokens, ffn]
  const Rows up = Linear(w.up, w.up_bias, x);  // [tokens, ffn]
  for (std::size_t i = 0; i < gate.data.size(); ++i) {
    gate.data[i] = Activate(spec.activation, gate.data[i]) * up.data[i];
  }
  return Linear(w.down, w.down_bias, gate);
}

// One layer: x = x + norm(attention(norm(x))), then x = x + norm(feed_forward(norm(x))). Each norm
// may be missing.
void Layer(const DecoderSpec& spec, const LayerSpec& layer, const LayerWeights& w, Rows& x) {
  const auto norm = [&](bool is_there, const Weight& weight, const Rows& rows) {
    return is_there ? RmsNorm(weight, spec.norm_epsilon, rows) : rows;
  };
  const Rows attention = Attention(spec, layer, w, norm(spec.pre_norm, w.input_norm, x));
  AddTo(x, norm(spec.post_norm, w.post_attention_norm, attention), spec.residual_multiplier);
  const Rows ffn = FeedForward(spec, w, norm(spec.pre_norm, w.ffn_norm, x));
  AddTo(x, norm(spec.post_norm, w.post_ffn_norm, ffn), spec.residual_multiplier);
}

Status CheckIds(const DecoderSpec& spec, std::span<const std::int32_t> ids) {
  if (ids.empty()) return Status(Code::kInvalidArgument, "no token ids");
  if (static_cast<std::int64_t>(ids.size()) > spec.max_positions) {
    return Status(Code::kInvalidArgument, StrCat(ids.size(), " token ids, but the model has ",
                                                 spec.max_positions, " positions"));
  }
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= spec.vocab) {
      return Status(Code::kInvalidArgument,
                    StrCat("token id ", id, " is outside the vocabulary of ", spec.vocab, " ids"));
    }
  }
  return Status();
}

}  // namespace

Result<std::vector<float>> ReferenceLogits(const DecoderModel& model,
                                           std::span<const std::int32_t> ids) {
  const DecoderSpec& spec = model.spec;
  HONE_TRY(CheckIds(spec, ids));
  Rows x(static_cast<std::int64_t>(ids.size()), spec.hidden);
  for (std::int64_t t = 0; t < x.count; ++t) {
    ReadRows(model.embedding, ids[static_cast<std::size_t>(t)], 1, x[t].data());
  }
  Scale(spec.embedding_multiplier, x);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    Layer(spec, GetLayerSpec(spec, static_cast<std::int64_t>(i)), model.layers[i], x);
  }
  x = RmsNorm(model.final_norm, spec.norm_epsilon, x);
  Scale(spec.logits_multiplier, x);
  Rows logits = Linear(model.head, Weight(), x);  // [tokens, vocab]
  for (float& value : logits.data) value = Softcap(value, spec.logits_softcap);
  return std::move(logits.data);
}

}  // namespace hone::model
