// SPDX-License-Identifier: Apache-2.0
// A flag that is a number of bytes: "4000000", or a whole number with its unit, "64MiB".
#ifndef VICINAL_SERVER_SIZE_FLAG_H_
#define VICINAL_SERVER_SIZE_FLAG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace vicinal::server {

struct SizeFlag {
  SizeFlag() = default;
  SizeFlag(int64_t given) : bytes(given) {}  // NOLINT: defaults of flags are numbers

  int64_t bytes = 0;
};

// Required by Abseil's flags. Units are KiB, MiB, GiB and TiB, with or without a space before them; decimal units (kB,
// MB) are rejected as ambiguous.
bool AbslParseFlag(absl::string_view text, SizeFlag* flag, std::string* error);
std::string AbslUnparseFlag(const SizeFlag& flag);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SIZE_FLAG_H_
