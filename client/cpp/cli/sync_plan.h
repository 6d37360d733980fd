// SPDX-License-Identifier: Apache-2.0
// What `vicinal sync` must do on one server: the difference between what a file declares and what the server has, told
// by digests. Pure: neither files nor the network.
#ifndef VICINAL_CLIENT_CPP_CLI_SYNC_PLAN_H_
#define VICINAL_CLIENT_CPP_CLI_SYNC_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/cli/sync_file.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/model.pb.h"

namespace vicinal::client::cli {

enum class SyncAction { kKeep, kCreate, kReplace, kDelete };
const char* NameOf(SyncAction action);  // "keep", "create", "replace", "delete"

struct SyncStep {
  SyncAction action = SyncAction::kKeep;
  const char* kind = "";  // "graph", "feature set", "edge feature set" or "model"
  std::string graph;      // of a feature set of either kind
  std::string name;
  int64_t version = 0;  // what is replaced or deleted; 0: nothing, or something without a version
};

// What a server has.
struct ServerContents {
  std::map<std::string, v1::Graph> graphs;
  std::map<std::string, v1::Model> models;
};

// The digests of the declared resources, by "graph NAME", "feature set GRAPH/NAME", "edge feature set GRAPH/NAME" and
// "model NAME".
using SyncDigests = std::map<std::string, std::string>;
std::string DigestKey(const char* kind, const std::string& graph, const std::string& name);

// The digest of a graph whose upload has features: they then are the set 'default', which must be there, too.
std::string WithFeatures(const std::string& digest);

// The steps in the order in which they must be done: graphs, each before its feature sets and these before its edge
// feature sets; models; with `prune`, deletions of what the file does not declare. A graph that has not kept the order
// of its edges is replaced if the file declares edge feature sets of it. FAILED_PRECONDITION: a replaced graph would
// drop a set of either kind that the file does not declare, without `prune`.
absl::StatusOr<std::vector<SyncStep>> PlanSync(const SyncFile& file, const SyncDigests& digests,
                                               const ServerContents& contents, bool prune);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_SYNC_PLAN_H_
