// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Memory for packed weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace hone::kernels {

struct FreeDeleter {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedBuffer = std::unique_ptr<std::byte[], FreeDeleter>;

// bytes (at least 1) of memory that is not cleared, aligned to a cache line; large buffers ask the
// system for large pages. Null if there is none.
AlignedBuffer AllocateAligned(std::uint64_t bytes);

}  // namespace hone::kernels
