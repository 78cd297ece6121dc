// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "formats/hf_config/hf_config.h"
#include "formats/safetensors/safetensors.h"
#include "model/arch/config_reader.h"
#include "model/arch/family.h"
#include "model/assemble.h"
#include "model/fp8_source.h"
#include "model/source.h"

namespace hone::model {
namespace {

std::string KnownClasses() {
  std::string out;
  for (const Family* family : Families()) out += StrCat(out.empty() ? "" : ", ", family->hf_class);
  return out;
}

// Classes that put a text model beside a vision tower, and whose text model Hone takes.
struct NestedClass {
  std::string_view hf_class;
  std::string_view model_type;
};
constexpr NestedClass kNested[] = {{"Gemma3ForConditionalGeneration", "gemma3"},
                                   {"Mistral3ForConditionalGeneration", "mistral3"}};

// The entries of config.json's architectures; empty if the key is absent.
Result<std::vector<std::string>> ReadArchitectures(const Json& config) {
  std::vector<std::string> out;
  const Json* json = config.FindNonNull("architectures");
  if (json == nullptr) return out;
  if (!json->IsArray()) {
    return Status(Code::kDataLoss, StrCat("config.json: key architectures is ", json->TypeName(),
                                          ", expected a list of strings"));
  }
  for (const Json& item : json->AsArray()) {
    if (!item.IsString()) {
      return Status(Code::kDataLoss, StrCat("config.json: key architectures holds ",
                                            item.TypeName(), ", expected a list of strings"));
    }
    out.push_back(item.AsString());
  }
  return out;
}

Result<std::string> ReadModelType(const Json& config) {
  const Json* json = config.FindNonNull("model_type");
  if (json == nullptr || !json->IsString()) {
    return Status(Code::kNotFound, StrCat("config.json: key model_type is ",
                                          json == nullptr ? "missing" : "not a string"));
  }
  return json->AsString();
}

// What a model is that Hone does not know, as far as its configuration shows it; "" if it does not.
std::string DescribeOtherKind(const Json& config, const std::string& name) {
  const Json* two_parts = config.FindNonNull("is_encoder_decoder");
  const auto ends = [&](std::string_view part) { return name.ends_with(part); };
  if (two_parts != nullptr && two_parts->IsBool() && two_parts->AsBool()) {
    return "an encoder-decoder, not a causal language model";
  }
  for (const char* key : {"vision_config", "audio_config", "visual"}) {
    if (config.FindNonNull(key) != nullptr) {
      return StrCat("a model with more than text (", key,
                    "); of these Hone takes the text part of Gemma3ForConditionalGeneration and "
                    "Mistral3ForConditionalGeneration only");
    }
  }
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    const Json* json = config.FindNonNull(key);
    if (json != nullptr && json->IsInt() && json->AsInt() > 1) {
      return StrCat("a mixture of experts (", key, ")");
    }
  }
  if (ends("ForMaskedLM") || ends("ForSequenceClassification") || ends("ForTokenClassification") ||
      ends("ForQuestionAnswering") || ends("BertModel") || ends("BertaModel")) {
    return "an encoder or a classifier, not a causal language model";
  }
  if (ends("Model")) return "a model without a language head, not a causal language model";
  return "";
}

Result<const Family*> FindFamily(const Json& config) {
  HONE_ASSIGN(const std::vector<std::string> classes, ReadArchitectures(config));
  HONE_ASSIGN(const std::string type, ReadModelType(config));
  for (const Family* family : Families()) {
    const bool type_fits = type == family->model_type;
    const bool class_fits =
        std::find(classes.begin(), classes.end(), family->hf_class) != classes.end();
    if (type_fits && (class_fits || classes.empty())) return family;
    if (!class_fits && !classes.empty() && !DescribeOtherKind(config, classes.front()).empty()) {
      break;
    }
    if (type_fits || class_fits) {
      return Status(Code::kUnsupported,
                    StrCat("config.json: architectures says ",
                           classes.empty() ? "nothing" : classes.front(), " but model_type says ",
                           type, "; a ", family->hf_class, " has model_type ", family->model_type));
    }
  }
  const std::string name = classes.empty() ? "(none)" : classes.front();
  const std::string kind = DescribeOtherKind(config, name);
  return Status(Code::kUnsupported, StrCat("config.json: architecture ", name, " (model_type ",
                                           type, ") is ", kind.empty() ? "not supported" : kind,
                                           "; known causal language models: ", KnownClasses()));
}

// A configuration whose text model is inside, under text_config.
bool IsNested(const Json& config) {
  auto classes = ReadArchitectures(config);
  const Json* type = config.FindNonNull("model_type");
  if (!classes.ok() || type == nullptr || !type->IsString()) return false;
  return std::any_of(std::begin(kNested), std::end(kNested), [&](const NestedClass& nested) {
    return type->AsString() == nested.model_type &&
           std::find(classes->begin(), classes->end(), nested.hf_class) != classes->end();
  });
}

struct Description {
  const Family* family = nullptr;
  HfFacts facts;
};

Result<Description> Describe(const Json& config) {
  Description out;
  HONE_ASSIGN(out.family, FindFamily(config));
  HONE_ASSIGN(out.facts, out.family->read_config(config));
  // A missing head means a tied one only if the class says so.
  if (!out.facts.tie_head && !out.family->tied_by_default) out.facts.tie_head = false;
  return out;
}

Result<Description> DescribeNested(const Json& config) {
  const Json* text = config.FindNonNull("text_config");
  if (text == nullptr || !text->IsObject()) {
    return Status(Code::kDataLoss, "config.json: key text_config is missing or not an object");
  }
  if (const Json* json = config.FindNonNull("quantization_config"); json != nullptr) {
    return Status(Code::kUnsupported,
                  StrCat("config.json: key quantization_config: the checkpoint is ",
                         DescribeQuantization(*json)));
  }
  auto described = Describe(*text);
  if (!described.ok()) return std::move(described).status().Context("text_config");
  // The outer key counts; without it a missing head means a tied one.
  const Json* tied = config.FindNonNull("tie_word_embeddings");
  if (tied != nullptr && tied->IsBool()) described->facts.tie_head = tied->AsBool();
  return described;
}

std::optional<codec::WeightType> WeightTypeOf(formats::Dtype dtype) {
  switch (dtype) {
    case formats::Dtype::kF32:
      return codec::WeightType{codec::Coding::kF32, 0};
    case formats::Dtype::kF16:
      return codec::WeightType{codec::Coding::kF16, 0};
    case formats::Dtype::kBf16:
      return codec::WeightType{codec::Coding::kBf16, 0};
    default:
      return std::nullopt;
  }
}

// The end of sequence that only the inner configuration names.
void AddNestedEos(const Json& config, formats::TextFacts* text) {
  const Json* text_config = config.FindNonNull("text_config");
  const Json* eos = text_config != nullptr ? text_config->FindNonNull("eos_token_id") : nullptr;
  if (eos == nullptr) return;
  const auto add = [&](const Json& id) {
    if (!id.IsInt() || id.AsInt() < 0) return;
    if (std::find(text->eos_ids.begin(), text->eos_ids.end(), id.AsInt()) == text->eos_ids.end()) {
      text->eos_ids.push_back(id.AsInt());
    }
  };
  if (!eos->IsArray()) return add(*eos);
  for (const Json& id : eos->AsArray()) add(id);
}

// A folder without config.json that is something else than a checkpoint.
Status RefuseOtherFolders(const std::string& folder) {
  if (FileExists(folder + "/config.json")) return Status();
  if (FileExists(folder + "/adapter_config.json")) {
    std::string base = "its base model";
    if (auto text = ReadFile(folder + "/adapter_config.json"); text.ok()) {
      auto json = ParseJson(*text);
      const Json* name = json.ok() ? json->FindNonNull("base_model_name_or_path") : nullptr;
      if (name != nullptr && name->IsString()) base = StrCat("its base model ", name->Dump());
    }
    return Status(Code::kUnsupported,
                  StrCat(folder,
                         ": this is a LoRA adapter (adapter_config.json), not a model; "
                         "merge it into ",
                         base, " first"));
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".gguf") {
      return Status(Code::kUnsupported, StrCat(folder,
                                               ": no config.json here; give the GGUF file "
                                               "itself (",
                                               it->path().filename().string(), ")"));
    }
  }
  return Status();
}

}  // namespace

