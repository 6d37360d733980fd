// SPDX-License-Identifier: Apache-2.0
// kill_loop --rounds=200 --seed=1: prints what was done and, in the end, "N rounds, 0 problems". Exit status 1 at the
// first problem; the state directory is then kept for inspection.

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "tests/integration/kill_loop/kill_loop.h"
#include "tests/support/temporary_directory.h"

ABSL_FLAG(int, rounds, 200, "Lives of the server.");
ABSL_FLAG(int64_t, seed, 1, "Seed of everything but time.");
ABSL_FLAG(int, max_milliseconds, 900, "Longest time between a start and the kill.");
ABSL_FLAG(std::vector<std::string>, server_flags, {}, "Further flags of the server, comma-separated.");

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  vicinal::TemporaryDirectory folder;
  vicinal::testing::KillLoop::Options options;
  options.server = std::string(VICINAL_BIN_DIR) + "/vicinal-server";
  options.flags = absl::GetFlag(FLAGS_server_flags);
  options.flags.push_back("--state_dir=" + folder / "state");
  options.flags.push_back("--device=cpu");
  options.seed = absl::GetFlag(FLAGS_seed);
  options.max_milliseconds = absl::GetFlag(FLAGS_max_milliseconds);
  vicinal::testing::KillLoop loop(std::move(options));
  int rounds = 0;
  while (rounds < absl::GetFlag(FLAGS_rounds) && loop.Round()) ++rounds;
  const auto& counts = loop.counts();
  std::printf(
      "%ld kills while serving, %ld before ready, %ld stops; %ld uploads, %ld deletions, %ld tunings; "
      "%ld durable reports, %ld answers checked, %ld kernel configurations quarantined\n",
      counts.kills, counts.kills_before_ready, counts.stops, counts.uploads, counts.deletions, counts.tunings,
      counts.durable_reports, counts.answers, counts.quarantines);
  for (const std::string& problem : loop.problems()) std::printf("problem in round %d: %s\n", rounds, problem.c_str());
  std::printf("%d rounds, %zu problems\n", rounds, loop.problems().size());
  if (!loop.problems().empty()) {
    folder.Keep();
    std::printf("state directory: %s\n", (folder / "state").c_str());
    return 1;
  }
  return 0;
}
