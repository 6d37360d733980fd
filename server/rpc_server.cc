// SPDX-License-Identifier: Apache-2.0
#include "server/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/listen.h"
#include "server/rpc_credentials.h"

namespace vicinal::server {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

constexpr const char* kServices[] = {"vicinal.v1.GraphService", "vicinal.v1.ModelService",
                                     "vicinal.v1.InferenceService", "vicinal.v1.ServerService",
                                     "inference.GRPCInferenceService"};

// gRPC itself rejects larger messages with RESOURCE_EXHAUSTED; our own answer (INVALID_ARGUMENT, naming the flag)
// covers sizes between the limit and this. gRPC (1.51) checks only after a message has arrived completely, whatever
// length it declares: until then only max_arriving_bytes bounds its memory.
constexpr int64_t kHardMessageFactor = 2;

// A stopped client, in the middle of a message or waiting for an answer, does not answer pings either.
constexpr milliseconds kAnswerWithin = seconds(20);

// What a call's metadata may take on the unix socket: the edge adds a client's certificate to what the client sends.
// Elsewhere gRPC's default counts, 8 KiB.
constexpr int kEdgeMetadataBytes = 16384;

// Minimum ping interval for clients with long waits (a watch, tuning); by default gRPC closes connections that ping
// more often than every five minutes.
constexpr seconds kMinBetweenPings{10};

// gRPC's reflection takes a thread for each stream, and has no other bound.
constexpr int kReflectionThreads = 16;

// The health service alone: a probe sends a few bytes, and few watch.
constexpr int kHealthStreams = 16;
constexpr int64_t kHealthCalls = 512;  // checks, and as many watches
constexpr std::chrono::seconds kHealthMessage{10};
constexpr int64_t kHealthConnections = 64;
constexpr int64_t kHealthConnectionsPerAddress = 16;
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

// gRPC counts here what its connections have read and not handed over. At the bound it breaks off calls, any of
// them, with HTTP/2's ENHANCE_YOUR_CALM, which clients report as RESOURCE_EXHAUSTED.
void Bound(const Limits& limits, grpc::ResourceQuota* quota) {
  if (limits.max_arriving_bytes > 0) quota->Resize(static_cast<size_t>(limits.max_arriving_bytes));
  quota->SetMaxThreads(kReflectionThreads);
}

void SetCallArguments(const Config& config, const grpc::ResourceQuota& quota, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(config.limits.max_concurrent_streams));
  if (config.max_connection_age.count() > 0) {
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Ms(config.max_connection_age));
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Ms(config.max_connection_age_grace));
  }
  const int64_t hard = std::min<int64_t>(config.limits.max_message_bytes * kHardMessageFactor, INT32_MAX);
  builder->SetMaxReceiveMessageSize(static_cast<int>(hard));
  builder->SetMaxSendMessageSize(-1);
  builder->SetResourceQuota(quota);
}

// What one of gRPC's servers serves.
struct Served {
  const RpcServer::Services& services;
  grpc::Service& health;
  UnknownMethods& unknown_methods;
  const grpc::ResourceQuota& quota;
};

void SetUp(const Config& config, const Served& served, grpc::ServerBuilder* builder) {
  SetCommonArguments(config, builder);
  SetCallArguments(config, served.quota, builder);
  if (!config.reflection) builder->SetOption(std::make_unique<WithoutReflection>());
  builder->RegisterService(&served.health);
  for (const auto& service : served.services) builder->RegisterService(service.get());
  builder->RegisterCallbackGenericService(&served.unknown_methods);
}

// Connections that we accept ourselves go to this server's transport with those credentials.
std::function<void(int)> DoorOf(grpc::ServerBuilder* builder,
                                const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder->experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  return [acceptor](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  };
}

// Adds listeners for the address, and returns it with its port.
StatusOr<std::string> AddTcp(const std::string& listen, const char* flag, const std::function<void(int)>& take,
                             std::vector<Acceptor::Listener>* listeners) {
  VICINAL_ASSIGN_OR_RETURN(const auto address, SplitAddress(listen, flag));
  VICINAL_ASSIGN_OR_RETURN(const Listening listening, ListenOnTcp(address.first, address.second, flag));
  for (const int socket : listening.sockets) listeners->push_back({socket, take});
  return absl::StrCat(address.first, ":", listening.port);
}

Status AddUnix(const Config& config, const std::function<void(int)>& take, std::vector<Acceptor::Listener>* listeners) {
  // Which of them may connect is decided when they do.
  const unsigned mode = config.edge_uids.empty() ? 0600 : 0666;
  VICINAL_ASSIGN_OR_RETURN(const int socket, ListenOnUnix(config.edge_listen, mode, "edge_listen"));
  listeners->push_back({socket, take, true, config.edge_uids});
  if (config.edge_uids.empty()) listeners->back().users = {geteuid()};
  return OkStatus();
}

Status CannotStart(const char* flag) {
  return FailedPrecondition("CANNOT_LISTEN",
                            absl::StrCat("--", flag, ": gRPC cannot start (--log_level=debug shows its messages)"));
}

}  // namespace

