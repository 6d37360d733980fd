// SPDX-License-Identifier: Apache-2.0
// vicinal-server: converts flags to Config and signals to Stop. Only this file reads flags. Signals are blocked in
// every thread and received with sigwait (server/stop.h), so that no signal handler of a library runs.
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/error.h"
#include "server/acceptor.h"
#include "server/config.h"
#include "server/duration_flag.h"
#include "server/handlers/server_handler.h"
#include "server/json_log.h"
#include "server/log_limiter.h"
#include "server/process.h"
#include "server/read_token_file.h"
#include "server/server.h"
#include "server/size_flag.h"
#include "server/stop.h"

ABSL_FLAG(
    std::string, grpc_listen, "127.0.0.1:8500",
    "Address of the API, HOST:PORT; port 0 takes any free port. Encrypted with --tls_cert_file; otherwise listen on "
    "a network only where something else encrypts.");
ABSL_FLAG(std::string, edge_listen, "",
          "Path of a unix socket for a proxy at the edge, which may state the client's certificate and address in the "
          "metadata vicinal-edge-*; empty: none. With it --grpc_listen may be empty.");
ABSL_FLAG(std::string, edge_uids, "",
          "Numeric ids of the users whose processes may connect to --edge_listen, separated by commas; empty: only the "
          "server's own user.");
ABSL_FLAG(std::string, metrics_listen, "127.0.0.1:8502",
          "Address of /metrics for Prometheus, HOST:PORT; empty: no metrics.");
ABSL_FLAG(
    bool, metrics_tls, false,
    "Serve /metrics over TLS, with --tls_cert_file; with --tls_client_ca_file only to clients with a certificate.");
ABSL_FLAG(std::string, status_listen, "",
          "Address of a page for people that shows graphs, kernels, latency and memory, HOST:PORT; who may not infer "
          "must sign in with a token. Empty: none.");
ABSL_FLAG(bool, allow_plaintext_status, false,
          "Serve the status page on an address other than loopback, although the connection is not encrypted here.");
ABSL_FLAG(std::string, health_listen, "",
          "Address of a second listener with nothing but the health service, in plain text, HOST:PORT: for probes that "
          "speak no TLS. Empty: none.");
ABSL_FLAG(std::string, ready_file, "",
          "File to write {\"grpc\": \"HOST:PORT\", \"metrics\": \"HOST:PORT\"} to once the server listens; graphs of a "
          "state directory may be loading still.");
ABSL_FLAG(
    std::string, state_dir, "",
    "Directory that keeps graphs, feature sets and models across restarts; made if missing. Empty: in memory only.");
ABSL_FLAG(bool, state_read_only, false,
          "Read replica: follows --state_dir, which another server writes, and answers inference only.");
ABSL_FLAG(
    std::string, scratch_dir, "",
    "With --state_read_only: directory of this server alone that remembers kernels which end the process; made if "
    "missing. Empty: they are forgotten with a restart.");
ABSL_FLAG(std::string, advertise_address, "",
          "Where clients reach this server, HOST:PORT: what replicas of its --state_dir tell those who upload there. "
          "Empty: as it listens.");
ABSL_FLAG(
    std::string, ready_when, "all",
    "When a server that loads graphs from --state_dir becomes ready: all (of them are loaded) or any (one serves).");
ABSL_FLAG(std::string, device, "auto", "Device that runs models: auto, cpu, or cuda:N.");
ABSL_FLAG(std::string, backend_path, "",
          "Shared library of the device backend; empty: next to the engine's own library.");
ABSL_FLAG(int, threads, 0, "Kernel threads; 0: one per core, or as many as the container's CPU limit allows.");
ABSL_FLAG(vicinal::server::DurationFlag, tuning_budget, std::chrono::milliseconds(500),
          "Time for measuring kernels, per kind of work on a graph, in the background while no request waits; 0: tune "
          "only on TuneGraph.");
ABSL_FLAG(vicinal::server::DurationFlag, max_tuning_per_graph, std::chrono::seconds(60),
          "Largest total time of background tuning per version of a graph.");
