// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Puts the tensors of a source into the roles of a model, with every check that this needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "model/arch/family.h"
#include "model/decoder_spec.h"

namespace hone::model {

enum class NameStyle : std::uint8_t { kHf, kGguf };

// A tensor as a file describes it.
struct SourceTensor {
  std::string name;
  std::vector<std::int64_t> shape;        // outermost first
  std::optional<codec::WeightType> type;  // nothing: not a type that can be a weight
  std::string type_name;                  // as the file spells it
  ByteSpan data;
  ByteSpan scales;  // as codec::WeightView has them; empty for most types
};

// Where the text model is in a folder that holds more than that, for example a vision tower.
enum class Nesting : std::uint8_t {
  kNone,
  kOuter,  // language_model.model.layers..., language_model.lm_head
  kInner,  // model.language_model.layers..., lm_head
};

struct AssembleOptions {
  const Family* family = nullptr;
  NameStyle style = NameStyle::kHf;
  Nesting nesting = Nesting::kNone;
  std::vector<Role> biases;      // must be there; all others are left alone
  std::optional<bool> tie_head;  // what the source says; nothing: a missing head means a tied one
  std::vector<std::string> unused_is_fine;  // names or "*"-suffixes that need no warning
};

// "model.layers.3.mlp.up_proj.weight"; "" if the family has no such role.
std::string NameOf(const Family& family, NameStyle style, Role role, std::int64_t layer);

// Fills model's weights; model->spec must be complete except tied_head, which is set here.
// tensors is sorted by name. A missing tensor, a wrong shape or type is named. Tensors that nothing
// uses become one warning.
Status AssembleWeights(const AssembleOptions& options, const std::vector<SourceTensor>& tensors,
                       DecoderModel* model, std::vector<std::string>* warnings);

}  // namespace hone::model
