// SPDX-License-Identifier: Apache-2.0
// The life of names in the store: states, versions, replacement, refusals with their codes, reservations.
#include "engine/store/graph_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "engine/base/error.h"
#include "tests/engine/store/store_testing.h"

namespace vicinal {
namespace {

using ::testing::HasSubstr;
using testing::MakeGraph;
using testing::MakeMatrix;

class GraphStoreTest : public ::testing::Test {
 protected:
  GraphStore::Options Options() {
    GraphStore::Options options;
    options.clock = &clock_;
    return options;
  }
  StatusOr<int64_t> Begin(const std::string& name, bool replace = false, int64_t if_version = 0) {
    return store_.BeginPrepare(name, replace, if_version, 10, 30);
  }
  // Puts a ready graph there; returns its version.
  int64_t Put(const std::string& name, bool replace = false) {
    const auto version = Begin(name, replace);
    EXPECT_TRUE(version.ok()) << version.status();
    store_.FinishPrepare(name, *version, MakeGraph(name, *version, device_.get()), nullptr);
    return *version;
  }
  StatusOr<FeatureSetHandle> PutSet(const std::string& name, bool replace = false, int64_t if_version = 0) {
    return store_.PutFeatures("g", name, store_.Find("g", 0, "", 0)->graph->parts().version, MakeMatrix(device_.get()),
                              replace, if_version);
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    store_.ForEach([&](const GraphStatus& graph) { names.push_back(graph.name); });
    return names;
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  FakeClock clock_;
  GraphStore store_{Options()};
};

void ExpectStatus(const Status& status, StatusCode code, const std::string& reason, const std::string& message) {
  EXPECT_EQ(status.code(), code) << status;
  ASSERT_TRUE(DetailOf(status).has_value());
  EXPECT_EQ(DetailOf(status)->reason, reason);
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST_F(GraphStoreTest, GoesFromPreparingToReady) {
  ExpectStatus(store_.Get("g").status(), StatusCode::kNotFound, "NOT_FOUND", "graph 'g' does not exist");
  ASSERT_EQ(*Begin("g"), 1);
  auto status = store_.Get("g");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->state, GraphState::kPreparing);
  EXPECT_EQ(status->graph, nullptr);
  EXPECT_EQ(status->node_count, 10);
  EXPECT_EQ(status->edge_count, 30);
  ExpectStatus(store_.Find("g", 0, "", 0).status(), StatusCode::kFailedPrecondition, "GRAPH_NOT_READY",
               "is being prepared");
  store_.SetProgress("g", 1, 0.5, "renumber");
  store_.SetProgress("g", 2, 0.9, "publish");  // of nobody
  EXPECT_TRUE(store_.IsPreparing("g", 1));
  EXPECT_FALSE(store_.IsPreparing("g", 2));
  EXPECT_FALSE(store_.IsPreparing("h", 1));
  EXPECT_EQ(store_.Get("g")->progress, 0.5);
  EXPECT_EQ(store_.Get("g")->stage, "renumber");

  const auto graph = MakeGraph("g", 1, device_.get(), 12);
  store_.FinishPrepare("g", 1, graph, MakeMatrix(device_.get(), 12));
  status = store_.Get("g");
  EXPECT_EQ(status->state, GraphState::kReady);
  EXPECT_EQ(status->progress, 1.0);
  EXPECT_EQ(status->graph, graph);
  EXPECT_EQ(status->node_count, 12);
  EXPECT_EQ(status->edge_count, 36);
  ASSERT_EQ(status->feature_sets.size(), 1);
  EXPECT_EQ(status->feature_sets[0]->name, "default");
  EXPECT_EQ(status->feature_sets[0]->graph, "g");
  EXPECT_EQ(status->feature_sets[0]->version, 1);
  EXPECT_EQ(status->feature_sets[0]->create_time, clock_.WallNow());
  const auto found = store_.Find("g", 1, "default", 1);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->graph, graph);
  EXPECT_EQ(found->features, status->feature_sets[0]);
  EXPECT_EQ(store_.Find("g", 0, "", 0)->features, nullptr);
}

TEST_F(GraphStoreTest, AFailureIsKeptUntilTheNextUpload) {
  ASSERT_EQ(*Begin("g"), 1);
  store_.FinishPrepare("g", 1, InvalidArgument("X", "edge_index", "no good"), nullptr);
  EXPECT_EQ(store_.Get("g")->state, GraphState::kFailed);
  EXPECT_EQ(store_.Get("g")->error.message(), "no good");
  ExpectStatus(store_.Find("g", 0, "", 0).status(), StatusCode::kFailedPrecondition, "GRAPH_NOT_READY",
               "could not be prepared: no good");
  EXPECT_EQ(*Begin("g"), 2);  // a failure holds no name
  EXPECT_TRUE(store_.Get("g")->error.ok());
}

TEST_F(GraphStoreTest, ReplacesAtomically) {
  Put("g");
  ASSERT_TRUE(PutSet("other").ok());
  const auto old = store_.Find("g", 0, "other", 0);
  ExpectStatus(Begin("g").status(), StatusCode::kAlreadyExists, "ALREADY_EXISTS", "set replace");
  ASSERT_EQ(*Begin("g", true), 2);
  // The old one serves on; watchers see the preparation.
  EXPECT_EQ(store_.Get("g")->state, GraphState::kPreparing);
  EXPECT_EQ(store_.Find("g", 1, "other", 0)->graph, old->graph);
  ExpectStatus(Begin("g", true).status(), StatusCode::kAborted, "PREPARATION_UNDER_WAY", "from another upload");
  store_.FinishPrepare("g", 2, MakeGraph("g", 2, device_.get()), nullptr);
  EXPECT_EQ(store_.Find("g", 0, "", 0)->graph->parts().version, 2);
  ExpectStatus(store_.Find("g", 1, "", 0).status(), StatusCode::kNotFound, "VERSION_NOT_FOUND",
               "graph 'g' has no version 1: only its latest is kept, 2; request 2, or 0 for whichever is the latest");
  ExpectStatus(store_.Find("g", 9999, "", 0).status(), StatusCode::kNotFound, "VERSION_NOT_FOUND",
               "graph 'g' has no version 9999 yet: its latest is 2; request 2, or 0 for whichever is the latest");
  ExpectStatus(store_.Find("g", 0, "other", 0).status(), StatusCode::kNotFound, "NOT_FOUND", "feature set 'other'");
  EXPECT_EQ(old->graph->parts().version, 1);  // the handle keeps it
  EXPECT_EQ(old->features->matrix->rows(), 10);
}

TEST_F(GraphStoreTest, AFailedReplaceLeavesTheOldOneServing) {
  Put("g");
  ASSERT_EQ(*Begin("g", true, 1), 2);
  store_.FinishPrepare("g", 2, Internal("broken"), nullptr);
  EXPECT_EQ(store_.Get("g")->state, GraphState::kReady);
  EXPECT_EQ(store_.Get("g")->error.message(), "broken");
  EXPECT_EQ(store_.Find("g", 0, "", 0)->graph->parts().version, 1);
}

TEST_F(GraphStoreTest, IfVersionMustMatch) {
  Put("g");
  ExpectStatus(Begin("g", true, 5).status(), StatusCode::kAborted, "VERSION_MISMATCH",
               "graph 'g' is at version 1, but if_version is 5");
  ExpectStatus(Begin("new", true, 5).status(), StatusCode::kAborted, "VERSION_MISMATCH", "has no version yet");
  EXPECT_EQ(Names(), std::vector<std::string>{"g"});
  ExpectStatus(store_.Delete("g", 3), StatusCode::kAborted, "VERSION_MISMATCH", "if_version is 3");
  EXPECT_TRUE(store_.Delete("g", 1).ok());
}

TEST_F(GraphStoreTest, VersionsRiseAfterDeletion) {
  EXPECT_EQ(Put("g"), 1);
  ASSERT_TRUE(PutSet("f").ok());
  EXPECT_EQ(Put("h"), 2);
  ASSERT_TRUE(store_.Delete("g", 0).ok());
  ExpectStatus(store_.Delete("g", 0), StatusCode::kNotFound, "NOT_FOUND", "graph 'g'");
  EXPECT_EQ(Put("g"), 3);
  EXPECT_EQ((*PutSet("f"))->version, 2);
}

TEST_F(GraphStoreTest, APreparationThatWasDeletedPublishesNothing) {
  ASSERT_EQ(*Begin("g"), 1);
  ASSERT_TRUE(store_.Delete("g", 0).ok());
  store_.FinishPrepare("g", 1, MakeGraph("g", 1, device_.get()), nullptr);
  EXPECT_FALSE(store_.Get("g").ok());
  ASSERT_EQ(*Begin("g"), 2);
  store_.FinishPrepare("g", 1, MakeGraph("g", 1, device_.get()), nullptr);  // late, of the deleted one
  EXPECT_EQ(store_.Get("g")->state, GraphState::kPreparing);
}

TEST_F(GraphStoreTest, FeatureSetsHaveVersionsOfTheirOwn) {
  Put("g");
  EXPECT_EQ((*PutSet("a"))->version, 1);
  EXPECT_EQ((*PutSet("b"))->version, 2);
  ExpectStatus(PutSet("a").status(), StatusCode::kAlreadyExists, "ALREADY_EXISTS", "feature set 'a'");
  ExpectStatus(PutSet("a", true, 9).status(), StatusCode::kAborted, "VERSION_MISMATCH",
               "is at version 1, but if_version is 9");
  EXPECT_EQ((*PutSet("a", true, 1))->version, 3);
  ExpectStatus(store_.Find("g", 0, "a", 1).status(), StatusCode::kNotFound, "VERSION_NOT_FOUND",
               "feature set 'a' has no version 1: only its latest is kept, 3");
  ExpectStatus(store_.Find("g", 0, "a", 4).status(), StatusCode::kNotFound, "VERSION_NOT_FOUND",
               "feature set 'a' has no version 4 yet: its latest is 3");
  ExpectStatus(store_.DeleteFeatures("g", "a", FeatureKind::kNodes, 1), StatusCode::kAborted, "VERSION_MISMATCH",
               "is at version 3, but if_version is 1");
  EXPECT_TRUE(store_.DeleteFeatures("g", "a", FeatureKind::kNodes, 3).ok());
  ExpectStatus(store_.DeleteFeatures("g", "a", FeatureKind::kNodes, 3), StatusCode::kNotFound, "NOT_FOUND",
               "feature set 'a'");
  ExpectStatus(store_.DeleteFeatures("g", "a"), StatusCode::kNotFound, "NOT_FOUND", "feature set 'a'");
  ExpectStatus(store_.DeleteFeatures("g", "b", FeatureKind::kEdges), StatusCode::kNotFound, "NOT_FOUND",
               "a feature set of nodes has this name");
  ExpectStatus(store_.DeleteFeatures("no", "a"), StatusCode::kNotFound, "NOT_FOUND", "graph 'no'");
  EXPECT_EQ(store_.Get("g")->feature_sets.size(), 1);
}

TEST_F(GraphStoreTest, FeaturesMustFitTheVersionThatServes) {
  const auto put = [&](int64_t version) {
    return store_.PutFeatures("g", "f", version, MakeMatrix(device_.get()), false, 0).status();
  };
  ExpectStatus(put(1), StatusCode::kNotFound, "NOT_FOUND", "graph 'g'");
  ASSERT_TRUE(Begin("g").ok());
  ExpectStatus(put(1), StatusCode::kFailedPrecondition, "GRAPH_NOT_READY", "is not ready");
  store_.FinishPrepare("g", 1, MakeGraph("g", 1, device_.get()), nullptr);
  Put("g", true);
  ExpectStatus(put(1), StatusCode::kAborted, "GRAPH_REPLACED", "replaced by version 2");
  EXPECT_TRUE(put(2).ok());
}

TEST_F(GraphStoreTest, SeesAllByName) {
  Put("b");
  Put("a");
  ASSERT_TRUE(Begin("c").ok());
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(GraphStoreTest, WhatIsDeletedMeanwhileIsNotSeen) {
  Put("a");
  Put("b");
  std::vector<std::string> seen;
  store_.ForEach([&](const GraphStatus& graph) {
    seen.push_back(graph.name);
    store_.Delete("b", 0).IgnoreError();
  });
  EXPECT_EQ(seen, std::vector<std::string>{"a"});
}

TEST_F(GraphStoreTest, WhatIsStoredHoldsItsReservation) {
  MemoryBudget budget(0);
  const auto reserve = [&](int64_t bytes) { return budget.Reserve(Account::kPreparing, bytes, "a test").value(); };
  const auto put = [&](int64_t graph_bytes, int64_t feature_bytes) {
    const auto version = Begin("g", true);
    auto graph = MakeGraph("g", *version, device_.get());
    graph->AddReservation(reserve(graph_bytes));
    store_.FinishPrepare("g", *version, graph, MakeMatrix(device_.get()),
                         std::make_shared<Reservation>(reserve(feature_bytes)));
  };
  put(100, 20);
  EXPECT_EQ(budget.Snapshot().graphs, 100);
  EXPECT_EQ(budget.Snapshot().features, 20);
  EXPECT_EQ(budget.Snapshot().preparing, 0);
  auto handle = store_.Find("g", 0, "default", 0).value();
  put(1000, 200);
  EXPECT_EQ(budget.Snapshot().graphs, 1000);
  EXPECT_EQ(budget.Snapshot().features, 200);
  EXPECT_EQ(budget.Snapshot().requests, 120) << "a request still uses the old version";
  const auto matrix = handle.features->matrix;
  handle = GraphHandle();
  EXPECT_EQ(budget.Snapshot().requests, 20);
  ASSERT_TRUE(store_
                  .PutFeatures("g", "f", store_.Get("g")->graph->parts().version, MakeMatrix(device_.get()), false, 0,
                               std::make_shared<Reservation>(reserve(3)))
                  .ok());
  EXPECT_EQ(budget.Snapshot().features, 203);
  ASSERT_TRUE(store_.DeleteFeatures("g", "f").ok());
  EXPECT_EQ(budget.Snapshot().features, 200);
  ASSERT_TRUE(store_.Delete("g", 0).ok());
  EXPECT_EQ(budget.Snapshot().total(), 20) << "the matrix alone";
}

TEST_F(GraphStoreTest, KeepsToItsNumbers) {
  GraphStore::Options options = Options();
  options.max_graphs = 2;
  options.max_feature_sets = 1;
  GraphStore store(options);
  const auto begin = [&](const std::string& name) { return store.BeginPrepare(name, true, 0, 10, 30); };
  ASSERT_TRUE(begin("a").ok());
  ASSERT_TRUE(begin("b").ok());
  ExpectStatus(begin("c").status(), StatusCode::kResourceExhausted, "TOO_MANY", "at most 2 graphs (--max_graphs)");
  store.FinishPrepare("a", 1, MakeGraph("a", 1, device_.get()), nullptr);
  EXPECT_TRUE(begin("a").ok());  // a replace needs no new name
  store.FinishPrepare("b", 2, Internal("x"), nullptr);
  EXPECT_TRUE(begin("c").ok());  // what failed makes room
  EXPECT_FALSE(store.Get("b").ok());
  EXPECT_TRUE(store.PutFeatures("a", "f", 1, MakeMatrix(device_.get()), false, 0).ok());
  EXPECT_TRUE(store.PutFeatures("a", "f", 1, MakeMatrix(device_.get()), true, 0).ok());
  ExpectStatus(store.PutFeatures("a", "h", 1, MakeMatrix(device_.get()), false, 0).status(),
               StatusCode::kResourceExhausted, "TOO_MANY", "feature sets (--max_feature_sets)");
}

TEST_F(GraphStoreTest, WhatIsLostOnDiskStaysUntilAnUploadServes) {
  GraphStore::Options options = Options();
  options.max_graphs = 1;
  GraphStore store(options);
  ErrorDetail detail;
  detail.reason = "STATE_DAMAGED";
  const Status damaged = MakeError(StatusCode::kDataLoss, "it is damaged", detail);
  StoredGraph stored;
  stored.serving.version = 7;
  store.BeginLoad("lost", stored, {});
  store.FailLoad("lost", 7, damaged);
  const auto find = [&] { return store.Find("lost", 0, "", 0).status(); };
  ExpectStatus(find(), StatusCode::kDataLoss, "STATE_DAMAGED", "'lost' could not be loaded from disk: it is damaged");
  const auto other = store.BeginPrepare("a", false, 0, 10, 30);
  ASSERT_TRUE(other.ok()) << "it takes no place: " << other.status();
  store.FinishPrepare("a", *other, Internal("x"), nullptr);
  ASSERT_TRUE(store.BeginPrepare("b", false, 0, 10, 30).ok());
  EXPECT_FALSE(store.Get("a").ok()) << "what could not be prepared makes room";
  const auto failing = store.BeginPrepare("lost", false, 0, 10, 30);
  ASSERT_TRUE(failing.ok()) << failing.status();
  EXPECT_EQ(find().code(), StatusCode::kFailedPrecondition);
  store.FinishPrepare("lost", *failing, InvalidArgument("X", "edge_index", "no good"), nullptr);
  EXPECT_EQ(store.Get("lost")->error.message(), "no good");
  ExpectStatus(find(), StatusCode::kDataLoss, "STATE_DAMAGED", "it is damaged");
  const auto again = store.BeginPrepare("lost", false, 0, 10, 30);
  ASSERT_TRUE(again.ok()) << again.status();
  store.FinishPrepare("lost", *again, MakeGraph("lost", *again, device_.get()), nullptr);
  EXPECT_TRUE(find().ok());
}

TEST_F(GraphStoreTest, WatchersHearOfEachChangeOfTheirName) {
  int calls = 0;
  auto subscription = store_.Watch("g", [&] {
    ++calls;
    store_.Get("g").status().IgnoreError();  // no lock is held
  });
  Put("other");
  EXPECT_EQ(calls, 0);
  const StatusOr<int64_t> version = Begin("g");
  ASSERT_TRUE(version.ok());
  EXPECT_EQ(calls, 1);
  store_.SetProgress("g", *version, 0.5, "csr");
  EXPECT_EQ(calls, 2);
  store_.FinishPrepare("g", *version, MakeGraph("g", *version, device_.get()), nullptr);
  EXPECT_EQ(calls, 3);
  ASSERT_TRUE(PutSet("f").ok());
  ASSERT_TRUE(store_.DeleteFeatures("g", "f").ok());
  ASSERT_TRUE(store_.Delete("g", 0).ok());
  EXPECT_EQ(calls, 6);
  store_.Delete("g", 0).IgnoreError();  // changes nothing
  EXPECT_EQ(calls, 6);
  subscription.reset();
  Put("g");
  EXPECT_EQ(calls, 6);
}

TEST_F(GraphStoreTest, ASubscriptionMayOutliveTheStore) {
  auto store = std::make_unique<GraphStore>(Options());
  auto subscription = store->Watch("g", [] {});
  store.reset();
  subscription.reset();
}

}  // namespace
}  // namespace vicinal
