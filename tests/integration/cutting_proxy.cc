// SPDX-License-Identifier: Apache-2.0
// One thread and poll.
#include "tests/integration/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "tests/integration/server_process.h"

namespace vicinal::testing {

CuttingProxy::CuttingProxy(std::string target, int64_t after_bytes, int cuts, Cut how)
    : target_(std::move(target)), after_bytes_(after_bytes), cuts_(cuts), how_(how) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, generic, length) != 0 || listen(listener_, 16) != 0 ||
      getsockname(listener_, generic, &length) != 0 || pipe(stop_) != 0) {
    return;  // nobody listens at the empty address, and the test fails
  }
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  thread_ = std::thread([this] { Loop(); });
}

CuttingProxy::~CuttingProxy() {
  close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  for (const Pair& pair : pairs_) close(pair.client), close(pair.server);
  close(stop_[0]);
  close(listener_);
}

bool CuttingProxy::Pass(int from, int to, int64_t* count) {
  char buffer[16384];
  const ssize_t got = recv(from, buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  *count += got;
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t n = send(to, buffer + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += n;
  }
  return true;
}

bool CuttingProxy::Serve(Pair* pair, bool from_client, bool from_server) {
  int64_t received = 0;
  if (from_server && !Pass(pair->server, pair->client, &received)) return false;
  if (!from_client) return true;
  if (!Pass(pair->client, pair->server, &pair->sent)) return false;
  if (pair->sent <= after_bytes_ || cuts_.load() <= 0) return true;
  cuts_.fetch_sub(1);
  pair->stalled = how_ == Cut::kStall;
  return pair->stalled;
}

void CuttingProxy::Loop() {
  while (true) {
    std::vector<pollfd> waits = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      // poll passes over descriptors below 0.
      waits.push_back({pair.stalled ? -1 : pair.client, POLLIN, 0});
      waits.push_back({pair.stalled ? -1 : pair.server, POLLIN, 0});
    }
    poll(waits.data(), waits.size(), -1);
    if (waits[0].revents != 0) return;
    std::vector<Pair> kept;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      if (Serve(&pairs_[i], waits[2 + 2 * i].revents != 0, waits[3 + 2 * i].revents != 0)) {
        kept.push_back(pairs_[i]);
      } else {
        close(pairs_[i].client), close(pairs_[i].server);
      }
    }
    if (waits[1].revents != 0) kept.push_back({accept(listener_, nullptr, nullptr), Connect(target_), 0});
    pairs_ = std::move(kept);
  }
}

}  // namespace vicinal::testing
