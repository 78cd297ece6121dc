// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One TFLite model with its weights quantized anew, written as a stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "formats/tflite/tflite.h"
#include "model/decoder_spec.h"
#include "quant/recipe.h"

namespace hone::exporter {

struct ModelRewriteOptions {
  const quant::Resolved& schemes;
  ThreadPool& pool;
  bool allow_requantize = false;
  bool allow_nonfinite = false;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(ByteSpan)> release;  // bytes of the section that are not needed for now
};

class ModelRewrite {
 public:
  // section: the TFLite file; lifted: the model of the bundle, whose weights point into it. Reads
  // weights that get a scale for each row once, since those scales lie at the front of the file.
  // What options refers to, the section and the lifted model's memory must outlive the object.
  static Result<ModelRewrite> Plan(ByteSpan section, const model::DecoderModel& lifted,
                                   const ModelRewriteOptions& options);
  ModelRewrite(ModelRewrite&&) noexcept;
  ModelRewrite& operator=(ModelRewrite&&) noexcept;
  ~ModelRewrite();

  std::size_t changed() const;
  std::size_t kept() const;
  const std::set<std::size_t>& covered() const;  // assignments whose weights are in this model
  std::uint64_t weight_bytes() const;            // of changed weights as they will be written

  using Sink = std::function<Status(ByteSpan)>;
  using Wrote = std::function<void(std::uint64_t bytes, std::string_view name)>;
  // The file from the first byte to the last. Memory: one quantized weight.
  Status Write(const Sink& sink, const Wrote& wrote) const;

 private:
  struct Impl;
  explicit ModelRewrite(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::exporter
