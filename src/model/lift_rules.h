// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the lifter finds in a graph, in tensor ids. lift_reader.h says how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/decoder_spec.h"
#include "model/lift_graph.h"

namespace hone::model {

// What a decoder's graph turned out to be. Numbers are tensor ids; -1: absent.
struct LiftedLinear {
  int weight = -1;
  int bias = -1;
};
struct LiftedLayer {
  int input_norm = -1, ffn_norm = -1;  // weights
  LiftedLinear q, k, v, o, gate, up, down;
};
struct LiftedDecoder {
  DecoderSpec spec;          // everything but architecture, vocab, tied_head
  int embedding_table = -1;  // if the graph looks ids up itself
  std::vector<LiftedLayer> layers;
  int final_norm = -1;
  LiftedLinear head;
};

// Reads the graph of a decode signature. kUnsupported names the operator that does not fit.
Result<LiftedDecoder> ReadDecoder(const LiftGraph& graph);

// Reads a graph that only looks ids up; the id of its table.
Result<int> ReadEmbedder(const LiftGraph& graph);

}  // namespace hone::model
