// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/float16.h"
#include "codec/weight.h"

namespace hone::runtime {
namespace {

// Uniform in [-1, 1) from a 64-bit linear congruential generator (Knuth's constants).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  float Next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<std::int64_t>(state_ >> 40) - (1 << 23)) * 0x1.0p-23F;
  }

 private:
  std::uint64_t state_;
};

// The matrix as int4 in blocks of 32.
codec::WeightBuffer ToInt4(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kBlock = 32;
  codec::WeightBuffer w;
  w.type = {codec::Coding::kInt4, kBlock};
  w.rows = rows;
  w.cols = cols;
  w.codes.resize(codec::CodesBytes(w.type, rows, cols));
  w.scales.resize(codec::ScalesBytes(w.type, rows, cols));
  const auto width = static_cast<std::size_t>(cols), blocks = width / kBlock;
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    const auto row = std::span(values).subspan(r * width, width);
    std::vector<float> scales;
    for (std::size_t b = 0; b < blocks; ++b) {
      float largest = 0;
      for (const float v : row.subspan(b * kBlock, kBlock))
        largest = std::max(largest, std::fabs(v));
      const std::uint16_t half = FloatToFp16(largest / 7.0F);
      std::memcpy(w.scales.data() + (r * blocks + b) * sizeof(half), &half, sizeof(half));
      scales.push_back(Fp16ToFloat(half));
    }
    codec::EncodeRowInt(w.type, row, scales, w.codes.data() + r * width / 2);
  }
  return w;
}

}  // namespace

model::DecoderModel MakeTinyModel(const TinyModelOptions& options) {
  model::DecoderModel m;
  model::DecoderSpec& spec = m.spec;
  spec.architecture = "llama";
  spec.num_layers = 3;
  spec.hidden = 64;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 16;
  spec.ffn = 96;
  spec.vocab = options.vocab;
  spec.max_positions = options.max_positions;
  spec.norm_epsilon = 1e-5F;
  spec.attention_scale = 0.25F;
  spec.ropes.resize(1);
  for (int i = 0; i < 8; ++i) {
    spec.ropes[0].inv_freq.push_back(std::pow(10000.0F, -static_cast<float>(i) / 8.0F));
  }
  m.layers.resize(3);

  Random random(options.seed);
  const auto fill = [&](model::Role role, std::int64_t layer, float center, float spread) {
    const model::Shape shape = model::RoleShape(spec, role);
    auto data =
        std::make_shared<std::vector<float>>(static_cast<std::size_t>(shape.rows * shape.cols));
    for (float& v : *data) v = center + spread * random.Next();
    model::Weight& weight = model::GetWeight(m, role, layer);
    weight.name = model::RoleName(role);
    weight.view.rows = shape.rows;
    weight.view.cols = shape.cols;
    if (options.int4 && shape.rows > 1 && role != model::Role::kEmbedding) {
      auto coded = std::make_shared<codec::WeightBuffer>(ToInt4(*data, shape.rows, shape.cols));
      weight.view = coded->view();
      m.keep_alive.push_back(std::move(coded));
      return;
    }
    weight.view.codes = std::as_bytes(std::span<const float>(*data));
    m.keep_alive.push_back(std::move(data));
  };
  using model::Role;
  fill(Role::kEmbedding, 0, 0, 1);
  fill(Role::kHead, 0, 0, 0.5F);
  fill(Role::kFinalNorm, 0, 1, 0.2F);
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    for (const Role role : {Role::kInputNorm, Role::kFfnNorm}) fill(role, layer, 1, 0.2F);
    for (const Role role :
         {Role::kQ, Role::kK, Role::kV, Role::kO, Role::kGate, Role::kUp, Role::kDown}) {
      fill(role, layer, 0, 0.25F);
    }
    if (!options.biases) continue;
    for (const Role role : {Role::kQBias, Role::kKBias, Role::kVBias, Role::kOBias, Role::kGateBias,
                            Role::kUpBias, Role::kDownBias}) {
      fill(role, layer, 0, 0.1F);
    }
  }
  return m;
}

}  // namespace hone::runtime
