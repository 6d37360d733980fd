// SPDX-License-Identifier: Apache-2.0
// `vicinal classify` and `vicinal embed` on stored graphs.
#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/answers.h"
#include "client/cpp/cli/attention_answer.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/execution.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/cli/tensors.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

// More nodes than this, or all, are asked for by a stream: their answer might not fit one message.
constexpr size_t kUnaryNodes = 4096;

// What classify and embed have in common.
struct Query {
  std::optional<IdMap> ids;
  std::optional<std::vector<int64_t>> nodes;  // nullopt: all
  int64_t node_count = 0;                     // of the graph, where all nodes are asked for
  v1::FeatureInput features;
  bool has_features = false;
  std::vector<std::string> notes;  // about ids

  bool small() const { return nodes && nodes->size() <= kUnaryNodes; }
};

absl::StatusOr<Query> ReadQuery(const Context& context) {
  const Arguments& args = context.args;
  if (args.Has("out")) CLIENT_RETURN_IF_ERROR(CheckAnswerPath(args.Text("out")));
  if (args.Has("features") && args.Has("feature_set")) {
    return absl::InvalidArgumentError("--features and --feature_set exclude each other");
  }
  Query query;
  CLIENT_ASSIGN_OR_RETURN(query.ids, FindIds(context, args.Text("graph"), &query.notes));
  for (const std::string& note : query.notes) {
    if (!context.json) context.err << "note: " << note << '\n';  // else they are in the document
  }
  if (args.Has("mask")) {
    if (args.Has("nodes")) return absl::InvalidArgumentError("--nodes and --mask exclude each other");
    if (!args.Has("labels")) return absl::InvalidArgumentError("--mask names an array of --labels FILE.npz");
    CLIENT_ASSIGN_OR_RETURN(query.nodes, ReadMask(args.Text("labels"), args.Text("mask")));
    if (query.nodes->empty())
      return absl::InvalidArgumentError(absl::StrCat("the mask '", args.Text("mask"), "' is empty"));
  } else {
    CLIENT_ASSIGN_OR_RETURN(query.nodes, ParseNodes(args.Text("nodes", "all"), query.ids, args.Text("ids") == "none"));
  }
  if (args.Has("features")) {
    CLIENT_ASSIGN_OR_RETURN(const Features features, ReadFeatures(args.Text("features")));
    CLIENT_RETURN_IF_ERROR(CheckFinite(features, args.Text("features"), query.ids));
    query.features = ToFeatureInput(features);
    query.has_features = true;
  }
  if (!query.nodes) {
    CLIENT_ASSIGN_OR_RETURN(const v1::Graph graph, context.client.GetGraph(args.Text("graph")));
    query.node_count = graph.node_count();
  }
  return query;
}

template <class Request>
absl::Status FillRequest(const Arguments& args, const Query& query, Request* request) {
  request->mutable_target()->set_graph(args.Text("graph"));
  request->mutable_target()->set_model(args.Text("model"));
  request->mutable_target()->set_feature_set(args.Text("feature_set"));
  request->mutable_target()->set_edge_feature_set(args.Text("edge_feature_set"));
  if (query.nodes) {
    request->mutable_nodes()->mutable_ids()->Add(query.nodes->begin(), query.nodes->end());
  } else {
    request->mutable_nodes()->set_all(true);
  }
  if (query.has_features) *request->mutable_features() = query.features;
  return AddExecution(args, request->mutable_execution());
}

// Seconds of each call.
struct CallTimes {
  std::vector<double> round_trip;
  std::vector<double> execute;  // Timing.execute_seconds
};

