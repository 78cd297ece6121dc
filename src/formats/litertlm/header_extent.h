// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Where the tables of a bundle's header lie, for an editor that puts new ones beside them.
#pragma once

#include <cstdint>

#include "base/span_util.h"
#include "base/status.h"

namespace hone::formats::litertlm {

struct HeaderExtent {
  std::uint64_t end = 0;         // of the header, the number at 24
  std::uint64_t live_begin = 0;  // no table or text that the root reaches begins before this place
};

// file_bytes must be a file that ParseHeader accepts; else kDataLoss.
Result<HeaderExtent> FindHeaderExtent(ByteSpan file_bytes);

}  // namespace hone::formats::litertlm
