// SPDX-License-Identifier: Apache-2.0
// Messages that arrive in part and then no further: what a server keeps of them is bounded, whoever sends them. Spoken
// in frames of HTTP/2, because a gRPC client sends its messages whole.
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/fixture.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::testing {
namespace {

constexpr size_t kHeaderBytes = 9;
constexpr uint8_t kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kWindowUpdate = 8;
constexpr uint8_t kAcknowledged = 1;
constexpr char kClassify[] = "InferenceService/Classify";
constexpr uint32_t kEnhanceYourCalm = 11;
constexpr size_t kWindow = 65'535, kFrame = 16'384;  // until the server allows more

std::string BigEndian(uint32_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
  return text;
}

uint32_t BigEndian(const std::string& text, size_t at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(text[at + i]);
  return value;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& body) {
  return BigEndian(static_cast<uint32_t>(body.size()), 3) + static_cast<char>(type) + static_cast<char>(flags) +
         BigEndian(stream, 4) + body;
}

// A header of HPACK that names no table.
std::string Literal(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
}

// All of a call that comes before its message.
std::string HeadersOfACall(const std::string& method) {
  constexpr uint8_t kEndHeaders = 4;
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, "") +
         Frame(kHeaders, kEndHeaders, 1,
               Literal(":method", "POST") + Literal(":scheme", "http") + Literal(":authority", "test") +
                   Literal(":path", "/vicinal.v1." + method) + Literal("content-type", "application/grpc") +
                   Literal("te", "trailers"));
}

// The first `bytes` of a message that is said to have so many.
std::string BeginningOfAMessage(size_t bytes, size_t said) {
  std::string message = std::string(1, '\0') + BigEndian(static_cast<uint32_t>(said), 4);
  message.resize(bytes);
  return message;
}

// A call of Classify whose message is said to have a mebibyte, and what a client may send of it unasked: 65,535 bytes.
std::string BeginningOfACall() {
  std::string bytes = HeadersOfACall(kClassify);
  const std::string message = BeginningOfAMessage(kWindow, 1 << 20);
  for (size_t begin = 0; begin < kWindow; begin += kFrame) bytes += Frame(kData, 0, 1, message.substr(begin, kFrame));
  return bytes;
}

// Whether what has arrived of the server's frames says that it broke the call off to keep its memory.
bool BrokenOff(const std::string& bytes) {
  for (size_t at = 0; at + kHeaderBytes <= bytes.size();) {
    const size_t length = BigEndian(bytes, at, 3);
    if (at + kHeaderBytes + length > bytes.size()) break;
    const auto type = static_cast<uint8_t>(bytes[at + 3]);
    if (type == kReset && BigEndian(bytes, at + kHeaderBytes, 4) == kEnhanceYourCalm) return true;
    at += kHeaderBytes + length;
  }
  return false;
}

// A client that sends half a message, as fast as the server allows, and then no more: not even answers to pings.
class HalfMessage {
 public:
  HalfMessage(const std::string& address, size_t bytes, size_t said, const std::string& method = kClassify)
      : socket_(Connect(address)) {
    if (!Send(HeadersOfACall(method))) return;
    const std::string message = BeginningOfAMessage(bytes, said);
    for (size_t sent = 0; sent < bytes && !reset_;) {
      const int64_t allowed = std::min({connection_, stream_, static_cast<int64_t>(kFrame)});
      if (allowed <= 0) {
        if (!Hear()) return;
        continue;
      }
      const std::string piece = message.substr(sent, static_cast<size_t>(allowed));
      if (!Send(Frame(kData, 0, 1, piece))) return;
      sent += piece.size();
      connection_ -= static_cast<int64_t>(piece.size());
      stream_ -= static_cast<int64_t>(piece.size());
    }
    sent_ = !reset_.has_value();
  }
  ~HalfMessage() { close(socket_); }
  HalfMessage(const HalfMessage&) = delete;
  HalfMessage& operator=(const HalfMessage&) = delete;

  // All of it has left; whether it arrived, TCP alone knows.
  bool sent() const { return sent_; }
  // Hears the server until it ends the call, or hangs up; how it ended it, as HTTP/2 has it.
  std::optional<uint32_t> AwaitEnd() {
    while (!reset_ && Hear()) {
    }
    return reset_;
  }

 private:
  bool Send(const std::string& bytes) {
    return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  // Waits for the server's next word; false when it hung up.
  bool Hear() {
    char buffer[4096];
    const ssize_t got = recv(socket_, buffer, sizeof(buffer), 0);
    if (got <= 0) return false;
    heard_.append(buffer, static_cast<size_t>(got));
    size_t at = 0;
    while (at + kHeaderBytes <= heard_.size()) {
      const size_t length = BigEndian(heard_, at, 3);
      if (at + kHeaderBytes + length > heard_.size()) break;
      Take(static_cast<uint8_t>(heard_[at + 3]), static_cast<uint8_t>(heard_[at + 4]), BigEndian(heard_, at + 5, 4),
           heard_.substr(at + kHeaderBytes, length));
      at += kHeaderBytes + length;
    }
    heard_.erase(0, at);
    return true;
  }
  void Take(uint8_t type, uint8_t flags, uint32_t stream, const std::string& body) {
    if (type == kWindowUpdate) (stream == 0 ? connection_ : stream_) += BigEndian(body, 0, 4);
    if (type == kReset && !reset_) reset_ = BigEndian(body, 0, 4);
    if (type != kSettings || (flags & kAcknowledged) != 0) return;
    constexpr uint32_t kInitialWindow = 4;
    for (size_t at = 0; at + 6 <= body.size(); at += 6) {
      if (BigEndian(body, at, 2) != kInitialWindow) continue;
      const int64_t window = BigEndian(body, at + 2, 4);
      stream_ += window - initial_;
      initial_ = window;
    }
    Send(Frame(kSettings, kAcknowledged, 0, ""));
  }

  const int socket_;
  std::string heard_;
  int64_t connection_ = kWindow, stream_ = kWindow, initial_ = kWindow;  // what may be sent
  std::optional<uint32_t> reset_;
  bool sent_ = false;
};

class ArrivingTest : public IntegrationTest {
 protected:
  // Waits until the server has broken off one of the calls, or hung up on its connection.
  static void AwaitOneBrokenOff(const std::vector<int>& sockets) {
    std::vector<std::string> heard(sockets.size());
    std::vector<pollfd> waits;
    for (const int socket : sockets) waits.push_back({socket, POLLIN, 0});
    for (;;) {
      ASSERT_GT(poll(waits.data(), waits.size(), -1), 0);
      for (size_t i = 0; i < waits.size(); ++i) {
        if (waits[i].revents == 0) continue;
        char buffer[4096];
        const ssize_t got = recv(sockets[i], buffer, sizeof(buffer), MSG_DONTWAIT);
        if (got <= 0) return;
        heard[i].append(buffer, static_cast<size_t>(got));
        if (BrokenOff(heard[i])) return;
      }
    }
  }
};

TEST_F(ArrivingTest, HalfMessagesTakeNoMoreThanTheyMay) {
  // Without the timeouts, only memory is a reason to hang up.
  ASSERT_NO_FATAL_FAILURE(
      StartServer({"--max_chunk_bytes=1MiB", "--max_message_bytes=1056768", "--max_arriving_bytes=4227072",
                   "--keepalive_time=1h", "--handshake_timeout=1h"}));
  UploadTinyGraph();
  UploadTinyModel();
  const std::string call = BeginningOfACall();
  std::vector<int> sockets;
  for (int i = 0; i < 100; ++i) {  // 6.5 MB
    sockets.push_back(Connect(server_->grpc_address()));
    ASSERT_GE(sockets.back(), 0);
    send(sockets.back(), call.data(), call.size(), MSG_NOSIGNAL);  // fails where it is hung up on already
  }
  ASSERT_NO_FATAL_FAILURE(AwaitOneBrokenOff(sockets));
  for (const int socket : sockets) close(socket);
  // gRPC may send new connections away until it has noticed that the others are closed.
  client_ = NewClient("", client::kDefaultServiceConfig);
  ExpectServes();
}

// As many as the defaults are made for: of messages up to 8 MiB four may be arriving.
TEST_F(ArrivingTest, AFewThatStopDisturbNobody) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--memory_budget_bytes=256MiB"}));
  UploadTinyGraph();
  UploadTinyModel();
  constexpr size_t kBytes = 7 << 20;
  std::vector<std::unique_ptr<HalfMessage>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(std::make_unique<HalfMessage>(server_->grpc_address(), kBytes, kBytes + 1000));
    EXPECT_TRUE(silent.back()->sent());
  }
  client_ = NewClient();
  v1::ClassifyRequest request = TinyRequest();
  *request.mutable_features()->mutable_dense() = Floats("x", {5, 3}, std::vector<float>(kBytes / 4)).message();
  for (int i = 0; i < 4; ++i) {
    ExpectError(client_->Classify(request).status(), absl::StatusCode::kInvalidArgument, "TENSOR_SIZE_MISMATCH");
    ExpectServes();
  }
}

