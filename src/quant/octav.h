// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// OCTAV's clip for the blocks of a row, several blocks at a time.
#pragma once

#include <cstddef>
#include <span>

namespace hone::quant {

// The clip that minimizes the expected squared error of a uniform quantizer: equation (6) of
// "Optimal Clipping and Magnitude-aware Differentiation for Improved Quantization-aware Training"
// (arXiv 2206.06501), a fixed-point iteration of at most 10 steps from 1. It stops early only where
// every later step would give the same value, so that a block's scale does not depend on its
// neighbours.
float OctavClip(std::span<const float> x, int bits);

// clips[b] = OctavClip(row[b * block ...], bits), bit for bit, for all blocks of the row; block is
// a multiple of 8 and clips.size() * block is the length of the row.
void OctavClips(std::span<const float> row, std::size_t block, int bits, std::span<float> clips);

}  // namespace hone::quant
