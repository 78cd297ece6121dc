// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cfloat>
#include <cstring>
#include <new>
#include <optional>

#include "base/float16.h"
#include "executor/bundle_signature.h"
#include "executor/executor.h"
#include "formats/litertlm/llm_metadata.h"

namespace hone::executor {

using formats::litertlm::Bundle;
using formats::litertlm::Section;
using formats::litertlm::SectionType;
using formats::tflite::Model;
using formats::tflite::SignatureDef;
using formats::tflite::TensorType;

namespace {

constexpr float kMasked = -0.7f * FLT_MAX;
constexpr float kMaskedHalf = -45824.0f;

// A section's model and program, at places that stay.
struct Part {
  std::unique_ptr<Model> model;
  std::optional<Program> program;
  bool present() const { return program.has_value(); }
};

std::size_t ElementSize(TensorType type) {
  return type == TensorType::kBool ? 1 : type == TensorType::kFloat16 ? 2 : 4;
}

Value Zeros(TensorType type, const std::vector<std::int32_t>& shape) {
  std::size_t count = ElementSize(type);
  for (const std::int32_t dim : shape) count *= static_cast<std::size_t>(dim);
  return {type, shape, std::vector<std::byte>(count)};
}

template <typename T>
void Put(Value& value, std::size_t i, T number) {
  std::memcpy(value.data.data() + i * sizeof(T), &number, sizeof(T));
}

// Floats as the type of an input: float32 or float16.
Value AsType(Value value, TensorType type) {
  if (value.type == type || type != TensorType::kFloat16) return value;
  Value out = Zeros(type, value.shape);
  for (std::size_t i = 0; 4 * i < value.data.size(); ++i) {
    float x = 0;
    std::memcpy(&x, value.data.data() + 4 * i, sizeof(x));
    Put(out, i, FloatToFp16(x));
  }
  return out;
}

// Row r sees the columns of the positions up to start + r; rows of padding see none.
Value MakeMask(const SignatureInput& input, std::int64_t start, std::int64_t count,
               std::int64_t window) {
  Value mask = Zeros(input.type, input.shape);
  const std::int64_t rows = input.shape[2], cols = input.shape[3];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t position = start + r;
      const bool seen = r < count && c <= position && (window <= 0 || c > position - window);
      const auto at = static_cast<std::size_t>(r * cols + c);
      if (input.type == TensorType::kBool) {
        Put(mask, at, static_cast<std::uint8_t>(seen ? 1 : 0));
      } else if (input.type == TensorType::kFloat16) {
        Put(mask, at, FloatToFp16(seen ? 0.0f : kMaskedHalf));
      } else {
        Put(mask, at, seen ? 0.0f : kMasked);
      }
    }
  }
  return mask;
}

// The numbers in front, zeros behind.
Value MakePadded(const std::vector<std::int32_t>& shape, std::span<const std::int32_t> numbers) {
  Value value = Zeros(TensorType::kInt32, shape);
  for (std::size_t i = 0; i < numbers.size(); ++i) Put(value, i, numbers[i]);
  return value;
}

class Runner final : public BundleRunner {
 public:
  explicit Runner(std::shared_ptr<const Bundle> bundle) : bundle_(std::move(bundle)) {}

  Status Load();

  std::int64_t context() const override { return context_; }
  std::int64_t vocab() const override { return vocab_; }
  std::int64_t size() const override { return size_; }
  void Truncate(std::int64_t size) override { size_ = std::clamp<std::int64_t>(size, 0, size_); }
  const std::vector<std::int64_t>& prefill_lengths() const override { return lengths_; }
  Result<std::vector<float>> Decode(std::int32_t id, const std::atomic<bool>* cancel) override;
  Status Prefill(std::int64_t length, std::span<const std::int32_t> ids,
                 const std::atomic<bool>* cancel) override;