// However much a message is said to have: gRPC itself lets all of it in.
TEST_F(ArrivingTest, NoMessageIsTooLargeToBeBrokenOff) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--memory_budget_bytes=256MiB"}));
  UploadTinyGraph();
  UploadTinyModel();
  EXPECT_EQ(HalfMessage(server_->grpc_address(), 40 << 20, 1 << 30).AwaitEnd(), kEnhanceYourCalm);
  client_ = NewClient();
  ExpectServes();
}

TEST_F(ArrivingTest, WhoStopsForGoodIsHungUpOn) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--keepalive_time=1s"}));
  UploadTinyGraph();
  UploadTinyModel();
  HalfMessage half(server_->grpc_address(), 1 << 20, 2 << 20);
  ASSERT_TRUE(half.sent());
  half.AwaitEnd();
  ExpectServes();
}

// Even where the connection lives: no pings here.
TEST_F(ArrivingTest, AnUploadThatStopsIsEnded) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--upload_ttl=1s"}));
  HalfMessage half(server_->grpc_address(), 1 << 20, 2 << 20, "GraphService/UploadGraph");
  ASSERT_TRUE(half.sent());
  constexpr uint32_t kNoError = 0;  // after the status
  EXPECT_EQ(half.AwaitEnd(), kNoError);
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
}