RpcServer::RpcServer(const Config& config, Core& core)
    : health_(std::vector<std::string>(std::begin(kServices), std::end(kServices))),
      health_places_({kHealthCalls, std::min<milliseconds>(config.message_timeout, kHealthMessage)}, core),
      health_only_places_({kHealthCalls, std::min<milliseconds>(config.message_timeout, kHealthMessage)}, core),
      health_service_(MakeHealthService(core, health_, health_places_)),
      edge_health_service_(MakeHealthService(core, health_, health_places_)),
      health_only_service_(MakeHealthService(core, health_, health_only_places_)),
      unknown_methods_(core.refusals),
      edge_unknown_methods_(core.refusals) {}
RpcServer::~RpcServer() = default;

Status RpcServer::ListenForHealth(const Config& config, JsonLog* log) {
  if (config.health_listen.empty()) return OkStatus();
  grpc::ServerBuilder builder;
  SetCommonArguments(config, &builder);
  builder.SetOption(std::make_unique<WithoutReflection>());
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kHealthStreams);
  builder.SetMaxReceiveMessageSize(kHealthMessageBytes);
  builder.RegisterService(health_only_service_.get());
  grpc::ResourceQuota quota("health");
  quota.Resize(kHealthArrivingBytes);
  builder.SetResourceQuota(quota);
  std::vector<Acceptor::Listener> listeners;
  const auto take = DoorOf(&builder, grpc::InsecureServerCredentials());
  VICINAL_ASSIGN_OR_RETURN(health_address_, AddTcp(config.health_listen, "health_listen", take, &listeners));
  Acceptor::Options options;
  options.max_connections = kHealthConnections;
  options.max_per_address = kHealthConnectionsPerAddress;
  // A probe that finds no place would have the server restarted.
  options.replaces = true;
  health_door_ = std::make_unique<Acceptor>(std::move(listeners), options, log, [](bool) {});
  health_only_ = builder.BuildAndStart();
  return health_only_ != nullptr ? OkStatus() : CannotStart("health_listen");
}

Status RpcServer::ListenForCalls(const Config& config, Core& core, const CertificateFiles* certificates,
                                 const Services& services, const Services& edge_services) {
  grpc::ResourceQuota quota("arriving");
  Bound(config.limits, &quota);
  grpc::ServerBuilder builder, edge_builder;
  std::vector<Acceptor::Listener> listeners;
  if (!config.grpc_listen.empty()) {
    SetUp(config, {services, *health_service_, unknown_methods_, quota}, &builder);
    const auto take =
        DoorOf(&builder, certificates != nullptr ? TlsCredentials(*certificates) : grpc::InsecureServerCredentials());
    VICINAL_ASSIGN_OR_RETURN(address_, AddTcp(config.grpc_listen, "grpc_listen", take, &listeners));
  }
  Status edge = OkStatus();
  if (!config.edge_listen.empty()) {
    SetUp(config, {edge_services, *edge_health_service_, edge_unknown_methods_, quota}, &edge_builder);
    edge_builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kEdgeMetadataBytes);
    edge = AddUnix(config, DoorOf(&edge_builder, grpc::InsecureServerCredentials()), &listeners);
    if (address_.empty()) address_ = absl::StrCat("unix:", config.edge_listen);
  }
  Acceptor::Options options;
  options.max_connections = config.limits.max_connections;
  options.max_per_address = config.limits.max_connections_per_address;
  // From here on it owns the sockets.
  door_ = std::make_unique<Acceptor>(std::move(listeners), options, &core.log, [this](bool full) { SetFull(full); });
  VICINAL_RETURN_IF_ERROR(edge);
  if (!config.grpc_listen.empty() && (calls_ = builder.BuildAndStart()) == nullptr) return CannotStart("grpc_listen");
  if (!config.edge_listen.empty() && (edge_calls_ = edge_builder.BuildAndStart()) == nullptr)
    return CannotStart("edge_listen");
  return OkStatus();
}

StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const Config& config, Core& core,
                                                      const CertificateFiles* certificates, const Services& services,
                                                      const Services& edge_services) {
  std::unique_ptr<RpcServer> server(new RpcServer(config, core));
  VICINAL_RETURN_IF_ERROR(server->ListenForHealth(config, &core.log));
  VICINAL_RETURN_IF_ERROR(server->ListenForCalls(config, core, certificates, services, edge_services));
  // An address that may have all connections is a proxy's, with many clients on each of them.
  if (config.limits.max_connections_per_address > 0 &&
      config.limits.max_connections_per_address < config.limits.max_connections) {
    core.refusals.Ends([door = server->door_.get()](const std::vector<std::string>& peers) { door->HangUp(peers); });
  }
  for (Acceptor* const door : {server->health_door_.get(), server->door_.get()}) {
    if (door != nullptr) door->Start();
  }
  return server;
}

void RpcServer::SetReady(bool ready) {
  MutexLock lock(&mutex_);
  ready_ = ready;
  health_.SetReady(ready_ && !full_);
}

void RpcServer::SetFull(bool full) {
  MutexLock lock(&mutex_);
  full_ = full;
  health_.SetReady(ready_ && !full_);
}

bool RpcServer::has_room() const {
  MutexLock lock(&mutex_);
  return !full_;
}

void RpcServer::Shutdown(std::chrono::system_clock::time_point deadline) {
  for (Acceptor* const door : {door_.get(), health_door_.get()}) {
    if (door != nullptr) door->Stop();
  }
  for (grpc::Server* const part : {calls_.get(), edge_calls_.get(), health_only_.get()}) {
    if (part == nullptr) continue;
    part->Shutdown(deadline);
    part->Wait();
  }
}

}  // namespace vicinal::server
