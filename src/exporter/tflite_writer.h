// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// A graph as a TFLite file, written as a stream: small things first, then one weight after the
// other at its planned place.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "codec/weight.h"
#include "exporter/background_sink.h"
#include "formats/tflite/tflite.h"
#include "graph/ir.h"
#include "model/decoder_spec.h"

namespace hone::exporter {

// What the passes over the weights share. Everything outlives the writer.
struct WeightPass {
  const model::DecoderModel& model;
  ThreadPool& pool;
  bool allow_nonfinite = false;
  const std::atomic<bool>* cancel = nullptr;  // may be null
  // After each part of a weight: bytes written for it, and its name. May be empty.
  std::function<void(std::uint64_t bytes, std::string_view name)> wrote;

  Status CheckCancel() const;
};

// A TFLite file whose layout is fixed.
class TfliteWriter {
 public:
  // min_runtime_version is what a runtime reads from the file's metadata. Scales of weights
  // quantized per channel are part of the tables at the front, so this reads those weights once;
  // Write reads every weight. The graph must outlive the writer.
  static Result<TfliteWriter> Plan(const graph::Graph& graph, std::string_view min_runtime_version,
                                   const WeightPass& pass);

  // Bytes of weights, the sum of what pass.wrote will report.
  std::uint64_t weight_bytes() const { return weight_bytes_; }

  // Hands the file to sink from the first byte to the last, from another thread if the pool has
  // more than one. Memory: a few MiB of rows, and the block scales of one weight. A weight that
  // holds NaN or infinity is kDataLoss unless the pass allows it.
  Status Write(const WeightPass& pass, const Sink& sink) const;

 private:
  struct DeferredBuffer {
    graph::WeightSource source;
    std::uint32_t codes = 0;   // buffer index
    std::uint32_t scales = 0;  // buffer index of block scales, 0: none
  };
  TfliteWriter() = default;
  // The codes, band by band; returns the scales.
  Result<std::vector<std::byte>> WriteCodes(const graph::WeightSource& source,
                                            const WeightPass& pass, BackgroundSink& sink) const;
  Status CheckScales(const graph::WeightSource& source, ByteSpan scales,
                     const std::string& name) const;

  std::map<std::pair<model::Role, std::int64_t>, std::vector<float>> channel_scales_;
  formats::tflite::WritePlan plan_;
  std::vector<DeferredBuffer> deferred_;  // in the order of the file
  std::uint64_t weight_bytes_ = 0;
};

}  // namespace hone::exporter