 private:
  Status LoadPart(std::string_view type, Part& part);
  Status LoadSteps();
  Status LoadCaches();
  Status LoadContext();
  Status CheckStep(const StepSignature& step) const;
  Status CheckAux(const StepSignature& step) const;
  Status LoadEmbedder();
  Status OutOfMemory() const {
    return Status(Code::kOutOfMemory, StrCat(bundle_->path(), ": not enough memory for a step"));
  }
  Status Unsupported(std::string text) const {
    return Status(Code::kUnsupported, StrCat(bundle_->path(), ": ", text));
  }

  std::string AuxKey(const StepSignature& step, const char* what) const;
  Result<Value> Embed(const SignatureInput& input, std::span<const std::int32_t> ids,
                      const std::atomic<bool>* cancel) const;
  Result<Values> RunAux(const StepSignature& step, const char* what, const Values& known,
                        const std::atomic<bool>* cancel) const;
  Status FillInputs(const StepSignature& step, std::span<const std::int32_t> ids,
                    const std::atomic<bool>* cancel, Values& inputs) const;
  Result<Values> Feed(const StepSignature& step, std::span<const std::int32_t> ids,
                      const std::atomic<bool>* cancel);
  Result<Values> FeedSplit(const StepSignature& step, std::span<const std::int32_t> ids,
                           Values& inputs, const std::atomic<bool>* cancel);

  std::shared_ptr<const Bundle> bundle_;
  Part main_, embedder_, aux_;
  bool split_ =
      false;  // the graph gives the new rows of the caches, the auxiliary model joins them
  StepSignature decode_;
  std::vector<StepSignature> prefills_;  // longest first
  std::vector<std::int64_t> lengths_;
  std::string embed_key_, embed_input_, embed_output_;
  std::vector<std::int32_t> embed_shape_;  // of the input: one element
  std::int64_t context_ = 0, vocab_ = 0, size_ = 0, window_ = 0;
  Values caches_;
};

Status Runner::LoadPart(std::string_view type, Part& part) {
  const Section* section = bundle_->Find(SectionType::kTfliteModel, type);
  if (section == nullptr) return {};
  const std::string label = StrCat(bundle_->path(), ": ", type);
  auto model = formats::tflite::ReadModel(bundle_->SectionBytes(*section));
  if (!model.ok()) return std::move(model).status().Context(label);
  part.model = std::make_unique<Model>(*std::move(model));
  HONE_ASSIGN(part.program, Program::Create(*part.model, label));
  return {};
}

Status Runner::Load() {
  for (const char* type : {"tf_lite_per_layer_embedder", "tf_lite_artisan_text_decoder"}) {
    if (bundle_->Find(SectionType::kTfliteModel, type) != nullptr) {
      return Unsupported(StrCat("has a section ", type, ", which Hone cannot run"));
    }
  }
  HONE_TRY(LoadPart("tf_lite_prefill_decode", main_));
  if (!main_.present()) return Unsupported("has no tf_lite_prefill_decode section");
  HONE_TRY(LoadPart("tf_lite_embedder", embedder_));
  HONE_TRY(LoadPart("tf_lite_aux", aux_));
  HONE_TRY(LoadSteps());
  HONE_TRY(LoadEmbedder());
  HONE_TRY(LoadContext());
  HONE_TRY(LoadCaches());
  HONE_TRY(CheckStep(decode_));
  for (const StepSignature& step : prefills_) HONE_TRY(CheckStep(step));
  return {};
}

