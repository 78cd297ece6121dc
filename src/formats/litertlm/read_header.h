// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The header of a bundle whose sections may lie in wrong places, for tools that say what is wrong.
#pragma once

#include <cstdint>

#include "formats/litertlm/litertlm.h"

namespace hone::formats::litertlm {

// As ParseHeader, but the places of the sections are not checked: they may overlap and leave the
// file.
Result<Header> ReadHeader(ByteSpan file_bytes, std::uint64_t* header_end);

}  // namespace hone::formats::litertlm
