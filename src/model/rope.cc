// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

namespace hone::model {
namespace {

Status BadRope(std::string_view what) {
  return Status(Code::kUnsupported, StrCat("config.json: ", what));
}

// theta^(2 i / dim) in float32. The power itself is taken in double and rounded once.
std::vector<float> Powers(double theta, std::int64_t dim) {
  std::vector<float> out(static_cast<std::size_t>(dim / 2));
  const auto base = static_cast<double>(static_cast<float>(theta));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    out[i] = static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  return out;
}

// Long waves are divided by factor, short ones stay, those between are mixed.
void ScaleLlama3(const RopeFacts& facts, std::vector<float>& inv_freq) {
  const auto factor = static_cast<float>(facts.factor);
  const auto original = static_cast<float>(facts.original_positions);
  const auto low = static_cast<float>(facts.low_freq_factor);
  const auto spread = static_cast<float>(facts.high_freq_factor - facts.low_freq_factor);
  const auto long_wave = static_cast<float>(facts.original_positions / facts.low_freq_factor);
  const auto short_wave = static_cast<float>(facts.original_positions / facts.high_freq_factor);
  for (float& f : inv_freq) {
    const float wave = static_cast<float>(2 * std::numbers::pi) / f;
    if (wave > long_wave) {
      f /= factor;
    } else if (wave >= short_wave) {
      const float smooth = (original / wave - low) / spread;
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
}

double YarnMagnitude(double scale, double mscale) {
  return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

float YarnMagnitude(const RopeFacts& facts) {
  if (facts.attention_factor) return static_cast<float>(*facts.attention_factor);
  if (facts.mscale != 0 && facts.mscale_all_dim != 0) {
    return static_cast<float>(YarnMagnitude(facts.factor, facts.mscale) /
                              YarnMagnitude(facts.factor, facts.mscale_all_dim));
  }
  return static_cast<float>(YarnMagnitude(facts.factor, 1));
}

// The dimension that turns num_rotations times over the original context (arXiv 2309.00071, 3.2).
double YarnDimension(const RopeFacts& facts, double num_rotations, double rotary_dim) {
  return rotary_dim * std::log(facts.original_positions / (num_rotations * 2 * std::numbers::pi)) /
         (2 * std::log(facts.theta));
}

std::vector<float> YarnFrequencies(const RopeFacts& facts, std::int64_t rotary_dim) {
  const auto dim = static_cast<double>(rotary_dim);
  double low = YarnDimension(facts, facts.beta_fast, dim);
  double high = YarnDimension(facts, facts.beta_slow, dim);
  if (facts.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  std::vector<float> out = Powers(facts.theta, rotary_dim);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float kept = 1.0f - ramp;
    const float interpolated = 1.0f / (static_cast<float>(facts.factor) * out[i]);
    out[i] = interpolated * (1.0f - kept) + 1.0f / out[i] * kept;
  }
  return out;
}

std::vector<float> PlainFrequencies(double theta, std::int64_t dim) {
  std::vector<float> out = Powers(theta, dim);
  for (float& f : out) f = 1.0f / f;
  return out;
}

// theta such that the slowest frequency stretches by about factor * length / original - (factor -
// 1).
double DynamicTheta(const RopeByLength& rope, std::int64_t length, std::int64_t dim) {
  const double stretch =
      rope.factor * static_cast<double>(length) / static_cast<double>(rope.original_positions) -
      (rope.factor - 1);
  return rope.theta * std::pow(stretch, static_cast<double>(dim) / static_cast<double>(dim - 2));
}

// alpha is fixed; the factor acts beyond original_positions.
Status MakeDynamic(const RopeFacts& facts, std::int64_t dim, RopeTable* table) {
  if (dim < 4) {
    return Status(Code::kUnsupported, StrCat("dynamic rope needs a rotary dimension of at least 4, "
                                             "not ",
                                             dim));
  }
  const double exponent = static_cast<double>(dim) / static_cast<double>(dim - 2);
  const double theta = facts.theta * std::pow(facts.alpha, exponent);
  table->inv_freq = PlainFrequencies(theta, dim);
  if (facts.factor == 1) return Status();
  RopeByLength& by_length = table->by_length.emplace();
  by_length.kind = RopeByLength::Kind::kDynamicNtk;
  by_length.original_positions = static_cast<std::int64_t>(facts.original_positions);
  by_length.theta = theta;
  by_length.factor = facts.factor;
  return Status();
}

// A frequency for each factor of a list.
Result<std::vector<float>> DividedFrequencies(const RopeFacts& facts, std::int64_t dim,
                                              const std::vector<float>& factors, const char* name) {
  std::vector<float> out = Powers(facts.theta, dim);
  if (factors.size() != out.size()) {
    return Status(Code::kDataLoss,
                  StrCat("rope key ", name, " has ", factors.size(), " numbers, expected ",
                         out.size(), " (half of the rotary dimension)"));
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = 1.0f / (factors[i] * out[i]);
  return out;
}

Status MakeLongRope(const RopeFacts& facts, std::int64_t dim, RopeTable* table) {
  HONE_ASSIGN(std::vector<float> brief,
              DividedFrequencies(facts, dim, facts.short_factor, "short_factor"));
  HONE_ASSIGN(std::vector<float> extended,
              DividedFrequencies(facts, dim, facts.long_factor, "long_factor"));
  if (facts.attention_factor) {
    table->magnitude = static_cast<float>(*facts.attention_factor);
  } else if (facts.factor > 1) {
    table->magnitude = static_cast<float>(
        std::sqrt(1 + std::log(facts.factor) / std::log(facts.original_positions)));
  }
  const bool is_extended = facts.max_positions > facts.original_positions;
  if (facts.by_max_positions) {
    table->inv_freq = is_extended ? std::move(extended) : std::move(brief);
    return Status();
  }
  table->inv_freq = std::move(brief);
  if (!is_extended) return Status();
  RopeByLength& by_length = table->by_length.emplace();
  by_length.kind = RopeByLength::Kind::kLongRope;
  by_length.original_positions = static_cast<std::int64_t>(facts.original_positions);
  by_length.long_inv_freq = std::move(extended);
  return Status();
}

// The object that holds the scaling, or null for plain rope.
Result<const Json*> FindScaling(const Json& config) {
  const Json* old_style = config.FindNonNull("rope_scaling");
  const Json* new_style = config.FindNonNull("rope_parameters");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* json = config.FindNonNull(key);
    if (json != nullptr && !json->IsObject()) {
      return BadRope(StrCat("key ", key, " is ", json->TypeName(), ", expected an object or null"));
    }
  }
  if (old_style == nullptr || new_style == nullptr) {
    return old_style != nullptr ? old_style : new_style;
  }
  // transformers writes both in a transition: then every key of the old one must be in the new one.
  for (const auto& [key, value] : old_style->AsObject()) {
    const Json* other = new_style->Find(key == "type" ? "rope_type" : key);
    if (other == nullptr || other->Dump() != value.Dump()) {
      return BadRope(
          StrCat("rope_scaling and rope_parameters disagree about ", key, "; keep the right one"));
    }
  }
  return new_style;
}

Result<double> ReadTheta(const Json& config, const Json* scaling,
                         std::vector<std::string>* warnings) {
  const Json* outer = config.FindNonNull("rope_theta");
  const Json* inner = scaling != nullptr ? scaling->FindNonNull("rope_theta") : nullptr;
  for (const Json* json : {outer, inner}) {
    if (json != nullptr && (!json->IsNumber() || !(json->AsDouble() > 1))) {
      return BadRope(StrCat("rope_theta is ", json->Dump(), ", expected a number over 1"));
    }
  }
  if (outer != nullptr && inner != nullptr && outer->AsDouble() != inner->AsDouble()) {
    return BadRope(StrCat("rope_theta is ", outer->Dump(), " and again ", inner->Dump(),
                          " in the rope parameters; keep the right one"));
  }
  if (inner != nullptr) return inner->AsDouble();
  if (outer != nullptr) return outer->AsDouble();
  warnings->push_back("config.json has no rope_theta: 10000 is used, as Llama does");
  return 10000.0;
}

Result<RopeKind> ReadKind(const Json& scaling) {
  const Json* type = scaling.FindNonNull("type");
  const Json* rope_type = scaling.FindNonNull("rope_type");
  for (const Json* json : {type, rope_type}) {
    if (json != nullptr && !json->IsString()) {
      return BadRope(StrCat("the rope type is ", json->Dump(), ", expected a string"));
    }
  }
  if (type != nullptr && rope_type != nullptr && type->AsString() != rope_type->AsString()) {
    return BadRope(StrCat("the rope type is \"", type->AsString(), "\" and \"",
                          rope_type->AsString(), "\"; keep the right one"));
  }
  const Json* json = rope_type != nullptr ? rope_type : type;
  if (json == nullptr) {
    for (const auto& [key, value] : scaling.AsObject()) {
      if (value.IsObject()) {
        return BadRope(StrCat("rope parameters for each layer type (", key,
                              ") are not supported for this architecture"));
      }
      if (key != "rope_theta" && !value.IsNull()) {
        return BadRope(StrCat("the rope parameters have ", key, " but no rope_type"));
      }
    }
    return RopeKind::kDefault;
  }
  const std::string& name = json->AsString();
  if (name == "default") return RopeKind::kDefault;
  if (name == "linear") return RopeKind::kLinear;
  if (name == "llama3") return RopeKind::kLlama3;
  if (name == "dynamic") return RopeKind::kDynamic;
  // Two old names: Phi-3 was first published with "su" and "yarn".
  const bool has_lists = scaling.FindNonNull("short_factor") != nullptr;
  if (name == "longrope" || name == "su" || (name == "yarn" && has_lists)) {
    return RopeKind::kLongRope;
  }
  if (name == "yarn") return RopeKind::kYarn;
  return BadRope(StrCat("rope type \"", name,
                        "\" is not supported (known: default, linear, dynamic, llama3, longrope, "
                        "yarn)"));
}

// A positive finite number that must be there.
Status ReadPositive(const Json& scaling, const char* key, double* out) {
  const Json* json = scaling.FindNonNull(key);
  if (json == nullptr) return BadRope(StrCat("the rope parameters have no ", key));
  if (!json->IsNumber() || !(json->AsDouble() > 0)) {
    return BadRope(StrCat("rope key ", key, " is ", json->Dump(), ", expected a number over 0"));
  }
  *out = json->AsDouble();
  return Status();
}

// As ReadPositive, but absence keeps *out. Zero counts as absent, as in transformers.
Status ReadOptional(const Json& scaling, const char* key, double* out) {
  const Json* json = scaling.FindNonNull(key);
  if (json == nullptr || (json->IsNumber() && json->AsDouble() == 0)) return Status();
  return ReadPositive(scaling, key, out);
}

// The length before the extension: here or there, and the same in both places.
Status ReadOriginalPositions(const Json& config, const Json& scaling, std::int64_t max_positions,
                             bool required, double* out) {
  constexpr const char* kKey = "original_max_position_embeddings";
  const Json* inner = scaling.FindNonNull(kKey);
  const Json* outer = config.FindNonNull(kKey);
  if (inner != nullptr && outer != nullptr && inner->Dump() != outer->Dump()) {
    return BadRope(StrCat(kKey, " is ", outer->Dump(), " and again ", inner->Dump(),
                          " in the rope parameters; keep the right one"));
  }
  *out = static_cast<double>(max_positions);
  if (inner != nullptr || outer != nullptr) {
    HONE_TRY(ReadPositive(inner != nullptr ? scaling : config, kKey, out));
  } else if (required) {
    return ReadPositive(scaling, kKey, out);
  }
  if (!(*out > 1 && *out < 1e15)) {
    return BadRope(StrCat(kKey, " is ", *out, ", expected a number over 1"));
  }
  return Status();
}

// A list of positive numbers.
Status ReadFactors(const Json& scaling, const char* key, std::vector<float>* out) {
  const Json* json = scaling.FindNonNull(key);
  if (json == nullptr) return BadRope(StrCat("the rope parameters have no ", key));
  if (!json->IsArray()) {
    return BadRope(StrCat("rope key ", key, " is ", json->TypeName(), ", expected a list"));
  }
  for (const Json& item : json->AsArray()) {
    if (!item.IsNumber() || !(item.AsDouble() > 0)) {
      return BadRope(StrCat("rope key ", key, " holds ", item.Dump(), ", expected numbers over 0"));
    }
    out->push_back(static_cast<float>(item.AsDouble()));
  }
  return Status();
}

Status ReadLongRope(const Json& config, const Json& scaling, std::int64_t max_positions,
                    RopeFacts* facts) {
  HONE_TRY(ReadFactors(scaling, "short_factor", &facts->short_factor));
  HONE_TRY(ReadFactors(scaling, "long_factor", &facts->long_factor));
  HONE_TRY(ReadOriginalPositions(config, scaling, max_positions, true, &facts->original_positions));
  facts->max_positions = static_cast<double>(max_positions);
  facts->factor = facts->max_positions / facts->original_positions;
  HONE_TRY(ReadOptional(scaling, "factor", &facts->factor));
  if (scaling.FindNonNull("attention_factor") != nullptr) {
    HONE_TRY(ReadPositive(scaling, "attention_factor", &facts->attention_factor.emplace()));
  }
  return Status();
}

// With alpha (Hunyuan's spelling) theta is scaled once; with factor it grows with the length.
Status ReadDynamic(const Json& scaling, std::int64_t max_positions, RopeFacts* facts) {
  facts->original_positions = static_cast<double>(max_positions);
  if (scaling.FindNonNull("alpha") == nullptr) {
    return ReadPositive(scaling, "factor", &facts->factor);
  }
  HONE_TRY(ReadPositive(scaling, "alpha", &facts->alpha));
  HONE_TRY(ReadOptional(scaling, "factor", &facts->factor));
  if (facts->factor != 1) {
    return BadRope(StrCat("the rope parameters have alpha and factor = ", facts->factor,
                          "; keep one of them"));
  }
  return Status();
}

Status ReadYarn(const Json& scaling, RopeFacts* facts) {
  HONE_TRY(ReadOptional(scaling, "beta_fast", &facts->beta_fast));
  HONE_TRY(ReadOptional(scaling, "beta_slow", &facts->beta_slow));
  HONE_TRY(ReadOptional(scaling, "mscale", &facts->mscale));
  HONE_TRY(ReadOptional(scaling, "mscale_all_dim", &facts->mscale_all_dim));
  if (scaling.FindNonNull("attention_factor") != nullptr) {
    HONE_TRY(ReadPositive(scaling, "attention_factor", &facts->attention_factor.emplace()));
  }
  if (const Json* truncate = scaling.FindNonNull("truncate"); truncate != nullptr) {
    if (!truncate->IsBool()) {
      return BadRope(StrCat("rope key truncate is ", truncate->Dump(), ", expected true or false"));
    }
    facts->truncate = truncate->AsBool();
  }
  return Status();
}

// partial_rotary_factor, outside or inside the rope parameters; absent is 1.
Status ReadFraction(const Json& config, const Json* scaling, double* out) {
  constexpr const char* kKey = "partial_rotary_factor";
  const Json* outer = config.FindNonNull(kKey);
  const Json* inner = scaling != nullptr ? scaling->FindNonNull(kKey) : nullptr;
  for (const Json* json : {outer, inner}) {
    if (json == nullptr) continue;
    if (!json->IsNumber() || !(json->AsDouble() > 0) || json->AsDouble() > 1) {
      return BadRope(StrCat(kKey, " is ", json->Dump(), ", expected a number from 0 to 1"));
    }
    *out = json->AsDouble();
  }
  if (outer != nullptr && inner != nullptr && outer->AsDouble() != inner->AsDouble()) {
    return BadRope(StrCat(kKey, " is ", outer->Dump(), " and again ", inner->Dump(),
                          " in the rope parameters; keep the right one"));
  }
  return Status();
}

// Every key of the rope parameters must be one that the kind reads, or be off.
Status CheckKeys(const Json& scaling, RopeKind kind) {
  constexpr std::string_view kCommon[] = {"type", "rope_type", "rope_theta", "factor",
                                          "original_max_position_embeddings"};
  constexpr std::string_view kLlama3[] = {"low_freq_factor", "high_freq_factor"};
  constexpr std::string_view kYarn[] = {"beta_fast",      "beta_slow", "mscale",
                                        "mscale_all_dim", "truncate",  "attention_factor",
                                        "finetuned"};
  constexpr std::string_view kLongRope[] = {"short_factor", "long_factor", "attention_factor"};
  const auto holds = [](std::span<const std::string_view> list, std::string_view key) {
    return std::find(list.begin(), list.end(), key) != list.end();
  };
  for (const auto& [key, value] : scaling.AsObject()) {
    if (value.IsNull()) continue;
    const bool off = key == "factor" && value.IsNumber() && value.AsDouble() == 1;
    if (holds(kCommon, key) && (kind != RopeKind::kDefault || key != "factor" || off)) continue;
    if (kind == RopeKind::kLlama3 && holds(kLlama3, key)) continue;
    if (kind == RopeKind::kYarn && holds(kYarn, key)) continue;
    if (kind == RopeKind::kLongRope && holds(kLongRope, key)) continue;
    if (kind == RopeKind::kDynamic && key == "alpha") continue;
    // Below: read for every kind, or (Ministral 3) by its family.
    if (key == "partial_rotary_factor" || key == "llama_4_scaling_beta" ||
        key == "max_position_embeddings") {
      continue;
    }
    return BadRope(StrCat("rope key ", key, " = ", value.Dump(), " is not supported here"));
  }
  return Status();
}

}  // namespace

Result<RopeFacts> ReadRopeFacts(const Json& config, std::int64_t max_positions,
                                std::vector<std::string>* warnings) {
  RopeFacts facts;
  HONE_ASSIGN(const Json* scaling, FindScaling(config));
  HONE_ASSIGN(facts.theta, ReadTheta(config, scaling, warnings));
  HONE_TRY(ReadFraction(config, scaling, &facts.rotary_fraction));
  if (scaling == nullptr) return facts;
  HONE_ASSIGN(facts.kind, ReadKind(*scaling));
  HONE_TRY(CheckKeys(*scaling, facts.kind));
  switch (facts.kind) {
    case RopeKind::kDefault:
      return facts;
    case RopeKind::kDynamic:
      HONE_TRY(ReadDynamic(*scaling, max_positions, &facts));
      return facts;
    case RopeKind::kLongRope:
      HONE_TRY(ReadLongRope(config, *scaling, max_positions, &facts));
      return facts;
    case RopeKind::kLinear:
      HONE_TRY(ReadPositive(*scaling, "factor", &facts.factor));
      return facts;
    case RopeKind::kLlama3:
      HONE_TRY(ReadPositive(*scaling, "factor", &facts.factor));
      HONE_TRY(ReadPositive(*scaling, "low_freq_factor", &facts.low_freq_factor));
      HONE_TRY(ReadPositive(*scaling, "high_freq_factor", &facts.high_freq_factor));
      if (facts.high_freq_factor <= facts.low_freq_factor) {
        return BadRope(StrCat("rope key high_freq_factor (", facts.high_freq_factor,
                              ") must be over low_freq_factor (", facts.low_freq_factor, ")"));
      }
      HONE_TRY(
          ReadOriginalPositions(config, *scaling, max_positions, true, &facts.original_positions));
      return facts;
    case RopeKind::kYarn:
      HONE_TRY(ReadPositive(*scaling, "factor", &facts.factor));
      HONE_TRY(ReadYarn(*scaling, &facts));
      HONE_TRY(
          ReadOriginalPositions(config, *scaling, max_positions, false, &facts.original_positions));
      return facts;
  }
  return facts;
}

Result<RopeTable> MakeRopeTable(const RopeFacts& facts, std::int64_t head_dim) {
  RopeTable table;
  const auto dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * facts.rotary_fraction);
  if (dim < 2 || dim % 2 != 0) {
    return Status(Code::kUnsupported, StrCat("partial_rotary_factor ", facts.rotary_fraction,
                                             " turns ", dim, " of ", head_dim,
                                             " dimensions, but rotary positions need an even "
                                             "number"));
  }
  if (facts.kind == RopeKind::kYarn) {
    table.inv_freq = YarnFrequencies(facts, dim);
    table.magnitude = YarnMagnitude(facts);
  } else if (facts.kind == RopeKind::kDynamic) {
    HONE_TRY(MakeDynamic(facts, dim, &table));
  } else if (facts.kind == RopeKind::kLongRope) {
    HONE_TRY(MakeLongRope(facts, dim, &table));
  } else {
    table.inv_freq = PlainFrequencies(facts.theta, dim);
    if (facts.kind == RopeKind::kLinear) {
      for (float& f : table.inv_freq) f /= static_cast<float>(facts.factor);
    } else if (facts.kind == RopeKind::kLlama3) {
      ScaleLlama3(facts, table.inv_freq);
    }
  }
  const auto finite = [](const std::vector<float>& list) {
    return std::all_of(list.begin(), list.end(), [](float f) { return std::isfinite(f); });
  };
  if (!std::isfinite(table.magnitude) || !finite(table.inv_freq) ||
      (table.by_length && !finite(table.by_length->long_inv_freq))) {
    return Status(Code::kDataLoss, "the rope parameters give frequencies that are not finite");
  }
  return table;
}

RopeTable RopeForLength(const RopeTable& table, std::int64_t length) {
  RopeTable out;
  out.inv_freq = table.inv_freq;
  out.magnitude = table.magnitude;
  if (!table.by_length || length <= table.by_length->original_positions) return out;
  if (table.by_length->kind == RopeByLength::Kind::kLongRope) {
    out.inv_freq = table.by_length->long_inv_freq;
  } else {
    const auto dim = static_cast<std::int64_t>(2 * table.inv_freq.size());
    out.inv_freq = PlainFrequencies(DynamicTheta(*table.by_length, length, dim), dim);
  }
  return out;
}

}  // namespace hone::model
