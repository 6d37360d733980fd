// SPDX-License-Identifier: Apache-2.0
// Runs one hot path under callgrind, which counts the instructions of that run alone. check_counts.py drives it.
//   vicinal_instruction_counts PATH            runs it twice, the second time counted
//   vicinal_instruction_counts --list          names of the paths
//   vicinal_instruction_counts --environment   what the counts depend on, as JSON
// Kernels take AVX2 whatever the processor has, since callgrind knows no AVX-512. Exit status 77: there is no AVX2.
#include <gnu/libc-version.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "hwy/highway.h"
#include "hwy/targets.h"
#include "tests/instructions/paths.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define VICINAL_HAS_CALLGRIND "yes"
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define VICINAL_HAS_CALLGRIND "no"
#endif

namespace vicinal::instructions {
namespace {

constexpr int kNoAvx2 = 77;

// Takes away what is better than AVX2; better instruction sets are lower bits.
bool UseAvx2() {
  const int64_t usable = hwy::SupportedTargets() & ~(int64_t{HWY_AVX2} - 1);
  if ((usable & HWY_AVX2) == 0) return false;
  hwy::SetSupportedTargetsForTest(usable);
  hwy::GetChosenTarget().Update(usable);
  return true;
}

int Count(std::string_view name) {
  if (!UseAvx2()) {
    std::fprintf(stderr, "this processor has no AVX2\n");
    return kNoAvx2;
  }
  for (const Path& path : Paths()) {
    if (name != path.name) continue;
    const Run run = path.make();
    run();  // memory that is kept, and symbols that are bound at their first use
    CALLGRIND_START_INSTRUMENTATION;
    run();
    CALLGRIND_STOP_INSTRUMENTATION;
    return 0;
  }
  std::fprintf(stderr, "no path is called '%s'; see --list\n", std::string(name).c_str());
  return 2;
}

int Main(int argc, char** argv) {
  const std::string_view argument = argc == 2 ? argv[1] : "";
  if (argument == "--list") {
    for (const Path& path : Paths()) std::printf("%s\n", path.name);
    return 0;
  }
  if (argument == "--environment") {
    std::printf(
        "{\"compiler\": \"%s\", \"flags\": \"%s\", \"libc\": \"%s\", \"highway\": \"%d.%d\", \"callgrind\": \"%s\"}\n",
        __VERSION__, VICINAL_COMPILE_FLAGS, gnu_get_libc_version(), HWY_MAJOR, HWY_MINOR, VICINAL_HAS_CALLGRIND);
    return 0;
  }
  if (argument.empty()) {
    std::fprintf(stderr, "usage: vicinal_instruction_counts PATH | --list | --environment\n");
    return 2;
  }
  return Count(argument);
}

}  // namespace
}  // namespace vicinal::instructions

int main(int argc, char** argv) { return vicinal::instructions::Main(argc, argv); }
