// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which build this is.
#pragma once

namespace hone::cli {

const char* Version();  // "0.1.0"
// The commit that was built, with a + if files had been changed; "" if the build did not know.
const char* Commit();

}  // namespace hone::cli
