// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/assemble.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace hone::model {
namespace {

constexpr Role kLayerRoles[] = {Role::kInputNorm, Role::kQ,    Role::kK,  Role::kV,   Role::kO,
                                Role::kFfnNorm,   Role::kGate, Role::kUp, Role::kDown};

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += StrCat(i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

std::vector<std::int64_t> ExpectedShape(Shape shape) {
  if (shape.rows == 1) return {shape.cols};
  return {shape.rows, shape.cols};
}

class Assembler {
 public:
  Assembler(const AssembleOptions& options, const std::vector<SourceTensor>& tensors,
            DecoderModel* model, std::vector<std::string>* warnings)
      : options_(options), tensors_(tensors), model_(*model), warnings_(*warnings) {}

  Status Run() {
    HONE_TRY(RefuseAdapter());
    HONE_TRY(Fill(Role::kEmbedding, 0));
    for (std::int64_t layer = 0; layer < model_.spec.num_layers; ++layer) {
      model_.layers.emplace_back();
      for (const Role role : kLayerRoles) HONE_TRY(Fill(role, layer));
      for (const Role role : options_.biases) HONE_TRY(Fill(role, layer));
    }
    HONE_TRY(Fill(Role::kFinalNorm, 0));
    HONE_TRY(FillHead());
    NameUnused();
    return Status();
  }

 private:
  const SourceTensor* Find(const std::string& name) const {
    const auto it = std::lower_bound(
        tensors_.begin(), tensors_.end(), name,
        [](const SourceTensor& tensor, const std::string& n) { return tensor.name < n; });
    return it != tensors_.end() && it->name == name ? &*it : nullptr;
  }

  Status RefuseAdapter() const {
    for (const SourceTensor& tensor : tensors_) {
      if (tensor.name.find(".lora_A") != std::string::npos ||
          tensor.name.find(".lora_B") != std::string::npos) {
        return Status(Code::kUnsupported,
                      StrCat("this looks like a LoRA adapter (tensor ", tensor.name,
                             "); merge it into its base model first"));
      }
    }
    return Status();
  }

  Status Missing(const std::string& name) const {
    std::string message =
        StrCat("tensor ", name, " is missing (the source has ", tensors_.size(), " tensors)");
    // "model.layers.0.x" may be there as "language_model.model.layers.0.x" or "layers.0.x".
    const std::string tail = name.substr(name.find('.') + 1);
    for (const SourceTensor& tensor : tensors_) {
      if (tensor.name == tail || tensor.name.ends_with("." + tail)) {
        message += StrCat("; there is ", tensor.name, ", under a prefix that is not known");
        break;
      }
    }
    return Status(Code::kNotFound, std::move(message));
  }

  Status Fill(Role role, std::int64_t layer) {
    const std::string name = NameOf(*options_.family, options_.style, role, layer);
    const SourceTensor* tensor = Find(name);
    if (tensor == nullptr) return Missing(name);
    return Bind(*tensor, role, layer);
  }

  Status Bind(const SourceTensor& tensor, Role role, std::int64_t layer) {
    used_.insert(tensor.name);
    const Shape expected = RoleShape(model_.spec, role);
    if (tensor.shape != ExpectedShape(expected)) {
      const bool transposed =
          tensor.shape == std::vector<std::int64_t>{expected.cols, expected.rows};
      return Status(
          Code::kDataLoss,
          StrCat("tensor ", tensor.name, " has shape ", ShapeText(tensor.shape), ", expected ",
                 ShapeText(ExpectedShape(expected)), transposed ? "; it looks transposed" : ""));
    }
    if (!tensor.type) {
      return Status(Code::kUnsupported, StrCat("tensor ", tensor.name, " has type ",
                                               tensor.type_name, ", which Hone cannot read"));
    }
    Weight& weight = GetWeight(model_, role, layer);
    weight.name = tensor.name;
    weight.view = {*tensor.type, expected.rows, expected.cols, tensor.data, {}};
    return codec::CheckView(weight.view).Context(StrCat("tensor ", tensor.name));
  }

  // The source may say that the head is the embedding, and may ship a head or not.
  Status FillHead() {
    const std::string name = NameOf(*options_.family, options_.style, Role::kHead, 0);
    const SourceTensor* tensor = Find(name);
    if (tensor == nullptr) {
      if (!options_.tie_head.value_or(true)) {
        return Status(Code::kNotFound,
                      StrCat("tensor ", name, " is missing, and tie_word_embeddings is not true; ",
                             "if the head is the embedding, set it to true in config.json"));
      }
      model_.spec.tied_head = true;
      model_.head = model_.embedding;
      return Status();
    }
    HONE_TRY(Bind(*tensor, Role::kHead, 0));
    model_.spec.tied_head = options_.tie_head.value_or(false) && HeadEqualsEmbedding();
    if (model_.spec.tied_head) {
      model_.head = model_.embedding;
    } else if (options_.tie_head.value_or(false)) {
      warnings_.push_back(StrCat("tie_word_embeddings is true, but ", name, " differs from ",
                                 model_.embedding.name, "; the head of the file is used"));
    }
    return Status();
  }

  bool HeadEqualsEmbedding() const {
    const codec::WeightView& a = model_.head.view;
    const codec::WeightView& b = model_.embedding.view;
    if (a.type == b.type) return std::equal(a.codes.begin(), a.codes.end(), b.codes.begin());
    std::vector<float> row_a(static_cast<std::size_t>(a.cols)), row_b(row_a.size());
    for (std::int64_t row = 0; row < a.rows; ++row) {
      ReadRows(model_.head, row, 1, row_a.data());
      ReadRows(model_.embedding, row, 1, row_b.data());
      if (row_a != row_b) return false;
    }
    return true;
  }

  bool NeedsNoWarning(const std::string& name) const {
    return std::any_of(options_.unused_is_fine.begin(), options_.unused_is_fine.end(),
                       [&](std::string_view pattern) {
                         return pattern.starts_with('*') ? name.ends_with(pattern.substr(1))
                                                         : name == pattern;
                       });
  }

  void NameUnused() {
    constexpr std::size_t kShown = 16;
    std::size_t count = 0;
    std::string names;
    for (const SourceTensor& tensor : tensors_) {
      if (used_.contains(tensor.name) || NeedsNoWarning(tensor.name)) continue;
      if (++count <= kShown) names += StrCat(count == 1 ? "" : ", ", tensor.name);
    }
    if (count == 0) return;
    if (count > kShown) names += StrCat(" and ", count - kShown, " more");
    warnings_.push_back(StrCat(count, count == 1 ? " tensor is" : " tensors are",
                               " not used by this model: ", names));
  }

  const AssembleOptions& options_;
  const std::vector<SourceTensor>& tensors_;
  DecoderModel& model_;
  std::vector<std::string>& warnings_;
  std::set<std::string> used_;
};

}  // namespace

std::string NameOf(const Family& family, NameStyle style, Role role, std::int64_t layer) {
  for (const TensorName& entry : family.tensors) {
    if (entry.role != role) continue;
    std::string name = style == NameStyle::kHf ? entry.hf : entry.gguf;
    if (const std::size_t star = name.find('*'); star != std::string::npos) {
      name.replace(star, 1, std::to_string(layer));
    }
    return name;
  }
  return "";
}

Status AssembleWeights(const AssembleOptions& options, const std::vector<SourceTensor>& tensors,
                       DecoderModel* model, std::vector<std::string>* warnings) {
  HONE_CHECK(options.family != nullptr && model->layers.empty());
  return Assembler(options, tensors, model, warnings).Run();
}

}  // namespace hone::model
