// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/unpack.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "bundle/pack_proto.h"
#include "bundle/pack_toml.h"
#include "formats/foreign_file.h"

namespace hone::bundle {
namespace {

namespace litertlm = formats::litertlm;
using litertlm::Section;
using litertlm::SectionType;

constexpr std::size_t kCopyBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxNamePart = 80;

std::optional<MessageKind> KindOf(SectionType type) {
  switch (type) {
    case SectionType::kLlmMetadata:
      return MessageKind::kLlmMetadata;
    case SectionType::kExecutorMetadata:
      return MessageKind::kExecutorMetadata;
    case SectionType::kEmbeddingMetadata:
      return MessageKind::kEmbeddingMetadata;
    default:
      return std::nullopt;
  }
}

// A part of a file name made from text of the bundle.
std::string NamePart(std::string_view text) {
  std::string out(text.substr(0, kMaxNamePart));
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return out;
}

// What one section becomes.
struct File {
  std::string name;
  std::string text;  // content that is made here; else the section's bytes
  const Section* section = nullptr;
};

class Unpacker {
 public:
  Unpacker(const litertlm::Bundle& bundle, const std::string& folder, const UnpackOptions& options)
      : bundle_(bundle), folder_(folder), options_(options) {}

  Result<UnpackReport> Run() {
    const std::vector<Section>& sections = bundle_.header().sections;
    for (const litertlm::KeyValue& item : bundle_.header().system) HONE_TRY(CheckItem(item));
    toml_.system = bundle_.header().system;
    for (std::size_t i = 0; i < sections.size(); ++i) {
      HONE_TRY(AddSection(i, sections[i])
                   .Context(StrCat("section ", i, " (", litertlm::SectionTypeName(sections[i].type),
                                   ")"))
                   .Context(bundle_.path()));
    }
    files_.push_back({.name = "model.toml", .text = WriteModelToml(toml_), .section = nullptr});
    HONE_TRY(PrepareFolder());
    for (const File& file : files_) HONE_TRY(Write(file));
    return std::move(report_);
  }

 private:
  Status AddSection(std::size_t index, const Section& section) {
    for (const litertlm::KeyValue& item : section.items) HONE_TRY(CheckItem(item));
    TomlSection entry;
    entry.type = section.type;
    entry.items = section.items;
    if (section.type == SectionType::kTfliteModel || section.type == SectionType::kTfliteWeights) {
      if (section.Item("model_type").empty()) {
        entry.items.insert(entry.items.begin(),
                           {.key = "model_type", .value = "tf_lite_prefill_decode"});
        report_.warnings.push_back(StrCat("section ", index,
                                          " has no model_type; model.toml says prefill_decode, "
                                          "which means the same"));
      }
    }
    if (!BuilderPacks(section.type)) {
      report_.warnings.push_back(StrCat("section ", index, " is of type ",
                                        litertlm::SectionTypeName(section.type),
                                        ", which litert-lm-builder 0.18 cannot pack; hone can"));
    }
    if (const auto kind = KindOf(section.type)) {
      HONE_TRY(AddMessage(index, section, *kind, entry));
    } else {
      entry.data_path = SectionFileName(index, section);
      files_.push_back({.name = entry.data_path, .text = "", .section = &section});
    }
    toml_.sections.push_back(std::move(entry));
    return {};
  }

