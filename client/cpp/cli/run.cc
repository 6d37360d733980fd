// SPDX-License-Identifier: Apache-2.0
// From words to an exit code: find the command, check its arguments, connect, run, and say what went wrong.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "client/cpp/address.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

constexpr char kProgram[] = "vicinal";

constexpr char kAbout[] =
    "Exit codes: 0 done; 1 rejected by the server (the message begins with gRPC's code); 2 invalid command line, or a\n"
    "local file that cannot be read or written; 3 the server is unreachable, not ready, busy, or too slow, or "
    "holds\n"
    "the state directory; 4 not found; 5 a file of the state directory is damaged.\n";

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  if (!IsCallError(status)) {
    if (absl::IsDataLoss(status)) return kExitDamaged;
    // `health` has the one local error that is UNAVAILABLE: the server answered that it does not serve.
    if (absl::IsUnavailable(status) || DetailsOf(status).reason == "STATE_LOCKED") return kExitUnavailable;
    return kExitUsage;
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    default:
      return kExitRefused;
  }
}

void PrintOverview(const std::string& group, std::ostream& out) {
  out << "Usage: " << kProgram << (group.empty() ? "" : " " + group) << " COMMAND [options]\n\n"
      << "Command line of a Vicinal server: graph neural network inference on stored graphs.\n\nCommands:\n";
  size_t width = 0;
  for (const Command& command : Commands()) width = std::max(width, command.syntax.command.size());
  for (const Command& command : Commands()) {
    const std::string& name = command.syntax.command;
    if (!group.empty() && name.rfind(group + " ", 0) != 0) continue;
    out << "  " << name << std::string(width - name.size() + 2, ' ') << command.syntax.summary << '\n';
  }
  out << "\n'" << kProgram << " COMMAND --help' shows a command's options, '" << kProgram
      << " --version' the program's version.\n"
      << kAbout;
}

// --json anywhere before "--": applies to errors of the command line itself, too.
bool WantsJson(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--json") != end;
}

void PrintVersion(bool json, std::ostream& out) {
  if (json) {
    out << Dump(Json{{"version", VICINAL_VERSION}}) << '\n';
  } else {
    out << kProgram << ' ' << VICINAL_VERSION << '\n';
  }
}

// The server's messages speak of methods, for all its clients alike; people here have commands.
void PrintCommandsFor(const std::string& message, std::ostream& err) {
  constexpr std::pair<const char*, const char*> kCommands[] = {{"ClassifyGraphs", "classify-graphs"},
                                                               {"GetCapabilities", "status --all"},
                                                               {"WatchGraph", "graph get GRAPH"},
                                                               {"GetTuning", "graph tune GRAPH --show"}};
  for (const auto& [method, command] : kCommands) {
    if (message.find(method) != std::string::npos)
      err << "  " << method << " here: " << kProgram << ' ' << command << '\n';
  }
}

// As a shell takes it.
std::string Quoted(const std::string& word) {
  constexpr char kPlain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

// The command line that resumes the upload that `words` started or resumed.
std::string GoOnCommand(std::vector<std::string> words, const std::string& upload_id) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const bool said = std::any_of(words.begin(), end, [](const std::string& word) {
    const std::string name = absl::StrReplaceAll(word.substr(0, word.find('=')), {{"-", "_"}});
    return name == "__upload_id";
  });
  if (!said) words.insert(end, {"--upload_id", upload_id});
  std::string command = kProgram;
  for (const std::string& word : words) absl::StrAppend(&command, " ", Quoted(word));
  return command;
}

