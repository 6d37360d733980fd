// SPDX-License-Identifier: Apache-2.0
// A fuzz target: a function that takes any bytes and returns. Whatever is wrong ends the process (FUZZ_CHECK or a
// sanitizer). The same targets run under libFuzzer (fuzz_main.cc) and over the stored corpus (corpus_test.cc).
#ifndef VICINAL_TESTS_FUZZ_TARGET_H_
#define VICINAL_TESTS_FUZZ_TARGET_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace vicinal::fuzz {

struct Target {
  std::string name;
  std::string corpus;  // folder below corpus/
  std::function<void(std::string_view input)> run;
  // Methods that the input may call, by name; empty for targets whose input is no list of calls (calls.proto).
  std::vector<std::string> methods = {};
};

// All targets, made once.
const std::vector<Target>& Targets();
// Null if there is none of that name.
const Target* FindTarget(std::string_view name);

// Parts of Targets().
std::vector<Target> FormatTargets();
std::vector<Target> EngineTargets();
std::vector<Target> RequestTargets();
std::vector<Target> StateTargets();

// Prints what is wrong and aborts.
[[noreturn]] void Fail(const char* file, int line, const std::string& what);

// An error as clients get it: a code for bad input, a reason, a message that is UTF-8 (docs/errors.md).
void CheckError(const Status& status);

// A file with these bytes; one per process, overwritten each time. Returns its path.
const std::string& InFile(std::string_view bytes);

}  // namespace vicinal::fuzz

#define FUZZ_CHECK(condition, what) \
  if (!(condition)) ::vicinal::fuzz::Fail(__FILE__, __LINE__, std::string(#condition ": ") + std::string(what))

#endif  // VICINAL_TESTS_FUZZ_TARGET_H_
