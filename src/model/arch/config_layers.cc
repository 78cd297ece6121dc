// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a configuration says about single layers: windows, rope.
#include <algorithm>
#include <utility>

#include "model/arch/config_reader.h"
#include "model/rope.h"

namespace hone::model {
namespace {

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

// The layer's facts, to be changed.
LayerSpec& At(DecoderSpec* spec, std::int64_t layer) {
  spec->layer_specs.resize(static_cast<std::size_t>(spec->num_layers));
  return spec->layer_specs[static_cast<std::size_t>(layer)];
}

bool SameRope(const RopeTable& a, const RopeTable& b) {
  return a.inv_freq == b.inv_freq && a.magnitude == b.magnitude && !a.by_length && !b.by_length;
}

}  // namespace

std::int64_t ConfigReader::Window(bool required) {
  constexpr const char* kKey = "sliding_window";
  if (required && config_.Find(kKey) == nullptr) {
    Fail(Code::kNotFound, StrCat("key ", kKey,
                                 " is missing; add it (null: no window), Hone does "
                                 "not guess it"));
  }
  if (Find(kKey) == nullptr) return 0;
  return Dimension(kKey, std::int64_t{1} << 40);
}

void ConfigReader::Windows(DecoderSpec* spec, std::int64_t window,
                           const std::function<bool(std::int64_t layer)>& is_sliding) {
  const Json* types = Find("layer_types");
  if (!error_.ok()) return;
  const auto count = static_cast<std::size_t>(spec->num_layers);
  if (types != nullptr && (!types->IsArray() || types->AsArray().size() != count)) {
    Fail(Code::kDataLoss, StrCat("key layer_types must be a list of ", count, " layers"));
    return;
  }
  sliding_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    bool sliding = window > 0 && is_sliding(layer);
    if (types != nullptr) {
      const Json& type = types->AsArray()[i];
      sliding = type.IsString() && type.AsString() == kSliding;
      if (!sliding && !(type.IsString() && type.AsString() == kFull)) {
        Fail(Code::kUnsupported, StrCat("key layer_types holds ", type.Dump(), ", but only \"",
                                        kFull, "\" and \"", kSliding, "\" are supported"));
        return;
      }
      if (sliding && window == 0) {
        Fail(Code::kDataLoss,
             StrCat("key layer_types says ", kSliding, " for layer ", i,
                    ", but sliding_window is null or use_sliding_window is not true"));
        return;
      }
    }
    sliding_[i] = sliding;
    // A window that holds every position is none.
    if (sliding && window < spec->max_positions) At(spec, layer).window = window;
  }
}

void ConfigReader::UpperWindows(DecoderSpec* spec) {
  if (!Flag("use_sliding_window")) {
    MarkRead("sliding_window");
    Windows(spec, 0, [](std::int64_t) { return false; });
    return;
  }
  const std::int64_t window = Window(true);
  const Json* first = Find("max_window_layers");
  if (first == nullptr && config_.FindNonNull("layer_types") == nullptr) {
    Fail(Code::kNotFound, "key max_window_layers is missing; add it, Hone does not guess it");
  }
  if (first != nullptr && !(first->IsInt() && first->AsInt() >= 0)) {
    Fail(Code::kDataLoss, StrCat("key max_window_layers is ", first->Dump(), ", expected a count"));
  }
  if (!error_.ok()) return;
  const std::int64_t begin = first == nullptr ? 0 : first->AsInt();
  Windows(spec, window, [&](std::int64_t layer) { return layer >= begin; });
}

void ConfigReader::LayersWithoutRope(DecoderSpec* spec) {
  constexpr const char* kKey = "no_rope_layers";
  const Json* list = Find(kKey);
  MarkRead("no_rope_layer_interval");
  if (list == nullptr) {
    const std::int64_t interval = Dimension("no_rope_layer_interval");
    if (!error_.ok()) return;
    for (std::int64_t layer = interval - 1; layer < spec->num_layers; layer += interval) {
      At(spec, layer).rope = kNoRope;
    }
    return;
  }
  if (!error_.ok()) return;
  if (!list->IsArray() || list->AsArray().size() < static_cast<std::size_t>(spec->num_layers)) {
    Fail(Code::kDataLoss, StrCat("key ", kKey, " must be a list of ", spec->num_layers, " layers"));
    return;
  }
  for (std::int64_t layer = 0; layer < spec->num_layers; ++layer) {
    const Json& flag = list->AsArray()[static_cast<std::size_t>(layer)];
    if (!flag.IsInt() || (flag.AsInt() != 0 && flag.AsInt() != 1)) {
      Fail(Code::kDataLoss, StrCat("key ", kKey, " holds ", flag.Dump(), ", expected 0 or 1"));
      return;
    }
    if (flag.AsInt() == 0) At(spec, layer).rope = kNoRope;
  }
}

// Ministral 3 multiplies queries by 1 + beta log(1 + floor(position / original length)): by 1 for
// the positions before that length.
void ConfigReader::LimitToOriginal(const Json& scaling, DecoderSpec* spec, const RopeRules& rules) {
  constexpr const char* kKey = "llama_4_scaling_beta";
  const Json* beta = scaling.FindNonNull(kKey);
  if (beta == nullptr || (beta->IsNumber() && beta->AsDouble() == 0)) return;
  if (!rules.llama4_scaling) {
    Fail(Code::kUnsupported, StrCat("rope key ", kKey, " is not supported for this architecture"));
    return;
  }
  const Json* original = scaling.FindNonNull("original_max_position_embeddings");
  if (original == nullptr || !original->IsInt() || original->AsInt() < 1) {
    Fail(Code::kDataLoss, "the rope parameters have no original_max_position_embeddings");
    return;
  }
  if (original->AsInt() >= spec->max_positions) return;
  warnings_.push_back(StrCat("positions are limited to ", original->AsInt(), " of ",
                             spec->max_positions, ": beyond that ", kKey,
                             " changes the queries, which Hone does not compute"));
  spec->max_positions = original->AsInt();
}

