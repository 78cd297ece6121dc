// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Tells models apart by what decides their numbers.
#pragma once

#include <cstdint>
#include <functional>

#include "base/span_util.h"
#include "base/thread_pool.h"
#include "model/decoder_spec.h"

namespace hone::runtime {

// A hash of the description (all but max_positions) and of every byte of every weight as it is
// stored. Equal hashes of files that nobody forged mean equal numbers; the same numbers stored in
// another way have another hash. Reads all weights, at about the speed of memory; release, which
// may be empty, gets each part that was read.
std::uint64_t ModelHash(const model::DecoderModel& model, ThreadPool& pool,
                        const std::function<void(ByteSpan)>& release);

}  // namespace hone::runtime
