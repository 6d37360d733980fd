// SPDX-License-Identifier: Apache-2.0
// `vicinal predict-links` and `vicinal top-links` on stored graphs.
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/answers.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/execution.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

// More scores than this, or those of all edges or nodes, are asked for by a stream: they might not fit one message.
constexpr int64_t kUnaryScores = 65536;
// Partners that the server gives a node if none are asked for.
constexpr int64_t kDefaultPartners = 10;

// The map of the graph's ids, and notes about it.
struct Ids {
  std::optional<IdMap> map;
  std::vector<std::string> notes;
};

absl::StatusOr<Ids> ReadIds(const Context& context) {
  if (context.args.Has("out")) CLIENT_RETURN_IF_ERROR(CheckAnswerPath(context.args.Text("out")));
  Ids ids;
  CLIENT_ASSIGN_OR_RETURN(ids.map, FindIds(context, context.args.Text("graph"), &ids.notes));
  for (const std::string& note : ids.notes) {
    if (!context.json) context.err << "note: " << note << '\n';  // else they are in the document
  }
  return ids;
}

absl::StatusOr<v1::LinkDecoder> ReadDecoder(const Arguments& args) {
  const std::string name = args.Text("decoder");
  if (name.empty()) return v1::LINK_DECODER_UNSPECIFIED;
  if (name == "model") return v1::LINK_DECODER_MODEL;
  if (name == "dot") return v1::LINK_DECODER_DOT;
  if (name == "cosine") return v1::LINK_DECODER_COSINE;
  return absl::InvalidArgumentError(absl::StrCat("--decoder is '", name, "'; it must be model, dot or cosine"));
}

// An int32 option. INVALID_ARGUMENT: out of range.
absl::StatusOr<int32_t> Small(const Arguments& args, const char* name, int64_t default_value) {
  const int64_t value = args.Integer(name, default_value);
  if (value < 0 || value > std::numeric_limits<int32_t>::max())
    return absl::InvalidArgumentError(absl::StrCat("--", name, " is out of range"));
  return static_cast<int32_t>(value);
}

template <class Request>
absl::Status FillRequest(const Arguments& args, Request* request) {
  request->mutable_target()->set_graph(args.Text("graph"));
  request->mutable_target()->set_model(args.Text("model"));
  request->mutable_target()->set_feature_set(args.Text("feature_set"));
  request->mutable_target()->set_edge_feature_set(args.Text("edge_feature_set"));
  CLIENT_ASSIGN_OR_RETURN(const v1::LinkDecoder decoder, ReadDecoder(args));
  request->set_decoder(decoder);
  CLIENT_ASSIGN_OR_RETURN(const int32_t relation, Small(args, "relation", 0));
  request->set_relation(relation);
  request->set_output(args.Text("output"));
  request->set_return_probabilities(args.Has("probabilities"));
  return AddExecution(args, request->mutable_execution());
}

// Nodes of --NAME, which are not all.
absl::StatusOr<std::vector<int64_t>> NamedNodes(const Arguments& args, const char* name, const Ids& ids) {
  CLIENT_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> nodes,
                          ParseNodes(args.Text(name), ids.map, args.Text("ids") == "none", name));
  if (!nodes) return absl::InvalidArgumentError(absl::StrCat("--", name, " must name nodes, not all"));
  return *nodes;
}

absl::Status FillNodes(const Arguments& args, const char* name, const Ids& ids, v1::NodeSelection* nodes) {
  CLIENT_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> read,
                          ParseNodes(args.Text(name, "all"), ids.map, args.Text("ids") == "none", name));
  if (read) {
    nodes->mutable_ids()->Add(read->begin(), read->end());
  } else {
    nodes->set_all(true);
  }
  return absl::OkStatus();
}

// Rows of the table: what they are of, then score and probability of each link.
using RowCells = std::function<std::vector<std::string>(int64_t row)>;

// Puts the user's own ids in place of the numbers of a matrix; null where there is no node.
void NameNodes(const std::optional<IdMap>& ids, const char* matrix, Json* json) {
  if (!json->contains(matrix)) return;
  for (Json& row : (*json)[matrix]) {
    for (Json& cell : row) {
      const auto node = cell.get<int64_t>();
      if (node < 0) {
        cell = nullptr;
      } else if (ids) {
        cell = NodeName(ids, node);
      }
    }
  }
}

