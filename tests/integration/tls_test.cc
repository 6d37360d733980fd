// SPDX-License-Identifier: Apache-2.0
// TLS over real sockets: who gets in, with which role, what is refused and how that reads; exchange of certificates and
// tokens while clients call; the health service in plain text.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/integration/certificates.h"
#include "tests/integration/fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {
namespace {

const std::string kTlsServer = std::string(VICINAL_BIN_DIR) + "/vicinal-server";

std::string ReadFileAt(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The code of a call with an empty message.
grpc::StatusCode CallUnary(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  grpc::ByteBuffer reply;
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  const grpc::Slice nothing("");
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&nothing, 1), &queue);
  call->StartCall();
  call->Finish(&reply, &status, &tag);
  queue.Next(&tag, &ok);
  return status.error_code();
}

class TlsTest : public IntegrationTest {
 protected:
  static void SetUpTestSuite() {
    made_ = new TemporaryDirectory;
    authority_ = new TestAuthority(*made_ / "authority");
    stranger_ = new TestAuthority(*made_ / "stranger");
    server_pem_ = authority_->Sign("server", "DNS:localhost,IP:127.0.0.1");
    ops_ = authority_->Sign("ops", "URI:spiffe://test/ops");
    web_ = authority_->Sign("web", "DNS:Web.Example.com");
    nobody_ = authority_->Sign("nobody", "DNS:nobody.example.com");
    expired_ = authority_->Sign("expired", "URI:spiffe://test/ops", -1);
    forged_ = stranger_->Sign("forged", "URI:spiffe://test/ops");
  }
  static void TearDownTestSuite() {
    delete authority_;
    delete stranger_;
    delete made_;
  }

