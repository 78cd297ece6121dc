// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/fp8_source.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "codec/weight.h"

namespace hone::model {
namespace {

// The side of the squares that share a scale; 0: the configuration names none.
Result<int> BlockSize(const Json& config) {
  const Json* json = config.FindNonNull("weight_block_size");
  if (json == nullptr) return 0;
  const bool pair = json->IsArray() && json->AsArray().size() == 2 && json->AsArray()[0].IsInt() &&
                    json->AsArray()[1].IsInt();
  const std::int64_t side = pair ? json->AsArray()[0].AsInt() : 0;
  if (!pair || side != json->AsArray()[1].AsInt() || side < 32 || side > 4096 || side % 32 != 0) {
    return Status(Code::kUnsupported,
                  StrCat("config.json: key quantization_config.weight_block_size is ", json->Dump(),
                         ", expected twice the same multiple of 32"));
  }
  return static_cast<int>(side);
}

std::int64_t CountOf(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

const SourceTensor* Find(const std::vector<SourceTensor>& tensors, const std::string& name) {
  const auto it = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const SourceTensor& tensor, const std::string& n) { return tensor.name < n; });
  return it != tensors.end() && it->name == name ? &*it : nullptr;
}

// The scales as float32, in the order that codec::WeightView wants; sets the weight's block.
Result<std::vector<float>> ReadScales(const SourceTensor& weight, const SourceTensor& scales,
                                      int block, int* weight_block) {
  const std::int64_t count = CountOf(scales.shape);
  if (!scales.type || count < 1) {
    return Status(Code::kDataLoss, StrCat("tensor ", scales.name, " has type ", scales.type_name,
                                          " and ", count, " values, expected floats"));
  }
  const codec::WeightView view{*scales.type, 1, count, scales.data, {}};
  HONE_TRY(codec::CheckView(view).Context(StrCat("tensor ", scales.name)));
  std::vector<float> values(static_cast<std::size_t>(count));
  codec::DecodeRows(view, 0, 1, values.data());

  const std::int64_t rows = weight.shape[0], cols = weight.shape[1];
  *weight_block = 0;
  if (count == 1) return std::vector<float>(static_cast<std::size_t>(rows), values[0]);
  if (block == 0 && count == rows) return values;
  const std::int64_t across = block == 0 ? 0 : (cols + block - 1) / block;
  const std::int64_t down = block == 0 ? 0 : (rows + block - 1) / block;
  if (block == 0 || scales.shape != std::vector<std::int64_t>{down, across}) {
    return Status(Code::kDataLoss,
                  StrCat("tensor ", scales.name, " has ", count, " values, expected 1, ",
                         block == 0 ? StrCat(rows, " (one for each row)")
                                    : StrCat("[", down, ", ", across, "] (one for each square of ",
                                             block, ")")));
  }
  *weight_block = block;
  return values;
}

}  // namespace

bool IsReadableFp8(const Json& quantization_config) {
  const auto is = [&](std::string_view key, std::string_view value) {
    const Json* json = quantization_config.FindNonNull(key);
    return json != nullptr && json->IsString() && json->AsString() == value;
  };
  return is("quant_method", "fp8") || is("quant_method", "fbgemm_fp8") ||
         (is("quant_method", "compressed-tensors") && is("format", "float-quantized"));
}

Status JoinFp8(const Json& quantization_config, std::vector<SourceTensor>* tensors,
               std::vector<std::shared_ptr<const void>>* keep_alive) {
  HONE_ASSIGN(const int block, BlockSize(quantization_config));
  std::set<std::string> joined;
  for (SourceTensor& tensor : *tensors) {
    if (tensor.type_name != "F8_E4M3") continue;
    if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1) {
      return Status(Code::kDataLoss,
                    StrCat("tensor ", tensor.name, " has type F8_E4M3 but is no matrix"));
    }
    const SourceTensor* scales = Find(*tensors, tensor.name + "_scale_inv");
    if (scales == nullptr) scales = Find(*tensors, tensor.name + "_scale");
    if (scales == nullptr) {
      return Status(Code::kDataLoss,
                    StrCat("tensor ", tensor.name, " has type F8_E4M3, but there is no ",
                           tensor.name, "_scale or _scale_inv"));
    }
    int weight_block = 0;
    HONE_ASSIGN(std::vector<float> values, ReadScales(tensor, *scales, block, &weight_block));
    const auto owned = std::make_shared<const std::vector<float>>(std::move(values));
    tensor.type = codec::WeightType{codec::Coding::kF8E4M3, weight_block};
    tensor.scales = std::as_bytes(std::span<const float>(*owned));
    keep_alive->push_back(owned);
    joined.insert(scales->name);
  }
  std::erase_if(*tensors, [&](const SourceTensor& tensor) { return joined.contains(tensor.name); });
  return {};
}

}  // namespace hone::model
