// SPDX-License-Identifier: Apache-2.0
// Parsing in two steps: the command's words first (global options may stand before them), then everything else against
// the command's own options. Nearness for suggestions is a distance in edits.
#include "client/cpp/cli/arguments.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"
#include "proto/wire/names.h"

namespace vicinal::client::cli {
namespace {

constexpr size_t kHelpColumn = 34;

absl::Status Usage(const std::string& message) { return absl::InvalidArgumentError(message); }

bool IsOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
}

bool IsHelp(const std::string& word) { return word == "--help" || word == "-h"; }

// "--top-k=3" -> "top_k", "3".
struct SplitOption {
  std::string name;
  std::string value;
  bool has_value = false;
};

SplitOption Split(const std::string& word) {
  SplitOption split;
  const size_t begin = word.find_first_not_of('-');
  if (begin == std::string::npos) return split;
  const size_t equals = word.find('=', begin);
  split.name = word.substr(begin, equals == std::string::npos ? equals : equals - begin);
  std::replace(split.name.begin(), split.name.end(), '-', '_');
  if (equals != std::string::npos) {
    split.has_value = true;
    split.value = word.substr(equals + 1);
  }
  return split;
}

const Option* FindOption(const std::vector<Option>& own, const std::vector<Option>& global, const std::string& name) {
  for (const std::vector<Option>* options : {&own, &global}) {
    for (const Option& option : *options) {
      if (option.name == name) return &option;
    }
  }
  return nullptr;
}

absl::Status CheckName(const std::string& where, const std::string& value) {
  if (wire::IsValidName(value)) return absl::OkStatus();
  return Usage(absl::StrCat(where, " ", Shown(value), " does not match ", wire::kNameGrammar));
}

absl::Status CheckValue(const Option& option, const std::string& value) {
  int64_t integer = 0;
  double number;
  // An empty value is a mistake in a script: it would omit features, or select another feature set.
  if ((option.kind == OptionKind::kText || option.kind == OptionKind::kName) && value.empty()) {
    return Usage(absl::StrCat("--", option.name, " needs a value: ", option.value_name));
  }
  if (option.kind == OptionKind::kName) return CheckName("--" + option.name, value);
  if (option.kind == OptionKind::kInteger && !ParseInt(value, &integer)) {
    return Usage(absl::StrCat("--", option.name, " must be an integer, not '", value, "'"));
  }
  if (option.kind == OptionKind::kInteger && integer < option.least) {
    return Usage(absl::StrCat("--", option.name, " must be at least ", option.least, ", not ", integer));
  }
  if (option.kind == OptionKind::kNumber && !ParseDouble(value, &number)) {
    return Usage(absl::StrCat("--", option.name, " must be a number, not '", value, "'"));
  }
  if (!option.choices.empty() &&
      std::find(option.choices.begin(), option.choices.end(), value) == option.choices.end()) {
    return Usage(absl::StrCat("--", option.name, " must be one of ", absl::StrJoin(option.choices, ", "), ", not '",
                              value, "'"));
  }
  return absl::OkStatus();
}

// The number of letters to insert, delete or replace, or of neighbours to exchange, to make `b` of `a`.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known, const std::string& prefix) {
  const std::string nearest = Suggest(word, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", prefix, nearest, "?");
}

// Whole commands, and the groups that they begin with.
std::vector<std::string> WithGroups(std::vector<std::string> commands) {
  const size_t count = commands.size();
  commands.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) commands.push_back(commands[i].substr(0, commands[i].find(' ')));
  return commands;
}

std::vector<std::string> NamesOf(const std::vector<Option>& own, const std::vector<Option>& global) {
  std::vector<std::string> names = {"help"};
  for (const Option& option : own) names.push_back(option.name);
  for (const Option& option : global) names.push_back(option.name);
  return names;
}