// Calls --repeat times (default: once) and keeps the last answer and every call's times. Latency is measured over an
// open connection: an empty call opens it first.
template <class Call>
absl::StatusOr<Answer> Repeat(const Context& context, const Call& call, CallTimes* seconds) {
  const int64_t times = context.args.Integer("repeat", 1);
  if (times < 1 || times > 1'000'000) return absl::InvalidArgumentError("--repeat must be between 1 and 1000000");
  if (times > 1) CLIENT_RETURN_IF_ERROR(context.client.GetCapabilities().status());
  Answer answer;
  for (int64_t i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    absl::StatusOr<Answer> next = call();
    if (!next.ok()) return WithNodeName(context, context.args.Text("graph"), next.status());
    answer = *std::move(next);
    seconds->round_trip.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    seconds->execute.push_back(answer.timing.execute_seconds());
  }
  return answer;
}

// Of the server's time what is in none of its parts: rows put into the order asked for, classes, encoding, and, of a
// stream, waiting for this end to take what was sent.
double OtherSeconds(const v1::Timing& timing) {
  const double parts = timing.queue_seconds() + timing.plan_seconds() + timing.execute_seconds();
  return std::max(0.0, timing.total_seconds() - parts);
}

void PrintTimes(const Answer& answer, const std::vector<double>& seconds, std::ostream& out) {
  const v1::Timing& timing = answer.timing;
  out << "served by " << Served(answer.served_by) << "\ntime: " << FormatSeconds(seconds.back()) << " at the client, "
      << FormatSeconds(timing.total_seconds()) << " on the server (queue " << FormatSeconds(timing.queue_seconds())
      << ", plan " << FormatSeconds(timing.plan_seconds()) << ", execute " << FormatSeconds(timing.execute_seconds())
      << ", other " << FormatSeconds(OtherSeconds(timing)) << ")\ncomputed: "
      << (timing.kept_answers()      ? "nothing, the answers were kept; "
          : timing.receptive_field() ? "the receptive field, "
                                     : "the full graph, ")
      << FormatCount(timing.computed_node_count(), "node") << '\n';
  if (seconds.size() > 1) {
    const Latency latency = Summarise(seconds);
    out << "latency of " << seconds.size() << " calls: median " << FormatSeconds(latency.median) << ", 99 % "
        << FormatSeconds(latency.p99) << ", minimum " << FormatSeconds(latency.least) << '\n';
  }
}

// The nodes that the answer's rows are of.
absl::StatusOr<std::vector<int64_t>> NodesOf(const Query& query, const Answer& answer) {
  std::vector<int64_t> nodes(static_cast<size_t>(answer.rows));
  std::iota(nodes.begin(), nodes.end(), int64_t{0});
  if (query.nodes) nodes = *query.nodes;
  if (static_cast<int64_t>(nodes.size()) != answer.rows) {
    return absl::InternalError(absl::StrCat("the server answered ", answer.rows, " rows for ", nodes.size(), " nodes"));
  }
  return nodes;
}

absl::StatusOr<std::optional<Accuracy>> MeasureAccuracy(const Arguments& args, const Answer& answer,
                                                        const std::vector<int64_t>& nodes) {
  if (!args.Has("labels")) return std::optional<Accuracy>();
  const std::string path = args.Text("labels");
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> all, ReadLabels(path, "y"));
  std::vector<int64_t> labels;
  for (const int64_t node : nodes) {
    if (node < 0 || node >= static_cast<int64_t>(all.size())) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": y has ", all.size(), " labels, none for node ", node));
    }
    labels.push_back(all[static_cast<size_t>(node)]);
  }
  return std::optional<Accuracy>(Compare(answer, labels));
}

