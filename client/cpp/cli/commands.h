// SPDX-License-Identifier: Apache-2.0
// The commands of `vicinal` and what each is handed. A command prints its result to `out` (text, or one JSON document
// with
// --json) and answers with a Status; messages on the way and errors go to `err`.
#ifndef VICINAL_CLIENT_CPP_CLI_COMMANDS_H_
#define VICINAL_CLIENT_CPP_CLI_COMMANDS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/cli/arguments.h"
#include "client/cpp/cli/proto_json.h"
#include "client/cpp/client.h"

namespace vicinal::client::cli {

// What scripts may rely on; --help lists them.
enum ExitCode { kExitOk = 0, kExitRefused = 1, kExitUsage = 2, kExitUnavailable = 3, kExitNotFound = 4 };

// What a command works with.
struct Context {
  const Arguments& args;
  std::ostream& out;
  std::ostream& err;
  // True when `err` is a terminal: progress bars are drawn.
  bool terminal = false;
  Client& client;
  std::string server;  // that `client` talks to
  bool json = false;

  // Prints `result` as JSON; call it where --json replaces the text.
  void PrintJson(const Json& result) const { out << Dump(result) << '\n'; }
};

struct Command {
  Syntax syntax;
  absl::Status (*run)(const Context& context);
};

// All commands, in the order of the help; and the options that all of them take.
const std::vector<Command>& Commands();
const std::vector<Option>& GlobalOptions();

// Each file's part of the table.
std::vector<Command> GraphCommands();
std::vector<Command> FeaturesCommands();
std::vector<Command> ModelCommands();
std::vector<Command> InferenceCommands();
std::vector<Command> StatusCommands();
Command ExplainCommand();
Command TuneCommand();
Command ClassifyGraphsCommand();

// The whole program: parses `words` (without the program's name), runs, prints errors, answers with the exit code.
// `sleep` as ClientOptions has it.
int Run(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal,
        const std::function<void(std::chrono::milliseconds)>& sleep = {});

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_COMMANDS_H_
