// SPDX-License-Identifier: Apache-2.0
// One engine writes a state directory, others follow it: what serves at the writer serves at the replicas, with the
// same versions and bits, and no call fails while versions change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/api/answer_testing.h"
#include "tests/engine/api/small_world.h"
#include "tests/support/temporary_directory.h"

namespace vicinal {
namespace {

using testing::AllNodes;
using testing::AwaitGraph;
using testing::Infer;
using testing::SmallGraph;
using testing::SmallModel;

// How often looking at the directory has failed.
class CountingStats final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  void StateFailure(std::string_view) override { ++failures_; }
  int64_t failures() const { return failures_; }

 private:
  std::atomic<int64_t> failures_{0};
};

class ReplicaTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> Open(bool read_only, EngineOptions options = {}) {
    options.num_threads = 1;
    options.device = "cpu";
    options.tuning_budget = Nanoseconds(0);
    options.state_dir = directory_ / "state";
    options.state_address = "writer.example:8500";
    options.state_read_only = read_only;
    options.follow_period = std::chrono::milliseconds(1);
    if (read_only && options.stats == nullptr) options.stats = &stats_;
    auto engine = Engine::Create(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }
  void SetUp() override {
    writer_ = Open(false);
    ASSERT_NE(writer_, nullptr);
  }
  void Put(const std::string& name, float first, bool replace = false) {
    GraphSource source = SmallGraph(name, first);
    source.replace = replace;
    source.keep_edge_order = true;
    ASSERT_TRUE(writer_->PutGraph(std::move(source)).ok());
    const auto graph = AwaitGraph(*writer_, name);
    ASSERT_TRUE(graph.ok() && graph->state == GraphState::kReady) << graph.status();
  }
  static void Until(const std::function<bool()>& reached) {
    while (!reached()) std::this_thread::yield();
  }
  static int64_t VersionAt(Engine& engine, const std::string& name) {
    const auto graph = engine.GetGraph(name);
    return graph.ok() && graph->serving ? graph->serving->version : 0;
  }
  static std::vector<float> Answers(Engine& engine, const std::string& set = "default") {
    InferenceRequest request = AllNodes("g", "m");
    request.feature_set = set;
    const auto result = Infer(engine, request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->values : std::vector<float>();
  }

  CountingStats stats_;  // of replicas
  TemporaryDirectory directory_;
  std::unique_ptr<Engine> writer_;
};

TEST_F(ReplicaTest, FollowsGraphsFeaturesAndModels) {
  const auto replica = Open(true);
  ASSERT_NE(replica, nullptr);
  ASSERT_TRUE(writer_->PutModel(SmallModel("m"), {}).ok());
  Put("g", 0.25f);
  Until([&] { return VersionAt(*replica, "g") != 0 && replica->GetModel("m").ok(); });
  EXPECT_EQ(Answers(*replica), Answers(*writer_));
  EXPECT_EQ(replica->incarnation(), writer_->incarnation());
  EXPECT_EQ(replica->GetGraph("g")->serving->durability, Durability::kDurable);

  const std::vector<float> rows = testing::SmallRows(1.5f);
  const HostTensor x = testing::Floats(rows, {testing::kSmallNodes, testing::kSmallFeatures});
  FeatureTensors tensors;
  tensors.dense = x.view();
  ASSERT_TRUE(writer_->PutFeatures("g", "more", tensors, false, 0).ok());
  Until([&] { return replica->GetGraph("g")->feature_sets.size() == 2; });
  EXPECT_EQ(Answers(*replica, "more"), Answers(*writer_, "more"));
  ASSERT_TRUE(writer_->DeleteFeatures("g", "more").ok());
  Until([&] { return replica->GetGraph("g")->feature_sets.size() == 1; });

  const HostTensor edges = testing::Floats(std::vector<float>(6, 0.5f), {6, 1});
  for (const bool replace : {false, true}) {
    const auto set = writer_->PutEdgeFeatures("g", "more", {edges.view(), ""}, replace, 0);
    ASSERT_TRUE(set.ok()) << set.status();
    Until([&] {
      const auto sets = replica->GetGraph("g")->feature_sets;
      return sets.size() == 2 && sets[1].kind == FeatureKind::kEdges && sets[1].version == set->version;
    });
  }
  ASSERT_TRUE(writer_->DeleteFeatures("g", "more", FeatureKind::kEdges).ok());
  Until([&] { return replica->GetGraph("g")->feature_sets.size() == 1; });

  ASSERT_TRUE(writer_->DeleteModel("m", 0).ok());
  Until([&] { return !replica->GetModel("m").ok(); });
  ASSERT_TRUE(writer_->DeleteGraph("g", 0).ok());
  Until([&] { return !replica->GetGraph("g").ok(); });
}

TEST_F(ReplicaTest, RefusesChangesAndNamesTheWriter) {
  const auto replica = Open(true);
  ASSERT_NE(replica, nullptr);
  const std::vector<Status> refused = {replica->PutGraph(SmallGraph("g")).status(),
                                       replica->DeleteGraph("g", 0),
                                       replica->DeleteModel("m", 0),
                                       replica->DeleteFeatures("g", "default"),
                                       replica->DeleteFeatures("g", "default", FeatureKind::kEdges, 7),
                                       replica->PutModel(SmallModel("m"), {}).status(),
                                       replica->PutFeatures("g", "x", {}, false, 0).status(),
                                       replica->TuneGraph({}).status(),
                                       replica->CheckWritable()};
  for (const Status& status : refused) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status;
    const auto detail = DetailOf(status);
    ASSERT_TRUE(detail.has_value()) << status;
    EXPECT_EQ(detail->reason, "READ_REPLICA");
    EXPECT_EQ(detail->metadata.at("address"), "writer.example:8500");
  }
  EXPECT_TRUE(writer_->CheckWritable().ok());
}

TEST_F(ReplicaTest, NeedsADirectoryThatIsThere) {
  writer_.reset();
  EngineOptions options;
  options.device = "cpu";
  options.state_dir = directory_ / "nowhere";
  options.state_read_only = true;
  EXPECT_FALSE(Engine::Create(options).ok());
}

// A volume that goes away, or a directory that is emptied before a backup is copied into it, deletes nothing here.
TEST_F(ReplicaTest, ServesOnWhileTheDirectoryIsEmpty) {
  ASSERT_TRUE(writer_->PutModel(SmallModel("m"), {}).ok());
  Put("g", 0.25f);
  Until([&] { return writer_->GetGraph("g")->serving->durability == Durability::kDurable; });
  const auto replica = Open(true);
  ASSERT_NE(replica, nullptr);
  Until([&] { return replica->loaded() && VersionAt(*replica, "g") != 0 && replica->GetModel("m").ok(); });
  const std::vector<float> answers = Answers(*replica);
  const std::filesystem::path here = directory_ / "state", away = directory_ / "away";
  std::filesystem::create_directory(away);
  const auto move_all = [](const std::filesystem::path& from, const std::filesystem::path& to) {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(from)) all.push_back(entry.path());
    for (const auto& path : all) std::filesystem::rename(path, to / path.filename());
  };
  const int64_t failures = stats_.failures();
  move_all(here, away);
  Until([&] { return stats_.failures() >= failures + 3; });  // it has looked
  EXPECT_EQ(Answers(*replica), answers);
  EXPECT_TRUE(replica->Health().ok());
  move_all(away, here);
  Put("g", 0.5f, true);
  Until([&] { return VersionAt(*replica, "g") == VersionAt(*writer_, "g"); });
  EXPECT_EQ(Answers(*replica), Answers(*writer_));
}

