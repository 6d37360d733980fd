// SPDX-License-Identifier: Apache-2.0
#include "server/status/pages.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/picture/svg.h"
#include "server/status/html.h"

namespace vicinal::server {
namespace {

std::string WholePage(const std::string& title, const std::string& body, bool sign_out) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", Escaped(title),
      "</title><link rel=\"stylesheet\" href=\"/style.css\"></head><body>\n<header><a href=\"/\">Vicinal</a>",
      sign_out ? "<form method=\"post\" action=\"/logout\"><button>Sign out</button></form>" : "",
      "</header>\n<main>\n", body, "</main></body></html>\n");
}

std::string StateText(GraphState state) {
  switch (state) {
    case GraphState::kPreparing:
      return "preparing";
    case GraphState::kReady:
      return "ready";
    case GraphState::kFailed:
      return "failed";
    case GraphState::kLoading:
      return "loading";
  }
  return "";
}

std::string ServerSection(const StatusSource& source, const StateSnapshot& state) {
  HtmlTable table({"fact", "value"});
  table.Add({"version", source.version});
  table.Add({"instruction set", Engine::InstructionSet()});
  for (const DeviceInfo& device : source.engine->Devices()) table.Add({"device " + device.name, device.description});
  table.Add({"ready", state.ready ? "yes" : "no"});
  table.Add({"requests waiting", CountText(state.queue_depth)});
  table.Add({"executor busy since the start", SecondsText(state.busy_seconds)});
  table.Add({"open calls", CountText(state.open_calls)});
  table.Add({"connections", CountText(state.connections.open)});
  const CompiledKernelCounts kernels = source.compiled_kernels();
  if (kernels.compiled + kernels.kept + kernels.failed > 0) {
    table.Add({"kernels of expressions",
               absl::StrCat(CountText(kernels.compiled), " compiled, ", CountText(kernels.kept), " kept from before, ",
                            CountText(kernels.failed), " failed, in ", SecondsText(kernels.seconds), "; ",
                            CountText(kernels.compiled + kernels.kept - kernels.unloaded), " loaded now")});
  }
  return absl::StrCat("<h2>Server</h2>\n", table.Text(""));
}

std::string MemorySection(const StateSnapshot& state) {
  HtmlTable table({"use", "bytes"});
  const std::pair<const char*, int64_t> uses[] = {{"graphs", state.graph_bytes},   {"features", state.feature_bytes},
                                                  {"models", state.model_bytes},   {"plans", state.plan_bytes},
                                                  {"answers", state.answer_bytes}, {"requests", state.request_bytes},
                                                  {"uploads", state.upload_bytes}};
  int64_t total = 0;
  for (const auto& [use, bytes] : uses) {
    table.Add({use, BytesText(bytes)});
    total += bytes;
  }
  table.Add({"in all", BytesText(total)});
  table.Add({"budget", state.budget_bytes == 0 ? "unlimited" : BytesText(state.budget_bytes)});
  return absl::StrCat("<h2>Memory</h2>\n", table.Text(""));
}

std::string LatencySection(const StatusSource& source) {
  HtmlTable table({"method", "calls", "mean", "half within", "99 % within"});
  for (const MethodLatency& one : source.latencies()) {
    table.Add({one.method, CountText(one.calls), SecondsText(one.mean_seconds), SecondsText(one.median_bound_seconds),
               SecondsText(one.p99_bound_seconds)});
  }
  return absl::StrCat("<h2>Latency since the start</h2>\n", table.Text("No call has ended yet."));
}

// " (16 features each)", of edges that have any.
std::string EdgeFeaturesText(int64_t width) {
  return width == 0 ? std::string()
                    : absl::StrCat(" (", CountText(width), width == 1 ? " feature" : " features", " each)");
}

bool HasGpu(const StatusSource& source) {
  const std::vector<DeviceInfo> devices = source.engine->Devices();
  return !devices.empty() && devices.front().name != "cpu";
}

// Where a graph is, if not where kernels run.
std::string PlaceText(Tier tier, bool has_gpu) {
  if (tier == Tier::kDisk) return "on disk";
  return tier == Tier::kHost && has_gpu ? "on the host" : "";
}

