// SPDX-License-Identifier: Apache-2.0
// Replaces the program's operator new by one that counts. To be included by exactly one source file of a test program
// that shows that something does not allocate.
#ifndef VICINAL_TESTS_ENGINE_COUNTING_NEW_H_
#define VICINAL_TESTS_ENGINE_COUNTING_NEW_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace vicinal::testing {

// Calls of operator new since the program began.
inline std::atomic<int64_t> allocations{0};

}  // namespace vicinal::testing

// Out of line: the compiler must not see that one side is malloc where it inlined only the other.
[[gnu::noinline]] void* operator new(size_t bytes) {
  vicinal::testing::allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes > 0 ? bytes : 1)) return p;
  throw std::bad_alloc();
}
// std::stable_sort asks this one.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  vicinal::testing::allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

#endif  // VICINAL_TESTS_ENGINE_COUNTING_NEW_H_
