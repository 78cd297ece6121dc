// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "random_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>

#include "base/json.h"

namespace hone::testing {
namespace {

using model::Role;

// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Uniform in [-1, 1).
  float Next() {
    return static_cast<float>(static_cast<std::int64_t>(Bits() >> 40) - (1 << 23)) * 0x1.0p-23F;
  }

 private:
  std::uint64_t state_;
};

// The norms of a layer.
std::vector<Role> NormRoles(const model::DecoderSpec& spec) {
  std::vector<Role> roles;
  if (spec.pre_norm) roles.insert(roles.end(), {Role::kInputNorm, Role::kFfnNorm});
  if (spec.qk_norm != model::QkNorm::kNone) {
    roles.insert(roles.end(), {Role::kQNorm, Role::kKNorm});
  }
  if (spec.post_norm) roles.insert(roles.end(), {Role::kPostAttentionNorm, Role::kPostFfnNorm});
  return roles;
}

std::vector<Role> BiasRoles(Biases biases) {
  if (biases == Biases::kNone) return {};
  if (biases == Biases::kQkv) return {Role::kQBias, Role::kKBias, Role::kVBias};
  return {Role::kQBias,    Role::kKBias,  Role::kVBias,   Role::kOBias,
          Role::kGateBias, Role::kUpBias, Role::kDownBias};
}

constexpr Role kLinears[] = {Role::kQ,    Role::kK,  Role::kV,   Role::kO,
                             Role::kGate, Role::kUp, Role::kDown};

model::DecoderSpec MakeSpec(const ModelShape& shape) {
  model::DecoderSpec spec;
  spec.architecture = "llama";
  spec.num_layers = shape.layers;
  spec.hidden = shape.hidden;
  spec.num_heads = shape.heads;
  spec.num_kv_heads = shape.kv_heads;
  spec.head_dim = shape.head_dim;
  spec.ffn = shape.ffn;
  spec.vocab = shape.vocab;
  spec.max_positions = shape.max_positions;
  spec.norm_epsilon = 1e-5F;
  spec.attention_scale =
      shape.attention_scale > 0
          ? shape.attention_scale
          : static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  spec.tied_head = shape.tied;
  std::vector<model::RopeFacts> ropes = {shape.rope};
  ropes.insert(ropes.end(), shape.more_ropes.begin(), shape.more_ropes.end());
  for (const model::RopeFacts& facts : ropes) {
    auto rope = model::MakeRopeTable(facts, shape.head_dim);
    EXPECT_TRUE(rope.ok()) << rope.message();
    spec.ropes.push_back(rope.ok() ? *std::move(rope) : model::RopeTable());
  }
  for (std::int64_t i = 0; i < shape.layers && !shape.layer_specs.empty(); ++i) {
    const auto count = static_cast<std::int64_t>(shape.layer_specs.size());
    spec.layer_specs.push_back(shape.layer_specs[static_cast<std::size_t>(i % count)]);
  }
  spec.activation = shape.activation;
  spec.qk_norm = shape.qk_norm;
  spec.pre_norm = shape.pre_norm;
  spec.post_norm = shape.post_norm;
  spec.embedding_multiplier = shape.embedding_multiplier;
  spec.residual_multiplier = shape.residual_multiplier;
  spec.logits_multiplier = shape.logits_multiplier;
  spec.attention_softcap = shape.attention_softcap;
  spec.logits_softcap = shape.logits_softcap;
  return spec;
}

ModelShape Shape(std::string name, std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                 std::int64_t kv_heads, std::int64_t head_dim, std::int64_t ffn, std::int64_t vocab,
                 Biases biases, bool tied, model::RopeFacts rope) {
  ModelShape s;
  s.name = std::move(name);
  s.layers = layers;
  s.hidden = hidden;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.head_dim = head_dim;
  s.ffn = ffn;
  s.vocab = vocab;
  s.biases = biases;
  s.tied = tied;
  s.rope = rope;
  return s;
}

model::RopeFacts Rope(model::RopeKind kind) {
  model::RopeFacts facts;
  facts.kind = kind;
  facts.theta = 10000;
  if (kind != model::RopeKind::kDefault) facts.factor = 4;
  facts.original_positions = 40;
  facts.low_freq_factor = 1;
  facts.high_freq_factor = 4;
  return facts;
}

// <s>, </s>, a to z, then names that no text is split into.
std::string TokenText(std::int64_t id) {
  if (id < 2) return id == 0 ? "<s>" : "</s>";
  if (id < 28) return std::string(1, static_cast<char>('a' + id - 2));
  return "[" + std::to_string(id) + "]";
}

Json ShapeJson(std::int64_t rows, std::int64_t cols, bool vector) {
  return vector ? Json(Json::Array{Json(cols)}) : Json(Json::Array{Json(rows), Json(cols)});
}

std::string HfName(Role role, std::int64_t layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  switch (role) {
    case Role::kEmbedding:
      return "model.embed_tokens.weight";
    case Role::kHead:
      return "lm_head.weight";
    case Role::kFinalNorm:
      return "model.norm.weight";
    case Role::kInputNorm:
      return prefix + "input_layernorm.weight";
    case Role::kFfnNorm:
      return prefix + "post_attention_layernorm.weight";
    case Role::kGate:
    case Role::kUp:
    case Role::kDown:
      return prefix + "mlp." + model::RoleName(role) + "_proj.weight";
    default:
      return prefix + "self_attn." + model::RoleName(role) + "_proj.weight";
  }
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  ASSERT_TRUE(out.good()) << path;
}

Json ConfigJson(const ModelShape& shape) {
  Json config(Json::Object{});
  config.Set("architectures", Json(Json::Array{Json("LlamaForCausalLM")}));
  config.Set("model_type", Json("llama"));
  config.Set("hidden_size", Json(shape.hidden));
  config.Set("intermediate_size", Json(shape.ffn));
  config.Set("num_hidden_layers", Json(shape.layers));
  config.Set("num_attention_heads", Json(shape.heads));
  config.Set("num_key_value_heads", Json(shape.kv_heads));
  config.Set("head_dim", Json(shape.head_dim));
  config.Set("vocab_size", Json(shape.vocab));
  config.Set("max_position_embeddings", Json(shape.max_positions));
  config.Set("hidden_act", Json("silu"));
  config.Set("rms_norm_eps", Json(1e-5));
  config.Set("rope_theta", Json(10000.0));
  config.Set("tie_word_embeddings", Json(shape.tied));
  config.Set("bos_token_id", Json(0));
  config.Set("eos_token_id", Json(1));
  return config;
}

}  // namespace

