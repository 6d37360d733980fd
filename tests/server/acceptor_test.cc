// SPDX-License-Identifier: Apache-2.0
// The acceptor by itself, over real sockets: who is taken, who is refused, and when it says that it is full. Whoever
// takes a connection here ends it as gRPC does, with a shutdown before the close.
#include "server/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/mutex.h"
#include "server/listen.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::server {
namespace {

using testing::Eventually;
using testing::kPatience;

// Connections as gRPC would hold them.
class Taken {
 public:
  ~Taken() { EndAll(); }
  void Take(int fd) {
    MutexLock lock(&mutex_);
    fds_.push_back(fd);
  }
  int64_t count() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(fds_.size());
  }
  void EndOne() {
    MutexLock lock(&mutex_);
    End(fds_.back());
    fds_.pop_back();
  }
  void EndAll() {
    while (count() > 0) EndOne();
  }

 private:
  static void End(int fd) {
    shutdown(fd, SHUT_RDWR);
    close(fd);
  }
  mutable Mutex mutex_;
  std::vector<int> fds_ VICINAL_GUARDED_BY(mutex_);
};

class Peer {
 public:
  explicit Peer(int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) : fd_(fd) {}
  ~Peer() { close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Connect(int port, const char* from = "127.0.0.1") const {
    sockaddr_in source = {}, target = {};
    source.sin_family = target.sin_family = AF_INET;
    inet_pton(AF_INET, from, &source.sin_addr);
    inet_pton(AF_INET, "127.0.0.1", &target.sin_addr);
    target.sin_port = htons(static_cast<uint16_t>(port));
    ASSERT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&source), sizeof(source)), 0);
    ASSERT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&target), sizeof(target)), 0);
  }
  // As the server sees it.
  std::string Name() const {
    sockaddr_in here = {};
    socklen_t size = sizeof(here);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &size), 0);
    char host[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &here.sin_addr, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(here.sin_port));
  }
  bool IsSentAwayNow() const {
    char byte = 0;
    return recv(fd_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }
  // Waits until the other side hangs up.
  bool IsSentAway() const {
    char byte = 0;
    pollfd waits = {fd_, POLLIN, 0};
    if (poll(&waits, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) != 1) return false;
    return recv(fd_, &byte, 1, 0) <= 0;
  }

 private:
  const int fd_;
};

class AcceptorTest : public ::testing::Test {
 protected:
  void Start(int64_t most, int64_t per_address = 0) {
    auto listening = ListenOnTcp("127.0.0.1", 0, "grpc_listen");
    ASSERT_TRUE(listening.ok()) << listening.status();
    port_ = listening->port;
    std::vector<Acceptor::Listener> listeners;
    for (const int socket : listening->sockets) listeners.push_back({socket, [this](int fd) { taken_.Take(fd); }});
    StartWith(std::move(listeners), most, per_address);
  }
  void StartWith(std::vector<Acceptor::Listener> listeners, int64_t most, int64_t per_address) {
    Acceptor::Options options;
    options.max_connections = most;
    options.max_per_address = per_address;
    options.replaces = replaces_;
    acceptor_ = std::make_unique<Acceptor>(std::move(listeners), options, &log_, [this](bool full) {
      full_ = full;
      changes_.fetch_add(1);
    });
    acceptor_->Start();
  }
  bool Opens(int64_t count) const {
    return static_cast<bool>(Eventually([&] { return acceptor_->Counts().open == count; }));
  }

  const int null_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
  JsonLog log_{null_, LogLevel::kError, &Clock::Real()};
  Taken taken_;
  int port_ = 0;
  bool replaces_ = false;
  std::atomic<bool> full_{false};
  std::atomic<int> changes_{0};
  std::unique_ptr<Acceptor> acceptor_;

  ~AcceptorTest() override {
    acceptor_.reset();
    close(null_);
  }
};