std::string GraphsSection(const StatusSource& source) {
  const std::vector<GraphResource> graphs = source.engine->ListGraphs();
  const bool has_gpu = HasGpu(source);
  HtmlTable table({"graph", "state", "version", "nodes", "edges", "order", "feature sets", "memory", ""});
  for (const GraphResource& graph : graphs) {
    const bool serves = graph.serving.has_value();
    table.AddLinked("/graphs/" + Escaped(graph.name),
                    {graph.name, StateText(graph.state), serves ? absl::StrCat(graph.serving->version) : "-",
                     CountText(graph.node_count),
                     CountText(graph.edge_count) + EdgeFeaturesText(serves ? graph.serving->edge_feature_width : 0),
                     serves ? std::string(ToString(graph.serving->order)) : "-",
                     CountText(static_cast<int64_t>(graph.feature_sets.size())),
                     serves ? BytesText(graph.serving->size_bytes) : "-",
                     !graph.error.ok() ? std::string(graph.error.message())
                     : serves          ? PlaceText(graph.serving->tier, has_gpu)
                                       : ""});
  }
  return absl::StrCat("<h2>Graphs</h2>\n", table.Text("There is no graph."));
}

std::string ModelsSection(const std::vector<ModelResource>& models) {
  HtmlTable table({"model", "version", "features", "features of edges", "classes", "layers", "parameters", "memory"});
  for (const ModelResource& model : models) {
    std::string layers;
    for (const LayerInfo& layer : model.layers) absl::StrAppend(&layers, layers.empty() ? "" : ", ", layer.type);
    constexpr size_t kLongest = 200;
    if (layers.size() > kLongest) layers = layers.substr(0, kLongest) + "...";
    table.Add({model.name, absl::StrCat(model.version), CountText(model.feature_count),
               model.edge_feature_width == 0 ? "-" : CountText(model.edge_feature_width), CountText(model.class_count),
               layers, CountText(model.parameter_count), BytesText(model.size_bytes)});
  }
  return absl::StrCat("<h2>Models</h2>\n", table.Text("There is no model."));
}

std::string ProfileSection(const GraphResource& graph) {
  HtmlTable table({"fact", "value"});
  const ServingGraph& serving = *graph.serving;
  const GraphProfile& profile = serving.profile;
  const auto share = [](double before, double after) {
    return absl::StrFormat("%.1f %% -> %.1f %%", 100 * before, 100 * after);
  };
  table.Add({"version", absl::StrCat(serving.version)});
  table.Add({"nodes", CountText(graph.node_count)});
  table.Add({"edges", absl::StrCat(CountText(graph.edge_count), EdgeFeaturesText(serving.edge_feature_width),
                                   serving.weighted ? ", with weights" : "")});
  table.Add(
      {"mean, largest in-degree", absl::StrFormat("%.2f, %s", profile.mean_degree, CountText(profile.max_degree))});
  table.Add({"isolated nodes", CountText(profile.isolated_nodes)});
  table.Add({"order", std::string(ToString(serving.order))});
  table.Add({absl::StrCat("edges within ", CountText(profile.window), " ids"),
             share(profile.before.inside_window, profile.after.inside_window)});
  if (profile.communities.known) {
    table.Add({"communities", absl::StrFormat("%s, modularity %.3f", CountText(profile.communities.count),
                                              profile.communities.modularity)});
  }
  for (const StageTime& stage : serving.stages) table.Add({"stage " + stage.stage, SecondsText(stage.seconds)});
  table.Add({"memory", BytesText(serving.size_bytes)});
  return table.Text("");
}

std::string PictureSection(const GraphPicture& picture) {
  const int64_t most = picture::MostEdges(picture.before, picture.after);
  return absl::StrCat(
      "<h2>Nodes by in-degree</h2>\n", picture::HistogramSvg(picture.degree_counts), "<h2>Adjacency</h2>\n<p>",
      picture::TilesText(picture.side, picture.row_stride), "</p>\n<div class=\"pair\"><figure>",
      picture::AdjacencySvg(picture.before, picture.side, most, "adjacency in the order of the upload"),
      "<figcaption>as uploaded</figcaption></figure><figure>",
      picture::AdjacencySvg(picture.after, picture.side, most, "adjacency in execution order"),
      "<figcaption>in execution order (", Escaped(ToString(picture.order)), ")</figcaption></figure></div>\n");
}

std::string SettingText(const TuningCandidate& candidate) {
  std::string text = candidate.setting.kernel;
  for (const NamedParameter& parameter : candidate.parameters) {
    if (parameter.value != 0) absl::StrAppend(&text, " ", parameter.name, "=", parameter.value);
  }
  return text;
}

std::string KernelsSection(const TuningReport& report) {
  HtmlTable table(
      {"work", "state", "kernel", "predicted", "measured", "times faster than the default", "runs", "note"});
  for (const TuningRecord& record : report.records) {
    const TuningCandidate* const choice = record.choice();
    table.Add({Describe(record.key), std::string(ToString(record.state)),
               choice != nullptr ? SettingText(*choice) : "default",
               choice != nullptr ? SecondsText(choice->predicted_seconds) : "-",
               choice != nullptr ? SecondsText(choice->measured_seconds) : "-",
               record.gain > 0 ? absl::StrFormat("%.2f", record.gain) : "-", CountText(record.uses), record.note});
  }
  return absl::StrCat("<h2>Kernels</h2>\n",
                      table.Text("Nothing has been tuned on this graph: all its work runs with default kernels."));
}

