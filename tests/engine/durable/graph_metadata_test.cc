// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/graph_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/engine/durable/durable_testing.h"

namespace vicinal::durable {
namespace {

using ::testing::HasSubstr;

nlohmann::json Sound() {
  GraphMetadata metadata;
  metadata.node_count = metadata.profile.num_nodes = 4;
  metadata.edge_count = metadata.profile.num_edges = 9;
  metadata.profile.mean_degree = 0.1;
  metadata.profile.communities.modularity = -0.25;
  metadata.stages = {{"csr", 0.125}};
  return nlohmann::json::parse(EncodeGraphMetadata(metadata));
}

StatusOr<GraphMetadata> Parse(const std::string& text) {
  state::Manifest manifest;
  manifest.id = {state::Store::kGraphs, "g", 1, "", 0};
  manifest.metadata = text;
  return ParseGraphMetadata(manifest);
}

void ExpectDamaged(const nlohmann::json& json, const std::string& message) {
  const auto parsed = Parse(json.dump());
  EXPECT_EQ(parsed.status().code(), StatusCode::kDataLoss) << message;
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(message));
}

TEST(GraphMetadata, MembersOfALaterMinorFormatAreIgnored) {
  nlohmann::json json = Sound();
  json["something_new"] = {1, 2};
  json["profile"]["another"] = "x";
  const auto parsed = Parse(json.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->node_count, 4);
  EXPECT_EQ(parsed->profile.mean_degree, 0.1);
  EXPECT_EQ(parsed->profile.communities.modularity, -0.25);
  ASSERT_EQ(parsed->stages.size(), 1);
  EXPECT_EQ(parsed->stages[0].seconds, 0.125);
}

TEST(GraphMetadata, EveryMemberIsRequired) {
  const nlohmann::json sound = Sound();
  for (const auto& [key, value] : sound.items()) {
    if (key == "pinned" || key == "source_digest") continue;  // were added later
    nlohmann::json json = sound;
    json.erase(key);
    ExpectDamaged(json, key);
  }
  for (const auto& [key, value] : sound["profile"].items()) {
    nlohmann::json json = sound;
    json["profile"].erase(key);
    ExpectDamaged(json, key);
  }
}

TEST(GraphMetadata, EveryMemberHasItsType) {
  const nlohmann::json sound = Sound();
  for (const auto& [key, value] : sound.items()) {
    nlohmann::json json = sound;
    json[key] = nullptr;
    ExpectDamaged(json, key);
  }
}

TEST(GraphMetadata, WhatIsOutOfItsRangeIsFound) {
  nlohmann::json json = Sound();
  json["node_count"] = -4;
  ExpectDamaged(json, "node_count");
  json = Sound();
  json["node_count"] = 0;
  ExpectDamaged(json, "node_count is out of its range");
  json = Sound();
  json["edge_count"] = 10;
  ExpectDamaged(json, "the profile is that of another graph");
  json = Sound();
  json["order"] = "auto";
  ExpectDamaged(json, "the order is not a known one");
  json = Sound();
  json["order"] = "alphabetical";
  ExpectDamaged(json, "the order is not a known one");
  json = Sound();
  json["profile"]["degree_quantiles"] = {1, 2};
  ExpectDamaged(json, "degree_quantiles has another number of elements");
}

TEST(GraphMetadata, TextThatIsNotAnObjectIsFound) {
  for (const char* const text : {"", "[]", "3", "{\"node_count\":1,\"node_count\":2}", "{"}) {
    EXPECT_EQ(Parse(text).status().code(), StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace vicinal::durable
