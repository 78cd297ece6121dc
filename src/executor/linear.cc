// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// EMBEDDING_LOOKUP, FULLY_CONNECTED and BATCH_MATMUL.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "executor/node.h"
#include "executor/op_util.h"
#include "executor/quantized.h"

namespace hone::executor {
namespace {

using T = TensorType;

// Several sums at once, so that one addition need not wait for the last.
double Dot(const float* a, const float* b, std::int64_t k) {
  double sum[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= k; i += 8) {
    for (int j = 0; j < 8; ++j) {
      sum[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
    }
  }
  for (; i < k; ++i) sum[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

std::int64_t Dot(const std::int8_t* a, const std::int8_t* b, std::int64_t k) {
  constexpr std::int64_t kChunk = 1 << 14;  // its sum fits in 32 bits
  std::int64_t total = 0;
  for (std::int64_t begin = 0; begin < k; begin += kChunk) {
    const std::int64_t end = std::min(k, begin + kChunk);
    std::int32_t sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += std::int32_t{a[i]} * std::int32_t{b[i]};
    total += sum;
  }
  return total;
}

// ---- EMBEDDING_LOOKUP: ids [n], table [rows, cols]

Status CheckLookup(const Node& node) {
  const TensorInfo& ids = *node.in[0];
  const TensorInfo& table = *node.in[1];
  HONE_TRY(ExpectType(ids, "the ids", {T::kInt32}));
  HONE_TRY(ExpectRank(ids, "the ids", 1, 1));
  HONE_TRY(ExpectRank(table, "the table", 1, kMaxRank));
  if (table.type == T::kFloat32 || table.type == T::kFloat16) {
    HONE_TRY(ExpectSameType(table, *node.out[0]));
  } else {
    HONE_TRY(ExpectQuantizedRows(table, "the table"));
    HONE_TRY(ExpectType(*node.out[0], "the output", {T::kFloat32}));
  }
  Dims shape = table.shape;
  shape[0] = ids.shape[0];
  return ExpectShape(*node.out[0], "the output", shape);
}

Status RunLookup(const Call& call) {
  const TensorInfo& table = *call.node.in[1];
  const std::int64_t rows = table.shape[0];
  const std::int64_t cols = rows == 0 ? 0 : table.count / rows;
  const std::int64_t bytes = cols * ElementBytes(table.type);
  for (std::int64_t i = 0; i < call.node.in[0]->count; ++i) {
    const std::int64_t row = call.In<std::int32_t>(0)[i];
    if (row < 0 || row >= rows) {
      return Status(Code::kInvalidArgument,
                    StrCat("row ", row, " of a table that has ", rows, " rows"));
    }
    if (table.type == T::kFloat32 || table.type == T::kFloat16) {
      if (bytes == 0) continue;
      std::memcpy(call.out[0] + i * bytes, call.in[1] + row * bytes,
                  static_cast<std::size_t>(bytes));
      continue;
    }
    const Quantized q(table, call.in[1]);
    float* out = call.Out<float>(0) + i * cols;
    for (std::int64_t j = 0; j < cols; ++j) out[j] = q.ValueAt(row * cols + j);
  }
  return {};
}

// ---- FULLY_CONNECTED: x [.., k], weights [n, k], bias [n]

Status CheckFullyConnected(const Node& node) {
  const TensorInfo& x = *node.in[0];
  const TensorInfo& w = *node.in[1];
  const TensorInfo& y = *node.out[0];
  HONE_TRY(ExpectType(x, "the input", {T::kFloat32, T::kFloat16}));
  HONE_TRY(ExpectSameType(x, y));
  HONE_TRY(ExpectRank(w, "the weights", 2, 2));
  if (w.type != T::kFloat32 && w.type != T::kFloat16) {
    HONE_TRY(ExpectQuantizedRows(w, "the weights"));
  }
  if (node.options().weights_format != 0) {
    return Status(Code::kUnsupported, StrCat("weights format ", node.options().weights_format));
  }
  HONE_TRY(ExpectActivation(node));
  const std::int64_t n = w.shape[0];
  const std::int64_t k = w.shape[1];
  if (node.Has(2)) {
    HONE_TRY(ExpectType(*node.in[2], "the bias", {T::kFloat32, T::kFloat16}));
    HONE_TRY(ExpectShape(*node.in[2], "the bias", {n}));
  }
  if (k == 0 || x.count % k != 0 || (node.options().keep_num_dims && x.shape.back() != k)) {
    return Status(Code::kDataLoss, StrCat("the input has the shape ", DimsText(x.shape),
                                          ", the weights ", DimsText(w.shape)));
  }
  Dims shape = {x.count / k, n};
  if (node.options().keep_num_dims) {
    shape = x.shape;
    shape.back() = n;
  }
  // Leading dimensions of 1 change nothing.
  if (y.count == x.count / k * n && !y.shape.empty() && y.shape.back() == n) return {};
  return ExpectShape(y, "the output", shape);
}

double FullyConnectedWork(const Node& node) {
  const auto outputs = static_cast<double>(node.in[1]->shape[0]);
  return static_cast<double>(node.in[0]->count) * std::max(outputs, 1.0) +
         static_cast<double>(node.in[1]->count);
}

// A row of activations in 8 bits: the range is widened to hold 0, and the end with the smaller
// rounding error decides about the zero point. All in float32, as XNNPACK computes it.
struct Row8 {
  std::vector<std::int8_t> codes;
  float scale = 1;
  std::int32_t zero = 0;
};

Row8 Quantize(const float* x, std::int64_t k) {
  float lo = 0, hi = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    if (x[i] < lo) lo = x[i];
    if (x[i] > hi) hi = x[i];
  }
  const float inverse = lo == hi ? 1.0f : 255.0f / (hi - lo);
  const float scaled_lo = lo * inverse;
  const float scaled_hi = hi * inverse;
  const bool low_end = (-128.0f + scaled_lo) + (127.0f + scaled_hi) > 0;
  float zero = low_end ? -128.0f - scaled_lo : 127.0f - scaled_hi;
  zero = zero > -128.0f ? zero : -128.0f;  // also when it is NaN
  zero = zero < 127.0f ? zero : 127.0f;
  Row8 row;
  row.zero = static_cast<std::int32_t>(std::nearbyint(zero));
  row.scale = 1.0f / inverse;
  row.codes.resize(static_cast<std::size_t>(k));
  const auto least = static_cast<float>(-128 - row.zero);
  const auto most = static_cast<float>(127 - row.zero);
  for (std::int64_t i = 0; i < k; ++i) {
    const float scaled = std::nearbyint(x[i] * inverse);
    const float q = scaled < least ? least : scaled <= most ? scaled : most;  // NaN: most
    row.codes[static_cast<std::size_t>(i)] =
        static_cast<std::int8_t>(static_cast<std::int32_t>(q) + row.zero);
  }
  return row;
}

// The elements of a float32 or float16 tensor as float32.
std::vector<float> Floats(const TensorInfo& info, const std::byte* data, std::int64_t begin,
                          std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    out[static_cast<std::size_t>(i)] =
        info.type == T::kFloat16
            ? static_cast<float>(reinterpret_cast<const Half*>(data)[begin + i])
            : reinterpret_cast<const float*>(data)[begin + i];
  }
  return out;
}

// y [m, n] = x [m, k] w^T
struct Product2 {
  std::int64_t m, n, k;
  const float* x;
  float* y;
};

void MultiplyQuantized(const TensorInfo& weights, const std::byte* data, const Product2& p) {
  std::vector<Row8> rows;
  for (std::int64_t i = 0; i < p.m; ++i) rows.push_back(Quantize(p.x + i * p.k, p.k));
  const Quantized w(weights, data);
  const std::int64_t block = w.block() == 0 ? p.k : w.block();
  std::vector<std::int8_t> codes(static_cast<std::size_t>(p.k));
  const std::vector<std::int8_t> ones(static_cast<std::size_t>(block), 1);
  for (std::int64_t r = 0; r < p.n; ++r) {
    for (std::int64_t i = 0; i < p.k; ++i) {
      codes[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(w.CodeAt(r * p.k + i));
    }
    for (std::int64_t i = 0; i < p.m; ++i) {
      const Row8& x = rows[static_cast<std::size_t>(i)];
      double sum = 0;
      for (std::int64_t b = 0; b < p.k; b += block) {
        const std::int64_t products = Dot(codes.data() + b, x.codes.data() + b, block);
        const std::int64_t offset = x.zero * Dot(codes.data() + b, ones.data(), block);
        sum += static_cast<double>(products - offset) * static_cast<double>(w.ScaleAt(r * p.k + b));
      }
      p.y[i * p.n + r] = static_cast<float>(sum * static_cast<double>(x.scale));
    }
  }
}

void MultiplyFloat(const TensorInfo& weights, const std::byte* data, const Product2& p) {
  for (std::int64_t r = 0; r < p.n; ++r) {
    const std::vector<float> row = Floats(weights, data, r * p.k, p.k);
    for (std::int64_t i = 0; i < p.m; ++i) {
      p.y[i * p.n + r] = static_cast<float>(Dot(p.x + i * p.k, row.data(), p.k));
    }
  }
}

Status RunFullyConnected(const Call& call) {
  const Node& node = call.node;
  const TensorInfo& weights = *node.in[1];
  const std::int64_t n = weights.shape[0];
  const std::int64_t k = weights.shape[1];
  const std::int64_t m = node.in[0]->count / k;
  const std::vector<float> x = Floats(*node.in[0], call.in[0], 0, m * k);
  std::vector<float> y(static_cast<std::size_t>(m * n));
  const Product2 product{m, n, k, x.data(), y.data()};
  if (weights.type == T::kFloat32 || weights.type == T::kFloat16) {
    MultiplyFloat(weights, call.in[1], product);
  } else {
    MultiplyQuantized(weights, call.in[1], product);
  }
  std::vector<float> bias(static_cast<std::size_t>(n), 0.0f);
  if (node.Has(2)) bias = Floats(*node.in[2], call.in[2], 0, n);
  for (std::int64_t i = 0; i < m * n; ++i) {
    const float sum = y[static_cast<std::size_t>(i)] + bias[static_cast<std::size_t>(i % n)];
    const float out = Activate(node.options().fused_activation, sum);
    if (node.out[0]->type == T::kFloat16) {
      call.Out<Half>(0)[i] = Half(out);
    } else {
      call.Out<float>(0)[i] = out;
    }
  }
  return {};
}

// ---- BATCH_MATMUL: x [.., m, k], y [.., k, n]; adj_x and adj_y swap the last two of an operand

struct MatMulShape {
  std::int64_t m, n, k;
  Dims batch, x_batch, y_batch;
};

MatMulShape ShapeOf(const Node& node) {
  const Dims& x = node.in[0]->shape;
  const Dims& y = node.in[1]->shape;
  const OpOptions& o = node.options();
  MatMulShape s;
  s.m = x[x.size() - (o.adj_x ? 1 : 2)];
  s.k = x[x.size() - (o.adj_x ? 2 : 1)];
  s.n = y[y.size() - (o.adj_y ? 2 : 1)];
  s.x_batch.assign(x.begin(), x.end() - 2);
  s.y_batch.assign(y.begin(), y.end() - 2);
  const Dims& out = node.out[0]->shape;
  if (out.size() >= 2) s.batch.assign(out.begin(), out.end() - 2);
  return s;
}

Status CheckBatchMatMul(const Node& node) {
  for (std::size_t i = 0; i < 2; ++i) {
    HONE_TRY(ExpectType(*node.in[i], StrCat("input ", i), {T::kFloat32, T::kFloat16}));
    HONE_TRY(ExpectRank(*node.in[i], StrCat("input ", i), 2, kMaxRank));
  }
  HONE_TRY(ExpectType(*node.out[0], "the output", {T::kFloat32, T::kFloat16}));
  const MatMulShape s = ShapeOf(node);
  const Dims& y = node.in[1]->shape;
  auto shape = BroadcastShape(s.x_batch, s.y_batch);
  if (!shape || y[y.size() - (node.options().adj_y ? 1 : 2)] != s.k) {
    return Status(Code::kDataLoss, StrCat("the shapes ", DimsText(node.in[0]->shape), " and ",
                                          DimsText(node.in[1]->shape), " do not fit"));
  }
  shape->push_back(s.m);
  shape->push_back(s.n);
  return ExpectShape(*node.out[0], "the output", *shape);
}

double BatchMatMulWork(const Node& node) {
  const MatMulShape s = ShapeOf(node);
  const auto m = static_cast<double>(s.m);
  const auto n = static_cast<double>(s.n);
  return static_cast<double>(Product(s.batch)) * static_cast<double>(s.k) * (m * n + m + n);
}

// A vector of k numbers, stride elements apart, as float32.
void Gather(const TensorInfo& info, const std::byte* data, std::int64_t begin, std::int64_t stride,
            std::vector<float>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t at = begin + static_cast<std::int64_t>(i) * stride;
    out[i] = info.type == T::kFloat32 ? reinterpret_cast<const float*>(data)[at]
                                      : static_cast<float>(reinterpret_cast<const Half*>(data)[at]);
  }
}

Status RunBatchMatMul(const Call& call) {
  const OpOptions& o = call.node.options();
  const MatMulShape s = ShapeOf(call.node);
  const bool halves = call.node.out[0]->type == T::kFloat16;
  std::vector<float> x(static_cast<std::size_t>(s.k * s.m));
  std::vector<float> row(static_cast<std::size_t>(s.k));
  std::vector<float> column(static_cast<std::size_t>(s.k));
  std::int64_t batch = 0;
  const std::array<Dims, 2> strides = {BroadcastStrides(s.x_batch, s.batch),
                                       BroadcastStrides(s.y_batch, s.batch)};
  ForEach<2>(s.batch, strides, [&](const std::array<std::int64_t, 2>& at) {
    const std::int64_t x_begin = at[0] * s.m * s.k;
    const std::int64_t y_begin = at[1] * s.k * s.n;
    for (std::int64_t i = 0; i < s.m; ++i) {
      Gather(*call.node.in[0], call.in[0], x_begin + (o.adj_x ? i : i * s.k), o.adj_x ? s.m : 1,
             row);
      std::copy(row.begin(), row.end(), x.begin() + i * s.k);
    }
    for (std::int64_t j = 0; j < s.n; ++j) {
      Gather(*call.node.in[1], call.in[1], y_begin + (o.adj_y ? j * s.k : j), o.adj_y ? 1 : s.n,
             column);
      for (std::int64_t i = 0; i < s.m; ++i) {
        const auto sum = static_cast<float>(Dot(x.data() + i * s.k, column.data(), s.k));
        const std::int64_t to = (batch * s.m + i) * s.n + j;
        if (halves) {
          call.Out<Half>(0)[to] = Half(sum);
        } else {
          call.Out<float>(0)[to] = sum;
        }
      }
    }
    ++batch;
  });
  return {};
}

constexpr OpFacts kOps[] = {
    {Op::kEmbeddingLookup, 2, 2, 1, CheckLookup, RunLookup},
    {Op::kFullyConnected, 2, 3, 1, CheckFullyConnected, RunFullyConnected, FullyConnectedWork},
    {Op::kBatchMatMul, 2, 2, 1, CheckBatchMatMul, RunBatchMatMul, BatchMatMulWork},
};

}  // namespace

std::span<const OpFacts> LinearOps() { return kOps; }

}  // namespace hone::executor
