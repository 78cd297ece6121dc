// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Numbers in the header of a bundle. Newer writers store each in a table with one field, older
// ones in a struct of the bare number, under the same type number.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <string>

#include "base/span_util.h"
#include "base/status.h"
#include "formats/litertlm/litertlm.h"

namespace hone::formats::litertlm {

// The text of the number at a place in the header's tables. "" for a type that is not a number and
// for a place that leaves the tables.
std::string ReadNumberValue(ByteSpan tables, std::uint64_t at, std::uint8_t value_type);

// The number as a table. kInvalidArgument if the text is not a number of that type.
Result<flatbuffers::Offset<void>> WriteNumberValue(flatbuffers::FlatBufferBuilder& fbb,
                                                   const KeyValue& item);

}  // namespace hone::formats::litertlm