const std::vector<ModelShape>& Shapes() {
  using model::RopeKind;
  static const std::vector<ModelShape> kShapes = {
      Shape("plain", 1, 32, 2, 2, 16, 32, 133, Biases::kNone, false, Rope(RopeKind::kDefault)),
      Shape("llama3", 2, 96, 4, 2, 24, 160, 133, Biases::kAll, true, Rope(RopeKind::kLlama3)),
      Shape("yarn", 3, 80, 8, 1, 10, 96, 257, Biases::kNone, true, Rope(RopeKind::kYarn)),
      Shape("linear", 2, 40, 5, 5, 8, 96, 71, Biases::kAll, false, Rope(RopeKind::kLinear)),
      Shape("wide", 2, 72, 6, 3, 48, 224, 131, Biases::kQkv, true, Rope(RopeKind::kDefault)),
      Shape("group8", 2, 64, 16, 2, 14, 352, 199, Biases::kNone, false, Rope(RopeKind::kYarn)),
      Shape("odd", 1, 50, 2, 1, 18, 32, 201, Biases::kAll, false, Rope(RopeKind::kLlama3)),
  };
  return kShapes;
}

const std::vector<ModelShape>& FeatureShapes() {
  using model::Activation;
  using model::kNoRope;
  using model::QkNorm;
  using model::RopeKind;
  static const std::vector<ModelShape> kShapes = [] {
    const auto shape = [](std::string name, std::int64_t layers, std::int64_t head_dim,
                          Biases biases, bool tied) {
      return Shape(std::move(name), layers, 64, 4, 2, head_dim, 96, 133, biases, tied,
                   Rope(RopeKind::kDefault));
    };
    ModelShape windows = shape("windows", 3, 16, Biases::kNone, false);
    windows.layer_specs = {{0, 5}, {0, 0}, {0, 70}};
    ModelShape no_rope = shape("no_rope", 2, 16, Biases::kQkv, true);
    no_rope.layer_specs = {{0, 0}, {kNoRope, 0}};
    ModelShape head_norm = shape("head_norm", 2, 24, Biases::kNone, true);
    head_norm.qk_norm = QkNorm::kPerHead;
    ModelShape only_after = shape("only_after", 2, 16, Biases::kNone, false);
    only_after.qk_norm = QkNorm::kWholeRow;
    only_after.pre_norm = false;
    only_after.post_norm = true;
    ModelShape caps = shape("caps", 2, 24, Biases::kNone, true);
    caps.layer_specs = {{0, 40}, {0, 0}};
    caps.activation = Activation::kGeluTanh;
    caps.post_norm = true;
    caps.attention_scale = 0.3F;
    caps.embedding_multiplier = 8;
    caps.attention_softcap = 2;
    caps.logits_softcap = 3;
    ModelShape two_ropes = shape("two_ropes", 3, 16, Biases::kNone, true);
    two_ropes.more_ropes = {Rope(RopeKind::kLinear)};
    two_ropes.more_ropes[0].theta = 1e6;
    two_ropes.layer_specs = {{0, 17}, {1, 0}, {0, 17}};
    two_ropes.activation = Activation::kGeluTanh;
    two_ropes.qk_norm = QkNorm::kPerHead;
    two_ropes.post_norm = true;
    two_ropes.embedding_multiplier = 8;
    ModelShape multipliers = shape("multipliers", 2, 16, Biases::kNone, true);
    multipliers.attention_scale = 0.11F;
    multipliers.embedding_multiplier = 12;
    multipliers.residual_multiplier = 0.22F;
    multipliers.logits_multiplier = 0.125F;
    ModelShape partial = shape("partial", 2, 32, Biases::kAll, false);
    partial.rope.rotary_fraction = 0.75;
    partial.activation = Activation::kGelu;
    ModelShape all = shape("everything", 3, 20, Biases::kAll, false);
    all.more_ropes = {Rope(RopeKind::kYarn)};
    all.rope.rotary_fraction = 0.5;
    all.layer_specs = {{0, 33}, {1, 0}, {kNoRope, 100}};
    all.activation = Activation::kGelu;
    all.qk_norm = QkNorm::kWholeRow;
    all.post_norm = true;
    all.embedding_multiplier = 3;
    all.residual_multiplier = 0.7F;
    all.logits_multiplier = 0.5F;
    all.attention_softcap = 5;
    all.logits_softcap = 4;
    return std::vector<ModelShape>{windows,   no_rope,     head_norm, only_after, caps,
                                   two_ropes, multipliers, partial,   all};
  }();
  return kShapes;
}

