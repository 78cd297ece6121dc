// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "exporter/bundle_writer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hone::exporter {

namespace litertlm = formats::litertlm;

Result<BundleWriter> BundleWriter::Create(const std::string& path) {
  BundleWriter writer;
  HONE_ASSIGN(writer.file_, AtomicFile::Create(path));
  // Room for the header, which is known last.
  HONE_TRY(writer.file_->AppendZeros(litertlm::kSectionAlignment));
  return writer;
}

Status BundleWriter::Begin(litertlm::SectionType type, std::vector<litertlm::KeyValue> items) {
  HONE_CHECK(!hash_);
  const std::uint64_t begin = RoundUp(file_->size(), litertlm::kSectionAlignment);
  HONE_TRY(file_->AppendZeros(begin - file_->size()));
  litertlm::Section section;
  section.type = type;
  section.items = std::move(items);
  section.begin = begin;
  header_.sections.push_back(std::move(section));
  hash_.emplace();
  return Status();
}

Status BundleWriter::Append(ByteSpan bytes) {
  HONE_CHECK(hash_);
  hash_->Update(bytes);
  return file_->Append(bytes);
}

void BundleWriter::End() {
  HONE_CHECK(hash_);
  litertlm::Section& section = header_.sections.back();
  section.end = file_->size();
  SectionDigest digest;
  digest.name = litertlm::SectionTypeName(section.type);
  for (const char* key : {"model_type", "name"}) {
    const std::string_view value = section.Item(key);
    if (!value.empty()) digest.name += " " + std::string(value);
  }
  digest.bytes = section.end - section.begin;
  digest.sha256 = hash_->FinishHex();
  digests_.push_back(std::move(digest));
  hash_.reset();
}

std::string BundleWriter::ContentUuid() const {
  bridge::Sha256 content;
  for (const SectionDigest& digest : digests_) {
    content.Update(AsBytes(digest.name));
    content.Update(AsBytes(digest.sha256));
  }
  return UuidFromDigest(content.FinishHex());
}

Result<BundleWriter::Finished> BundleWriter::Finish() {
  return Finish({{.key = "Authors", .value = "Hone"}, {.key = "uuid", .value = ContentUuid()}});
}

Result<BundleWriter::Finished> BundleWriter::Finish(std::vector<litertlm::KeyValue> system) {
  HONE_CHECK(!hash_);
  header_.system = std::move(system);
  HONE_ASSIGN(const std::vector<std::byte> head, litertlm::EncodeHeader(header_));
  HONE_TRY(file_->WriteAt(0, head));

  Finished finished;
  finished.bytes = file_->size();
  bridge::Sha256 whole;
  std::vector<std::byte> part(std::size_t{4} << 20);
  for (std::uint64_t offset = 0; offset < finished.bytes; offset += part.size()) {
    const std::span<std::byte> room(part.data(), static_cast<std::size_t>(std::min<std::uint64_t>(
                                                     part.size(), finished.bytes - offset)));
    HONE_TRY(file_->ReadAt(offset, room));
    whole.Update(room);
  }
  finished.sha256 = whole.FinishHex();
  HONE_TRY(file_->Commit());
  return finished;
}

std::string UuidFromDigest(const std::string& hex) {
  HONE_CHECK(hex.size() >= 32);
  std::string digits = hex.substr(0, 32);
  digits[12] = '8';                                          // version 8
  digits[16] = "89ab"[static_cast<unsigned>(hex[16]) & 3U];  // variant 10xx
  std::string uuid;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) uuid += '-';
    uuid += digits[i];
  }
  return uuid;
}

}  // namespace hone::exporter
