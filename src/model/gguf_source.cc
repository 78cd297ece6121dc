// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/gguf/gguf.h"
#include "model/arch/family.h"
#include "model/assemble.h"
#include "model/rope.h"
#include "model/source.h"

namespace hone::model {
namespace {

using formats::GgufFile;

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 24;
constexpr const char* kRopeFactors = "rope_freqs.weight";

// The ggml type numbers that can be weights.
std::optional<codec::WeightType> WeightTypeOf(std::uint32_t type) {
  switch (type) {
    case 0:
      return codec::WeightType{codec::Coding::kF32, 0};
    case 1:
      return codec::WeightType{codec::Coding::kF16, 0};
    case 2:
      return codec::WeightType{codec::Coding::kGgufQ4_0, 0};
    case 3:
      return codec::WeightType{codec::Coding::kGgufQ4_1, 0};
    case 8:
      return codec::WeightType{codec::Coding::kGgufQ8_0, 0};
    case 30:
      return codec::WeightType{codec::Coding::kBf16, 0};
    default:
      return std::nullopt;
  }
}

// Keys "<architecture>.<name>" of one file. Errors name the key; the file is added by the caller.
class Keys {
 public:
  Keys(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  std::string Full(std::string_view name) const { return StrCat(prefix_, ".", name); }
  bool Has(std::string_view name) const { return file_.Find(Full(name)) != nullptr; }

  Result<std::int64_t> Dimension(std::string_view name) const {
    HONE_ASSIGN(const std::int64_t value, file_.GetInt(Full(name)));
    if (value < 1 || value > kMaxDimension) {
      return Status(Code::kDataLoss,
                    StrCat("key ", Full(name), " is ", value, ", expected 1 to ", kMaxDimension));
    }
    return value;
  }
  Result<std::int64_t> DimensionOr(std::string_view name, std::int64_t fallback) const {
    if (!Has(name)) return fallback;
    return Dimension(name);
  }
  Result<double> Positive(std::string_view name) const {
    HONE_ASSIGN(const double value, file_.GetDouble(Full(name)));
    if (!(value > 0) || !std::isfinite(value)) {
      return Status(Code::kDataLoss,
                    StrCat("key ", Full(name), " is ", value, ", expected a number over 0"));
    }
    return value;
  }
  Result<double> PositiveOr(std::string_view name, double fallback) const {
    if (!Has(name)) return fallback;
    return Positive(name);
  }

  // Refuses every other number under the prefix that is not off.
  Status RefuseOthers() const {
    constexpr std::string_view kKnown[] = {"block_count",
                                           "embedding_length",
                                           "feed_forward_length",
                                           "attention.head_count",
                                           "attention.head_count_kv",
                                           "attention.layer_norm_rms_epsilon",
                                           "attention.key_length",
                                           "attention.value_length",
                                           "attention.scale",
                                           "rope.freq_base",
                                           "rope.dimension_count",
                                           "context_length",
                                           "vocab_size",
                                           "rope.scaling.type",
                                           "rope.scaling.factor",
                                           "rope.scaling.original_context_length",
                                           "rope.scaling.attn_factor",
                                           "rope.scaling.finetuned",
                                           "rope.scaling.yarn_beta_fast",
                                           "rope.scaling.yarn_beta_slow",
                                           "rope.scale_linear",
                                           "tensor_data_layout"};
    for (const auto& [key, value] : file_.metadata()) {
      if (!key.starts_with(prefix_ + ".")) continue;
      const std::string name = key.substr(prefix_.size() + 1);
      if (std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown)) continue;
      const auto* as_int = std::get_if<std::int64_t>(&value);
      const auto* as_double = std::get_if<double>(&value);
      const auto* as_bool = std::get_if<bool>(&value);
      const bool off = (as_int != nullptr && *as_int == 0) ||
                       (as_double != nullptr && *as_double == 0) ||
                       (as_bool != nullptr && !*as_bool);
      if (!off) {
        return Status(Code::kUnsupported, StrCat("key ", key,
                                                 " is not known for this architecture "
                                                 "and may change the numbers"));
      }
    }
    return Status();
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

Result<RopeFacts> ReadRope(const GgufFile& file, const Keys& keys, std::int64_t max_positions) {
  RopeFacts facts;
  HONE_ASSIGN(facts.theta, keys.PositiveOr("rope.freq_base", 10000));
  if (facts.theta <= 1) {
    return Status(Code::kDataLoss, StrCat("key ", keys.Full("rope.freq_base"), " is ", facts.theta,
                                          ", expected a number over 1"));
  }
  HONE_ASSIGN(facts.factor, keys.PositiveOr("rope.scale_linear", 1));
  HONE_ASSIGN(facts.factor, keys.PositiveOr("rope.scaling.factor", facts.factor));
  std::string type = facts.factor == 1 ? "none" : "linear";
  if (keys.Has("rope.scaling.type")) {
    HONE_ASSIGN(const std::string_view text, file.GetString(keys.Full("rope.scaling.type")));
    type = text;
  }
  if (type == "none" || type == "") return facts;
  if (type == "linear") {
    facts.kind = RopeKind::kLinear;
    return facts;
  }
  if (type != "yarn") {
    return Status(Code::kUnsupported, StrCat("key ", keys.Full("rope.scaling.type"), " is \"", type,
                                             "\", which is not supported (known: none, linear, "
                                             "yarn)"));
  }
  facts.kind = RopeKind::kYarn;
  HONE_ASSIGN(facts.original_positions, keys.PositiveOr("rope.scaling.original_context_length",
                                                        static_cast<double>(max_positions)));
  HONE_ASSIGN(facts.beta_fast, keys.PositiveOr("rope.scaling.yarn_beta_fast", 32));
  HONE_ASSIGN(facts.beta_slow, keys.PositiveOr("rope.scaling.yarn_beta_slow", 1));
  HONE_ASSIGN(const double more, keys.PositiveOr("rope.scaling.attn_factor", 1));
  if (more != 1) {
    facts.attention_factor = more * (0.1 * std::log(std::max(facts.factor, 1.0)) + 1.0);
  }
  return facts;
}

// Llama 3 files carry the scaling as one factor for each frequency.
Status ApplyRopeFactors(const GgufFile& file, RopeTable* rope) {
  const formats::GgufTensor* tensor = file.FindTensor(kRopeFactors);
  if (tensor == nullptr) return Status();
  const auto count = static_cast<std::int64_t>(rope->inv_freq.size());
  if (tensor->type != 0 || tensor->shape != std::vector<std::int64_t>{count}) {
    return Status(Code::kUnsupported,
                  StrCat("tensor ", kRopeFactors, " must be F32 [", count, "]"));
  }
  for (std::size_t i = 0; i < rope->inv_freq.size(); ++i) {
    const auto factor = ReadLe<float>(tensor->data, 4 * i);
    if (!factor || !(*factor > 0) || !std::isfinite(*factor)) {
      return Status(Code::kDataLoss,
                    StrCat("tensor ", kRopeFactors, ": value ", i, " is not a number over 0"));
    }
    rope->inv_freq[i] /= *factor;
  }
  return Status();
}

// A model in several files: each has all the metadata and some of the tensors.
Status RefuseSplit(const GgufFile& file) {
  constexpr const char* kCount = "split.count";
  if (file.Find(kCount) == nullptr) return Status();
  HONE_ASSIGN(const std::int64_t count, file.GetInt(kCount));
  if (count <= 1) return Status();
  return Status(Code::kUnsupported,
                StrCat("key ", kCount, " is ", count,
                       ": this is one part of a split model; join the parts first (llama.cpp's "
                       "llama-gguf-split --merge)"));
}

Result<DecoderSpec> ReadSpec(const GgufFile& file, const Keys& keys) {
  DecoderSpec spec;
  HONE_TRY(RefuseSplit(file));
  HONE_TRY(keys.RefuseOthers());
  HONE_ASSIGN(spec.num_layers, keys.Dimension("block_count"));
  HONE_ASSIGN(spec.hidden, keys.Dimension("embedding_length"));
  HONE_ASSIGN(spec.ffn, keys.Dimension("feed_forward_length"));
  HONE_ASSIGN(spec.max_positions, keys.Dimension("context_length"));
  HONE_ASSIGN(spec.num_heads, keys.Dimension("attention.head_count"));
  HONE_ASSIGN(spec.num_kv_heads, keys.DimensionOr("attention.head_count_kv", spec.num_heads));
  if (spec.num_heads % spec.num_kv_heads != 0) {
    return Status(Code::kDataLoss,
                  StrCat(keys.Full("attention.head_count"), " (", spec.num_heads,
                         ") is not a multiple of head_count_kv (", spec.num_kv_heads, ")"));
  }
  HONE_ASSIGN(spec.head_dim,
              keys.DimensionOr("attention.key_length", spec.hidden / spec.num_heads));
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    HONE_ASSIGN(const std::int64_t value, keys.DimensionOr(name, spec.head_dim));
    if (value != spec.head_dim) {
      return Status(Code::kUnsupported,
                    StrCat("key ", keys.Full(name), " is ", value, ", but only the head size ",
                           spec.head_dim, " is supported"));
    }
  }
  if (spec.head_dim < 2 || spec.head_dim % 2 != 0) {
    return Status(Code::kUnsupported, StrCat("the head size is ", spec.head_dim,
                                             ", but rotary positions need an even number"));
  }
  HONE_ASSIGN(const double epsilon, keys.Positive("attention.layer_norm_rms_epsilon"));
  spec.norm_epsilon = static_cast<float>(epsilon);
  HONE_ASSIGN(
      const double scale,
      keys.PositiveOr("attention.scale", std::pow(static_cast<double>(spec.head_dim), -0.5)));
  spec.attention_scale = static_cast<float>(scale);
  HONE_ASSIGN(const RopeFacts rope, ReadRope(file, keys, spec.max_positions));
  HONE_ASSIGN(spec.rope, MakeRopeTable(rope, spec.head_dim));
  HONE_TRY(ApplyRopeFactors(file, &spec.rope));
  const formats::GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) {
    return Status(Code::kNotFound, "tensor token_embd.weight is missing");
  }
  spec.vocab = embedding->shape.empty() ? 0 : embedding->shape[0];
  if (spec.vocab < 1 || spec.vocab > kMaxDimension) {
    return Status(Code::kDataLoss, StrCat("tensor token_embd.weight has ", spec.vocab, " rows"));
  }
  return spec;
}

Result<const Family*> FindFamily(const GgufFile& file) {
  HONE_ASSIGN(const std::string_view name, file.GetString("general.architecture"));
  std::string known;
  for (const Family* family : Families()) {
    if (name == family->name) return family;
    known += StrCat(known.empty() ? "" : ", ", family->name);
  }
  return Status(Code::kUnsupported, StrCat("general.architecture \"", name,
                                           "\" is not supported (known: ", known, ")"));
}

// q and k biases are interleaved like the rows of their weights. They are small: put in order here.
void OrderBias(Weight* bias, std::int64_t head_dim, DecoderModel* model) {
  if (!bias->present()) return;
  const std::vector<float> stored = ReadAll(*bias);
  auto ordered = std::make_shared<std::vector<float>>(stored.size());
  const auto dim = static_cast<std::size_t>(head_dim);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::size_t in_head = i % dim;
    (*ordered)[i] = stored[i - in_head + 2 * (in_head % (dim / 2)) + in_head / (dim / 2)];
  }
  bias->view.type = {codec::Coding::kF32, 0};
  bias->view.codes = std::as_bytes(std::span(*ordered));
  model->keep_alive.push_back(std::move(ordered));
}

Status Fill(const GgufFile& file, const Family& family, Checkpoint* out) {
  const Keys keys(file, family.name);
  HONE_ASSIGN(out->model.spec, ReadSpec(file, keys));
  out->model.spec.architecture = family.name;
  std::vector<SourceTensor> tensors;
  tensors.reserve(file.tensors().size());
  for (const formats::GgufTensor& tensor : file.tensors()) {
    tensors.push_back({tensor.name, tensor.shape, WeightTypeOf(tensor.type),
                       formats::GgmlTypeName(tensor.type), tensor.data});
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
  AssembleOptions options;
  options.family = &family;
  options.style = NameStyle::kGguf;
  options.unused_is_fine = {kRopeFactors};
  for (const Role role : {Role::kQBias, Role::kKBias, Role::kVBias, Role::kOBias, Role::kGateBias,
                          Role::kUpBias, Role::kDownBias}) {
    // No key says that there are biases: the tensors do.
    if (file.FindTensor(NameOf(family, options.style, role, 0)) != nullptr) {
      options.biases.push_back(role);
    }
  }
  HONE_TRY(AssembleWeights(options, tensors, &out->model, &out->warnings));
  const std::int64_t head_dim = out->model.spec.head_dim;
  for (LayerWeights& layer : out->model.layers) {
    layer.q.interleaved_head_dim = head_dim;
    layer.k.interleaved_head_dim = head_dim;
    OrderBias(&layer.q_bias, head_dim, &out->model);
    OrderBias(&layer.k_bias, head_dim, &out->model);
  }
  return Status();
}

}  // namespace

Result<Checkpoint> OpenGguf(const std::string& path) {
  HONE_ASSIGN(const std::shared_ptr<const GgufFile> file, GgufFile::Open(path));
  auto family = FindFamily(*file);
  if (!family.ok()) return std::move(family).status().Context(path);
  Checkpoint out;
  out.source = path;
  out.model.keep_alive.push_back(file);
  if (Status status = Fill(*file, **family, &out); !status.ok()) {
    return std::move(status).Context(path);
  }
  HONE_ASSIGN(out.text, formats::ReadGgufText(*file));
  return out;
}

}  // namespace hone::model
