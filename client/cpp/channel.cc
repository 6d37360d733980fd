// SPDX-License-Identifier: Apache-2.0
// Channel arguments: retries and limits by service config, a limit for all replies, no compressed ones, and no HTTP
// proxy from the environment, which would catch calls to the loopback address too.
#include "client/cpp/channel.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "client/cpp/credentials.h"
#include "proto/wire/names.h"

namespace vicinal::client {

const char kDefaultServiceConfig[] = R"({"methodConfig": [{
  "name": [{"service": "vicinal.v1.InferenceService"}],
  "retryPolicy": {
    "maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"]
  }
}, {
  "name": [
    {"service": "vicinal.v1.ServerService"},
    {"service": "vicinal.v1.GraphService", "method": "GetUpload"},
    {"service": "vicinal.v1.GraphService", "method": "GetGraph"},
    {"service": "vicinal.v1.GraphService", "method": "GetTuning"},
    {"service": "vicinal.v1.GraphService", "method": "GetGraphPicture"},
    {"service": "vicinal.v1.GraphService", "method": "ListGraphs"},
    {"service": "vicinal.v1.GraphService", "method": "ListFeatures"},
    {"service": "vicinal.v1.ModelService", "method": "GetModel"},
    {"service": "vicinal.v1.ModelService", "method": "ListModels"}
  ],
  "retryPolicy": {
    "maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"]
  },
  "maxResponseMessageBytes": 4194304
}, {
  "name": [
    {"service": "vicinal.v1.GraphService"},
    {"service": "vicinal.v1.ModelService"},
    {"service": "grpc.health.v1.Health"}
  ],
  "maxResponseMessageBytes": 4194304
}]})";

namespace internal {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(std::min<int64_t>(options.max_reply_bytes, std::numeric_limits<int>::max())));
  // gRPC would unpack a reply before it checks the size. One bit per algorithm; the first is "identity".
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (options.keepalive.count() > 0) {
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(options.keepalive.count()));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(options.keepalive.count()));
    // Else only the first two pings of a long wait are sent.
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  if (options.service_config.empty()) {
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  } else {
    arguments.SetServiceConfigJSON(options.service_config);
  }
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!options.tls.server_name.empty()) arguments.SetSslTargetNameOverride(options.tls.server_name);
  return grpc::CreateCustomChannel(options.target, MakeCredentials(options.tls), arguments);
}

}  // namespace

Channel::Channel(const ClientOptions& options) : options_(options), channel_(MakeChannel(options)) {}

void Channel::Prepare(grpc::ClientContext* context, std::chrono::milliseconds timeout, const std::string& graph) const {
  if (timeout.count() > 0) context->set_deadline(std::chrono::system_clock::now() + timeout);
  if (!options_.token.empty()) context->AddMetadata(wire::kAuthorizationMetadata, "Bearer " + options_.token);
  // A name outside the grammar is for the server to refuse; as metadata it might not even be sendable.
  if (wire::IsValidName(graph)) context->AddMetadata(wire::kGraphMetadata, graph);
}

void Channel::Backoff(int attempt) const {
  const std::chrono::milliseconds wait(std::min(200 << std::min(attempt - 1, 4), 3000));
  if (options_.sleep) {
    options_.sleep(wait);
  } else {
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace internal
}  // namespace vicinal::client
