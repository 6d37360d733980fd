// SPDX-License-Identifier: Apache-2.0
// Who may connect, and how many: caps, exhausted descriptors, silent connections, and the unix socket of a proxy.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/certificates.h"
#include "tests/integration/fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_directory.h"
#include "vicinal/v1/graph.grpc.pb.h"

namespace vicinal::testing {
namespace {

// A connection that comes from another address of this machine.
int ConnectFrom(const std::string& source, const std::string& host_port) {
  sockaddr_in from = {}, to = {};
  from.sin_family = to.sin_family = AF_INET;
  inet_pton(AF_INET, source.c_str(), &from.sin_addr);
  const size_t colon = host_port.rfind(':');
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(host_port.c_str() + colon + 1)));
  inet_pton(AF_INET, host_port.substr(0, colon).c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof(from)), 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// The server's first bytes (its settings), or 0: it closed the connection.
ssize_t FirstBytes(int fd) {
  char bytes[256];
  return recv(fd, bytes, sizeof(bytes), 0);
}

// A new connection is served. A new client is not one: gRPC's channels to one address share their connection.
bool IsWelcome(const std::string& address) {
  const int fd = Connect(address);
  const bool welcome = fd >= 0 && FirstBytes(fd) > 0;
  if (fd >= 0) close(fd);
  return welcome;
}

class ConnectionsTest : public IntegrationTest {
 protected:
  std::string Readiness() const {
    const auto health = client_->CheckHealth("readiness");
    return health.ok() ? *health : health.status().ToString();
  }
  bool Logged(const std::string& text) const { return server_->Log().find(text) != std::string::npos; }
  bool Scraped(const std::string& line) const {
    const auto page = server_->Scrape();
    return page.ok() && page->find("\n" + line + "\n") != std::string::npos;
  }

  const TemporaryDirectory folder_;
};

TEST_F(ConnectionsTest, BeyondTheCapConnectionsAreSentAway) {
  ASSERT_NO_FATAL_FAILURE(
      StartServer({"--max_connections=6", "--max_connections_per_address=6", "--handshake_timeout=1m"}));
  EXPECT_EQ(Readiness(), "SERVING");
  auto idle = std::make_unique<IdleConnections>(server_->grpc_address(), 5);
  EXPECT_TRUE(Eventually([&] { return Scraped("vicinal_connections 6"); }));
  EXPECT_FALSE(IsWelcome(server_->grpc_address()));
  EXPECT_TRUE(Eventually([&] { return Readiness() == "NOT_SERVING"; }));
  EXPECT_TRUE(Scraped("vicinal_ready 0"));
  EXPECT_TRUE(Logged("\"level\":\"error\",\"message\":\"connections refused: no room\"")) << server_->Log();
  EXPECT_FALSE(IsWelcome(server_->grpc_address()));
  // Who has a connection is served.
  EXPECT_TRUE(client_->ListGraphs().ok());
  idle.reset();
  EXPECT_TRUE(Eventually([&] { return IsWelcome(server_->grpc_address()); }));
  EXPECT_TRUE(Eventually([&] { return Readiness() == "SERVING"; }));
  EXPECT_TRUE(Logged("connections accepted again"));
  EXPECT_FALSE(Scraped("vicinal_connections_refused_total{reason=\"full\"} 0"));
}

TEST_F(ConnectionsTest, RecoversWhenDescriptorsReturn) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--handshake_timeout=1m"}));
  EXPECT_TRUE(client_->ListGraphs().ok());
  // Once before: the sanitizer opens a pipe when it meets a class for the first time, and must not fail to.
  EXPECT_EQ(Readiness(), "SERVING");
  auto idle = std::make_unique<IdleConnections>(server_->grpc_address(), 40);
  EXPECT_TRUE(Eventually([&] { return Scraped("vicinal_connections 41"); }));
  // From now on the server can open nothing: it has more descriptors than it may.
  rlimit before = {};
  const rlimit few = {16, RLIM_INFINITY};
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit lowered = {few.rlim_cur, before.rlim_max};
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, &lowered, nullptr), 0);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(IsWelcome(server_->grpc_address()));
  EXPECT_TRUE(Logged("connections refused: no room")) << server_->Log();
  EXPECT_TRUE(Eventually([&] { return Readiness() == "NOT_SERVING"; }));
  EXPECT_TRUE(client_->ListGraphs().ok());
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_TRUE(Eventually([&] { return IsWelcome(server_->grpc_address()); }));
  EXPECT_TRUE(Eventually([&] { return Readiness() == "SERVING"; }));
  idle.reset();
  EXPECT_TRUE(Eventually([&] { return Scraped("vicinal_connections 1"); }));
}

TEST_F(ConnectionsTest, OneAddressCannotTakeAll) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--max_connections_per_address=3", "--handshake_timeout=1m"}));
  EXPECT_TRUE(client_->ListGraphs().ok());
  const IdleConnections idle(server_->grpc_address(), 2);
  EXPECT_TRUE(Eventually([&] { return Scraped("vicinal_connections 3"); }));
  EXPECT_FALSE(IsWelcome(server_->grpc_address()));
  const int other = ConnectFrom("127.0.0.2", server_->grpc_address());
  EXPECT_GT(FirstBytes(other), 0);
  close(other);
  EXPECT_TRUE(Scraped("vicinal_connections_refused_total{reason=\"address\"} 1"));
  EXPECT_EQ(Readiness(), "SERVING");
}