// True once `old` is sent away for one that has come after it: connects from `from` again and again, since a connection
// that is too young is not.
::testing::AssertionResult MakesRoom(const Peer& old, int port, const char* from,
                                     std::vector<std::unique_ptr<Peer>>* open) {
  return Eventually([&] {
    open->push_back(std::make_unique<Peer>());
    open->back()->Connect(port, from);
    return old.IsSentAwayNow();
  });
}

TEST_F(AcceptorTest, TheOldestMakesRoomWhereThatIsWanted) {
  replaces_ = true;
  ASSERT_NO_FATAL_FAILURE(Start(4, 2));
  const Peer first, second, other, others;
  first.Connect(port_, "127.0.0.2");
  ASSERT_TRUE(Opens(1));
  second.Connect(port_, "127.0.0.2");
  other.Connect(port_, "127.0.0.3");
  others.Connect(port_, "127.0.0.3");
  ASSERT_TRUE(Opens(4));
  std::vector<std::unique_ptr<Peer>> later;
  // An address that has its share loses its own oldest connection, and no other.
  EXPECT_TRUE(MakesRoom(first, port_, "127.0.0.2", &later));
  EXPECT_FALSE(other.IsSentAwayNow());
  EXPECT_FALSE(others.IsSentAwayNow());
  EXPECT_TRUE(Opens(4));
  // Beyond the bound of all, the oldest goes.
  EXPECT_TRUE(MakesRoom(second, port_, "127.0.0.4", &later));
  EXPECT_TRUE(Opens(4));
  EXPECT_FALSE(full_) << "nobody was sent away for want of room";
  // The last connections may not have been taken yet.
  EXPECT_TRUE(Eventually([&] {
    taken_.EndAll();
    return acceptor_->Counts().open == 0;
  }));
}

TEST_F(AcceptorTest, HandsOverAndCountsUntilTheOwnerCloses) {
  ASSERT_NO_FATAL_FAILURE(Start(8));
  std::optional<Peer> one, two;
  one.emplace().Connect(port_);
  two.emplace().Connect(port_);
  EXPECT_TRUE(Opens(2));
  EXPECT_TRUE(Eventually([&] { return taken_.count() == 2; }));
  // A client that has gone counts until the owner has noticed.
  one.reset();
  taken_.EndOne();
  EXPECT_TRUE(Opens(1));
  taken_.EndAll();
  EXPECT_TRUE(Opens(0));
  EXPECT_TRUE(two->IsSentAway());
  EXPECT_EQ(changes_, 0);
}

TEST_F(AcceptorTest, BeyondTheCapIsSentAwayUntilThereIsRoom) {
  ASSERT_NO_FATAL_FAILURE(Start(2));
  Peer one, two, three, four;
  one.Connect(port_);
  two.Connect(port_);
  ASSERT_TRUE(Opens(2));
  three.Connect(port_);
  EXPECT_TRUE(three.IsSentAway());
  EXPECT_TRUE(Eventually([&] { return full_.load(); }));
  EXPECT_EQ(acceptor_->Counts().refused_full, 1);
  taken_.EndOne();
  EXPECT_TRUE(Eventually([&] { return !full_.load(); }));
  EXPECT_EQ(changes_, 2);
  four.Connect(port_);
  EXPECT_TRUE(Opens(2));
  EXPECT_TRUE(Eventually([&] { return taken_.count() == 2; }));
}

TEST_F(AcceptorTest, HangsUpOnThosePeersAlone) {
  ASSERT_NO_FATAL_FAILURE(Start(8));
  Peer stays, goes;
  stays.Connect(port_);
  goes.Connect(port_, "127.0.0.2");
  ASSERT_TRUE(Opens(2));
  acceptor_->HangUp({"127.0.0.2:1", goes.Name(), "[::1]:80", ""});
  EXPECT_TRUE(goes.IsSentAway());
  ASSERT_TRUE(Opens(1));
  EXPECT_EQ(acceptor_->Counts().hung_up, 1);
  // A name of a connection that has closed is nobody's.
  acceptor_->HangUp({goes.Name()});
  Peer last;
  last.Connect(port_);
  ASSERT_TRUE(Opens(2));
  EXPECT_EQ(acceptor_->Counts().hung_up, 1);
}

