// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/model_hash.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/hash64.h"

namespace hone::runtime {
namespace {

// Large enough to cost little, small enough that few pages are resident at once.
constexpr std::size_t kPartBytes = std::size_t{8} << 20;

// Numbers in a fixed order, eight bytes each.
class Words {
 public:
  template <typename... T>
  void Add(T... values) {
    (words_.push_back(ToWord(values)), ...);
  }
  void AddText(std::string_view text) { Add(text.size(), Hash64(AsBytes(text))); }
  void AddFloats(const std::vector<float>& values) {
    Add(values.size(), Hash64(std::as_bytes(std::span(values))));
  }
  std::uint64_t Hash() const { return Hash64(std::as_bytes(std::span(words_))); }

 private:
  template <typename T>
  static std::uint64_t ToWord(T value) {
    if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<std::uint32_t>(value);
    } else if constexpr (std::is_same_v<T, double>) {
      return std::bit_cast<std::uint64_t>(value);
    } else {
      return static_cast<std::uint64_t>(value);
    }
  }
  std::vector<std::uint64_t> words_;
};

void AddSpec(const model::DecoderSpec& spec, Words& words) {
  words.AddText(spec.architecture);
  words.Add(spec.num_layers, spec.hidden, spec.num_heads, spec.num_kv_heads, spec.head_dim,
            spec.ffn, spec.vocab, spec.norm_epsilon, spec.attention_scale, spec.activation,
            spec.tied_head, spec.qk_norm, spec.pre_norm, spec.post_norm, spec.embedding_multiplier,
            spec.residual_multiplier, spec.logits_multiplier, spec.attention_softcap,
            spec.logits_softcap, spec.ropes.size());
  for (const model::RopeTable& rope : spec.ropes) {
    words.AddFloats(rope.inv_freq);
    words.Add(rope.magnitude, rope.by_length.has_value());
    if (!rope.by_length) continue;
    words.Add(rope.by_length->kind, rope.by_length->original_positions, rope.by_length->theta,
              rope.by_length->factor);
    words.AddFloats(rope.by_length->long_inv_freq);
  }
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    const model::LayerSpec layer = model::GetLayerSpec(spec, i);
    words.Add(layer.rope, layer.window);
  }
}

void AddParts(ByteSpan bytes, std::vector<ByteSpan>& parts) {
  for (; !bytes.empty(); bytes = bytes.subspan(parts.back().size())) {
    parts.push_back(bytes.first(std::min(bytes.size(), kPartBytes)));
  }
}

}  // namespace

std::uint64_t ModelHash(const model::DecoderModel& model, ThreadPool& pool,
                        const std::function<void(ByteSpan)>& release) {
  Words words;
  AddSpec(model.spec, words);
  std::vector<ByteSpan> parts;
  const auto add = [&](model::Role role, std::int64_t layer) {
    if (role == model::Role::kHead && model.spec.tied_head) return;
    const model::Weight& weight = model::GetWeight(model, role, layer);
    words.Add(role, layer, weight.present());
    if (!weight.present()) return;
    words.Add(weight.view.type.coding, weight.view.type.block, weight.view.rows, weight.view.cols,
              weight.interleaved_head_dim, weight.view.codes.size(), weight.view.scales.size());
    AddParts(weight.view.codes, parts);
    AddParts(weight.view.scales, parts);
  };
  for (const auto role : {model::Role::kEmbedding, model::Role::kHead, model::Role::kFinalNorm}) {
    add(role, 0);
  }
  for (std::int64_t layer = 0; layer < model.spec.num_layers; ++layer) {
    for (auto role = static_cast<int>(model::Role::kInputNorm);
         role <= static_cast<int>(model::Role::kPostFfnNorm); ++role) {
      add(static_cast<model::Role>(role), layer);
    }
  }
  std::vector<std::uint64_t> hashes(parts.size());
  pool.Run(static_cast<int>(parts.size()), [&](int i) {
    const auto part = static_cast<std::size_t>(i);
    hashes[part] = Hash64(parts[part]);
    if (release) release(parts[part]);
  });
  for (const std::uint64_t hash : hashes) words.Add(hash);
  return words.Hash();
}

}  // namespace hone::runtime
