// SPDX-License-Identifier: Apache-2.0
// Helpers of the text readers: lines with their numbers, fields, numbers. Views into the caller's text, no copies.
#ifndef VICINAL_CLIENT_CPP_FORMATS_TEXT_H_
#define VICINAL_CLIENT_CPP_FORMATS_TEXT_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace vicinal::client {

// The text without a leading UTF-8 byte order mark, which some editors write.
std::string_view SkipByteOrderMark(std::string_view text);

// Iterates over the lines of a text, without their ends (LF or CR LF) and without a leading byte order mark.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(SkipByteOrderMark(text)) {}
  // False at the end.
  bool Next(std::string_view* line);
  // The number of the last line, from 1.
  int64_t number() const { return number_; }

 private:
  std::string_view rest_;
  int64_t number_ = 0;
};

// Strips spaces and tabs at both ends.
std::string_view Trim(std::string_view text);

// Splits at runs of spaces and tabs. Clears `fields` first.
void SplitAtSpaces(std::string_view line, std::vector<std::string_view>* fields);

// The fields of a line; reused from line to line to save allocations.
struct LineFields {
  std::vector<std::string_view> values;  // views into the line, or into `unquoted`
  std::deque<std::string> unquoted;      // values that contained doubled quotes
};

// Splits like SplitAtSpaces (separator ' '), or at commas, with trimming. With commas, a field in double quotes may
// contain commas and doubled quotes (RFC 4180), but no line breaks, because files of ids have one id per line; within
// other fields a quote is an ordinary character. INVALID_ARGUMENT, without file and line: a quoted field is not closed
// before the next comma or the end of the line.
absl::Status SplitFields(std::string_view line, char separator, LineFields* fields);

// Quotes the field so that SplitFields (separator ',') reads it back: adds double quotes if it contains a comma, begins
// with a quote or a space, ends with a space, or is empty.
std::string QuoteField(std::string_view field);

// A word of the user for a message: in single quotes, shortened, and without control characters.
std::string Shown(std::string_view word);

// Parses the whole field as a decimal integer or a number; false if it is not one or is out of range. Floats are
// rounded to nearest: tiny values give 0, huge values infinity.
bool ParseInt(std::string_view field, int64_t* value);
bool ParseFloat(std::string_view field, float* value);
bool ParseDouble(std::string_view field, double* value);

// True if the field is an integer in canonical form (no plus, no leading zeros), so that equal numbers are equal text.
bool IsCanonicalInt(std::string_view field, int64_t* value);

// True if the bytes are UTF-8 (no overlong forms, no surrogates).
bool IsUtf8(std::string_view text);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_TEXT_H_
