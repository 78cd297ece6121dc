// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Decoders of GGUF's quantized blocks, one scalar function each. The layouts are those of the GGUF
// specification; docs/formats/gguf.md draws them.
#pragma once

#include <cstddef>

namespace hone::codec {

// Decodes one block: p has the block's bytes, out receives its values. Floats are multiplied and
// added in the order that ggml uses, so results are equal to the bit.
using BlockDecoder = void (*)(const std::byte* p, float* out);

// Blocks of 32 values.
inline constexpr std::size_t kQ40Bytes = 18, kQ41Bytes = 20, kQ50Bytes = 22, kQ51Bytes = 24,
                             kQ80Bytes = 34;
void DecodeQ40(const std::byte* p, float* out);
void DecodeQ41(const std::byte* p, float* out);
void DecodeQ50(const std::byte* p, float* out);
void DecodeQ51(const std::byte* p, float* out);
void DecodeQ80(const std::byte* p, float* out);

// Super-blocks of 256 values with small integer scales inside.
inline constexpr std::size_t kQ2KBytes = 84, kQ3KBytes = 110, kQ4KBytes = 144, kQ5KBytes = 176,
                             kQ6KBytes = 210;
void DecodeQ2K(const std::byte* p, float* out);
void DecodeQ3K(const std::byte* p, float* out);
void DecodeQ4K(const std::byte* p, float* out);
void DecodeQ5K(const std::byte* p, float* out);
void DecodeQ6K(const std::byte* p, float* out);

}  // namespace hone::codec
