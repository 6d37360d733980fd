// SPDX-License-Identifier: Apache-2.0
// The option --wait_for of uploads.
#ifndef VICINAL_CLIENT_CPP_CLI_WAIT_OPTION_H_
#define VICINAL_CLIENT_CPP_CLI_WAIT_OPTION_H_

#include "client/cpp/cli/arguments.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/output.h"

namespace vicinal::client::cli {

Option WaitOption();

// Sets what the upload waits for: --wait_for, or DURABLE on a server with a state directory and READY on another.
// `bar`, which must outlive the upload, says so when the wait for the disk begins. FAILED_PRECONDITION before anything
// is sent: --wait_for=durable on a server without a state directory.
absl::Status SetWait(const Context& context, ProgressBar* bar, UploadOptions* options);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_WAIT_OPTION_H_
