// SPDX-License-Identifier: Apache-2.0
// A duration flag. Abseil's own Duration rejects "500" without a reason; this one explains the format.
#ifndef VICINAL_SERVER_DURATION_FLAG_H_
#define VICINAL_SERVER_DURATION_FLAG_H_

#include <chrono>
#include <string>

#include "absl/strings/string_view.h"

namespace vicinal::server {

struct DurationFlag {
  DurationFlag() = default;
  template <class Rep, class Period>
  DurationFlag(std::chrono::duration<Rep, Period> given) : time(given) {}  // NOLINT: defaults of flags are spans

  // Rounded away from zero: a short time must not become 0, which often has a special meaning.
  std::chrono::milliseconds time{0};
};

// Required by Abseil's flags.
bool AbslParseFlag(absl::string_view text, DurationFlag* flag, std::string* error);
std::string AbslUnparseFlag(const DurationFlag& flag);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_DURATION_FLAG_H_
