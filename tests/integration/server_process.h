// SPDX-License-Identifier: Apache-2.0
// A real vicinal-server as a child process, on free ports, for tests that go over a socket. Never sleeps: it waits for
// the ready file with inotify and for the end with waitpid.
#ifndef VICINAL_TESTS_INTEGRATION_SERVER_PROCESS_H_
#define VICINAL_TESTS_INTEGRATION_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {

class ServerProcess {
 public:
  // Starts `binary` with ports of 0, a ready file in a folder of its own, and `flags`; returns when it serves.
  // INTERNAL, with what it wrote to standard error, when it ends first.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(const std::string& binary,
                                                              const std::vector<std::string>& flags = {});
  // Kills it, if it still runs.
  ~ServerProcess();

  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& metrics_address() const { return metrics_address_; }
  // Empty without --health_listen.
  const std::string& health_address() const { return health_address_; }
  pid_t pid() const { return pid_; }
  // Sends the signal; the process may go on.
  void Signal(int signal) const;
  // SIGTERM, then waits for the end: the exit code, or minus the signal that killed it.
  int Stop();
  // Waits for the end without a signal.
  int Wait();
  // What it wrote to standard error so far.
  std::string Log() const;
  // The /metrics page.
  absl::StatusOr<std::string> Scrape() const;

 private:
  ServerProcess() = default;
  absl::Status AwaitReadyFile(int inotify);

  const TemporaryDirectory folder_;
  std::string grpc_address_, metrics_address_, health_address_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

// Runs the binary to its end: exit code and standard error.
struct Outcome {
  int code = 0;
  std::string output;
};
Outcome RunToEnd(const std::string& binary, const std::vector<std::string>& flags);

// Connections to HOST:PORT that send nothing.
class IdleConnections {
 public:
  IdleConnections(const std::string& address, int count);
  ~IdleConnections();
  IdleConnections(const IdleConnections&) = delete;
  IdleConnections& operator=(const IdleConnections&) = delete;

  // How many were made, and the other side has not closed.
  int open() const;

 private:
  std::vector<int> sockets_;
};

// A socket that is connected to HOST:PORT, an IPv4 address, or -1.
int Connect(const std::string& address);

// Connects to HOST:PORT, sends the bytes, and closes without reading.
void SendRaw(const std::string& address, const std::string& bytes);

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_SERVER_PROCESS_H_