std::string FeatureSetsSection(const GraphResource& graph) {
  HtmlTable table({"feature set", "of", "version", "features", "stored as", "memory"});
  for (const FeatureSetResource& set : graph.feature_sets) {
    table.Add({set.name, set.kind == FeatureKind::kEdges ? "edges" : "nodes", absl::StrCat(set.version),
               CountText(set.feature_count), set.sparse ? "CSR" : "dense", BytesText(set.size_bytes)});
  }
  return absl::StrCat("<h2>Feature sets</h2>\n", table.Text("There is none."));
}

}  // namespace

std::string OverviewPage(const StatusSource& source, bool sign_out) {
  const StateSnapshot state = source.snapshot();
  return WholePage("Vicinal",
                   absl::StrCat(GraphsSection(source), ModelsSection(source.engine->ListModels()),
                                LatencySection(source), MemorySection(state), ServerSection(source, state)),
                   sign_out);
}

StatusOr<std::string> GraphPage(const StatusSource& source, const std::string& name, bool sign_out) {
  VICINAL_ASSIGN_OR_RETURN(const GraphResource graph, source.engine->GetGraph(name));
  std::string body = absl::StrCat("<h1>", Escaped(name), "</h1>\n<p>State: ", StateText(graph.state), ".</p>\n");
  if (!graph.error.ok())
    absl::StrAppend(&body, "<p class=\"error\">", Escaped(std::string(graph.error.message())), "</p>\n");
  if (graph.serving) {
    absl::StrAppend(&body, ProfileSection(graph), FeatureSetsSection(graph));
    // What is on disk only stays there.
    if (graph.serving->in_memory()) {
      const StatusOr<GraphPicture> picture = source.engine->Picture(name, kPictureSide);
      if (picture.ok()) absl::StrAppend(&body, PictureSection(*picture));
      if (const std::string place = PlaceText(graph.serving->tier, HasGpu(source)); !place.empty()) {
        absl::StrAppend(&body, "<p>The graph is ", place, "; the next request copies it to the GPU.</p>\n");
        return WholePage("Vicinal: " + name, body, sign_out);  // the tuning report would copy it, too
      }
      const StatusOr<TuningReport> tuning = source.engine->GetTuning(name);
      if (tuning.ok()) absl::StrAppend(&body, KernelsSection(*tuning));
    } else {
      absl::StrAppend(&body, "<p>The graph is on disk only; the next request loads it.</p>\n");
    }
  }
  return WholePage("Vicinal: " + name, body, sign_out);
}

std::string LoginPage(const std::string& message) {
  return WholePage(
      "Vicinal: sign in",
      absl::StrCat("<h1>Sign in</h1>\n",
                   message.empty() ? std::string() : absl::StrCat("<p class=\"error\">", Escaped(message), "</p>\n"),
                   "<form method=\"post\" action=\"/login\"><label>Token <input type=\"password\" name=\"token\" "
                   "autocomplete=\"current-password\" autofocus required></label> <button>Sign in</button></form>\n"),
      false);
}

std::string MessagePage(const std::string& title, const std::string& message) {
  return WholePage("Vicinal: " + title, absl::StrCat("<h1>", Escaped(title), "</h1>\n<p>", Escaped(message), "</p>\n"),
                   false);
}

const char* StyleSheet() {
  return "body{font:15px/1.45 system-ui,sans-serif;margin:0;color:#1d2733;background:#fff}\n"
         "header{display:flex;justify-content:space-between;align-items:center;padding:.7em 1.5em;background:#1b4f8a}\n"
         "header a{color:#fff;font-weight:600;text-decoration:none}\n"
         "main{max-width:72em;margin:1em auto;padding:0 1.5em;overflow-x:auto}\n"
         "h2{font-size:1.1em;margin:1.6em 0 .4em}\n"
         "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
         "th,td{text-align:left;padding:.25em .9em .25em 0;border-bottom:1px solid "
         "#dde3ea;vertical-align:top}\n"
         "th{color:#5b6875;font-weight:600}\n"
         "a{color:#1b4f8a}\n"
         ".pair{display:flex;gap:2em;flex-wrap:wrap}\n"
         "figure{margin:0}\n"
         "figcaption{color:#5b6875}\n"
         ".error{color:#a3171f}\n"
         "input,button{font:inherit;padding:.3em .6em}\n";
}

}  // namespace vicinal::server
