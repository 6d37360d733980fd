// SPDX-License-Identifier: Apache-2.0
// Text of a client in messages of ours: bounded, because messages travel in headers, and without control characters.
#ifndef VICINAL_ENGINE_BASE_PRINTABLE_H_
#define VICINAL_ENGINE_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace vicinal {

// At most `most` bytes, and "..." if there are more; bytes other than printable ASCII become '?'.
std::string Printable(std::string_view text, size_t most = 80);

// The same in single quotes.
std::string Quoted(std::string_view text);

// As Python and C write it, so that a reader sees which character it is: \x00 for control characters and bytes that are
// not UTF-8, \u00e9 and \U0001f600 for characters beyond ASCII. Not bounded.
std::string Escaped(std::string_view text);

// Bytes of the first character of `text` in UTF-8; 1 if it does not begin with one. REQUIRES: not empty.
size_t CharacterBytes(std::string_view text);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_PRINTABLE_H_