Status Runner::LoadSteps() {
  const SignatureDef* decode = main_.model->FindSignature("decode");
  if (decode == nullptr) return Unsupported("has no signature 'decode'");
  const auto read = [this](const SignatureDef& signature) -> Result<StepSignature> {
    auto step = ReadSignature(*main_.model, signature);
    if (!step.ok()) return std::move(step).status().Context(bundle_->path());
    return step;
  };
  HONE_ASSIGN(decode_, read(*decode));
  if (decode_.length != 1) return Unsupported("signature 'decode': takes more than one token");
  split_ = decode_.Find(InputRole::kPrepared) != nullptr;
  for (const SignatureDef& signature : main_.model->signatures) {
    if (!signature.key.starts_with("prefill")) continue;
    HONE_ASSIGN(StepSignature step, read(signature));
    prefills_.push_back(std::move(step));
  }
  std::stable_sort(prefills_.begin(), prefills_.end(),
                   [](const auto& a, const auto& b) { return a.length > b.length; });
  for (const StepSignature& step : prefills_) lengths_.push_back(step.length);
  if (std::adjacent_find(lengths_.begin(), lengths_.end()) != lengths_.end()) {
    return Unsupported("has two prefill signatures of the same length");
  }
  const auto& tensors = main_.model->subgraphs[decode->subgraph].tensors;
  for (const auto& [name, id] : decode->outputs) {
    if (name != "logits") continue;
    const auto& shape = tensors[id].shape;
    if (shape.empty() || tensors[id].type != TensorType::kFloat32) {
      return Unsupported("signature 'decode': output 'logits' is not float32");
    }
    vocab_ = shape.back();
    std::int64_t count = 1;
    for (const std::int32_t dim : shape) count *= dim;
    if (count != vocab_) return Unsupported("signature 'decode': logits of several positions");
  }
  if (vocab_ <= 0) return Unsupported("signature 'decode': has no output 'logits'");
  return {};
}

// The first signature with one id, whatever its name, as LiteRT-LM takes it.
Status Runner::LoadEmbedder() {
  const SignatureInput* wanted = decode_.Find(InputRole::kEmbeddings);
  if (wanted == nullptr) return {};
  if (!embedder_.present()) return Unsupported("takes embeddings, but has no tf_lite_embedder");
  for (const SignatureDef& signature : embedder_.model->signatures) {
    const auto& tensors = embedder_.model->subgraphs[signature.subgraph].tensors;
    if (signature.inputs.size() != 1 || signature.outputs.empty()) continue;
    const auto& input = tensors[signature.inputs[0].second];
    const auto& output = tensors[signature.outputs[0].second];
    std::int64_t ids = 1;
    for (const std::int32_t dim : input.shape) ids *= dim;
    if (input.type != TensorType::kInt32 || ids != 1) continue;
    const bool floats = output.type == TensorType::kFloat32 || output.type == wanted->type;
    if (!floats || output.shape.empty() || output.shape.back() != wanted->shape[2]) {
      return Unsupported(StrCat("tf_lite_embedder: signature '", signature.key,
                                "': its rows do not fit the decoder's embeddings"));
    }
    embed_key_ = signature.key;
    embed_input_ = signature.inputs[0].first;
    embed_output_ = signature.outputs[0].first;
    embed_shape_ = input.shape;
    return {};
  }
  return Unsupported("tf_lite_embedder: no signature takes one token id");
}

Status Runner::LoadContext() {
  for (const InputRole role : {InputRole::kMask, InputRole::kLocalMask}) {
    const SignatureInput* mask = decode_.Find(role);
    if (mask != nullptr && context_ == 0) context_ = mask->shape[3];
  }
  for (const SignatureInput& input : decode_.inputs) {
    if (context_ != 0) break;
    // A split cache's mask has room for the new rows too.
    if (input.name == "mask_global" && input.shape.size() == 4) context_ = input.shape[3] - 1;
  }
  for (const SignatureInput& input : decode_.inputs) {
    if (context_ == 0 && input.role == InputRole::kCache) context_ = input.shape[2];
  }
  if (context_ <= 0) return Unsupported("signature 'decode': has neither a mask nor a cache");
  if (decode_.Find(InputRole::kLocalMask) == nullptr) return {};
  const Section* section = bundle_->Find(SectionType::kExecutorMetadata);
  if (section != nullptr) {
    HONE_ASSIGN(const auto metadata,
                formats::litertlm::ParseExecutorMetadata(bundle_->SectionBytes(*section)));
    HONE_ASSIGN(const auto masks, formats::litertlm::ReadAttentionMasks(metadata));
    for (const auto& mask : masks) {
      if (mask.local) window_ = mask.sliding_window;
    }
  }
  if (window_ > 0) return {};
  return Unsupported("has a local mask, but its metadata has no sliding window");
}

