// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How many threads a job should use when the user names no number, and why.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hone {

struct ThreadChoice {
  int threads = 1;  // at least 1
  std::string why;  // "4 performance cores of 8 processors"
};

// The smallest of: the processors that the affinity mask allows, of them the performance cores
// where the machine has several kinds of core, and the processor quota of the control group or of
// any group above it, rounded down. Facts that the system does not tell set no limit.
ThreadChoice ChooseThreads();

// The same from the files below root ("" is the real machine) for these processors.
ThreadChoice ChooseThreads(std::span<const int> allowed, const std::string& root);

// The processors of this process's affinity mask, in rising order; empty if the system does not
// tell.
std::vector<int> AllowedProcessors();

// The numbers of a list as the kernel writes it, "0-3,8", in rising order; empty if it is not one.
std::vector<int> ParseProcessorList(std::string_view text);

}  // namespace hone