TEST_F(ConnectionsTest, SilentConnectionsAreClosed) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--handshake_timeout=2s"}));
  EXPECT_TRUE(client_->ListGraphs().ok());
  const IdleConnections idle(server_->grpc_address(), 5);
  EXPECT_TRUE(Eventually([&] { return Scraped("vicinal_connections 1"); }));
  EXPECT_TRUE(client_->ListGraphs().ok());
}

TEST_F(ConnectionsTest, AnAddressOnTheNetworkIsWarnedAbout) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--grpc_listen=0.0.0.0:0"}));
  EXPECT_TRUE(Logged("\"level\":\"warning\",\"message\":\"open to the network: anyone who reaches 0.0.0.0:0"))
      << server_->Log();
  EXPECT_TRUE(Scraped("vicinal_exposed 1"));
  auto told = client_->GetCapabilities();
  ASSERT_TRUE(told.ok()) << told.status();
  ASSERT_EQ(told->warnings_size(), 1);
  EXPECT_EQ(told->warnings(0).rfind("open to the network: ", 0), 0u);
  client_.reset();
  EXPECT_EQ(server_->Stop(), 0);
  server_.reset();
  ASSERT_NO_FATAL_FAILURE(StartServer());
  EXPECT_FALSE(Logged("open to the network"));
  told = client_->GetCapabilities();
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->warnings_size(), 0);
  EXPECT_TRUE(Scraped("vicinal_exposed 0"));
}

class EdgeTest : public ConnectionsTest {
 protected:
  std::string Principals() const {
    const std::string path = folder_ / "principals";
    std::ofstream(path) << "ops admin token:secret\nweb infer URI:spiffe://test/web\n";
    return path;
  }
  // The certificate of `web` as a proxy hands it over.
  std::string Der() const {
    const TestAuthority authority(folder_ / "authority");
    const CertificateFilesOf files = authority.Sign("web", "URI:spiffe://test/web");
    OutputOf(absl::StrCat("openssl x509 -in ", files.certificate, " -outform DER -out ", folder_ / "web.der"));
    std::ifstream file(folder_ / "web.der", std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return absl::Base64Escape(bytes.str());
  }
  // ListGraphs, or DeleteGraph, with metadata.
  grpc::Status CallWith(const std::string& target, const std::vector<std::pair<std::string, std::string>>& metadata,
                        bool deletes = false) {
    const auto stub = v1::GraphService::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
    if (deletes) {
      v1::DeleteGraphRequest request;
      request.set_name("none");
      v1::DeleteGraphResponse response;
      return stub->DeleteGraph(&context, request, &response);
    }
    v1::ListGraphsResponse response;
    return stub->ListGraphs(&context, v1::ListGraphsRequest(), &response);
  }
};

TEST_F(EdgeTest, OnlyAtTheSocketIsTheProxyBelieved) {
  const std::string path = folder_ / "edge.sock", socket = "unix:" + path;
  ASSERT_NO_FATAL_FAILURE(
      StartServer({"--edge_listen=" + path, "--principals_file=" + Principals(), "--log_level=debug"}, "secret"));
  const std::string der = Der();
  const std::pair<std::string, std::string> certificate = {"vicinal-edge-client-der", der};
  const std::pair<std::string, std::string> address = {"vicinal-edge-client-address", "192.0.2.7"};
  EXPECT_TRUE(CallWith(socket, {certificate, address}).ok());
  EXPECT_TRUE(Logged("\"principal\":\"web\",\"role\":\"infer\",\"peer\":\"192.0.2.7\"")) << server_->Log();
  EXPECT_EQ(CallWith(socket, {certificate, address}, true).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  // Forged over TCP, it is not read.
  EXPECT_EQ(CallWith(server_->grpc_address(), {certificate, address}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CallWith(socket, {address}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(CallWith(socket, {address, {"authorization", "Bearer secret"}}).ok());
  for (const std::string& bad : {std::string("x"), der.substr(0, der.size() / 2), der + "AAAA"}) {
    EXPECT_EQ(CallWith(socket, {{"vicinal-edge-client-der", bad}}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_TRUE(client_->ListGraphs().ok());
}

TEST_F(EdgeTest, OnlyListedUsersReachTheSocket) {
  const std::string path = folder_ / "edge.sock", socket = "unix:" + path;
  ASSERT_NO_FATAL_FAILURE(StartServer({"--edge_listen=" + path, absl::StrCat("--edge_uids=", getuid() + 1)}));
  EXPECT_EQ(CallWith(socket, {}).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(Scraped("vicinal_connections_refused_total{reason=\"peer\"} 0"));
  EXPECT_TRUE(client_->ListGraphs().ok());
}

// No address at all; connections of the proxy are not counted per address.
TEST_F(EdgeTest, TheSocketMayBeTheOnlyListener) {
  const std::string path = folder_ / "edge.sock";
  ASSERT_NO_FATAL_FAILURE(StartServer({"--grpc_listen=", "--edge_listen=" + path, "--max_connections_per_address=1"}));
  EXPECT_EQ(server_->grpc_address(), "unix:" + path);
  EXPECT_TRUE(client_->ListGraphs().ok());
  EXPECT_TRUE(NewClient()->ListGraphs().ok());
  EXPECT_TRUE(CallWith("unix:" + path, {}).ok());
}

}  // namespace
}  // namespace vicinal::testing
