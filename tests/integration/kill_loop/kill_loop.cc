// SPDX-License-Identifier: Apache-2.0
// One life of the server after another, and what must be true at the start of each.
#include "tests/integration/kill_loop/kill_loop.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/cpp/errors.h"

extern char** environ;

namespace vicinal::testing {
namespace {

// Kills a process after a time, unless it is destroyed before.
class Killer {
 public:
  Killer(pid_t pid, std::chrono::microseconds delay, std::atomic<bool>* killed)
      : thread_([this, pid, delay, killed] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (changed_.wait_for(lock, delay, [this] { return called_off_; })) return;
          killed->store(true);
          kill(pid, SIGKILL);
        }) {}
  ~Killer() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      called_off_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool called_off_ = false;
  std::thread thread_;
};

}  // namespace

KillLoop::KillLoop(Options options) : options_(std::move(options)), random_(static_cast<uint64_t>(options_.seed)) {
  for (const char* name : {"g0", "g1", "g2"}) graphs_[name];
  for (const char* name : {"m0", "m1"}) models_[name];
}

void KillLoop::Problem(const std::string& text) { problems_.push_back(text); }

bool KillLoop::Went(const absl::Status& status, const std::string& what) {
  if (status.ok()) return true;
  if (!killed_.load()) Problem(absl::StrCat(what, ": ", status.ToString()));
  return false;
}

bool KillLoop::Round() {
  if (OneIn(4)) KillBeforeReady();
  if (!Start()) return false;
  CheckAll();
  if (!problems_.empty()) return false;
  if (OneIn(8)) {
    Drive(1 + Uniform(20));
    if (server_->Stop() != 0) Problem("the server did not stop with 0: " + server_->Log());
    ++counts_.stops;
    for (auto* const histories : {&graphs_, &models_}) {
      for (auto& [name, history] : *histories) history.Stopped();
    }
    for (auto& [key, history] : extra_) history.Stopped();
  } else {
    const Killer killer(server_->pid(), std::chrono::microseconds(Uniform(options_.max_milliseconds * 1000) + 1000),
                        &killed_);
    Drive(std::numeric_limits<int64_t>::max());
    server_->Wait();
    ++counts_.kills;
  }
  return problems_.empty();
}

