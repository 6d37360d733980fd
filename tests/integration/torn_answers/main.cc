// SPDX-License-Identifier: Apache-2.0
// torn_answers --seconds=60 --seed=1: queries a server while graphs, features and models are replaced and deleted, and
// kernels measured and forced. Answers are kept, by default with room for one of the two precisions asked for, so that
// each evicts the other; with --answer_room=5 also for those that are made before a new version serves. Then every
// answer is compared bit for bit with what a quiet server answers for the versions and the numerics revision that the
// answer names. That server gets the tuning decisions that were exported when the revision was first seen: on a GPU
// they are part of it, and a revision whose decisions were gone before they could be exported is not compared. Exit
// status 1 if one answer differs, or too few were compared.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/server_process.h"
#include "tests/integration/torn_answers/quiet_server.h"
#include "tests/integration/torn_answers/world.h"

ABSL_FLAG(int, seconds, 60, "How long the server is disturbed.");
ABSL_FLAG(int64_t, seed, 1, "Seed of everything but time.");
ABSL_FLAG(int, queriers, 4, "Threads that query.");
ABSL_FLAG(int64_t, answers, 200'000, "The run ends early with so many answers, of about 1 KB of memory each.");
ABSL_FLAG(int64_t, at_least, 100, "Fewer answers than that are a failure.");
ABSL_FLAG(double, answer_room, 1.5, "Room for kept answers, as multiples of the rows of all nodes.");
ABSL_FLAG(std::string, device, "cpu", "Of both servers: cpu or cuda:0.");

namespace vicinal::testing {
namespace {

constexpr int64_t kVariants = 6;  // of graphs, features and models

// What --answer_room says.
int64_t RoomBytes() {
  constexpr auto kRowsBytes = static_cast<double>(kTornNodes * kTornClasses * static_cast<int64_t>(sizeof(float)));
  return static_cast<int64_t>(kRowsBytes * absl::GetFlag(FLAGS_answer_room));
}

// Which seed a version was made from.
class Versions {
 public:
  void Note(const absl::StatusOr<int64_t>& version, int64_t seed) {
    if (!version.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    seeds_[*version] = seed;
  }
  // -1: of an upload whose reply was lost.
  int64_t SeedOf(int64_t version) const {
    const auto found = seeds_.find(version);
    return found == seeds_.end() ? -1 : found->second;
  }
  size_t size() const { return seeds_.size(); }

 private:
  std::mutex mutex_;
  std::map<int64_t, int64_t> seeds_;
};

struct TornAnswer {
  int64_t graph, features, model, revision;  // served by these versions
  v1::Precision precision;
  std::vector<int64_t> ids;  // empty: all
  std::string logits;
};

class TornAnswers {
 public:
  TornAnswers()
      : seed_(absl::GetFlag(FLAGS_seed)),
        most_answers_(static_cast<size_t>(absl::GetFlag(FLAGS_answers))),
        device_(absl::GetFlag(FLAGS_device)) {}

  bool Disturb(int seconds, int queriers) {
    auto server =
        ServerProcess::Start(Program(), {"--device=" + device_, "--tuning_budget=20ms", "--keep_answers=always",
                                         absl::StrCat("--max_answer_bytes=", RoomBytes())});
    if (!server.ok()) return Problem(server.status().ToString());
    const auto client = ClientOf(**server);
    if (!ReplaceGraph(*client, 0) || !ReplaceModel(*client, 0)) return Problem("the first uploads failed");
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(queriers) + 2);
    for (int q = 0; q < queriers; ++q) threads.emplace_back([&, q] { Query(**server, seed_ * 100 + q); });
    threads.emplace_back([&] { ReplaceGraphs(**server, seed_ * 100 + 50); });
    threads.emplace_back([&] { ReplaceModelsAndTune(**server, seed_ * 100 + 51); });
    for (int second = 0; second < seconds && !Full(); ++second) poll(nullptr, 0, 1000);
    done_ = true;
    for (std::thread& thread : threads) thread.join();
    const auto metrics = (*server)->Scrape();
    if (!metrics.ok()) return Problem(metrics.status().ToString());
    evicted_ = MetricIn(*metrics, "vicinal_answers_evicted_total");
    ahead_ = MetricIn(*metrics, "vicinal_answer_passes_total{outcome=\"ahead\"}");
    return (*server)->Stop() == 0 || Problem("the server did not stop with 0");
  }

  // Asks a server that nobody else uses.
  bool Compare() {
    auto quiet = QuietServer::Start(Program(), device_);
    if (!quiet.ok()) return Problem(quiet.status().ToString());
    std::map<Question, std::vector<const TornAnswer*>> asked;
    for (const TornAnswer& answer : answers_) {
      const int64_t graph = graphs_.SeedOf(answer.graph), model = models_.SeedOf(answer.model);
      int64_t features = features_.SeedOf(answer.features);
      if (features < 0) features = graph;  // those that came with it
      if (graph < 0 || model < 0) return Problem("an answer names a version that was never reported");
      asked[{graph, features, model, answer.revision, answer.precision}].push_back(&answer);
    }
    std::set<int64_t> unknown;  // revisions
    for (const auto& [question, answers] : asked) {
      if (unknown.contains(question.revision)) continue;
      const auto right = quiet->Answer(question, decisions_[question.revision]);
      if (absl::IsNotFound(right.status()) && device_ != "cpu") {
        unknown.insert(question.revision);
        continue;
      }
      if (!right.ok()) return Problem(right.status().ToString());
      ++questions_;
      for (const TornAnswer* const answer : answers) {
        if (!IsPartOf(*answer, *right)) {
          return Problem(absl::StrCat("torn: graph ", answer->graph, ", features ", answer->features, ", model ",
                                      answer->model, ", revision ", answer->revision));
        }
        ++compared_;
      }
    }
    unknown_ = static_cast<long>(unknown.size());
    return quiet->Stop() == 0 || Problem("the quiet server did not stop with 0");
  }

  int Report() const {
    std::printf(
        "%ld answers compared, of %ld combinations of versions with %ld revisions (%ld of them not given by any "
        "exported decisions); %ld kept, %ld of shared runs, %ld "
        "evictions, %ld made ahead; %ld graphs, %ld features, %ld models, %ld deletions, %ld tunings and forced "
        "kernels; %ld queries "
        "refused\n",
        compared_, questions_, static_cast<long>(decisions_.size()), unknown_, kept_.load(), shared_.load(), evicted_,
        ahead_, static_cast<long>(graphs_.size()), static_cast<long>(features_.size()),
        static_cast<long>(models_.size()), deletions_.load(), tunings_.load(), refused_.load());
    if (!problem_.empty()) std::printf("problem: %s\n", problem_.c_str());
    const bool enough = compared_ >= absl::GetFlag(FLAGS_at_least) && questions_ >= 5 && deletions_ > 0 && tunings_ > 0;
    if (!enough) std::printf("problem: too little was done to say anything\n");
    return problem_.empty() && enough ? 0 : 1;
  }

 private:
  static std::string Program() { return std::string(VICINAL_BIN_DIR) + "/vicinal-server"; }
  static long MetricIn(const std::string& page, const std::string& name) {
    const size_t at = page.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atol(page.c_str() + at + name.size() + 2);
  }
  bool Full() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return answers_.size() >= most_answers_;
  }
  bool Problem(const std::string& what) {
    problem_ = what;
    return false;
  }

  bool ReplaceGraph(client::Client& client, int64_t seed) {
    const auto version = PutTornGraph(client, seed);
    graphs_.Note(version, seed);
    return version.ok();
  }
  bool ReplaceModel(client::Client& client, int64_t seed) {
    const auto version = PutTornModel(client, seed);
    models_.Note(version, seed);
    return version.ok();
  }

  void ReplaceGraphs(const ServerProcess& server, int64_t seed) {
    const auto client = ClientOf(server);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    while (!done_) {
      const auto draw = static_cast<int64_t>(random() % 100), variant = static_cast<int64_t>(random() % kVariants);
      if (draw < 45) {
        ReplaceGraph(*client, variant);
      } else if (draw < 90) {
        features_.Note(PutTornFeatures(*client, 1000 + variant), 1000 + variant);
      } else {
        deletions_ += client->DeleteGraph("g").ok();
        ReplaceGraph(*client, variant);
      }
    }
  }

  void ReplaceModelsAndTune(const ServerProcess& server, int64_t seed) {
    const auto client = ClientOf(server);
    const std::vector<std::string> kernels = TunableKernels(*client);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    while (!done_) {
      const auto draw = static_cast<int64_t>(random() % 100), variant = static_cast<int64_t>(random() % kVariants);
      if (draw < 40) {
        ReplaceModel(*client, variant);
      } else if (draw < 50) {
        deletions_ += client->DeleteModel("m").ok();
        ReplaceModel(*client, variant);
      } else if (draw < 90 && draw >= 70) {
        tunings_ += ForceKernel(*client, kernels[random() % kernels.size()]).ok();
      } else {
        v1::TuneGraphRequest request;
        request.set_name("g");
        if (draw < 70) {
          request.mutable_budget()->set_nanos(5'000'000);
        } else {
          request.set_reset(true);
        }
        tunings_ += client->TuneGraph(request).ok();
      }
    }
  }

  void Query(const ServerProcess& server, int64_t seed) {
    const auto client = ClientOf(server);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    while (!done_) {
      const v1::Precision precision = random() % 4 == 0 ? v1::PRECISION_BFLOAT16 : v1::PRECISION_FLOAT32;
      v1::ClassifyRequest request = AskAllNodes(precision);
      TornAnswer answer;
      if (random() % 16 != 0) {
        request.mutable_nodes()->Clear();
        for (uint64_t i = 0, count = 1 + random() % 20; i < count; ++i)
          answer.ids.push_back(static_cast<int64_t>(random() % kTornNodes));
        request.mutable_nodes()->mutable_ids()->Add(answer.ids.begin(), answer.ids.end());
      }
      const auto reply = client->Classify(request);
      if (!reply.ok()) {
        ++refused_;
        continue;
      }
      const v1::ServedBy& by = reply->served_by();
      answer.graph = by.graph_version(), answer.features = by.feature_set_version();
      answer.model = by.model_version(), answer.revision = by.numerics_revision();
      answer.precision = precision;
      answer.logits = reply->logits().data();
      kept_ += reply->timing().kept_answers();
      shared_ += reply->timing().run_request_count() > 1;
      if (IsNew(answer.graph, answer.revision)) NoteDecisions(*client, answer.revision);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (answers_.size() < most_answers_) answers_.push_back(std::move(answer));
    }
  }

  bool IsNew(int64_t graph, int64_t revision) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen_.insert({graph, revision}).second;
  }
  // Exports what was decided. Another decision may have followed the answer: then a later answer of that revision has
  // another chance.
  void NoteDecisions(client::Client& client, int64_t revision) {
    constexpr size_t kMostTexts = 8;  // of one revision
    const auto text = client.ExportTuning("g");
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string>& texts = decisions_[revision];
    if (text.ok() && texts.size() < kMostTexts) texts.push_back(*text);
  }

  static bool IsPartOf(const TornAnswer& answer, const std::string& all) {
    if (answer.ids.empty()) return answer.logits == all;
    constexpr size_t kRow = kTornClasses * sizeof(float);
    if (answer.logits.size() != answer.ids.size() * kRow) return false;
    for (size_t i = 0; i < answer.ids.size(); ++i) {
      if (answer.logits.compare(i * kRow, kRow, all, static_cast<size_t>(answer.ids[i]) * kRow, kRow) != 0)
        return false;
    }
    return true;
  }

  const int64_t seed_;
  const size_t most_answers_;
  const std::string device_;
  Versions graphs_, features_, models_;
  std::atomic<bool> done_{false};
  std::atomic<long> deletions_{0}, tunings_{0}, refused_{0}, kept_{0}, shared_{0};
  long evicted_ = 0, ahead_ = 0;
  long unknown_ = 0;  // revisions; on a GPU decisions can change between a run and their export
  std::mutex mutex_;
  std::vector<TornAnswer> answers_;
  std::set<std::pair<int64_t, int64_t>> seen_;             // graph versions and revisions
  std::map<int64_t, std::vector<std::string>> decisions_;  // of each revision, exported texts
  long compared_ = 0, questions_ = 0;
  std::string problem_;
};

}  // namespace
}  // namespace vicinal::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  vicinal::testing::TornAnswers test;
  if (test.Disturb(absl::GetFlag(FLAGS_seconds), absl::GetFlag(FLAGS_queriers))) test.Compare();
  return test.Report();
}
