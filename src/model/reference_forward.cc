// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The whole mathematics of a decoder on one page: plain loops, float32 values, no kernels. Sums run
// in double from left to right, so every result has one right answer that faster code is held to.
#include "model/reference_forward.h"

#include <algorithm>
#include <cmath>

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

// y = x / sqrt(mean(x^2) + epsilon) * weight
Rows RmsNorm(const Weight& weight, float epsilon, const Rows& x) {
  Rows y(x.count, x.width);
  const std::vector<float> w = ReadAll(weight);
  for (std::int64_t t = 0; t < x.count; ++t) {
    const float mean_square = Dot(x[t], x[t]) / static_cast<float>(x.width);
    const float scale = 1.0f / std::sqrt(mean_square + epsilon);
    for (std::size_t i = 0; i < w.size(); ++i) y[t][i] = x[t][i] * scale * w[i];
  }
  return y;
}

// Turns every head of row t by the angles of position t: (a, b) -> (a cos - b sin, b cos + a sin)
// for each pair of dimensions i and i + head_dim / 2.
void Rotate(const RopeTable& rope, Rows& x) {
  const std::size_t half = rope.inv_freq.size();
  for (std::int64_t t = 0; t < x.count; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(t) * rope.inv_freq[i];
      const float c = std::cos(angle) * rope.magnitude;
      const float s = std::sin(angle) * rope.magnitude;
      const std::span<float> row = x[t];
      for (std::size_t head = 0; head < row.size(); head += 2 * half) {
        const float a = row[head + i];
        const float b = row[head + i + half];
        row[head + i] = a * c - b * s;
        row[head + i + half] = b * c + a * s;
      }
    }
  }
}

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

// Position t looks at positions 0 to t. Query head h reads key and value head h / (heads per kv).
Rows Attend(const DecoderSpec& spec, const Rows& q, const Rows& k, const Rows& v) {
  Rows out(q.count, q.width);
  const auto dim = static_cast<std::size_t>(spec.head_dim);
  const std::int64_t heads_per_kv = spec.num_heads / spec.num_kv_heads;
  for (std::int64_t t = 0; t < q.count; ++t) {
    for (std::int64_t h = 0; h < spec.num_heads; ++h) {
      const std::size_t q_at = static_cast<std::size_t>(h) * dim;
      const std::size_t kv_at = static_cast<std::size_t>(h / heads_per_kv) * dim;
      std::vector<float> weights(static_cast<std::size_t>(t + 1));
      for (std::int64_t p = 0; p <= t; ++p) {
        weights[static_cast<std::size_t>(p)] =
            Dot(q[t].subspan(q_at, dim), k[p].subspan(kv_at, dim)) * spec.attention_scale;
      }
      Softmax(weights);
      for (std::size_t i = 0; i < dim; ++i) {
        double sum = 0;
        for (std::int64_t p = 0; p <= t; ++p) {
          sum += static_cast<double>(weights[static_cast<std::size_t>(p)]) *
                 static_cast<double>(v[p][kv_at + i]);
        }
        out[t][q_at + i] = static_cast<float>(sum);
      }
    }
  }
  return out;
}

float Silu(float x) { return x / (1.0f + std::exp(-x)); }

void AddTo(Rows& x, const Rows& y) {
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] += y.data[i];
}

// One layer: x = x + attention(norm(x)), then x = x + feed_forward(norm(x)).
void Layer(const DecoderSpec& spec, const LayerWeights& w, Rows& x) {
  const Rows attention_in = RmsNorm(w.input_norm, spec.norm_epsilon, x);
  Rows q = Linear(w.q, w.q_bias, attention_in);        // [tokens, heads * head_dim]
  Rows k = Linear(w.k, w.k_bias, attention_in);        // [tokens, kv_heads * head_dim]
  const Rows v = Linear(w.v, w.v_bias, attention_in);  // [tokens, kv_heads * head_dim]
  Rotate(spec.rope, q);
  Rotate(spec.rope, k);
  AddTo(x, Linear(w.o, w.o_bias, Attend(spec, q, k, v)));

  const Rows ffn_in = RmsNorm(w.ffn_norm, spec.norm_epsilon, x);
  Rows gate = Linear(w.gate, w.gate_bias, ffn_in);  // [tokens, ffn]
  const Rows up = Linear(w.up, w.up_bias, ffn_in);  // [tokens, ffn]
  for (std::size_t i = 0; i < gate.data.size(); ++i) gate.data[i] = Silu(gate.data[i]) * up.data[i];
  AddTo(x, Linear(w.down, w.down_bias, gate));
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
  for (const LayerWeights& layer : model.layers) Layer(spec, layer, x);
  x = RmsNorm(model.final_norm, spec.norm_epsilon, x);
  return Linear(model.head, Weight(), x).data;  // [tokens, vocab]
}

}  // namespace hone::model