void KillLoop::KillBeforeReady() {
  std::vector<std::string> words = {options_.server, "--grpc_listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0",
                                    "--log_level=error"};
  words.insert(words.end(), options_.flags.begin(), options_.flags.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  if (posix_spawn(&pid, options_.server.c_str(), nullptr, nullptr, arguments.data(), environ) != 0) {
    return Problem("the server cannot be started");
  }
  std::atomic<bool> killed{false};
  const Killer killer(pid, std::chrono::microseconds(Uniform(200'000)), &killed);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!killed.load()) Problem("a server ended by itself at its start");
  ++counts_.kills_before_ready;
}

bool KillLoop::Start() {
  auto server = ServerProcess::Start(options_.server, options_.flags);
  if (!server.ok()) {
    Problem(absl::StrCat("no start: ", server.status().ToString()));
    return false;
  }
  server_ = *std::move(server);
  killed_ = false;
  client::ClientOptions options;
  options.target = server_->grpc_address();
  options.upload_attempts = 1;
  options.service_config = "";
  client_ = *client::Client::Connect(options);
  return true;
}

// --- what must be true after a start ---

void KillLoop::CheckAll() {
  if (!graphs_.contains(kProbe)) {
    graphs_[kProbe];
    UploadGraph(kProbe);
    AwaitDurableGraph(kProbe);
  }
  known_models_.clear();
  for (const auto& [name, history] : models_) CheckModel(name);
  for (const auto& [name, history] : graphs_) CheckGraph(name);
  CheckLog();
}

// The server cannot tell our kills from crashes of a kernel: after two in the first run of one configuration that is
// quarantined, as it should be. Nothing else is an error.
void KillLoop::CheckLog() {
  std::istringstream log(server_->Log());
  for (std::string line; std::getline(log, line);) {
    if (line.find("\"level\":\"error\"") == std::string::npos) continue;
    if (line.find("2 servers ended while it ran for the first time") == std::string::npos) {
      Problem("an error in the log: " + line);
    } else if (2 * ++counts_.quarantines > counts_.kills + counts_.kills_before_ready) {
      Problem("more quarantines than kills explain: " + line);
    }
  }
}

// A model is recognised by its answers on the graph that never changes.
void KillLoop::CheckModel(const std::string& name) {
  History& history = models_[name];
  const auto model = client_->GetModel(name);
  if (model.status().code() == absl::StatusCode::kNotFound) {
    if (!history.MayHold({})) Problem(absl::StrCat(name, " is gone; ", history.Describe()));
    return history.Holds({});
  }
  if (!Went(model.status(), "GetModel") || !Went(client_->WatchGraph(kProbe, {}).status(), kProbe)) return;
  const auto logits = Ask(kProbe, name, "default");
  if (!logits) return;
  const SeededGraph probe = MakeGraph(*graphs_[kProbe].Last());
  const auto seed = Recognise(history, *logits, [&](int64_t seed) { return Answer(probe, MakeModel(seed)); });
  if (!seed) return Problem(absl::StrCat(name, " holds what it may not; ", history.Describe()));
  if (!model_versions_.Note(model->version(), *seed)) Problem(absl::StrCat(name, ": a version number came back"));
  known_models_[name] = *seed;
  history.Holds(*seed);
}

// A graph carries its seed as the digest of its ids; its answers must be those of the seed.
void KillLoop::CheckGraph(const std::string& name) {
  History& history = graphs_[name];
  const auto graph = client_->WatchGraph(name, {});
  if (graph.status().code() == absl::StatusCode::kNotFound) {
    if (!history.MayHold({})) Problem(absl::StrCat(name, " is gone; ", history.Describe()));
    return history.Holds({});
  }
  if (!Went(graph.status(), name)) return;
  const int64_t seed = std::stoll(graph->ids_digest());
  if (!history.MayHold(seed)) Problem(absl::StrCat(name, " is ", seed, "; ", history.Describe()));
  if (!graph_versions_.Note(graph->version(), seed)) Problem(absl::StrCat(name, ": a version number came back"));
  if (graph->durability() != v1::DURABILITY_DURABLE) Problem(absl::StrCat(name, " came back, but is not durable"));
  history.Holds(seed);
  if (KnownModel().empty()) return;
  const SeededGraph contents = MakeGraph(seed);
  const auto logits = Ask(name, KnownModel(), "default");
  if (logits && *logits != Answer(contents, MakeModel(known_models_[KnownModel()]))) {
    Problem(absl::StrCat("wrong answer of ", name));
  }
  CheckExtraFeatures(name, contents);
}

void KillLoop::CheckExtraFeatures(const std::string& graph, const SeededGraph& contents) {
  History& history = extra_[{graph, *graphs_[graph].Last()}];
  const auto sets = client_->ListFeatures(graph);
  if (!Went(sets.status(), "ListFeatures")) return;
  if (std::none_of(sets->begin(), sets->end(), [](const v1::FeatureSet& set) { return set.name() == kExtra; })) {
    if (!history.MayHold({})) Problem(absl::StrCat("features of ", graph, " are gone; ", history.Describe()));
    return history.Holds({});
  }
  const auto logits = Ask(graph, KnownModel(), kExtra);
  if (!logits) return;
  const SeededModel model = MakeModel(known_models_[KnownModel()]);
  const auto seed = Recognise(history, *logits, [&](int64_t seed) {
    SeededGraph other = contents;
    other.x = MakeFeatures(seed, contents.nodes);
    return Answer(other, model);
  });
  if (!seed) return Problem(absl::StrCat("features of ", graph, " are not among those sent; ", history.Describe()));
  history.Holds(*seed);
}

std::string KillLoop::KnownModel() const { return known_models_.empty() ? "" : known_models_.begin()->first; }

std::optional<std::vector<float>> KillLoop::Ask(const std::string& graph, const std::string& model,
                                                const std::string& features) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_graph(graph);
  request.mutable_target()->set_model(model);
  request.mutable_target()->set_feature_set(features);
  request.set_return_logits(true);
  for (const int64_t node : AskedNodes()) request.mutable_nodes()->add_ids(node);
  const auto reply = client_->Classify(request);
  if (!Went(reply.status(), absl::StrCat("Classify ", graph, " by ", model))) return std::nullopt;
  ++counts_.answers;
  const v1::ServedBy& by = reply->served_by();
  const auto known = revisions_.emplace(by.graph_version(), by.numerics_revision()).first;
  if (known->second != by.numerics_revision()) {
    Problem(absl::StrCat("numerics revision was ", known->second, ": ", by.ShortDebugString()));
  }
  std::vector<float> logits(reply->logits().data().size() / sizeof(float));
  std::memcpy(logits.data(), reply->logits().data().data(), logits.size() * sizeof(float));
  return logits;
}

std::optional<int64_t> KillLoop::Recognise(const History& history, const std::vector<float>& logits,
                                           const std::function<std::vector<float>(int64_t)>& answer_of) const {
  for (int64_t seed = next_seed_ - 1; seed > 0; --seed) {
    if (history.MayHold(seed) && answer_of(seed) == logits) return seed;
  }
  return std::nullopt;
}

}  // namespace vicinal::testing
