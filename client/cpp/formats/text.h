// SPDX-License-Identifier: Apache-2.0
// Small pieces that the text readers share: lines with their numbers, fields, whole-field numbers. Views into the
// caller's text, no copies.
#ifndef VICINAL_CLIENT_CPP_FORMATS_TEXT_H_
#define VICINAL_CLIENT_CPP_FORMATS_TEXT_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace vicinal::client {

// The text without the UTF-8 byte order mark that some editors put at its start.
std::string_view SkipByteOrderMark(std::string_view text);

// Goes through a text line by line; line ends are LF or CR LF and are left out, and so is a byte order
// mark at the start.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(SkipByteOrderMark(text)) {}
  // False at the end.
  bool Next(std::string_view* line);
  // Of the line last given, counted from 1.
  int64_t number() const { return number_; }

 private:
  std::string_view rest_;
  int64_t number_ = 0;
};

// Without spaces and tabs at both ends.
std::string_view Trim(std::string_view text);

// Fields between runs of spaces and tabs. `fields` is emptied first.
void SplitAtSpaces(std::string_view line, std::vector<std::string_view>* fields);

// The fields of a line, kept from line to line for their memory.
struct LineFields {
  std::vector<std::string_view> values;  // of the line, or of `unquoted`
  std::deque<std::string> unquoted;      // values that held doubled quotes
};

// Fields as SplitAtSpaces gives them (separator ' '), or between commas and trimmed. Between commas a field in double
// quotes may hold commas and, written twice, quotes, as RFC 4180 has it; within other fields a quote is a character
// like any. Line breaks it may not hold: ids are kept one a line. INVALID_ARGUMENT, without file and line, when a
// quoted field does not end with its quote, before the next comma or the line's end.
absl::Status SplitFields(std::string_view line, char separator, LineFields* fields);

// The field as SplitFields (separator ',') reads it back: in double quotes where it holds a comma, begins with a quote
// or a space, ends with a space, or is empty; else as it is.
std::string QuoteField(std::string_view field);

// A word of the user's in a message: in single quotes, not longer than a line can bear, and without the control
// characters that would confuse a terminal.
std::string Shown(std::string_view word);

// The whole field as a decimal integer or a number; false when it is none, is out of range, or something is left over.
// A float is the nearest to the number: 0 where that is too small, infinite where it is too large.
bool ParseInt(std::string_view field, int64_t* value);
bool ParseFloat(std::string_view field, float* value);
bool ParseDouble(std::string_view field, double* value);

// True when the field is an integer written in the one usual way (no plus, no leading zeros), so that equal numbers are
// equal texts.
bool IsCanonicalInt(std::string_view field, int64_t* value);

// True when the bytes are UTF-8 (no overlong forms, no surrogates).
bool IsUtf8(std::string_view text);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_TEXT_H_