std::optional<RopeTable> ConfigReader::ReadTable(const Json& config, DecoderSpec* spec,
                                                 const RopeRules& rules) {
  auto facts = ReadRopeFacts(config, spec->max_positions, &warnings_);
  if (!facts.ok()) {
    if (error_.ok()) error_ = std::move(facts).status();
    return std::nullopt;
  }
  if (facts->rotary_fraction != 1 && !rules.partial_rotary) {
    Fail(Code::kUnsupported, StrCat("partial_rotary_factor = ", facts->rotary_fraction,
                                    " is not supported for this architecture"));
    return std::nullopt;
  }
  facts->by_max_positions = rules.longrope_by_max;
  auto table = MakeRopeTable(*facts, spec->head_dim);
  if (!table.ok()) {
    if (error_.ok()) error_ = std::move(table).status().Context("config.json");
    return std::nullopt;
  }
  return *std::move(table);
}

void ConfigReader::Rope(DecoderSpec* spec, const RopeRules& rules) {
  for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters", "rope_local_base_freq",
                          "partial_rotary_factor"}) {
    MarkRead(key);
  }
  if (!error_.ok()) return;
  const Json* parameters = config_.FindNonNull("rope_parameters");
  const bool nested = parameters != nullptr && parameters->IsObject() &&
                      (parameters->Find(kFull) != nullptr || parameters->Find(kSliding) != nullptr);
  if (nested || config_.FindNonNull("rope_local_base_freq") != nullptr) {
    RopeByLayerType(spec, rules);
    return;
  }
  std::optional<RopeTable> table = ReadTable(config_, spec, rules);
  if (!table) return;
  if (table->by_length && table->by_length->kind == RopeByLength::Kind::kDynamicNtk) {
    constexpr double kMost = 1e12;  // a factor may be any number
    spec->max_positions = static_cast<std::int64_t>(
        std::min(kMost, static_cast<double>(spec->max_positions) * table->by_length->factor));
    spec->max_positions = std::max<std::int64_t>(spec->max_positions, 1);
  }
  spec->ropes = {*std::move(table)};
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (const Json* scaling = config_.FindNonNull(key); scaling != nullptr) {
      LimitToOriginal(*scaling, spec, rules);
    }
  }
}

void ConfigReader::RopeByLayerType(DecoderSpec* spec, const RopeRules& rules) {
  if (sliding_.empty()) {
    Fail(Code::kUnsupported, StrCat("rope parameters for each layer type (", kFull, ", ", kSliding,
                                    ") are not supported for this architecture"));
    return;
  }
  // A configuration of its own for each type, as if all layers were of that type.
  Json full(Json::Object{}), sliding(Json::Object{});
  if (const Json* parameters = config_.FindNonNull("rope_parameters"); parameters != nullptr) {
    for (const auto& [type, out] : {std::pair{kFull, &full}, std::pair{kSliding, &sliding}}) {
      const Json* inner = parameters->FindNonNull(type);
      if (inner == nullptr || !inner->IsObject()) {
        Fail(Code::kDataLoss, StrCat("rope_parameters has no object ", type));
        return;
      }
      out->Set("rope_parameters", *inner);
      if (const Json* theta = config_.FindNonNull("rope_theta");
          theta != nullptr && inner->FindNonNull("rope_theta") == nullptr) {
        out->Set("rope_theta", *theta);
      }
    }
    for (const auto& [type, value] : parameters->AsObject()) {
      if (type != kFull && type != kSliding && !value.IsNull()) {
        Fail(Code::kUnsupported, StrCat("rope_parameters has ", type, " beside the layer types"));
        return;
      }
    }
  } else {
    for (const char* key : {"rope_theta", "rope_scaling"}) {
      if (const Json* json = config_.FindNonNull(key); json != nullptr) full.Set(key, *json);
    }
    sliding.Set("rope_theta", *config_.FindNonNull("rope_local_base_freq"));
  }
  for (const char* key : {"partial_rotary_factor", "original_max_position_embeddings"}) {
    if (const Json* json = config_.FindNonNull(key); json != nullptr) {
      full.Set(key, *json);
      sliding.Set(key, *json);
    }
  }
  for (const Json* json : {&full, &sliding}) {
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      if (const Json* part = json->FindNonNull(key)) LimitToOriginal(*part, spec, rules);
    }
  }
  std::optional<RopeTable> full_table = ReadTable(full, spec, rules);
  std::optional<RopeTable> sliding_table = ReadTable(sliding, spec, rules);
  if (!full_table || !sliding_table) return;
  if (full_table->by_length || sliding_table->by_length) {
    Fail(Code::kUnsupported, "rope by layer type whose frequencies change with the length");
    return;
  }
  spec->ropes = {*std::move(full_table)};
  if (SameRope(spec->ropes[0], *sliding_table)) return;
  const bool any_full = std::find(sliding_.begin(), sliding_.end(), false) != sliding_.end();
  const bool any_sliding = std::find(sliding_.begin(), sliding_.end(), true) != sliding_.end();
  if (!any_sliding) return;
  if (!any_full) {
    spec->ropes = {*std::move(sliding_table)};
    return;
  }
  spec->ropes.push_back(*std::move(sliding_table));
  for (std::size_t i = 0; i < sliding_.size(); ++i) {
    if (sliding_[i]) At(spec, static_cast<std::int64_t>(i)).rope = 1;
  }
}

}  // namespace hone::model