absl::Status Report(const Context& context, const Ids& ids, const Answer& answer, std::vector<std::string> titles,
                    const RowCells& cells_of) {
  const std::string out = context.args.Text("out");
  if (!out.empty()) CLIENT_RETURN_IF_ERROR(WriteAnswer(out, answer, "scores", {}));
  if (context.json) {
    Json json = ToJson(answer);
    for (const char* matrix : {"links", "partners", "nodes"}) NameNodes(ids.map, matrix, &json);
    json["notes"] = ids.notes;
    context.PrintJson(json);
    return absl::OkStatus();
  }
  const int64_t shown = std::min(answer.rows, kShownRows);
  Table table(std::move(titles));
  for (int64_t row = 0; row < shown; ++row) table.Add(cells_of(row));
  table.Print(context.out);
  if (shown < answer.rows) {
    context.out << "... " << answer.rows - shown << " more" << (out.empty() ? "; --out FILE.npz writes all" : "")
                << '\n';
  }
  context.out << "served by " << Served(answer.served_by) << "\ntime: " << FormatSeconds(answer.timing.total_seconds())
              << " on the server\n";
  if (!out.empty()) context.out << answer.rows << " rows are in " << out << '\n';
  return absl::OkStatus();
}

// Appends "score" and, where there are some, "probability" number `column` of the row.
void AddScore(const Answer& answer, int64_t row, size_t column, std::vector<std::string>* cells) {
  cells->push_back(FormatNumber(RowOf(answer.matrices.at("scores"), row)[column]));
  const auto probabilities = answer.matrices.find("probabilities");
  if (probabilities != answer.matrices.end())
    cells->push_back(FormatFixed(RowOf(probabilities->second, row)[column], 4));
}

// --relations: one per pair.
absl::Status FillRelations(const Arguments& args, size_t pairs, v1::LinkPairs* out) {
  if (!args.Has("relations")) return absl::OkStatus();
  if (args.Has("relation")) return absl::InvalidArgumentError("--relation and --relations exclude each other");
  CLIENT_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> relations,
                          ParseNodes(args.Text("relations"), std::nullopt, /*as_rows=*/true, "relations"));
  if (!relations) return absl::InvalidArgumentError("--relations must be a list of numbers");
  if (relations->size() != pairs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--relations has ", relations->size(), " entries for ", pairs, " pairs; give one per pair"));
  }
  for (const int64_t relation : *relations) {
    if (relation < 0 || relation > std::numeric_limits<int32_t>::max())
      return absl::InvalidArgumentError(absl::StrCat("--relations names ", relation, ", which is out of range"));
    out->add_relations(static_cast<int32_t>(relation));
  }
  return absl::OkStatus();
}

