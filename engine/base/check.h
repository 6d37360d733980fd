// SPDX-License-Identifier: Apache-2.0
// Checks of our own invariants: a failure is a bug of this project, is printed with the place, and aborts. Never for
// what a client sends: that is a Status.
#ifndef VICINAL_ENGINE_BASE_CHECK_H_
#define VICINAL_ENGINE_BASE_CHECK_H_

namespace vicinal::internal {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace vicinal::internal

#define VICINAL_CHECK(condition) \
  ((condition) ? (void)0 : ::vicinal::internal::CheckFailed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
// Compiled and never evaluated, so that what only a check reads is not unused.
#define VICINAL_DCHECK(condition) ((void)(true || (condition)))
#else
#define VICINAL_DCHECK(condition) VICINAL_CHECK(condition)
#endif

#endif  // VICINAL_ENGINE_BASE_CHECK_H_
