// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/wake.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "engine/base/mutex.h"

namespace vicinal::server {
namespace {

// From one connection to the next, and for one to be made, which takes microseconds within a machine.
constexpr std::chrono::milliseconds kBetween{5};

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;  // 0: none
};

Address AddressOf(const std::string& host, int port) {
  Address address;
  if (host.size() > 2 && host.front() == '[') {
    auto* six = reinterpret_cast<sockaddr_in6*>(&address.storage);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<uint16_t>(port));
    const std::string bare = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, bare.c_str(), &six->sin6_addr) == 1) address.size = sizeof(*six);
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&address.storage);
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<uint16_t>(port));
    if (inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) address.size = sizeof(*four);
  }
  return address;
}

// Never waits for longer than kBetween, whatever is the matter with the address.
void Knock(const Address& address) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) {
    // Closed before it is made, it would wake nobody.
    pollfd made = {fd, POLLOUT, 0};
    (void)poll(&made, 1, static_cast<int>(kBetween.count()));
  }
  close(fd);
}

class Knocker {
 public:
  explicit Knocker(const Address& address) : thread_([this, address] { Loop(address); }) {}
  ~Knocker() {
    {
      MutexLock lock(&mutex_);
      done_ = true;
    }
    changed_.NotifyOne();
    thread_.join();
  }

 private:
  void Loop(const Address& address) {
    MutexLock lock(&mutex_);
    while (!done_) {
      Knock(address);
      changed_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + kBetween);
    }
  }

  Mutex mutex_;
  CondVar changed_;
  bool done_ VICINAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

void StopWoken(const std::string& host, int port, const std::function<void()>& stop) {
  const Address address = AddressOf(host, port);
  if (address.size == 0) return stop();
  const Knocker knocker(address);
  stop();
}

}  // namespace vicinal::server
