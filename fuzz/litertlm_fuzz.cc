// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Headers of bundles and compressed tokenizers.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "formats/litertlm/header_extent.h"
#include "formats/litertlm/litertlm.h"

namespace litertlm = hone::formats::litertlm;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const hone::ByteSpan bytes{reinterpret_cast<const std::byte*>(data), size};
  constexpr std::uint64_t kMaxTokenizer = 1 << 20;
  static_cast<void>(litertlm::InflateTokenizer(bytes, kMaxTokenizer).ok());
  std::vector<std::string> warnings;
  const auto header = litertlm::ParseHeader(bytes, &warnings);
  if (!header.ok()) return 0;
  for (const auto& section : header->sections) {
    if (section.begin > section.end || section.end > size) std::abort();
    const auto part = bytes.subspan(section.begin, section.end - section.begin);
    static_cast<void>(litertlm::InflateTokenizer(part, kMaxTokenizer).ok());
  }
  const auto extent = litertlm::FindHeaderExtent(bytes);
  if (!extent.ok() || extent->live_begin < 32 || extent->live_begin > extent->end) std::abort();
  // Empty sections behind the header, so that the new header can be checked against a small file.
  litertlm::Header moved = *header;
  for (auto& section : moved.sections) {
    section.begin = section.end = litertlm::kSectionAlignment;
  }
  const auto head = litertlm::EncodeHeader(moved);
  if (!head.ok()) return 0;
  std::vector<std::byte> file = *head;
  file.resize(litertlm::kSectionAlignment);
  const auto again = litertlm::ParseHeader(file, nullptr);
  if (!again.ok() || again->sections.size() != header->sections.size()) std::abort();
  return 0;
}
