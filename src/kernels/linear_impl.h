// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The inside of a Linear: what linear.cc packs and linear_run.cc runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/aligned_buffer.h"
#include "kernels/gemm_f32/gemm_f32.h"
#include "kernels/gemm_int4/gemm_int4.h"
#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/linear.h"

namespace hone::kernels {

// What a weight becomes.
enum class Packing : std::uint8_t {
  kFloat,         // as stored
  kDecodedFloat,  // decoded to float32
  kInt8,          // as stored
  kRoundedInt8,   // decoded, then int8 a row
  kInt4,          // as stored
  kInt4FromQ4_0,  // codes reordered
};

// Buffers of one packing task.
struct PackScratch {
  std::vector<float> rows;
  std::vector<std::byte> codes, scales;
};

// Rows first .. first + count of x, and where their outputs of the first panel begin.
struct RowRange {
  std::int64_t first = 0, count = 0;
  float* y = nullptr;
  std::int64_t y_stride = 0;
};

struct Linear::Impl {
  Packing packing = Packing::kFloat;
  std::int64_t n = 0, k = 0, block = 0, panel_bytes = 0;
  AlignedBuffer panels;
  const gemm_f32::Kernel* float_kernel = nullptr;
  const gemm_int8::Kernel* int8_kernel = nullptr;
  const gemm_int4::Kernel* int4_kernel = nullptr;

  void ChooseKernel(const codec::WeightView& w);
  void PackRows(const codec::WeightView& w, std::int64_t first, std::int64_t rows,
                PackScratch& scratch, std::byte* panel) const;
  // Panels [first_panel, end_panel) of the rows. bias is that of the whole matrix, or null.
  void RunPanels(const PreparedRows& x, const RowRange& rows, const float* bias,
                 std::int64_t first_panel, std::int64_t end_panel) const;

 private:
  void RunFloat(const PreparedRows& x, const RowRange& rows, const float* bias,
                std::int64_t first_panel, std::int64_t end_panel) const;
  void RunInt(const PreparedRows& x, const RowRange& rows, const float* bias,
              std::int64_t first_panel, std::int64_t end_panel) const;
};

}  // namespace hone::kernels