model::DecoderModel MakeModel(const ModelShape& shape, std::uint64_t seed) {
  model::DecoderModel m;
  m.spec = MakeSpec(shape);
  m.layers.resize(static_cast<std::size_t>(shape.layers));
  Random random(seed);
  const auto fill = [&](Role role, std::int64_t layer, float center, float spread) {
    const model::Shape size = model::RoleShape(m.spec, role);
    auto data =
        std::make_shared<std::vector<float>>(static_cast<std::size_t>(size.rows * size.cols));
    for (float& v : *data) v = center + spread * random.Next();
    model::Weight& weight = model::GetWeight(m, role, layer);
    weight.name = HfName(role, layer);
    weight.view.rows = size.rows;
    weight.view.cols = size.cols;
    weight.view.codes = std::as_bytes(std::span<const float>(*data));
    m.keep_alive.push_back(std::move(data));
  };
  // Keeps the size of a row's values through a matrix of that many columns.
  const auto spread = [](std::int64_t cols) {
    return static_cast<float>(std::sqrt(3.0 / static_cast<double>(cols)));
  };
  fill(Role::kEmbedding, 0, 0, 1);
  fill(Role::kFinalNorm, 0, 1, 0.3F);
  if (shape.tied) {
    m.head = m.embedding;
  } else {
    fill(Role::kHead, 0, 0, 2 * spread(shape.hidden));
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    for (const Role role : NormRoles(m.spec)) fill(role, layer, 1, 0.3F);
    for (const Role role : kLinears) {
      fill(role, layer, 0, spread(model::RoleShape(m.spec, role).cols));
    }
    for (const Role role : BiasRoles(shape.biases)) fill(role, layer, 0, 0.2F);
  }
  return m;
}