Status Runner::LoadCaches() {
  for (const SignatureInput& input : decode_.inputs) {
    if (input.role != InputRole::kCache) continue;
    if (input.shape[2] != context_ && input.shape[3] != context_) {
      return Unsupported(
          StrCat("input '", input.name, "': a ring buffer of fewer positions than ", context_));
    }
    caches_[input.name] = Zeros(input.type, input.shape);
  }
  return {};
}

Status Runner::CheckStep(const StepSignature& step) const {
  const std::string where = StrCat("signature '", step.key, "': ");
  for (const auto& [name, cache] : caches_) {
    if (!split_ && !step.HasOutput(name)) {
      return Unsupported(StrCat(where, "has no output '", name, "'"));
    }
  }
  for (const SignatureInput& input : step.inputs) {
    const auto cache = caches_.find(input.name);
    if (input.role == InputRole::kCache &&
        (cache == caches_.end() || cache->second.shape != input.shape ||
         cache->second.type != input.type)) {
      return Unsupported(StrCat(where, "input '", input.name, "' differs from 'decode'"));
    }
    const bool mask = input.role == InputRole::kMask || input.role == InputRole::kLocalMask;
    if (mask && input.shape[3] != context_) {
      return Unsupported(StrCat(where, "input '", input.name, "' has ", input.shape[3],
                                " columns for ", context_, " positions"));
    }
    const SignatureInput* embeddings = decode_.Find(InputRole::kEmbeddings);
    if (input.role == InputRole::kEmbeddings &&
        (embeddings == nullptr || embeddings->type != input.type ||
         embeddings->shape[2] != input.shape[2])) {
      return Unsupported(StrCat(where, "takes other embeddings than 'decode'"));
    }
    if (input.role == InputRole::kPrepared && !split_) {
      return Unsupported(StrCat(where, "input '", input.name, "', but 'decode' has none such"));
    }
  }
  return split_ ? CheckAux(step) : Status();
}

std::string Runner::AuxKey(const StepSignature& step, const char* what) const {
  const bool decode = step.key == "decode";
  return decode ? StrCat("decode_", what) : StrCat("prefill_", what, "_", step.length);
}

// The auxiliary model makes every prepared input and takes every new row.
Status Runner::CheckAux(const StepSignature& step) const {
  if (!aux_.present()) return Unsupported("has a split cache, but no tf_lite_aux section");
  std::vector<std::string> prepared, updated;
  for (const char* what : {"rope", "mask", "cache_update"}) {
    const std::string key = AuxKey(step, what);
    const SignatureDef* signature = aux_.model->FindSignature(key);
    if (signature == nullptr)
      return Unsupported(StrCat("tf_lite_aux has no signature '", key, "'"));
    auto& made = std::string_view(what) == "cache_update" ? updated : prepared;
    for (const auto& [name, id] : signature->outputs) made.push_back(name);
    for (const auto& [name, id] : signature->inputs) {
      const bool known = name == "input_pos" || name == "time_step" || name == "input_tokens" ||
                         name == "valid_mask" || caches_.contains(name) || step.HasOutput(name);
      if (!known) {
        return Unsupported(StrCat("tf_lite_aux: signature '", key, "': input '", name,
                                  "' is of a kind that Hone cannot fill"));
      }
    }
  }
  const auto has = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const SignatureInput& input : step.inputs) {
    if (input.role != InputRole::kPrepared || has(prepared, input.name)) continue;
    return Unsupported(StrCat("tf_lite_aux makes no '", input.name, "' for '", step.key, "'"));
  }
  for (const auto& [name, cache] : caches_) {
    if (!has(updated, name)) return Unsupported(StrCat("tf_lite_aux does not update '", name, "'"));
  }
  return {};
}

