// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Whether a model fits into the memory that is left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace hone::serve {

// Bytes that programs can still take: what the kernel calls available, capped by the memory limit
// of the process's control group. Absent where the system does not tell. root is put before each
// path, for tests.
std::optional<std::uint64_t> AvailableMemory(const std::string& root = "");

// Bytes of the weights at path: a file, or all files directly in a folder. kNotFound, kIo.
Result<std::uint64_t> ModelFileBytes(const std::string& path);

// What loading a model of that many bytes takes, roughly: its weights and room to work.
std::uint64_t LoadBytes(std::uint64_t file_bytes);

}  // namespace hone::serve
