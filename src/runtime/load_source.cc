// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/load_source.h"

#include <system_error>
#include <utility>

#include "base/file.h"
#include "formats/gguf/gguf.h"
#include "formats/hf_config/hf_config.h"
#include "model/checkpoint.h"
#include "model/lift.h"
#include "runtime/text_setup.h"

namespace hone::runtime {
namespace {

void Append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// By content where the file can be opened, so that a renamed bundle still opens; by name where not,
// so that the message speaks of the format that the user meant.
bool LooksLikeBundle(const std::string& path) {
  if (IsDirectory(path)) return false;
  if (path.ends_with(".litertlm")) return true;
  auto map = MappedFile::Open(path);
  return map.ok() && AsText(map->bytes()).starts_with("LITERTLM");
}

LoadedSource::TextAndWarnings ReadBundleText(const formats::litertlm::Bundle& bundle,
                                             const std::string& path) {
  std::vector<std::string> warnings;
  auto text = MakeBundleText(bundle, warnings);
  if (!text.ok()) return {std::move(text).status().Context(path), {}};
  return {std::move(text), std::move(warnings)};
}

// False if the system has no thread for it.
bool ReadTextMeanwhile(const std::string& path, LoadedSource& source) {
  try {
    source.text_meanwhile = std::async(std::launch::async, [bundle = source.bundle, path] {
      return ReadBundleText(*bundle, path);
    });
  } catch (const std::system_error&) {
    return false;
  }
  source.text.is_bundle = true;
  return true;
}

Result<LoadedSource> LoadBundle(const std::string& path, SourceParts parts, TextWhen when) {
  LoadedSource source;
  HONE_ASSIGN(source.bundle, formats::litertlm::Bundle::Open(path));
  Append(source.warnings, source.bundle->warnings());
  const bool later = when == TextWhen::kMeanwhile && parts != SourceParts::kModel &&
                     parts != SourceParts::kText && ReadTextMeanwhile(path, source);
  if (parts != SourceParts::kModel && !later) {
    auto text = MakeBundleText(*source.bundle, source.warnings);
    if (!text.ok()) return std::move(text).status().Context(path);
    source.text = *std::move(text);
  }
  if (parts != SourceParts::kText) {
    auto model = model::LiftBundle(source.bundle);
    if (model.ok()) {
      source.model = *std::move(model);
    } else if (model.code() == Code::kUnsupported && parts == SourceParts::kAllOrGraph) {
      source.not_lifted = model.message();
    } else {
      HONE_TRY(source.FinishText());  // the text's error comes first, as without a thread
      return std::move(model).status().Context(path);
    }
  }
  return source;
}

Result<formats::TextFacts> ReadTextFacts(const std::string& path) {
  if (IsDirectory(path)) {
    HONE_ASSIGN(formats::HfFolder folder, formats::ReadHfFolder(path));
    return std::move(folder.text);
  }
  HONE_ASSIGN(const auto file, formats::GgufFile::Open(path));
  return formats::ReadGgufText(*file);
}

Result<LoadedSource> LoadCheckpoint(const std::string& path, SourceParts parts) {
  LoadedSource source;
  formats::TextFacts facts;
  if (parts == SourceParts::kText) {
    HONE_ASSIGN(facts, ReadTextFacts(path));
  } else {
    HONE_ASSIGN(model::Checkpoint checkpoint, model::OpenCheckpoint(path));
    source.model = std::move(checkpoint.model);
    facts = std::move(checkpoint.text);
    Append(source.warnings, checkpoint.warnings);
  }
  if (parts != SourceParts::kModel) {
    auto text = MakeCheckpointText(facts, source.warnings);
    if (!text.ok()) return std::move(text).status().Context(path);
    source.text = *std::move(text);
  }
  return source;
}

}  // namespace

Status LoadedSource::FinishText() {
  if (!text_meanwhile.valid()) return Status();
  TextAndWarnings read = text_meanwhile.get();
  if (!read.text.ok()) return std::move(read.text).status();
  text = *std::move(read.text);
  Append(warnings, read.warnings);
  return Status();
}

Result<LoadedSource> LoadSource(const std::string& path, SourceParts parts, TextWhen text) {
  if (!FileExists(path) && !IsDirectory(path)) {
    return Status(Code::kNotFound,
                  StrCat(path,
                         ": no such file or folder; expected a .litertlm bundle, a .gguf "
                         "file or a checkpoint folder"));
  }
  return LooksLikeBundle(path) ? LoadBundle(path, parts, text) : LoadCheckpoint(path, parts);
}

Result<TextSetup> LoadText(const std::string& path, std::vector<std::string>* warnings) {
  HONE_ASSIGN(LoadedSource source, LoadSource(path, SourceParts::kText));
  if (warnings != nullptr) Append(*warnings, source.warnings);
  return std::move(source.text);
}

Result<model::DecoderModel> LoadModel(const std::string& path, std::vector<std::string>* warnings) {
  HONE_ASSIGN(LoadedSource source, LoadSource(path, SourceParts::kModel));
  if (warnings != nullptr) Append(*warnings, source.warnings);
  return *std::move(source.model);
}

}  // namespace hone::runtime
