// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// What the lifter finds in a graph, in tensor ids. lift_reader.h says how.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/decoder_spec.h"
#include "model/lift_graph.h"
#include "model/lift_value.h"

namespace hone::model {

// What a decoder's graph turned out to be. Numbers are tensor ids; -1: absent.
struct LiftedLinear {
  int weight = -1;
  int bias = -1;
  RowRange rows;  // of both: one matrix can hold several projections
};
struct LiftedLayer {
  int input_norm = -1, ffn_norm = -1, q_norm = -1, k_norm = -1;  // weights
  int post_attention_norm = -1, post_ffn_norm = -1;
  LiftedLinear q, k, v, o, gate, up, down;
  int key_cache = -1, value_cache = -1;    // inputs
  int key_update = -1, value_update = -1;  // what is written
};
struct LiftedDecoder {
  DecoderSpec spec;          // everything but architecture, vocab, tied_head
  int embedding_table = -1;  // if the graph looks ids up itself
  std::vector<LiftedLayer> layers;
  int final_norm = -1;
  LiftedLinear head;
};

// What the graphs of a tf_lite_aux section do for a decoder with a split cache.
struct AuxiliaryFacts {
  std::map<std::string, LiftValue> inputs;  // rope and masks, by the decoder's name
  std::map<std::string, int> cache_axes;    // of positions, by the decoder's name
};
Result<AuxiliaryFacts> ReadAuxiliary(const formats::tflite::Model& model);

// Reads the graph of a decode signature. local_window: positions that a row of the input local_mask
// shows; 0: not known. kUnsupported names the operator that does not fit.
Result<LiftedDecoder> ReadDecoder(LiftGraph& graph, std::int64_t local_window,
                                  const AuxiliaryFacts& auxiliary = {});

// A graph that only looks ids up: rows of a table times a number.
struct LiftedEmbedder {
  int table = -1;
  float multiplier = 1;
};
Result<LiftedEmbedder> ReadEmbedder(LiftGraph& graph);

}  // namespace hone::model
