// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Reads the keys of a config.json, keeps the first error, and knows which keys were read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/decoder_spec.h"

namespace hone::model {

// What a family's code does with rope that others do not.
struct RopeRules {
  bool partial_rotary = false;   // partial_rotary_factor is used
  bool longrope_by_max = false;  // LongRoPE: one list for every length (RopeFacts)
  bool llama4_scaling = false;   // queries grow beyond the original length
};

// After the first error every call returns a harmless value; Finish() returns the error. Keys that
// must be there are never replaced by a library's default.
class ConfigReader {
 public:
  explicit ConfigReader(const Json& config) : config_(config) {}

  // For keys that published configurations of a family leave out: sets an absent one and warns.
  void Default(std::string_view key, Json value);

  // The keys of nearly every family: the dimensions, heads, rms_norm_eps.
  void Common(DecoderSpec* spec);

  // A count that must be there: 1 to max.
  std::int64_t Dimension(std::string_view key, std::int64_t max = std::int64_t{1} << 24);
  // num_attention_heads, num_key_value_heads (absent: one for each head) and head_dim (absent:
  // hidden / heads); sets attention_scale. Reads spec->hidden.
  void Heads(DecoderSpec* spec);
  float Epsilon(std::string_view key);
  Activation HiddenActivation(std::string_view key);
  // A number over 0 that must be there.
  double Positive(std::string_view key);
  // The same where absent or null means off (0).
  double PositiveOrOff(std::string_view key);
  // Absent or null is false.
  bool Flag(std::string_view key);
  std::optional<bool> OptionalFlag(std::string_view key);
  // attention_bias and mlp_bias.
  std::vector<Role> Biases();

  // sliding_window; 0 if it is null. Absent is an error only if it must be there.
  std::int64_t Window(bool required);
  // The window of the layers that layer_types names, or, without that key, of those for which
  // is_sliding is true.
  void Windows(DecoderSpec* spec, std::int64_t window,
               const std::function<bool(std::int64_t layer)>& is_sliding);
  // use_sliding_window, sliding_window and max_window_layers: windows from that layer on.
  void UpperWindows(DecoderSpec* spec);
  // no_rope_layers (0: no rope in that layer), or every no_rope_layer_interval-th layer.
  void LayersWithoutRope(DecoderSpec* spec);
  // rope_theta, rope_scaling, rope_parameters (also by layer type), rope_local_base_freq. Reads
  // spec->head_dim and spec->max_positions, and comes after Windows. Dynamic NTK raises
  // max_positions to what the factor reaches; llama4_scaling lowers it to what it leaves alone.
  void Rope(DecoderSpec* spec, const RopeRules& rules = {});

  // The family may know more keys than the calls above read.
  void MarkRead(std::string_view key) { read_.emplace(key); }
  void Fail(Code code, std::string message);
  // Refuses quantized checkpoints and every other key that may change the numbers: one that
  // another architecture uses, or an unknown number, list or object that is not off.
  void RefuseOtherKeys();

  // The first error, or ok; appends the warnings.
  Status Finish(std::vector<std::string>* warnings);

 private:
  const Json* Find(std::string_view key);
  std::optional<RopeTable> ReadTable(const Json& config, DecoderSpec* spec, const RopeRules& rules);
  void RopeByLayerType(DecoderSpec* spec, const RopeRules& rules);
  void LimitToOriginal(const Json& scaling, DecoderSpec* spec, const RopeRules& rules);

  Json config_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> warnings_;
  std::vector<std::string> defaults_;
  std::vector<bool> sliding_;  // [num_layers] after Windows
  Status error_;
};

// "already quantized with GPTQ; take the original float checkpoint" for the quant_method of a
// quantization_config.
std::string DescribeQuantization(const Json& quantization_config);

}  // namespace hone::model
