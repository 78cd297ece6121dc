// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The kernel of AVX-VNNI once more, with the same dot product as AVX-512 VNNI encodes it:
// processors without AVX-VNNI test it too.
#include <immintrin.h>

#include "kernels/gemm_int8/gemm_int8.h"
#include "kernels/target.h"

#undef HONE_FEATURES_avxvnni
#define HONE_FEATURES_avxvnni "avx2,fma,f16c,avx512f,avx512vl,avx512vnni"
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32(sum, codes, x) _mm256_dpbusd_epi32(sum, codes, x)
#define gemm_i8_i8_f32__6x16c4__avxvnni gemm_i8_i8_f32__6x16c4__avxvnni_evex
#include "kernels/gemm_int8/gemm_int8_avxvnni.cc"
