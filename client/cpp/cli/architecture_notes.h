// SPDX-License-Identifier: Apache-2.0
// What an architecture leaves open although PyTorch and PyTorch Geometric disagree about it: the server takes PyTorch
// Geometric's default, and weights alone cannot tell.
#ifndef VICINAL_CLIENT_CPP_CLI_ARCHITECTURE_NOTES_H_
#define VICINAL_CLIENT_CPP_CLI_ARCHITECTURE_NOTES_H_

#include <string>
#include <string_view>
#include <vector>

namespace vicinal::client::cli {

// Sentences about an architecture that the server has taken; none where it says all. Ready-made classes say all.
std::vector<std::string> ArchitectureNotes(std::string_view architecture_json);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_ARCHITECTURE_NOTES_H_
