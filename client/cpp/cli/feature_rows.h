// SPDX-License-Identifier: Apache-2.0
// Whether a feature matrix fits its graph, asked before a large matrix is sent.
#ifndef VICINAL_CLIENT_CPP_CLI_FEATURE_ROWS_H_
#define VICINAL_CLIENT_CPP_CLI_FEATURE_ROWS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/client.h"

namespace vicinal::client::cli {

// INVALID_ARGUMENT, naming the file: a matrix of `rows` rows is not one of all nodes of `graph`, or (EDGES) of all its
// edges. OK if the graph is not READY: the server then says why it takes no features. Asks for the graph.
absl::Status CheckFeatureRows(Client& client, const std::string& graph, v1::FeatureKind kind, int64_t rows,
                              const std::string& path);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_FEATURE_ROWS_H_
