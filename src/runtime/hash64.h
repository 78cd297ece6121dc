// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// XXH64: a fast hash that finds accidental differences. It is no proof against a forger.
#pragma once

#include <cstdint>

#include "base/span_util.h"

namespace hone::runtime {

// The XXH64 of the bytes, as its specification says.
std::uint64_t Hash64(ByteSpan bytes, std::uint64_t seed = 0);

}  // namespace hone::runtime
