// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// y = x W^T for every weight type, with the fastest kernel that this machine has.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "codec/weight.h"

namespace hone::kernels {

// How a linear's input is prepared. Linears that want the same preparation share one PreparedRows.
enum class InputKind : std::uint8_t {
  kPlain,  // float32
  kRowQ8,  // 8 bits, asymmetric, one scale and zero point a row (as XNNPACK's qd8)
};

// Rows of activations, ready for a Linear. Reusable; memory only grows.
class PreparedRows {
 public:
  // x is [m, k] float32, row stride k. Plain keeps the pointer: x must live until the last use.
  // RowQ8: lo = min(0, min x), hi = max(0, max x), scale = (hi - lo) / 255 and the rounded zero
  // point as XNNPACK computes them, q = clamp(rint(x / scale) + zero_point, -128, 127).
  void Prepare(InputKind kind, const float* x, std::int64_t m, std::int64_t k, ThreadPool& pool);
  // RmsNorm(x, norm_weight, epsilon) into normed [m, k], then Prepare(kind, normed), row by row
  // while a row is in cache; bit-equal to the two calls. normed may be x; Plain keeps its pointer.
  void PrepareNormed(InputKind kind, const float* x, const float* norm_weight, float epsilon,
                     std::int64_t m, std::int64_t k, float* normed, ThreadPool& pool);
  InputKind kind() const { return kind_; }
  std::int64_t m() const { return m_; }
  std::int64_t k() const { return k_; }
  const float* plain() const { return plain_; }
  // q8: [m, q8_stride()] signed bytes; zeros after k, which add nothing to any sum.
  const std::int8_t* q8() const { return q8_.data(); }
  // The same plus 128, as unsigned bytes. Null where no kernel of this machine reads them.
  const std::uint8_t* q8_offset() const { return q8_offset_.empty() ? nullptr : q8_offset_.data(); }
  std::int64_t q8_stride() const { return q8_stride_; }
  const float* scale() const { return scale_.data(); }                   // [m]
  const std::int32_t* zero_point() const { return zero_point_.data(); }  // [m]
  const std::int32_t* row_sum() const { return row_sum_.data(); }        // [m] sums of q8
  // -8 times the sums of q8 over 32 values each: [m, q8_stride() / 32]. What a sum starts from in
  // a kernel whose int4 codes are stored as code + 8. Null where no kernel of this machine reads
  // them.
  const std::int32_t* block_offsets() const {
    return block_offsets_.empty() ? nullptr : block_offsets_.data();
  }

 private:
  // Sizes for rows of q8; reads nothing.
  void Reserve(InputKind kind, const float* x, std::int64_t m, std::int64_t k);
  void QuantizeRow(const float* x, std::int64_t row);

  InputKind kind_ = InputKind::kPlain;
  std::int64_t m_ = 0, k_ = 0, q8_stride_ = 0;
  const float* plain_ = nullptr;
  std::vector<std::int8_t> q8_;
  std::vector<std::uint8_t> q8_offset_;
  std::vector<float> scale_;
  std::vector<std::int32_t> zero_point_, row_sum_, block_offsets_;
};

enum class Compute : std::uint8_t {
  kF32,  // float activations; quantized weights are decoded to float32
  kQ8,   // 8-bit activations; float weights are quantized to int8 a row (min-max) while packing
};

class PackArena;
struct LinearCall;
enum class GateActivation : std::uint8_t { kSilu, kGeluTanh, kGelu };

// A packed weight matrix [n, k] and the kernel it was packed for. Movable, read-only, thread-safe.
// Results are bit-equal for any number of threads and do not depend on m: row i of y is the same
// whether it is computed alone or with others.
class Linear {
 public:
  // Copies and packs; w may be released afterwards. kF32 keeps f32, f16 and bf16 weights in their
  // own width and decodes all others to f32. kQ8 keeps int8 rows, int4 rows and blocks of a
  // multiple of 32, and q4_0; it decodes the other GGUF types and quantizes them to int8 a row like
  // float weights. kOutOfMemory if the packed copy cannot be had; kUnsupported for other blocks
  // and, with kQ8, for more than 65536 columns.
  // The copy comes from arena, or is memory of its own if that is null.
  static Result<Linear> Pack(const codec::WeightView& w, Compute compute, ThreadPool& pool,
                             PackArena* arena = nullptr);
  Linear(Linear&&) noexcept;
  Linear& operator=(Linear&&) noexcept;
  ~Linear();

  std::int64_t n() const;
  std::int64_t k() const;
  InputKind input_kind() const;
  const char* kernel_name() const;
  std::uint64_t packed_bytes() const;

  // y[i * n + j] = sum over k of x[i][k] w[j][k] + bias[j]; bias may be null.
  // x must be prepared with input_kind() and k(). No allocation that grows with m * n.
  void Run(const PreparedRows& x, const float* bias, float* y, ThreadPool& pool) const;

 private:
  friend void RunLinears(std::span<const LinearCall> calls, ThreadPool& pool);
  friend void RunGated(const LinearCall& gate, const LinearCall& up, GateActivation activation,
                       ThreadPool& pool);
  struct Impl;
  explicit Linear(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One product: y [x->m(), linear->n()] = x w^T + bias. x as Linear::Run wants it; bias may be null.
struct LinearCall {
  const Linear* linear = nullptr;
  const PreparedRows* x = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
};

// All products in one pass over the threads; the calls' outputs must not overlap. Bit-equal to
// Linear::Run of each.
void RunLinears(std::span<const LinearCall> calls, ThreadPool& pool);

// gate.y = activation(gate) * up; up.y is scratch of the same size. Both linears have the same n,
// both inputs the same m. Bit-equal to two Runs and SiluMul, GeluTanhMul or GeluErfMul.
void RunGated(const LinearCall& gate, const LinearCall& up, GateActivation activation,
              ThreadPool& pool);

}  // namespace hone::kernels
