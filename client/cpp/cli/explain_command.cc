// SPDX-License-Identifier: Apache-2.0
// `vicinal graph explain`: why the server does what it does with a graph and a model.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/describe_tuning.h"
#include "client/cpp/cli/execution.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

// Steps that do the same kind of work share a record: it is shown once.
void PrintTunedSteps(const v1::ExplainResponse& plan, bool verbose, std::ostream& out) {
  std::vector<v1::TuningRecord> records;
  std::set<std::string> seen;
  for (const v1::PlanStep& step : plan.steps()) {
    if (step.has_tuning() && seen.insert(step.tuning().key().SerializeAsString()).second)
      records.push_back(step.tuning());
  }
  if (records.empty()) return;
  out << "\ntuning:\n";
  PrintTuning(records, /*candidates=*/verbose, out);
}

// Those over the full graph, and behind a plus sign those over receptive fields.
std::string Runs(int64_t full, int64_t fields) {
  return fields == 0 ? absl::StrCat(full) : absl::StrCat(full, " + ", fields);
}

std::string MeanTime(const v1::PlanStep& step) {
  const std::string full = step.run_count() == 0 ? "-" : FormatSeconds(step.mean_seconds());
  return step.receptive_field_run_count() == 0
             ? full
             : absl::StrCat(full, " + ", FormatSeconds(step.receptive_field_mean_seconds()));
}

void PrintSteps(const v1::ExplainResponse& plan, std::ostream& out) {
  Table table({"step", "operation", "layers", "kernel", "locality", "bytes", "operations", "runs (+ fields)",
               "mean time", "what"});
  for (int i = 0; i < plan.steps_size(); ++i) {
    const v1::PlanStep& step = plan.steps(i);
    table.Add({absl::StrCat(i), step.operation(), step.layers(),
               step.kernel().empty() ? "-" : SettingText(step.kernel(), step.parameters()), step.locality(),
               FormatBytes(step.predicted_bytes()), absl::StrCat(step.predicted_operations()),
               Runs(step.run_count(), step.receptive_field_run_count()), MeanTime(step), step.description()});
  }
  table.Print(out);
  PrintLeftOut(plan.steps_left_out(), "steps", out);
  const bool fields = std::any_of(plan.steps().begin(), plan.steps().end(),
                                  [](const v1::PlanStep& step) { return step.receptive_field_run_count() > 0; });
  if (fields) {
    out << "runs, mean time: full graph + receptive fields (requests for few nodes); -: none yet\n";
  }
  const auto differ = [](const v1::PlanStep& a, const v1::PlanStep& b) {
    return a.run_count() != b.run_count() || a.receptive_field_run_count() != b.receptive_field_run_count();
  };
  if (std::adjacent_find(plan.steps().begin(), plan.steps().end(), differ) != plan.steps().end()) {
    out << "a step counts runs since it got its kernel: tuning replaced the kernels of some steps\n";
  }
}

void PrintRefusals(const v1::ExplainResponse& plan, std::ostream& out) {
  bool title = false;
  for (int i = 0; i < plan.steps_size(); ++i) {
    for (const v1::Refusal& refusal : plan.steps(i).refusals()) {
      if (!title) out << "\nkernels that do not support a step:\n";
      title = true;
      out << "  step " << i << ": " << refusal.kernel() << ": " << refusal.reason() << '\n';
    }
  }
}