absl::Status PredictLinks(const Context& context) {
  const Arguments& args = context.args;
  CLIENT_ASSIGN_OR_RETURN(const Ids ids, ReadIds(context));
  v1::PredictLinksRequest request;
  CLIENT_RETURN_IF_ERROR(FillRequest(args, &request));
  std::vector<int64_t> sources, targets;
  if (args.Has("all_edges") == (args.Has("sources") || args.Has("targets")))
    return absl::InvalidArgumentError("give --sources and --targets, or --all_edges");
  request.set_all_edges(args.Has("all_edges"));
  if (!request.all_edges()) {
    CLIENT_ASSIGN_OR_RETURN(sources, NamedNodes(args, "sources", ids));
    CLIENT_ASSIGN_OR_RETURN(targets, NamedNodes(args, "targets", ids));
    if (sources.size() != targets.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--sources has ", sources.size(), " nodes and --targets ",
                                                     targets.size(), "; each pair needs one of both"));
    }
    request.mutable_pairs()->mutable_sources()->Add(sources.begin(), sources.end());
    request.mutable_pairs()->mutable_targets()->Add(targets.begin(), targets.end());
    CLIENT_RETURN_IF_ERROR(FillRelations(args, sources.size(), request.mutable_pairs()));
  } else if (args.Has("relations")) {
    return absl::InvalidArgumentError("--relations has one relation per pair; for --all_edges use --relation R");
  }
  Answer answer;
  answer.max_bytes = args.Integer("max_answer_bytes", answer.max_bytes);
  if (!request.all_edges() && static_cast<int64_t>(sources.size()) <= kUnaryScores) {
    const absl::StatusOr<v1::PredictLinksResponse> reply = context.client.PredictLinks(request);
    if (!reply.ok()) return WithNodeName(context, args.Text("graph"), reply.status());
    CLIENT_RETURN_IF_ERROR(answer.Add(*reply));
  } else {
    CLIENT_RETURN_IF_ERROR(context.client.PredictLinksStream(
        request, [&](const v1::PredictLinksResponse& piece) { return answer.Add(piece); }));
  }
  if (!request.all_edges()) {
    std::vector<int64_t> ends;
    for (size_t i = 0; i < sources.size(); ++i) ends.insert(ends.end(), {sources[i], targets[i]});
    answer.matrices["links"] = MakeArray(ends, {answer.rows, 2});
  }
  std::vector<std::string> titles = {"source", "target", "score"};
  if (request.return_probabilities()) titles.emplace_back("probability");
  return Report(context, ids, answer, titles, [&](int64_t row) {
    const std::vector<double> ends = RowOf(answer.matrices.at("links"), row);
    std::vector<std::string> cells = {NodeName(ids.map, static_cast<int64_t>(ends[0])),
                                      NodeName(ids.map, static_cast<int64_t>(ends[1]))};
    AddScore(answer, row, 0, &cells);
    return cells;
  });
}

absl::Status AskForPartners(const Context& context, const v1::TopLinksRequest& request, Answer* answer) {
  const std::string graph = context.args.Text("graph");
  const int64_t k = request.has_k() ? request.k() : kDefaultPartners;
  if (!request.nodes().all() && request.nodes().ids_size() <= kUnaryScores / std::max<int64_t>(1, k)) {
    const absl::StatusOr<v1::TopLinksResponse> reply = context.client.TopLinks(request);
    return reply.ok() ? answer->Add(*reply) : WithNodeName(context, graph, reply.status());
  }
  int64_t node_count = 0;
  if (request.nodes().all()) {
    CLIENT_ASSIGN_OR_RETURN(const v1::Graph about, context.client.GetGraph(graph));
    node_count = about.node_count();
  }
  return WithNodeName(context, graph,
                      context.client.TopLinksStream(
                          request, [&](const v1::TopLinksResponse& piece) { return answer->Add(piece); }, node_count));
}

absl::Status TopLinks(const Context& context) {
  const Arguments& args = context.args;
  CLIENT_ASSIGN_OR_RETURN(const Ids ids, ReadIds(context));
  v1::TopLinksRequest request;
  CLIENT_RETURN_IF_ERROR(FillRequest(args, &request));
  CLIENT_RETURN_IF_ERROR(FillNodes(args, "nodes", ids, request.mutable_nodes()));
  if (args.Has("partners")) CLIENT_RETURN_IF_ERROR(FillNodes(args, "partners", ids, request.mutable_partners()));
  if (args.Has("k")) {
    CLIENT_ASSIGN_OR_RETURN(const int32_t k, Small(args, "k", 0));
    request.set_k(k);
  }
  request.set_nodes_are_targets(args.Has("nodes_are_targets"));
  request.set_exclude_links(args.Has("exclude_links"));
  request.set_include_self(args.Has("include_self"));
  Answer answer;
  answer.max_bytes = args.Integer("max_answer_bytes", answer.max_bytes);
  CLIENT_RETURN_IF_ERROR(AskForPartners(context, request, &answer));
  std::vector<int64_t> nodes(request.nodes().ids().begin(), request.nodes().ids().end());
  for (int64_t row = 0; request.nodes().all() && row < answer.rows; ++row) nodes.push_back(row);
  answer.matrices["nodes"] = MakeArray(nodes, {answer.rows, 1});
  const auto width = static_cast<size_t>(answer.matrices.at("partners").shape[1]);
  std::vector<std::string> titles = {"node"};
  for (size_t i = 0; i < width; ++i) {
    titles.push_back(absl::StrCat("partner ", i + 1));
    titles.emplace_back("score");
    if (request.return_probabilities()) titles.emplace_back("probability");
  }
  return Report(context, ids, answer, titles, [&](int64_t row) {
    std::vector<std::string> cells = {NodeName(ids.map, nodes[static_cast<size_t>(row)])};
    const std::vector<double> partners = RowOf(answer.matrices.at("partners"), row);
    for (size_t i = 0; i < width; ++i) {
      const auto partner = static_cast<int64_t>(partners[i]);
      cells.push_back(partner < 0 ? "-" : NodeName(ids.map, partner));
      AddScore(answer, row, i, &cells);
    }
    return cells;
  });
}