TEST_F(AcceptorTest, OneAddressHasItsOwnCap) {
  ASSERT_NO_FATAL_FAILURE(Start(8, 1));
  Peer one, two, other, again;
  one.Connect(port_, "127.0.0.2");
  ASSERT_TRUE(Opens(1));
  two.Connect(port_, "127.0.0.2");
  EXPECT_TRUE(two.IsSentAway());
  other.Connect(port_, "127.0.0.3");
  EXPECT_TRUE(Opens(2));
  EXPECT_EQ(acceptor_->Counts().refused_address, 1);
  EXPECT_FALSE(full_);
  taken_.EndAll();
  ASSERT_TRUE(Opens(0));
  again.Connect(port_, "127.0.0.2");
  EXPECT_TRUE(Opens(1));
}

// Lowers the limit of open files so that not one more can be opened, until it goes.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = dup(0);
    close(lowest_free);
    const rlimit none = {static_cast<rlim_t>(lowest_free), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(AcceptorTest, WithoutDescriptorsItRefusesAndServesWhenTheyReturn) {
  ASSERT_NO_FATAL_FAILURE(Start(1000));
  Peer first, late, later, served;
  first.Connect(port_);
  ASSERT_TRUE(Opens(1));
  {
    const NoDescriptors none;
    late.Connect(port_);
    EXPECT_TRUE(late.IsSentAway());
    EXPECT_TRUE(Eventually([&] { return full_.load(); }));
    later.Connect(port_);
    EXPECT_TRUE(later.IsSentAway());
  }
  served.Connect(port_);
  EXPECT_TRUE(Opens(2));
  EXPECT_TRUE(Eventually([&] { return !full_.load(); }));
  EXPECT_EQ(changes_, 2);
  EXPECT_GE(acceptor_->Counts().refused_full, 2);
}

TEST_F(AcceptorTest, AtAUnixSocketOnlyListedUsers) {
  const TemporaryDirectory folder;
  std::vector<Acceptor::Listener> listeners;
  for (const uid_t user : {getuid(), getuid() + 1}) {
    const StatusOr<int> socket = ListenOnUnix(folder / absl::StrCat(user), 0600, "edge_listen");
    ASSERT_TRUE(socket.ok()) << socket.status();
    listeners.push_back({*socket, [this](int fd) { taken_.Take(fd); }, true, {user}});
  }
  StartWith(std::move(listeners), 8, 1);
  const auto connect_to = [&](int fd, uid_t user) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    (folder / absl::StrCat(user)).copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0) << std::strerror(errno);
  };
  const int one = socket(AF_UNIX, SOCK_STREAM, 0), two = socket(AF_UNIX, SOCK_STREAM, 0),
            other = socket(AF_UNIX, SOCK_STREAM, 0);
  const Peer own(one), own_too(two), foreign(other);
  connect_to(one, getuid());
  connect_to(two, getuid());
  EXPECT_TRUE(Opens(2));  // not counted per address
  connect_to(other, getuid() + 1);
  EXPECT_TRUE(foreign.IsSentAway());
  EXPECT_EQ(acceptor_->Counts().refused_peer, 1);
  acceptor_->Stop();
}

// The thread sanitizer looks on.
TEST_F(AcceptorTest, ManyComeAndGoAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Start(16));
  std::atomic<bool> done{false};
  std::thread owner([&] {
    while (!done) {
      if (taken_.count() > 0) taken_.EndOne();
      EXPECT_GE(acceptor_->Counts().open, 0);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> clients;
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Peer peer;
        peer.Connect(port_);
        EXPECT_TRUE(peer.IsSentAway());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  done = true;
  owner.join();
  taken_.EndAll();
  EXPECT_TRUE(Opens(0));
}

}  // namespace
}  // namespace vicinal::server
