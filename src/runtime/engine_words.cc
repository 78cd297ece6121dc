// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine_words.h"

namespace hone::runtime {

EngineWords WordsOf(const Engine& engine) {
  if (engine.runs_graph()) return {.engine = "graph", .compute = "", .kv = ""};
  return {.engine = "kernels",
          .compute = engine.compute() == kernels::Compute::kQ8 ? "q8" : "f32",
          .kv = kernels::KvTypeName(engine.kv_type())};
}

}  // namespace hone::runtime