std::vector<Option> LinkOptions(std::vector<Option> own) {
  std::vector<Option> options = {{"graph", OptionKind::kName, "GRAPH", "the graph", {}, true},
                                 {"model", OptionKind::kName, "MODEL", "the model", {}, true}};
  for (Option& option : own) options.push_back(std::move(option));
  const std::vector<Option> shared = {
      {"decoder", OptionKind::kText, "DECODER",
       "model, dot or cosine; default: the model's own if it has one, else dot"},
      AtLeast(0, {"relation", OptionKind::kInteger, "R", "relation of the links; default: 0"}),
      {"output", OptionKind::kText, "OUTPUT",
       "output of the model whose rows are scored; default: the decoder's, or logits"},
      {"probabilities", OptionKind::kFlag, "", "also return the sigmoids of the scores"},
      {"ids", OptionKind::kText, "FILE",
       "map of the graph's own ids; default: GRAPH.ids.txt in this folder; none: row numbers"},
      {"feature_set", OptionKind::kName, "NAME", "stored feature set; default: default"},
      {"edge_feature_set", OptionKind::kName, "NAME",
       "edge feature set; default: default, or the graph's own edge_attr"},
      AtLeast(1, {"max_answer_bytes", OptionKind::kInteger, "BYTES",
                  "largest answer to keep, all rows together; default: 4294967296 (4 GiB)"}),
      {"out", OptionKind::kText, "FILE", "write all rows: FILE.npy gets the scores, FILE.npz all matrices"}};
  options.insert(options.end(), shared.begin(), shared.end());
  for (Option& option : ExecutionOptionsOf(/*receptive_field=*/true)) options.push_back(std::move(option));
  return options;
}

}  // namespace

Command PredictLinksCommand() {
  return {{"predict-links",
           {},
           "Scores links between nodes of a stored graph.",
           "Pair i is the i-th node of --sources with the i-th of --targets.",
           LinkOptions({{"sources", OptionKind::kText, "NODES", "0,5,9, or @FILE with one per line (or an .npy)"},
                        {"targets", OptionKind::kText, "NODES", "as many"},
                        {"relations", OptionKind::kText, "NUMBERS",
                         "the relation of each pair, for a decoder with several: 0,2,1 or @FILE; default: --relation"},
                        {"all_edges", OptionKind::kFlag, "", "score the edges of the graph instead"}})},
          PredictLinks};
}

Command TopLinksCommand() {
  return {{"top-links",
           {},
           "Finds the partners with the highest scores for nodes of a stored graph.",
           "",
           LinkOptions(
               {{"nodes", OptionKind::kText, "NODES", "all (default), 0,5,9, or @FILE with one per line (or an .npy)"},
                {"partners", OptionKind::kText, "NODES", "the nodes to choose from; default: all"},
                AtLeast(1, {"k", OptionKind::kInteger, "K", "partners per node; default: 10"}),
                {"nodes_are_targets", OptionKind::kFlag, "", "the partner is the source of the link"},
                {"exclude_links", OptionKind::kFlag, "", "leave out links that the graph has"},
                {"include_self", OptionKind::kFlag, "", "a node may be its own partner"}})},
          TopLinks};
}

}  // namespace vicinal::client::cli
