// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// How an engine computes, in the words that programs print and their options take.
#pragma once

#include <string>

#include "runtime/engine.h"

namespace hone::runtime {

struct EngineWords {
  std::string engine;       // "kernels" or "graph"
  std::string compute, kv;  // "f32" or "q8"; "f32", "f16" or "int8"; both empty for a graph
};

EngineWords WordsOf(const Engine& engine);

}  // namespace hone::runtime
