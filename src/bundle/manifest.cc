// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "bundle/manifest.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/file.h"
#include "bridge/sha256.h"
#include "formats/litertlm/litertlm.h"

namespace hone::bundle {
namespace {

namespace fs = std::filesystem;
namespace litertlm = formats::litertlm;
using litertlm::Section;

constexpr std::size_t kStepBytes = std::size_t{4} << 20;

Result<std::string> HashPart(const MappedFile& map, ByteSpan bytes,
                             const std::atomic<bool>* cancel) {
  bridge::Sha256 hash;
  for (std::size_t at = 0; at < bytes.size(); at += kStepBytes) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return Status(Code::kCancelled, "cancelled");
    }
    const ByteSpan part = bytes.subspan(at, std::min(kStepBytes, bytes.size() - at));
    hash.Update(part);
    map.Release(part);
  }
  return hash.FinishHex();
}

std::string SectionName(const Section& section) {
  std::string name = litertlm::SectionTypeName(section.type);
  for (const char* key : {"model_type", "name"}) {
    const std::string_view value = section.Item(key);
    if (!value.empty()) name += " " + std::string(value);
  }
  return name;
}

bool IsBundle(const MappedFile& map) { return AsText(map.bytes()).starts_with("LITERTLM"); }

Result<Json> SectionsOf(const MappedFile& map, const litertlm::Header& header,
                        const std::atomic<bool>* cancel) {
  Json::Array out;
  for (const Section& section : header.sections) {
    const ByteSpan bytes =
        SubSpan(map.bytes(), section.begin, section.end - section.begin).value_or(ByteSpan());
    HONE_ASSIGN(std::string sha256, HashPart(map, bytes, cancel));
    out.emplace_back(Json::Object{{"index", out.size()},
                                  {"name", SectionName(section)},
                                  {"bytes", static_cast<std::uint64_t>(bytes.size())},
                                  {"sha256", std::move(sha256)}});
  }
  return Json(std::move(out));
}

// What hone.json says about where the bundle comes from.
void AddOrigin(const MappedFile& map, const litertlm::Header& header, Json& out) {
  for (const Section& section : header.sections) {
    if (section.type != litertlm::SectionType::kGenericBinaryData ||
        section.Item("name") != "hone.json") {
      continue;
    }
    const auto bytes = SubSpan(map.bytes(), section.begin, section.end - section.begin);
    const auto content = ParseJson(AsText(bytes.value_or(ByteSpan())));
    if (!content.ok()) return;
    const std::pair<const char*, const char*> members[] = {{"architecture", "architecture"},
                                                           {"source", "source"},
                                                           {"recipe", "recipe"},
                                                           {"hone", "made_by"}};
    for (const auto& [from, to] : members) {
      if (const Json* value = content->Find(from)) out.Set(to, *value);
    }
    return;
  }
}

Result<Json> FileFacts(const std::string& path, const std::atomic<bool>* cancel) {
  HONE_ASSIGN(const MappedFile map, MappedFile::Open(path));
  Json out(Json::Object{});
  out.Set("name", fs::path(path).filename().string());
  out.Set("bytes", static_cast<std::uint64_t>(map.bytes().size()));
  HONE_ASSIGN(std::string sha256, HashPart(map, map.bytes(), cancel));
  out.Set("sha256", std::move(sha256));
  if (!IsBundle(map)) return out;
  const auto header = litertlm::ParseHeader(map.bytes(), nullptr);
  if (!header.ok()) return Status(header.code(), StrCat(path, ": ", header.message()));
  AddOrigin(map, *header, out);
  HONE_ASSIGN(Json sections, SectionsOf(map, *header, cancel));
  out.Set("sections", std::move(sections));
  return out;
}

// An entry of a manifest, checked.
struct Expected {
  std::string name, sha256;
  std::uint64_t bytes = 0;
  const Json* sections = nullptr;
};

Result<Expected> ReadEntry(const Json& entry) {
  Expected out;
  HONE_ASSIGN(out.name, GetString(entry, "name"));
  HONE_ASSIGN(out.sha256, GetString(entry, "sha256"));
  HONE_ASSIGN(const std::int64_t bytes, GetInt(entry, "bytes"));
  out.bytes = static_cast<std::uint64_t>(bytes);
  if (out.name.empty() || out.name != fs::path(out.name).filename() || out.name == "..") {
    return Status(Code::kDataLoss, StrCat("name '", out.name, "' is no plain file name"));
  }
  out.sections = entry.Find("sections");
  if (out.sections != nullptr && !out.sections->IsArray()) {
    return Status(Code::kDataLoss, StrCat(out.name, ": sections is no array"));
  }
  return out;
}

struct NamedHash {
  std::string name, sha256;
};

