// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/sync_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace vicinal::client::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SyncPlanTest : public ::testing::Test {
 protected:
  SyncPlanTest() {
    file_ = *ParseSyncFile(
        "s.yaml", "graphs: {g: {file: f, features: {s: {file: x}}}}\nmodels: {m: {architecture: a, weights: w}}");
    digests_ = {{"graph g", "dg"}, {"feature set g/s", "ds"}, {"model m", "dm"}};
  }

  v1::Graph& AddGraph(const std::string& name, const std::string& digest) {
    v1::Graph& graph = contents_.graphs[name];
    graph.set_name(name);
    graph.set_version(7);
    graph.set_source_digest(digest);
    return graph;
  }
  static void AddSet(const std::string& name, const std::string& digest, v1::Graph* graph) {
    Fill(name, digest, graph->add_feature_sets());
  }
  static void AddEdgeSet(const std::string& name, const std::string& digest, v1::Graph* graph) {
    Fill(name, digest, graph->add_edge_feature_sets());
  }
  static void Fill(const std::string& name, const std::string& digest, v1::FeatureSet* set) {
    set->set_name(name);
    set->set_version(3);
    set->set_source_digest(digest);
  }
  // The graph 'g' with the edge feature set 's', beside the set 's' of nodes.
  void DeclareEdgeFeatures() {
    file_ = *ParseSyncFile("s.yaml", "graphs: {g: {file: f, features: {s: {file: x}}, edge_features: {s: {file: e}}}}");
    digests_["edge feature set g/s"] = "de";
  }
  void AddModel(const std::string& name, const std::string& digest) {
    contents_.models[name].set_version(5);
    contents_.models[name].set_source_digest(digest);
  }

  // "action kind graph/name version", without what is kept.
  std::vector<std::string> Plan(bool prune = false) {
    const auto steps = PlanSync(file_, digests_, contents_, prune);
    if (!steps.ok()) return {std::string(steps.status().message())};
    std::vector<std::string> words;
    for (const SyncStep& step : *steps) {
      if (step.action == SyncAction::kKeep) continue;
      words.push_back(
          absl::StrCat(NameOf(step.action), " ", DigestKey(step.kind, step.graph, step.name), " ", step.version));
    }
    return words;
  }

  SyncFile file_;
  SyncDigests digests_;
  ServerContents contents_;
};

TEST_F(SyncPlanTest, AnEmptyServerGetsAllInOrder) {
  EXPECT_THAT(Plan(), ElementsAre("create graph g 0", "create feature set g/s 0", "create model m 0"));
}

TEST_F(SyncPlanTest, WhatIsThereIsKept) {
  v1::Graph& graph = AddGraph("g", "dg+x");
  AddSet("default", "dg+x", &graph);
  AddSet("s", "ds", &graph);
  AddModel("m", "dm");
  EXPECT_THAT(Plan(), IsEmpty());
  EXPECT_THAT(Plan(true), IsEmpty());
}

TEST_F(SyncPlanTest, WhatDiffersIsReplacedByVersion) {
  v1::Graph& graph = AddGraph("g", "other");
  AddSet("s", "ds", &graph);
  AddModel("m", "");
  EXPECT_THAT(Plan(), ElementsAre("replace graph g 7", "create feature set g/s 0", "replace model m 5"));
  graph.set_source_digest("dg");
  graph.mutable_feature_sets(0)->set_source_digest("old");
  EXPECT_THAT(Plan(), ElementsAre("replace feature set g/s 3", "replace model m 5"));
}

TEST_F(SyncPlanTest, FeaturesOfTheGraphsOwnFileAreComparedToo) {
  v1::Graph& graph = AddGraph("g", "dg+x");
  AddSet("s", "ds", &graph);
  AddModel("m", "dm");
  EXPECT_THAT(Plan(), ElementsAre("replace graph g 7", "create feature set g/s 0")) << "default was deleted";
  AddSet("default", "somebody's", &graph);
  EXPECT_THAT(Plan(), ElementsAre("replace graph g 7", "create feature set g/s 0"));
  graph.set_source_digest("dg");
  EXPECT_THAT(Plan(), ElementsAre("replace graph g 7", "create feature set g/s 0")) << "the file brings none";
}

TEST_F(SyncPlanTest, ADeclaredDefaultSetStandsForItself) {
  file_ = *ParseSyncFile("s.yaml", "graphs: {g: {file: f, features: {default: {file: x}}}}");
  digests_["feature set g/default"] = "dd";
  EXPECT_THAT(Plan(), ElementsAre("create graph g 0", "replace feature set g/default 0"));
  v1::Graph& graph = AddGraph("g", "dg+x");
  AddSet("default", "dd", &graph);
  EXPECT_THAT(Plan(), IsEmpty());
  graph.mutable_feature_sets(0)->set_source_digest("dg+x");
  EXPECT_THAT(Plan(), ElementsAre("replace feature set g/default 3"));
}