model::DecoderModel MakeInt8Model(const ModelShape& shape, std::uint64_t seed) {
  model::DecoderModel m = MakeModel(shape, seed);
  const auto quantize = [&](model::Weight& weight) {
    const std::vector<float> values = model::ReadAll(weight);
    auto buffer = std::make_shared<codec::WeightBuffer>();
    buffer->type = {codec::Coding::kInt8, 0};
    buffer->rows = weight.view.rows;
    buffer->cols = weight.view.cols;
    buffer->codes.resize(values.size());
    std::vector<float> scales;
    const auto cols = static_cast<std::size_t>(buffer->cols);
    for (std::size_t at = 0; at < values.size(); at += cols) {
      const auto row = std::span(values).subspan(at, cols);
      float largest = 0;
      for (const float v : row) largest = std::max(largest, std::abs(v));
      scales.push_back(largest / 127.0F);
      codec::EncodeRowInt(buffer->type, row, std::span(scales).last(1), buffer->codes.data() + at);
    }
    const auto bytes = std::as_bytes(std::span(scales));
    buffer->scales.assign(bytes.begin(), bytes.end());
    weight.view = buffer->view();
    m.keep_alive.push_back(std::move(buffer));
  };
  // An embedding on a grid of codes would lie on the borders of the codes of a first linear that
  // reads it without a norm.
  if (shape.tied) {
    quantize(m.embedding);
    m.head = m.embedding;
  } else {
    quantize(m.head);
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    for (const Role role : kLinears) quantize(model::GetWeight(m, role, layer));
  }
  return m;
}

std::string MakeTokenizerJson(std::int64_t vocab) {
  Json pieces(Json::Object{});
  Json::Array added;
  for (std::int64_t id = 0; id < vocab; ++id) {
    const std::string piece = TokenText(id);
    pieces.Set(piece, Json(id));
    if (id > 1) continue;
    added.emplace_back(Json::Object{{"id", Json(id)},
                                    {"content", Json(piece)},
                                    {"single_word", Json(false)},
                                    {"lstrip", Json(false)},
                                    {"rstrip", Json(false)},
                                    {"normalized", Json(false)},
                                    {"special", Json(true)}});
  }
  Json bpe(Json::Object{{"type", Json("BPE")}, {"vocab", pieces}, {"merges", Json(Json::Array{})}});
  Json out(Json::Object{{"version", Json("1.0")},
                        {"added_tokens", Json(std::move(added))},
                        {"model", std::move(bpe)}});
  return out.Dump(0);
}

model::Checkpoint MakeCheckpoint(const ModelShape& shape, std::uint64_t seed) {
  model::Checkpoint checkpoint;
  checkpoint.model = MakeModel(shape, seed);
  checkpoint.text.tokenizer_json = MakeTokenizerJson(shape.vocab);
  checkpoint.text.bos_token = "<s>";
  checkpoint.text.eos_token = "</s>";
  checkpoint.text.eos_ids = {1};
  checkpoint.source = shape.name;
  return checkpoint;
}

std::vector<std::int32_t> MakeIds(std::int64_t count, std::int64_t vocab, std::uint64_t seed) {
  Random random(seed ^ 0x5bd1e995);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(random.Bits() % static_cast<std::uint64_t>(vocab)));
  }
  return ids;
}

void WriteZeroCheckpoint(const ModelShape& shape, const std::string& folder) {
  const model::DecoderSpec spec = MakeSpec(shape);
  Json header(Json::Object{});
  std::int64_t end = 0;
  const auto add = [&](Role role, std::int64_t layer, bool vector) {
    const model::Shape size = model::RoleShape(spec, role);
    const std::int64_t begin = end;
    end += size.rows * size.cols * 2;
    header.Set(HfName(role, layer),
               Json(Json::Object{{"dtype", Json("BF16")},
                                 {"shape", ShapeJson(size.rows, size.cols, vector)},
                                 {"data_offsets", Json(Json::Array{Json(begin), Json(end)})}}));
  };
  add(Role::kEmbedding, 0, false);
  if (!shape.tied) add(Role::kHead, 0, false);
  add(Role::kFinalNorm, 0, true);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    add(Role::kInputNorm, layer, true);
    add(Role::kFfnNorm, layer, true);
    for (const Role role : kLinears) add(role, layer, false);
  }
  const std::string text = header.Dump(0);
  std::string start(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) start[i] = static_cast<char>((text.size() >> (8 * i)) & 255);
  WriteText(folder + "/model.safetensors", start + text);
  std::filesystem::resize_file(folder + "/model.safetensors",
                               start.size() + text.size() + static_cast<std::uintmax_t>(end));
  WriteText(folder + "/config.json", ConfigJson(shape).Dump(1));
  WriteText(folder + "/tokenizer.json", MakeTokenizerJson(shape.vocab));
}

}  // namespace hone::testing