// `words`: the program's arguments.
void PrintError(const absl::Status& status, const std::vector<std::string>& words, bool json, std::ostream& err) {
  const std::string upload_id = UploadIdOf(status);
  const std::string go_on = upload_id.empty() ? "" : GoOnCommand(words, upload_id);
  if (!json) {
    err << kProgram << ": " << Describe(status) << '\n';
    if (!go_on.empty()) err << "  resume with: " << go_on << '\n';
    if (IsCallError(status)) PrintCommandsFor(std::string(status.message()), err);
    if (IsCallError(status) && absl::IsDeadlineExceeded(status)) err << "  --timeout SECONDS allows more time\n";
    if (absl::IsAlreadyExists(status)) err << "  --replace replaces it\n";
    if (absl::IsUnauthenticated(status)) err << "  --token_file FILE names the file with the token\n";
    return;
  }
  const ErrorDetails details = DetailsOf(status);
  Json error = {{"code", CodeName(status.code())}, {"message", std::string(status.message())}};
  if (!details.reason.empty()) error["reason"] = details.reason;
  if (!details.metadata.empty()) error["metadata"] = details.metadata;
  for (const auto& [field, description] : details.violations) {
    error["fields"].push_back(Json{{"field", field}, {"description", description}});
  }
  if (!details.resource_name.empty()) {
    error["resource"] = Json{{"type", details.resource_type}, {"name", details.resource_name}};
  }
  if (details.retry_after_seconds) error["retry_after_seconds"] = *details.retry_after_seconds;
  if (!go_on.empty()) error["upload_id"] = upload_id, error["go_on"] = go_on;
  err << Dump(Json{{"error", error}}) << '\n';
}

// --server, or VICINAL_SERVER, or the default address of servers.
absl::StatusOr<std::string> FindServer(const Arguments& args) {
  const char* const usual = std::getenv("VICINAL_SERVER");
  const bool said = args.Has("server");
  if (!said && (usual == nullptr || *usual == '\0')) return ClientOptions().target;
  const std::string address = said ? args.Text("server") : usual;
  const absl::Status status = CheckAddress(address);
  if (status.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat(said ? "--server " : "VICINAL_SERVER ", status.message()));
}

using Sleep = std::function<void(std::chrono::milliseconds)>;

// Any of the options about certificates means TLS.
absl::StatusOr<TlsOptions> ReadTls(const Arguments& args) {
  TlsOptions tls;
  const std::pair<const char*, std::string*> files[] = {
      {"tls_ca_file", &tls.authorities}, {"tls_cert_file", &tls.certificate}, {"tls_key_file", &tls.key}};
  for (const auto& [option, content] : files) {
    if (!args.Has(option)) continue;
    CLIENT_ASSIGN_OR_RETURN(*content, ReadFile(args.Text(option)));
    if (content->empty()) return FileError(args.Text(option), 0, "is empty");
    tls.enabled = true;
  }
  if (args.Has("tls_cert_file") != args.Has("tls_key_file")) {
    return absl::InvalidArgumentError("--tls_cert_file and --tls_key_file belong together");
  }
  tls.server_name = args.Text("tls_server_name");
  tls.enabled = tls.enabled || args.Has("tls") || !tls.server_name.empty();
  return tls;
}

absl::StatusOr<std::unique_ptr<Client>> MakeClient(const Arguments& args, const std::string& server,
                                                   const Sleep& sleep) {
  ClientOptions options;
  options.target = server;
  options.sleep = sleep;
  // JSON has escapes of its own, so that programs get the strings as they are.
  options.printable = !args.Has("json");
  options.max_reply_bytes = args.Integer("max_reply_bytes", options.max_reply_bytes);
  if (args.Has("token_file")) {
    CLIENT_ASSIGN_OR_RETURN(options.token, ReadFile(args.Text("token_file")));
    const size_t end = options.token.find_last_not_of(" \t\r\n");
    options.token.erase(end == std::string::npos ? 0 : end + 1);
    if (options.token.empty()) return FileError(args.Text("token_file"), 0, "contains no token");
  }
  CLIENT_ASSIGN_OR_RETURN(options.tls, ReadTls(args));
  const double timeout = args.Number("timeout", 60);
  if (!(timeout > 0 && timeout < 1e6))
    return absl::InvalidArgumentError("--timeout must be above 0 and below 1e6 seconds");
  // Rounded up: 0 would mean no timeout.
  options.call_timeout = std::chrono::milliseconds(static_cast<int64_t>(std::ceil(timeout * 1000)));
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options);
  // The address was checked, so the token must be the fault, unless certificates are.
  if (!client.ok() && args.Has("token_file") && !options.tls.enabled) {
    return FileError(args.Text("token_file"), 0, std::string(client.status().message()));
  }
  return client;
}

// Files may be larger than memory, most of all packed ones.
template <class AnyContext>
absl::Status RunOrSay(absl::Status (*run)(const AnyContext&), const AnyContext& context) {
  try {
    return run(context);
  } catch (const std::bad_alloc&) {
    return absl::InvalidArgumentError(
        "this machine has not enough memory for the input; is a file larger than it should be? Split it, or use a "
        "machine with more memory");
  }
}

