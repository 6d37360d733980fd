// SPDX-License-Identifier: Apache-2.0
// The command line's grammar: commands of one or two words, each with its own options and positional arguments. What is
// not declared is an error with a suggestion, and every command can print its help. Options: --name value,
// --name=value, flags
// --name; '-' and '_' within a name are the same; "--" ends them.
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

// kName: of a graph, a feature set or a model (wire::kNameGrammar).
enum class OptionKind { kFlag, kText, kName, kInteger, kNumber };

struct Option {
  std::string name;  // without dashes, with underscores
  OptionKind kind = OptionKind::kText;
  std::string value_name;  // for the help: "FILE.npy", "auto|none"
  std::string help;
  std::vector<std::string> choices = {};  // the only values; empty: any
  bool required = false;
  bool repeated = false;
  int64_t least = std::numeric_limits<int64_t>::min();  // of kInteger: what is below is refused
};

// `option`, with its least value.
Option AtLeast(int64_t least, Option option);

struct Syntax {
  std::string command;                   // "graph upload"
  std::vector<std::string> positionals;  // all are required; "NAME" is a name as of OptionKind::kName
  std::string summary;                   // one line
  std::string details;                   // more, below the options; may be empty
  std::vector<Option> options;
};

// What was said, checked against a Syntax: unknown, missing, malformed or repeated things do not get here.
class Arguments {
 public:
  bool Has(std::string_view option) const { return values_.find(option) != values_.end(); }
  // The value, or `otherwise` when the option was not given.
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

// `words` are those after the command, and may hold `global` options, too. INVALID_ARGUMENT with a suggestion.
absl::StatusOr<Arguments> ParseArguments(const Syntax& syntax, const std::vector<Option>& global,
                                         const std::vector<std::string>& words);

// The words of a command line, divided: which syntax they name (global options may come first), and the rest.
// INVALID_ARGUMENT when no command fits. `help` is set when --help, -h or the word help was said; `index` is then -1
// for help on everything, or on the group `group` ("graph") when that is not empty.
struct Found {
  int index = -1;
  bool help = false;
  bool version = false;  // --version was said in a command's place
  std::string group;
  std::vector<std::string> rest;
};
absl::StatusOr<Found> FindCommand(const std::vector<Syntax>& commands, const std::vector<Option>& global,
                                  const std::vector<std::string>& words);

// Help for one command.
std::string HelpFor(const std::string& program, const Syntax& syntax, const std::vector<Option>& global);

// The name among `known` that `word` most likely meant; empty when none is near.
std::string Suggest(std::string_view word, const std::vector<std::string>& known);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_ARGUMENTS_H_
