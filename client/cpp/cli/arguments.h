// SPDX-License-Identifier: Apache-2.0
// The command line's grammar: commands of one or two words, each with its own options and positional arguments.
// Undeclared options are errors with a suggestion, and every command can print its help. Options: --name value,
// --name=value, flags --name; '-' and '_' within a name are equivalent; "--" ends the options.
#ifndef VICINAL_CLIENT_CPP_CLI_ARGUMENTS_H_
#define VICINAL_CLIENT_CPP_CLI_ARGUMENTS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace vicinal::client::cli {

// kName: the name of a graph, a feature set or a model (wire::kNameGrammar).
enum class OptionKind { kFlag, kText, kName, kInteger, kNumber };

struct Option {
  std::string name;  // without dashes, with underscores
  OptionKind kind = OptionKind::kText;
  std::string value_name;  // for the help: "FILE.npy", "auto|none"
  std::string help;
  std::vector<std::string> choices = {};  // the only values; empty: any
  bool required = false;
  bool repeated = false;
  int64_t least = std::numeric_limits<int64_t>::min();  // minimum, for kInteger
};

// `option` with a minimum value.
Option AtLeast(int64_t least, Option option);

struct Syntax {
  std::string command;                   // "graph upload"
  std::vector<std::string> positionals;  // all required; "NAME" has the grammar of OptionKind::kName
  std::string summary;                   // one line
  std::string details;                   // more, below the options; may be empty
  std::vector<Option> options;
};

// The arguments of a command line, checked against a Syntax: no unknown, missing, malformed or repeated ones.
class Arguments {
 public:
  bool Has(std::string_view option) const { return values_.find(option) != values_.end(); }
  // The value, or `otherwise` if the option was not given.
  std::string Text(std::string_view option, std::string_view otherwise = {}) const;
  int64_t Integer(std::string_view option, int64_t otherwise) const;
  double Number(std::string_view option, double otherwise) const;
  std::vector<std::string> All(std::string_view option) const;
  const std::string& Positional(size_t i) const { return positionals_[i]; }

 private:
  friend absl::StatusOr<Arguments> ParseArguments(const Syntax&, const std::vector<Option>&,
                                                  const std::vector<std::string>&);
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positionals_;
};

// `words` follow the command and may contain `global` options, too. INVALID_ARGUMENT with a suggestion.
absl::StatusOr<Arguments> ParseArguments(const Syntax& syntax, const std::vector<Option>& global,
                                         const std::vector<std::string>& words);

// The command that a command line names (global options may come first), and the remaining words. INVALID_ARGUMENT: no
// such command. `help` is set by --help, -h or the word help; then index -1 means help on everything, or on the group
// `group` ("graph") if that is not empty.
struct Found {
  int index = -1;
  bool help = false;
  bool version = false;  // --version instead of a command
  std::string group;
  std::vector<std::string> rest;
};
absl::StatusOr<Found> FindCommand(const std::vector<Syntax>& commands, const std::vector<Option>& global,
                                  const std::vector<std::string>& words);

// Help for one command.
std::string HelpFor(const std::string& program, const Syntax& syntax, const std::vector<Option>& global);

// The name in `known` that is most similar to `word`, with edits of fewer than half of its letters; empty if there is
// none. Exchanged neighbours are one edit.
std::string Suggest(std::string_view word, const std::vector<std::string>& known);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_ARGUMENTS_H_
