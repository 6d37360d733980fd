// SPDX-License-Identifier: Apache-2.0
// Runs device code of one block on the CPU, so that what it computes can be tested without a GPU: its threads are
// coroutines that take turns at barriers, shuffles and votes. For code of kBlockThreads threads that calls these in
// whole warps. Blocks run one after the other: races between blocks, and orders of memory, are for a GPU to show.
// Include this before device code. Not thread-safe.
#ifndef VICINAL_TESTS_ENGINE_CUDA_EMULATED_BLOCK_H_
#define VICINAL_TESTS_ENGINE_CUDA_EMULATED_BLOCK_H_

#include <cuda_runtime_api.h>
#include <ucontext.h>
#include <vector_functions.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>

// nvcc's; its other words are empty in host code.
#ifndef __noinline__
#define __noinline__
#endif

namespace vicinal::cuda::emulated {

inline constexpr int kBlockThreads = 128, kLanes = 32;
inline constexpr size_t kStackBytes = 128 << 10;

class Block {
 public:
  // Runs `body` in all threads of the block. Threads are resumed in their order or, with `reversed`, from the last on.
  void Run(const std::function<void()>& body, bool reversed) {
    body_ = &body;
    for (Thread& thread : threads_) {
      if (thread.stack == nullptr) thread.stack = std::make_unique<char[]>(kStackBytes);
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.get();
      thread.context.uc_stack.ss_size = kStackBytes;
      thread.context.uc_link = nullptr;
      thread.ended = false;
      makecontext(&thread.context, &Block::RunThread, 0);
    }
    for (int ended = 0; ended < kBlockThreads;) {
      for (int i = 0; i < kBlockThreads; ++i) {
        current_ = reversed ? kBlockThreads - 1 - i : i;
        if (threads_[current_].ended) continue;
        swapcontext(&resumer_, &threads_[current_].context);
        ended += threads_[current_].ended;
      }
    }
  }

  int current() const { return current_; }
  void AwaitBlock() { Await(&block_, kBlockThreads); }
  void AwaitWarp() { Await(&warps_[current_ / kLanes], kLanes); }

  // The value that lane `from` of this thread's warp gives.
  template <class T>
  T Exchange(const T& value, int from) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    auto& given = given_[current_ / kLanes];
    std::memcpy(&given[current_ % kLanes], &value, sizeof value);
    AwaitWarp();
    T taken;
    std::memcpy(&taken, &given[from], sizeof taken);
    AwaitWarp();
    return taken;
  }

 private:
  struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool ended = false;
  };
  struct Barrier {
    int arrived = 0;
    uint64_t times = 0;
  };

  static void RunThread();

  void Suspend() { swapcontext(&threads_[current_].context, &resumer_); }
  void Await(Barrier* barrier, int threads) {
    const uint64_t times = barrier->times;
    if (++barrier->arrived == threads) {
      barrier->arrived = 0;
      ++barrier->times;
      return;
    }
    while (barrier->times == times) Suspend();
  }

  std::array<Thread, kBlockThreads> threads_;
  ucontext_t resumer_;
  int current_ = 0;
  Barrier block_;
  std::array<Barrier, kBlockThreads / kLanes> warps_;
  std::array<std::array<uint64_t, kLanes>, kBlockThreads / kLanes> given_ = {};
  const std::function<void()>* body_ = nullptr;
};

inline Block block;

inline void Block::RunThread() {
  (*block.body_)();
  block.threads_[block.current_].ended = true;
  for (;;) block.Suspend();
}

struct ThreadNumber {
  operator unsigned() const { return static_cast<unsigned>(block.current()); }
};
struct ThreadIndex {
  ThreadNumber x;
};

template <class To, class From>
To BitsOf(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace vicinal::cuda::emulated

// What device code finds without a header.
namespace vicinal::cuda {

inline const emulated::ThreadIndex threadIdx;
inline dim3 blockIdx, gridDim;

inline void __syncthreads() { emulated::block.AwaitBlock(); }
inline void __syncwarp(unsigned = ~0u) { emulated::block.AwaitWarp(); }
inline void __threadfence() {}
template <class T>
T __shfl_sync(unsigned, T x, int from) {
  return emulated::block.Exchange(x, from);
}
template <class T>
T __shfl_up_sync(unsigned, T x, int distance) {
  const int lane = emulated::block.current() % emulated::kLanes;
  return emulated::block.Exchange(x, lane < distance ? lane : lane - distance);
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask) {
  return emulated::block.Exchange(x, emulated::block.current() % emulated::kLanes ^ mask);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  unsigned votes = 0;
  for (int lane = 0; lane < emulated::kLanes; ++lane) votes |= emulated::block.Exchange(unsigned{vote}, lane) << lane;
  return votes;
}
inline int atomicAdd(int* to, int x) {
  const int before = *to;
  *to += x;
  return before;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.707106781f); }
inline int __float_as_int(float x) { return emulated::BitsOf<int>(x); }
template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return T(a) < T(b) ? T(b) : T(a);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_TESTS_ENGINE_CUDA_EMULATED_BLOCK_H_
