// SPDX-License-Identifier: Apache-2.0
// The program `vicinal`.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/cpp/cli/commands.h"

int main(int argc, char** argv) {
  // As the server does (server/main.cc): every lock of gRPC's would take one more that all connections share, and
  // `vicinal load` would measure that.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  signal(SIGPIPE, SIG_IGN);             // a closed pipe is a failed write, reported as such
  setenv("GRPC_VERBOSITY", "NONE", 0);  // what gRPC has to say is in the status of a call; with --json stderr is JSON
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> words(argv + 1, argv + argc);
  return vicinal::client::cli::Run(words, std::cout, std::cerr, isatty(STDERR_FILENO) == 1);
}
