// SPDX-License-Identifier: Apache-2.0
// `vicinal export`: starts the exporter of the Python package, which has the script's torch.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"

namespace vicinal::client::cli {
namespace {

constexpr char kExporter[] = "vicinal-export";

absl::Status CannotStart(int error) {
  if (error == ENOENT) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no ", kExporter,
        " in PATH; it belongs to the Python package: activate the virtual environment that has your torch, and 'pip "
        "install ./client/python' there"));
  }
  return absl::InvalidArgumentError(absl::StrCat(kExporter, ": ", std::generic_category().message(error)));
}

// Runs a program found in PATH, with this process's input and outputs, and waits until it ends.
absl::Status RunProgram(std::vector<std::string> words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error != 0) return CannotStart(error);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return CannotStart(errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      WIFEXITED(status)
          ? absl::StrCat(words[0], " failed with exit status ", WEXITSTATUS(status), "; it says why above")
          : absl::StrCat(words[0], " was ended by signal ", WTERMSIG(status)));
}

absl::Status Export(const LocalContext& context) {
  if (context.json) return absl::InvalidArgumentError("--json: vicinal export prints text only");
  std::vector<std::string> words = {kExporter, context.args.Positional(0)};
  for (const char* option : {"data", "out", "target"}) {
    if (context.args.Has(option)) words.push_back(absl::StrCat("--", option, "=", context.args.Text(option)));
  }
  return RunProgram(std::move(words));
}

}  // namespace

Command ExportCommand() {
  return {
      {"export",
       {"SCRIPT.py:MODEL"},
       "Exports a trained torch.nn.Module that a Python script makes.",
       "The script is run, and writes architecture, weights and reference answers of its variable MODEL. This starts\n"
       "vicinal-export, which comes with the Python package (docs/python.md).",
       {{"data", OptionKind::kText, "NAME", "the script's variable with the graph; default: data"},
        {"target", OptionKind::kText, "TARGET",
         "what an answer is: multi_class, multi_label or regression; default: as forward ends"},
        {"out", OptionKind::kText, "PATH",
         "writes PATH.json, PATH.safetensors, PATH.reference.safetensors; default: MODEL"}}},
      nullptr,
      Export};
}

}  // namespace vicinal::client::cli
