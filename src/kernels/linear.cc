// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/linear_impl.h"

namespace hone::kernels {

using codec::Coding;
using codec::WeightView;

namespace {

Result<Packing> ChoosePacking(const WeightView& w, Compute compute) {
  const Coding coding = w.type.coding;
  const bool is_float = coding == Coding::kF32 || coding == Coding::kF16 || coding == Coding::kBf16;
  if (compute == Compute::kF32) return is_float ? Packing::kFloat : Packing::kDecodedFloat;
  if (w.cols > gemm_int8::kMaxDepth) {
    return Status(Code::kUnsupported, StrCat("8-bit compute takes up to ", gemm_int8::kMaxDepth,
                                             " columns, the weight has ", w.cols));
  }
  if (coding == Coding::kInt8 && w.type.block == 0) return Packing::kInt8;
  if (coding == Coding::kInt4) {
    if (gemm_int4::TakesBlock(w.type.block, w.cols)) return Packing::kInt4;
    return Status(Code::kUnsupported,
                  StrCat("8-bit compute takes int4 with one scale a row or blocks of a multiple of "
                         "32, the weight has blocks of ",
                         w.type.block));
  }
  return coding == Coding::kGgufQ4_0 ? Packing::kInt4FromQ4_0 : Packing::kRoundedInt8;
}

gemm_f32::WeightKind FloatKind(Coding coding) {
  if (coding == Coding::kF16) return gemm_f32::WeightKind::kF16;
  if (coding == Coding::kBf16) return gemm_f32::WeightKind::kBf16;
  return gemm_f32::WeightKind::kF32;
}

// Rows of a q4_0 matrix as int4 codes and fp16 scales in canonical order.
void UnpackQ4_0(const std::byte* groups, std::int64_t rows, std::int64_t k, PackScratch& scratch) {
  const std::int64_t blocks = k / 32;
  scratch.codes.resize(static_cast<std::size_t>(rows * k / 2));
  scratch.scales.resize(static_cast<std::size_t>(rows * blocks * 2));
  for (std::int64_t b = 0; b < rows * blocks; ++b) {
    const std::byte* group = groups + b * 18;
    std::memcpy(scratch.scales.data() + b * 2, group, 2);
    const auto code = [&](int i) {
      const auto pair = static_cast<unsigned>(group[2 + i % 16]);
      return (i < 16 ? pair & 15U : pair >> 4) ^ 8U;  // offset 8 to two's complement
    };
    for (int i = 0; i < 32; i += 2) {
      scratch.codes[static_cast<std::size_t>(b * 16 + i / 2)] =
          static_cast<std::byte>(code(i) | (code(i + 1) << 4));
    }
  }
}

// Min-max int8 a row.
void RoundToInt8(std::int64_t rows, std::int64_t k, PackScratch& scratch, float* scales) {
  scratch.codes.resize(static_cast<std::size_t>(rows * k));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = scratch.rows.data() + r * k;
    float most = 0;
    for (std::int64_t j = 0; j < k; ++j) most = std::max(most, std::fabs(row[j]));
    const float scale = most > 0 ? most / 127.0f : 1.0f;
    scales[r] = scale;
    codec::EncodeRowInt({Coding::kInt8, 0}, {row, static_cast<std::size_t>(k)}, {&scale, 1},
                        scratch.codes.data() + r * k);
  }
}

}  // namespace

void Linear::Impl::ChooseKernel(const WeightView& w) {
  switch (packing) {
    case Packing::kFloat:
    case Packing::kDecodedFloat:
      float_kernel = &gemm_f32::Find(packing == Packing::kFloat ? FloatKind(w.type.coding)
                                                                : gemm_f32::WeightKind::kF32);
      panel_bytes = gemm_f32::PanelBytes(float_kernel->weight, k);
      return;
    case Packing::kInt8:
    case Packing::kRoundedInt8:
      int8_kernel = &gemm_int8::Find();
      panel_bytes = gemm_int8::PanelBytes(k);
      return;
    case Packing::kInt4:
    case Packing::kInt4FromQ4_0:
      int4_kernel = &gemm_int4::Find();
      block = packing == Packing::kInt4 ? w.type.block : 32;
      panel_bytes = gemm_int4::PanelBytes(k, block);
      return;
  }
}

