// SPDX-License-Identifier: Apache-2.0
// `vicinal classify-graphs`: many small graphs of one file, sent in batches that fit a message; answers do not depend
// on the cut.
#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/answers.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/execution.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/cli/tensors.h"
#include "client/cpp/formats/status_macros.h"
#include "proto/wire/tensors.h"

namespace vicinal::client::cli {
namespace {

// Edges by batch: which edges have their nodes in it.
std::vector<std::vector<int64_t>> EdgesByBatch(const GraphBatchData& data, int64_t graphs_per_batch) {
  const auto graphs = static_cast<int64_t>(data.ptr.size()) - 1;
  std::vector<std::vector<int64_t>> edges(static_cast<size_t>((graphs + graphs_per_batch - 1) / graphs_per_batch));
  for (size_t i = 0; i < data.sources.size(); ++i) {
    // A node belongs to the last graph whose first node is not after it.
    const auto next = std::upper_bound(data.ptr.begin(), data.ptr.end(), data.sources[i]);
    const int64_t graph = next - data.ptr.begin() - 1;
    edges[static_cast<size_t>(graph / graphs_per_batch)].push_back(static_cast<int64_t>(i));
  }
  return edges;
}

// Graphs [first, last) with the given edges, nodes counted from 0.
v1::GraphBatch MakeBatch(const GraphBatchData& data, int64_t first, int64_t last, const std::vector<int64_t>& edges) {
  const int64_t begin = data.ptr[first], end = data.ptr[last];
  std::vector<int64_t> ptr(data.ptr.begin() + first, data.ptr.begin() + last + 1);
  for (int64_t& at : ptr) at -= begin;
  std::vector<int64_t> ends;
  ends.reserve(2 * edges.size());
  std::vector<float> weights;
  for (const int64_t edge : edges) ends.push_back(data.sources[edge] - begin);
  for (const int64_t edge : edges) ends.push_back(data.targets[edge] - begin);
  v1::GraphBatch batch;
  *batch.mutable_ptr() = wire::MakeTensor(ptr.data(), {last - first + 1});
  *batch.mutable_edge_index() = wire::MakeTensor(ends.data(), {2, static_cast<int64_t>(edges.size())});
  if (!data.weights.empty()) {
    for (const int64_t edge : edges) weights.push_back(data.weights[edge]);
    *batch.mutable_edge_weight() = wire::MakeTensor(weights.data(), {static_cast<int64_t>(edges.size())});
  }
  if (const int64_t width = data.edge_feature_width; width > 0) {
    std::vector<float> features;
    for (const int64_t edge : edges) {
      const auto row = data.edge_features.begin() + edge * width;
      features.insert(features.end(), row, row + width);
    }
    *batch.mutable_edge_attr() = wire::MakeTensor(features.data(), {static_cast<int64_t>(edges.size()), width});
  }
  *batch.mutable_features() = ToFeatureInput(data.features, begin, end - begin);
  return batch;
}

absl::StatusOr<v1::ClassifyGraphsRequest> MakeRequest(const Arguments& args) {
  v1::ClassifyGraphsRequest request;
  request.set_model(args.Text("model"));
  const int64_t top_k = args.Integer("top_k", 1);
  if (top_k < std::numeric_limits<int32_t>::min() || top_k > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError("--top_k is out of range");
  }
  request.set_top_k(static_cast<int32_t>(top_k));
  request.set_return_logits(args.Has("logits"));
  request.set_return_probabilities(args.Has("probabilities"));
  CLIENT_RETURN_IF_ERROR(AddExecution(args, request.mutable_execution()));
  return request;
}

void PrintText(const Context& context, const Answer& answer, size_t calls, double seconds) {
  PrintAnswer(
      answer, "graph", [](int64_t row) { return absl::StrCat(row); }, context.args.Text("out"), context.out);
  context.out << "served by " << Served(answer.served_by) << "\ntime: " << FormatSeconds(seconds) << " at the client, "
              << FormatCount(static_cast<int64_t>(calls), "call") << '\n';
  if (context.args.Has("out"))
    context.out << answer.rows << " rows were written to " << context.args.Text("out") << '\n';
}

absl::Status ClassifyGraphs(const Context& context) {
  const Arguments& args = context.args;
  if (args.Has("out")) CLIENT_RETURN_IF_ERROR(CheckAnswerPath(args.Text("out")));
  CLIENT_ASSIGN_OR_RETURN(const GraphBatchData data, ReadGraphBatch(args.Positional(0)));
  CLIENT_RETURN_IF_ERROR(CheckFinite(data.features, args.Positional(0), {}));
  CLIENT_RETURN_IF_ERROR(CheckEdgesFinite(data, args.Positional(0)));
  CLIENT_ASSIGN_OR_RETURN(v1::ClassifyGraphsRequest request, MakeRequest(args));
  const auto graphs = static_cast<int64_t>(data.ptr.size()) - 1;
  if (graphs == 0) return absl::InvalidArgumentError(absl::StrCat(args.Positional(0), ": contains no graphs"));
  const int64_t batch = std::min(args.Integer("batch", 512), graphs);
  if (data.labels && static_cast<int64_t>(data.labels->size()) != graphs) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.Positional(0), ": graph_y has ", data.labels->size(), " labels for ", graphs, " graphs"));
  }
  const std::vector<std::vector<int64_t>> edges = EdgesByBatch(data, batch);
  Answer answer;
  ProgressBar bar(context.err, context.terminal);
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < edges.size(); ++i) {
    const int64_t first = static_cast<int64_t>(i) * batch, last = std::min(first + batch, graphs);
    *request.mutable_graphs() = MakeBatch(data, first, last, edges[i]);
    CLIENT_ASSIGN_OR_RETURN(const v1::ClassifyGraphsResponse response, context.client.ClassifyGraphs(request));
    CLIENT_RETURN_IF_ERROR(answer.Add(response));
    bar.Show(static_cast<double>(last) / static_cast<double>(graphs), absl::StrCat(last, " of ", graphs, " graphs"));
  }
  bar.Clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (answer.rows != graphs) {
    return absl::InternalError(absl::StrCat("the server answered ", answer.rows, " rows for ", graphs, " graphs"));
  }
  const std::string main = args.Has("logits") ? "logits" : args.Has("probabilities") ? "probabilities" : "classes";
  if (args.Has("out")) CLIENT_RETURN_IF_ERROR(WriteAnswer(args.Text("out"), answer, main, {}));
  const std::string not_finite = NotFiniteNote(
      answer, "graph", [](int64_t row) { return absl::StrCat(row); }, AllowsFloat16(args));
  if (context.json) {
    Json json = ToJson(answer, args.Text("out"), main);
    json["notes"] = Json::array();
    if (!not_finite.empty()) json["notes"].push_back(not_finite);
    json["round_trip_seconds"] = seconds;
    if (data.labels) {
      const Accuracy accuracy = Compare(answer, *data.labels);
      json["accuracy"] = Json{{"right", accuracy.right}, {"counted", accuracy.counted}};
    }
    context.PrintJson(json);
    return absl::OkStatus();
  }
  PrintText(context, answer, edges.size(), seconds);
  if (data.labels) context.out << ToString(Compare(answer, *data.labels)) << '\n';
  if (!not_finite.empty()) context.err << "note: " << not_finite << '\n';
  return absl::OkStatus();
}

}  // namespace

Command ClassifyGraphsCommand() {
  Syntax syntax = {
      "classify-graphs",
      {"FILE.npz"},
      "Classifies the small graphs of a file.",
      "FILE.npz contains edge_index [2, E], features (x or CSR) and graph_id [N], ascending: the graph of each node.\n"
      "With graph_y, the accuracy is printed.",
      {{"model", OptionKind::kName, "MODEL", "the model (must classify graphs)", {}, true},
       {"top_k", OptionKind::kInteger, "K", "number of classes per graph; default: 1"},
       {"logits", OptionKind::kFlag, "", "also return the logits (and write them to --out FILE.npy)"},
       {"probabilities", OptionKind::kFlag, "", "also return all probabilities (and write them to --out FILE.npy)"},
       AtLeast(1, {"batch", OptionKind::kInteger, "GRAPHS", "graphs per call; default: 512"}),
       {"out", OptionKind::kText, "FILE", "write all rows: FILE.npy gets the main matrix, FILE.npz all matrices"}}};
  for (Option& option : ExecutionOptionsOf(/*receptive_field=*/false)) syntax.options.push_back(std::move(option));
  return {syntax, ClassifyGraphs};
}

}  // namespace vicinal::client::cli
