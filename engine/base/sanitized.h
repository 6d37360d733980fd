// SPDX-License-Identifier: Apache-2.0
// VICINAL_SANITIZED: 1 in builds with the address or the thread sanitizer, else 0. g++ tells by macros, clang by
// features.
#ifndef VICINAL_ENGINE_BASE_SANITIZED_H_
#define VICINAL_ENGINE_BASE_SANITIZED_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VICINAL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VICINAL_SANITIZED 1
#endif
#endif
#ifndef VICINAL_SANITIZED
#define VICINAL_SANITIZED 0
#endif

#endif  // VICINAL_ENGINE_BASE_SANITIZED_H_
