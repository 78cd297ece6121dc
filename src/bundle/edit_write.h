// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Changes a bundle in place so that the file is valid at every instant: new sections go behind the
// end, new header tables into free space below the first section, and one write of 16 bytes (the
// end of the header and the offset of its root) switches over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/span_util.h"
#include "base/status.h"
#include "formats/litertlm/litertlm.h"

namespace hone::bundle {

struct NewContent {
  std::size_t section = 0;  // index in the old header
  std::string bytes;
};

struct FileWrite {
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
};

struct InPlaceEdit {
  std::vector<FileWrite> writes;  // in this order, each flushed before the next; the last switches
  std::uint64_t old_file_bytes = 0, file_bytes = 0;
  std::vector<std::byte> old_switch;    // the 16 bytes that the last write replaces
  std::uint64_t unreachable_bytes = 0;  // that belong to nothing afterwards, alignment left out
};

// header: the old one with changed items and system metadata. Sections with new content move to the
// end of the list, since sections are in the order of their places. kUnsupported if the new tables
// do not fit before the first section.
Result<InPlaceEdit> PlanInPlace(ByteSpan file, formats::litertlm::Header header,
                                const std::vector<NewContent>& contents);

// Called after each write with its number; false stops there, as if the machine had.
using AfterWrite = std::function<bool(std::size_t write)>;

// Refuses a file that is no longer as it was planned for, a link, and one that another edit holds.
Status WriteInPlace(const std::string& path, const InPlaceEdit& edit, const AfterWrite& after = {});

}  // namespace hone::bundle