Result<Checkpoint> OpenHfFolder(const std::string& folder) {
  HONE_TRY(RefuseOtherFolders(folder));
  HONE_ASSIGN(formats::HfFolder hf, formats::ReadHfFolder(folder));
  // FP8 weights are read; every other kind of quantized source is refused by its configuration.
  const Json* found = hf.config.FindNonNull("quantization_config");
  const Json fp8 = found != nullptr && IsReadableFp8(*found) ? *found : Json();
  if (!fp8.IsNull()) hf.config.Set("quantization_config", Json());
  const bool nested = IsNested(hf.config);
  auto described = nested ? DescribeNested(hf.config) : Describe(hf.config);
  if (!described.ok()) return std::move(described).status().Context(folder);
  HfFacts& facts = described->facts;
  HONE_ASSIGN(formats::SafetensorsCheckpoint files, formats::OpenSafetensors(folder));

  Checkpoint out;
  out.source = folder;
  out.text = std::move(hf.text);
  if (nested) AddNestedEos(hf.config, &out.text);
  out.warnings = std::move(facts.warnings);
  out.warnings.insert(out.warnings.end(), files.warnings.begin(), files.warnings.end());
  out.model.spec = std::move(facts.spec);
  out.model.spec.architecture = described->family->name;
  for (auto& file : files.files) out.model.keep_alive.push_back(std::move(file));

  std::vector<SourceTensor> tensors;
  tensors.reserve(files.tensors.size());
  AssembleOptions options;
  for (formats::SafetensorsTensor& tensor : files.tensors) {
    if (nested && tensor.name.starts_with("model.language_model.")) {
      options.nesting = Nesting::kInner;
    } else if (nested && tensor.name.starts_with("language_model.model.")) {
      options.nesting = Nesting::kOuter;
    }
    tensors.push_back({std::move(tensor.name),
                       std::move(tensor.shape),
                       WeightTypeOf(tensor.dtype),
                       formats::DtypeName(tensor.dtype),
                       tensor.data,
                       {}});
  }
  if (!fp8.IsNull()) {
    Status joined = JoinFp8(fp8, &tensors, &out.model.keep_alive);
    if (!joined.ok()) return std::move(joined).Context(folder);
  }
  options.family = described->family;
  options.biases = std::move(facts.biases);
  options.tie_head = facts.tie_head;
  options.unused_is_fine = {"*rotary_emb.inv_freq"};
  // Scales of static activations: Hone's are dynamic.
  if (!fp8.IsNull()) {
    options.unused_is_fine.insert(options.unused_is_fine.end(),
                                  {"*.activation_scale", "*.input_scale"});
  }
  Status status = AssembleWeights(options, tensors, &out.model, &out.warnings);
  if (!status.ok()) return std::move(status).Context(folder);
  return out;
}

}  // namespace hone::model
