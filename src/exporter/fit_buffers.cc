// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/fit_buffers.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "graph/largest_tensors.h"

namespace hone::exporter {
namespace {

// Contexts that are picked are multiples of this, where they are not the wanted one.
constexpr std::int64_t kContextStep = 64;

// "'lm_head.weight' [130560, 2048] of decode needs 255.0 MiB"
std::string Text(const graph::TensorSize& tensor) {
  return StrCat("'", tensor.name, "' ", ShapeText(tensor.shape), " of ", tensor.signature,
                " needs ", BinaryBytesText(tensor.bytes));
}

class Fitter {
 public:
  Fitter(const model::DecoderModel& model, const quant::Resolved& schemes,
         const graph::BuildOptions& build, std::uint64_t max_bytes)
      : model_(model), schemes_(schemes), build_(build), max_bytes_(max_bytes) {}

  // The largest tensor of prefill_{length} and decode.
  Result<graph::TensorSize> Largest(std::int64_t context, std::int64_t length) const {
    graph::BuildOptions build = build_;
    build.context = context;
    build.prefill = {length};
    HONE_ASSIGN(const graph::Graph graph, graph::BuildDecoder(model_, schemes_, build));
    graph::TensorSize largest;
    for (graph::TensorSize& tensor : graph::LargestTensors(graph, 1)) {
      if (tensor.bytes > largest.bytes) largest = std::move(tensor);
    }
    return largest;
  }

  Result<bool> Fits(std::int64_t context, std::int64_t length) const {
    HONE_ASSIGN(const graph::TensorSize largest, Largest(context, length));
    return largest.bytes <= max_bytes_;
  }

  // The longest context below wanted that fits with a prefill of 1; 0: none does.
  Result<std::int64_t> LongestContext(std::int64_t wanted) const {
    std::int64_t low = 0;  // fits, in steps
    std::int64_t high = (wanted - 1) / kContextStep + 1;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      HONE_ASSIGN(const bool fits, Fits(middle * kContextStep, 1));
      (fits ? low : high) = middle;
    }
    return low * kContextStep;
  }

  // The largest power of two below rung that fits; 1 always does here.
  Result<std::int64_t> LongestPower(std::int64_t context, std::int64_t rung) const {
    std::int64_t power = 1;
    while (2 * power < rung) {
      HONE_ASSIGN(const bool fits, Fits(context, 2 * power));
      if (!fits) break;
      power *= 2;
    }
    return power;
  }

 private:
  const model::DecoderModel& model_;
  const quant::Resolved& schemes_;
  const graph::BuildOptions& build_;
  std::uint64_t max_bytes_;
};

Status Refuse(const FitRequest& request, const graph::TensorSize& tensor, const std::string& then) {
  return Status(Code::kUnsupported,
                StrCat("no buffer may be larger than ", BinaryBytesText(request.max_bytes), " (",
                       request.max_bytes, " bytes), but ", Text(tensor), " (", tensor.bytes,
                       " bytes) ", then));
}

Result<std::int64_t> PickContext(const Fitter& fitter, std::int64_t wanted,
                                 const FitRequest& request) {
  HONE_ASSIGN(const graph::TensorSize smallest, fitter.Largest(1, 1));
  if (smallest.bytes > request.max_bytes) {
    return Refuse(request, smallest,
                  smallest.constant ? "at every context: take a recipe that stores it smaller"
                                    : "at every context");
  }
  HONE_ASSIGN(const graph::TensorSize largest, fitter.Largest(wanted, 1));
  if (largest.bytes <= request.max_bytes) return wanted;
  HONE_ASSIGN(const std::int64_t longest, fitter.LongestContext(wanted));
  const std::string at = StrCat("at a context of ", wanted);
  if (longest == 0) return Refuse(request, largest, at);
  if (request.keep_context) return Refuse(request, largest, StrCat(at, "; ", longest, " fits"));
  return longest;
}

}  // namespace

Result<FitResult> FitBuffers(const model::DecoderModel& model, const quant::Resolved& schemes,
                             const graph::BuildOptions& build, const FitRequest& request) {
  const Fitter fitter(model, schemes, build, request.max_bytes);
  FitResult out;
  out.build = build;
  HONE_ASSIGN(out.build.context, PickContext(fitter, build.context, request));
  const std::int64_t context = out.build.context;
  out.build.prefill.clear();
  std::string limited;  // by the longest rung that does not fit
  for (const std::int64_t rung : build.prefill) {
    if (rung > context) continue;
    HONE_ASSIGN(const graph::TensorSize largest, fitter.Largest(context, rung));
    std::int64_t instead = rung;
    if (largest.bytes > request.max_bytes) {
      if (limited.empty()) limited = StrCat("; prefill ", rung, " is out, ", Text(largest));
      if (request.keep_rungs) continue;
      HONE_ASSIGN(instead, fitter.LongestPower(context, rung));
    }
    out.build.prefill.push_back(instead);
  }
  if (out.build.prefill.empty()) {
    return Status(Code::kUnsupported,
                  StrCat("no prefill length fits buffers of ", BinaryBytesText(request.max_bytes),
                         limited, "; add --prefill 1"));
  }
  std::sort(out.build.prefill.rbegin(), out.build.prefill.rend());
  out.build.prefill.erase(std::unique(out.build.prefill.begin(), out.build.prefill.end()),
                          out.build.prefill.end());
  HONE_ASSIGN(const graph::TensorSize largest, fitter.Largest(context, out.build.prefill[0]));
  out.notes.push_back(StrCat("buffers of at most ", BinaryBytesText(request.max_bytes),
                             ": context ", context, " and prefill ", Join(out.build.prefill, ","),
                             "; the largest, ", Text(largest), limited));
  if (context < build.context) {
    HONE_ASSIGN(const graph::TensorSize wanted, fitter.Largest(build.context, 1));
    out.notes.push_back(StrCat("a context of ", build.context, " does not fit: ", Text(wanted)));
  }
  return out;
}

std::string BinaryBytesText(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return StrCat(bytes, " bytes");
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit < 3; value /= 1024) ++unit;
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace hone::exporter
