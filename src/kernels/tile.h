// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The panel shape that all packed weights share.
#pragma once

#include <cstdint>

namespace hone::kernels {

// Output rows of a packed panel. The last panel of a matrix is padded with rows of zeros.
inline constexpr std::int64_t kPanelRows = 16;

inline std::int64_t CeilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t NumPanels(std::int64_t n) { return CeilDiv(n, kPanelRows); }

}  // namespace hone::kernels
