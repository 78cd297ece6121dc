// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The graphs without running them: scales, the prefill ladder, the context, stored precisions.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/thread_pool.h"
#include "bundle/check_groups.h"
#include "bundle/check_scales.h"
#include "bundle/precision_audit.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;

// More steps than this to prefill the worst prompt up to the longest rung are worth a warning.
constexpr std::int64_t kMaxWorstSteps = 32;
constexpr const char* kQuantizeAgain = "Quantize the model again (hone convert).";
constexpr std::size_t kMaxRungs = 64;  // that are looked at
constexpr std::uint64_t kSmallModelParameters = 4'000'000'000ULL;

struct Place {
  std::uint64_t count = 0;
  std::set<std::string> tensors;
  std::string first;
  void Add(const ScalesOf& of, std::uint64_t n, std::uint64_t index) {
    if (n == 0) return;
    if (count == 0) first = StrCat(of.where, " scale ", index);
    count += n;
    tensors.insert(of.where);
  }
};

void AddPlace(const Place& place, const char* id, const char* kind, const char* todo,
              Findings& out) {
  if (place.count == 0) return;
  out.Add(id,
          StrCat(place.count, " ", kind, " scales in ", place.tensors.size(),
                 place.tensors.size() == 1 ? " tensor" : " tensors", ", the first: ", place.first),
          todo);
}

std::string Dims(const tflite::Tensor& tensor) {
  std::string out;
  for (const std::int32_t dim : tensor.shape) out += StrCat(out.empty() ? "" : ", ", dim);
  return StrCat("[", out, "]");
}

// Steps for rem prompt ids, as LiteRT-LM chooses them: the longest rung that fits, the smallest
// takes the remainder.
std::int64_t Steps(const std::vector<std::int64_t>& ladder, std::int64_t rem) {
  std::int64_t steps = 0;
  for (const std::int64_t length : ladder) {
    steps += rem / length;
    rem %= length;
  }
  return steps + (rem > 0 ? 1 : 0);
}

// What the inputs and outputs of one signature say about the context.
void CheckSignatureContext(const SignatureFacts& facts, std::int64_t context, Findings& out) {
  for (const Port& port : facts.inputs) {
    const auto& shape = port.tensor->shape;
    if (port.name.find("mask") != std::string::npos) {
      const bool local = port.name.find("local") != std::string::npos;
      const std::int64_t last = shape.empty() ? 0 : shape.back();
      // A split cache has the new positions behind the cached ones.
      if (local || last == context || last == context - facts.length + 1 ||
          last == context + facts.length - 1) {
        continue;
      }
      out.Add("context-mismatch", StrCat("signature '", facts.signature->key, "': ", port.name,
                                         " is ", Dims(*port.tensor), ", the context is ", context));
    } else if (port.name.starts_with("kv_cache_k_") || port.name.starts_with("kv_cache_v_")) {
      const bool fits = std::any_of(shape.begin(), shape.end(), [&](std::int32_t dim) {
        return dim == context || dim == context - 1;
      });
      if (fits) continue;
      out.Add("context-mismatch", StrCat("signature '", facts.signature->key, "': ", port.name,
                                         " is ", Dims(*port.tensor), ", the context is ", context));
    }
  }
}

void CheckExecutor(const Subject& subject, Findings& out) {
  if (!subject.executor || !subject.facts.decode) return;
  const std::int64_t context = subject.facts.context;
  for (const litertlm::StateBuffer& state : subject.executor->state_buffers) {
    const Port* port = subject.facts.decode->Input(state.decode_input);
    if (port == nullptr) {
      out.Add("executor-mismatch", StrCat("the state buffer ", Json(state.decode_input).Dump(),
                                          " is no input of the signature 'decode'"));
      continue;
    }
    const auto& shape = port->tensor->shape;
    const bool axis =
        state.sequence_axis >= 0 && static_cast<std::size_t>(state.sequence_axis) < shape.size();
    const std::int64_t length = axis ? shape[static_cast<std::size_t>(state.sequence_axis)] : 0;
    if (length == state.maximum_sequence_length && length <= context) continue;
    out.Add("executor-mismatch",
            StrCat("the state buffer ", state.decode_input, " says ", state.maximum_sequence_length,
                   " positions on axis ", state.sequence_axis, ", the tensor is ",
                   Dims(*port->tensor)));
  }
}

}  // namespace

