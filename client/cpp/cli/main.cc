// SPDX-License-Identifier: Apache-2.0
// The program `vicinal`.
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "client/cpp/cli/commands.h"

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, reported as such
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> words(argv + 1, argv + argc);
  return vicinal::client::cli::Run(words, std::cout, std::cerr, isatty(STDERR_FILENO) == 1);
}
