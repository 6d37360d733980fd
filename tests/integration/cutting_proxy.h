// SPDX-License-Identifier: Apache-2.0
// A road to a server that breaks: forwards bytes both ways, and cuts connections whose client has sent so many.
#ifndef VICINAL_TESTS_INTEGRATION_CUTTING_PROXY_H_
#define VICINAL_TESTS_INTEGRATION_CUTTING_PROXY_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace vicinal::testing {

class CuttingProxy {
 public:
  enum class Cut { kClose, kStall };  // a stalled connection stays, and nothing passes any more
  // Forwards to HOST:PORT. The first `cuts` connections that send more than `after_bytes` are cut there.
  CuttingProxy(std::string target, int64_t after_bytes, int cuts, Cut how = Cut::kClose);
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  // HOST:PORT where it listens.
  const std::string& address() const { return address_; }
  int cuts_left() const { return cuts_.load(); }

 private:
  struct Pair {
    int client = -1, server = -1;
    int64_t sent = 0;  // by the client
    bool stalled = false;
  };

  void Loop();
  // Passes on what has come; false where the connection ends.
  static bool Pass(int from, int to, int64_t* count);
  bool Serve(Pair* pair, bool from_client, bool from_server);

  const std::string target_;
  const int64_t after_bytes_;
  std::atomic<int> cuts_;
  const Cut how_;
  std::string address_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};  // a pipe
  std::vector<Pair> pairs_;
  std::thread thread_;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_CUTTING_PROXY_H_