Result<Value> Runner::Embed(const SignatureInput& input, std::span<const std::int32_t> ids,
                            const std::atomic<bool>* cancel) const {
  Value rows = Zeros(input.type, input.shape);
  const std::size_t row_bytes = rows.data.size() / static_cast<std::size_t>(input.shape[1]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(input.shape[1]); ++i) {
    const std::int32_t id = i < ids.size() ? ids[i] : 0;
    HONE_ASSIGN(Values out,
                embedder_.program->Run(
                    embed_key_, {{embed_input_, MakePadded(embed_shape_, {&id, 1})}}, cancel));
    const Value row = AsType(std::move(out.find(embed_output_)->second), input.type);
    std::memcpy(rows.data.data() + i * row_bytes, row.data.data(),
                std::min(row_bytes, row.data.size()));
  }
  return rows;
}

Result<Values> Runner::RunAux(const StepSignature& step, const char* what, const Values& known,
                              const std::atomic<bool>* cancel) const {
  const std::string key = AuxKey(step, what);
  const SignatureDef& signature = *aux_.model->FindSignature(key);
  Values inputs;
  for (const auto& [name, id] : signature.inputs) {
    const auto& tensor = aux_.model->subgraphs[signature.subgraph].tensors[id];
    const auto value = known.find(name);
    if (value == known.end()) {
      return Status(Code::kUnsupported, StrCat("signature '", key, "': input '", name, "'"));
    }
    inputs[name] = value->second;
    // Numbers come as scalars, vectors or rows.
    if (value->second.type == tensor.type && name.find("cache") == std::string::npos) {
      inputs[name].shape = tensor.shape;
    }
  }
  return aux_.program->Run(key, inputs, cancel);
}

Status Runner::FillInputs(const StepSignature& step, std::span<const std::int32_t> ids,
                          const std::atomic<bool>* cancel, Values& inputs) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < count; ++i) {
    positions.push_back(static_cast<std::int32_t>(size_ + i));
  }
  for (const SignatureInput& input : step.inputs) {
    switch (input.role) {
      case InputRole::kTokens:
        inputs[input.name] = MakePadded(input.shape, ids);
        break;
      case InputRole::kEmbeddings: {
        HONE_ASSIGN(inputs[input.name], Embed(input, ids, cancel));
        break;
      }
      case InputRole::kPositions:
        inputs[input.name] = MakePadded(input.shape, positions);
        break;
      case InputRole::kMask:
      case InputRole::kLocalMask:
        inputs[input.name] =
            MakeMask(input, size_, count, input.role == InputRole::kMask ? 0 : window_);
        break;
      case InputRole::kParams: {
        const auto end = static_cast<std::int32_t>(size_ + count);
        const std::int32_t params[] = {static_cast<std::int32_t>(size_), end, end};
        inputs[input.name] = MakePadded(input.shape, params);
        break;
      }
      case InputRole::kCache:
      case InputRole::kPrepared:
        break;  // Feed
    }
  }
  return {};
}

