// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/delay.h"
#include "bench/cuda/event_timer.h"

namespace vicinal::bench {
namespace {

__device__ int64_t Now() {
  int64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void Wait(int64_t nanoseconds) {
  const int64_t end = Now() + nanoseconds;
  while (Now() < end) __nanosleep(500);
}

}  // namespace

void LaunchDelay(int64_t nanoseconds, cudaStream_t stream) {
  Wait<<<1, 1, 0, stream>>>(nanoseconds);
  MustBeOk(cudaGetLastError(), "delay");
}

}  // namespace vicinal::bench