ABSL_FLAG(std::string, tuning_strategy, "measured",
          "How kernels are chosen: measured (all promising ones are) or estimated (models rank many settings, and the "
          "best few are measured). Works that are too large or too busy to be measured are estimated either way.");
ABSL_FLAG(
    std::string, keep_answers, "auto",
    "Whether the rows of all nodes are kept, so that queries only copy rows: auto (once the queries of a model on a "
    "graph have cost as much as one pass over all nodes), always (after the first query) or never.");
ABSL_FLAG(
    vicinal::server::SizeFlag, max_answer_bytes, -1,
    "Memory for kept answers, part of the memory budget; they are the first to be evicted. 0: none are kept; -1: a "
    "quarter of the budget, without a budget 1 GiB.");
ABSL_FLAG(
    vicinal::server::SizeFlag, memory_budget_bytes, -1,
    "Memory for graphs, features, models, plans, requests and uploads together, at least 1 MiB; 0: unlimited; -1: "
    "three quarters of this machine's memory, or of the container's limit.");
ABSL_FLAG(vicinal::server::SizeFlag, device_memory_bytes, 0,
          "Memory of the GPU that this server may allocate. When it is short, the least recently used graphs leave the "
          "GPU, stay on the host, and come back when they are asked for. 0: as much as the GPU has.");
ABSL_FLAG(vicinal::server::SizeFlag, max_arriving_bytes, -1,
          "Memory for messages that are still arriving, over all connections, in addition to the memory budget; beyond "
          "it gRPC aborts calls (RESOURCE_EXHAUSTED) and closes idle connections. At least four times "
          "--max_message_bytes; 0: unlimited; -1: an eighth of the memory budget, but at least that minimum.");
ABSL_FLAG(vicinal::server::SizeFlag, max_message_bytes, -1,
          "Largest request message; -1: 64 MiB or, if less, a 32nd of the memory budget, but at least twice "
          "--max_chunk_bytes.");