// A word too many is often meant for the option before it (`before`, or null), or is the value of the one option that
// is required and missing. If several are missing, it is unknown which.
std::string WhereItMayBelong(const Syntax& syntax, const Arguments& arguments, const std::string& word,
                             const Option* before) {
  if (before != nullptr && before->kind == OptionKind::kFlag) {
    return absl::StrCat("; --", before->name, " takes no value");
  }
  if (before != nullptr && absl::EndsWith(arguments.Text(before->name), ",")) {
    return absl::StrCat("; write the list of --", before->name, " without spaces, or in quotes");
  }
  std::vector<std::string> missing;
  for (const Option& option : syntax.options) {
    if (option.required && !arguments.Has(option.name)) missing.push_back(option.name);
  }
  return missing.size() == 1 ? absl::StrCat("; did you mean --", missing[0], " ", word, "?") : "";
}

void AppendOption(const Option& option, std::string* text) {
  std::string left = absl::StrCat("  --", option.name, option.value_name.empty() ? "" : " ", option.value_name);
  left.append(left.size() < kHelpColumn ? kHelpColumn - left.size() : 1, ' ');
  const char* mark = option.required ? " (required)" : option.repeated ? " (may repeat)" : "";
  absl::StrAppend(text, left, option.help, mark, "\n");
}

}  // namespace

Option AtLeast(int64_t least, Option option) {
  option.least = least;
  return option;
}

std::string Arguments::Text(std::string_view option, std::string_view otherwise) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::string(otherwise) : found->second.back();
}

int64_t Arguments::Integer(std::string_view option, int64_t otherwise) const {
  int64_t value = otherwise;
  if (Has(option)) ParseInt(Text(option), &value);
  return value;
}

double Arguments::Number(std::string_view option, double otherwise) const {
  double value = otherwise;
  if (Has(option)) ParseDouble(Text(option), &value);
  return value;
}

