// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Rewrites the tables of a model whose weights stay, and proves on the graph executor that it
// computes what it computed before.
#pragma once

#include <functional>
#include <vector>

#include "bundle/repair.h"
#include "formats/tflite/tflite.h"

namespace hone::bundle {

// A model with other tables. Weights are views of the old model's bytes.
struct RewrittenModel {
  formats::tflite::Model model;
  std::vector<std::vector<std::byte>> storage;  // new constants
};

// Does what options asks for. Counts go to report; nothing changed leaves the counts as they are.
RewrittenModel RewriteGraph(const formats::tflite::Model& old, const RepairOptions& options,
                            RepairReport& report);

// Runs both models' signatures on the same inputs and compares every output. kInternal if they
// differ: the file is then not written. Long prefills of large models are left out with a note, but
// decode and the shortest prefill always run.
Status ProveEqual(const formats::tflite::Model& old, const formats::tflite::Model& rewritten,
                  const RepairOptions& options, RepairReport& report);

// The bytes of a model from the first to the last, weights as they lie.
Status StreamModel(const formats::tflite::Model& model,
                   const std::function<Status(ByteSpan)>& sink);

}  // namespace hone::bundle
