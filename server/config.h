// SPDX-License-Identifier: Apache-2.0
// All settings of a server as plain values: main.cc fills them from flags, tests fill them directly.
#ifndef VICINAL_SERVER_CONFIG_H_
#define VICINAL_SERVER_CONFIG_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/requests.h"
#include "engine/base/log.h"
#include "engine/base/status.h"
#include "server/auth.h"

namespace vicinal::server {

// Limits on requests. Each is a flag of the same name, is returned by GetCapabilities, and is named in the error of a
// request that exceeds it.
struct Limits {
  int64_t max_message_bytes = 64 << 20;
  int64_t max_chunk_bytes = 4 << 20;
  int64_t max_nodes = 100'000'000;
  int64_t max_edges = 1'000'000'000;
  int64_t max_features = 65'536;
  int64_t max_upload_bytes = int64_t{2} << 30;  // per upload
  int64_t max_open_uploads = 16;
  std::chrono::milliseconds upload_ttl = std::chrono::minutes(10);
  int64_t max_request_nodes = 1'000'000;  // ids in one request
  // Tensors of one reply: below the 4 MiB that gRPC clients accept by default.
  int64_t max_response_bytes = 4'000'000;
  int64_t max_batch_graphs = 10'000;
  int64_t max_queue = 1024;
  int64_t max_queue_per_client = 512;                                    // of max_queue, for each principal
  std::chrono::milliseconds default_deadline = std::chrono::minutes(5);  // of inference without one; 0: none
  int64_t max_preparations = 16;
  int64_t max_graphs = 1000;
  int64_t max_feature_sets = 100;  // per graph
  int64_t max_models = 1000;
  int64_t max_cached_plans = 256;
  int64_t max_label_names = 50;          // graphs, and models, named in metrics
  int64_t max_concurrent_streams = 256;  // per connection
  int64_t max_connections = 1024;
  int64_t max_connections_per_address = 512;
  int64_t max_open_calls = 10'000;         // over all connections
  int64_t max_worker_queue = 64;           // finished uploads, explanations and large replies waiting for a worker
  int64_t memory_budget_bytes = 0;         // 0: unlimited
  int64_t device_memory_bytes = 0;         // of a GPU; 0: as much as it has
  int64_t max_answer_bytes = 256 << 20;    // of kept answers, within the budget; 0: none are kept
  int64_t max_reply_bytes_per_client = 0;  // of large replies under way to a principal; 0: unlimited
  // Of requests and answers under way on a principal's streams of requests; 0: unlimited.
  int64_t max_stream_bytes_per_client = 0;
  std::chrono::milliseconds send_timeout = std::chrono::minutes(1);  // without progress of a stream to its client
  int64_t max_arriving_bytes = 0;  // messages that are still arriving, over all connections; 0: unlimited
};

// The default of max_message_bytes: 64 MiB or, with a small budget, so much that DefaultArrivingBytes, an eighth of the
// budget, suffices for the number of messages that CheckConfig requires; at least two chunks.
int64_t DefaultMessageBytes(const Limits& limits);

// The default of max_arriving_bytes: an eighth of the budget. With the default budget this leaves another eighth of the
// machine for the program and the system. At least as many bytes as CheckConfig requires.
int64_t DefaultArrivingBytes(const Limits& limits);

// The default of max_open_calls: 10,000 or, if less, one per 64 KiB of the budget.
int64_t DefaultOpenCalls(const Limits& limits);

// The default of max_reply_bytes_per_client: half of the budget; without a budget unlimited.
int64_t DefaultReplyBytesPerClient(const Limits& limits);

// The default of max_stream_bytes_per_client: an eighth of the budget, at least two windows of a stream (64 MiB);
// without a budget unlimited.
int64_t DefaultStreamBytesPerClient(const Limits& limits);

// The default of max_answer_bytes: a quarter of the budget; without a budget 1 GiB.
int64_t DefaultAnswerBytes(const Limits& limits);

// Flag names and values, in the order of the struct.
std::vector<std::pair<std::string, int64_t>> ListOf(const Limits& limits);

// When a server that loads graphs from its state directory counts as ready.
enum class ReadyWhen {
  kAll,  // all of them are loaded, or cannot be
  kAny,  // one of them serves
};

struct Config {
  std::string grpc_listen = "127.0.0.1:8500";     // HOST:PORT; port 0: any free port; empty: only edge_listen
  std::string edge_listen;                        // path of a unix socket for a proxy; empty: none
  std::vector<uid_t> edge_uids;                   // users who may connect there; empty: only this process's
  std::string metrics_listen = "127.0.0.1:8502";  // empty: no metrics
  bool metrics_tls = false;             // with the certificate below, and client certificates if it wants them
  std::string status_listen;            // HOST:PORT of the status page; empty: none
  bool allow_plaintext_status = false;  // on other addresses than loopback
  std::string health_listen;            // HOST:PORT of a plaintext health service; empty: none
  std::string ready_file;               // empty: none
  bool state_read_only = false;         // of a directory that another server writes
  std::string scratch_dir;              // of such a server, for marks of kernels; empty: none
  std::string advertise_address;        // where clients reach the server; empty: grpc_listen
  std::string state_dir;                // empty: everything is in memory only
  ReadyWhen ready_when = ReadyWhen::kAll;
  std::string device = "auto";
  std::string backend_path;
  int threads = 0;  // of kernels; 0: one per core
  // Time for background tuning per kind of work on a graph, and per graph in total; 0: none.
  std::chrono::milliseconds tuning_budget{500};
  std::chrono::milliseconds max_tuning_per_graph = std::chrono::seconds(60);
  TuningStrategy tuning_strategy = TuningStrategy::kMeasured;
  KeepAnswers keep_answers = KeepAnswers::kAuto;
  // How long a request may wait for others to share its run with while the device is idle.
  std::chrono::milliseconds max_batch_delay{0};
  Limits limits;
  Credentials credentials;       // none: every method is open
  std::string admin_token_file;  // re-read while the server runs; empty: the token never changes
  std::string infer_token_file;
  std::string principals_file;
  bool allow_plaintext_tokens = false;
  // PEM files; re-read while the server runs. Empty: no TLS; clients need no certificate.
  std::string tls_cert_file, tls_key_file, tls_client_ca_file;
  bool reflection = true;
  std::chrono::milliseconds drain_delay{0};
  std::chrono::milliseconds drain_timeout = std::chrono::seconds(25);
  std::chrono::milliseconds max_connection_age = std::chrono::hours(1);
  std::chrono::milliseconds max_connection_age_grace = std::chrono::hours(1);
  std::chrono::milliseconds keepalive_time = std::chrono::seconds(30);
  std::chrono::milliseconds handshake_timeout = std::chrono::seconds(10);
  std::chrono::milliseconds message_timeout = std::chrono::minutes(2);  // until a call's message has arrived
  LogLevel log_level = LogLevel::kInfo;
};

// "all", "any". INVALID_ARGUMENT naming the flag.
StatusOr<ReadyWhen> ParseReadyWhen(const std::string& text);

// "measured", "estimated". Likewise.
StatusOr<TuningStrategy> ParseTuningStrategy(const std::string& text);
// "auto", "always", "never". Likewise.
StatusOr<KeepAnswers> ParseKeepAnswers(const std::string& text);

// INVALID_ARGUMENT, naming the flag, for invalid or unsafe values.
Status CheckConfig(const Config& config);

// Splits "HOST:PORT", "[V6]:PORT"; the host of the latter keeps its brackets. INVALID_ARGUMENT naming `flag`.
StatusOr<std::pair<std::string, int>> SplitAddress(const std::string& address, const char* flag);

// The gRPC address uses TLS.
bool UsesTls(const Config& config);

// Anyone on a network may connect: gRPC listens beyond loopback and wants no client certificates.
bool IsExposed(const Config& config);

// What whoever runs this should change, in sentences; empty: nothing.
std::vector<std::string> WarningsOf(const Config& config);

// "1000,1001". INVALID_ARGUMENT naming the flag.
StatusOr<std::vector<uid_t>> ParseUids(const std::string& text);

// True for addresses that only this machine can reach, and for "localhost". Other names may resolve to any machine.
bool IsLoopback(const std::string& host);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CONFIG_H_