ABSL_FLAG(vicinal::server::SizeFlag, max_chunk_bytes, 4 << 20, "Largest chunk of an upload, 1 to 32 MiB.");
ABSL_FLAG(int64_t, max_nodes, 100'000'000, "Largest number of nodes per graph.");
ABSL_FLAG(int64_t, max_edges, 1'000'000'000, "Largest number of edges per graph.");
ABSL_FLAG(int64_t, max_features, 65'536, "Largest number of features per node.");
ABSL_FLAG(vicinal::server::SizeFlag, max_upload_bytes, int64_t{2} << 30, "Largest upload, all tensors together.");
ABSL_FLAG(int64_t, max_open_uploads, 16, "Largest number of open uploads.");
ABSL_FLAG(
    vicinal::server::DurationFlag, upload_ttl, std::chrono::minutes(10),
    "An open upload expires, and its stream ends, after this long without a complete chunk. The result of a finished "
    "upload can be queried for as long.");
ABSL_FLAG(int64_t, max_request_nodes, 1'000'000, "Largest number of node ids per request.");
ABSL_FLAG(
    vicinal::server::SizeFlag, max_response_bytes, 4'000'000,
    "Largest reply of a unary inference call (its tensors); streams are not limited. Replies about models, plans and "
    "tuning are truncated to it.");
ABSL_FLAG(int64_t, max_batch_graphs, 10'000, "Largest number of graphs per ClassifyGraphs request.");
ABSL_FLAG(int64_t, max_queue, 1024, "Largest number of inference requests waiting for the executor.");
ABSL_FLAG(int64_t, max_queue_per_client, -1,
          "Largest number of inference requests of one principal waiting for the executor; -1: half of --max_queue.");
ABSL_FLAG(vicinal::server::DurationFlag, default_deadline, std::chrono::minutes(5),
          "Time for the computation of inference calls that come without a deadline; 0s: no limit.");
ABSL_FLAG(
    vicinal::server::DurationFlag, max_batch_delay, std::chrono::milliseconds(0),
    "How long a request may wait for others to share its run with while the device is idle, at most 10s. The wait ends "
    "in time for the earliest deadline. Requests that wait for the same graph and model share a run in any case.");
ABSL_FLAG(vicinal::server::SizeFlag, max_reply_bytes_per_client, -1,
          "Largest size of the large replies that are under way to one principal; 0: unlimited; -1: half of "
          "--memory_budget_bytes.");
ABSL_FLAG(vicinal::server::SizeFlag, max_stream_bytes_per_client, -1,
          "Largest size of the requests and answers that are under way on the streams of requests of one principal; 0: "
          "unlimited; -1: an eighth of --memory_budget_bytes, at least 64 MiB.");
ABSL_FLAG(vicinal::server::DurationFlag, send_timeout, std::chrono::minutes(1),
          "A stream of replies ends after this long without its client reading any.");
ABSL_FLAG(int64_t, max_preparations, 16, "Largest number of graphs waiting for preparation.");
ABSL_FLAG(int64_t, max_graphs, 1000, "Largest number of graphs.");
ABSL_FLAG(int64_t, max_feature_sets, 100, "Largest number of feature sets per graph, of nodes and of edges together.");
ABSL_FLAG(int64_t, max_models, 1000, "Largest number of models.");
ABSL_FLAG(int64_t, max_cached_plans, 256, "Largest number of cached plans.");
ABSL_FLAG(int64_t, max_label_names, 50,
          "Largest number of graphs, and of models, named in metrics; further ones count as \"other\".");
ABSL_FLAG(int64_t, max_concurrent_streams, 256, "Largest number of concurrent calls per connection.");
ABSL_FLAG(
    int64_t, max_connections, -1,
    "Largest number of connections; more are closed at once. -1: 10,000 or, if less, as many as the limit of open "
    "files allows (two each).");
ABSL_FLAG(int64_t, max_connections_per_address, -1,
          "Largest number of connections from one IP address, but not from --edge_listen; -1: half of "
          "--max_connections.");
ABSL_FLAG(
    int64_t, max_open_calls, -1,
    "Largest number of calls that are open at once, over all connections; further ones get UNAVAILABLE. -1: 10,000 or, "
    "if less, one per 64 KiB of the memory budget.");
ABSL_FLAG(int64_t, max_worker_queue, 64,
          "Largest number of finished uploads and Explain calls waiting for a worker; the same number of TuneGraph "
          "calls may wait.");
ABSL_FLAG(
    std::string, admin_token_file, "",
    "File whose first line is the admin token, which allows every method and which uploads, deletes and tuning need; "
    "re-read when it changes; empty: no token needed for them.");
ABSL_FLAG(
    std::string, infer_token_file, "",
    "File whose first line is the token for all other methods; re-read when it changes; empty: no token needed for "
    "them.");
ABSL_FLAG(
    std::string, principals_file, "",
    "File of principals, one NAME ROLE CREDENTIAL per line (token:..., DNS:..., URI:..., email:..., IP:...); with it "
    "every method needs one; re-read when it changes.");
ABSL_FLAG(
    std::string, tls_cert_file, "",
    "Certificate chain of the server in PEM format, its own certificate first; re-read when it changes. Empty: no "
    "TLS.");
ABSL_FLAG(std::string, tls_key_file, "", "Private key of --tls_cert_file in PEM format, not encrypted.");
ABSL_FLAG(
    std::string, tls_client_ca_file, "",
    "Certificates in PEM format of the authorities that sign client certificates; with it, clients without such a "
    "certificate cannot connect; re-read when it changes.");
ABSL_FLAG(bool, allow_plaintext_tokens, false,
          "Accept tokens on an address other than loopback, although the connection is not encrypted here.");
ABSL_FLAG(bool, reflection, true, "Serve gRPC reflection.");
ABSL_FLAG(vicinal::server::DurationFlag, drain_delay, std::chrono::milliseconds(0),
          "After SIGTERM: how long requests are still accepted while health is NOT_SERVING, so that load balancers can "
          "notice.");
ABSL_FLAG(
    vicinal::server::DurationFlag, drain_timeout, std::chrono::seconds(25),
    "After the drain delay: how long calls in progress may take to finish, and what serves to be written to the state "
    "directory.");
ABSL_FLAG(vicinal::server::DurationFlag, max_connection_age, std::chrono::hours(1),
          "Connections older than this are asked to reconnect, so that load is rebalanced; 0: never.");
ABSL_FLAG(vicinal::server::DurationFlag, max_connection_age_grace, std::chrono::hours(1),
          "How long calls on such a connection may continue.");
ABSL_FLAG(vicinal::server::DurationFlag, keepalive_time, std::chrono::seconds(30),
          "Idle time of a connection with open calls after which the server sends a keepalive ping; the connection is "
          "closed if no answer comes within that time, at most 20 s. 0: gRPC's default.");
ABSL_FLAG(vicinal::server::DurationFlag, handshake_timeout, std::chrono::seconds(10),
          "A connection that has not finished its handshake (TLS, HTTP/2) after this time is closed.");
ABSL_FLAG(vicinal::server::DurationFlag, message_timeout, std::chrono::minutes(2),
          "A call whose message has not arrived completely after this time is ended; of an upload, its first message.");
ABSL_FLAG(std::string, log_level, "info", "debug (one line per call), info, warning or error.");

namespace vicinal::server {
namespace {

constexpr int kBadFlags = 2;

// Time for a command that fetches a token; meanwhile signals have no effect.
constexpr std::chrono::seconds kPatienceForPipes{10};

// Each takes some tens of KB.
constexpr int64_t kMostConnections = 10'000;

// The memory of this process: the machine's, or its control group's limit if that is smaller (containers).
int64_t UsableMemory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  int64_t bytes = pages > 0 && size > 0 ? pages * size : 0;
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t limit = 0;
  if (file >> limit && limit > 0 && (bytes == 0 || limit < bytes)) bytes = limit;
  return bytes;
}

// Three quarters: the rest is for the program, gRPC's buffers and the page cache.
int64_t DefaultBudget() { return UsableMemory() / 4 * 3; }

Limits LimitsFromFlags() {
  Limits limits;
  limits.max_chunk_bytes = absl::GetFlag(FLAGS_max_chunk_bytes).bytes;
  limits.max_nodes = absl::GetFlag(FLAGS_max_nodes);
  limits.max_edges = absl::GetFlag(FLAGS_max_edges);
  limits.max_features = absl::GetFlag(FLAGS_max_features);
  limits.max_upload_bytes = absl::GetFlag(FLAGS_max_upload_bytes).bytes;
  limits.max_open_uploads = absl::GetFlag(FLAGS_max_open_uploads);
  limits.upload_ttl = absl::GetFlag(FLAGS_upload_ttl).time;
  limits.max_request_nodes = absl::GetFlag(FLAGS_max_request_nodes);
  limits.max_response_bytes = absl::GetFlag(FLAGS_max_response_bytes).bytes;
  limits.max_batch_graphs = absl::GetFlag(FLAGS_max_batch_graphs);
  limits.max_queue = absl::GetFlag(FLAGS_max_queue);
  limits.max_queue_per_client = absl::GetFlag(FLAGS_max_queue_per_client);
  if (limits.max_queue_per_client == -1) limits.max_queue_per_client = (limits.max_queue + 1) / 2;
  limits.default_deadline = absl::GetFlag(FLAGS_default_deadline).time;
  limits.max_preparations = absl::GetFlag(FLAGS_max_preparations);
  limits.max_graphs = absl::GetFlag(FLAGS_max_graphs);
  limits.max_feature_sets = absl::GetFlag(FLAGS_max_feature_sets);
  limits.max_models = absl::GetFlag(FLAGS_max_models);
  limits.max_cached_plans = absl::GetFlag(FLAGS_max_cached_plans);
  limits.max_label_names = absl::GetFlag(FLAGS_max_label_names);
  limits.max_concurrent_streams = absl::GetFlag(FLAGS_max_concurrent_streams);
  limits.max_connections = absl::GetFlag(FLAGS_max_connections);
  if (limits.max_connections == -1)
    limits.max_connections = std::min(kMostConnections, ConnectionsFor(AllowManyFiles()));
  limits.max_connections_per_address = absl::GetFlag(FLAGS_max_connections_per_address);
  if (limits.max_connections_per_address == -1) limits.max_connections_per_address = (limits.max_connections + 1) / 2;
  limits.max_worker_queue = absl::GetFlag(FLAGS_max_worker_queue);
  limits.memory_budget_bytes = absl::GetFlag(FLAGS_memory_budget_bytes).bytes;
  if (limits.memory_budget_bytes == -1) limits.memory_budget_bytes = DefaultBudget();
  limits.max_open_calls = absl::GetFlag(FLAGS_max_open_calls);
  if (limits.max_open_calls == -1) limits.max_open_calls = DefaultOpenCalls(limits);
  limits.device_memory_bytes = absl::GetFlag(FLAGS_device_memory_bytes).bytes;
  limits.max_answer_bytes = absl::GetFlag(FLAGS_max_answer_bytes).bytes;
  if (limits.max_answer_bytes == -1) limits.max_answer_bytes = DefaultAnswerBytes(limits);
  limits.max_reply_bytes_per_client = absl::GetFlag(FLAGS_max_reply_bytes_per_client).bytes;
  if (limits.max_reply_bytes_per_client == -1) limits.max_reply_bytes_per_client = DefaultReplyBytesPerClient(limits);
  limits.max_stream_bytes_per_client = absl::GetFlag(FLAGS_max_stream_bytes_per_client).bytes;
  if (limits.max_stream_bytes_per_client == -1)
    limits.max_stream_bytes_per_client = DefaultStreamBytesPerClient(limits);
  limits.send_timeout = absl::GetFlag(FLAGS_send_timeout).time;
  limits.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes).bytes;
  if (limits.max_message_bytes == -1) limits.max_message_bytes = DefaultMessageBytes(limits);
  limits.max_arriving_bytes = absl::GetFlag(FLAGS_max_arriving_bytes).bytes;
  if (limits.max_arriving_bytes == -1) limits.max_arriving_bytes = DefaultArrivingBytes(limits);
  return limits;
}

StatusOr<Config> ConfigFromFlags() {
  Config config;
  config.grpc_listen = absl::GetFlag(FLAGS_grpc_listen);
  config.edge_listen = absl::GetFlag(FLAGS_edge_listen);
  VICINAL_ASSIGN_OR_RETURN(config.edge_uids, ParseUids(absl::GetFlag(FLAGS_edge_uids)));
  config.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  config.metrics_tls = absl::GetFlag(FLAGS_metrics_tls);
  config.status_listen = absl::GetFlag(FLAGS_status_listen);
  config.allow_plaintext_status = absl::GetFlag(FLAGS_allow_plaintext_status);
  config.ready_file = absl::GetFlag(FLAGS_ready_file);
  config.state_dir = absl::GetFlag(FLAGS_state_dir);
  config.state_read_only = absl::GetFlag(FLAGS_state_read_only);
  config.advertise_address = absl::GetFlag(FLAGS_advertise_address);
  if (config.state_read_only && config.state_dir.empty()) {
    return InvalidArgument("BAD_FLAG", "state_read_only",
                           "--state_read_only needs --state_dir: the directory to follow");
  }
  config.scratch_dir = absl::GetFlag(FLAGS_scratch_dir);
  if (!config.scratch_dir.empty() && !config.state_read_only) {
    return InvalidArgument("BAD_FLAG", "scratch_dir",
                           "--scratch_dir is for replicas (--state_read_only); others use --state_dir");
  }
  VICINAL_ASSIGN_OR_RETURN(config.ready_when, ParseReadyWhen(absl::GetFlag(FLAGS_ready_when)));
  config.device = absl::GetFlag(FLAGS_device);
  config.backend_path = absl::GetFlag(FLAGS_backend_path);
  config.threads = absl::GetFlag(FLAGS_threads);
  config.tuning_budget = absl::GetFlag(FLAGS_tuning_budget).time;
  config.max_tuning_per_graph = absl::GetFlag(FLAGS_max_tuning_per_graph).time;
  VICINAL_ASSIGN_OR_RETURN(config.tuning_strategy, ParseTuningStrategy(absl::GetFlag(FLAGS_tuning_strategy)));
  VICINAL_ASSIGN_OR_RETURN(config.keep_answers, ParseKeepAnswers(absl::GetFlag(FLAGS_keep_answers)));
  config.max_batch_delay = absl::GetFlag(FLAGS_max_batch_delay).time;
  config.limits = LimitsFromFlags();
  config.admin_token_file = absl::GetFlag(FLAGS_admin_token_file);
  config.infer_token_file = absl::GetFlag(FLAGS_infer_token_file);
  if (!config.admin_token_file.empty()) {
    VICINAL_ASSIGN_OR_RETURN(config.credentials.admin_token,
                             ReadTokenFile(config.admin_token_file, "admin_token_file", kPatienceForPipes));
  }
  if (!config.infer_token_file.empty()) {
    VICINAL_ASSIGN_OR_RETURN(config.credentials.infer_token,
                             ReadTokenFile(config.infer_token_file, "infer_token_file", kPatienceForPipes));
  }
  config.principals_file = absl::GetFlag(FLAGS_principals_file);
  if (!config.principals_file.empty()) {
    VICINAL_ASSIGN_OR_RETURN(config.credentials.principals, ReadPrincipals(config.principals_file));
  }
  config.tls_cert_file = absl::GetFlag(FLAGS_tls_cert_file);
  config.tls_key_file = absl::GetFlag(FLAGS_tls_key_file);
  config.tls_client_ca_file = absl::GetFlag(FLAGS_tls_client_ca_file);
  config.health_listen = absl::GetFlag(FLAGS_health_listen);
  config.allow_plaintext_tokens = absl::GetFlag(FLAGS_allow_plaintext_tokens);
  config.reflection = absl::GetFlag(FLAGS_reflection);
  config.drain_delay = absl::GetFlag(FLAGS_drain_delay).time;
  config.drain_timeout = absl::GetFlag(FLAGS_drain_timeout).time;
  config.max_connection_age = absl::GetFlag(FLAGS_max_connection_age).time;
  config.max_connection_age_grace = absl::GetFlag(FLAGS_max_connection_age_grace).time;
  config.keepalive_time = absl::GetFlag(FLAGS_keepalive_time).time;
  config.handshake_timeout = absl::GetFlag(FLAGS_handshake_timeout).time;
  config.message_timeout = absl::GetFlag(FLAGS_message_timeout).time;
  VICINAL_ASSIGN_OR_RETURN(config.log_level, ParseLogLevel(absl::GetFlag(FLAGS_log_level)));
  return config;
}

// Logs why the server cannot start, as the last line. Returns the exit code.
int Fail(const Status& status, JsonLog& log) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  const int code = detail && detail->reason == "BAD_FLAG" ? kBadFlags : 1;
  log.Log(LogLevel::kError, "cannot start",
          {{"reason", detail ? detail->reason : "INTERNAL"}, {"error", std::string(status.message())}});
  return code;
}

// Redirects messages of gRPC and Protobuf to the log, because their own lines are not JSON. gRPC's errors (a failed
// handshake, a connection that broke) become warnings, at most one per second, because clients cause them; all else,
// and everything before the server is ready, is logged at debug level: we report ourselves why it cannot start. Call
// once, before either is used; both log until the process ends. `serving` must live as long.
void TakeLibrariesLogs(JsonLog& given, const std::atomic<bool>& serving) {
  static JsonLog* const log = &given;
  static const std::atomic<bool>* const told = &serving;
  gpr_set_log_function([](gpr_log_func_args* line) {
    static LogLimiter& limiter = *new LogLimiter(Clock::Real(), std::chrono::seconds(1));
    const bool error = line->severity == GPR_LOG_SEVERITY_ERROR && told->load();
    const std::optional<int64_t> left_out = error ? limiter.Admit() : std::nullopt;
    LogFields fields = {{"text", line->message}};
    if (left_out.value_or(0) > 0) fields.emplace_back("left_out", std::to_string(*left_out));
    log->Log(left_out ? LogLevel::kWarning : LogLevel::kDebug, "grpc", fields);
  });
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel, const char*, int, const std::string& message) {
    log->Log(LogLevel::kDebug, "protobuf", {{"text", message}});
  });
}

