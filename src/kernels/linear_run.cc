// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/check.h"
#include "kernels/activation/activation.h"
#include "kernels/linear_impl.h"
#include "kernels/parts.h"

namespace hone::kernels {
namespace {

// Rows of x that pass over a panel before the next panel: they must stay in the second-level cache.
// Multiples of every register tile.
constexpr std::int64_t kFloatRowsPerPass = 48;
constexpr std::int64_t kIntPassBytes = std::int64_t{1} << 20;
constexpr std::int64_t kIntRowsStep = 24;
constexpr std::int64_t kMostIntRows = 504;

// Passes of about equal height.
std::int64_t IntRowsPerPass(std::int64_t m, std::int64_t row_bytes) {
  const std::int64_t most = std::clamp(kIntPassBytes / row_bytes, kIntRowsStep, kMostIntRows);
  const std::int64_t rows = CeilDiv(m, CeilDiv(m, most));
  return CeilDiv(rows, kIntRowsStep) * kIntRowsStep;
}

// A tile of gate and up that stays in cache until the activation reads it.
constexpr std::int64_t kFewRows = 16;
constexpr std::int64_t kTileRows = 264;
constexpr std::int64_t kTileCols = kPair * kPanelRows;

// The least bytes of a part: a pair of panels, and about 3 us of a thread.
std::int64_t LeastBytes(std::int64_t panel_bytes, std::int64_t rows) {
  constexpr std::int64_t kOneRow = 32 * 1024;
  return std::max(kPair * panel_bytes, kOneRow / std::max<std::int64_t>(1, rows));
}

using MulFn = void (*)(const float* gate, const float* up, std::int64_t n, float* y) noexcept;

MulFn FindMul(GateActivation activation) {
  static const activation::Kernel& kernel = activation::Find();  // asking the processor is slow
  switch (activation) {
    case GateActivation::kGeluTanh:
      return kernel.gelu_tanh_mul;
    case GateActivation::kGelu:
      return kernel.gelu_erf_mul;
    case GateActivation::kSilu:
      break;
  }
  return kernel.silu_mul;
}

void CheckInput(const LinearCall& call) {
  HONE_CHECK(call.x->kind() == call.linear->input_kind() && call.x->k() == call.linear->k());
}

}  // namespace

void Linear::Impl::RunFloat(const PreparedRows& x, const RowRange& rows, const float* bias,
                            std::int64_t first_panel, std::int64_t end_panel) const {
  const std::int64_t row = first_panel * kPanelRows;
  gemm_f32::Args args;
  args.w = panels.get() + first_panel * panel_bytes;
  args.bias = bias == nullptr ? nullptr : bias + row;
  args.n = std::min(n, end_panel * kPanelRows) - row;
  args.k = k;
  args.y_stride = rows.y_stride;
  for (std::int64_t i = 0; i < rows.count; i += kFloatRowsPerPass) {
    args.m = std::min(kFloatRowsPerPass, rows.count - i);
    args.x = x.plain() + (rows.first + i) * k;
    args.y = rows.y + i * rows.y_stride;
    float_kernel->fn(args);
  }
}

void Linear::Impl::RunInt(const PreparedRows& x, const RowRange& rows, const float* bias,
                          std::int64_t first_panel, std::int64_t end_panel) const {
  const std::int64_t row = first_panel * kPanelRows;
  IntGemmArgs args;
  args.x_stride = x.q8_stride();
  args.offsets_stride = x.q8_stride() / kSumBlock;
  args.w = panels.get() + first_panel * panel_bytes;
  args.panel_bytes = panel_bytes;
  args.bias = bias == nullptr ? nullptr : bias + row;
  args.n = std::min(n, end_panel * kPanelRows) - row;
  args.k = k;
  args.y_stride = rows.y_stride;
  args.block = block;
  const IntGemmFn fn = int8_kernel != nullptr ? int8_kernel->fn : int4_kernel->fn;
  const std::int64_t rows_per_pass = IntRowsPerPass(rows.count, args.x_stride);
  const std::int64_t end = rows.first + rows.count;
  for (std::int64_t i = rows.first; i < end; i += rows_per_pass) {
    args.m = std::min(rows_per_pass, end - i);
    args.x = x.q8() + i * args.x_stride;
    if (x.q8_offset() != nullptr) args.x_offset = x.q8_offset() + i * args.x_stride;
    args.x_scale = x.scale() + i;
    args.x_zero = x.zero_point() + i;
    args.x_sum = x.row_sum() + i;
    if (x.block_offsets() != nullptr) {
      args.x_block_offsets = x.block_offsets() + i * args.offsets_stride;
    }
    args.y = rows.y + (i - rows.first) * rows.y_stride;
    fn(args);
  }
}

void Linear::Impl::RunPanels(const PreparedRows& x, const RowRange& rows, const float* bias,
                             std::int64_t first_panel, std::int64_t end_panel) const {
  if (first_panel >= end_panel || rows.count == 0) return;
  if (float_kernel != nullptr) {
    RunFloat(x, rows, bias, first_panel, end_panel);
  } else {
    RunInt(x, rows, bias, first_panel, end_panel);
  }
}

void Linear::Run(const PreparedRows& x, const float* bias, float* y, ThreadPool& pool) const {
  const LinearCall call{this, &x, bias, y};
  RunLinears({&call, 1}, pool);
}

void RunLinears(std::span<const LinearCall> calls, ThreadPool& pool) {
  std::int64_t bytes = 0, least = 1;
  for (const LinearCall& call : calls) {
    CheckInput(call);
    bytes += static_cast<std::int64_t>(call.linear->packed_bytes());
    least = std::max(least, LeastBytes(call.linear->impl_->panel_bytes, call.x->m()));
  }
  const Parts parts(bytes, least, pool.num_threads());
  pool.Run(parts.count(), [&](int part) {
    std::int64_t first = 0;
    for (const LinearCall& call : calls) {
      const Linear::Impl& linear = *call.linear->impl_;
      const std::int64_t panels = NumPanels(linear.n);
      const std::int64_t begin = PanelAt(parts.begin(part), first, panels, linear.panel_bytes);
      linear.RunPanels(*call.x, {0, call.x->m(), call.y + begin * kPanelRows, linear.n}, call.bias,
                       begin, PanelAt(parts.end(part), first, panels, linear.panel_bytes));
      first += panels * linear.panel_bytes;
    }
  });
}

void RunGated(const LinearCall& gate, const LinearCall& up, GateActivation activation,
              ThreadPool& pool) {
  CheckInput(gate);
  CheckInput(up);
  const Linear::Impl& g = *gate.linear->impl_;
  const Linear::Impl& u = *up.linear->impl_;
  const std::int64_t n = g.n, m = gate.x->m();
  HONE_CHECK(u.n == n && up.x->m() == m);
  const MulFn mul = FindMul(activation);
  const std::int64_t panels = NumPanels(n), pair_bytes = g.panel_bytes + u.panel_bytes;
  const Parts parts(panels * pair_bytes, LeastBytes(pair_bytes, m), pool.num_threads());
  pool.Run(parts.count(), [&](int part) {
    const std::int64_t begin = PanelAt(parts.begin(part), 0, panels, pair_bytes);
    const std::int64_t end = PanelAt(parts.end(part), 0, panels, pair_bytes);
    if (m > kFewRows) {
      for (std::int64_t p = begin; p < end; p += kPair) {
        const std::int64_t stop = std::min(end, p + kPair), col = p * kPanelRows;
        const std::int64_t cols = std::min(n, stop * kPanelRows) - col;
        for (std::int64_t i = 0; i < m; i += kTileRows) {
          // Packed together: columns of y are a large power of two apart and fall on few sets of
          // the cache. A thread's stack may be small, so only one of the two lies there; the other
          // begins this part's share of up.y, the m rows of its columns.
          alignas(64) float gates[kTileRows * kTileCols];
          float* const ups = up.y + begin * kPanelRows * m;
          const std::int64_t rows = std::min(kTileRows, m - i);
          g.RunPanels(*gate.x, {i, rows, gates, kTileCols}, gate.bias, p, stop);
          u.RunPanels(*up.x, {i, rows, ups, cols}, up.bias, p, stop);
          for (std::int64_t r = 0; r < rows; ++r) {
            mul(gates + r * kTileCols, ups + r * cols, cols, gate.y + (i + r) * n + col);
          }
        }
      }
      return;
    }
    const std::int64_t col = begin * kPanelRows;
    const std::int64_t cols = std::min(n, end * kPanelRows) - col;
    g.RunPanels(*gate.x, {0, m, gate.y + col, n}, gate.bias, begin, end);
    u.RunPanels(*up.x, {0, m, up.y + col, n}, up.bias, begin, end);
    for (std::int64_t i = 0; i < m && cols > 0; ++i) {
      float* y = gate.y + i * n + col;
      mul(y, up.y + i * n + col, cols, y);
    }
  });
}

}  // namespace hone::kernels
