// SPDX-License-Identifier: Apache-2.0
// A pack of 1, 2 or 4 neighbouring floats that one lane loads and stores at once.
#ifndef VICINAL_ENGINE_CUDA_COMMON_PACK_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_PACK_CUH_

namespace vicinal::cuda {

template <int kVec>
struct Pack {
  float v[kVec];

  __device__ static Pack Filled(float x) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < kVec; ++i) pack.v[i] = x;
    return pack;
  }
};

// Loads from memory that no kernel of this launch writes.
template <int kVec>
__device__ inline Pack<kVec> LoadReadOnly(const float* p) {
  Pack<kVec> pack;
  if constexpr (kVec == 4) {
    const float4 x = __ldg(reinterpret_cast<const float4*>(p));
    pack = {x.x, x.y, x.z, x.w};
  } else if constexpr (kVec == 2) {
    const float2 x = __ldg(reinterpret_cast<const float2*>(p));
    pack = {x.x, x.y};
  } else {
    pack = {__ldg(p)};
  }
  return pack;
}

// Loads from memory that other blocks of this launch wrote, bypassing the L1 cache.
template <int kVec>
__device__ inline Pack<kVec> LoadCoherent(const float* p) {
  Pack<kVec> pack;
  if constexpr (kVec == 4) {
    const float4 x = __ldcg(reinterpret_cast<const float4*>(p));
    pack = {x.x, x.y, x.z, x.w};
  } else if constexpr (kVec == 2) {
    const float2 x = __ldcg(reinterpret_cast<const float2*>(p));
    pack = {x.x, x.y};
  } else {
    pack = {__ldcg(p)};
  }
  return pack;
}

// Loads from memory of any kind; the compiler keeps the load at this point.
template <int kVec>
__device__ inline Pack<kVec> LoadPlain(const float* p) {
  if constexpr (kVec == 4) {
    const float4& x = *reinterpret_cast<const float4*>(p);
    return {x.x, x.y, x.z, x.w};
  } else if constexpr (kVec == 2) {
    const float2& x = *reinterpret_cast<const float2*>(p);
    return {x.x, x.y};
  } else {
    return {*p};
  }
}

template <int kVec>
__device__ inline Pack<kVec> LoadShared(const float* p) {
  return LoadPlain<kVec>(p);
}

template <int kVec>
__device__ inline void StorePack(float* p, const Pack<kVec>& pack) {
  if constexpr (kVec == 4) {
    *reinterpret_cast<float4*>(p) = make_float4(pack.v[0], pack.v[1], pack.v[2], pack.v[3]);
  } else if constexpr (kVec == 2) {
    *reinterpret_cast<float2*>(p) = make_float2(pack.v[0], pack.v[1]);
  } else {
    *p = pack.v[0];
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_PACK_CUH_
