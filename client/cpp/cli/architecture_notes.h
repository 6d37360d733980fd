// SPDX-License-Identifier: Apache-2.0
// Notes on ambiguities of an architecture: defaults in which PyTorch and PyTorch Geometric differ. The server uses
// PyTorch Geometric's default, and weights alone do not show which was meant.
#ifndef VICINAL_CLIENT_CPP_CLI_ARCHITECTURE_NOTES_H_
#define VICINAL_CLIENT_CPP_CLI_ARCHITECTURE_NOTES_H_

#include <string>
#include <string_view>
#include <vector>

namespace vicinal::client::cli {

// Sentences about an architecture that the server has accepted; empty if nothing is ambiguous, as in ready-made
// classes.
std::vector<std::string> ArchitectureNotes(std::string_view architecture_json);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_ARCHITECTURE_NOTES_H_
