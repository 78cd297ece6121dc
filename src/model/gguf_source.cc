// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/gguf/gguf.h"
#include "model/arch/family.h"
#include "model/arch/gguf_keys.h"
#include "model/assemble.h"
#include "model/rope.h"
#include "model/source.h"

namespace hone::model {
namespace {

using formats::GgufFile;

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 24;
constexpr std::int64_t kMaxLayers = 4096;
constexpr const char* kRopeFactors = "rope_freqs.weight";
constexpr const char* kLongFactors = "rope_factors_long.weight";
constexpr const char* kShortFactors = "rope_factors_short.weight";

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
    case 6:
      return codec::WeightType{codec::Coding::kGgufQ5_0, 0};
    case 7:
      return codec::WeightType{codec::Coding::kGgufQ5_1, 0};
    case 8:
      return codec::WeightType{codec::Coding::kGgufQ8_0, 0};
    case 10:
      return codec::WeightType{codec::Coding::kGgufQ2_K, 0};
    case 11:
      return codec::WeightType{codec::Coding::kGgufQ3_K, 0};
    case 12:
      return codec::WeightType{codec::Coding::kGgufQ4_K, 0};
    case 13:
      return codec::WeightType{codec::Coding::kGgufQ5_K, 0};
    case 14:
      return codec::WeightType{codec::Coding::kGgufQ6_K, 0};
    case 30:
      return codec::WeightType{codec::Coding::kBf16, 0};
    default:
      return std::nullopt;
  }
}

Result<std::vector<float>> ReadFactors(const GgufFile& file, const char* name, std::int64_t count) {
  const formats::GgufTensor* tensor = file.FindTensor(name);
  if (tensor == nullptr) return Status(Code::kNotFound, StrCat("tensor ", name, " is missing"));
  if (tensor->type != 0 || tensor->shape != std::vector<std::int64_t>{count}) {
    return Status(Code::kUnsupported, StrCat("tensor ", name, " must be F32 [", count, "]"));
  }
  std::vector<float> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto factor = ReadLe<float>(tensor->data, 4 * i);
    if (!factor || !(*factor > 0) || !std::isfinite(*factor)) {
      return Status(Code::kDataLoss,
                    StrCat("tensor ", name, ": value ", i, " is not a number over 0"));
    }
    out.push_back(*factor);
  }
  return out;
}

Status ReadLongRope(GgufKeys& keys, std::int64_t max_positions, std::int64_t rotary_dim,
                    RopeFacts* facts) {
  facts->kind = RopeKind::kLongRope;
  facts->max_positions = static_cast<double>(max_positions);
  HONE_ASSIGN(facts->original_positions,
              keys.PositiveOr("rope.scaling.original_context_length", facts->max_positions));
  if (!(facts->original_positions > 1 && facts->original_positions < 1e15)) {
    return Status(Code::kDataLoss,
                  StrCat("key ", keys.Full("rope.scaling.original_context_length"), " is ",
                         facts->original_positions, ", expected a number over 1"));
  }
  facts->factor = facts->max_positions / facts->original_positions;
  if (keys.Has("rope.scaling.attn_factor")) {
    HONE_ASSIGN(facts->attention_factor, keys.Positive("rope.scaling.attn_factor"));
  }
  HONE_ASSIGN(facts->short_factor, ReadFactors(keys.file(), kShortFactors, rotary_dim / 2));
  HONE_ASSIGN(facts->long_factor, ReadFactors(keys.file(), kLongFactors, rotary_dim / 2));
  return Status();
}

