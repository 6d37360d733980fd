// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace vicinal::testing {
namespace {

constexpr char kReadyName[] = "ready.json";

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Starts a child whose standard error and output go to `log`; it dies with its parent. What it needs is made before the
// fork: this process has threads (gRPC's), and one of them may hold the allocator's lock just then.
pid_t Spawn(const std::string& binary, const std::vector<std::string>& flags, const std::string& log) {
  std::vector<char*> arguments = {const_cast<char*>(binary.c_str())};
  for (const std::string& flag : flags) arguments.push_back(const_cast<char*>(flag.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  execv(binary.c_str(), arguments.data());
  _exit(127);
}

int CodeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

}  // namespace

int Connect(const std::string& host_port) {
  const size_t colon = host_port.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(host_port.c_str() + colon + 1)));
  inet_pton(AF_INET, host_port.substr(0, colon).c_str(), &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::string& binary,
                                                                    const std::vector<std::string>& flags) {
  std::unique_ptr<ServerProcess> process(new ServerProcess);
  const int inotify = inotify_init1(IN_CLOEXEC);
  if (inotify < 0 || inotify_add_watch(inotify, process->folder_.path().c_str(), IN_MOVED_TO) < 0) {
    return absl::InternalError("no folder to watch for the ready file");
  }
  std::vector<std::string> all = {"--grpc_listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0",
                                  absl::StrCat("--ready_file=", process->folder_ / kReadyName)};
  all.insert(all.end(), flags.begin(), flags.end());
  process->pid_ = Spawn(binary, all, process->folder_ / "log");
  if (process->pid_ < 0) return absl::InternalError("cannot fork");
  const absl::Status ready = process->AwaitReadyFile(inotify);
  close(inotify);
  if (!ready.ok()) return ready;
  return process;
}

absl::Status ServerProcess::AwaitReadyFile(int inotify) {
  const std::string path = folder_ / kReadyName;
  while (!std::filesystem::exists(path)) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      ended_ = true;
      return absl::InternalError(absl::StrCat("the server ended with ", CodeOf(status), ": ", Log()));
    }
    // Woken by the file; now and then to see whether the process still lives.
    pollfd wait{inotify, POLLIN, 0};
    poll(&wait, 1, 200);
  }
  const nlohmann::json json = nlohmann::json::parse(ReadAll(path), nullptr, false);
  if (!json.is_object()) return absl::InternalError("the ready file is no JSON object");
  grpc_address_ = json.value("grpc", "");
  metrics_address_ = json.value("metrics", "");
  health_address_ = json.value("health", "");
  return absl::OkStatus();
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0 && !ended_) {
    kill(pid_, SIGKILL);
    Wait();
  }
}

void ServerProcess::Signal(int signal) const { kill(pid_, signal); }

int ServerProcess::Stop() {
  Signal(SIGTERM);
  return Wait();
}

int ServerProcess::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ended_ = true;
  return CodeOf(status);
}

std::string ServerProcess::Log() const { return ReadAll(folder_ / "log"); }

absl::StatusOr<std::string> ServerProcess::Scrape() const {
  const int fd = Connect(metrics_address_);
  if (fd < 0) return absl::UnavailableError("cannot connect to the metrics");
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  std::string page;
  if (write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
    char buffer[65536];
    for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) page.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  if (page.find(" 200 ") == std::string::npos)
    return absl::InternalError(absl::StrCat("no page: ", page.substr(0, 200)));
  return page;
}

IdleConnections::IdleConnections(const std::string& address, int count) {
  for (int i = 0; i < count; ++i) sockets_.push_back(Connect(address));
}

IdleConnections::~IdleConnections() {
  for (const int fd : sockets_) close(fd);
}

int IdleConnections::open() const {
  return static_cast<int>(std::count_if(sockets_.begin(), sockets_.end(), [](int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }));
}

void SendRaw(const std::string& address, const std::string& bytes) {
  const int fd = Connect(address);
  // The other side may hang up in the middle.
  for (size_t sent = 0; fd >= 0 && sent < bytes.size();) {
    const ssize_t n = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  if (fd >= 0) close(fd);
}

Outcome RunToEnd(const std::string& binary, const std::vector<std::string>& flags) {
  const TemporaryDirectory folder;
  const pid_t pid = Spawn(binary, flags, folder / "log");
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {CodeOf(status), ReadAll(folder / "log")};
}

}  // namespace vicinal::testing
