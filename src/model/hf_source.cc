// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "formats/hf_config/hf_config.h"
#include "formats/safetensors/safetensors.h"
#include "model/arch/family.h"
#include "model/assemble.h"
#include "model/source.h"

namespace hone::model {
namespace {

std::string KnownClasses() {
  std::string out;
  for (const Family* family : Families()) out += StrCat(out.empty() ? "" : ", ", family->hf_class);
  return out;
}

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

Result<const Family*> FindFamily(const Json& config) {
  HONE_ASSIGN(const std::vector<std::string> classes, ReadArchitectures(config));
  const Json* type_json = config.FindNonNull("model_type");
  if (type_json == nullptr || !type_json->IsString()) {
    return Status(Code::kNotFound, StrCat("config.json: key model_type is ",
                                          type_json == nullptr ? "missing" : "not a string"));
  }
  const std::string& type = type_json->AsString();
  for (const Family* family : Families()) {
    const bool type_fits = type == family->model_type;
    const bool class_fits =
        std::find(classes.begin(), classes.end(), family->hf_class) != classes.end();
    if (type_fits && (class_fits || classes.empty())) return family;
    if (type_fits || class_fits) {
      return Status(Code::kUnsupported,
                    StrCat("config.json: architectures says ",
                           classes.empty() ? "nothing" : classes.front(), " but model_type says ",
                           type, "; a ", family->hf_class, " has model_type ", family->model_type));
    }
  }
  return Status(Code::kUnsupported,
                StrCat("config.json: architecture ", classes.empty() ? "(none)" : classes.front(),
                       " (model_type ", type,
                       ") is not supported; known causal language models: ", KnownClasses()));
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

}  // namespace

Result<Checkpoint> OpenHfFolder(const std::string& folder) {
  HONE_ASSIGN(formats::HfFolder hf, formats::ReadHfFolder(folder));
  auto family = FindFamily(hf.config);
  if (!family.ok()) return std::move(family).status().Context(folder);
  auto facts = (*family)->read_config(hf.config);
  if (!facts.ok()) return std::move(facts).status().Context(folder);
  HONE_ASSIGN(formats::SafetensorsCheckpoint files, formats::OpenSafetensors(folder));

  Checkpoint out;
  out.source = folder;
  out.text = std::move(hf.text);
  out.warnings = std::move(facts->warnings);
  out.warnings.insert(out.warnings.end(), files.warnings.begin(), files.warnings.end());
  out.model.spec = std::move(facts->spec);
  out.model.spec.architecture = (*family)->name;
  for (auto& file : files.files) out.model.keep_alive.push_back(std::move(file));

  std::vector<SourceTensor> tensors;
  tensors.reserve(files.tensors.size());
  for (formats::SafetensorsTensor& tensor : files.tensors) {
    tensors.push_back({std::move(tensor.name), std::move(tensor.shape), WeightTypeOf(tensor.dtype),
                       formats::DtypeName(tensor.dtype), tensor.data});
  }
  AssembleOptions options;
  options.family = *family;
  options.biases = std::move(facts->biases);
  options.tie_head = facts->tie_head.value_or(false);
  options.unused_is_fine = {"*rotary_emb.inv_freq"};
  Status status = AssembleWeights(options, tensors, &out.model, &out.warnings);
  if (!status.ok()) return std::move(status).Context(folder);
  return out;
}

}  // namespace hone::model