TEST_F(ReplicaTest, EndsOnceAnotherDirectoryTakesThePlace) {
  Put("g", 0.25f);
  Until([&] { return writer_->GetGraph("g")->serving->durability == Durability::kDurable; });
  const auto replica = Open(true);
  ASSERT_NE(replica, nullptr);
  writer_.reset();
  const std::filesystem::path here = directory_ / "state", away = directory_ / "away", copy = directory_ / "copy";
  std::filesystem::copy(here, copy, std::filesystem::copy_options::recursive);
  std::filesystem::rename(here, away);
  std::filesystem::rename(copy, here);
  Until([&] { return !replica->Health().ok(); });
  EXPECT_EQ(DetailOf(replica->Health())->reason, "INCARNATION_CHANGED");
  EXPECT_NE(VersionAt(*replica, "g"), 0) << "it serves until it ends";
}

TEST_F(ReplicaTest, TakesOverTheWritersTuning) {
  ASSERT_TRUE(writer_->PutModel(SmallModel("m"), {}).ok());
  Put("g", 0.25f);
  Until([&] { return writer_->GetGraph("g")->serving->durability == Durability::kDurable; });
  const auto replica = Open(true);
  ASSERT_NE(replica, nullptr);
  Until([&] { return replica->loaded() && VersionAt(*replica, "g") != 0; });
  Answers(*replica);
  TuneGraphRequest force;
  force.graph = "g";
  force.operation = "aggregate";
  force.widths = {2};
  force.force = ForcedConfiguration{"simd_rows", {}};
  const auto forced = writer_->TuneGraph(force);
  ASSERT_TRUE(forced.ok()) << forced.status();
  const auto has_forced = [](Engine& engine) {
    const auto report = engine.GetTuning("g");
    if (!report.ok()) return false;
    return std::any_of(report->records.begin(), report->records.end(),
                       [](const TuningRecord& record) { return record.state == TuningState::kForced; });
  };
  ASSERT_TRUE(has_forced(*writer_));
  Until([&] { return has_forced(*replica); });
  EXPECT_EQ(Answers(*replica), Answers(*writer_));
}

