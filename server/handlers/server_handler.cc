// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/server_handler.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "server/convert.h"
#include "server/convert_replies.h"
#include "server/handlers/fit_reply.h"

namespace vicinal::server {
namespace {

// What the explained request wants instead of rows.
Status AddLinks(const v1::ExplainRequest& request, InferenceRequest* out) {
  if (!request.has_links() && request.attention().empty()) return OkStatus();
  auto links = std::make_shared<WantedLinks>();
  if (!request.attention().empty()) {
    if (request.has_links()) {
      return InvalidArgument("BAD_ATTENTION", "links", "links and attention are set; one of them can be explained");
    }
    links->attention = WantedAttention{request.attention(), out->nodes};
  } else {
    VICINAL_ASSIGN_OR_RETURN(links->decoder, FromProto(request.links().decoder()));
    links->relation = request.links().relation();
    links->all_edges = true;
  }
  out->links = std::move(links);
  return OkStatus();
}

}  // namespace

ServerHandler::ServerHandler(Engine& engine, const Limits& limits, std::vector<std::string> warnings,
                             const Clock* clock)
    : engine_(engine),
      clock_(clock != nullptr ? *clock : Clock::Real()),
      begin_(clock_.Now()),
      max_response_bytes_(limits.max_response_bytes) {
  fixed_.set_version(Version());
  for (const auto& [name, value] : ListOf(limits)) {
    v1::Limit* limit = fixed_.add_limits();
    limit->set_name(name);
    limit->set_value(value);
  }
  for (const DeviceInfo& device : engine_.Devices()) {
    v1::Device* entry = fixed_.add_devices();
    entry->set_name(device.name);
    entry->set_description(device.description);
  }
  for (const LayerTypeInfo& type : Engine::LayerTypes()) {
    v1::LayerType* entry = fixed_.add_layer_types();
    entry->set_type(type.type);
    for (const std::string& argument : type.supported) entry->add_supported_arguments(argument);
    for (const std::string& argument : type.refused) entry->add_refused_arguments(argument);
  }
  fixed_.set_incarnation(engine_.incarnation());
  fixed_.set_durable_state(engine_.durable());
  for (std::string& warning : warnings) fixed_.add_warnings(std::move(warning));
  for (const OrderKind order : Engine::AvailableOrders()) fixed_.add_orders(std::string(ToString(order)));
}

Status ServerHandler::GetCapabilities(const Call&, const v1::GetCapabilitiesRequest&,
                                      v1::Capabilities* response) const {
  *response = fixed_;
  for (KernelStatus& kernel : engine_.Kernels()) {
    v1::KernelInfo* entry = response->add_kernels();
    entry->set_operation(std::move(kernel.operation));
    entry->set_name(std::move(kernel.name));
    entry->set_device(std::move(kernel.device));
    entry->set_launch_count(kernel.launches);
    for (std::string& parameter : kernel.parameters) entry->add_parameters(std::move(parameter));
  }
  response->set_uptime_seconds(SecondsBetween(begin_, clock_.Now()));
  return OkStatus();
}

Status ServerHandler::Explain(Call& call, const v1::ExplainRequest& request, v1::ExplainResponse* response) const {
  InferenceRequest target;
  VICINAL_RETURN_IF_ERROR(FillTarget(request.target(), &target));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(target.graph));
  call.graph = target.graph;
  call.model = target.model;
  VICINAL_ASSIGN_OR_RETURN(target.options, FromProto(request.execution()));
  target.options.output = request.output();
  target.nodes.all = true;
  VICINAL_RETURN_IF_ERROR(AddLinks(request, &target));
  target.limits = call.limits;
  VICINAL_ASSIGN_OR_RETURN(const Explanation explanation, engine_.Explain(target));
  *response = ToProto(explanation);
  FitReply(max_response_bytes_, response);
  return OkStatus();
}

const char* Version() { return VICINAL_VERSION; }

}  // namespace vicinal::server
