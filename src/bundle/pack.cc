// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/pack.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "bundle/pack_proto.h"
#include "bundle/pack_toml.h"
#include "exporter/bundle_writer.h"

namespace hone::bundle {
namespace {

namespace fs = std::filesystem;
namespace litertlm = formats::litertlm;
using litertlm::SectionType;

constexpr std::uint64_t kMaxTomlBytes = 16ULL << 20;
constexpr std::uint64_t kMaxMessageBytes = 64ULL << 20;
constexpr std::uint64_t kMaxTokenizerBytes = 256ULL << 20;
constexpr std::size_t kCopyBytes = std::size_t{4} << 20;

// Where a data_path leads. Unless allowed, it must stay inside the folder, also through links.
Result<std::string> ResolveDataPath(const std::string& folder, const std::string& data_path,
                                    bool allow_outside) {
  const fs::path relative(data_path);
  if (data_path.empty() || data_path.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, "data_path: is empty or holds a zero byte");
  }
  const fs::path joined = relative.is_absolute() ? relative : fs::path(folder) / relative;
  if (!FileExists(joined.string())) {
    return Status(Code::kNotFound, StrCat("data_path: ", joined.string(), ": no such file"));
  }
  if (allow_outside) return joined.string();
  std::error_code error;
  const fs::path real = fs::canonical(joined, error);
  const fs::path base = error ? fs::path() : fs::canonical(folder, error);
  const bool inside =
      !error &&
      std::mismatch(base.begin(), base.end(), real.begin(), real.end()).first == base.end();
  if (inside && !relative.is_absolute()) return joined.string();
  return Status(Code::kInvalidArgument,
                StrCat("data_path: '", data_path,
                       "' leads outside the folder of model.toml; pass --allow-outside if you "
                       "trust this file"));
}

bool EndsWith(const std::string& path, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

// The encoded message in a file: by its name, else what it reads as. litert-lm-builder tries the
// binary form first and so do we.
Result<std::string> ReadMessage(MessageKind kind, const std::string& path,
                                const LlmOverrides& overrides) {
  HONE_ASSIGN(std::string bytes, ReadFile(path, kMaxMessageBytes));
  const bool text = EndsWith(path, {".pbtext", ".textproto", ".pbtxt", ".txt"});
  const bool binary = EndsWith(path, {".pb", ".binarypb", ".binpb"});
  if (text || (!binary && !IsBinaryMessage(kind, AsBytes(bytes)))) {
    auto encoded = MessageFromText(kind, bytes);
    if (!encoded.ok()) return std::move(encoded).status().Context(path);
    bytes = *std::move(encoded);
  }
  if (overrides.empty()) return bytes;
  auto changed = ApplyOverrides(AsBytes(bytes), overrides);
  if (!changed.ok()) return std::move(changed).status().Context(path);
  return changed;
}

std::optional<MessageKind> KindOf(SectionType type) {
  if (type == SectionType::kLlmMetadata) return MessageKind::kLlmMetadata;
  if (type == SectionType::kExecutorMetadata) return MessageKind::kExecutorMetadata;
  if (type == SectionType::kEmbeddingMetadata) return MessageKind::kEmbeddingMetadata;
  return std::nullopt;
}

class Packer {
 public:
  Packer(std::string folder, const PackOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  // Everything that can be wrong with the description and the small files is found before the
  // output is begun.
  Status Prepare(const ModelToml& toml) {
    for (std::size_t i = 0; i < toml.sections.size(); ++i) {
      HONE_TRY(PrepareSection(toml.sections[i]).Context(StrCat("[[section]] ", i)));
    }
    return {};
  }

  Status Write(exporter::BundleWriter& writer) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      HONE_TRY(WriteSection(inputs_[i], writer));
    }
    return {};
  }

 private:
  struct Input {
    SectionType type = SectionType::kNone;
    std::vector<litertlm::KeyValue> items;
    std::string path;
    std::optional<std::string> bytes;  // content that is not the file's
  };

  Status PrepareSection(const TomlSection& section) {
    Input input;
    input.type = section.type;
    input.items = section.items;
    HONE_ASSIGN(input.path, ResolveDataPath(folder_, section.data_path, options_.allow_outside));
    if (const auto kind = KindOf(section.type)) {
      HONE_ASSIGN(input.bytes, ReadMessage(*kind, input.path, section.overrides));
    } else if (section.type == SectionType::kHfTokenizerZlib) {
      HONE_TRY(PrepareTokenizer(input));
    }
    std::error_code error;
    total_ += input.bytes ? input.bytes->size() : fs::file_size(input.path, error);
    inputs_.push_back(std::move(input));
    return {};
  }

  static Status PrepareTokenizer(Input& input) {
    if (input.path.ends_with(".zlib")) return {};
    if (!input.path.ends_with(".json")) {
      return Status(Code::kInvalidArgument,
                    StrCat(input.path,
                           ": expected a .json file, or the .zlib file of an unpacked "
                           "bundle"));
    }
    HONE_ASSIGN(const std::string json, ReadFile(input.path, kMaxTokenizerBytes));
    const std::vector<std::byte> packed = litertlm::DeflateTokenizer(json);
    input.bytes = std::string(AsText(packed));
    return {};
  }

  Status WriteSection(Input& input, exporter::BundleWriter& writer) {
    HONE_TRY(writer.Begin(input.type, std::move(input.items)));
    if (input.bytes) {
      HONE_TRY(writer.Append(AsBytes(*input.bytes)));
      done_ += input.bytes->size();
    } else {
      HONE_TRY(CopyFile(input.path, writer));
    }
    writer.End();
    return {};
  }

  Status CopyFile(const std::string& path, exporter::BundleWriter& writer) {
    HONE_ASSIGN(const MappedFile map, MappedFile::Open(path));
    const ByteSpan bytes = map.bytes();
    for (std::size_t at = 0; at < bytes.size(); at += kCopyBytes) {
      if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
        return Status(Code::kCancelled, "cancelled");
      }
      const ByteSpan part = bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at));
      HONE_TRY(writer.Append(part));
      map.Release(part);
      done_ += part.size();
      if (options_.progress) options_.progress(done_, total_, path);
    }
    return {};
  }

  const std::string folder_;
  const PackOptions& options_;
  std::vector<Input> inputs_;
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace

Result<PackReport> PackBundle(const std::string& source, const std::string& out,
                              const PackOptions& options) {
  const std::string toml_path =
      IsDirectory(source) ? (fs::path(source) / "model.toml").string() : source;
  HONE_ASSIGN(const std::string text, ReadFile(toml_path, kMaxTomlBytes));
  auto toml = ParseModelToml(text);
  if (!toml.ok()) return std::move(toml).status().Context(toml_path);
  std::string folder = fs::path(toml_path).parent_path().string();
  if (folder.empty()) folder = ".";
  Packer packer(std::move(folder), options);
  HONE_TRY(packer.Prepare(*toml).Context(toml_path));

  HONE_ASSIGN(exporter::BundleWriter writer, exporter::BundleWriter::Create(out));
  HONE_TRY(packer.Write(writer));
  HONE_ASSIGN(exporter::BundleWriter::Finished finished, writer.Finish(toml->system));
  PackReport report;
  report.bytes = finished.bytes;
  report.sha256 = std::move(finished.sha256);
  report.sections = toml->sections.size();
  return report;
}

}  // namespace hone::bundle