// Below this limit the number of connections is a risk; Kubernetes and systemd allow far more.
void WarnOfFewFiles(int64_t files, int64_t connections, JsonLog& log) {
  constexpr int64_t kFew = 4096;
  if (files <= 0 || (files >= kFew && connections <= ConnectionsFor(files))) return;
  log.Log(LogLevel::kWarning, "few open files allowed",
          {{"files", absl::StrCat(files)},
           {"max_connections", absl::StrCat(connections)},
           {"hint", "each connection takes two; raise the hard limit (ulimit -Hn, LimitNOFILE)"}});
}

// Abseil ends the process with 1 for a flag it cannot parse, and for --help.
void ExitWith(int status, void* code) {
  if (status == 1) {
    std::fflush(nullptr);
    _exit(*static_cast<int*>(code));
  }
}

Status ParseFlags(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "serves graph neural network inference over gRPC.\nUsage: vicinal-server [--flag=value ...]");
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) { return absl::EndsWith(file, "server/main.cc"); };
  usage.contains_helpshort_flags = usage.contains_help_flags;
  usage.version_string = [] { return absl::StrCat("vicinal-server ", Version(), "\n"); };
  absl::SetFlagsUsageConfig(usage);
  static int code = kBadFlags;
  for (int i = 1; i < argc; ++i) {
    if (absl::StartsWith(argv[i], "--help") || absl::StartsWith(argv[i], "-help")) code = 0;
  }
  on_exit(ExitWith, &code);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  code = 1;
  if (rest.size() <= 1) return OkStatus();
  return InvalidArgument("BAD_FLAG", "", absl::StrCat("unexpected argument '", rest[1], "' (see --help)"));
}

