// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/json.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {

// Adds "signatures", "operators", "weights" and "bytes_by_precision" of a model to an object.
// section_bytes is what shares are of.
void AddModelFacts(const formats::tflite::Model& model, std::uint64_t section_bytes, Json& out);

// Adds the numbers of one {"precision": bytes} object to another.
void AddBytes(const Json& from, Json& to);

}  // namespace hone::bundle