// Text or JSON, and --out.
absl::Status Report(const Context& context, const Query& query, const Answer& answer, const std::string& main,
                    const CallTimes& seconds) {
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> nodes, NodesOf(query, answer));
  CLIENT_ASSIGN_OR_RETURN(const std::optional<Accuracy> accuracy, MeasureAccuracy(context.args, answer, nodes));
  if (context.args.Has("out")) CLIENT_RETURN_IF_ERROR(WriteAnswer(context.args.Text("out"), answer, main, nodes));
  const auto name_of = [&](int64_t row) { return NodeName(query.ids, nodes[static_cast<size_t>(row)]); };
  const std::string not_finite = NotFiniteNote(answer, "node", name_of, AllowsFloat16(context.args));
  if (!context.json) {
    PrintAnswer(answer, "node", name_of, context.args.Text("out"), context.out);
    PrintTimes(answer, seconds.round_trip, context.out);
    if (context.args.Has("out")) context.out << answer.rows << " rows are in " << context.args.Text("out") << '\n';
    if (accuracy) context.out << ToString(*accuracy) << '\n';
    if (!not_finite.empty()) context.err << "note: " << not_finite << '\n';
    return absl::OkStatus();
  }
  Json json = ToJson(answer, context.args.Text("out"), main);
  json["nodes"] = Json::array();
  for (int64_t row = 0; row < answer.rows; ++row) {
    if (query.ids) {
      json["nodes"].push_back(name_of(row));
    } else {
      json["nodes"].push_back(nodes[static_cast<size_t>(row)]);
    }
  }
  json["notes"] = query.notes;
  if (!not_finite.empty()) json["notes"].push_back(not_finite);
  json["round_trip_seconds"] = seconds.round_trip;
  json["execute_seconds"] = seconds.execute;
  if (accuracy) json["accuracy"] = Json{{"right", accuracy->right}, {"counted", accuracy->counted}};
  context.PrintJson(json);
  return absl::OkStatus();
}

absl::Status Classify(const Context& context) {
  const Arguments& args = context.args;
  CLIENT_ASSIGN_OR_RETURN(const Query query, ReadQuery(context));
  v1::ClassifyRequest request;
  CLIENT_RETURN_IF_ERROR(FillRequest(args, query, &request));
  const int64_t top_k = args.Integer("top_k", 1);
  if (top_k < std::numeric_limits<int32_t>::min() || top_k > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError("--top_k is out of range");
  }
  request.set_top_k(static_cast<int32_t>(top_k));
  request.set_return_logits(args.Has("logits"));
  request.set_return_probabilities(args.Has("probabilities"));
  const auto call = [&]() -> absl::StatusOr<Answer> {
    Answer answer;
    answer.max_bytes = args.Integer("max_answer_bytes", answer.max_bytes);
    if (query.small()) {
      CLIENT_ASSIGN_OR_RETURN(const v1::ClassifyResponse response, context.client.Classify(request));
      CLIENT_RETURN_IF_ERROR(answer.Add(response));
    } else {
      CLIENT_RETURN_IF_ERROR(context.client.ClassifyStream(
          request, [&](const v1::ClassifyResponse& piece) { return answer.Add(piece); }, query.node_count));
    }
    return answer;
  };
  CallTimes seconds;
  CLIENT_ASSIGN_OR_RETURN(const Answer answer, Repeat(context, call, &seconds));
  const std::string main = args.Has("logits") ? "logits" : args.Has("probabilities") ? "probabilities" : "classes";
  return Report(context, query, answer, main, seconds);
}

// A .npy file has one matrix: weights without the edges that they belong to are of no use.
absl::Status CheckAttentionPath(const Arguments& args) {
  const std::string out = args.Text("out");
  if (!args.Has("attention") || !absl::EndsWith(out, ".npy")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--out ", out, ": a .npy file would have the weights without their edges; write --out ",
                   out.substr(0, out.size() - 4), ".npz, which gets edges [m, 2] and weights [m, heads]"));
}