// Time of a stop beyond the drain delay and timeout: last bytes, and threads that finish their work.
constexpr std::chrono::seconds kStopGrace{10};

int Main(int argc, char** argv) {
  GiveLargeBlocksBack();
  // Debian builds Abseil with its search for deadlocks: whenever gRPC takes or gives back one of its locks, it also
  // takes one that the whole process shares.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const sigset_t signals = BlockSignals();
  ::signal(SIGPIPE, SIG_IGN);
  const Status parsed = ParseFlags(argc, argv);
  const StatusOr<Config> config = parsed.ok() ? ConfigFromFlags() : parsed;
  // Never destroyed: other threads log until the process ends.
  static JsonLog& log = *new JsonLog(STDERR_FILENO, config.ok() ? config->log_level : LogLevel::kError, &Clock::Real());
  if (!config.ok()) return Fail(config.status(), log);
  if (const Status status = CheckConfig(*config); !status.ok()) return Fail(status, log);
  static std::atomic<bool> serving{false};
  TakeLibrariesLogs(log, serving);
  WarnOfFewFiles(AllowManyFiles(), config->limits.max_connections, log);
  std::atomic<bool> device_lost{false};
  const auto on_device_lost = [&device_lost] {
    device_lost.store(true);
    kill(getpid(), SIGTERM);
  };
  StatusOr<std::unique_ptr<Server>> server = Server::Start(*config, {}, on_device_lost);
  if (!server.ok()) return Fail(server.status(), log);
  serving.store(true);

  AwaitStopSignal(signals);
  const int code = device_lost.load() ? kDeviceLostExit : 0;
  const StopPlan plan = {[&] { (*server)->Stop(); }, [&] { (*server)->Hurry(); },
                         config->drain_delay + config->drain_timeout + kStopGrace, kStopGrace,
                         code != 0 ? code : kStuckExit};
  const int stopped = StopOrExit(plan, signals, log);
  return stopped != 0 ? stopped : code;
}

}  // namespace
}  // namespace vicinal::server

int main(int argc, char** argv) { return vicinal::server::Main(argc, argv); }
