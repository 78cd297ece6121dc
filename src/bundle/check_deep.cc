// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The checks that read every weight or run the graphs.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "bridge/sha256.h"
#include "bundle/check_groups.h"
#include "bundle/compare_logits.h"
#include "executor/executor.h"
#include "model/reference_forward.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
namespace tflite = formats::tflite;

constexpr std::size_t kTokens = 4;
// Plain loops do about 10^9 multiplications a second: longer prefills of larger models are left
// out.
constexpr double kMaxPrefillProducts = 2e10;

bool IsCancelled(const Subject& subject) {
  const auto* cancel = subject.options->cancel;
  return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

std::string DigestName(const litertlm::Section& section) {
  std::string name = litertlm::SectionTypeName(section.type);
  for (const char* key : {"model_type", "name"}) {
    const std::string_view value = section.Item(key);
    if (!value.empty()) name += StrCat(" ", value);
  }
  return name;
}

// The SHA-256 of a section, in parts so that it can be cancelled.
std::string Hash(const Subject& subject, ByteSpan bytes) {
  bridge::Sha256 hash;
  constexpr std::size_t kPart = std::size_t{16} << 20;
  for (std::size_t at = 0; at < bytes.size() && !IsCancelled(subject); at += kPart) {
    const ByteSpan part = bytes.subspan(at, std::min(kPart, bytes.size() - at));
    hash.Update(part);
    subject.bundle->map().Release(part);
  }
  return hash.FinishHex();
}

void CheckDigest(const Subject& subject, const Json& entry, Findings& out) {
  const Json* name = entry.Find("name");
  const Json* wanted = entry.Find("sha256");
  if (!name || !name->IsString() || !wanted || !wanted->IsString()) return;
  for (const litertlm::Section& section : subject.bundle->header().sections) {
    if (DigestName(section) != name->AsString()) continue;
    const std::string found = Hash(subject, subject.bundle->SectionBytes(section));
    if (IsCancelled(subject) || found == wanted->AsString()) return;
    return out.Add("hash-mismatch", StrCat(name->AsString(), ": hone.json says ",
                                           wanted->AsString(), ", the section has ", found));
  }
  out.Add("hash-mismatch", StrCat("hone.json lists the section ", Json(name->AsString()).Dump(),
                                  ", which the bundle does not have"));
}

template <typename T, typename ToFloat>
void CountNonfinite(ByteSpan bytes, const std::string& where, ToFloat to_float, Findings& out) {
  std::uint64_t count = 0, first = 0;
  const std::size_t total = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < total; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if (std::isfinite(to_float(value))) continue;
    if (count++ == 0) first = i;
  }
  if (count > 0) {
    out.Add("weights-nonfinite",
            StrCat(where, ": ", count, " of ", total, " values, the first at ", first));
  }
}

void CheckConstants(const ModelSection& entry, Findings& out) {
  const tflite::Model& model = *entry.model;
  std::vector<bool> seen(model.buffers.size());
  for (const tflite::Subgraph& graph : model.subgraphs) {
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const tflite::Tensor& tensor = graph.tensors[t];
      if (seen[tensor.buffer]) continue;
      seen[tensor.buffer] = true;
      const ByteSpan data = model.buffers[tensor.buffer].data;
      const std::string where =
          StrCat("section ", entry.index, " tensor ", t, " (", tensor.name, ")");
      if (tensor.type == tflite::TensorType::kFloat32) {
        CountNonfinite<float>(data, where, [](float f) { return f; }, out);
      } else if (tensor.type == tflite::TensorType::kFloat16) {
        CountNonfinite<std::uint16_t>(data, where, Fp16ToFloat, out);
      } else if (tensor.type == tflite::TensorType::kBfloat16) {
        CountNonfinite<std::uint16_t>(data, where, Bf16ToFloat, out);
      }
    }
  }
}

