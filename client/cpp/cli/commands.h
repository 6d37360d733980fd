// SPDX-License-Identifier: Apache-2.0
// The commands of `vicinal` and their context. A command prints its result to `out` (text, or one JSON document with
// --json) and returns a Status; notes, progress and errors go to `err`.
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

// Stable exit codes, listed by --help.
enum ExitCode {
  kExitOk = 0,
  kExitRefused = 1,
  kExitUsage = 2,
  kExitUnavailable = 3,
  kExitNotFound = 4,
  kExitDamaged = 5
};

// The context of a command that needs no server.
struct LocalContext {
  const Arguments& args;
  std::ostream& out;
  std::ostream& err;
  // True if `err` is a terminal: then progress bars are drawn.
  bool terminal = false;
  bool json = false;

  // Prints `result` as JSON, instead of the text, with --json.
  void PrintJson(const Json& result) const { out << Dump(result) << '\n'; }
};

// The context of a command.
struct Context : LocalContext {
  Client& client;
  std::string server;  // the address that `client` uses
  // A client of another server, with the same options. INVALID_ARGUMENT: the address is malformed.
  std::function<absl::StatusOr<std::unique_ptr<Client>>(const std::string& server)> connect;
};

struct Command {
  Syntax syntax;
  absl::Status (*run)(const Context& context);  // null: run_local
  absl::Status (*run_local)(const LocalContext& context) = nullptr;
};

// All commands, in the order of the help, and the options common to all.
const std::vector<Command>& Commands();
const std::vector<Option>& GlobalOptions();

// The commands of each file.
std::vector<Command> GraphCommands();
std::vector<Command> FeaturesCommands();
std::vector<Command> ModelCommands();
std::vector<Command> InferenceCommands();
std::vector<Command> StatusCommands();
std::vector<Command> StateCommands();
Command ExplainCommand();
Command ExportCommand();
Command TuneCommand();
Command PlotCommand();
Command ClassifyGraphsCommand();
Command PredictLinksCommand();
Command TopLinksCommand();
Command LoadCommand();
Command SyncCommand();

// The whole program: parses `words` (without the program's name), runs the command, prints errors and returns the exit
// code. `sleep` as in ClientOptions.
int Run(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal,
        const std::function<void(std::chrono::milliseconds)>& sleep = {});

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_COMMANDS_H_
