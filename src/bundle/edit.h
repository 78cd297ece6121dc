// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Changes what a bundle says about text, sampling and backends, in place. See
// docs/guides/edit_a_bundle.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "bundle/edit_write.h"
#include "formats/litertlm/litertlm.h"

namespace hone::bundle {

enum class ThinkingDefault : std::uint8_t { kOn, kOff, kTemplate };

struct ChannelEdit {
  std::string name, start, end;
};

// An item of the section of a model type; an empty value removes it.
struct ItemEdit {
  std::string model_type = "tf_lite_prefill_decode";
  std::string value;
};

// What to change; absent members stay as they are.
struct EditRequest {
  std::optional<std::string> chat_template;
  std::optional<std::vector<std::int32_t>> stop_ids;  // replaces the ids, not the strings
  std::vector<std::int32_t> add_stop_ids;
  std::optional<std::vector<std::string>> stop_strings;  // replaces the strings, not the ids
  bool remove_start_token = false;
  std::optional<std::int32_t> start_token;
  std::optional<float> temperature, top_p;
  std::optional<std::int32_t> top_k, seed;
  std::optional<std::int32_t> max_tokens;
  std::optional<ThinkingDefault> thinking;
  // In hone.json; "" removes it, so that the template decides. Refused for a bundle without one.
  std::optional<std::string> tool_family;
  std::vector<ChannelEdit> channels;  // sets those of the same name, adds the others
  std::vector<ItemEdit> prefer_activation_type, backend_constraint;
  // String values; an empty one removes the key. A number keeps its type.
  std::vector<std::pair<std::string, std::string>> system;
};

struct EditChange {
  std::string field, before, after;
};

struct EditPlan {
  std::vector<EditChange> changes;    // empty: everything is as asked already
  std::vector<std::string> notes;     // facts
  std::vector<std::string> warnings;  // risks
  InPlaceEdit in_place;
  Json ToJson() const;
};

// Refuses what would make the bundle worse, with the reason: a template that does not compile, does
// not render or drops the user's text, an id outside the vocabulary or without a token, no stop
// token left, a beginning token twice, more tokens than the cache has, a thinking default where the
// template has no switch. Nothing is written.
Result<EditPlan> PlanEdit(const formats::litertlm::Bundle& bundle, const EditRequest& request);

}  // namespace hone::bundle
