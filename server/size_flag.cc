// SPDX-License-Identifier: Apache-2.0
#include "server/size_flag.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace vicinal::server {
namespace {

struct Unit {
  const char* name;
  int shift;
};

// Largest first: a size is written in the largest unit that divides it.
constexpr Unit kUnits[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}};

}  // namespace

bool AbslParseFlag(absl::string_view text, SizeFlag* flag, std::string* error) {
  absl::string_view digits = absl::StripAsciiWhitespace(text);
  int shift = 0;
  for (const Unit& unit : kUnits) {
    if (!absl::ConsumeSuffix(&digits, unit.name)) continue;
    shift = unit.shift;
    break;
  }
  int64_t number = 0;
  const bool fits =
      absl::SimpleAtoi(digits, &number) && number >= (INT64_MIN >> shift) && number <= (INT64_MAX >> shift);
  if (!fits) {
    *error = "write a number of bytes, or a whole number with KiB, MiB, GiB or TiB, as in 64MiB";
    return false;
  }
  flag->bytes = number * (int64_t{1} << shift);
  return true;
}

std::string AbslUnparseFlag(const SizeFlag& flag) {
  for (const Unit& unit : kUnits) {
    const int64_t size = int64_t{1} << unit.shift;
    if (flag.bytes != 0 && flag.bytes % size == 0) return absl::StrCat(flag.bytes / size, unit.name);
  }
  return absl::StrCat(flag.bytes);
}

}  // namespace vicinal::server