  TlsTest() {
    folder_ = *made_ / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
    return path;
  }
  static std::vector<std::string> TlsFlags(const CertificateFilesOf& files) {
    return {"--tls_cert_file=" + files.certificate, "--tls_key_file=" + files.key};
  }
  std::vector<std::string> MutualFlags() const {
    std::vector<std::string> flags = TlsFlags(server_pem_);
    flags.push_back("--tls_client_ca_file=" + authority_->certificate());
    flags.push_back("--principals_file=" + Write("principals",
                                                 "# name role credential\n"
                                                 "ops admin URI:spiffe://test/ops\n"
                                                 "web infer DNS:web.example.COM\n"
                                                 "web infer token:first-secret\n"
                                                 "web infer token:second-secret\n"));
    return flags;
  }
  // A client that trusts `authority`, and has a certificate unless `files` is null.
  std::unique_ptr<client::Client> Dial(const CertificateFilesOf* files, const std::string& token = "",
                                       const TestAuthority* authority = authority_,
                                       const std::string& server_name = "") const {
    client::ClientOptions options;
    options.target = server_->grpc_address();
    options.token = token;
    options.service_config = "";
    options.tls.enabled = true;
    options.tls.authorities = ReadFileAt(authority->certificate());
    options.tls.server_name = server_name;
    if (files != nullptr) {
      options.tls.certificate = ReadFileAt(files->certificate);
      options.tls.key = ReadFileAt(files->key);
    }
    auto client = client::Client::Connect(options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  // Calls until the log has `text`: the server looks at files every few seconds.
  void CallUntilLogged(client::Client& client, const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (server_->Log().find(text) == std::string::npos && std::chrono::steady_clock::now() < end) {
      ASSERT_TRUE(client.ListGraphs().ok());
    }
    ASSERT_NE(server_->Log().find(text), std::string::npos) << server_->Log();
  }

  static inline TemporaryDirectory* made_ = nullptr;
  static inline TestAuthority* authority_ = nullptr;
  static inline TestAuthority* stranger_ = nullptr;
  static inline CertificateFilesOf server_pem_, ops_, web_, nobody_, expired_, forged_;
  std::string folder_;
};

TEST_F(TlsTest, ServesOverTlsOnly) {
  ASSERT_NO_FATAL_FAILURE(StartServer(TlsFlags(server_pem_)));
  client_ = Dial(nullptr);
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
  ExpectError(NewClient()->ListGraphs().status(), absl::StatusCode::kUnavailable, "does it use TLS");
  ExpectError(Dial(nullptr, "", stranger_)->ListGraphs().status(), absl::StatusCode::kUnavailable,
              "not signed by an authority that this client trusts");
  ExpectError(Dial(nullptr, "", authority_, "other.example.com")->ListGraphs().status(), absl::StatusCode::kUnavailable,
              "the server's certificate is for other names");
  ExpectServes();
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find("\nvicinal_certificate_expiry_timestamp_seconds 1"), std::string::npos) << *page;
}

TEST_F(TlsTest, CertificatesAndTokensHaveRoles) {
  ASSERT_NO_FATAL_FAILURE(StartServer(MutualFlags()));
  client_ = Dial(&ops_);
  UploadTinyGraph();
  UploadTinyModel();
  const auto web = Dial(&web_);
  EXPECT_TRUE(web->Classify(TinyRequest()).ok());
  ExpectError(web->DeleteGraph("path"), absl::StatusCode::kPermissionDenied, "'web' has the role infer");
  const auto nobody = Dial(&nobody_);
  ExpectError(nobody->ListGraphs().status(), absl::StatusCode::kUnauthenticated, "DNS:nobody.example.com");
  ExpectError(nobody->ListGraphs().status(), absl::StatusCode::kUnauthenticated, "CERTIFICATE_UNKNOWN");
  // A token decides where one is sent; two of one name are valid together.
  for (const char* token : {"first-secret", "second-secret"}) {
    EXPECT_TRUE(Dial(&nobody_, token)->ListGraphs().ok());
    ExpectError(Dial(&ops_, token)->DeleteGraph("path"), absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW");
  }
  ExpectError(Dial(&ops_, "third-secret")->ListGraphs().status(), absl::StatusCode::kUnauthenticated, "TOKEN_UNKNOWN");
  EXPECT_TRUE(client_->DeleteGraph("path").ok());
  const std::string log = server_->Log();
  EXPECT_NE(log.find("\"principal\":\"ops\",\"role\":\"admin\""), std::string::npos) << log;
  EXPECT_NE(log.find("\"principal\":\"web\",\"role\":\"infer\""), std::string::npos) << log;
}

TEST_F(TlsTest, WithoutAGoodCertificateNobodyConnects) {
  std::vector<std::string> flags = MutualFlags();
  flags.push_back("--log_level=debug");
  ASSERT_NO_FATAL_FAILURE(StartServer(flags));
  ExpectError(Dial(nullptr)->ListGraphs().status(), absl::StatusCode::kUnavailable, "want a client certificate");
  ExpectError(Dial(&forged_)->ListGraphs().status(), absl::StatusCode::kUnavailable, "cannot reach the server");
  // Our library sends no expired certificate, so gRPC's own client does.
  const auto channel = grpc::CreateChannel(
      server_->grpc_address(), grpc::SslCredentials({ReadFileAt(authority_->certificate()), ReadFileAt(expired_.key),
                                                     ReadFileAt(expired_.certificate)}));
  EXPECT_FALSE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(2)));
  for (const char* reason : {"peer did not return a certificate", "certificate verify failed"}) {
    EXPECT_TRUE(Eventually([&] { return server_->Log().find(reason) != std::string::npos; })) << reason << "\n"
                                                                                              << server_->Log();
  }
  EXPECT_TRUE(Dial(&ops_)->ListGraphs().ok());
}

TEST_F(TlsTest, OldVersionsOfTlsAreRefused) {
  ASSERT_NO_FATAL_FAILURE(StartServer(TlsFlags(server_pem_)));
  const auto handshake = [this](const std::string& version) {
    return OutputOf(absl::StrCat("timeout 20 openssl s_client -connect ", server_->grpc_address(), " -CAfile ",
                                 authority_->certificate(), " -alpn h2 -cipher DEFAULT@SECLEVEL=0 ", version));
  };
  for (const char* old : {"-tls1", "-tls1_1"}) {
    const std::string refused = handshake(old);
    EXPECT_NE(refused.find("no peer certificate available"), std::string::npos) << refused;
    EXPECT_NE(refused.find("error:"), std::string::npos) << refused;
  }
  for (const char* recent : {"-tls1_2", "-tls1_3"}) {
    const std::string made = handshake(recent);
    EXPECT_NE(made.find("Verification: OK"), std::string::npos) << made;
    EXPECT_NE(made.find("ALPN protocol: h2"), std::string::npos) << made;
  }
}

