// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "executor/bundle_signature.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

namespace hone::executor {

using formats::tflite::Model;
using formats::tflite::SignatureDef;
using formats::tflite::TensorType;

namespace {

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::optional<InputRole> RoleOf(std::string_view name) {
  if (IsOneOf(name, {"tokens", "token_ids"})) return InputRole::kTokens;
  if (name == "embeddings") return InputRole::kEmbeddings;
  if (IsOneOf(name, {"input_pos", "positions"})) return InputRole::kPositions;
  if (IsOneOf(name, {"mask", "attn_mask"})) return InputRole::kMask;
  if (IsOneOf(name, {"local_mask", "attn_mask_local", "local_attn_mask"})) {
    return InputRole::kLocalMask;
  }
  if (name == "param_tensor") return InputRole::kParams;
  if (IsOneOf(name, {"mask_global", "mask_local"}) || name.starts_with("pos_emb_")) {
    return InputRole::kPrepared;
  }
  if (IsCacheName(name)) return InputRole::kCache;
  return std::nullopt;
}

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool TypeFits(const SignatureInput& input) {
  const bool is_float = input.type == TensorType::kFloat32 || input.type == TensorType::kFloat16;
  switch (input.role) {
    case InputRole::kTokens:
    case InputRole::kPositions:
    case InputRole::kParams:
      return input.type == TensorType::kInt32;
    case InputRole::kMask:
    case InputRole::kLocalMask:
      return is_float || input.type == TensorType::kBool;
    default:
      return is_float;
  }
}

std::int64_t Count(const SignatureInput& input) {
  std::int64_t count = 1;
  for (const std::int32_t dim : input.shape) count *= dim;
  return count;
}

bool ShapeFits(const SignatureInput& input, std::int64_t length) {
  const auto& s = input.shape;
  switch (input.role) {
    case InputRole::kTokens:
      return s.size() == 2 && s[0] == 1 && s[1] == length;
    case InputRole::kEmbeddings:
      return s.size() == 3 && s[0] == 1 && s[1] == length && s[2] > 0;
    case InputRole::kPositions:
      return s.size() <= 2 && Count(input) == length;
    case InputRole::kMask:
    case InputRole::kLocalMask:
      return s.size() == 4 && s[0] == 1 && s[1] == 1 && s[2] == length && s[3] > 0;
    case InputRole::kParams:
      return Count(input) >= 3;
    case InputRole::kCache:
      return s.size() == 4;
    case InputRole::kPrepared:
      return true;
  }
  return false;
}

}  // namespace

bool IsCacheName(std::string_view name) {
  if (name.starts_with("kv_")) name.remove_prefix(3);
  if (name.starts_with("k_"))
    name = name.substr(2);
  else if (name.starts_with("v_"))
    name = name.substr(2);
  if (!name.starts_with("cache_")) return false;
  name.remove_prefix(6);
  if (name.starts_with("k_") || name.starts_with("v_")) name.remove_prefix(2);
  return IsNumber(name);
}

const SignatureInput* StepSignature::Find(InputRole role) const {
  for (const SignatureInput& input : inputs) {
    if (input.role == role) return &input;
  }
  return nullptr;
}

bool StepSignature::HasOutput(std::string_view name) const {
  return std::find(outputs.begin(), outputs.end(), name) != outputs.end();
}

Result<StepSignature> ReadSignature(const Model& model, const SignatureDef& signature) {
  const auto& tensors = model.subgraphs[signature.subgraph].tensors;
  StepSignature step;
  step.key = signature.key;
  for (const auto& [name, id] : signature.inputs) {
    const auto role = RoleOf(name);
    if (!role) {
      return Status(Code::kUnsupported, StrCat("signature '", signature.key, "': input '", name,
                                               "' is of a kind that Hone cannot fill"));
    }
    step.inputs.push_back({name, *role, tensors[id].type, tensors[id].shape});
  }
  for (const auto& [name, id] : signature.outputs) step.outputs.push_back(name);
  // The tokens say the length, however they come.
  for (const InputRole role : {InputRole::kTokens, InputRole::kEmbeddings}) {
    const SignatureInput* input = step.Find(role);
    if (input != nullptr && input->shape.size() >= 2) step.length = input->shape[1];
  }
  if (step.length <= 0) {
    return Status(Code::kUnsupported,
                  StrCat("signature '", signature.key, "': has neither tokens nor embeddings"));
  }
  for (const SignatureInput& input : step.inputs) {
    if (TypeFits(input) && ShapeFits(input, step.length)) continue;
    std::string shape;
    for (const std::int32_t dim : input.shape) shape += " " + std::to_string(dim);
    return Status(Code::kUnsupported, StrCat("signature '", signature.key, "': input '", input.name,
                                             "' is ", formats::tflite::TensorTypeName(input.type),
                                             " [", shape, " ], which Hone cannot fill"));
  }
  return step;
}

}  // namespace hone::executor
