// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "quant/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/float16.h"
#include "quant/octav.h"

namespace hone::quant {
namespace {

using codec::Coding;

// An all-zero row gets the scale that a row with this maximum would get.
constexpr float kSmallestChannelBound = 1e-9f;
constexpr float kSmallestBlockScale = 0x1p-14f;  // the smallest normal fp16
constexpr float kLargestBlockScale = 65280.0f;   // the largest bf16 that fp16 holds

float MaxCode(Coding coding) { return coding == Coding::kInt8 ? 127.0f : 7.0f; }

float MaxAbs(std::span<const float> x) {
  // Magnitudes order as their bits do, and integers vectorize without leave to reorder floats.
  std::int32_t max = 0;
  for (float v : x) max = std::max(max, std::bit_cast<std::int32_t>(v) & 0x7fffffff);
  return std::bit_cast<float>(max);
}

// The scale of values whose clip is known; without one nothing is clipped.
float ChooseScale(const Scheme& scheme, std::span<const float> x, std::optional<float> clip) {
  const float max = MaxAbs(x);
  const float bound = clip ? std::min(max, *clip) : max;
  const float max_code = MaxCode(scheme.type.coding);
  if (scheme.type.block == 0) return std::max(bound, kSmallestChannelBound) / max_code;
  const float rounded = Bf16ToFloat(FloatToBf16(bound / max_code));
  const float stored =
      Fp16ToFloat(FloatToFp16(std::clamp(rounded, kSmallestBlockScale, kLargestBlockScale)));
  HONE_DCHECK(std::isnormal(stored));
  return stored;
}

// As ChooseScales, into out.
void FillScales(const Scheme& scheme, std::span<const float> row, std::span<float> out) {
  const std::size_t block = row.size() / out.size();
  const bool clipped = scheme.algorithm == Algorithm::kOctav;
  if (clipped) OctavClips(row, block, codec::Facts(scheme.type.coding).bits, out);
  for (std::size_t b = 0; b < out.size(); ++b) {
    out[b] = ChooseScale(scheme, row.subspan(b * block, block),
                         clipped ? std::optional(out[b]) : std::nullopt);
  }
}

std::size_t ScalesPerRow(const codec::WeightType& type, std::size_t cols) {
  return type.block == 0 ? 1 : cols / static_cast<std::size_t>(type.block);
}

void StoreScales(std::span<const float> scales, bool as_half, std::byte* out) {
  if (!as_half) {
    std::memcpy(out, scales.data(), scales.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::uint16_t half = FloatToFp16(scales[i]);
    std::memcpy(out + 2 * i, &half, 2);
  }
}

bool IsFinite(float v) { return (std::bit_cast<std::uint32_t>(v) & 0x7f800000U) != 0x7f800000U; }

struct NonFinite {
  std::int64_t count = 0;
  std::int64_t first = 0;
};

// Whether a block holds values that its largest scale cannot reach.
bool IsTooLarge(const Scheme& scheme, std::span<const float> block, float scale) {
  return scale >= kLargestBlockScale &&
         MaxAbs(block) > kLargestBlockScale * MaxCode(scheme.type.coding);
}

NonFinite FindNonFinite(std::span<const float> row) {
  std::int64_t count = 0;
  for (float v : row) count += IsFinite(v) ? 0 : 1;
  if (count == 0) return {};
  const auto first = std::find_if_not(row.begin(), row.end(), IsFinite);
  return {count, first - row.begin()};
}

// Makes a row quantizable: NaN becomes 0, an infinity the largest finite magnitude of the row.
void ReplaceNonFinite(std::span<float> row) {
  float max = 0.0f;
  for (float v : row) max = IsFinite(v) ? std::max(max, std::fabs(v)) : max;
  for (float& v : row) {
    if (!IsFinite(v)) v = std::isnan(v) ? 0.0f : std::copysign(max, v);
  }
}

// Quantizes rows of one weight into its buffer; Rows may run in several threads at once.
class Worker {
 public:
  // out receives rows from first_row on.
  Worker(const model::Weight& weight, const Scheme& scheme, std::int64_t first_row,
         codec::WeightBuffer* out)
      : weight_(weight),
        scheme_(scheme),
        first_row_(first_row),
        out_(out),
        cols_(static_cast<std::size_t>(out->cols)),
        row_bytes_(out->codes.size() / static_cast<std::size_t>(out->rows)),
        row_scales_(ScalesPerRow(scheme.type, cols_)) {}

  // Rows [begin, end) of out.
  void Rows(std::int64_t begin, std::int64_t end) {
    std::vector<float> row(cols_);
    std::vector<float> scales(row_scales_);
    NonFinite found;
    std::int64_t too_large = -1;
    for (std::int64_t r = begin; r < end; ++r) {
      model::ReadRows(weight_, first_row_ + r, 1, row.data());
      const NonFinite in_row = FindNonFinite(row);
      if (in_row.count != 0) {
        if (found.count == 0) found.first = (first_row_ + r) * out_->cols + in_row.first;
        found.count += in_row.count;
      }
      Encode(static_cast<std::size_t>(r), row, in_row.count != 0, scales);
      const auto block = static_cast<std::size_t>(scheme_.type.block);
      for (std::size_t b = 0; block != 0 && too_large < 0 && b < row_scales_; ++b) {
        const std::span<const float> values(row.data() + b * block, block);
        if (IsTooLarge(scheme_, values, scales[b])) {
          too_large = (first_row_ + r) * out_->cols + static_cast<std::int64_t>(b * block);
        }
      }
    }
    if (found.count == 0 && too_large < 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (found.count != 0 && (total_.count == 0 || found.first < total_.first)) {
      total_.first = found.first;
    }
    total_.count += found.count;
    if (too_large >= 0 && (too_large_ < 0 || too_large < too_large_)) too_large_ = too_large;
  }

  const NonFinite& non_finite() const { return total_; }
  // Index where the first block begins whose values no scale can reach; -1: there is none.
  std::int64_t too_large() const { return too_large_; }

 private:
  void Encode(std::size_t r, std::span<float> row, bool non_finite, std::span<float> scales) {
    std::byte* codes = out_->codes.data() + r * row_bytes_;
    if (scheme_.type.coding == Coding::kF32) {
      std::memcpy(codes, row.data(), row.size_bytes());
      return;
    }
    if (non_finite) ReplaceNonFinite(row);
    FillScales(scheme_, row, scales);
    codec::EncodeRowInt(scheme_.type, row, scales, codes);
    const bool as_half = scheme_.type.block != 0;
    const std::size_t scale_bytes = row_scales_ * (as_half ? 2 : 4);
    StoreScales(scales, as_half, out_->scales.data() + r * scale_bytes);
  }

  const model::Weight& weight_;
  const Scheme& scheme_;
  std::int64_t first_row_;
  codec::WeightBuffer* out_;
  std::size_t cols_;
  std::size_t row_bytes_;
  std::size_t row_scales_;
  std::mutex mutex_;
  NonFinite total_;
  std::int64_t too_large_ = -1;
};

Status CheckScheme(const Scheme& scheme) {
  const codec::WeightType& type = scheme.type;
  const bool known =
      (type.coding == Coding::kF32 && type.block == 0) ||
      (type.coding == Coding::kInt8 && type.block == 0) ||
      (type.coding == Coding::kInt4 && (type.block == 0 || type.block == 32 || type.block == 64 ||
                                        type.block == 128 || type.block == 256));
  if (known) return {};
  return Status(Code::kUnsupported, StrCat("cannot quantize to ", codec::TypeName(type),
                                           ", only to f32, int8, and int4 in blocks of 32, 64, 128 "
                                           "or 256, or with a scale for each row"));
}

}  // namespace

std::string SchemeName(const Scheme& scheme) {
  const std::string type = codec::TypeName(scheme.type);
  if (scheme.type.coding == Coding::kF32) return type;
  return type + (scheme.algorithm == Algorithm::kOctav ? " octav" : " min-max");
}

std::vector<float> ChooseScales(const Scheme& scheme, std::span<const float> row) {
  HONE_CHECK(scheme.type.coding == Coding::kInt8 || scheme.type.coding == Coding::kInt4);
  std::vector<float> scales(ScalesPerRow(scheme.type, row.size()));
  FillScales(scheme, row, scales);
  return scales;
}

Result<codec::WeightBuffer> QuantizeWeight(const model::Weight& weight, const Scheme& scheme,
                                           ThreadPool& pool, bool allow_nonfinite) {
  return QuantizeRows(weight, scheme, 0, weight.view.rows, pool, allow_nonfinite);
}

Result<codec::WeightBuffer> QuantizeRows(const model::Weight& weight, const Scheme& scheme,
                                         std::int64_t row_begin, std::int64_t num_rows,
                                         ThreadPool& pool, bool allow_nonfinite) {
  if (auto status = CheckScheme(scheme); !status.ok()) {
    return std::move(status).Context(weight.name);
  }
  HONE_CHECK(row_begin >= 0 && num_rows >= 0 && row_begin <= weight.view.rows - num_rows);
  const std::int64_t rows = num_rows;
  const std::int64_t cols = weight.view.cols;
  if (auto status = codec::CheckShape(scheme.type, rows, cols); !status.ok()) {
    return std::move(status).Context(weight.name);
  }
  codec::WeightBuffer out{scheme.type, rows, cols, {}, {}};
  out.codes.resize(codec::CodesBytes(scheme.type, rows, cols));
  out.scales.resize(codec::ScalesBytes(scheme.type, rows, cols));

  Worker worker(weight, scheme, row_begin, &out);
  constexpr std::int64_t kValuesPerTask = 1 << 16;
  const std::int64_t grain = std::max<std::int64_t>(1, kValuesPerTask / cols);
  pool.For(rows, grain, [&](std::int64_t begin, std::int64_t end) { worker.Rows(begin, end); });

  const NonFinite& bad = worker.non_finite();
  if (bad.count != 0 && !allow_nonfinite) {
    return Status(Code::kDataLoss,
                  StrCat(weight.name, ": ", bad.count, bad.count == 1 ? " value is" : " values are",
                         " NaN or Inf, the first at index ", bad.first, " (row ", bad.first / cols,
                         ", column ", bad.first % cols,
                         "); the checkpoint is damaged, or convert with --allow-nonfinite"));
  }
  if (const std::int64_t at = worker.too_large(); at >= 0) {
    return Status(
        Code::kDataLoss,
        StrCat(weight.name, ": the block at row ", at / cols, ", column ", at % cols,
               " holds values over ",
               static_cast<std::int64_t>(kLargestBlockScale * MaxCode(scheme.type.coding)),
               ", which ", codec::TypeName(scheme.type),
               " cannot store; the checkpoint is damaged, or store this tensor as int8"));
  }
  return out;
}

}  // namespace hone::quant