TEST_F(TlsTest, ABadSetOfFilesIsNamedAtTheStart) {
  const std::string chain = "--tls_cert_file=" + server_pem_.certificate, key = "--tls_key_file=" + server_pem_.key;
  const std::string encrypted = folder_ + "/encrypted.key";
  OutputOf(absl::StrCat("openssl pkey -in ", server_pem_.key, " -aes128 -passout pass:x -out ", encrypted));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{chain, "--tls_key_file=" + web_.key}, "is not the private key of the first certificate"},
      {TlsFlags(expired_), "the certificate of CN = expired expired on"},
      {{chain}, "--tls_key_file: TLS needs both"},
      {{chain, "--tls_key_file=" + encrypted}, "the private key is encrypted"},
      {{chain, "--tls_key_file=" + server_pem_.certificate}, "contains no private key"},
      {{"--tls_cert_file=" + server_pem_.key, key}, "contains no certificate"},
      {{"--tls_cert_file=" + Write("half", ReadFileAt(server_pem_.certificate).substr(0, 300)), key}, "does not parse"},
      {{"--tls_cert_file=/dev/zero", key}, "/dev/zero: is not a regular file"},
      {{chain, key, "--tls_client_ca_file=" + Write("none", "")}, "contains no certificate"},
      {{"--tls_client_ca_file=" + authority_->certificate()}, "needs --tls_cert_file and --tls_key_file"},
      {{chain, key, "--principals_file=" + Write("named", "ops admin DNS:a\n")}, "needs --tls_client_ca_file"},
      {{"--principals_file=" + Write("lines", "ops admin token:a\nweb infer secret\n")}, "line 2: the credential must"},
      {{"--principals_file=" + Write("nobody", "web infer token:a\n")}, "no one has the admin role"},
      {{"--principals_file=" + Write("twice", "a admin token:x\nb infer token:x\n")}, "is also listed for 'a'"},
      {{chain, key, "--handshake_timeout=1ms"}, "handshake_timeout"},
  };
  for (const auto& [flags, piece] : cases) {
    std::vector<std::string> all = {"--grpc_listen=127.0.0.1:0", "--metrics_listen="};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = RunToEnd(kTlsServer, all);
    EXPECT_EQ(outcome.code, 2) << flags.back() << ": " << outcome.output;
    EXPECT_NE(outcome.output.find(piece), std::string::npos) << piece << ": " << outcome.output;
    EXPECT_EQ(outcome.output.find("secret"), std::string::npos) << outcome.output;
  }
}