// The auxiliary model prepares positions and masks, and joins the new rows to the caches.
Result<Values> Runner::FeedSplit(const StepSignature& step, std::span<const std::int32_t> ids,
                                 Values& inputs, const std::atomic<bool>* cancel) {
  Values known;
  std::vector<std::int32_t> positions;
  Value valid = Zeros(TensorType::kBool, {1, static_cast<std::int32_t>(step.length)});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    positions.push_back(static_cast<std::int32_t>(size_) + static_cast<std::int32_t>(i));
    Put(valid, i, std::uint8_t{1});
  }
  const auto start = static_cast<std::int32_t>(size_);
  known["input_pos"] = MakePadded({static_cast<std::int32_t>(step.length)}, positions);
  known["input_tokens"] = MakePadded({1, static_cast<std::int32_t>(step.length)}, ids);
  known["time_step"] = MakePadded({1}, {&start, 1});
  known["valid_mask"] = std::move(valid);
  for (const char* what : {"rope", "mask"}) {
    HONE_ASSIGN(Values made, RunAux(step, what, known, cancel));
    for (auto& [name, value] : made) {
      const bool wanted = std::any_of(step.inputs.begin(), step.inputs.end(),
                                      [&n = name](const auto& i) { return i.name == n; });
      if (wanted) inputs[name] = std::move(value);
    }
  }
  for (const SignatureInput& input : step.inputs) {
    if (input.role == InputRole::kCache) inputs[input.name] = caches_[input.name];
  }
  HONE_ASSIGN(Values outputs, main_.program->Run(step.key, inputs, cancel));
  for (auto& [name, cache] : caches_) known[name] = cache;
  for (const auto& [name, value] : outputs) known[name] = value;
  HONE_ASSIGN(Values updated, RunAux(step, "cache_update", known, cancel));
  for (auto& [name, cache] : caches_) cache = std::move(updated.find(name)->second);
  size_ += static_cast<std::int64_t>(ids.size());
  return outputs;
}

Result<Values> Runner::Feed(const StepSignature& step, std::span<const std::int32_t> ids,
                            const std::atomic<bool>* cancel) {
  if (ids.empty() || static_cast<std::int64_t>(ids.size()) > step.length) {
    return Status(Code::kInvalidArgument, StrCat("signature '", step.key, "': takes 1 to ",
                                                 step.length, " tokens, not ", ids.size()));
  }
  if (size_ + step.length > context_) {
    return Status(Code::kInvalidArgument,
                  StrCat("signature '", step.key, "': writes ", step.length, " positions behind ",
                         size_, ", but the context has ", context_));
  }
  for (const std::int32_t id : ids) {
    if (id < 0) return Status(Code::kInvalidArgument, StrCat("token ", id));
  }
  Values inputs;
  HONE_TRY(FillInputs(step, ids, cancel, inputs));
  if (split_) return FeedSplit(step, ids, inputs, cancel);
  // The caches are lent to the run and come back whatever happens.
  for (const SignatureInput& input : step.inputs) {
    if (input.role == InputRole::kCache) inputs[input.name] = std::move(caches_[input.name]);
  }
  auto outputs = main_.program->Run(step.key, inputs, cancel);
  for (const SignatureInput& input : step.inputs) {
    if (input.role == InputRole::kCache) caches_[input.name] = std::move(inputs[input.name]);
  }
  if (!outputs.ok()) return std::move(outputs).status();
  for (auto& [name, cache] : caches_) cache = std::move(outputs->find(name)->second);
  size_ += static_cast<std::int64_t>(ids.size());
  return outputs;
}

Result<std::vector<float>> Runner::Decode(std::int32_t id, const std::atomic<bool>* cancel) try {
  HONE_ASSIGN(const Values outputs, Feed(decode_, {&id, 1}, cancel));
  return ToFloats(outputs.find("logits")->second);
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status Runner::Prefill(std::int64_t length, std::span<const std::int32_t> ids,
                       const std::atomic<bool>* cancel) try {
  for (const StepSignature& step : prefills_) {
    if (step.length == length) return Feed(step, ids, cancel).status();
  }
  return Status(Code::kNotFound,
                StrCat(bundle_->path(), ": has no prefill signature of length ", length));
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace

Result<std::unique_ptr<BundleRunner>> BundleRunner::Open(std::shared_ptr<const Bundle> bundle) {
  try {
    auto runner = std::make_unique<Runner>(std::move(bundle));
    HONE_TRY(runner->Load());
    return std::unique_ptr<BundleRunner>(std::move(runner));
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "not enough memory for the bundle's caches");
  }
}

}  // namespace hone::executor
