// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/load/requests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/wire/tensors.h"

namespace vicinal::client::load {
namespace {

constexpr int kGraphVariants = 8;

std::vector<float> RandomFloats(int64_t count, std::mt19937_64& random) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = std::uniform_real_distribution<float>(0, 1)(random);
  return values;
}

v1::Tensor RandomFeatures(int64_t rows, int64_t columns, std::mt19937_64& random) {
  const std::vector<float> values = RandomFloats(rows * columns, random);
  return wire::MakeTensor(values.data(), {rows, columns});
}

// The size of small molecules: rings of 12 to 28 nodes with edges in both directions.
v1::GraphBatch RandomGraphs(int64_t count, int64_t features, std::mt19937_64& random) {
  std::vector<int64_t> ptr{0}, sources, targets;
  for (int64_t graph = 0; graph < count; ++graph) {
    const int64_t first = ptr.back(), nodes = std::uniform_int_distribution<int64_t>(12, 28)(random);
    for (int64_t node = 0; node < nodes; ++node) {
      const int64_t here = first + node, next = first + (node + 1) % nodes;
      sources.insert(sources.end(), {here, next});
      targets.insert(targets.end(), {next, here});
    }
    ptr.push_back(first + nodes);
  }
  std::vector<int64_t> ends = sources;
  ends.insert(ends.end(), targets.begin(), targets.end());
  v1::GraphBatch batch;
  *batch.mutable_ptr() = wire::MakeTensor(ptr.data(), {static_cast<int64_t>(ptr.size())});
  *batch.mutable_edge_index() = wire::MakeTensor(ends.data(), {2, static_cast<int64_t>(sources.size())});
  *batch.mutable_features()->mutable_dense() = RandomFeatures(ptr.back(), features, random);
  return batch;
}

grpc::Slice ToSlice(const google::protobuf::Message& message) { return grpc::Slice(message.SerializeAsString()); }

void SetAnswer(const MixOptions& options, v1::ClassifyRequest* request) {
  request->set_top_k(options.top_k);
  request->set_return_logits(options.return_logits);
  request->set_return_probabilities(options.return_probabilities);
}
void SetAnswer(const MixOptions&, v1::EmbedRequest*) {}
void SetAnswer(const MixOptions& options, v1::PredictLinksRequest* request) {
  request->set_return_probabilities(options.return_probabilities);
}

template <class Request>
Request NodeRequest(const MixOptions& options, const Subject& subject) {
  Request request;
  request.mutable_target()->set_graph(subject.graph);
  request.mutable_target()->set_model(subject.model);
  request.mutable_target()->set_feature_set(options.feature_set);
  request.mutable_target()->set_edge_feature_set(options.edge_feature_set);
  SetAnswer(options, &request);
  *request.mutable_execution() = options.execution;
  return request;
}

int64_t FeatureRows(const MixOptions& options, const Subject& subject) {
  return std::min(options.feature_rows, subject.node_count);
}

std::vector<double> WeightsOf(const MixOptions& options) {
  std::vector<double> weights;
  for (const auto& [method, weight] : options.methods) weights.push_back(weight);
  return weights;
}

}  // namespace

const std::vector<MethodTraits>& Methods() {
  static const auto* const methods = new std::vector<MethodTraits>{
      {Method::kClassify, "classify", "/vicinal.v1.InferenceService/Classify", false, true, true},
      {Method::kEmbed, "embed", "/vicinal.v1.InferenceService/Embed", false, true, true},
      {Method::kPredictLinks, "predict_links", "/vicinal.v1.InferenceService/PredictLinks", false, true, true},
      {Method::kClassifyStream, "classify_stream", "/vicinal.v1.InferenceService/ClassifyStream", true, true, true},
      {Method::kEmbedStream, "embed_stream", "/vicinal.v1.InferenceService/EmbedStream", true, true, true},
      {Method::kClassifyFeatures, "classify_features", "/vicinal.v1.InferenceService/Classify", false, true, true},
      {Method::kClassifyRows, "classify_rows", "/vicinal.v1.InferenceService/Classify", false, true, true},
      {Method::kClassifyGraphs, "classify_graphs", "/vicinal.v1.InferenceService/ClassifyGraphs", false, false, true},
      {Method::kCapabilities, "capabilities", "/vicinal.v1.ServerService/GetCapabilities", false, false, false},
      {Method::kHealth, "health", "/grpc.health.v1.Health/Check", false, false, false},
  };
  return *methods;
}

const MethodTraits& TraitsOf(Method method) { return Methods()[static_cast<size_t>(method)]; }

absl::StatusOr<std::vector<std::pair<Method, double>>> ParseMix(absl::string_view text) {
  std::vector<std::pair<Method, double>> mix;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t equals = part.find('=');
    const absl::string_view name = part.substr(0, equals);
    const auto found = std::find_if(Methods().begin(), Methods().end(),
                                    [&](const MethodTraits& traits) { return name == traits.name; });
    if (found == Methods().end()) {
      const auto append = [](std::string* out, const MethodTraits& traits) { absl::StrAppend(out, traits.name); };
      return absl::InvalidArgumentError(absl::StrCat("names the method '", name, "', which is unknown; methods are ",
                                                     absl::StrJoin(Methods(), ", ", append)));
    }
    double weight = 1;
    if (equals != absl::string_view::npos &&
        !(absl::SimpleAtod(part.substr(equals + 1), &weight) && weight > 0 && weight < 1e9)) {
      return absl::InvalidArgumentError(absl::StrCat("has '", part, "': the frequency must be a number above 0"));
    }
    if (std::any_of(mix.begin(), mix.end(), [&](const auto& entry) { return entry.first == found->method; })) {
      return absl::InvalidArgumentError(absl::StrCat("names the method '", name, "' twice"));
    }
    mix.emplace_back(found->method, weight);
  }
  return mix;
}

