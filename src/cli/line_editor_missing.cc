// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Built instead of line_editor.cc with HONE_EDITLINE=OFF.
#include "cli/line_editor.h"

namespace hone::cli {

std::unique_ptr<LineSource> MakeLineEditor(const std::atomic<bool>* /*cancel*/) { return nullptr; }

}  // namespace hone::cli