// Two replicas answer without a pause and without a mixed version while the graph is replaced fifty times.
TEST_F(ReplicaTest, NoCallFailsWhileTheGraphIsReplaced) {
  constexpr int kReplaced = 15;
  ASSERT_TRUE(writer_->PutModel(SmallModel("m"), {}).ok());
  Put("g", 0.0f);
  Until([&] { return writer_->GetGraph("g")->serving->durability == Durability::kDurable; });
  std::vector<std::unique_ptr<Engine>> replicas;
  for (int i = 0; i < 2; ++i) replicas.push_back(Open(true));
  std::map<int64_t, std::vector<float>> expected;
  expected[VersionAt(*writer_, "g")] = Answers(*writer_);
  struct Seen {
    int64_t version;
    std::vector<float> values;
  };
  std::vector<std::vector<Seen>> seen(replicas.size());
  std::atomic<bool> done{false};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < replicas.size(); ++i) {
    threads.emplace_back([&, i] {
      while (!done) {
        const auto result = Infer(*replicas[i], AllNodes("g", "m"));
        if (!result.ok()) {
          ++failed;
          ADD_FAILURE() << result.status();
          return;
        }
        seen[i].push_back({result->served_by.graph_version, result->values});
      }
    });
  }
  for (int i = 1; i <= kReplaced; ++i) {
    Put("g", 0.125f * static_cast<float>(i), true);
    const int64_t version = VersionAt(*writer_, "g");
    expected[version] = Answers(*writer_);
    for (const auto& replica : replicas) Until([&] { return failed != 0 || VersionAt(*replica, "g") == version; });
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  for (const auto& answers : seen) {
    int64_t last = 0;
    for (const Seen& answer : answers) {
      EXPECT_GE(answer.version, last) << "a replica never goes back";
      last = answer.version;
      ASSERT_TRUE(expected.contains(answer.version)) << answer.version;
      ASSERT_EQ(answer.values, expected[answer.version]) << answer.version;
    }
  }
}

