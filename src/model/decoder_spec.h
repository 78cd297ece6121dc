// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a decoder-only model is, as data: dimensions, rope, biases, weights by role. The reference
// forward pass, the graph builder and the runtime read only this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/weight.h"

namespace hone::model {

// What a tensor is for.
enum class Role : std::uint8_t {
  kEmbedding,  // [vocab, hidden]
  kHead,       // [vocab, hidden]
  kFinalNorm,  // [hidden]
  kInputNorm,  // [hidden], before attention
  kQ,          // [heads * head_dim, hidden]
  kK,          // [kv_heads * head_dim, hidden]
  kV,          // [kv_heads * head_dim, hidden]
  kO,          // [hidden, heads * head_dim]
  kFfnNorm,    // [hidden], before the feed-forward part
  kGate,       // [ffn, hidden]
  kUp,         // [ffn, hidden]
  kDown,       // [hidden, ffn]
  kQBias,
  kKBias,
  kVBias,
  kOBias,
  kGateBias,
  kUpBias,
  kDownBias,
  kQNorm,              // [head_dim] or [heads * head_dim], before rope
  kKNorm,              // [head_dim] or [kv_heads * head_dim], before rope
  kPostAttentionNorm,  // [hidden], after o and before the residual is added
  kPostFfnNorm,        // [hidden], after down and before the residual is added
};
// "embedding", "head", "q", "q_bias", "input_norm" and so on.
const char* RoleName(Role role);
// The seven linears of a layer, the embedding and the head can be quantized; nothing else.
bool IsQuantizable(Role role);

// kGeluTanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); kGelu: with erf.
enum class Activation : std::uint8_t { kSilu, kGeluTanh, kGelu };

// Norm of queries and keys before rope: over each head, or over all heads at once.
enum class QkNorm : std::uint8_t { kNone, kPerHead, kWholeRow };

// Frequencies that change with the length of the sequence. Only a checkpoint has them: a bundle's
// are fixed for its context (model/rope.h, RopeForLength).
struct RopeByLength {
  enum class Kind : std::uint8_t { kLongRope, kDynamicNtk };
  Kind kind = Kind::kLongRope;
  std::int64_t original_positions = 0;  // sequences up to this length use RopeTable::inv_freq
  std::vector<float> long_inv_freq;     // kLongRope: for longer ones
  double theta = 0, factor = 1;         // kDynamicNtk: theta grows with the length
};

// Rotary position embedding, already worked out from the configuration (theta, llama3, YaRN,
// linear). The first 2 * inv_freq.size() dimensions of a head turn, the others stay. Rotate-half
// convention: dimension i pairs with i + inv_freq.size(). angle = float(position) * inv_freq[i];
// cos and sin are both multiplied by magnitude.
struct RopeTable {
  std::vector<float> inv_freq;  // [rotary_dim / 2], rotary_dim <= head_dim
  float magnitude = 1.0f;
  std::optional<RopeByLength> by_length;
};

inline constexpr std::int32_t kNoRope = -1;

// What differs between layers.
struct LayerSpec {
  std::int32_t rope = 0;    // index into DecoderSpec::ropes, or kNoRope
  std::int64_t window = 0;  // a position sees itself and the window - 1 before it; 0: all before it
  bool operator==(const LayerSpec&) const = default;
};

struct DecoderSpec {
  std::string architecture;  // "llama"
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  // of the model, or the context of a bundle
  float norm_epsilon = 0;
  float attention_scale = 0;  // usually head_dim^-0.5
  Activation activation = Activation::kSilu;
  bool tied_head = false;  // the head is the embedding
  std::vector<RopeTable> ropes;
  std::vector<LayerSpec> layer_specs;  // [num_layers]; empty: every layer is LayerSpec()

  QkNorm qk_norm = QkNorm::kNone;
  // x + post_norm(attention(pre_norm(x))), and the same for the feed-forward part. Either norm may
  // be missing: pre_norm false leaves out kInputNorm and kFfnNorm, post_norm true adds
  // kPostAttentionNorm and kPostFfnNorm.
  bool pre_norm = true;
  bool post_norm = false;
  float embedding_multiplier = 1;  // of the embedding's rows
  float residual_multiplier = 1;   // of what attention and feed-forward add
  float logits_multiplier = 1;     // of the final norm's output, before the head
  float attention_softcap = 0;     // scores become cap * tanh(scores / cap) before the mask; 0: off
  float logits_softcap = 0;        // the same for logits; 0: off
};
// The layer's own facts, also where layer_specs is empty.
LayerSpec GetLayerSpec(const DecoderSpec& spec, std::int64_t layer);

// One tensor: where its bytes are and how to read them. Memory belongs to DecoderModel::keep_alive.
struct Weight {
  codec::WeightView view;
  std::string name;  // as in the source file, for messages
  // GGUF stores q and k with each head's two halves interleaved: row 2 i + j of a head there is row
  // j * head_dim / 2 + i here. 0: rows are in order.
  std::int64_t interleaved_head_dim = 0;
  bool present() const { return view.rows > 0; }
};

// Decodes rows [row_begin, row_begin + num_rows) to float32, in the order of the Role's shape.
void ReadRows(const Weight& weight, std::int64_t row_begin, std::int64_t num_rows, float* out);
// The whole tensor as float32 [rows * cols].
std::vector<float> ReadAll(const Weight& weight);

struct LayerWeights {
  Weight input_norm, q, k, v, o, ffn_norm, gate, up, down;
  // Absent unless the architecture has them.
  Weight q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias;
  Weight q_norm, k_norm, post_attention_norm, post_ffn_norm;
};

// A model: its description and its weights. Movable; read-only after creation, so thread-safe.
struct DecoderModel {
  DecoderSpec spec;
  Weight embedding;
  Weight head;  // equals embedding if spec.tied_head
  Weight final_norm;
  std::vector<LayerWeights> layers;
  // Maps and buffers that the views point into.
  std::vector<std::shared_ptr<const void>> keep_alive;
};

// The weight of a role; layer is ignored for embedding, head and final norm. May be absent.
const Weight& GetWeight(const DecoderModel& model, Role role, std::int64_t layer);
Weight& GetWeight(DecoderModel& model, Role role, std::int64_t layer);
// [rows, cols] that the role must have; biases and norms are [1, n].
struct Shape {
  std::int64_t rows;
  std::int64_t cols;
};
Shape RoleShape(const DecoderSpec& spec, Role role);

}  // namespace hone::model