Result<std::vector<NamedHash>> ReadSections(const Json& sections) {
  std::vector<NamedHash> out;
  for (const Json& section : sections.AsArray()) {
    NamedHash entry;
    HONE_ASSIGN(entry.name, GetString(section, "name"));
    HONE_ASSIGN(entry.sha256, GetString(section, "sha256"));
    out.push_back(std::move(entry));
  }
  return out;
}

// Which sections of a bundle are not as the manifest says.
Status CompareSections(const Expected& expected, const MappedFile& map,
                       const std::atomic<bool>* cancel, std::vector<std::string>& differences) {
  const auto header = litertlm::ParseHeader(map.bytes(), nullptr);
  if (!header.ok()) {
    differences.push_back(StrCat("the bundle is damaged: ", header.message()));
    return {};
  }
  HONE_ASSIGN(const Json found, SectionsOf(map, *header, cancel));
  HONE_ASSIGN(const std::vector<NamedHash> now, ReadSections(found));
  HONE_ASSIGN(const std::vector<NamedHash> then, ReadSections(*expected.sections));
  const std::size_t known = differences.size();
  // Sections are found by name: an edit in place moves the ones that it changes.
  std::vector<bool> used(now.size(), false);
  for (const NamedHash& old : then) {
    std::size_t i = 0;
    while (i < now.size() && (used[i] || now[i].name != old.name)) ++i;
    if (i == now.size()) {
      differences.push_back(StrCat("section ", old.name, " is gone"));
      continue;
    }
    used[i] = true;
    if (now[i].sha256 == old.sha256) continue;
    differences.push_back(StrCat("section ", i, " (", old.name, ") differs: SHA-256 ",
                                 now[i].sha256, ", expected ", old.sha256));
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!used[i]) differences.push_back(StrCat("section ", i, " (", now[i].name, ") is new"));
  }
  if (differences.size() == known) {
    differences.push_back(
        "the sections are equal, their order, the header or the space between them differs");
  }
  return {};
}

Status CompareFile(const Expected& expected, const std::string& path,
                   const std::atomic<bool>* cancel, std::vector<std::string>& differences) {
  const auto map = MappedFile::Open(path);
  if (!map.ok()) {
    if (map.code() != Code::kNotFound) return Status(map.code(), std::string(map.message()));
    differences.push_back(StrCat("the file is missing (", path, ")"));
    return {};
  }
  if (map->bytes().size() != expected.bytes) {
    differences.push_back(StrCat("has ", map->bytes().size(), " bytes, expected ", expected.bytes));
  }
  HONE_ASSIGN(const std::string sha256, HashPart(*map, map->bytes(), cancel));
  if (sha256 == expected.sha256) return {};
  differences.push_back(StrCat("SHA-256 ", sha256, ", expected ", expected.sha256));
  if (expected.sections == nullptr) return {};
  return CompareSections(expected, *map, cancel, differences);
}

}  // namespace

Result<Json> MakeManifest(const std::vector<std::string>& files, const std::atomic<bool>* cancel) {
  Json::Array list;
  std::set<std::string> names;
  for (const std::string& file : files) {
    if (!names.insert(fs::path(file).filename().string()).second) {
      return Status(Code::kInvalidArgument,
                    StrCat(file, ": another file has the same name, and a manifest goes by name"));
    }
    HONE_ASSIGN(Json facts, FileFacts(file, cancel));
    list.push_back(std::move(facts));
  }
  return Json(Json::Object{
      {"format", kManifestFormat}, {"hone", HONE_VERSION}, {"files", Json(std::move(list))}});
}

Result<std::vector<ManifestResult>> VerifyManifest(const Json& manifest, const std::string& folder,
                                                   const std::vector<std::string>& files,
                                                   const std::atomic<bool>* cancel) {
  const Json* list = manifest.Find("files");
  const Json* format = manifest.Find("format");
  if (list == nullptr || !list->IsArray() || format == nullptr || !format->IsInt()) {
    return Status(Code::kDataLoss, "no manifest: expected an object with format and files");
  }
  if (format->AsInt() != kManifestFormat) {
    return Status(Code::kUnsupported, StrCat("manifest format ", format->AsInt(), ", ",
                                             kManifestFormat, " is supported"));
  }
  std::vector<ManifestResult> results;
  std::set<std::string> used;
  for (const Json& entry : list->AsArray()) {
    HONE_ASSIGN(const Expected expected, ReadEntry(entry));
    std::string path = (fs::path(folder) / expected.name).string();
    for (const std::string& file : files) {
      if (fs::path(file).filename() != expected.name) continue;
      path = file;
      used.insert(file);
    }
    ManifestResult result;
    result.file = expected.name;
    HONE_TRY(CompareFile(expected, path, cancel, result.differences));
    results.push_back(std::move(result));
  }
  for (const std::string& file : files) {
    if (!used.contains(file)) results.push_back({file, {"is not in the manifest"}});
  }
  return results;
}

}  // namespace hone::bundle