std::vector<std::string> Arguments::All(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

absl::StatusOr<Arguments> ParseArguments(const Syntax& syntax, const std::vector<Option>& global,
                                         const std::vector<std::string>& words) {
  Arguments arguments;
  bool options_end = false;
  const Option* before = nullptr;        // the option of the previous word or value
  const Option* before_extra = nullptr;  // `before` at the first surplus positional
  for (size_t i = 0; i < words.size(); ++i) {
    if (options_end || !IsOption(words[i])) {
      if (words[i].empty()) return Usage(absl::StrCat("'", syntax.command, "' does not accept an empty argument"));
      arguments.positionals_.push_back(words[i]);
      if (arguments.positionals_.size() == syntax.positionals.size() + 1) before_extra = before;
      before = nullptr;
      continue;
    }
    if (words[i] == "--") {
      options_end = true;
      continue;
    }
    SplitOption split = Split(words[i]);
    const Option* option = FindOption(syntax.options, global, split.name);
    if (option == nullptr) {
      return Usage(absl::StrCat("'", syntax.command, "' has no option ", words[i].substr(0, words[i].find('=')),
                                DidYouMean(split.name, NamesOf(syntax.options, global), "--")));
    }
    if (option->kind == OptionKind::kFlag) {
      if (split.has_value) return Usage(absl::StrCat("--", option->name, " takes no value"));
    } else if (!split.has_value) {
      if (i + 1 == words.size()) return Usage(absl::StrCat("--", option->name, " needs a value: ", option->value_name));
      split.value = words[++i];
    }
    CLIENT_RETURN_IF_ERROR(CheckValue(*option, split.value));
    std::vector<std::string>& values = arguments.values_[option->name];
    // Global options may precede the command, and `found.rest` does not show where they stood.
    before = FindOption(syntax.options, {}, option->name);
    if (!values.empty() && !option->repeated) return Usage(absl::StrCat("--", option->name, " was given twice"));
    values.push_back(split.value);
  }
  if (arguments.positionals_.size() < syntax.positionals.size()) {
    return Usage(absl::StrCat("'", syntax.command, "' needs ", syntax.positionals[arguments.positionals_.size()]));
  }
  if (arguments.positionals_.size() > syntax.positionals.size()) {
    const std::string& extra = arguments.positionals_[syntax.positionals.size()];
    return Usage(absl::StrCat("'", syntax.command, "' takes no further argument '", extra, "'",
                              WhereItMayBelong(syntax, arguments, extra, before_extra)));
  }
  for (size_t i = 0; i < syntax.positionals.size(); ++i) {
    if (syntax.positionals[i] == "NAME") CLIENT_RETURN_IF_ERROR(CheckName("NAME", arguments.positionals_[i]));
  }
  for (const Option& option : syntax.options) {
    if (option.required && !arguments.Has(option.name)) {
      return Usage(absl::StrCat("'", syntax.command, "' needs --", option.name, " ", option.value_name));
    }
  }
  return arguments;
}

absl::StatusOr<Found> FindCommand(const std::vector<Syntax>& commands, const std::vector<Option>& global,
                                  const std::vector<std::string>& words) {
  Found found;
  std::vector<std::string> known;
  known.reserve(commands.size());
  for (const Syntax& command : commands) known.push_back(command.command);
  std::string name;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool command_open = found.index < 0;
    if (IsHelp(words[i]) || (command_open && name.empty() && words[i] == "help")) {
      found.help = true;
    } else if (!command_open) {
      found.rest.push_back(words[i]);
    } else if (words[i] == "--version") {
      found.version = true;
    } else if (IsOption(words[i])) {
      found.rest.push_back(words[i]);
      const SplitOption split = Split(words[i]);
      const Option* option = FindOption({}, global, split.name);
      if (option == nullptr) return Usage(absl::StrCat("the command must come before ", words[i]));
      if (option->kind != OptionKind::kFlag && !split.has_value && i + 1 < words.size())
        found.rest.push_back(words[++i]);
    } else {
      name += (name.empty() ? "" : " ") + words[i];
      const auto exact = std::find(known.begin(), known.end(), name);
      if (exact != known.end()) {
        found.index = static_cast<int>(exact - known.begin());
        continue;
      }
      const bool prefix = std::any_of(known.begin(), known.end(),
                                      [&](const std::string& command) { return command.rfind(name + " ", 0) == 0; });
      if (!prefix)
        return Usage(absl::StrCat("there is no command '", name, "'", DidYouMean(name, WithGroups(known), "")));
    }
  }
  if (found.index >= 0) return found;
  found.group = name;
  if (found.help || found.version) return found;
  if (name.empty()) return Usage("a command is required");
  std::vector<std::string> members;
  for (const std::string& command : known) {
    if (command.rfind(name + " ", 0) == 0) members.push_back(command.substr(name.size() + 1));
  }
  return Usage(absl::StrCat("'", name, "' needs one of: ", absl::StrJoin(members, ", ")));
}

std::string HelpFor(const std::string& program, const Syntax& syntax, const std::vector<Option>& global) {
  std::string text = absl::StrCat("Usage: ", program, " ", syntax.command);
  for (const std::string& positional : syntax.positionals) absl::StrAppend(&text, " ", positional);
  for (const Option& option : syntax.options) {
    if (option.required) absl::StrAppend(&text, " --", option.name, " ", option.value_name);
  }
  absl::StrAppend(&text, " [options]\n\n", syntax.summary, "\n");
  if (!syntax.options.empty()) absl::StrAppend(&text, "\nOptions:\n");
  for (const Option& option : syntax.options) AppendOption(option, &text);
  absl::StrAppend(&text, "\nOptions of every command:\n");
  for (const Option& option : global) AppendOption(option, &text);
  if (!syntax.details.empty()) absl::StrAppend(&text, "\n", syntax.details, "\n");
  return text;
}

std::string Suggest(std::string_view word, const std::vector<std::string>& known) {
  std::string nearest;
  // A typo changes a few letters, and fewer than half of them.
  size_t least = std::min(std::max<size_t>(2, word.size() / 3) + 1, (word.size() + 1) / 2);
  for (const std::string& candidate : known) {
    const size_t distance = Distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace vicinal::client::cli
