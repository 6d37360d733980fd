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
  // Whoever reads the output may have enough of it (head -1): a write then ends the program quietly, as it does git's
  // and grep's, also where the parent ignores the signal. gRPC's sockets never raise it.
  signal(SIGPIPE, SIG_DFL);
  setenv("GRPC_VERBOSITY", "NONE", 0);  // what gRPC has to say is in the status of a call; with --json stderr is JSON
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const int code = vicinal::client::cli::Run(words, std::cout, std::cerr, isatty(STDERR_FILENO) == 1);
  if (code != vicinal::client::cli::kExitOk || std::cout.flush()) return code;
  std::cerr << "vicinal: the output could not be written\n";
  return vicinal::client::cli::kExitRefused;
}