// What has come of a message is no message: the time for the next one goes on, as docs/operations.md says.
TEST_F(ArrivingTest, AStreamThatStopsInAMessageIsEnded) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--upload_ttl=1s"}));
  HalfMessage half(server_->grpc_address(), 1 << 20, 2 << 20, "InferenceService/InferStream");
  ASSERT_TRUE(half.sent());
  constexpr uint32_t kNoError = 0;  // after the status
  EXPECT_EQ(half.AwaitEnd(), kNoError);
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_NE(page->find("vicinal_streams_total{code=\"DEADLINE_EXCEEDED\",method=\"vicinal.v1.InferenceService/"
                       "InferStream\"} 1"),
            std::string::npos);
}

// A few bytes would become gigabytes before anything looks at them.
TEST_F(ArrivingTest, PackedMessagesAreRefused) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  UploadTinyGraph();
  UploadTinyModel();
  const auto stub =
      v1::InferenceService::NewStub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  for (const grpc_compression_algorithm packed : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    v1::ClassifyRequest request = TinyRequest();
    *request.mutable_features()->mutable_dense() = Floats("x", {5, 3}, std::vector<float>(1 << 20)).message();
    v1::ClassifyResponse response;
    grpc::ClientContext context;
    context.set_compression_algorithm(packed);
    const grpc::Status status = stub->Classify(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
    EXPECT_NE(status.error_message().find("is disabled"), std::string::npos) << status.error_message();
  }
  ExpectServes();
}

TEST_F(ArrivingTest, TheLeastBudgetServes) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--memory_budget_bytes=1MiB"}));
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
}

// What has arrived counts against the budget, as long as its call lives.
TEST_F(ArrivingTest, MessagesCountAgainstTheBudget) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--memory_budget_bytes=1500000"}));
  UploadTinyGraph();
  UploadTinyModel();
  v1::ClassifyRequest request = TinyRequest();
  *request.mutable_features()->mutable_dense() = Floats("x", {5, 3}, std::vector<float>(500'000)).message();
  ExpectError(client_->Classify(request).status(), absl::StatusCode::kFailedPrecondition, "the call's message needs");
  const auto none = [](const v1::ClassifyResponse&) { return absl::OkStatus(); };
  ExpectError(client_->ClassifyStream(request, none), absl::StatusCode::kFailedPrecondition, "OVER_BUDGET");
  *request.mutable_features()->mutable_dense() = Floats("x", {5, 3}, std::vector<float>(100'000)).message();
  // 8 MB in all: each counts while its call lives, which is a little longer than the client waits for it.
  for (int i = 0; i < 20; ++i) {
    absl::Status status;
    do {
      status = client_->Classify(request).status();
    } while (status.code() == absl::StatusCode::kResourceExhausted);
    ExpectError(status, absl::StatusCode::kInvalidArgument, "TENSOR_SIZE_MISMATCH");
  }
  ExpectServes();
}

}  // namespace
}  // namespace vicinal::testing
