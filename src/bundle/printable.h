// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Text from a file, safe to print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hone::bundle {

// Without what a terminal would obey; the middle of long text is left out.
std::string Printable(std::string_view text, std::size_t max_columns = 200);

}  // namespace hone::bundle