void PrintPlan(const v1::ExplainResponse& plan, bool verbose, std::ostream& out) {
  out << "\nplan on " << plan.device() << " for " << Served(plan.served_by()) << '\n';
  if (!plan.order().empty()) out << "order: " << plan.order() << '\n';
  out << "scratch memory: " << FormatBytes(plan.scratch_bytes());
  if (plan.tiled_scratch_bytes() < plan.whole_scratch_bytes()) {
    out << (plan.scratch_bytes() < plan.whole_scratch_bytes() ? " in tiles; " : "; ")
        << FormatBytes(plan.whole_scratch_bytes()) << " whole, " << FormatBytes(plan.tiled_scratch_bytes())
        << " in tiles";
  }
  out << "\n\n";
  if (plan.has_links()) {
    out << "links: " << plan.links().decoder() << " of rows of '" << plan.links().output() << "' ["
        << plan.links().width() << "], " << FormatCount(plan.links().operations_per_pair(), "operation")
        << " per pair, kernel " << SettingText(plan.links().kernel(), plan.links().parameters()) << "\n\n";
  }
  PrintSteps(plan, out);
  if (verbose) PrintRefusals(plan, out);
  PrintTunedSteps(plan, verbose, out);
  PrintLeftOut(plan.tuning_left_out(), "steps with tuning, at the end", out);
  if (plan.decisions_size() > 0) out << "\ndecisions:\n";
  for (const std::string& decision : plan.decisions()) out << "  " << decision << '\n';
  PrintLeftOut(plan.decisions_left_out(), "decisions", out);
  if (!verbose)
    out << "\n--verbose also shows the graph's profile, what tuning tried, and why kernels do not support a step\n";
}

absl::Status Explain(const Context& context) {
  const Arguments& args = context.args;
  for (const char* option : {"feature_set", "edge_feature_set", "output", "verbose", "links", "attention", "kernel",
                             "precision", "product_precision"}) {
    if (args.Has(option) && !args.Has("model")) {
      return absl::InvalidArgumentError(absl::StrCat("--", option, " concerns the plan, so it needs --model MODEL"));
    }
  }
  CLIENT_ASSIGN_OR_RETURN(const v1::Graph graph, context.client.GetGraph(args.Positional(0)));
  if (!args.Has("model")) {
    if (context.json) {
      context.PrintJson(Json{{"graph", ToJson(graph)}});
    } else {
      PrintGraph(graph, context.out);
    }
    return absl::OkStatus();
  }
  v1::ExplainRequest request;
  request.mutable_target()->set_graph(args.Positional(0));
  request.mutable_target()->set_model(args.Text("model"));
  request.mutable_target()->set_feature_set(args.Text("feature_set"));
  request.mutable_target()->set_edge_feature_set(args.Text("edge_feature_set"));
  request.set_output(args.Text("output"));
  request.set_attention(args.Text("attention"));
  if (args.Has("links")) request.mutable_links();
  CLIENT_RETURN_IF_ERROR(AddExecution(args, request.mutable_execution()));
  const absl::StatusOr<v1::ExplainResponse> explained = context.client.Explain(request);
  if (!explained.ok()) return WithNodeName(context, args.Positional(0), explained.status());
  const v1::ExplainResponse& plan = *explained;
  if (context.json) {
    context.PrintJson(Json{{"graph", ToJson(graph)}, {"plan", ToJson(plan)}});
    return absl::OkStatus();
  }
  const bool verbose = args.Has("verbose");
  if (verbose) {
    PrintGraph(graph, context.out);
  } else {
    PrintGraphSummary(graph, context.out);
  }
  PrintPlan(plan, verbose, context.out);
  return absl::OkStatus();
}

}  // namespace

Command ExplainCommand() {
  Syntax syntax = {
      "graph explain",
      {"NAME"},
      "Shows the plan of a model on a graph: steps, kernels, tuning, decisions; without --model the graph's profile.",
      "",
      {{"model", OptionKind::kName, "MODEL", "the model to plan for"},
       {"feature_set", OptionKind::kName, "NAME", "feature set to plan with; default: default"},
       {"edge_feature_set", OptionKind::kName, "NAME",
        "edge feature set to plan with; default: default, or the graph's own edge_attr"},
       {"output", OptionKind::kText, "OUTPUT", "plan for this output of the model; default: its last layer"},
       {"links", OptionKind::kFlag, "", "explain scores of links, by the model's decoder or dot"},
       {"attention", OptionKind::kText, "LAYER", "explain the attention weights of this layer"},
       {"verbose", OptionKind::kFlag, "",
        "with --model: also the graph's profile, what tuning tried, and why kernels do not support a step"}}};
  for (Option& option : ExecutionOptionsOf(/*receptive_field=*/false)) syntax.options.push_back(std::move(option));
  return {syntax, Explain};
}

}  // namespace vicinal::client::cli