absl::Status Embed(const Context& context) {
  CLIENT_RETURN_IF_ERROR(CheckAttentionPath(context.args));
  CLIENT_ASSIGN_OR_RETURN(const Query query, ReadQuery(context));
  v1::EmbedRequest request;
  CLIENT_RETURN_IF_ERROR(FillRequest(context.args, query, &request));
  request.set_output(context.args.Text("output"));
  request.set_attention(context.args.Text("attention"));
  const auto call = [&]() -> absl::StatusOr<Answer> {
    Answer answer;
    answer.max_bytes = context.args.Integer("max_answer_bytes", answer.max_bytes);
    if (query.small()) {
      CLIENT_ASSIGN_OR_RETURN(const v1::EmbedResponse response, context.client.Embed(request));
      CLIENT_RETURN_IF_ERROR(answer.Add(response));
    } else {
      CLIENT_RETURN_IF_ERROR(context.client.EmbedStream(
          request, [&](const v1::EmbedResponse& piece) { return answer.Add(piece); }, query.node_count));
    }
    return answer;
  };
  CallTimes seconds;
  CLIENT_ASSIGN_OR_RETURN(const Answer answer, Repeat(context, call, &seconds));
  if (context.args.Has("attention")) return ReportAttention(context, query.ids, query.notes, answer);
  return Report(context, query, answer, "embeddings", seconds);
}

std::vector<Option> QueryOptions() {
  std::vector<Option> options = {
      {"graph", OptionKind::kName, "GRAPH", "the graph", {}, true},
      {"model", OptionKind::kName, "MODEL", "the model", {}, true},
      {"nodes", OptionKind::kText, "NODES", "all (default), 0,5,9, or @FILE with one per line (or an .npy)"},
      {"ids", OptionKind::kText, "FILE",
       "map of the graph's own ids; default: GRAPH.ids.txt in this folder; none: row numbers"},
      {"feature_set", OptionKind::kName, "NAME", "stored feature set; default: default"},
      {"edge_feature_set", OptionKind::kName, "NAME",
       "edge feature set; default: default, or the graph's own edge_attr"},
      {"features", OptionKind::kText, "FILE",
       "features of all nodes for this request, instead of a stored set (.npz or .npy)"},
      AtLeast(1, {"max_answer_bytes", OptionKind::kInteger, "BYTES",
                  "largest answer to keep, all rows together; default: 4294967296 (4 GiB)"}),
      {"repeat", OptionKind::kInteger, "TIMES", "repeat the call and print the latency"},
      {"out", OptionKind::kText, "FILE",
       "write all rows: FILE.npy gets the main matrix, FILE.npz all matrices (--attention: edges and weights)"}};
  for (Option& option : ExecutionOptionsOf(/*receptive_field=*/true)) options.push_back(std::move(option));
  return options;
}

}  // namespace

std::vector<Command> InferenceCommands() {
  std::vector<Option> classify = QueryOptions();
  for (const Option& option : {
           Option{"top_k", OptionKind::kInteger, "K", "number of classes per node; default: 1"},
           Option{"logits", OptionKind::kFlag, "", "also return the logits (and write them to --out FILE.npy)"},
           Option{"probabilities", OptionKind::kFlag, "",
                  "also return all probabilities (and write them to --out FILE.npy)"},
           Option{"labels", OptionKind::kText, "FILE.npz", "compare with its y and print the accuracy"},
           Option{"mask", OptionKind::kText, "NAME", "query the nodes of this mask of --labels, instead of --nodes"},
       }) {
    classify.push_back(option);
  }
  std::vector<Option> embed = QueryOptions();
  embed.push_back({"output", OptionKind::kText, "OUTPUT",
                   "output of the model ('model get' lists them); default: last_conv_input, the input of its last "
                   "convolution"});
  embed.push_back(
      {"attention", OptionKind::kText, "LAYER",
       "the weights that this layer with attention gives the in-edges of the nodes, instead of embeddings"});
  return {
      {{"classify", {}, "Classifies nodes of a stored graph.", "", classify}, Classify},
      {{"embed", {}, "Computes embeddings of nodes of a stored graph.", "", embed}, Embed},
      PredictLinksCommand(),
      TopLinksCommand(),
      ClassifyGraphsCommand(),
      LoadCommand(),
  };
}

}  // namespace vicinal::client::cli
