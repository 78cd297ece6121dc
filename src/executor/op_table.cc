// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
#include "executor/node.h"

namespace hone::executor {

const OpFacts* FindOpFacts(Op op) {
  for (const auto part :
       {ElementwiseOps(), ConvertOps(), LinearOps(), ReduceOps(), ShapeOps(), IndexOps()}) {
    for (const OpFacts& facts : part) {
      if (facts.op == op) return &facts;
    }
  }
  return nullptr;
}

}  // namespace hone::executor
