// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A small random model in memory, for tests.
#pragma once

#include <cstdint>

#include "model/decoder_spec.h"

namespace hone::runtime {

struct TinyModelOptions {
  std::uint64_t seed = 1;
  std::int64_t vocab = 97;
  std::int64_t max_positions = 700;
  bool biases = true;
  // The matrices of the layers and the head as int4 in blocks of 32; the rest stays float32.
  bool int4 = false;
};

// 3 layers, hidden 64, 4 heads of 16 over 2 kv heads, ffn 96, float32 weights unless said.
model::DecoderModel MakeTinyModel(const TinyModelOptions& options = {});

}  // namespace hone::runtime
