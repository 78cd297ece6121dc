// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Reads the keys of a config.json, keeps the first error, and knows which keys were read.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/decoder_spec.h"

namespace hone::model {

// After the first error every call returns a harmless value; Finish() returns the error. Keys that
// must be there are never replaced by a library's default.
class ConfigReader {
 public:
  // config must outlive the reader.
  explicit ConfigReader(const Json& config) : config_(config) {}

  // A count that must be there: 1 to 2^24.
  std::int64_t Dimension(std::string_view key);
  // num_attention_heads, num_key_value_heads (absent: one for each head) and head_dim (absent:
  // hidden / heads); sets attention_scale. Reads spec->hidden.
  void Heads(DecoderSpec* spec);
  float Epsilon(std::string_view key);
  Activation HiddenActivation(std::string_view key);
  // Absent or null is false.
  bool Flag(std::string_view key);
  std::optional<bool> OptionalFlag(std::string_view key);
  // rope_theta, rope_scaling, rope_parameters. Reads spec->head_dim and spec->max_positions.
  void Rope(DecoderSpec* spec);

  // The family may know more keys than the calls above read.
  void MarkRead(std::string_view key) { read_.emplace(key); }
  // Refuses quantized checkpoints and every other key that may change the numbers: one that
  // another architecture uses, or an unknown number, list or object that is not off.
  void RefuseOtherKeys();

  // The first error, or ok; appends the warnings.
  Status Finish(std::vector<std::string>* warnings);

 private:
  const Json* Find(std::string_view key);
  void Fail(Code code, std::string message);

  const Json& config_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> warnings_;
  Status error_;
};

}  // namespace hone::model
