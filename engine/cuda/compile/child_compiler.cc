// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/child_compiler.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

extern char** environ;

namespace vicinal::cuda {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr char kLibraryPath[] = "LD_LIBRARY_PATH=";
constexpr size_t kLongestReply = size_t{64} << 20;

Status Failed(const std::string& why) { return FailedPrecondition("COMPILER_FAILED", why); }

// One end of a connection.
class End {
 public:
  explicit End(int descriptor) : descriptor_(descriptor) {}
  ~End() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

// A process that is killed and waited for when this ends.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Its wait status.
  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// Starts the program with `socket` as its standard input and output; it closes what else it inherits. Of the
// environment it gets where libraries are. Signals that this thread blocks are not blocked there.
StatusOr<pid_t> Spawn(const ChildLimits& limits, int socket) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(limits.wall_time).count();
  std::string program = limits.program, memory = absl::StrCat(limits.memory_bytes), time = absl::StrCat(seconds);
  char* const arguments[] = {program.data(), memory.data(), time.data(), nullptr};
  char* inherited[] = {nullptr, nullptr};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, kLibraryPath, sizeof kLibraryPath - 1) == 0) inherited[0] = *variable;
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments, inherited);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return Failed(absl::StrCat("cannot start ", program, ": ", std::strerror(error)));
  return pid;
}

// Sends `request` and receives all that comes, until the other end closes or `deadline`.
StatusOr<std::string> Exchange(int socket, const std::string& request, SteadyClock::time_point deadline) {
  std::string reply;
  size_t sent = 0;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    if (left <= 0) return Failed("it was killed, as it took longer than allowed");
    pollfd ready = {socket, static_cast<short>(sent < request.size() ? POLLIN | POLLOUT : POLLIN), 0};
    if (poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 1000))) < 0 && errno != EINTR)
      return Failed(absl::StrCat("poll: ", std::strerror(errno)));
    if ((ready.revents & POLLOUT) != 0 && sent < request.size()) {
      const ssize_t count = send(socket, request.data() + sent, request.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) sent += static_cast<size_t>(count);
      if (count < 0 && errno != EAGAIN && errno != EINTR) sent = request.size();  // it has ended; its reply says why
      if (sent == request.size()) shutdown(socket, SHUT_WR);
    }
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    char buffer[1 << 16];
    const ssize_t count = recv(socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return reply;
    if (count > 0) reply.append(buffer, static_cast<size_t>(count));
    if (reply.size() > kLongestReply) return Failed("its answer is too long");
  }
}

std::string DescribeEnd(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("it was ended by signal ", WTERMSIG(status));
  return absl::StrCat("it ended with status ", WEXITSTATUS(status), " without an answer");
}

}  // namespace

StatusOr<std::string> CompileInChild(const CompileRequest& request, const ChildLimits& limits) {
  const auto deadline = SteadyClock::now() + limits.wall_time;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Failed(absl::StrCat("socketpair: ", std::strerror(errno)));
  const End ours(ends[0]);
  pid_t pid = -1;
  {
    const End theirs(ends[1]);
    VICINAL_ASSIGN_OR_RETURN(pid, Spawn(limits, theirs.get()));
  }
  Child child(pid);
  VICINAL_ASSIGN_OR_RETURN(const std::string message, Exchange(ours.get(), request.Encode(), deadline));
  const int status = child.Wait();
  CompileReply reply;
  if (status != 0 || !reply.Decode(message)) return Failed(DescribeEnd(status));
  if (reply.cubin.empty()) return Failed(reply.error);
  return std::move(reply.cubin);
}

std::string WhyCannotCompile(int version, int capability, const ChildLimits& limits) {
  CompileRequest request;
  request.version = version;
  request.source = "extern \"C\" __global__ void nothing() {}\n";
  request.options = {absl::StrCat("--gpu-architecture=sm_", capability)};
  const StatusOr<std::string> cubin = CompileInChild(request, limits);
  return cubin.ok() ? std::string() : std::string(cubin.status().message());
}

}  // namespace vicinal::cuda
