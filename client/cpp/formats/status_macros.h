// SPDX-License-Identifier: Apache-2.0
// Macros that return errors early, for the client, which cannot include those of engine/.
#ifndef VICINAL_CLIENT_CPP_FORMATS_STATUS_MACROS_H_
#define VICINAL_CLIENT_CPP_FORMATS_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define CLIENT_STATUS_CONCAT_INNER(a, b) a##b
#define CLIENT_STATUS_CONCAT(a, b) CLIENT_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function (which returns Status or StatusOr) if `expr` is not OK.
#define CLIENT_RETURN_IF_ERROR(expr)               \
  do {                                             \
    ::absl::Status client_status = (expr);         \
    if (!client_status.ok()) return client_status; \
  } while (false)

// CLIENT_ASSIGN_OR_RETURN(auto x, F()): declares or assigns `lhs` from a StatusOr, or returns its status.
#define CLIENT_ASSIGN_OR_RETURN(lhs, expr) \
  CLIENT_ASSIGN_OR_RETURN_INNER(CLIENT_STATUS_CONCAT(client_status_or_, __LINE__), lhs, expr)
#define CLIENT_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return std::move(tmp).status();      \
  lhs = *std::move(tmp)

#endif  // VICINAL_CLIENT_CPP_FORMATS_STATUS_MACROS_H_
