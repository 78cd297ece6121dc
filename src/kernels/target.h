// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Instruction sets by region of a file instead of compiler flags: includes first, then
// HONE_TARGET_BEGIN(avx2), kernels, HONE_TARGET_END. Code of the standard library that is included
// before the region stays at the baseline; tools/check_objects.py proves it.
#pragma once

#define HONE_FEATURES_avx2 "avx2,fma,f16c"
#define HONE_FEATURES_avxvnni "avx2,fma,f16c,avxvnni"
#define HONE_FEATURES_avx512vnni "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"
#if defined(__clang__)
#define HONE_FEATURES_neon_dot "dotprod"
#define HONE_FEATURES_neon_i8mm "dotprod,i8mm"
#else
#define HONE_FEATURES_neon_dot "arch=armv8.2-a+dotprod"
#define HONE_FEATURES_neon_i8mm "arch=armv8.2-a+dotprod+i8mm"
#endif

#define HONE_PRAGMA_(x) _Pragma(#x)
#define HONE_PRAGMA(x) HONE_PRAGMA_(x)
#if defined(__clang__)
#define HONE_TARGET_BEGIN(target_name)                                                   \
  HONE_PRAGMA(clang attribute push(__attribute__((target(HONE_FEATURES_##target_name))), \
                                   apply_to = function))
#define HONE_TARGET_END HONE_PRAGMA(clang attribute pop)
#else
#define HONE_TARGET_BEGIN(target_name) \
  HONE_PRAGMA(GCC push_options) HONE_PRAGMA(GCC target(HONE_FEATURES_##target_name))
#define HONE_TARGET_END HONE_PRAGMA(GCC pop_options)
#endif

#define HONE_INLINE inline __attribute__((always_inline))
