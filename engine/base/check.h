// SPDX-License-Identifier: Apache-2.0
// Checks of internal invariants: a failure is a bug in this project; it is printed with its location and aborts. Never
// for client input, which is checked with a Status.
#ifndef VICINAL_ENGINE_BASE_CHECK_H_
#define VICINAL_ENGINE_BASE_CHECK_H_

namespace vicinal::internal {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace vicinal::internal

#define VICINAL_CHECK(condition) \
  ((condition) ? (void)0 : ::vicinal::internal::CheckFailed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
// Compiled but never evaluated, so that variables that only a check reads are not unused.
#define VICINAL_DCHECK(condition) ((void)(true || (condition)))
#else
#define VICINAL_DCHECK(condition) VICINAL_CHECK(condition)
#endif

#endif  // VICINAL_ENGINE_BASE_CHECK_H_
