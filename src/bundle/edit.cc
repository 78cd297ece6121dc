// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/edit.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "bridge/sha256.h"
#include "bundle/edit_metadata.h"
#include "formats/foreign_file.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::KeyValue;
using litertlm::Section;
using litertlm::SectionType;

constexpr std::uint8_t kStringValue = 9;

Status Refuse(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

// Vocabulary and context of the decoder, where its graph can be read.
void ReadGraphFacts(const litertlm::Bundle& bundle, EditFacts& facts) {
  const Section* section = bundle.Find(SectionType::kTfliteModel, "tf_lite_prefill_decode");
  if (section == nullptr) return;
  const auto model = formats::tflite::ReadModel(bundle.SectionBytes(*section));
  if (!model.ok()) return;
  const formats::tflite::SignatureDef* decode = model->FindSignature("decode");
  if (decode == nullptr) return;
  const auto last = [&](std::uint32_t tensor) -> std::optional<std::int64_t> {
    const auto& shape = model->subgraphs[decode->subgraph].tensors[tensor].shape;
    if (shape.empty() || shape.back() < 1) return std::nullopt;
    return shape.back();
  };
  for (const auto& [name, tensor] : decode->outputs) {
    if (name == "logits") facts.vocab = last(tensor);
  }
  for (const auto& [name, tensor] : decode->inputs) {
    if (!facts.context && name.find("mask") != std::string::npos) facts.context = last(tensor);
  }
}

class Planner {
 public:
  Planner(const litertlm::Bundle& bundle, const EditRequest& request)
      : bundle_(bundle), request_(request), header_(bundle.header()) {}

  Result<EditPlan> Run() {
    ReadHoneJson();
    HONE_TRY(EditMessage());
    HONE_TRY(EditToolFamily());
    WriteHoneJson();
    for (const ItemEdit& edit : request_.prefer_activation_type) {
      HONE_TRY(EditItem("prefer_activation_type", edit, {"fp16", "fp32", "fp32_fp16"}));
    }
    for (const ItemEdit& edit : request_.backend_constraint) {
      HONE_TRY(EditItem("backend_constraint", edit, {"cpu", "gpu", "npu", "gpu_artisan"}));
    }
    for (const auto& [key, value] : request_.system) HONE_TRY(EditSystem(key, value));
    if (plan_.changes.empty()) return std::move(plan_);
    auto in_place = PlanInPlace(bundle_.map().bytes(), header_, contents_);
    // The plan looks at the tables again; header_ is what they were before.
    if (bundle_.HeaderChanged()) {
      return Status(Code::kIo, "has changed since it was read; try again");
    }
    HONE_ASSIGN(plan_.in_place, std::move(in_place));
    return std::move(plan_);
  }

 private:
  std::size_t IndexOf(const Section& section) const {
    return static_cast<std::size_t>(&section - bundle_.header().sections.data());
  }

  // hone_json_ stays empty if there is none, or it is no JSON object.
  void ReadHoneJson() {
    for (const Section& section : bundle_.header().sections) {
      if (section.type != SectionType::kGenericBinaryData || section.Item("name") != "hone.json") {
        continue;
      }
      auto parsed = ParseJson(AsText(bundle_.SectionBytes(section)));
      if (parsed.ok() && parsed->IsObject()) hone_json_ = *std::move(parsed);
      hone_section_ = &section;
      return;
    }
  }

  // Only what changed in it is written: another writer's spaces are no change.
  void WriteHoneJson() {
    if (!hone_json_changed_) return;
    contents_.push_back({IndexOf(*hone_section_), hone_json_->Dump(1) + "\n"});
  }

  bool WantsMessage() const {
    const EditRequest& r = request_;
    return r.chat_template || r.stop_ids || !r.add_stop_ids.empty() || r.stop_strings ||
           r.remove_start_token || r.start_token || r.temperature || r.top_p || r.top_k || r.seed ||
           r.max_tokens || r.thinking || !r.channels.empty();
  }

  Status EditMessage() {
    if (!WantsMessage()) return {};
    const Section* section = bundle_.Find(SectionType::kLlmMetadata);
    if (section == nullptr) {
      return Status(Code::kUnsupported, "the bundle has no LlmMetadata section to edit");
    }
    EditFacts facts;
    ReadGraphFacts(bundle_, facts);
    if (const Section* tokenizer = bundle_.Find(SectionType::kHfTokenizerZlib)) {
      HONE_ASSIGN(const std::string json,
                  litertlm::InflateTokenizer(bundle_.SectionBytes(*tokenizer)));
      auto parsed = bridge::Tokenizer::FromJson(json);
      if (!parsed.ok()) return std::move(parsed).status().Context("tokenizer");
      facts.tokenizer = *std::move(parsed);
    } else {
      plan_.warnings.push_back(
          "the bundle has no tokenizer that Hone reads, so ids are checked by number only");
    }
    if (hone_json_) ReadTokenTexts(*hone_json_, facts.text);
    std::string message(AsText(bundle_.SectionBytes(*section)));
    HONE_TRY(EditMetadata(request_, facts, message, plan_));
    if (plan_.changes.empty()) return {};
    contents_.push_back({IndexOf(*section), message});
    if (hone_json_) UpdateHoneJson(message, *section);
    return {};
  }

  Status EditToolFamily() {
    if (!request_.tool_family) return {};
    if (!hone_json_) {
      return Status(Code::kUnsupported,
                    "tool family: the bundle has no readable hone.json to store it in; only "
                    "bundles of hone convert have one");
    }
    const std::string& wanted = *request_.tool_family;
    const Json* stored = hone_json_->Find("tool_family");
    const std::string before = stored == nullptr    ? "none"
                               : stored->IsString() ? stored->AsString()
                                                    : stored->Dump();
    if (before == (wanted.empty() ? "none" : wanted)) return {};
    if (wanted.empty()) {
      RemoveToolFamily();
    } else {
      hone_json_->Set("tool_family", wanted);
    }
    hone_json_changed_ = true;
    plan_.changes.push_back({"tool_family", before, wanted.empty() ? "none" : wanted});
    return {};
  }

  bool RemoveToolFamily() {
    return std::erase_if(hone_json_->AsObject(), [](const Json::Member& member) {
             return member.first == "tool_family";
           }) > 0;
  }

  static void ReadTokenTexts(const Json& hone_json, formats::TextFacts& text) {
    const Json* tokens = hone_json.Find("tokens");
    if (tokens == nullptr) return;
    const std::pair<const char*, std::string*> members[] = {{"bos", &text.bos_token},
                                                            {"eos", &text.eos_token},
                                                            {"pad", &text.pad_token},
                                                            {"unk", &text.unk_token}};
    for (const auto& [key, to] : members) {
      const Json* value = tokens->Find(key);
      if (value != nullptr && value->IsString()) *to = value->AsString();
    }
  }

  // hone.json holds hashes of the other sections and of the template; it must not lie.
  void UpdateHoneJson(const std::string& message, const Section& section) {
    const auto metadata = litertlm::ParseLlmMetadata(AsBytes(message));
    const std::string before = hone_json_->Dump(1);
    for (Json::Member& member : hone_json_->AsObject()) {
      Json& value = member.second;
      if (member.first == "sections" && value.IsArray()) {
        for (Json& entry : value.AsArray()) {
          const Json* name = entry.Find("name");
          if (name == nullptr || !name->IsString() ||
              name->AsString() != litertlm::SectionTypeName(section.type)) {
            continue;
          }
          entry.Set("bytes", static_cast<std::uint64_t>(message.size()));
          entry.Set("sha256", bridge::Sha256Hex(AsBytes(message)));
        }
      } else if (member.first == "chat_template" && value.IsObject() && metadata.ok() &&
                 metadata->jinja_prompt_template) {
        value.Set("sha256", bridge::Sha256Hex(AsBytes(*metadata->jinja_prompt_template)));
        if (request_.chat_template) {
          value.Set("source_sha256", bridge::Sha256Hex(AsBytes(*request_.chat_template)));
          value.Set("wrapped", false);
        }
      }
    }
    // It was that of the old template; without it the new one decides.
    if (request_.chat_template && !request_.tool_family && RemoveToolFamily()) {
      plan_.notes.push_back("the tool family of the old template is removed from hone.json");
    }
    if (hone_json_->Dump(1) == before) return;
    hone_json_changed_ = true;
    plan_.notes.push_back("hone.json is written again with the new hashes");
  }

  Status EditItem(const char* key, const ItemEdit& edit,
                  std::initializer_list<std::string_view> allowed) {
    std::string value = LowerCase(edit.value);
    std::erase(value, ' ');
    const bool list = std::string_view(key) == "backend_constraint";
    for (std::size_t begin = 0; !value.empty() && begin <= value.size();) {
      const std::size_t end = list ? std::min(value.find(',', begin), value.size()) : value.size();
      const std::string word = value.substr(begin, end - begin);
      if (std::find(allowed.begin(), allowed.end(), word) == allowed.end()) {
        return Refuse(
            StrCat(key, ": found '", word, "', expected ", Join(allowed, ", "), " or none"));
      }
      begin = end + 1;
    }
    const Section* found = bundle_.Find(SectionType::kTfliteModel, edit.model_type);
    if (found == nullptr) {
      return Refuse(StrCat(key, ": the bundle has no model of type ", edit.model_type));
    }
    Section& section = header_.sections[IndexOf(*found)];
    const std::string before(section.Item(key));
    if (before == value) return {};
    SetItem(section.items, key, value);
    plan_.changes.push_back({StrCat(edit.model_type, " ", key), before.empty() ? "none" : before,
                             value.empty() ? "none" : value});
    return {};
  }

  // Sets the last of equal keys, which is the one that counts; "" removes all of them.
  static void SetItem(std::vector<KeyValue>& items, std::string_view key,
                      const std::string& value) {
    if (value.empty()) {
      std::erase_if(items, [&](const KeyValue& item) { return item.key == key; });
      return;
    }
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
      if (item->key != key) continue;
      item->value = value;
      return;
    }
    items.push_back({.key = std::string(key), .value = value, .value_type = kStringValue});
  }

  Status EditSystem(const std::string& key, const std::string& value) {
    if (key.empty() || !formats::IsUtf8(key) || !formats::IsUtf8(value)) {
      return Refuse("system metadata: a key is empty, or not UTF-8");
    }
    std::string before = "none";
    for (const KeyValue& item : header_.system) {
      if (item.key == key) before = item.value;
    }
    if (before == (value.empty() ? "none" : value)) return {};
    SetItem(header_.system, key, value);
    plan_.changes.push_back({StrCat("system ", key), before, value.empty() ? "none" : value});
    return {};
  }

  const litertlm::Bundle& bundle_;
  const EditRequest& request_;
  litertlm::Header header_;
  std::optional<Json> hone_json_;
  const Section* hone_section_ = nullptr;  // not null with hone_json_
  bool hone_json_changed_ = false;
  std::vector<NewContent> contents_;
  EditPlan plan_;
};

}  // namespace

Json EditPlan::ToJson() const {
  const auto lines = [](const std::vector<std::string>& from) {
    Json::Array out;
    for (const std::string& line : from) out.emplace_back(line);
    return out;
  };
  Json::Array list;
  for (const EditChange& change : changes) {
    list.emplace_back(
        Json::Object{{"field", change.field}, {"before", change.before}, {"after", change.after}});
  }
  std::uint64_t written = 0;
  for (const FileWrite& write : in_place.writes) written += write.bytes.size();
  return Json(Json::Object{{"changes", Json(std::move(list))},
                           {"notes", Json(lines(notes))},
                           {"warnings", Json(lines(warnings))},
                           {"bytes_written", written},
                           {"file_bytes_before", in_place.old_file_bytes},
                           {"file_bytes", in_place.file_bytes},
                           {"unreachable_bytes", in_place.unreachable_bytes}});
}

Result<EditPlan> PlanEdit(const litertlm::Bundle& bundle, const EditRequest& request) {
  auto plan = Planner(bundle, request).Run();
  if (!plan.ok()) return std::move(plan).status().Context(bundle.path());
  return plan;
}

}  // namespace hone::bundle
