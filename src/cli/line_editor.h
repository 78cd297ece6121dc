// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Editing a line, with the history of lines.
#pragma once

#include <atomic>
#include <memory>

#include "cli/line_source.h"

namespace hone::cli {

// Lines from standard input, which must be a terminal as standard output must, edited with the keys
// of emacs (or those of ~/.editrc). Pasted lines stay together; Alt-Enter begins a new line. The
// history is read and written; what goes wrong with that is a warning. cancel is set by Ctrl-C.
// Null if this build has no line editor (HONE_EDITLINE=OFF) or the terminal cannot move its cursor.
std::unique_ptr<LineSource> MakeLineEditor(const std::atomic<bool>* cancel);

}  // namespace hone::cli
