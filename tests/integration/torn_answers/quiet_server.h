// SPDX-License-Identifier: Apache-2.0
// The server that torn answers are compared with: nobody else uses it, and it tunes nothing. It is given the versions
// that an answer names, and the tuning decisions under which the disturbed server answered.
#ifndef VICINAL_TESTS_INTEGRATION_TORN_ANSWERS_QUIET_SERVER_H_
#define VICINAL_TESTS_INTEGRATION_TORN_ANSWERS_QUIET_SERVER_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/client.h"
#include "tests/integration/server_process.h"

namespace vicinal::testing {

// What an answer's bits depend on: the seeds of what served it, and how it was computed.
struct Question {
  int64_t graph = 0, features = 0, model = 0;  // seeds (world.h)
  int64_t revision = 0;                        // numerics revision
  v1::Precision precision = v1::PRECISION_FLOAT32;

  auto operator<=>(const Question&) const = default;
};

// Null if the server cannot be reached.
std::unique_ptr<client::Client> ClientOf(const ServerProcess& server);

// Aggregations of the server's device that may serve in place of each other.
std::vector<std::string> TunableKernels(client::Client& client);

// Uses `kernel` for all widths of the torn-answer model.
absl::Status ForceKernel(client::Client& client, const std::string& kernel);

class QuietServer {
 public:
  static absl::StatusOr<QuietServer> Start(const std::string& program, const std::string& device);

  // The logits of all nodes, [kTornNodes, kTornClasses]. The decisions of `texts` (GetTuning with export_text) are
  // tried first, then the defaults, then each kernel for all widths. NOT_FOUND: none of them gives the question's
  // revision.
  absl::StatusOr<std::string> Answer(const Question& question, const std::vector<std::string>& texts);
  int Stop() { return server_->Stop(); }

 private:
  QuietServer() = default;
  absl::Status Put(const Question& question);
  // Empty: another revision, which is added to `seen`.
  absl::StatusOr<std::string> Ask(const Question& question, std::string* seen);

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_TORN_ANSWERS_QUIET_SERVER_H_
