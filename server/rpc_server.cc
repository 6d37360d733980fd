// SPDX-License-Identifier: Apache-2.0
#include "server/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/rpc_credentials.h"
#include "server/services/unreadable.h"

namespace vicinal::server {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

constexpr const char* kServices[] = {"vicinal.v1.GraphService", "vicinal.v1.ModelService",
                                     "vicinal.v1.InferenceService", "vicinal.v1.ServerService"};

// gRPC itself rejects larger messages with RESOURCE_EXHAUSTED; our own answer (INVALID_ARGUMENT, naming the flag)
// covers sizes between the limit and this. gRPC (1.51) checks only after a message has arrived completely, whatever
// length it declares: until then only max_arriving_bytes bounds its memory.
constexpr int64_t kHardMessageFactor = 2;

// A stopped client, in the middle of a message or waiting for an answer, does not answer pings either.
constexpr milliseconds kAnswerWithin = seconds(20);

// Minimum ping interval for clients with long waits (a watch, tuning); by default gRPC closes connections that ping
// more often than every five minutes.
constexpr seconds kMinBetweenPings{10};

// The health service alone: a probe sends a few bytes, and few watch.
constexpr int kHealthStreams = 16;
constexpr int kHealthMessageBytes = 4096;
constexpr size_t kHealthArrivingBytes = size_t{16} << 20;

// CheckConfig keeps them within an int.
int Ms(milliseconds time) { return static_cast<int>(time.count()); }

// gRPC's reflection library adds itself to every server of a process that links it; this takes it out again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    const std::string name = grpc::reflection::ProtoServerReflectionPlugin().name();
    plugins->erase(std::remove_if(plugins->begin(), plugins->end(),
                                  [&name](const auto& plugin) { return plugin->name() == name; }),
                   plugins->end());
  }
};

// What both servers need.
void SetCommonArguments(const Config& config, grpc::ServerBuilder* builder) {
  // Two servers on one port would share it silently.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Ms(config.handshake_timeout));
  if (config.keepalive_time.count() > 0) {
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Ms(config.keepalive_time));
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Ms(std::min(config.keepalive_time, kAnswerWithin)));
  }
  // A little less: clocks and roads differ.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, Ms(kMinBetweenPings) * 9 / 10);
  // gRPC (1.51) unpacks a message before it looks how long it has become: a thousandfold, beside every budget.
  for (const grpc_compression_algorithm packed : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    builder->SetCompressionAlgorithmSupportStatus(packed, false);
  }
}

void SetCallArguments(const Config& config, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(config.limits.max_concurrent_streams));
  if (config.max_connection_age.count() > 0) {
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Ms(config.max_connection_age));
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Ms(config.max_connection_age_grace));
  }
  const int64_t hard = std::min<int64_t>(config.limits.max_message_bytes * kHardMessageFactor, INT32_MAX);
  builder->SetMaxReceiveMessageSize(static_cast<int>(hard));
  builder->SetMaxSendMessageSize(-1);
  if (config.limits.max_arriving_bytes > 0) {
    // gRPC counts here what its connections have read and not handed over. At the bound it breaks off calls, any of
    // them, with HTTP/2's ENHANCE_YOUR_CALM, which clients report as RESOURCE_EXHAUSTED.
    grpc::ResourceQuota quota("arriving");
    quota.Resize(static_cast<size_t>(config.limits.max_arriving_bytes));
    builder->SetResourceQuota(quota);
  }
}

Status CannotListen(const char* flag, const std::string& address) {
  return FailedPrecondition("CANNOT_LISTEN",
                            absl::StrCat("--", flag, ": cannot listen on ", address,
                                         "; is the port in use, or the address not this machine's? "
                                         "Use another one (--log_level=debug shows gRPC's own messages)"));
}

// Starts what was built and returns its HOST:PORT.
StatusOr<std::string> StartOn(const std::string& listen, const char* flag,
                              const std::shared_ptr<grpc::ServerCredentials>& credentials, grpc::ServerBuilder* builder,
                              std::unique_ptr<grpc::Server>* server) {
  VICINAL_ASSIGN_OR_RETURN(const auto address, SplitAddress(listen, flag));
  int port = 0;
  builder->AddListeningPort(listen, credentials, &port);
  *server = builder->BuildAndStart();
  if (*server == nullptr || port == 0) return CannotListen(flag, listen);
  return absl::StrCat(address.first, ":", port);
}

}  // namespace

RpcServer::RpcServer() : nothing_(std::make_unique<grpc::CallbackGenericService>()) {}
RpcServer::~RpcServer() = default;

Status RpcServer::ListenForHealth(const Config& config) {
  if (config.health_listen.empty()) return OkStatus();
  grpc::ServerBuilder builder;
  SetCommonArguments(config, &builder);
  builder.SetOption(std::make_unique<WithoutReflection>());
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kHealthStreams);
  builder.SetMaxReceiveMessageSize(kHealthMessageBytes);
  builder.RegisterCallbackGenericService(nothing_.get());
  grpc::ResourceQuota quota("health");
  quota.Resize(kHealthArrivingBytes);
  builder.SetResourceQuota(quota);
  VICINAL_ASSIGN_OR_RETURN(health_address_, StartOn(config.health_listen, "health_listen",
                                                    grpc::InsecureServerCredentials(), &builder, &health_only_));
  return OkStatus();
}

Status RpcServer::ListenForCalls(const Config& config, Core& core, const CertificateFiles* certificates,
                                 const std::vector<std::unique_ptr<grpc::Service>>& services) {
  grpc::ServerBuilder builder;
  SetCommonArguments(config, &builder);
  SetCallArguments(config, &builder);
  if (!config.reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(AnswerUnreadable(core));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  for (const auto& service : services) builder.RegisterService(service.get());
  const auto credentials = certificates != nullptr ? TlsCredentials(*certificates) : grpc::InsecureServerCredentials();
  VICINAL_ASSIGN_OR_RETURN(address_, StartOn(config.grpc_listen, "grpc_listen", credentials, &builder, &calls_));
  return OkStatus();
}

StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const Config& config, Core& core,
                                                      const CertificateFiles* certificates,
                                                      const std::vector<std::unique_ptr<grpc::Service>>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  std::unique_ptr<RpcServer> server(new RpcServer);
  VICINAL_RETURN_IF_ERROR(server->ListenForHealth(config));
  VICINAL_RETURN_IF_ERROR(server->ListenForCalls(config, core, certificates, services));
  for (grpc::Server* const part : {server->calls_.get(), server->health_only_.get()}) {
    if (part == nullptr) continue;
    server->health_.emplace_back(part->GetHealthCheckService(),
                                 std::vector<std::string>(std::begin(kServices), std::end(kServices)));
  }
  return server;
}

void RpcServer::SetReady(bool ready) {
  for (Health& health : health_) health.SetReady(ready);
}

void RpcServer::Shutdown(std::chrono::system_clock::time_point deadline) {
  for (grpc::Server* const part : {calls_.get(), health_only_.get()}) {
    if (part == nullptr) continue;
    part->Shutdown(deadline);
    part->Wait();
  }
}

}  // namespace vicinal::server
