// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The facts of a bundle that need its parts together: roles, limits, stops, buffers, runtimes.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace hone::bundle {

// Adds to the facts of PeekBundle: "roles" (stored precision of each role with bytes and bits per
// weight), "limits" (context, prefill ladder, max tokens, memory), "template" (hash), "stops" (ids
// with their text), "largest_buffers" (of each signature, as a GPU holds them) and "runtimes" (what
// LiteRT-LM and Hone will make of the file, with the ids of hone check that say why). num_threads:
// for reading scales and tokenizer.
Status AddCheckedFacts(const std::string& path, int num_threads, Json& facts);

}  // namespace hone::bundle
