// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "q8_twin.h"

#include <algorithm>
#include <cmath>

namespace hone::testing {
namespace {

using Vec = std::vector<double>;

struct Matrix {
  std::vector<float> values, bias;
  std::size_t rows = 0, cols = 0;

  Matrix(const model::Weight& weight, const model::Weight& offset)
      : values(model::ReadAll(weight)),
        rows(static_cast<std::size_t>(weight.view.rows)),
        cols(static_cast<std::size_t>(weight.view.cols)) {
    if (offset.present()) bias = model::ReadAll(offset);
  }
};

// x as the nearest values that 8 bits can say: lo..hi always contains 0, which is exact.
Vec RoundTo8Bits(const Vec& x) {
  const auto lo = static_cast<float>(std::min(0.0, *std::min_element(x.begin(), x.end())));
  const auto hi = static_cast<float>(std::max(0.0, *std::max_element(x.begin(), x.end())));
  if (lo == hi) return Vec(x.size(), 0.0);
  const float scale = (hi - lo) / 255.0F;
  const double zero = std::nearbyint(
      std::clamp(-128.0 - static_cast<double>(lo) / static_cast<double>(scale), -128.0, 127.0));
  Vec out;
  for (const double v : x) {
    const double q =
        std::clamp(std::nearbyint(v / static_cast<double>(scale)) + zero, -128.0, 127.0);
    out.push_back((q - zero) * static_cast<double>(scale));
  }
  return out;
}

Vec Multiply(const Matrix& w, const Vec& row) {
  const Vec x = RoundTo8Bits(row);
  Vec y(w.rows);
  for (std::size_t n = 0; n < w.rows; ++n) {
    double sum = w.bias.empty() ? 0.0 : static_cast<double>(w.bias[n]);
    for (std::size_t k = 0; k < w.cols; ++k) {
      sum += static_cast<double>(w.values[n * w.cols + k]) * x[k];
    }
    y[n] = static_cast<double>(static_cast<float>(sum));
  }
  return y;
}

Vec RmsNorm(const std::vector<float>& weight, double epsilon, const Vec& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  Vec y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = static_cast<double>(static_cast<float>(x[i] * scale * static_cast<double>(weight[i])));
  }
  return y;
}

void Rotate(const model::RopeTable& rope, std::size_t position, Vec& x) {
  const std::size_t half = rope.inv_freq.size();
  for (std::size_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * rope.inv_freq[i];
    const double c = static_cast<double>(std::cos(angle) * rope.magnitude);
    const double s = static_cast<double>(std::sin(angle) * rope.magnitude);
    for (std::size_t head = 0; head < x.size(); head += 2 * half) {
      const double a = x[head + i];
      const double b = x[head + i + half];
      x[head + i] = a * c - b * s;
      x[head + i + half] = b * c + a * s;
    }
  }
}

struct Layer {
  std::vector<float> input_norm, ffn_norm;
  Matrix q, k, v, o, gate, up, down;
  std::vector<Vec> keys, values;

  explicit Layer(const model::LayerWeights& w)
      : input_norm(model::ReadAll(w.input_norm)),
        ffn_norm(model::ReadAll(w.ffn_norm)),
        q(w.q, w.q_bias),
        k(w.k, w.k_bias),
        v(w.v, w.v_bias),
        o(w.o, w.o_bias),
        gate(w.gate, w.gate_bias),
        up(w.up, w.up_bias),
        down(w.down, w.down_bias) {}
};

Vec Attend(const model::DecoderSpec& spec, const Layer& layer, const Vec& q) {
  const auto dim = static_cast<std::size_t>(spec.head_dim);
  const auto group = static_cast<std::size_t>(spec.num_heads / spec.num_kv_heads);
  Vec out(q.size(), 0.0);
  for (std::size_t h = 0; h * dim < q.size(); ++h) {
    const std::size_t kv = h / group * dim;
    Vec score;
    for (const Vec& key : layer.keys) {
      double sum = 0;
      for (std::size_t i = 0; i < dim; ++i) sum += q[h * dim + i] * key[kv + i];
      score.push_back(sum * static_cast<double>(spec.attention_scale));
    }
    const double largest = *std::max_element(score.begin(), score.end());
    double total = 0;
    for (double& s : score) total += (s = std::exp(s - largest));
    for (std::size_t p = 0; p < score.size(); ++p) {
      for (std::size_t i = 0; i < dim; ++i) {
        out[h * dim + i] += score[p] / total * layer.values[p][kv + i];
      }
    }
  }
  return out;
}

void Add(Vec& x, const Vec& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

std::vector<float> Q8TwinLogits(const model::DecoderModel& model,
                                std::span<const std::int32_t> ids) {
  const model::DecoderSpec& spec = model.spec;
  std::vector<Layer> layers;
  for (const model::LayerWeights& w : model.layers) layers.emplace_back(w);
  const Matrix embedding(model.embedding, model::Weight());
  const Matrix head(model.head, model::Weight());
  const std::vector<float> final_norm = model::ReadAll(model.final_norm);
  const auto epsilon = static_cast<double>(spec.norm_epsilon);
  std::vector<float> logits;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto row = embedding.values.begin() + ids[t] * spec.hidden;
    Vec x(row, row + spec.hidden);
    for (Layer& layer : layers) {
      const Vec in = RmsNorm(layer.input_norm, epsilon, x);
      Vec q = Multiply(layer.q, in);
      layer.keys.push_back(Multiply(layer.k, in));
      layer.values.push_back(Multiply(layer.v, in));
      Rotate(spec.rope, t, q);
      Rotate(spec.rope, t, layer.keys.back());
      Add(x, Multiply(layer.o, Attend(spec, layer, q)));
      const Vec ffn_in = RmsNorm(layer.ffn_norm, epsilon, x);
      Vec gate = Multiply(layer.gate, ffn_in);
      const Vec up = Multiply(layer.up, ffn_in);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1.0 + std::exp(-gate[i]));
      Add(x, Multiply(layer.down, gate));
    }
    const Vec y = Multiply(head, RmsNorm(final_norm, epsilon, x));
    for (const double v : y) logits.push_back(static_cast<float>(v));
  }
  return logits;
}

}  // namespace hone::testing