Result<RopeFacts> ReadRope(const GgufRules& rules, GgufKeys& keys, std::int64_t max_positions,
                           std::int64_t rotary_dim) {
  RopeFacts facts;
  HONE_ASSIGN(facts.theta, keys.PositiveOr("rope.freq_base", 10000));
  if (facts.theta <= 1) {
    return Status(Code::kDataLoss, StrCat("key ", keys.Full("rope.freq_base"), " is ", facts.theta,
                                          ", expected a number over 1"));
  }
  HONE_ASSIGN(facts.factor, keys.PositiveOr("rope.scale_linear", 1));
  HONE_ASSIGN(facts.factor, keys.PositiveOr("rope.scaling.factor", facts.factor));
  HONE_ASSIGN(std::string type, keys.TextOr("rope.scaling.type"));
  const bool has_lists = keys.file().FindTensor(kLongFactors) != nullptr;
  if (rules.longrope && (has_lists || type == "longrope")) {
    HONE_TRY(ReadLongRope(keys, max_positions, rotary_dim, &facts));
    facts.by_max_positions = rules.longrope_by_max;
    return facts;
  }
  if (type.empty()) type = facts.factor == 1 ? "none" : "linear";
  if (type == "none") return facts;
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
  if (file.FindTensor(kRopeFactors) == nullptr) return Status();
  HONE_ASSIGN(const std::vector<float> factors,
              ReadFactors(file, kRopeFactors, static_cast<std::int64_t>(rope->inv_freq.size())));
  for (std::size_t i = 0; i < factors.size(); ++i) rope->inv_freq[i] /= factors[i];
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

Status ReadHeads(const GgufRules& rules, GgufKeys& keys, DecoderSpec* spec,
                 std::int64_t* rotary_dim) {
  HONE_ASSIGN(spec->num_heads, keys.Dimension("attention.head_count"));
  HONE_ASSIGN(spec->num_kv_heads, keys.DimensionOr("attention.head_count_kv", spec->num_heads));
  if (spec->num_heads % spec->num_kv_heads != 0) {
    return Status(Code::kDataLoss,
                  StrCat(keys.Full("attention.head_count"), " (", spec->num_heads,
                         ") is not a multiple of head_count_kv (", spec->num_kv_heads, ")"));
  }
  HONE_ASSIGN(spec->head_dim,
              keys.DimensionOr("attention.key_length", spec->hidden / spec->num_heads));
  HONE_ASSIGN(const std::int64_t value_dim,
              keys.DimensionOr("attention.value_length", spec->head_dim));
  HONE_ASSIGN(*rotary_dim, keys.DimensionOr("rope.dimension_count", spec->head_dim));
  const auto bad = [&](const char* name, std::int64_t value) {
    return Status(Code::kUnsupported,
                  StrCat("key ", keys.Full(name), " is ", value, ", but only the head size ",
                         spec->head_dim, " is supported"));
  };
  if (value_dim != spec->head_dim) return bad("attention.value_length", value_dim);
  if (*rotary_dim > spec->head_dim || (*rotary_dim != spec->head_dim && !rules.partial_rotary)) {
    return bad("rope.dimension_count", *rotary_dim);
  }
  if (spec->head_dim < 2 || spec->head_dim % 2 != 0) {
    return Status(Code::kUnsupported, StrCat("the head size is ", spec->head_dim,
                                             ", but rotary positions need an even number"));
  }
  HONE_ASSIGN(
      const double scale,
      keys.PositiveOr("attention.scale", std::pow(static_cast<double>(spec->head_dim), -0.5)));
  spec->attention_scale = static_cast<float>(scale);
  return Status();
}

Result<DecoderSpec> ReadSpec(const GgufRules& rules, GgufKeys& keys) {
  const GgufFile& file = keys.file();
  DecoderSpec spec;
  HONE_TRY(RefuseSplit(file));
  HONE_ASSIGN(spec.num_layers, keys.Dimension("block_count", kMaxLayers));
  HONE_ASSIGN(spec.hidden, keys.Dimension("embedding_length"));
  HONE_ASSIGN(spec.ffn, keys.Dimension("feed_forward_length"));
  HONE_ASSIGN(spec.max_positions, keys.Dimension("context_length"));
  std::int64_t rotary_dim = 0;
  HONE_TRY(ReadHeads(rules, keys, &spec, &rotary_dim));
  HONE_ASSIGN(const double epsilon, keys.Positive("attention.layer_norm_rms_epsilon"));
  spec.norm_epsilon = static_cast<float>(epsilon);
  HONE_ASSIGN(const RopeFacts rope, ReadRope(rules, keys, spec.max_positions, rotary_dim));
  HONE_ASSIGN(RopeTable table, MakeRopeTable(rope, rotary_dim));
  HONE_TRY(ApplyRopeFactors(file, &table));
  spec.ropes = {std::move(table)};
  const formats::GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) {
    return Status(Code::kNotFound, "tensor token_embd.weight is missing");
  }
  spec.vocab = embedding->shape.empty() ? 0 : embedding->shape[0];
  if (spec.vocab < 1 || spec.vocab > kMaxDimension) {
    return Status(Code::kDataLoss, StrCat("tensor token_embd.weight has ", spec.vocab, " rows"));
  }
  if (rules.read != nullptr) HONE_TRY(rules.read(keys, &spec));
  HONE_TRY(keys.RefuseOthers());
  return spec;
}

Result<const Family*> FindFamily(const GgufFile& file) {
  HONE_ASSIGN(const std::string_view name, file.GetString("general.architecture"));
  std::string known;
  for (const Family* family : Families()) {
    if (family->gguf == nullptr) continue;
    if (name == family->gguf->architecture) return family;
    known += StrCat(known.empty() ? "" : ", ", family->gguf->architecture);
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
  const GgufRules& rules = *family.gguf;
  GgufKeys keys(file, rules.architecture);
  HONE_ASSIGN(out->model.spec, ReadSpec(rules, keys));
  out->model.spec.architecture = family.name;
  std::vector<SourceTensor> tensors;
  tensors.reserve(file.tensors().size());
  for (const formats::GgufTensor& tensor : file.tensors()) {
    tensors.push_back({tensor.name,
                       tensor.shape,
                       WeightTypeOf(tensor.type),
                       formats::GgmlTypeName(tensor.type),
                       tensor.data,
                       {}});
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
  AssembleOptions options;
  options.family = &family;
  options.style = NameStyle::kGguf;
  options.unused_is_fine = {kRopeFactors, kLongFactors, kShortFactors};
  for (const Role role : {Role::kQBias, Role::kKBias, Role::kVBias, Role::kOBias, Role::kGateBias,
                          Role::kUpBias, Role::kDownBias}) {
    // No key says that there are biases: the tensors do.
    if (file.FindTensor(NameOf(family, options.style, role, 0)) != nullptr) {
      options.biases.push_back(role);
    }
  }
  HONE_TRY(AssembleWeights(options, tensors, &out->model, &out->warnings));
  if (!rules.interleaved) return Status();
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

Result<Checkpoint> ReadGguf(std::shared_ptr<const GgufFile> file) {
  const std::string path = file->path();
  auto family = FindFamily(*file);
  if (!family.ok()) return std::move(family).status().Context(path);
  Checkpoint out;
  out.source = path;
  out.model.keep_alive.push_back(file);
  if (Status status = Fill(*file, **family, &out); !status.ok()) {
    // What the file itself says about a key names the path already.
    if (status.message().starts_with(path)) return status;
    return std::move(status).Context(path);
  }
  HONE_ASSIGN(out.text, formats::ReadGgufText(*file));
  return out;
}

Result<Checkpoint> OpenGguf(const std::string& path) {
  HONE_ASSIGN(std::shared_ptr<const GgufFile> file, GgufFile::Open(path));
  return ReadGguf(std::move(file));
}

}  // namespace hone::model
