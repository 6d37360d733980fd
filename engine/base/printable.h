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

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_PRINTABLE_H_