// A replica whose answers of "m" on "g" are in use, for the feature sets `default` and "more".
class AnswersOfAReplicaTest : public ReplicaTest {
 protected:
  void Start(EngineOptions options = {}) {
    ASSERT_TRUE(writer_->PutModel(SmallModel("m"), {}).ok());
    Put("g", 0.25f);
    ASSERT_TRUE(PutMore(1.5f).ok());
    options.keep_answers = KeepAnswers::kAlways;
    options.stats = &passes_;
    replica_ = Open(true, options);
    ASSERT_NE(replica_, nullptr);
    Until([&] { return replica_->GetModel("m").ok() && HasMore(0); });
    size_t pass = 0;
    for (const char* const set : {"default", "more"}) {
      Ask(set);
      ASSERT_EQ(passes_.Await(pass++), "kept");
      ASSERT_TRUE(Ask(set).kept);
    }
  }
  Status PutMore(float first) {
    const std::vector<float> rows = testing::SmallRows(first);
    const HostTensor x = testing::Floats(rows, {testing::kSmallNodes, testing::kSmallFeatures});
    FeatureTensors tensors;
    tensors.dense = x.view();
    return writer_->PutFeatures("g", "more", tensors, true, 0).status();
  }
  void PutModel(float first) {
    ModelSource model = SmallModel("m", first);
    model.replace = true;
    ASSERT_TRUE(writer_->PutModel(model, {}).ok());
  }
  // Whether a version of "more" after that one serves at the replica.
  bool HasMore(int64_t after) {
    const auto graph = replica_->GetGraph("g");
    // What is known of a graph on disk may be newer than what a load has begun to read.
    if (!graph.ok() || !graph->serving || !graph->serving->in_memory()) return false;
    return std::any_of(graph->feature_sets.begin(), graph->feature_sets.end(),
                       [&](const auto& set) { return set.name == "more" && set.version > after; });
  }
  InferenceResult Ask(const std::string& set) {
    InferenceRequest request = AllNodes("g", "m");
    request.feature_set = set;
    const auto result = Infer(*replica_, request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : InferenceResult();
  }
  // The first answer of the version that serves was there before, and is what the writer computes.
  void ExpectThere(const std::string& set) {
    const InferenceResult first = Ask(set);
    EXPECT_TRUE(first.kept);
    EXPECT_EQ(first.values, Answers(*writer_, set));
  }
  // Of both sets, once the replica serves the writer's graph and a version of "more" after that one.
  void ExpectBothThere(int64_t after) {
    Until([&] { return VersionAt(*replica_, "g") == VersionAt(*writer_, "g") && HasMore(after); });
    ExpectThere("default");
    ExpectThere("more");
  }
  // While the replica waits for the answers of a model, these changes of "g" reach the directory: the next step finds
  // them together.
  void ChangeTogether(const std::function<void()>& changes) {
    const testing::Busy busy(*replica_, AllNodes("g", "m"));
    PutModel(0.25f);
    Until([&] { return writer_->GetModel("m")->durability == Durability::kDurable; });
    changes();
    Until([&] {
      const auto graph = writer_->GetGraph("g");
      return std::all_of(graph->feature_sets.begin(), graph->feature_sets.end(),
                         [](const auto& set) { return set.durability == Durability::kDurable; });
    });
  }

  testing::PassRecorder passes_;
  testing::SteppingClock clock_;
  std::unique_ptr<Engine> replica_;
};

TEST_F(AnswersOfAReplicaTest, AreThereWhenAGraphServes) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const int64_t more = Ask("more").served_by.feature_set_version;
  Put("g", 2.0f, true);
  Until([&] { return VersionAt(*replica_, "g") == VersionAt(*writer_, "g"); });
  ExpectThere("default");
  ASSERT_TRUE(PutMore(3.0f).ok());  // a new graph has none of the former one's sets but `default`
  ExpectBothThere(more);
}

TEST_F(AnswersOfAReplicaTest, AreThereWhenAFeatureSetServes) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const int64_t more = Ask("more").served_by.feature_set_version;
  ASSERT_TRUE(PutMore(3.0f).ok());
  Until([&] { return HasMore(more); });
  ExpectThere("more");
  EXPECT_TRUE(Ask("default").kept);
}

TEST_F(AnswersOfAReplicaTest, AreThereWhenAModelServes) {
  ASSERT_NO_FATAL_FAILURE(Start());
  PutModel(0.25f);
  Until([&] { return replica_->GetModel("m")->version == writer_->GetModel("m")->version; });
  ExpectBothThere(0);
}

TEST_F(AnswersOfAReplicaTest, AreThereForAllSetsThatComeWithTheirGraph) {
  EngineOptions options;
  options.clock = &clock_;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  const int64_t more = Ask("more").served_by.feature_set_version;
  ChangeTogether([&] {
    Put("g", 2.0f, true);
    EXPECT_TRUE(PutMore(3.0f).ok());
  });
  ExpectBothThere(more);
}

