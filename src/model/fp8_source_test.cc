// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/fp8_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/float16.h"
#include "formats/safetensors/safetensors.h"
#include "model/reference_forward.h"
#include "model/test_util.h"

namespace hone::model {
namespace {

struct Stored {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Stored>;

std::string FloatBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), 4 * values.size()};
}

void WriteSafetensors(const Tensors& tensors, const TestFolder& folder) {
  Json header(Json::Object{});
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    Json::Array shape;
    for (const std::int64_t size : tensor.shape) shape.emplace_back(size);
    const auto begin = static_cast<std::int64_t>(data.size());
    data += tensor.bytes;
    header.Set(name,
               Json::Object{{"dtype", tensor.dtype},
                            {"shape", Json(shape)},
                            {"data_offsets",
                             Json(Json::Array{begin, static_cast<std::int64_t>(data.size())})}});
  }
  const std::string text = header.Dump();
  std::string file(8, '\0');
  const std::uint64_t size = text.size();
  std::memcpy(file.data(), &size, 8);
  folder.Write("model.safetensors", file + text + data);
}

// A copy of a tiny checkpoint, whose linears become FP8 in one folder and, with the same values,
// float32 in another.
class Fp8 : public EditedCheckpoint {
 protected:
  // The scales' number: 1, one for each row, or one for each square of block.
  void StartFp8(const std::string& family, int block, bool per_row, const std::string& suffix) {
    const std::string source = HONE_TESTDATA "/families/" + family;
    Start(source);
    plain_.CopyFrom(source);
    auto files = formats::OpenSafetensors(source);
    ASSERT_TRUE(files.ok()) << files.message();
    Tensors plain;
    std::uint32_t seed = 1;
    for (const formats::SafetensorsTensor& tensor : files->tensors) {
      Stored stored{formats::DtypeName(tensor.dtype),
                    tensor.shape,
                    {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()}};
      if (tensor.name.find("_proj.weight") == std::string::npos) {
        plain[tensor.name] = fp8_[tensor.name] = stored;
        continue;
      }
      const std::int64_t rows = tensor.shape[0], cols = tensor.shape[1];
      const std::int64_t down = block != 0 ? (rows + block - 1) / block : per_row ? rows : 1;
      const std::int64_t across = block != 0 ? (cols + block - 1) / block : 1;
      std::vector<float> scales(static_cast<std::size_t>(down * across));
      for (float& scale : scales) {
        seed = seed * 1664525U + 1013904223U;
        scale = 0.001f * static_cast<float>(1 + (seed >> 28));
      }
      std::string codes;
      std::vector<float> values;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          seed = seed * 1664525U + 1013904223U;
          const auto code = static_cast<std::uint8_t>((seed >> 24) & 0xdfU);  // small, never NaN
          const std::int64_t at = block != 0 ? r / block * across + c / block : per_row ? r : 0;
          codes.push_back(static_cast<char>(code));
          values.push_back(scales[static_cast<std::size_t>(at)] * Fp8E4M3ToFloat(code));
        }
      }
      plain[tensor.name] = {"F32", tensor.shape, FloatBytes(values)};
      fp8_[tensor.name] = {"F8_E4M3", tensor.shape, codes};
      fp8_[tensor.name + suffix] = {"F32",
                                    down * across == 1 ? std::vector<std::int64_t>{}
                                                       : std::vector<std::int64_t>{down, across},
                                    FloatBytes(scales)};
    }
    WriteSafetensors(plain, plain_);
    WriteSafetensors(fp8_, *folder_);
    Json::Object quantization{{"quant_method", "fp8"}};
    if (block != 0) {
      quantization.emplace_back("weight_block_size", Json(Json::Array{block, block}));
    }
    config_.Set("quantization_config", Json(quantization));
  }

  void ExpectSameLogits() {
    auto fp8 = Open();
    ASSERT_TRUE(fp8.ok()) << fp8.message();
    auto plain = OpenCheckpoint(plain_.path());
    ASSERT_TRUE(plain.ok()) << plain.message();
    EXPECT_EQ(fp8->warnings, plain->warnings);
    const std::vector<std::int32_t> ids = {1, 5, 9, 30};
    auto got = ReferenceLogits(fp8->model, ids);
    auto want = ReferenceLogits(plain->model, ids);
    ASSERT_TRUE(got.ok() && want.ok());
    EXPECT_EQ(*got, *want);
    EXPECT_TRUE(CheckFinite(fp8->model.layers[0].q).ok());
  }

  Tensors fp8_;
  TestFolder plain_;
};

TEST_F(Fp8, BlocksGiveTheLogitsOfTheirValues) {
  StartFp8("llama-linear", 32, false, "_scale_inv");
  ExpectSameLogits();
}

TEST_F(Fp8, OneScaleForAllIsReadToo) {
  StartFp8("llama-linear", 0, false, "_scale_inv");
  ExpectSameLogits();
}

TEST_F(Fp8, OneScaleForEachRowIsReadToo) {
  StartFp8("llama-linear", 0, true, "_scale");
  ExpectSameLogits();
}

TEST_F(Fp8, FusedProjectionsTakeTheirOwnScales) {
  StartFp8("phi3-window", 0, true, "_scale");
  ExpectSameLogits();
}

TEST_F(Fp8, MissingAndWrongScalesAreNamed) {
  StartFp8("llama-linear", 32, false, "_scale_inv");
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const Stored scales = fp8_[name + "_scale_inv"];
  fp8_.erase(name + "_scale_inv");
  WriteSafetensors(fp8_, *folder_);
  ExpectRefused(name + " has type F8_E4M3, but there is no");
  fp8_[name + "_scale_inv"] = {"F32", {2}, std::string(8, '\x3f')};
  WriteSafetensors(fp8_, *folder_);
  ExpectRefused(name + "_scale_inv has 2 values");
  fp8_[name + "_scale_inv"] = scales;
  WriteSafetensors(fp8_, *folder_);
  config_.Set("quantization_config",
              Json::Object{{"quant_method", "fp8"}, {"weight_block_size", Json::Array{128, 64}}});
  ExpectRefused("weight_block_size");
}

TEST_F(Fp8, AScaleWhoseValuesOverflowIsFound) {
  StartFp8("llama-linear", 0, true, "_scale");
  const float huge = 3e38f;
  Stored& scales = fp8_["model.layers.0.mlp.down_proj.weight_scale"];
  std::memcpy(scales.bytes.data(), &huge, sizeof huge);
  WriteSafetensors(fp8_, *folder_);
  auto got = Open();
  const Status status = got.ok() ? CheckFinite(got->model.layers[0].down) : std::move(got).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("scale 0"), std::string_view::npos) << status.message();
}

TEST_F(Fp8, NaNIsFound) {
  StartFp8("llama-linear", 0, true, "_scale");
  Stored& down = fp8_["model.layers.0.mlp.down_proj.weight"];
  down.bytes[7] = '\x7f';
  WriteSafetensors(fp8_, *folder_);
  auto got = Open();
  ASSERT_TRUE(got.ok()) << got.message();
  const Status status = CheckFinite(got->model.layers[0].down);
  EXPECT_NE(status.message().find("row 0, column 7"), std::string_view::npos) << status.message();
}

}  // namespace
}  // namespace hone::model
