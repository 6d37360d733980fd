// SPDX-License-Identifier: Apache-2.0
// Which calls a load consists of: draws method, graph, nodes and deadline, and gives the request as bytes. What does
// not change between calls (names, options, features) is serialized once and shared; the part with the nodes is
// appended, since a protobuf message is the merge of its concatenated parts. Drawing costs about a microsecond for ten
// nodes.
#ifndef VICINAL_CLIENT_CPP_LOAD_REQUESTS_H_
#define VICINAL_CLIENT_CPP_LOAD_REQUESTS_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/load/zipf.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::client::load {

enum class Method {
  kClassify,
  kEmbed,
  kPredictLinks,  // as many pairs as nodes
  kClassifyStream,
  kEmbedStream,
  kClassifyFeatures,  // Classify with features of all nodes in the request
  kClassifyRows,      // Classify with features of some nodes in the request
  kClassifyGraphs,    // small random graphs in the request
  kCapabilities,
  kHealth,
};

// A row per method: its name here, its path on the wire, and what it needs.
struct MethodTraits {
  Method method;
  const char* name;
  std::string path;
  bool stream;  // of replies
  bool about_graph;
  bool about_model;
};
const std::vector<MethodTraits>& Methods();
const MethodTraits& TraitsOf(Method method);

// A graph and the model to run on it.
struct Subject {
  std::string graph;
  std::string model;
  int64_t node_count = 0;
  int64_t feature_count = 0;
};

struct MixOptions {
  // Methods with their relative frequencies; positive.
  std::vector<std::pair<Method, double>> methods;
  // By popularity, the most popular first. For ClassifyGraphs and methods without a graph one without a graph.
  std::vector<Subject> subjects;
  double graph_zipf = 0;
  double node_zipf = 0;
  // Nodes per call, drawn uniformly; 0: all.
  int64_t least_nodes = 10;
  int64_t most_nodes = 10;
  int64_t feature_rows = 1;  // of kClassifyRows
  int64_t graphs_per_call = 16;
  std::string feature_set, edge_feature_set;
  int32_t top_k = 1;
  bool return_logits = false;
  bool return_probabilities = false;
  v1::ExecutionOptions execution;
  // Seconds from the intended start; each call draws one.
  std::vector<double> deadlines;
};

// "classify=8,embed=2" or "classify". INVALID_ARGUMENT without the option's name.
absl::StatusOr<std::vector<std::pair<Method, double>>> ParseMix(absl::string_view text);

struct DrawnCall {
  Method method = Method::kClassify;
  const std::string* graph = nullptr;  // its name, which lives as long as the Mix; empty: none
  grpc::ByteBuffer request;
  double deadline_seconds = 0;
};

// Immutable once made: several threads may draw, each with its own `random`.
class Mix {
 public:
  // Serializes what calls share. The features of one graph with all its rows are held in memory, once.
  explicit Mix(MixOptions options);

  DrawnCall Draw(std::mt19937_64& random) const;

 private:
  struct Shared {
    std::vector<grpc::Slice> prefixes;  // one, or variants of which each call draws one
  };
  Shared MakeShared(Method method, const Subject& subject) const;
  grpc::Slice DrawNodes(const Subject& subject, Method method, std::mt19937_64& random) const;

  const MixOptions options_;
  Zipf graphs_;
  std::vector<Zipf> nodes_;                  // by subject
  std::vector<std::vector<Shared>> shared_;  // by method of the mix and subject
  std::discrete_distribution<size_t>::param_type weights_;
};

}  // namespace vicinal::client::load

#endif  // VICINAL_CLIENT_CPP_LOAD_REQUESTS_H_
