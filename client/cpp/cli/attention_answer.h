// SPDX-License-Identifier: Apache-2.0
// The answer of `vicinal embed --attention`.
#ifndef VICINAL_CLIENT_CPP_CLI_ATTENTION_ANSWER_H_
#define VICINAL_CLIENT_CPP_CLI_ATTENTION_ANSWER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/cli/answers.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/formats/id_map.h"

namespace vicinal::client::cli {

// Prints the first edges with their weights, or all as JSON, and writes --out. `ids`: the graph's own, if there are
// some; `notes`: about them.
absl::Status ReportAttention(const Context& context, const std::optional<IdMap>& ids,
                             const std::vector<std::string>& notes, const Answer& answer);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_ATTENTION_ANSWER_H_
