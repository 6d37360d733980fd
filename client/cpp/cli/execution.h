// SPDX-License-Identifier: Apache-2.0
// The execution options that classify, embed, classify-graphs and explain share.
#ifndef VICINAL_CLIENT_CPP_CLI_EXECUTION_H_
#define VICINAL_CLIENT_CPP_CLI_EXECUTION_H_

#include <vector>

#include "absl/status/status.h"
#include "client/cpp/cli/arguments.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::client::cli {

// --kernel, --precision, --product_precision and --priority, and --receptive_field for commands that query nodes.
std::vector<Option> ExecutionOptionsOf(bool receptive_field);

// Adds the given options to `execution`. INVALID_ARGUMENT: a --kernel without '=', or an operation named twice.
absl::Status AddExecution(const Arguments& args, v1::ExecutionOptions* execution);

// Whether the options allow rounding to float16, whose largest value is 65,504.
bool AllowsFloat16(const Arguments& args);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_EXECUTION_H_