Mix::Mix(MixOptions options)
    : options_(std::move(options)),
      graphs_(static_cast<int64_t>(options_.subjects.size()), options_.graph_zipf),
      weights_([&] {
        const std::vector<double> weights = WeightsOf(options_);
        return std::discrete_distribution<size_t>::param_type(weights.begin(), weights.end());
      }()) {
  for (const Subject& subject : options_.subjects) {
    nodes_.emplace_back(std::max<int64_t>(1, subject.node_count), options_.node_zipf);
  }
  for (const auto& [method, weight] : options_.methods) {
    std::vector<Shared>& row = shared_.emplace_back();
    for (const Subject& subject : options_.subjects) row.push_back(MakeShared(method, subject));
  }
}

Mix::Shared Mix::MakeShared(Method method, const Subject& subject) const {
  std::mt19937_64 random(1);
  Shared shared;
  if (method == Method::kEmbed || method == Method::kEmbedStream) {
    shared.prefixes.push_back(ToSlice(NodeRequest<v1::EmbedRequest>(options_, subject)));
  } else if (method == Method::kPredictLinks) {
    shared.prefixes.push_back(ToSlice(NodeRequest<v1::PredictLinksRequest>(options_, subject)));
  } else if (method == Method::kClassifyGraphs) {
    v1::ClassifyGraphsRequest request;
    request.set_model(subject.model);
    request.set_top_k(options_.top_k);
    request.set_return_logits(options_.return_logits);
    request.set_return_probabilities(options_.return_probabilities);
    *request.mutable_execution() = options_.execution;
    for (int i = 0; i < kGraphVariants; ++i) {
      *request.mutable_graphs() = RandomGraphs(options_.graphs_per_call, subject.feature_count, random);
      shared.prefixes.push_back(ToSlice(request));
    }
  } else if (TraitsOf(method).about_graph) {
    auto request = NodeRequest<v1::ClassifyRequest>(options_, subject);
    if (method == Method::kClassifyFeatures || method == Method::kClassifyRows) {
      const int64_t rows = method == Method::kClassifyRows ? FeatureRows(options_, subject) : subject.node_count;
      *request.mutable_features()->mutable_dense() = RandomFeatures(rows, subject.feature_count, random);
    }
    if (method == Method::kClassifyFeatures) request.mutable_target()->clear_feature_set();
    shared.prefixes.push_back(ToSlice(request));
  } else {
    shared.prefixes.emplace_back();  // GetCapabilities and Check have empty requests
  }
  return shared;
}

grpc::Slice Mix::DrawNodes(const Subject& subject, Method method, std::mt19937_64& random) const {
  const Zipf& popular = nodes_[static_cast<size_t>(&subject - options_.subjects.data())];
  // Fields of the nodes have the same numbers in ClassifyRequest and EmbedRequest.
  static_assert(int{v1::ClassifyRequest::kNodesFieldNumber} == int{v1::EmbedRequest::kNodesFieldNumber});
  // Spreads popular nodes over the graph; a prime, so that different ranks stay different nodes.
  constexpr uint64_t kPrime = 2654435761;
  const auto draw = [&] {
    const auto rank = static_cast<uint64_t>(popular.Draw(random));
    return static_cast<int64_t>(rank * kPrime % static_cast<uint64_t>(subject.node_count));
  };
  const bool all = options_.most_nodes == 0;
  const int64_t count =
      all ? 0 : std::uniform_int_distribution<int64_t>(options_.least_nodes, options_.most_nodes)(random);
  if (method == Method::kPredictLinks) {
    v1::PredictLinksRequest request;
    request.set_all_edges(all);
    for (int64_t i = 0; i < count; ++i) {
      request.mutable_pairs()->add_sources(draw());
      request.mutable_pairs()->add_targets(draw());
    }
    return ToSlice(request);
  }
  v1::ClassifyRequest request;
  if (all) request.mutable_nodes()->set_all(true);
  for (int64_t i = 0; i < count; ++i) request.mutable_nodes()->add_ids(draw());
  if (method == Method::kClassifyRows) {
    const int64_t first = std::uniform_int_distribution<int64_t>(0, subject.node_count - 1)(random);
    for (int64_t i = 0; i < FeatureRows(options_, subject); ++i) {
      request.mutable_features()->add_rows((first + i) % subject.node_count);
    }
  }
  return ToSlice(request);
}

DrawnCall Mix::Draw(std::mt19937_64& random) const {
  const size_t which = std::discrete_distribution<size_t>(weights_)(random);
  const auto subject_index = static_cast<size_t>(graphs_.Draw(random));
  const Subject& subject = options_.subjects[subject_index];
  DrawnCall call;
  call.method = options_.methods[which].first;
  const bool about_graph = TraitsOf(call.method).about_graph;
  static const std::string* const none = new std::string;
  call.graph = about_graph ? &subject.graph : none;
  const std::vector<grpc::Slice>& prefixes = shared_[which][subject_index].prefixes;
  std::vector<grpc::Slice> parts{
      prefixes[prefixes.size() == 1 ? 0 : std::uniform_int_distribution<size_t>(0, prefixes.size() - 1)(random)]};
  if (about_graph) parts.push_back(DrawNodes(subject, call.method, random));
  call.request = grpc::ByteBuffer(parts.data(), parts.size());
  const std::vector<double>& deadlines = options_.deadlines;
  call.deadline_seconds =
      deadlines[deadlines.size() == 1 ? 0 : std::uniform_int_distribution<size_t>(0, deadlines.size() - 1)(random)];
  return call;
}

}  // namespace vicinal::client::load
