// SPDX-License-Identifier: Apache-2.0
// Status for every interface: absl::Status with the canonical codes of docs/errors.md, and the two macros that pass it
// on. Functions of this project throw no exceptions; broken internal invariants are VICINAL_CHECKs (base/check.h).
#ifndef VICINAL_ENGINE_BASE_STATUS_H_
#define VICINAL_ENGINE_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace vicinal {

using absl::Status;
using absl::StatusCode;
using absl::StatusOr;

inline Status OkStatus() { return absl::OkStatus(); }

}  // namespace vicinal

#define VICINAL_STATUS_CONCAT_INNER(a, b) a##b
#define VICINAL_STATUS_CONCAT(a, b) VICINAL_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function (which returns Status or StatusOr) if `expr` is not OK.
#define VICINAL_RETURN_IF_ERROR(expr)                \
  do {                                               \
    ::absl::Status vicinal_status = (expr);          \
    if (!vicinal_status.ok()) return vicinal_status; \
  } while (false)

// VICINAL_ASSIGN_OR_RETURN(auto x, F()): declares or assigns `lhs` from a StatusOr, or returns its status.
#define VICINAL_ASSIGN_OR_RETURN(lhs, expr) \
  VICINAL_ASSIGN_OR_RETURN_INNER(VICINAL_STATUS_CONCAT(vicinal_status_or_, __LINE__), lhs, expr)
#define VICINAL_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                   \
  if (!tmp.ok()) return std::move(tmp).status();       \
  lhs = *std::move(tmp)

#endif  // VICINAL_ENGINE_BASE_STATUS_H_