void Linear::Impl::PackRows(const WeightView& w, std::int64_t first, std::int64_t rows,
                            PackScratch& scratch, std::byte* panel) const {
  const std::byte* codes = w.codes.data();
  const std::byte* scales = w.scales.data();
  if (packing == Packing::kDecodedFloat || packing == Packing::kRoundedInt8) {
    scratch.rows.resize(static_cast<std::size_t>(kPanelRows * k));
    codec::DecodeRows(w, first, rows, scratch.rows.data());
  }
  float row_scales[kPanelRows] = {};
  switch (packing) {
    case Packing::kFloat:
      gemm_f32::PackPanel(float_kernel->weight,
                          codes + first * k * gemm_f32::WeightBytes(float_kernel->weight), rows, k,
                          panel);
      return;
    case Packing::kDecodedFloat:
      gemm_f32::PackPanel(float_kernel->weight,
                          reinterpret_cast<const std::byte*>(scratch.rows.data()), rows, k, panel);
      return;
    case Packing::kInt8:
      std::memcpy(row_scales, scales + first * 4, static_cast<std::size_t>(rows) * 4);
      gemm_int8::PackPanel(*int8_kernel, reinterpret_cast<const std::int8_t*>(codes + first * k),
                           row_scales, rows, k, panel);
      return;
    case Packing::kRoundedInt8:
      RoundToInt8(rows, k, scratch, row_scales);
      gemm_int8::PackPanel(*int8_kernel, reinterpret_cast<const std::int8_t*>(scratch.codes.data()),
                           row_scales, rows, k, panel);
      return;
    case Packing::kInt4: {
      const std::int64_t scale_bytes = block == 0 ? 4 : k / block * 2;
      gemm_int4::PackPanel(codes + first * k / 2, scales + first * scale_bytes, rows, k, block,
                           panel);
      return;
    }
    case Packing::kInt4FromQ4_0:
      UnpackQ4_0(codes + first * (k / 32) * 18, rows, k, scratch);
      gemm_int4::PackPanel(scratch.codes.data(), scratch.scales.data(), rows, k, block, panel);
      return;
  }
}

Linear::Linear(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Linear::Linear(Linear&&) noexcept = default;
Linear& Linear::operator=(Linear&&) noexcept = default;
Linear::~Linear() = default;

Result<Linear> Linear::Pack(const WeightView& w, Compute compute, ThreadPool& pool,
                            PackArena* arena) {
  HONE_TRY(codec::CheckView(w));
  auto impl = std::make_unique<Impl>();
  HONE_ASSIGN(impl->packing, ChoosePacking(w, compute));
  impl->n = w.rows;
  impl->k = w.cols;
  impl->ChooseKernel(w);
  const std::int64_t panels = NumPanels(w.rows);
  const auto bytes =
      MulChecked(static_cast<std::uint64_t>(panels), static_cast<std::uint64_t>(impl->panel_bytes));
  if (bytes) {
    const std::uint64_t size = std::max<std::uint64_t>(*bytes, 1);
    impl->panels = arena != nullptr ? arena->Allocate(size) : AllocateAligned(size);
  }
  if (impl->panels == nullptr) {
    return Status(Code::kOutOfMemory,
                  StrCat("packing a weight of ", w.rows, " x ", w.cols, " needs ",
                         bytes ? *bytes : 0, " bytes, which the system refuses"));
  }
  pool.For(panels, 1, [&](std::int64_t begin, std::int64_t end) {
    PackScratch scratch;
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t first = p * kPanelRows;
      impl->PackRows(w, first, std::min(kPanelRows, w.rows - first), scratch,
                     impl->panels.get() + p * impl->panel_bytes);
    }
  });
  return Linear(std::move(impl));
}

std::int64_t Linear::n() const { return impl_->n; }
std::int64_t Linear::k() const { return impl_->k; }

InputKind Linear::input_kind() const {
  return impl_->float_kernel != nullptr ? InputKind::kPlain : InputKind::kRowQ8;
}

const char* Linear::kernel_name() const {
  if (impl_->float_kernel != nullptr) return impl_->float_kernel->name;
  return impl_->int8_kernel != nullptr ? impl_->int8_kernel->name : impl_->int4_kernel->name;
}

std::uint64_t Linear::packed_bytes() const {
  return static_cast<std::uint64_t>(NumPanels(impl_->n) * impl_->panel_bytes);
}

}  // namespace hone::kernels
