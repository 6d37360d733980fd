// SPDX-License-Identifier: Apache-2.0
// What a misspelt name was meant to be.
#ifndef VICINAL_ENGINE_BASE_NEAREST_NAME_H_
#define VICINAL_ENGINE_BASE_NEAREST_NAME_H_

#include <string>
#include <string_view>
#include <vector>

namespace vicinal {

// The name of `known` with the fewest letters to insert, delete or replace, or neighbours to exchange, capitals aside;
// the first of several. Empty if none is near: one edit for up to 4 letters, two for more, and fewer than letters.
// Words of more than 64 letters are never near, so the cost is bounded by the number of names.
std::string NearestName(std::string_view word, const std::vector<std::string>& known);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_NEAREST_NAME_H_