// New connections and calls on old ones, all the time.
class Load {
 public:
  // `dial` makes a client; called by several threads.
  explicit Load(std::function<std::unique_ptr<client::Client>()> dial) : dial_(std::move(dial)) {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~Load() { Stop(); }
  void Stop() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  int64_t calls() const { return calls_.load(); }
  int64_t failed() const { return failed_.load(); }

 private:
  void Run() {
    const auto old = dial_();
    while (!stop_.load()) {
      const auto fresh = dial_();
      for (client::Client* client : {old.get(), fresh.get()}) {
        const auto reply = client->ListGraphs();
        calls_.fetch_add(1);
        if (reply.ok()) continue;
        failed_.fetch_add(1);
        ADD_FAILURE() << reply.status();
      }
    }
  }

  const std::function<std::unique_ptr<client::Client>()> dial_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> calls_{0}, failed_{0};
  std::vector<std::thread> threads_;
};

TEST_F(TlsTest, CertificatesAreExchangedWhileClientsCall) {
  const CertificateFilesOf live = {folder_ + "/tls.crt", folder_ + "/tls.key"};
  const auto publish = [&](const CertificateFilesOf& files) {
    Write("tls.key", ReadFileAt(files.key));
    Write("tls.crt", ReadFileAt(files.certificate));
  };
  publish(server_pem_);
  std::vector<std::string> flags = TlsFlags(live);
  const std::string authorities = Write("clients.pem", ReadFileAt(authority_->certificate()));
  flags.insert(flags.end(), {"--tls_client_ca_file=" + authorities});
  ASSERT_NO_FATAL_FAILURE(StartServer(flags));
  client_ = Dial(&ops_);
  const auto serial = [this] {
    const std::string shown =
        OutputOf(absl::StrCat("openssl s_client -connect ", server_->grpc_address(), " -cert ", ops_.certificate,
                              " -key ", ops_.key, " | openssl x509 -noout -serial"));
    const size_t begin = shown.find("serial=");
    return begin == std::string::npos ? shown : shown.substr(begin, shown.find('\n', begin) - begin);
  };
  const std::string before = serial();
  Load load([this] { return Dial(&ops_); });
  // A key that is not the certificate's changes nothing.
  Write("tls.key", ReadFileAt(web_.key));
  CallUntilLogged(*client_, "certificates not read again; the old ones stay valid");
  EXPECT_EQ(serial(), before);
  publish(authority_->Sign("second", "DNS:localhost,IP:127.0.0.1"));
  CallUntilLogged(*client_, "certificates replaced");
  // gRPC looks every second.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (serial() == before && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_NE(serial(), before);
  // From now on the stranger's clients are welcome, too.
  Write("clients.pem", ReadFileAt(authority_->certificate()) + ReadFileAt(stranger_->certificate()));
  const auto forged = [this] { return Dial(&forged_)->ListGraphs().ok(); };
  while (!forged() && std::chrono::steady_clock::now() < end + std::chrono::seconds(30)) {
  }
  EXPECT_TRUE(forged());
  load.Stop();
  EXPECT_GT(load.calls(), 10);
  EXPECT_EQ(load.failed(), 0);
}

TEST_F(TlsTest, TokensAreExchangedWhileClientsCall) {
  const auto listed = [](const std::string& secrets) {
    std::string text = "ops admin token:other\n";
    std::istringstream words(secrets);
    for (std::string word; words >> word;) absl::StrAppend(&text, "web infer token:", word, "\n");
    return text;
  };
  ASSERT_NO_FATAL_FAILURE(StartServer({"--principals_file=" + Write("principals", listed("old new"))}, "old"));
  std::atomic<bool> changed{false};
  {
    // Clients change from one to the other at their own pace: both are valid.
    Load load([&] { return NewClient(changed.load() ? "new" : "old"); });
    while (load.calls() < 20) {
    }
    changed.store(true);
    load.Stop();
    EXPECT_EQ(load.failed(), 0);
  }
  client_ = NewClient("new");
  {
    Load load([&] { return NewClient("new"); });
    Write("principals", listed("new newest"));
    CallUntilLogged(*client_, "principals replaced");
    load.Stop();
    EXPECT_EQ(load.failed(), 0);
  }
  ExpectError(NewClient("old")->ListGraphs().status(), absl::StatusCode::kUnauthenticated, "TOKEN_UNKNOWN");
  EXPECT_TRUE(NewClient("newest")->ListGraphs().ok());
  EXPECT_EQ(server_->Log().find("newest"), std::string::npos);
}

TEST_F(TlsTest, ProbesNeedNoTls) {
  std::vector<std::string> flags = MutualFlags();
  flags.push_back("--health_listen=127.0.0.1:0");
  ASSERT_NO_FATAL_FAILURE(StartServer(flags));
  ASSERT_FALSE(server_->health_address().empty());
  client::ClientOptions options;
  options.target = server_->health_address();
  options.service_config = "";
  const auto probe = client::Client::Connect(options);
  ASSERT_TRUE(probe.ok());
  for (const char* name : {"", "liveness", "readiness", "vicinal.v1.InferenceService"}) {
    const auto health = (*probe)->CheckHealth(name);
    ASSERT_TRUE(health.ok()) << health.status();
    EXPECT_EQ(*health, "SERVING") << name;
  }
  // Nothing else is served there, reflection included.
  EXPECT_EQ((*probe)->ListGraphs().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ((*probe)->GetCapabilities().status().code(), absl::StatusCode::kUnimplemented);
  const auto reflection = grpc::CreateChannel(options.target, grpc::InsecureChannelCredentials());
  EXPECT_EQ(CallUnary(reflection, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
            grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace vicinal::testing
