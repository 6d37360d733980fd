// SPDX-License-Identifier: Apache-2.0
// Random inputs that host and device compute alike, so that nothing is copied: element i is a function of i. Values are
// in [-1, 1) with 24 bits, which float32 holds exactly. 16-bit rows hold them rounded to nearest even.
#ifndef VICINAL_BENCH_CUDA_NUMBERS_H_
#define VICINAL_BENCH_CUDA_NUMBERS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/vocabulary.h"

#ifdef __CUDACC__
#define VICINAL_BENCH_HOST_DEVICE __host__ __device__
#else
#define VICINAL_BENCH_HOST_DEVICE
#endif

namespace vicinal::bench {

VICINAL_BENCH_HOST_DEVICE inline float Number(uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15ull;
  i = (i ^ (i >> 29)) * 0xbf58476d1ce4e5b9ull;
  i = (i ^ (i >> 32)) * 0x94d049bb133111ebull;
  return static_cast<float>(i >> 40) * 0x1p-23f - 1.0f;
}

// Number(i) rounded to `storage`.
float StoredNumber(uint64_t i, Storage storage);
// `value` in a 16-bit storage.
uint16_t ToSixteenBits(float value, Storage storage);
float FromSixteenBits(uint16_t bits, Storage storage);

// Enqueues dst[k] = Number(begin + k) in `storage`, for k in [0, count).
void FillNumbers(void* dst, int64_t count, uint64_t begin, Storage storage, cudaStream_t stream);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_NUMBERS_H_