// Runs the graphs over a few tokens.
class GraphRun {
 public:
  GraphRun(const Subject& subject, executor::BundleRunner& runner, Findings& out)
      : subject_(subject), runner_(runner), out_(out) {
    const std::int64_t tokens =
        runner.vocab() <= 0 ? 0 : std::min<std::int64_t>(kTokens, runner.context() - 1);
    for (std::int64_t i = 0; i < tokens; ++i) {
      ids_.push_back(static_cast<std::int32_t>((1 + i * 7919) % runner.vocab()));
    }
  }

  Status Run() {
    if (ids_.size() < 2) return {};
    for (const std::int32_t id : ids_) {
      HONE_ASSIGN(decoded_, runner_.Decode(id, subject_.options->cancel));
    }
    HONE_TRY(CompareWithLift());
    double weights = 0;
    for (const ModelSection& model : subject_.models)
      weights += static_cast<double>(model.bytes.size());
    for (const std::int64_t length : runner_.prefill_lengths()) {
      if (weights * static_cast<double>(length) > kMaxPrefillProducts) continue;
      HONE_TRY(CompareWithPrefill(length));
    }
    return {};
  }

 private:
  Status CompareWithLift() {
    if (!subject_.lifted) return {};
    HONE_ASSIGN(const std::vector<float> all, model::ReferenceLogits(*subject_.lifted, ids_));
    const std::span<const float> last = std::span(all).last(decoded_.size());
    const double cosine = Cosine(decoded_, last);
    if (!(cosine >= kSameModelCosine)) {
      out_.Add("lift-disagrees", StrCat("after ", ids_.size(),
                                        " tokens the logits of the graph and of Hone's runtime "
                                        "have a cosine of ",
                                        cosine));
    }
    return {};
  }

  Status CompareWithPrefill(std::int64_t length) {
    runner_.Truncate(0);
    const std::size_t count =
        std::min<std::size_t>(static_cast<std::size_t>(length), ids_.size() - 1);
    HONE_TRY(runner_.Prefill(length, std::span(ids_).first(count), subject_.options->cancel));
    std::vector<float> logits;
    for (std::size_t i = count; i < ids_.size(); ++i) {
      HONE_ASSIGN(logits, runner_.Decode(ids_[i], subject_.options->cancel));
    }
    const double cosine = Cosine(decoded_, logits);
    if (!(cosine >= kSameGraphCosine)) {
      out_.Add("prefill-disagrees",
               StrCat("after ", ids_.size(), " tokens, ", count, " of them by prefill_", length,
                      ", the logits have a cosine of ", cosine, " to those of decode alone"));
    }
    return {};
  }

  const Subject& subject_;
  executor::BundleRunner& runner_;
  Findings& out_;
  std::vector<std::int32_t> ids_;
  std::vector<float> decoded_;
};

}  // namespace

double Cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    dot += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    aa += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    bb += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return aa == 0 && bb == 0 ? 1.0 : dot / std::sqrt(aa * bb);
}

void CheckHashes(const Subject& subject, Findings& out) {
  if (!subject.options->deep || !subject.bundle) return;
  const Json* sections = subject.hone ? subject.hone->Find("sections") : nullptr;
  if (sections == nullptr || !sections->IsArray()) {
    return out.Add("hashes-missing", "the bundle has no hone.json with hashes");
  }
  for (const Json& entry : sections->AsArray()) CheckDigest(subject, entry, out);
}

void CheckWeights(const Subject& subject, Findings& out) {
  if (!subject.options->deep) return;
  for (const ModelSection& entry : subject.models) {
    if (entry.model && !IsCancelled(subject)) CheckConstants(entry, out);
  }
}

void CheckGraphs(const Subject& subject, Findings& out) {
  if (!subject.options->deep || !subject.bundle || !subject.facts.decode) return;
  if (IsCancelled(subject)) return;
  auto runner = executor::BundleRunner::Open(subject.bundle);
  if (!runner.ok()) return out.Add("executor-unsupported", std::string(runner.message()));
  const Status status = GraphRun(subject, **runner, out).Run();
  if (!status.ok() && status.code() != Code::kCancelled) {
    out.Add("executor-unsupported", std::string(status.message()));
  }
}

}  // namespace hone::bundle