TEST_F(SyncPlanTest, OnlyPruningDeletes) {
  v1::Graph& graph = AddGraph("g", "dg");
  AddSet("s", "ds", &graph);
  AddSet("extra", "e", &graph);
  AddGraph("old", "dg");
  AddModel("m", "dm");
  AddModel("former", "dm");
  EXPECT_THAT(Plan(), IsEmpty());
  EXPECT_THAT(Plan(true), ElementsAre("delete model former 5", "delete feature set g/extra 3", "delete graph old 7"));
}

TEST_F(SyncPlanTest, AReplacementDropsNoOtherSetUnasked) {
  v1::Graph& graph = AddGraph("g", "other");
  AddSet("extra", "e", &graph);
  AddModel("m", "dm");
  EXPECT_THAT(Plan(),
              ElementsAre(HasSubstr("s.yaml:1: graph 'g' must be replaced, which drops its feature set 'extra'")));
  EXPECT_THAT(Plan(true), ElementsAre("replace graph g 7", "create feature set g/s 0"));
}

TEST_F(SyncPlanTest, EdgeFeatureSetsComeAfterTheirGraphAndAreComparedAlone) {
  DeclareEdgeFeatures();
  EXPECT_THAT(Plan(), ElementsAre("create graph g 0", "create feature set g/s 0", "create edge feature set g/s 0"));
  v1::Graph& graph = AddGraph("g", "dg");
  graph.set_edge_order_kept(true);
  AddSet("s", "ds", &graph);
  EXPECT_THAT(Plan(), ElementsAre("create edge feature set g/s 0")) << "the set of nodes is another one";
  AddEdgeSet("s", "de", &graph);
  EXPECT_THAT(Plan(true), IsEmpty());
  graph.mutable_edge_feature_sets(0)->set_source_digest("");
  EXPECT_THAT(Plan(), ElementsAre("replace edge feature set g/s 3")) << "uploaded by hand";
  graph.mutable_edge_feature_sets(0)->set_source_digest("de");
  graph.mutable_feature_sets(0)->set_source_digest("old");
  EXPECT_THAT(Plan(), ElementsAre("replace feature set g/s 3"));
  graph.set_source_digest("other");
  EXPECT_THAT(Plan(), ElementsAre("replace graph g 7", "create feature set g/s 0", "create edge feature set g/s 0"));
}

TEST_F(SyncPlanTest, AGraphThatKeptNoOrderOfEdgesIsSentAgainIfItShallHaveEdgeFeatures) {
  v1::Graph& graph = AddGraph("g", "dg");
  AddSet("s", "ds", &graph);
  AddModel("m", "dm");
  EXPECT_THAT(Plan(), IsEmpty());
  DeclareEdgeFeatures();
  EXPECT_THAT(Plan(), ElementsAre("replace graph g 7", "create feature set g/s 0", "create edge feature set g/s 0"));
}

TEST_F(SyncPlanTest, AnEdgeFeatureSetCalledDefaultDoesNotComeWithTheGraph) {
  file_ = *ParseSyncFile("s.yaml", "graphs: {g: {file: f, edge_features: {default: {file: e}}}}");
  digests_["edge feature set g/default"] = "de";
  EXPECT_THAT(Plan(), ElementsAre("create graph g 0", "create edge feature set g/default 0"));
}

TEST_F(SyncPlanTest, EdgeFeatureSetsThatAreNotDeclaredStayUnlessPruned) {
  DeclareEdgeFeatures();
  v1::Graph& graph = AddGraph("g", "dg");
  graph.set_edge_order_kept(true);
  AddSet("s", "ds", &graph);
  AddEdgeSet("default", "", &graph);
  AddEdgeSet("s", "de", &graph);
  EXPECT_THAT(Plan(), IsEmpty());
  EXPECT_THAT(Plan(true), ElementsAre("delete edge feature set g/default 3"));
  graph.set_source_digest("other");
  EXPECT_THAT(Plan(),
              ElementsAre("s.yaml:1: graph 'g' must be replaced, which drops its edge feature set 'default'; declare "
                          "that set here, or pass --prune to drop it"));
  EXPECT_THAT(Plan(true),
              ElementsAre("replace graph g 7", "create feature set g/s 0", "create edge feature set g/s 0"));
}

}  // namespace
}  // namespace vicinal::client::cli
