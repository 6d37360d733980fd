// SPDX-License-Identifier: Apache-2.0
#include "server/duration_flag.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace vicinal::server {

bool AbslParseFlag(absl::string_view text, DurationFlag* flag, std::string* error) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) {
    double number = 0;
    *error = "write a number with its unit (ms, s, m or h), as in 500ms, 1.5s or 1h30m";
    if (absl::SimpleAtod(text, &number)) {
      absl::StrAppend(error, "; ", text, " alone may be ", text, "ms or ", text, "s");
    }
    return false;
  }
  const absl::Duration unit = absl::Milliseconds(1);
  const absl::Duration whole =
      duration < absl::ZeroDuration() ? absl::Floor(duration, unit) : absl::Ceil(duration, unit);
  flag->time = std::chrono::milliseconds(absl::ToInt64Milliseconds(whole));
  return true;
}

std::string AbslUnparseFlag(const DurationFlag& flag) {
  return absl::FormatDuration(absl::Milliseconds(flag.time.count()));
}

}  // namespace vicinal::server
