// SPDX-License-Identifier: Apache-2.0
// Instruction sets the vectorised kernels are compiled for. Include before any Highway header. SSSE3 without SSE4 and
// AVX-512's later additions bring nothing for float arithmetic; leaving them out halves the build.
#ifndef VICINAL_ENGINE_KERNELS_CPU_SIMD_TARGETS_H_
#define VICINAL_ENGINE_KERNELS_CPU_SIMD_TARGETS_H_

#include "engine/base/sanitized.h"

#if VICINAL_SANITIZED
// A sanitizer multiplies the compile time of every set, and its tests run only the machine's best one: vectors that
// every server since 2013 has, and the portable baseline, which the dispatch selects on other machines. The presets
// compile the first alone (VICINAL_HOST_ISA).
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif

// Full unrolling and forced inlining of small functions, so that arrays of vectors live in registers. With sanitizers,
// each copy would be instrumented again: message_reduce_simd.cc would take 160 s to compile instead of 20.
#if VICINAL_SANITIZED
#define VICINAL_INLINE inline
#define VICINAL_UNROLL
#else
#define VICINAL_INLINE HWY_INLINE
#if defined(__clang__)
#define VICINAL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VICINAL_UNROLL _Pragma("GCC unroll 32")
#endif
#endif

#endif  // VICINAL_ENGINE_KERNELS_CPU_SIMD_TARGETS_H_