// A replica whose answers of "e", which reads features of edges, on "g" are in use, beside those of "m". The graph has
// features of edges of its own, for which the set `default` stands.
class EdgeAnswersOfAReplicaTest : public AnswersOfAReplicaTest {
 protected:
  void Start() {
    options_.clock = &clock_;
    ModelSource model;
    model.name = "e";
    model.architecture_json = testing::kSmallGine;
    model.weights_file = testing::SmallGineWeights();
    ASSERT_TRUE(writer_->PutModel(std::move(model), {}).ok());
    ASSERT_NO_FATAL_FAILURE(AnswersOfAReplicaTest::Start(options_));
    PutWithEdges(0.25f);
    ASSERT_NO_FATAL_FAILURE(PutEdges(1.5f));
    AwaitEdges();
    Until([&] { return AskEdges(*replica_).kept; });
  }
  void PutWithEdges(float first) {
    GraphSource source = SmallGraph("g", first);
    source.replace = true;
    source.edge_attr = testing::Floats(std::vector<float>(12, 0.75f), {6, 2});
    ASSERT_TRUE(writer_->PutGraph(std::move(source)).ok());
    const auto graph = AwaitGraph(*writer_, "g");
    ASSERT_TRUE(graph.ok() && graph->state == GraphState::kReady) << graph.status();
  }
  void PutEdges(float value) {
    const HostTensor edges = testing::Floats(std::vector<float>(12, value), {6, 2});
    const auto set = writer_->PutEdgeFeatures("g", "default", {edges.view(), ""}, true, 0);
    ASSERT_TRUE(set.ok()) << set.status();
  }
  static int64_t EdgesAt(Engine& engine) {
    const auto graph = engine.GetGraph("g");
    for (const auto& set : graph.ok() ? graph->feature_sets : std::vector<FeatureSetResource>()) {
      if (set.kind == FeatureKind::kEdges) return set.version;
    }
    return 0;
  }
  // The replica serves what the writer does.
  void AwaitEdges() {
    Until([&] {
      return VersionAt(*replica_, "g") == VersionAt(*writer_, "g") && EdgesAt(*replica_) == EdgesAt(*writer_);
    });
  }
  // What the replica had begun to take over is done, with what is dropped afterwards.
  void AwaitFollowed() {
    ASSERT_TRUE(writer_->PutModel(SmallModel("later"), {}).ok());
    Until([&] { return replica_->GetModel("later").ok(); });
  }
  static InferenceResult AskEdges(Engine& engine) {
    const auto result = Infer(engine, AllNodes("g", "e"));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : InferenceResult();
  }
  void ExpectEdgesThere() {
    const InferenceResult first = AskEdges(*replica_);
    EXPECT_TRUE(first.kept);
    EXPECT_EQ(first.served_by.edge_feature_set, "default");
    EXPECT_EQ(first.values, AskEdges(*writer_).values);
  }

  EngineOptions options_;
};

TEST_F(EdgeAnswersOfAReplicaTest, AreThereWhenAnEdgeFeatureSetServes) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::vector<float> before = AskEdges(*replica_).values;
  ASSERT_NO_FATAL_FAILURE(PutEdges(3.0f));
  AwaitEdges();
  ExpectEdgesThere();
  EXPECT_NE(AskEdges(*replica_).values, before);
}

// What a request finds without a plan to build was planned for the set that
// comes along, and not for the graph's own features of edges.
TEST_F(EdgeAnswersOfAReplicaTest, AreOfTheSetThatComesWithItsGraph) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ChangeTogether([&] {
    PutWithEdges(2.0f);
    PutEdges(3.0f);
  });
  AwaitEdges();
  ASSERT_NO_FATAL_FAILURE(AwaitFollowed());
  const int64_t plans = replica_->memory().Snapshot().plans;
  ExpectEdgesThere();
  InferenceRequest computed = AllNodes("g", "e");
  computed.options.receptive_field = ReceptiveField::kNever;
  ASSERT_TRUE(Infer(*replica_, computed).ok());
  EXPECT_EQ(replica_->memory().Snapshot().plans, plans);
}

// A computation that takes too long delays the version by ten seconds of the clock, and no more.
TEST_F(AnswersOfAReplicaTest, AreNotWaitedForForLong) {
  EngineOptions options;
  options.clock = &clock_;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  const testing::Busy busy(*replica_, AllNodes("g", "m"));
  PutModel(0.25f);
  Put("g", 2.0f, true);
  clock_.GoOn(std::chrono::seconds(1));
  Until([&] {
    return VersionAt(*replica_, "g") == VersionAt(*writer_, "g") &&
           replica_->GetModel("m")->version == writer_->GetModel("m")->version;
  });
  EXPECT_EQ(passes_.Await(2), "late");
}

// The clock stands still and the executor is busy: only the end of the replica ends the wait.
TEST_F(AnswersOfAReplicaTest, KeepNoReplicaFromStopping) {
  EngineOptions options;
  options.clock = &clock_;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  auto busy = std::make_unique<testing::Busy>(*replica_, AllNodes("g", "m"));
  PutModel(0.25f);
  Until([&] { return writer_->GetModel("m")->durability == Durability::kDurable; });
  std::thread stop([this] { replica_.reset(); });
  busy.reset();
  stop.join();
}

}  // namespace
}  // namespace vicinal
