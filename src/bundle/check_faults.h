// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// One way to break a bundle for each id of the table of checks.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bundle/check.h"
#include "bundle/test_bundle.h"

namespace hone::bundle {

struct Fault {
  const char* id;
  // Changes the sections; may be empty.
  void (*edit)(TestBundle& bundle);
  // Changes the bytes of the file; may be empty.
  void (*damage)(std::vector<std::byte>& bytes) = nullptr;
  // Changes what the check is asked for; may be empty.
  void (*options)(CheckOptions& options) = nullptr;
};

std::span<const Fault> ContainerFaults();
std::span<const Fault> TextFaults();
std::span<const Fault> TemplateFaults();
std::span<const Fault> GraphFaults();

}  // namespace hone::bundle
