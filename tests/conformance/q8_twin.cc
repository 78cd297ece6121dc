// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "q8_twin.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// The first dimensions of each head turn.
void Rotate(const model::RopeTable& rope, std::size_t position, std::size_t head_dim, Vec& x) {
  const std::size_t half = rope.inv_freq.size();
  for (std::size_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * rope.inv_freq[i];
    const double c = static_cast<double>(std::cos(angle) * rope.magnitude);
    const double s = static_cast<double>(std::sin(angle) * rope.magnitude);
    for (std::size_t head = 0; head < x.size(); head += head_dim) {
      const double a = x[head + i];
      const double b = x[head + i + half];
      x[head + i] = a * c - b * s;
      x[head + i + half] = b * c + a * s;
    }
  }
}

std::vector<float> ReadNorm(const model::Weight& weight) {
  return weight.present() ? model::ReadAll(weight) : std::vector<float>();
}

struct Layer {
  // Empty where the model has none.
  std::vector<float> input_norm, q_norm, k_norm, post_attention_norm, ffn_norm, post_ffn_norm;
  Matrix q, k, v, o, gate, up, down;
  std::vector<Vec> keys, values;

  explicit Layer(const model::LayerWeights& w)
      : input_norm(ReadNorm(w.input_norm)),
        q_norm(ReadNorm(w.q_norm)),
        k_norm(ReadNorm(w.k_norm)),
        post_attention_norm(ReadNorm(w.post_attention_norm)),
        ffn_norm(ReadNorm(w.ffn_norm)),
        post_ffn_norm(ReadNorm(w.post_ffn_norm)),
        q(w.q, w.q_bias),
        k(w.k, w.k_bias),
        v(w.v, w.v_bias),
        o(w.o, w.o_bias),
        gate(w.gate, w.gate_bias),
        up(w.up, w.up_bias),
        down(w.down, w.down_bias) {}
};

Vec Attend(const model::DecoderSpec& spec, const Layer& layer, std::int64_t window, const Vec& q) {
  const auto dim = static_cast<std::size_t>(spec.head_dim);
  const auto group = static_cast<std::size_t>(spec.num_heads / spec.num_kv_heads);
  const std::size_t count = layer.keys.size();
  const auto limit = static_cast<std::size_t>(window);
  const std::size_t first = window > 0 && count > limit ? count - limit : 0;
  const auto cap = static_cast<double>(spec.attention_softcap);
  Vec out(q.size(), 0.0);
  for (std::size_t h = 0; h * dim < q.size(); ++h) {
    const std::size_t kv = h / group * dim;
    Vec score;
    for (std::size_t p = first; p < count; ++p) {
      double sum = 0;
      for (std::size_t i = 0; i < dim; ++i) sum += q[h * dim + i] * layer.keys[p][kv + i];
      sum *= static_cast<double>(spec.attention_scale);
      score.push_back(cap > 0 ? cap * std::tanh(sum / cap) : sum);
    }
    const double largest = *std::max_element(score.begin(), score.end());
    double total = 0;
    for (double& s : score) total += (s = std::exp(s - largest));
    for (std::size_t p = first; p < count; ++p) {
      for (std::size_t i = 0; i < dim; ++i) {
        out[h * dim + i] += score[p - first] / total * layer.values[p][kv + i];
      }
    }
  }
  return out;
}

double Activate(model::Activation activation, double x) {
  switch (activation) {
    case model::Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case model::Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case model::Activation::kGelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
  }
  return x;
}

// Each head, or all of them at once.
void NormHeads(const model::DecoderSpec& spec, const std::vector<float>& weight, Vec& x) {
  if (spec.qk_norm == model::QkNorm::kNone) return;
  const std::size_t width =
      spec.qk_norm == model::QkNorm::kPerHead ? static_cast<std::size_t>(spec.head_dim) : x.size();
  for (std::size_t at = 0; at < x.size(); at += width) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(at);
    const Vec part(begin, begin + static_cast<std::ptrdiff_t>(width));
    const Vec normed = RmsNorm(weight, static_cast<double>(spec.norm_epsilon), part);
    std::copy(normed.begin(), normed.end(), begin);
  }
}

// norm(x), or x where there is no norm.
Vec MaybeNorm(const model::DecoderSpec& spec, const std::vector<float>& weight, Vec x) {
  return weight.empty() ? x : RmsNorm(weight, static_cast<double>(spec.norm_epsilon), x);
}

void AddTimes(Vec& x, double factor, const Vec& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
}

// One position through one layer.
void RunLayer(const model::DecoderSpec& spec, const model::LayerSpec& facts, std::size_t position,
              Layer& layer, Vec& x) {
  const auto residual = static_cast<double>(spec.residual_multiplier);
  const Vec in = MaybeNorm(spec, layer.input_norm, x);
  Vec q = Multiply(layer.q, in);
  Vec k = Multiply(layer.k, in);
  NormHeads(spec, layer.q_norm, q);
  NormHeads(spec, layer.k_norm, k);
  if (facts.rope != model::kNoRope) {
    const model::RopeTable& rope = spec.ropes[static_cast<std::size_t>(facts.rope)];
    Rotate(rope, position, static_cast<std::size_t>(spec.head_dim), q);
    Rotate(rope, position, static_cast<std::size_t>(spec.head_dim), k);
  }
  layer.keys.push_back(std::move(k));
  layer.values.push_back(Multiply(layer.v, in));
  const Vec attended = Multiply(layer.o, Attend(spec, layer, facts.window, q));
  AddTimes(x, residual, MaybeNorm(spec, layer.post_attention_norm, attended));

  const Vec ffn_in = MaybeNorm(spec, layer.ffn_norm, x);
  Vec gate = Multiply(layer.gate, ffn_in);
  const Vec up = Multiply(layer.up, ffn_in);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    gate[i] = Activate(spec.activation, gate[i]) * up[i];
  }
  AddTimes(x, residual, MaybeNorm(spec, layer.post_ffn_norm, Multiply(layer.down, gate)));
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
  const auto cap = static_cast<double>(spec.logits_softcap);
  std::vector<float> logits;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto row = embedding.values.begin() + ids[t] * spec.hidden;
    Vec x(row, row + spec.hidden);
    for (double& v : x) v *= static_cast<double>(spec.embedding_multiplier);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      RunLayer(spec, model::GetLayerSpec(spec, static_cast<std::int64_t>(i)), t, layers[i], x);
    }
    Vec last = RmsNorm(final_norm, static_cast<double>(spec.norm_epsilon), x);
    for (double& v : last) v *= static_cast<double>(spec.logits_multiplier);
    for (const double v : Multiply(head, last)) {
      logits.push_back(static_cast<float>(cap > 0 ? cap * std::tanh(v / cap) : v));
    }
  }
  return logits;
}

}  // namespace hone::testing
