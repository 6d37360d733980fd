// SPDX-License-Identifier: Apache-2.0
// `vicinal status`: is it healthy, what can it do, what does it hold. `vicinal health`: is it healthy, as an exit code;
// it asks grpc.health.v1 alone, which needs no token and which --health_listen serves in plain text.
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

struct ServerStatus {
  v1::Capabilities capabilities;
  std::string readiness;
  std::vector<v1::Graph> graphs;
  std::vector<v1::Model> models;
};

absl::StatusOr<ServerStatus> Ask(Client& client) {
  ServerStatus status;
  CLIENT_ASSIGN_OR_RETURN(status.capabilities, client.GetCapabilities());
  absl::StatusOr<std::string> readiness = client.CheckHealth("readiness");
  if (absl::IsNotFound(readiness.status())) readiness = client.CheckHealth("");
  status.readiness = readiness.ok() ? *readiness : "UNKNOWN";
  CLIENT_ASSIGN_OR_RETURN(status.graphs, client.ListGraphs());
  CLIENT_ASSIGN_OR_RETURN(status.models, client.ListModels());
  return status;
}

void PrintKernels(const v1::Capabilities& capabilities, std::ostream& out) {
  Table table({"operation", "kernel", "device", "launches", "parameters"});
  for (const v1::KernelInfo& kernel : capabilities.kernels()) {
    table.Add({kernel.operation(), kernel.name(), kernel.device(), absl::StrCat(kernel.launch_count()),
               absl::StrJoin(kernel.parameters(), ", ")});
  }
  table.Print(out);
}

absl::Status Show(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(const ServerStatus status, Ask(context.client));
  if (context.json) {
    Json json = {{"readiness", status.readiness}, {"capabilities", ToJson(status.capabilities)}};
    json["graphs"] = Json::array();
    for (const v1::Graph& graph : status.graphs) json["graphs"].push_back(ToJson(graph));
    json["models"] = Json::array();
    for (const v1::Model& model : status.models) json["models"].push_back(ToJson(model));
    context.PrintJson(json);
    return absl::OkStatus();
  }
  std::ostream& out = context.out;
  const v1::Capabilities& capabilities = status.capabilities;
  out << "server " << context.server << ", version " << capabilities.version() << ", up "
      << FormatSeconds(capabilities.uptime_seconds()) << ", readiness " << status.readiness << '\n';
  for (const std::string& warning : capabilities.warnings()) out << "WARNING: " << warning << '\n';
  for (const v1::Device& device : capabilities.devices()) {
    out << "device " << device.name() << ": " << device.description() << '\n';
  }
  out << "orders: " << absl::StrJoin(capabilities.orders(), ", ") << "\n\n";
  PrintGraphs(status.graphs, out);
  out << '\n';
  PrintModels(status.models, out);
  out << '\n';
  PrintKernels(capabilities, out);
  if (!context.args.Has("all")) {
    out << "\n--all also shows limits and layer types\n";
    return absl::OkStatus();
  }
  out << '\n';
  Table limits({"limit", "value"});
  for (const v1::Limit& limit : capabilities.limits()) limits.Add({limit.name(), absl::StrCat(limit.value())});
  limits.Print(out);
  out << '\n';
  out << "layer types:\n";
  for (const v1::LayerType& type : capabilities.layer_types()) {
    out << "  " << type.type();
    if (type.supported_arguments_size() > 0) out << ": " << absl::StrJoin(type.supported_arguments(), ", ");
    if (type.refused_arguments_size() > 0)
      out << " (not supported: " << absl::StrJoin(type.refused_arguments(), ", ") << ')';
    out << '\n';
  }
  return absl::OkStatus();
}

absl::Status CheckHealth(const Context& context) {
  const std::string service = context.args.Text("service", "readiness");
  CLIENT_ASSIGN_OR_RETURN(const std::string state, context.client.CheckHealth(service));
  if (state != "SERVING") return absl::UnavailableError(absl::StrCat(service, " is ", state));
  if (context.json) {
    context.PrintJson(Json{{service, state}});
  } else {
    context.out << service << " is " << state << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> StatusCommands() {
  return {{{"status",
            {},
            "Shows the server's health, devices, kernels, graphs and models.",
            "",
            {{"all", OptionKind::kFlag, "", "also show limits and layer types"}}},
           Show},
          {{"health",
            {},
            "Exits with 0 if the server is ready, with 3 if it is not or cannot be reached. Needs no token.",
            "",
            {{"service", OptionKind::kText, "NAME", "liveness, readiness or a gRPC service; default: readiness"}}},
           CheckHealth},
          SyncCommand()};
}

}  // namespace vicinal::client::cli
