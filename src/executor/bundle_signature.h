// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the inputs of a bundle's signatures mean, by their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "executor/executor.h"

namespace hone::executor {

enum class InputRole : std::uint8_t {
  kTokens,      // int32 [1, length]
  kEmbeddings,  // [1, length, hidden]
  kPositions,   // int32 of length elements
  kMask,        // [1, 1, length, context]
  kLocalMask,   // the same with a sliding window
  kParams,      // int32: first position, end, end
  kCache,       // comes back as an output of the same name
  kPrepared,    // made by the auxiliary model: pos_emb_..., mask_global, mask_local
};

struct SignatureInput {
  std::string name;
  InputRole role;
  formats::tflite::TensorType type;
  std::vector<std::int32_t> shape;
};

struct StepSignature {
  std::string key;
  std::int64_t length = 0;  // tokens of one run
  std::vector<SignatureInput> inputs;
  std::vector<std::string> outputs;

  const SignatureInput* Find(InputRole role) const;
  bool HasOutput(std::string_view name) const;
};

// kUnsupported names an input that Hone does not know how to fill, or that has an odd type or
// shape.
Result<StepSignature> ReadSignature(const formats::tflite::Model& model,
                                    const formats::tflite::SignatureDef& signature);

bool IsCacheName(std::string_view name);

}  // namespace hone::executor