void CheckScales(const Subject& subject, Findings& out) {
  std::vector<ScalesOf> all;
  for (const ModelSection& entry : subject.models) {
    if (!entry.model) continue;
    for (ScalesOf& of : FindScales(*entry.model)) {
      of.where = StrCat("section ", entry.index, " ", of.where);
      all.push_back(std::move(of));
    }
  }
  ThreadPool pool(subject.options->num_threads);
  const std::vector<ScaleCounts> counts = CountScales(all, pool);
  // Of blocks [0], which hone repair mends, and of rows [1], whose scales are in the tables.
  Place zero[2], subnormal[2], negative, nonfinite;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ScaleCounts& c = counts[i];
    const std::size_t rows = all[i].block > 0 ? 0 : 1;
    zero[rows].Add(all[i], c.zero, c.first_zero);
    subnormal[rows].Add(all[i], c.subnormal, c.first_subnormal);
    negative.Add(all[i], c.negative, c.first_negative);
    nonfinite.Add(all[i], c.nonfinite, c.first_nonfinite);
    out.scales_read += all[i].count();
    if (all[i].block > 0 && all[i].half.empty()) {
      out.Add("scale-type", StrCat(all[i].where, ": the block scales are float32"));
    }
    if (all[i].block > 0 && all[i].block % 32 != 0) {
      out.Add("block-size", StrCat(all[i].where, ": blocks of ", all[i].block, " values"));
    }
  }
  AddPlace(zero[0], "scale-zero", "zero", "", out);
  AddPlace(subnormal[0], "scale-subnormal", "subnormal", "", out);
  AddPlace(zero[1], "scale-zero", "zero row", kQuantizeAgain, out);
  AddPlace(subnormal[1], "scale-subnormal", "subnormal row", kQuantizeAgain, out);
  AddPlace(negative, "scale-negative", "negative", "", out);
  AddPlace(nonfinite, "scale-nonfinite", "non-finite", "", out);
}

void CheckLadder(const Subject& subject, Findings& out) {
  const DecoderFacts& facts = subject.facts;
  if (facts.prefill.empty() || facts.context <= 0) return;
  std::string ladder;
  std::vector<std::int64_t> lengths;  // each once, longest first
  for (const SignatureFacts& rung : facts.prefill) {
    const bool known = !lengths.empty() && lengths.back() == rung.length;
    if (rung.length > 0 && !known && lengths.size() < kMaxRungs) {
      lengths.push_back(rung.length);
      ladder += StrCat(ladder.empty() ? "" : ", ", rung.length);
    }
    if (rung.length > facts.context) {
      out.Add("prefill-over-context",
              StrCat("the signature '", rung.signature->key, "' takes ", rung.length,
                     " tokens, the context is ", facts.context));
    }
  }
  const std::int64_t smallest = facts.prefill.back().length;
  if (smallest > 1) {
    out.Add("prefill-wall",
            StrCat("the shortest prefill takes ", smallest, " tokens of ", facts.context,
                   ": a turn must start at position ", facts.context - smallest,
                   " or before, the last ", smallest, " positions only hold answers"));
  }
  const std::int64_t largest = facts.prefill.front().length;
  std::int64_t worst = 0, at = 0;
  for (std::int64_t rem = 1; rem <= std::min<std::int64_t>(largest, 1 << 16); ++rem) {
    const std::int64_t steps = Steps(lengths, rem);
    if (steps > worst) {
      worst = steps;
      at = rem;
    }
  }
  if (largest == 1) {
    out.Add("prefill-ladder", "the only prefill takes 1 token: prompts run token by token");
  } else if (worst > kMaxWorstSteps) {
    out.Add("prefill-ladder", StrCat("with the lengths ", ladder, " a prompt of ", at,
                                     " tokens takes ", worst, " runs"));
  }
}

void CheckContext(const Subject& subject, Findings& out) {
  const DecoderFacts& facts = subject.facts;
  if (!facts.decode || facts.context <= 0) return;
  CheckSignatureContext(*facts.decode, facts.context, out);
  for (const SignatureFacts& rung : facts.prefill) CheckSignatureContext(rung, facts.context, out);
  CheckExecutor(subject, out);
}

void CheckPrecision(const Subject& subject, Findings& out) {
  if (!subject.lifted) {
    if (!subject.lift_error.empty()) out.Add("lift-unsupported", subject.lift_error);
    return;
  }
  const std::vector<RolePrecision> roles = AuditRoles(*subject.lifted);
  if (subject.hone) {
    for (const std::string& difference : CompareWithRecipe(roles, *subject.hone)) {
      out.Add("precision-mismatch", difference);
    }
  }
  std::uint64_t parameters = 0, channelwise = 0;
  for (const RolePrecision& role : roles) {
    parameters += role.values;
    if (role.type.coding == codec::Coding::kInt4 && role.type.block == 0)
      channelwise += role.values;
  }
  if (channelwise > 0 && parameters < kSmallModelParameters) {
    out.Add("channelwise-int4",
            StrCat(channelwise, " of ", parameters, " weights are int4 with one scale a row"));
  }
}

}  // namespace hone::bundle
