// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/wait_option.h"

#include <string>

#include "client/cpp/errors.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {

Option WaitOption() {
  return {"wait_for",
          OptionKind::kText,
          "WHAT",
          "accepted, ready or durable (on disk); default: durable if the server has a state directory, else ready",
          {"accepted", "ready", "durable"}};
}

absl::Status SetWait(const Context& context, ProgressBar* bar, UploadOptions* options) {
  options->writing = [bar] { bar->Show(1.0, "writing to the server's disk"); };
  const std::string word = context.args.Text("wait_for");
  if (word == "accepted" || word == "ready") {
    options->wait_for = word == "ready" ? v1::WAIT_FOR_READY : v1::WAIT_FOR_ACCEPTED;
    return absl::OkStatus();
  }
  CLIENT_ASSIGN_OR_RETURN(const v1::Capabilities capabilities, context.client.GetCapabilities());
  if (word == "durable" && !capabilities.durable_state()) {
    return CallError(absl::StatusCode::kFailedPrecondition,
                     "--wait_for durable: the server at " + context.server +
                         " keeps everything in memory; it needs --state_dir, or wait for ready");
  }
  options->wait_for = capabilities.durable_state() ? v1::WAIT_FOR_DURABLE : v1::WAIT_FOR_READY;
  return absl::OkStatus();
}

}  // namespace vicinal::client::cli
