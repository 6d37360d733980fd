// SPDX-License-Identifier: Apache-2.0
// A listener like the HTTP library's, but that its poll never returns by itself: who is not woken hangs.
#include "server/metrics/wake.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace vicinal::server {
namespace {

// A port of the loopback that is listened at, by the address family's own words.
class Port {
 public:
  explicit Port(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage storage = {};
    socklen_t size = sizeof(sockaddr_in);
    storage.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) {
      size = sizeof(sockaddr_in6);
      reinterpret_cast<sockaddr_in6*>(&storage)->sin6_addr = in6addr_loopback;
    } else {
      reinterpret_cast<sockaddr_in*>(&storage)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    listens_ =
        fd_ >= 0 && bind(fd_, address, size) == 0 && listen(fd_, 16) == 0 && getsockname(fd_, address, &size) == 0;
    // At the same place for both families.
    number_ = ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  }
  ~Port() { Close(); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  bool listens() const { return listens_; }
  int number() const { return number_; }
  int fd() const { return fd_; }

 private:
  int fd_;
  bool listens_ = false;
  int number_ = 0;
};

// Takes connections until the flag is set, which it looks at between two polls.
class Listener {
 public:
  explicit Listener(const Port& port) : thread_([this, fd = port.fd()] { Loop(fd); }) {}
  void Stop() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Loop(int fd) {
    while (!stop_) {
      pollfd wanted = {fd, POLLIN, 0};
      if (poll(&wanted, 1, -1) <= 0) continue;
      const int taken = accept(fd, nullptr, nullptr);
      if (taken >= 0) close(taken);
    }
  }

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void ExpectToStop(int family, const std::string& host) {
  const Port port(family);
  if (!port.listens()) GTEST_SKIP() << "no such addresses here";
  Listener listener(port);
  int stops = 0;
  StopWoken(host, port.number(), [&] {
    listener.Stop();
    ++stops;
  });
  EXPECT_EQ(stops, 1);
}

TEST(StopWokenTest, WakesAListener) { ExpectToStop(AF_INET, "127.0.0.1"); }
TEST(StopWokenTest, WakesAListenerAtAnyAddress) { ExpectToStop(AF_INET, "0.0.0.0"); }
TEST(StopWokenTest, WakesAListenerOfVersionSix) { ExpectToStop(AF_INET6, "[::1]"); }

TEST(StopWokenTest, StopsWhereNobodyCanBeWoken) {
  Port closed(AF_INET);
  closed.Close();
  for (const char* host : {"127.0.0.1", "no address", "", "["}) {
    int stops = 0;
    StopWoken(host, closed.number(), [&] { ++stops; });
    EXPECT_EQ(stops, 1) << host;
  }
}

}  // namespace
}  // namespace vicinal::server
