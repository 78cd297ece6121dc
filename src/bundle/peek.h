// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What a bundle holds, as facts and as text.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"
#include "formats/litertlm/litertlm.h"

namespace hone::bundle {

// The facts of a bundle: "file", "bytes", "version", "warnings", "system", "sections" (type, place,
// items), "llm_metadata", "executor_metadata", "tokenizer", "models" and "hone" (the content of
// hone.json). Each model has its signatures, operator counts and "weights": every constant tensor
// once, with shape, precision as it is stored, bytes with scales and share of the section; and
// "bytes_by_precision". A model that Hone cannot read has "error" instead. Damaged sections fail.
Result<Json> PeekBundle(const formats::litertlm::Bundle& bundle);

// The facts as tables for a terminal. Control characters that come from the file are not printed.
std::string PeekText(const Json& facts);

}  // namespace hone::bundle
