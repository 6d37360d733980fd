// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "bench/cuda/event_timer.h"
#include "bench/cuda/numbers.h"

namespace vicinal::bench {
namespace {

__device__ void Store(float* dst, float value) { *dst = value; }
__device__ void Store(__nv_bfloat16* dst, float value) { *dst = __float2bfloat16_rn(value); }
__device__ void Store(__half* dst, float value) { *dst = __float2half_rn(value); }

template <class T>
__global__ void Fill(T* dst, int64_t count, uint64_t begin) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t k = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    Store(dst + k, Number(begin + static_cast<uint64_t>(k)));
  }
}

constexpr int kBlocks = 2048, kThreads = 256;

}  // namespace

uint16_t ToSixteenBits(float value, Storage storage) {
  return storage == Storage::kBfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                                       : __half_as_ushort(__float2half_rn(value));
}

float FromSixteenBits(uint16_t bits, Storage storage) {
  return storage == Storage::kBfloat16 ? __bfloat162float(__ushort_as_bfloat16(bits))
                                       : __half2float(__ushort_as_half(bits));
}

float StoredNumber(uint64_t i, Storage storage) {
  const float value = Number(i);
  return storage == Storage::kFloat32 ? value : FromSixteenBits(ToSixteenBits(value, storage), storage);
}

void FillNumbers(void* dst, int64_t count, uint64_t begin, Storage storage, cudaStream_t stream) {
  switch (storage) {
    case Storage::kFloat32:
      Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<float*>(dst), count, begin);
      break;
    case Storage::kBfloat16:
      Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(dst), count, begin);
      break;
    case Storage::kFloat16:
      Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<__half*>(dst), count, begin);
      break;
  }
  MustBeOk(cudaGetLastError(), "filling with numbers");
}

}  // namespace vicinal::bench
