// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/assemble.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace hone::model {
namespace {

// The roles that every layer has, apart from biases.
std::vector<Role> LayerRoles(const DecoderSpec& spec) {
  const bool has_qk_norm = spec.qk_norm != QkNorm::kNone;
  const std::pair<Role, bool> all[] = {
      {Role::kInputNorm, spec.pre_norm},
      {Role::kQ, true},
      {Role::kK, true},
      {Role::kV, true},
      {Role::kO, true},
      {Role::kQNorm, has_qk_norm},
      {Role::kKNorm, has_qk_norm},
      {Role::kPostAttentionNorm, spec.post_norm},
      {Role::kFfnNorm, spec.pre_norm},
      {Role::kGate, true},
      {Role::kUp, true},
      {Role::kDown, true},
      {Role::kPostFfnNorm, spec.post_norm},
  };
  std::vector<Role> roles;
  for (const auto& [role, there] : all) {
    if (there) roles.push_back(role);
  }
  return roles;
}

bool IsNorm(Role role) {
  switch (role) {
    case Role::kFinalNorm:
    case Role::kInputNorm:
    case Role::kFfnNorm:
    case Role::kPostAttentionNorm:
    case Role::kPostFfnNorm:
    case Role::kQNorm:
    case Role::kKNorm:
      return true;
    default:
      return false;
  }
}

// Tensors that only a certain kind of checkpoint has, and what that kind is.
struct ForeignTensor {
  std::string_view part;  // of the name
  std::string_view what;
};
constexpr ForeignTensor kForeign[] = {
    {".lora_A", "a LoRA adapter; merge it into its base model first"},
    {".lora_B", "a LoRA adapter; merge it into its base model first"},
    {".qzeros", "weights quantized with GPTQ or AWQ; take the original float checkpoint"},
    {".qweight", "weights quantized with GPTQ or AWQ; take the original float checkpoint"},
    {".weight_packed",
     "weights quantized with compressed-tensors; take the original float checkpoint"},
    {".quant_state.bitsandbytes",
     "weights quantized with bitsandbytes; take the original float checkpoint"},
    {".weight_format", "weights quantized with bitsandbytes; take the original float checkpoint"},
    {".SCB", "weights quantized with bitsandbytes; take the original float checkpoint"},
    {".weight_scale_inv",
     "FP8 weights with a scale for each block; take the original bf16 checkpoint"},
    {"_proj_blocks", "MXFP4 weights; take the original bf16 checkpoint"},
    {".trellis", "weights quantized with EXL3; take the original float checkpoint"},
    {".q_weight", "weights quantized with EXL2; take the original float checkpoint"},
};

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
    HONE_TRY(RefuseForeign());
    HONE_TRY(Fill(Role::kEmbedding, 0));
    const std::vector<Role> roles = LayerRoles(model_.spec);
    for (std::int64_t layer = 0; layer < model_.spec.num_layers; ++layer) {
      model_.layers.emplace_back();
      for (const Role role : roles) HONE_TRY(Fill(role, layer));
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

  // The role's tensor as the file names it.
  std::string FileName(Role role, std::int64_t layer) const {
    const std::string name = NameOf(*options_.family, options_.style, role, layer);
    if (options_.nesting == Nesting::kOuter) return "language_model." + name;
    if (options_.nesting == Nesting::kInner && name.starts_with("model.")) {
      return "model.language_model." + name.substr(6);
    }
    return name;
  }

  Status RefuseForeign() const {
    for (const SourceTensor& tensor : tensors_) {
      for (const ForeignTensor& foreign : kForeign) {
        if (tensor.name.find(foreign.part) != std::string::npos) {
          return Status(Code::kUnsupported,
                        StrCat("this looks like ", foreign.what, " (tensor ", tensor.name, ")"));
        }
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
    const std::string name = FileName(role, layer);
    const SourceTensor* tensor = Find(name);
    if (tensor == nullptr) return Missing(name);
    return Bind(*tensor, role, layer);
  }

  // The rows of the role's tensor: all, and those before the role's own. More than the role has if
  // the family keeps several roles in one tensor.
  void CountRows(Role role, std::int64_t* all, std::int64_t* before) const {
    const std::string name = NameOf(*options_.family, options_.style, role, 0);
    *all = 0;
    *before = 0;
    bool found = false;
    for (const TensorName& entry : options_.family->tensors) {
      if (NameOf(*options_.family, options_.style, entry.role, 0) != name) continue;
      found = found || entry.role == role;
      const std::int64_t rows = RoleShape(model_.spec, entry.role).rows;
      *all += rows;
      if (!found) *before += rows;
    }
  }

  Status Bind(const SourceTensor& tensor, Role role, std::int64_t layer) {
    used_.insert(tensor.name);
    const Shape own = RoleShape(model_.spec, role);
    std::int64_t all_rows = 0, rows_before = 0;
    CountRows(role, &all_rows, &rows_before);
    const Shape expected = {all_rows, own.cols};
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
    weight.view = {*tensor.type, expected.rows, expected.cols, tensor.data, tensor.scales};
    HONE_TRY(codec::CheckView(weight.view).Context(StrCat("tensor ", tensor.name)));
    if (all_rows != own.rows) HONE_TRY(TakeRows(rows_before, own.rows, &weight));
    if (IsNorm(role) && options_.style == NameStyle::kHf && options_.family->norms_less_one) {
      AddOne(&weight);
    }
    return Status();
  }

  // A part of a tensor that several roles share. Rows lie one after the other in every coding here,
  // and so do their scales, unless rows share them.
  static Status TakeRows(std::int64_t begin, std::int64_t count, Weight* weight) {
    codec::WeightView& view = weight->view;
    const std::int64_t rows_of_scale = std::max(view.type.block, 1);
    if (!view.scales.empty()) {
      if (begin % rows_of_scale != 0 ||
          (count % rows_of_scale != 0 && begin + count != view.rows)) {
        return Status(Code::kUnsupported,
                      StrCat("tensor ", weight->name, ": rows ", begin, " to ", begin + count,
                             " share scales with other rows (squares of ", rows_of_scale, ")"));
      }
      const codec::WeightType type = view.type;
      const auto before =
          begin == 0 ? std::uint64_t{0} : codec::ScalesBytes(type, begin, view.cols);
      view.scales = view.scales.subspan(before, codec::ScalesBytes(type, count, view.cols));
    }
    const std::size_t row_bytes =
        weight->view.codes.size() / static_cast<std::size_t>(weight->view.rows);
    weight->view.codes = weight->view.codes.subspan(static_cast<std::size_t>(begin) * row_bytes,
                                                    static_cast<std::size_t>(count) * row_bytes);
    weight->view.rows = count;
    weight->name += StrCat("[", begin, ":", begin + count, "]");
    return {};
  }

  void AddOne(Weight* weight) {
    auto values = std::make_shared<std::vector<float>>(ReadAll(*weight));
    for (float& value : *values) value += 1.0f;
    weight->view.type = {codec::Coding::kF32, 0};
    weight->view.codes = std::as_bytes(std::span<const float>(*values));
    model_.keep_alive.push_back(std::move(values));
  }

  // The source may say that the head is the embedding, and may ship a head or not.
  Status FillHead() {
    const std::string name = FileName(Role::kHead, 0);
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

  // Of a tensor beside a nested text model, what it belongs to: "vision_tower". Else "".
  std::string OtherPart(const std::string& name) const {
    constexpr std::string_view kModel = "model.";
    if (options_.nesting == Nesting::kNone) return "";
    std::string_view rest = name;
    if (options_.nesting == Nesting::kInner && rest.starts_with(kModel)) {
      rest.remove_prefix(kModel.size());
    }
    if (rest.starts_with("language_model.") || rest.starts_with("lm_head.")) return "";
    return std::string(rest.substr(0, rest.find('.')));
  }

  void NameUnused() {
    constexpr std::size_t kShown = 16;
    std::size_t count = 0;
    std::string names;
    std::map<std::string, std::size_t> parts;
    for (const SourceTensor& tensor : tensors_) {
      if (used_.contains(tensor.name) || NeedsNoWarning(tensor.name)) continue;
      if (const std::string part = OtherPart(tensor.name); !part.empty()) {
        ++parts[part];
        continue;
      }
      if (++count <= kShown) names += StrCat(count == 1 ? "" : ", ", tensor.name);
    }
    if (!parts.empty()) {
      std::string list;
      for (const auto& [part, tensors] : parts) {
        list += StrCat(list.empty() ? "" : ", ", part, ".*: ", tensors,
                       tensors == 1 ? " tensor" : " tensors");
      }
      warnings_.push_back(StrCat(list, " are left out: only the text model is used"));
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
