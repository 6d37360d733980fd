// SPDX-License-Identifier: Apache-2.0
// `vicinal load`: options to a schedule and a mix of calls (client/cpp/load), then the report.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/execution.h"
#include "client/cpp/cli/load_report.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/load/call_stream.h"
#include "client/cpp/load/run.h"

namespace vicinal::client::cli {
namespace {

// Adds the option's name to the message.
absl::Status About(const char* option, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat("--", option, " ", status.message()));
}

// A number within [least, most]; NaN is outside.
absl::StatusOr<double> Bounded(const Arguments& args, const char* option, double otherwise, double least, double most) {
  const double value = args.Number(option, otherwise);
  if (value >= least && value <= most) return value;
  return absl::InvalidArgumentError(absl::StrCat("--", option, " must be from ", least, " to ", most));
}

absl::StatusOr<int64_t> BoundedInteger(const Arguments& args, const char* option, int64_t otherwise, int64_t most) {
  const int64_t value = args.Integer(option, otherwise);
  if (value <= most) return value;
  return absl::InvalidArgumentError(absl::StrCat("--", option, " must be at most ", most));
}

absl::StatusOr<load::LoadOptions> ReadLoadOptions(const Arguments& args) {
  if (args.Has("rate") && args.Has("concurrency")) {
    return absl::InvalidArgumentError("--rate (open loop) and --concurrency (closed loop) exclude each other");
  }
  load::LoadOptions options;
  options.open_loop = args.Has("rate");
  const char* const steps = options.open_loop ? "rate" : "concurrency";
  const absl::StatusOr<std::vector<load::Ramp>> ramps = load::ParseRamps(args.Text(steps, "1"));
  if (!ramps.ok()) return About(steps, ramps.status());
  options.schedule.steps = *ramps;
  constexpr double kMaxUsers = 100'000;
  for (const load::Ramp& ramp : *ramps) {
    const double most = std::max(ramp.from, ramp.to);
    if (!options.open_loop && (most > kMaxUsers || most < 1)) {
      return absl::InvalidArgumentError(absl::StrCat("--concurrency must reach 1 and not exceed ", kMaxUsers));
    }
  }
  CLIENT_ASSIGN_OR_RETURN(options.schedule.warmup_seconds, Bounded(args, "warmup", 1, 0, 1e5));
  CLIENT_ASSIGN_OR_RETURN(options.schedule.step_seconds, Bounded(args, "duration", 10, 0.001, 1e6));
  options.schedule.step_calls = args.Integer("calls", 0);
  options.poisson = args.Text("arrivals", "poisson") == "poisson";
  options.max_in_flight = args.Integer("max_in_flight", options.max_in_flight);
  CLIENT_ASSIGN_OR_RETURN(const int64_t threads, BoundedInteger(args, "threads", 1, 256));
  CLIENT_ASSIGN_OR_RETURN(const int64_t connections, BoundedInteger(args, "connections", 1, 10'000));
  options.threads = static_cast<int>(threads);
  options.connections = static_cast<int>(connections);
  options.seed = static_cast<uint64_t>(args.Integer("seed", 1));
  options.streams = args.Has("streams");
  return options;
}

// --nodes all, N, or A..B.
absl::Status ReadNodeCounts(const Arguments& args, load::MixOptions* mix) {
  const std::string text = args.Text("nodes", "10");
  if (text == "all") {
    mix->least_nodes = mix->most_nodes = 0;
    return absl::OkStatus();
  }
  const size_t dots = text.find("..");
  int64_t least = 0, most = 0;
  bool valid = absl::SimpleAtoi(text.substr(0, dots), &least);
  most = least;
  if (dots != std::string::npos) valid = valid && absl::SimpleAtoi(text.substr(dots + 2), &most);
  constexpr int64_t kMost = 10'000'000;
  if (!valid || least < 1 || most < least || most > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nodes must be all, a number from 1 to ", kMost, ", or a range as 1..100; not '", text, "'"));
  }
  mix->least_nodes = least;
  mix->most_nodes = most;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> ReadDeadlines(const Arguments& args) {
  if (!args.Has("deadline")) return std::vector<double>{args.Number("timeout", 60)};
  std::vector<double> deadlines;
  for (const absl::string_view part : absl::StrSplit(args.Text("deadline"), ',')) {
    double seconds = 0;
    if (!absl::SimpleAtod(part, &seconds) || !(seconds >= 0.001 && seconds <= 1e6)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--deadline must be seconds from 0.001 to 1e6, or several with commas; not '", part, "'"));
    }
    deadlines.push_back(seconds);
  }
  return deadlines;
}

// The subjects of the mix, with their sizes as the server tells them.
absl::Status FindSubjects(const Context& context, load::MixOptions* mix) {
  std::vector<std::string> graphs = context.args.All("graph"), models = context.args.All("model");
  const auto any = [&](bool load::MethodTraits::*need) {
    return std::any_of(mix->methods.begin(), mix->methods.end(),
                       [&](const auto& entry) { return load::TraitsOf(entry.first).*need; });
  };
  const bool about_graph = any(&load::MethodTraits::about_graph);
  if (about_graph && graphs.empty()) return absl::InvalidArgumentError("--graph is missing: which graph to ask about");
  if (any(&load::MethodTraits::about_model) && models.empty()) {
    return absl::InvalidArgumentError("--model is missing: which model to run");
  }
  if (!about_graph) graphs.assign(std::max<size_t>(1, models.size()), "");
  if (models.empty()) models.emplace_back();
  if (models.size() == 1) models.resize(graphs.size(), models.front());
  if (models.size() != graphs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("--model is given ", models.size(), " times for ", graphs.size(),
                                                   " graphs; give one model, or one for each graph"));
  }
  for (size_t i = 0; i < graphs.size(); ++i) {
    load::Subject subject{graphs[i], models[i]};
    if (!subject.graph.empty()) {
      CLIENT_ASSIGN_OR_RETURN(const v1::Graph graph, context.client.GetGraph(subject.graph));
      if (graph.node_count() == 0) {
        return absl::InvalidArgumentError(absl::StrCat("graph '", subject.graph, "' has no nodes, or is not ready"));
      }
      subject.node_count = graph.node_count();
    }
    if (!subject.model.empty()) {
      CLIENT_ASSIGN_OR_RETURN(const v1::Model model, context.client.GetModel(subject.model));
      subject.feature_count = model.feature_count();
    }
    mix->subjects.push_back(std::move(subject));
  }
  return absl::OkStatus();
}

absl::StatusOr<load::MixOptions> ReadMix(const Context& context) {
  const Arguments& args = context.args;
  load::MixOptions mix;
  absl::StatusOr<std::vector<std::pair<load::Method, double>>> methods = load::ParseMix(args.Text("mix", "classify"));
  if (!methods.ok()) return About("mix", methods.status());
  mix.methods = *std::move(methods);
  CLIENT_RETURN_IF_ERROR(ReadNodeCounts(args, &mix));
  CLIENT_ASSIGN_OR_RETURN(mix.deadlines, ReadDeadlines(args));
  CLIENT_ASSIGN_OR_RETURN(mix.graph_zipf, Bounded(args, "graph_zipf", 0, 0, 20));
  CLIENT_ASSIGN_OR_RETURN(mix.node_zipf, Bounded(args, "node_zipf", 0, 0, 20));
  CLIENT_ASSIGN_OR_RETURN(const int64_t top_k, BoundedInteger(args, "top_k", 1, std::numeric_limits<int32_t>::max()));
  mix.top_k = static_cast<int32_t>(top_k);
  CLIENT_ASSIGN_OR_RETURN(mix.feature_rows, BoundedInteger(args, "feature_rows", 1, 10'000'000));
  CLIENT_ASSIGN_OR_RETURN(mix.graphs_per_call, BoundedInteger(args, "graphs_per_call", 16, 100'000));
  mix.feature_set = args.Text("feature_set");
  mix.edge_feature_set = args.Text("edge_feature_set");
  mix.return_logits = args.Has("logits");
  mix.return_probabilities = args.Has("probabilities");
  CLIENT_RETURN_IF_ERROR(AddExecution(args, &mix.execution));
  CLIENT_RETURN_IF_ERROR(FindSubjects(context, &mix));
  return mix;
}

// An error if no call succeeded: then a script must not take the figures for a measurement.
absl::Status CheckSuccess(const load::LoadResult& result) {
  int64_t calls = 0;
  for (const load::Record::Step& step : result.record.steps()) calls += step.Total().latency.count();
  if (calls > 0) return absl::OkStatus();
  if (result.record.errors().empty()) {
    return absl::InvalidArgumentError("no call started within the steps; raise --rate, or allow a longer --duration");
  }
  const auto& [name, error] =
      *std::max_element(result.record.errors().begin(), result.record.errors().end(),
                        [](const auto& a, const auto& b) { return a.second.count < b.second.count; });
  return CallError(error.code,
                   absl::StrCat("no call succeeded; ", error.count, " failed with ", name, ": ", error.message));
}

absl::Status Load(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(const load::LoadOptions options, ReadLoadOptions(context.args));
  CLIENT_ASSIGN_OR_RETURN(load::MixOptions mix_options, ReadMix(context));
  for (const auto& [method, weight] : mix_options.methods) {
    if (!options.streams || load::CanStream(method)) continue;
    std::vector<std::string> carried;
    for (const load::MethodTraits& traits : load::Methods()) {
      if (load::CanStream(traits.method)) carried.emplace_back(traits.name);
    }
    return absl::InvalidArgumentError(absl::StrCat("--streams cannot carry the method '", load::TraitsOf(method).name,
                                                   "'; it carries ", absl::StrJoin(carried, ", ")));
  }
  const load::Mix mix(std::move(mix_options));
  CLIENT_ASSIGN_OR_RETURN(const load::LoadResult result, load::RunLoad(context.client.options(), options, mix));
  if (context.json) {
    context.PrintJson(LoadToJson(options, result));
  } else {
    PrintLoad(options, result, context.out);
  }
  return CheckSuccess(result);
}

}  // namespace

Command LoadCommand() {
  Syntax syntax = {
      "load",
      {},
      "Loads a server with calls and measures them.",
      "STEPS: 64, a ramp 1..64, or several with commas; each lasts --duration, or until --calls have started.\n"
      "Methods: classify, embed, predict_links (as many links as --nodes), classify_stream, embed_stream,\n"
      "classify_features (features of all nodes in the request), classify_rows (of --feature_rows nodes),\n"
      "classify_graphs (random small graphs), capabilities, health. --streams carries classify, embed, predict_links,\n"
      "classify_features and classify_rows. A connection carries 256 calls at a time. In the open loop latency counts\n"
      "from the intended start, however late a call was sent.\n",
      {{"graph", OptionKind::kName, "GRAPH", "the graph; several: the most popular first", {}, false, true},
       {"model", OptionKind::kName, "MODEL", "the model, or one for each graph", {}, false, true},
       {"concurrency", OptionKind::kText, "STEPS", "closed loop: calls in flight; default: 1"},
       {"rate", OptionKind::kText, "STEPS", "open loop: calls per second"},
       {"arrivals", OptionKind::kText, "GAPS", "of --rate: poisson (default) or uniform", {"poisson", "uniform"}},
       AtLeast(1, {"max_in_flight", OptionKind::kInteger, "CALLS", "of --rate; further calls wait; default: 10000"}),
       {"duration", OptionKind::kNumber, "SECONDS", "of each step; default: 10"},
       AtLeast(1, {"calls", OptionKind::kInteger, "CALLS", "a step ends early after so many"}),
       {"warmup", OptionKind::kNumber, "SECONDS", "before the first step, not counted; default: 1"},
       {"mix", OptionKind::kText, "METHODS", "methods and their frequencies: classify=8,embed=2; default: classify"},
       {"nodes", OptionKind::kText, "COUNT", "random nodes per call: all, 10 (default), or a range as 1..100"},
       {"graph_zipf", OptionKind::kNumber, "EXPONENT", "popularity of graphs: 0 (default) uniform, 1 is common"},
       {"node_zipf", OptionKind::kNumber, "EXPONENT", "popularity of nodes; default: 0, uniform"},
       {"deadline", OptionKind::kText, "SECONDS", "of a call; several with commas: drawn; default: --timeout"},
       AtLeast(1, {"connections", OptionKind::kInteger, "COUNT", "connections to the server; default: 1"}),
       AtLeast(1, {"threads", OptionKind::kInteger, "COUNT", "threads that send; default: 1"}),
       {"streams", OptionKind::kFlag, "", "one InferStream per thread and connection instead of a call each"},
       AtLeast(0, {"seed", OptionKind::kInteger, "SEED", "of all random choices; default: 1"}),
       AtLeast(1, {"top_k", OptionKind::kInteger, "K", "classes per node; default: 1"}),
       {"logits", OptionKind::kFlag, "", "also ask for the logits"},
       {"probabilities", OptionKind::kFlag, "", "also ask for all probabilities"},
       {"feature_set", OptionKind::kName, "NAME", "stored feature set; default: default"},
       {"edge_feature_set", OptionKind::kName, "NAME",
        "edge feature set; default: default, or the graph's own edge_attr"},
       AtLeast(1, {"feature_rows", OptionKind::kInteger, "ROWS", "of classify_rows; default: 1"}),
       AtLeast(1, {"graphs_per_call", OptionKind::kInteger, "GRAPHS", "of classify_graphs; default: 16"})}};
  for (Option& option : ExecutionOptionsOf(/*receptive_field=*/true)) syntax.options.push_back(std::move(option));
  return {syntax, Load};
}

}  // namespace vicinal::client::cli
