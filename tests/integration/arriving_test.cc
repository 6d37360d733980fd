// SPDX-License-Identifier: Apache-2.0
// Messages that arrive in part and then no further: what a server keeps of them is bounded, whoever sends them. Spoken
// in frames of HTTP/2, because a gRPC client sends its messages whole.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

constexpr size_t kHeaderBytes = 9;
constexpr uint8_t kData = 0, kHeaders = 1, kReset = 3, kSettings = 4;
constexpr uint32_t kEnhanceYourCalm = 11;

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

// A call of Classify whose message is said to have a mebibyte, and what a client may send of it unasked: 65,535 bytes.
std::string BeginningOfACall() {
  constexpr uint8_t kEndHeaders = 4;
  constexpr size_t kWindow = 65'535, kFrame = 16'384;
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, "");
  bytes += Frame(kHeaders, kEndHeaders, 1,
                 Literal(":method", "POST") + Literal(":scheme", "http") + Literal(":authority", "test") +
                     Literal(":path", "/vicinal.v1.InferenceService/Classify") +
                     Literal("content-type", "application/grpc") + Literal("te", "trailers"));
  std::string message = std::string(1, '\0') + BigEndian(1 << 20, 4);
  message.resize(kWindow);
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

class ArrivingTest : public IntegrationTest {
 protected:
  // Waits until the server has broken off one of the calls; false when it only closed connections.
  static bool OneIsBrokenOff(const std::vector<int>& sockets) {
    std::vector<std::string> heard(sockets.size());
    std::vector<pollfd> waits;
    for (const int socket : sockets) waits.push_back({socket, POLLIN, 0});
    for (size_t open = sockets.size(); open > 0;) {
      EXPECT_GT(poll(waits.data(), waits.size(), -1), 0);
      for (size_t i = 0; i < waits.size(); ++i) {
        if (waits[i].fd < 0 || waits[i].revents == 0) continue;
        char buffer[4096];
        const ssize_t got = recv(sockets[i], buffer, sizeof(buffer), MSG_DONTWAIT);
        if (got > 0) {
          heard[i].append(buffer, static_cast<size_t>(got));
          if (BrokenOff(heard[i])) return true;
        } else {
          waits[i].fd = -1;
          --open;
        }
      }
    }
    return false;
  }
};

TEST_F(ArrivingTest, HalfMessagesTakeNoMoreThanTheyMay) {
  ASSERT_NO_FATAL_FAILURE(
      StartServer({"--max_chunk_bytes=1MiB", "--max_message_bytes=1056768", "--max_arriving_bytes=2113536"}));
  UploadTinyGraph();
  UploadTinyModel();
  const std::string call = BeginningOfACall();
  std::vector<int> sockets;
  for (int i = 0; i < 100; ++i) {  // 6.5 MB
    sockets.push_back(Connect(server_->grpc_address()));
    ASSERT_GE(sockets.back(), 0);
    send(sockets.back(), call.data(), call.size(), MSG_NOSIGNAL);  // fails where it is hung up on already
  }
  EXPECT_TRUE(OneIsBrokenOff(sockets));
  for (const int socket : sockets) close(socket);
  client_ = NewClient();
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
