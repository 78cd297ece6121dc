// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

namespace hone::cli {
namespace {

// Written by cmake/git_commit.cmake.
constexpr const char* kCommit =
#include "hone_commit.inc"
    ;

}  // namespace

const char* Version() { return HONE_VERSION; }
const char* Commit() { return kCommit; }

}  // namespace hone::cli
