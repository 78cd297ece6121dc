// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A model's weights packed for the kernels of this machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/linear.h"
#include "model/decoder_spec.h"

namespace hone::runtime {

struct PackedLinear {
  kernels::Linear linear;
  std::vector<float> bias;  // [n], or empty

  void Run(const kernels::PreparedRows& x, float* y, ThreadPool& pool) const {
    linear.Run(x, bias.empty() ? nullptr : bias.data(), y, pool);
  }
};

struct PackedLayer {
  // Norms that the model does not have are empty.
  std::vector<float> input_norm;  // [hidden]
  PackedLinear q, k, v, o;
  std::vector<float> q_norm, k_norm;       // [head_dim], or [heads * head_dim]
  std::vector<float> post_attention_norm;  // [hidden]
  std::vector<float> ffn_norm;             // [hidden]
  PackedLinear gate, up, down;
  std::vector<float> post_ffn_norm;  // [hidden]
};

struct PackedModel {
  std::vector<PackedLayer> layers;
  std::vector<float> final_norm;  // [hidden]
  PackedLinear head;
};

// Packs every linear, norm and bias. The embedding stays as stored: its rows are decoded when they
// are looked up. release (may be empty) is told of bytes that have been copied and are not needed
// again. Errors name the tensor.
Result<PackedModel> PackModel(const model::DecoderModel& model, kernels::Compute compute,
                              ThreadPool& pool, const std::function<void(ByteSpan)>& release);

}  // namespace hone::runtime
