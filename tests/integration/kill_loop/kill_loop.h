// SPDX-License-Identifier: Apache-2.0
// Kills a server with a state directory at random moments, starts it again, and checks what it then holds: everything
// that was reported durable, with the same versions, answers and numerics revision, and nothing that was not asked for.
#ifndef VICINAL_TESTS_INTEGRATION_KILL_LOOP_KILL_LOOP_H_
#define VICINAL_TESTS_INTEGRATION_KILL_LOOP_KILL_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/client.h"
#include "tests/integration/kill_loop/history.h"
#include "tests/integration/kill_loop/world.h"
#include "tests/integration/server_process.h"

namespace vicinal::testing {

inline constexpr char kProbe[] = "probe";  // a graph that is uploaded once and must always be there
inline constexpr char kExtra[] = "extra";  // a feature set

class KillLoop {
 public:
  struct Options {
    std::string server;              // the program
    std::vector<std::string> flags;  // with --state_dir
    int64_t seed = 1;
    int max_milliseconds = 900;  // between the start and the kill
  };
  struct Counts {
    int64_t kills = 0, kills_before_ready = 0, stops = 0;
    int64_t uploads = 0, deletions = 0, durable_reports = 0, tunings = 0, answers = 0, quarantines = 0;
  };
  explicit KillLoop(Options options);

  // One life of the server: start (sometimes killed before it serves), checks, random calls, and a kill or a stop.
  // False: something does not hold; see problems().
  bool Round();
  const std::vector<std::string>& problems() const { return problems_; }
  const Counts& counts() const { return counts_; }

 private:
  using FeaturesKey = std::pair<std::string, int64_t>;  // a graph's name and seed

  // --- kill_loop.cc: lives of the server, and what must be true at each start ---
  void KillBeforeReady();
  bool Start();
  void CheckAll();
  void CheckLog();
  void CheckModel(const std::string& name);
  void CheckGraph(const std::string& name);
  void CheckExtraFeatures(const std::string& graph, const SeededGraph& contents);
  // Logits of the asked nodes; nothing if the call failed.
  std::optional<std::vector<float>> Ask(const std::string& graph, const std::string& model,
                                        const std::string& features);
  // Which contents that `history` allows have given `logits`.
  std::optional<int64_t> Recognise(const History& history, const std::vector<float>& logits,
                                   const std::function<std::vector<float>(int64_t seed)>& answer_of) const;
  std::string KnownModel() const;  // one whose contents are known; empty: none

  // --- drive.cc: calls at random ---
  void Drive(int64_t max_calls);  // until the server is killed, or so many
  void UploadGraph(const std::string& name);
  void UploadExtraFeatures(const std::string& graph);
  void UploadModel(const std::string& name);
  void DeleteGraph(const std::string& name);
  void DeleteModel(const std::string& name);
  void Tune(const std::string& graph);
  void Query(const std::string& graph);
  void AwaitDurableGraph(const std::string& name);
  void AwaitDurableModel(const std::string& name);

  // Whether the call went well. An error is a problem, unless the server was killed meanwhile.
  bool Went(const absl::Status& status, const std::string& what);
  void Problem(const std::string& text);
  int64_t Uniform(int64_t count) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(count)); }
  bool OneIn(int64_t count) { return Uniform(count) == 0; }

  const Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<client::Client> client_;
  std::atomic<bool> killed_{false};
  int64_t next_seed_ = 1;
  std::map<std::string, History> graphs_, models_;
  std::map<FeaturesKey, History> extra_;
  std::map<std::string, int64_t> known_models_;  // seeds of models that hold nothing else
  VersionNumbers graph_versions_, model_versions_;
  std::map<int64_t, int64_t> revisions_;  // graph version -> numerics revision
  std::vector<std::string> problems_;
  Counts counts_;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_KILL_LOOP_KILL_LOOP_H_
