// SPDX-License-Identifier: Apache-2.0
// Changes a list of calls by reflection, so that mutated inputs stay messages that parse.
#ifndef VICINAL_TESTS_FUZZ_MUTATE_H_
#define VICINAL_TESTS_FUZZ_MUTATE_H_

#include <string>
#include <vector>

namespace vicinal::fuzz {

// The text of `input` after a few random changes; new calls are of `methods`. Text that does not parse becomes one
// call.
std::string MutateCalls(const std::string& input, const std::vector<std::string>& methods, unsigned seed);

}  // namespace vicinal::fuzz

#endif  // VICINAL_TESTS_FUZZ_MUTATE_H_
