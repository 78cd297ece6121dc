// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Four 32-bit lanes in the vector types of GCC and Clang: every machine's baseline has them, so
// code over them needs no instruction set of its own. For packing, where memory sets the speed.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/target.h"

namespace hone::kernels::simd {

typedef std::uint32_t U32x4 __attribute__((vector_size(16)));
typedef std::int32_t I32x4 __attribute__((vector_size(16)));
typedef float F32x4 __attribute__((vector_size(16)));

HONE_INLINE U32x4 LoadU32x4(const void* from) {
  U32x4 v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
HONE_INLINE void StoreU32x4(U32x4 v, void* to) { std::memcpy(to, &v, sizeof(v)); }

// Row i of v becomes column i.
HONE_INLINE void Transpose4x4(U32x4 (&v)[4]) {
  const U32x4 a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
  const U32x4 b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
  const U32x4 c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
  const U32x4 d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  v[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  v[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

// The four bytes of each lane, added in pairs: bytes 0 + 1 in the low half, 2 + 3 in the high one.
HONE_INLINE U32x4 AddBytePairs(U32x4 v) { return (v & 0x00ff00ffU) + ((v >> 8) & 0x00ff00ffU); }
// The two halves of each lane, added.
HONE_INLINE U32x4 AddHalves(U32x4 v) { return (v & 0xffffU) + (v >> 16); }

}  // namespace hone::kernels::simd