absl::Status RunCommand(const Command& command, const LocalContext& local, const Sleep& sleep) {
  if (command.run_local != nullptr) {
    CLIENT_RETURN_IF_ERROR(RunOrSay(command.run_local, local));
  } else {
    CLIENT_ASSIGN_OR_RETURN(const std::string server, FindServer(local.args));
    CLIENT_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, MakeClient(local.args, server, sleep));
    const auto connect = [&](const std::string& other) -> absl::StatusOr<std::unique_ptr<Client>> {
      CLIENT_RETURN_IF_ERROR(CheckAddress(other));
      return MakeClient(local.args, other, sleep);
    };
    CLIENT_RETURN_IF_ERROR(RunOrSay(command.run, Context{local, *client, server, connect}));
  }
  return local.out.flush() ? absl::OkStatus() : absl::InvalidArgumentError("the output could not be written");
}

}  // namespace

const std::vector<Option>& GlobalOptions() {
  static const auto* const options = new std::vector<Option>{
      {"server", OptionKind::kText, "HOST:PORT",
       "address of the server; default: the environment variable VICINAL_SERVER, or 127.0.0.1:8500"},
      {"token_file", OptionKind::kText, "FILE", "file with the bearer token to send"},
      {"tls", OptionKind::kFlag, "", "use TLS; the server's certificate must be one that this machine trusts"},
      {"tls_ca_file", OptionKind::kText, "FILE.pem", "use TLS, and trust the authorities in this file instead"},
      {"tls_cert_file", OptionKind::kText, "FILE.pem", "use TLS, and send this client certificate"},
      {"tls_key_file", OptionKind::kText, "FILE.pem", "private key of --tls_cert_file"},
      {"tls_server_name", OptionKind::kText, "NAME",
       "use TLS, and expect this name in the server's certificate, not the host of --server"},
      {"timeout", OptionKind::kNumber, "SECONDS", "of one call, except for uploads and tuning; default: 60"},
      AtLeast(1, {"max_reply_bytes", OptionKind::kInteger, "BYTES",
                  "largest reply to accept, and largest piece of a streamed one; default: 67108864 (64 MiB)"}),
      {"json", OptionKind::kFlag, "", "print one JSON document instead of text, also for errors (on stderr)"},
  };
  return *options;
}

const std::vector<Command>& Commands() {
  static const auto* const commands = [] {
    auto* all = new std::vector<Command>;
    for (auto part :
         {GraphCommands, FeaturesCommands, ModelCommands, InferenceCommands, StatusCommands, StateCommands}) {
      for (Command& command : part()) all->push_back(std::move(command));
    }
    return all;
  }();
  return *commands;
}

int Run(const std::vector<std::string>& words, std::ostream& out, std::ostream& err, bool terminal,
        const std::function<void(std::chrono::milliseconds)>& sleep) {
  std::vector<Syntax> syntaxes;
  for (const Command& command : Commands()) syntaxes.push_back(command.syntax);
  const auto usage_error = [&](const absl::Status& status, const std::string& command) {
    if (WantsJson(words)) {
      PrintError(status, words, /*json=*/true, err);
    } else {
      err << kProgram << ": " << std::string(status.message()) << "\nTry '" << kProgram << command << " --help'.\n";
    }
    return kExitUsage;
  };
  const absl::StatusOr<Found> found = FindCommand(syntaxes, GlobalOptions(), words);
  if (!found.ok()) return usage_error(found.status(), "");
  if (found->version && !found->help) {
    PrintVersion(WantsJson(words), out);
    return kExitOk;
  }
  if (found->help && found->index < 0) {
    PrintOverview(found->group, out);
    return kExitOk;
  }
  const Command& command = Commands()[static_cast<size_t>(found->index)];
  if (found->help) {
    out << HelpFor(kProgram, command.syntax, GlobalOptions()) << '\n' << kAbout;
    return kExitOk;
  }
  const absl::StatusOr<Arguments> args = ParseArguments(command.syntax, GlobalOptions(), found->rest);
  if (!args.ok()) return usage_error(args.status(), " " + command.syntax.command);

  const bool json = args->Has("json");
  const absl::Status status = RunCommand(command, LocalContext{*args, out, err, terminal, json}, sleep);
  if (!status.ok()) PrintError(status, words, json, err);
  return ExitCodeOf(status);
}

}  // namespace vicinal::client::cli