  // A message becomes text. If that loses something, the bytes are kept beside it and packed.
  Status AddMessage(std::size_t index, const Section& section, MessageKind kind,
                    TomlSection& entry) {
    const ByteSpan bytes = bundle_.SectionBytes(section);
    std::string name = StrCat(TomlSectionType(section.type), "Proto");
    if (!message_names_.insert(name).second) name = StrCat("Section", index, "_", name);
    auto text = MessageToText(kind, bytes);
    const bool carries = text.ok() && TextCarries(kind, bytes, *text);
    if (text.ok()) {
      files_.push_back({.name = name + ".pbtext", .text = *text, .section = nullptr});
    }
    entry.data_path = name + ".pbtext";
    if (carries) return {};
    entry.data_path = name + ".pb";
    files_.push_back({.name = entry.data_path, .text = "", .section = &section});
    report_.warnings.push_back(
        text.ok() ? StrCat(name, ".pbtext does not carry every byte of section ", index,
                           " (fields without a public name, or another encoding), so model.toml "
                           "packs ",
                           name, ".pb; name the .pbtext there to pack what it says")
                  : StrCat("section ", index, " has no text form (", text.message(),
                           "), so model.toml packs ", name, ".pb"));
    return {};
  }

  static std::string SectionFileName(std::size_t index, const Section& section) {
    const std::string start =
        StrCat("Section", index, "_", NamePart(litertlm::SectionTypeName(section.type)));
    const std::string model_type = NamePart(section.Item("model_type"));
    const std::string suffix = model_type.empty() ? "" : "_" + model_type;
    switch (section.type) {
      case SectionType::kTfliteModel:
        return StrCat(start, suffix, ".tflite");
      case SectionType::kTfliteWeights:
        return StrCat(start, suffix, ".weight");
      case SectionType::kSpTokenizer:
        return start + ".spiece";
      case SectionType::kHfTokenizerZlib:
        return start + ".zlib";
      default:
        return start + ".bin";
    }
  }

  Status CheckItem(const litertlm::KeyValue& item) const {
    if (formats::IsUtf8(item.key) && formats::IsUtf8(item.value)) return {};
    return Status(Code::kUnsupported, StrCat(bundle_.path(), ": metadata '", item.key,
                                             "' is not UTF-8, and model.toml must be"));
  }

  Status PrepareFolder() const {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!IsDirectory(folder_)) {
      return Status(Code::kIo, StrCat(folder_, ": cannot make this folder",
                                      error ? StrCat(": ", error.message()) : std::string()));
    }
    for (const File& file : files_) {
      const fs::path path = fs::path(folder_) / file.name;
      const fs::file_status status = fs::symlink_status(path, error);
      if (status.type() == fs::file_type::not_found) continue;
      if (!options_.force || status.type() == fs::file_type::directory) {
        return Status(Code::kInvalidArgument,
                      StrCat(path.string(), ": exists already; give another folder",
                             options_.force ? "" : ", or pass --force to replace it"));
      }
    }
    return {};
  }

  Status Write(const File& file) {
    const std::string path = (std::filesystem::path(folder_) / file.name).string();
    if (file.section == nullptr) {
      HONE_TRY(WriteFileAtomic(path, AsBytes(file.text)));
    } else {
      HONE_TRY(CopySection(path, *file.section));
    }
    report_.files.push_back(file.name);
    return {};
  }

  Status CopySection(const std::string& path, const Section& section) {
    HONE_ASSIGN(const auto out, AtomicFile::Create(path));
    const ByteSpan bytes = bundle_.SectionBytes(section);
    for (std::size_t at = 0; at < bytes.size(); at += kCopyBytes) {
      if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
        return Status(Code::kCancelled, "cancelled");
      }
      const ByteSpan part = bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at));
      HONE_TRY(out->Append(part));
      bundle_.map().Release(part);
      done_ += part.size();
      if (options_.progress) options_.progress(done_, bundle_.map().bytes().size(), path);
    }
    return out->Commit();
  }

  const litertlm::Bundle& bundle_;
  const std::string& folder_;
  const UnpackOptions& options_;
  std::vector<File> files_;
  std::set<std::string> message_names_;
  ModelToml toml_;
  UnpackReport report_;
  std::uint64_t done_ = 0;
};

}  // namespace

Result<UnpackReport> UnpackBundle(const litertlm::Bundle& bundle, const std::string& folder,
                                  const UnpackOptions& options) {
  return Unpacker(bundle, folder, options).Run();
}

}  // namespace hone::bundle
