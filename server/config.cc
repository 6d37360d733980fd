// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/error.h"
#include "server/duration_flag.h"

namespace vicinal::server {
namespace {

constexpr int64_t kMiB = 1 << 20;

// At its memory bound gRPC aborts arbitrary calls. This many clients may each stop in the middle of a message of the
// largest size before other clients are affected.
constexpr int64_t kLargestArriving = 4;

Status BadFlag(const std::string& flag, const std::string& what) {
  return InvalidArgument("BAD_FLAG", flag, absl::StrCat("--", flag, ": ", what));
}

struct Range {
  const char* flag;
  int64_t value;
  int64_t minimum;
  int64_t maximum;
  const char* computed = nullptr;  // what -1 stands for, if it stands for anything
};

Status OutOfRange(const Range& range) {
  if (range.computed == nullptr) {
    return BadFlag(range.flag, absl::StrCat(range.value, " is outside ", range.minimum, "..", range.maximum));
  }
  return BadFlag(range.flag, absl::StrCat(range.value, " is neither within ", range.minimum, "..", range.maximum,
                                          " nor -1, which means ", range.computed));
}

// The smallest chunk of an upload: no server with less could take one.
constexpr int64_t kLeastBudget = kMiB;

Status CheckBudget(int64_t bytes) {
  if (bytes == 0 || bytes >= kLeastBudget) return OkStatus();
  return BadFlag("memory_budget_bytes",
                 absl::StrCat(bytes, " is less than a server without graphs needs; allow at least ", kLeastBudget,
                              " (1MiB), or 0 for unlimited"));
}

Status CheckRanges(const Limits& limits) {
  constexpr int64_t kHuge = int64_t{1} << 60;
  const Range ranges[] = {
      {"max_message_bytes", limits.max_message_bytes, 4096, 1024 * kMiB, "a 32nd of the memory budget, at most 64MiB"},
      {"max_chunk_bytes", limits.max_chunk_bytes, kMiB, 32 * kMiB},
      {"max_nodes", limits.max_nodes, 1, (int64_t{1} << 31) - 1},
      {"max_edges", limits.max_edges, 1, kHuge},
      {"max_features", limits.max_features, 1, kHuge},
      {"max_upload_bytes", limits.max_upload_bytes, 1, kHuge},
      {"max_open_uploads", limits.max_open_uploads, 1, 1'000'000},
      {"max_request_nodes", limits.max_request_nodes, 1, kHuge},
      {"max_response_bytes", limits.max_response_bytes, 1024, 1024 * kMiB},
      {"max_batch_graphs", limits.max_batch_graphs, 1, kHuge},
      {"max_queue", limits.max_queue, 1, kHuge},
      {"max_queue_per_client", limits.max_queue_per_client, 1, kHuge, "half of --max_queue"},
      {"max_preparations", limits.max_preparations, 1, kHuge},
      {"max_graphs", limits.max_graphs, 1, kHuge},
      {"max_feature_sets", limits.max_feature_sets, 1, kHuge},
      {"max_models", limits.max_models, 1, kHuge},
      {"max_cached_plans", limits.max_cached_plans, 1, kHuge},
      {"max_label_names", limits.max_label_names, 0, 100'000},
      {"max_concurrent_streams", limits.max_concurrent_streams, 1, 1'000'000},
      {"max_connections", limits.max_connections, 1, 1'000'000, "as many as files may be open"},
      {"max_connections_per_address", limits.max_connections_per_address, 1, 1'000'000, "half of --max_connections"},
      {"max_open_calls", limits.max_open_calls, 1, 10'000'000, "one for each 64KiB of the memory budget"},
      {"max_worker_queue", limits.max_worker_queue, 1, 1'000'000},
      {"memory_budget_bytes", limits.memory_budget_bytes, 0, kHuge, "three quarters of the memory"},
      {"device_memory_bytes", limits.device_memory_bytes, 0, kHuge},
      {"max_answer_bytes", limits.max_answer_bytes, 0, kHuge, "a quarter of the memory budget"},
      {"max_reply_bytes_per_client", limits.max_reply_bytes_per_client, 0, kHuge, "half of the memory budget"},
      {"max_stream_bytes_per_client", limits.max_stream_bytes_per_client, 0, kHuge, "an eighth of the memory budget"},
      {"max_arriving_bytes", limits.max_arriving_bytes, 0, kHuge, "an eighth of the memory budget"},
  };
  for (const Range& range : ranges) {
    if (range.value < range.minimum || range.value > range.maximum) return OutOfRange(range);
  }
  VICINAL_RETURN_IF_ERROR(CheckBudget(limits.memory_budget_bytes));
  // A message contains a chunk and a few further bytes.
  if (limits.max_chunk_bytes + 4096 > limits.max_message_bytes) {
    return BadFlag("max_chunk_bytes",
                   absl::StrCat("a chunk of ", limits.max_chunk_bytes,
                                " bytes does not fit in a message of --max_message_bytes=", limits.max_message_bytes));
  }
  const int64_t least = kLargestArriving * limits.max_message_bytes;
  if (limits.max_arriving_bytes != 0 && limits.max_arriving_bytes < least) {
    return BadFlag("max_arriving_bytes",
                   absl::StrCat(limits.max_arriving_bytes, " is less than ", kLargestArriving,
                                " messages of --max_message_bytes=", limits.max_message_bytes, ", ", least, " bytes"));
  }
  return OkStatus();
}

// Within these, sums of durations and times fit in 64 bits of nanoseconds, and durations fit in gRPC's 32 bits of
// milliseconds.
Status CheckDurations(const Config& config) {
  using std::chrono::hours, std::chrono::milliseconds, std::chrono::seconds;
  constexpr milliseconds kNone{0};
  constexpr hours kDay{24}, kLongest = 10 * kDay;
  struct Range {
    const char* flag;
    milliseconds value, minimum, maximum;
  };
  const Range ranges[] = {
      {"tuning_budget", config.tuning_budget, kNone, hours(1)},
      {"max_tuning_per_graph", config.max_tuning_per_graph, kNone, kDay},
      {"max_batch_delay", config.max_batch_delay, kNone, seconds(10)},
      {"drain_delay", config.drain_delay, kNone, kDay},
      {"drain_timeout", config.drain_timeout, kNone, kDay},
      {"max_connection_age", config.max_connection_age, kNone, kLongest},
      {"max_connection_age_grace", config.max_connection_age_grace, kNone, kLongest},
      {"keepalive_time", config.keepalive_time, kNone, kDay},
      {"handshake_timeout", config.handshake_timeout, milliseconds(100), hours(1)},
      {"message_timeout", config.message_timeout, milliseconds(100), kDay},
      {"upload_ttl", config.limits.upload_ttl, seconds(1), kLongest},
      {"default_deadline", config.limits.default_deadline, kNone, kDay},
      {"send_timeout", config.limits.send_timeout, seconds(1), kLongest},
  };
  for (const Range& range : ranges) {
    if (range.value >= range.minimum && range.value <= range.maximum) continue;
    return BadFlag(range.flag, absl::StrCat("must be within ", AbslUnparseFlag(range.minimum), " and ",
                                            AbslUnparseFlag(range.maximum)));
  }
  return OkStatus();
}

Status CheckAdvertised(const std::string& address) {
  if (address.empty()) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(const auto parts, SplitAddress(address, "advertise_address"));
  if (parts.second != 0) return OkStatus();
  return BadFlag("advertise_address", absl::StrCat("'", address, "' has port 0, which nobody can call"));
}

Status CheckTls(const Config& config) {
  if (config.tls_cert_file.empty() != config.tls_key_file.empty()) {
    const char* const missing = config.tls_cert_file.empty() ? "tls_cert_file" : "tls_key_file";
    return BadFlag(missing, "TLS needs both --tls_cert_file and --tls_key_file");
  }
  if (!config.tls_client_ca_file.empty() && !UsesTls(config)) {
    return BadFlag("tls_client_ca_file", "needs --tls_cert_file and --tls_key_file, too");
  }
  if (config.metrics_tls && !UsesTls(config)) {
    return BadFlag("metrics_tls", "needs --tls_cert_file and --tls_key_file, too");
  }
  return OkStatus();
}

Status CheckWhoMayCall(const Config& config, const std::string& host) {
  VICINAL_RETURN_IF_ERROR(CheckCredentials(config.credentials));
  const Credentials& known = config.credentials;
  const bool named = std::any_of(known.principals.begin(), known.principals.end(),
                                 [](const Principal& one) { return !one.certificate_names.empty(); });
  if (named && config.tls_client_ca_file.empty() && config.edge_listen.empty()) {
    return BadFlag("principals_file",
                   "names client certificates, which needs --tls_client_ca_file, or --edge_listen with a proxy");
  }
  const bool tokens = !known.admin_token.empty() || !known.infer_token.empty() ||
                      std::any_of(known.principals.begin(), known.principals.end(),
                                  [](const Principal& one) { return !one.tokens.empty(); });
  if (tokens && !host.empty() && !IsLoopback(host) && !UsesTls(config) && !config.allow_plaintext_tokens) {
    return BadFlag("grpc_listen", absl::StrCat("tokens would travel in plain text to ", host,
                                               "; set --tls_cert_file and --tls_key_file, listen on a loopback "
                                               "address, or set --allow_plaintext_tokens if something else encrypts "
                                               "the connection"));
  }
  return OkStatus();
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> ListOf(const Limits& limits) {
  return {{"max_message_bytes", limits.max_message_bytes},
          {"max_chunk_bytes", limits.max_chunk_bytes},
          {"max_nodes", limits.max_nodes},
          {"max_edges", limits.max_edges},
          {"max_features", limits.max_features},
          {"max_upload_bytes", limits.max_upload_bytes},
          {"max_open_uploads", limits.max_open_uploads},
          {"upload_ttl", limits.upload_ttl.count() / 1000},
          {"max_request_nodes", limits.max_request_nodes},
          {"max_response_bytes", limits.max_response_bytes},
          {"max_batch_graphs", limits.max_batch_graphs},
          {"max_queue", limits.max_queue},
          {"max_queue_per_client", limits.max_queue_per_client},
          {"default_deadline", limits.default_deadline.count() / 1000},
          {"max_preparations", limits.max_preparations},
          {"max_graphs", limits.max_graphs},
          {"max_feature_sets", limits.max_feature_sets},
          {"max_models", limits.max_models},
          {"max_cached_plans", limits.max_cached_plans},
          {"max_label_names", limits.max_label_names},
          {"max_concurrent_streams", limits.max_concurrent_streams},
          {"max_connections", limits.max_connections},
          {"max_connections_per_address", limits.max_connections_per_address},
          {"max_open_calls", limits.max_open_calls},
          {"max_worker_queue", limits.max_worker_queue},
          {"memory_budget_bytes", limits.memory_budget_bytes},
          {"device_memory_bytes", limits.device_memory_bytes},
          {"max_answer_bytes", limits.max_answer_bytes},
          {"max_reply_bytes_per_client", limits.max_reply_bytes_per_client},
          {"max_stream_bytes_per_client", limits.max_stream_bytes_per_client},
          {"send_timeout", limits.send_timeout.count() / 1000},
          {"max_arriving_bytes", limits.max_arriving_bytes}};
}

int64_t DefaultMessageBytes(const Limits& limits) {
  constexpr int64_t kMax = 64 * kMiB;
  if (limits.memory_budget_bytes == 0) return kMax;
  return std::max(std::min(kMax, limits.memory_budget_bytes / 8 / kLargestArriving), 2 * limits.max_chunk_bytes);
}

int64_t DefaultArrivingBytes(const Limits& limits) {
  if (limits.memory_budget_bytes == 0) return 0;
  return std::max(limits.memory_budget_bytes / 8, kLargestArriving * limits.max_message_bytes);
}

int64_t DefaultOpenCalls(const Limits& limits) {
  constexpr int64_t kMost = 10'000, kLeast = 256, kBudgetEach = 64 << 10;
  if (limits.memory_budget_bytes == 0) return kMost;
  return std::clamp(limits.memory_budget_bytes / kBudgetEach, kLeast, kMost);
}

int64_t DefaultReplyBytesPerClient(const Limits& limits) { return limits.memory_budget_bytes / 2; }

int64_t DefaultStreamBytesPerClient(const Limits& limits) {
  if (limits.memory_budget_bytes == 0) return 0;
  return std::max(limits.memory_budget_bytes / 8, 64 * kMiB);
}

int64_t DefaultAnswerBytes(const Limits& limits) {
  return limits.memory_budget_bytes == 0 ? 1024 * kMiB : limits.memory_budget_bytes / 4;
}

StatusOr<std::pair<std::string, int>> SplitAddress(const std::string& address, const char* flag) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return BadFlag(flag, absl::StrCat("'", address, "' is not HOST:PORT"));
  }
  std::string host = address.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find(':') != std::string::npos) {
    return BadFlag(flag, absl::StrCat("'", address, "': write an IPv6 address in brackets, [::1]:8500"));
  }
  return std::make_pair(std::move(host), port);
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr v6;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed || inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

bool UsesTls(const Config& config) { return !config.tls_cert_file.empty(); }

bool IsExposed(const Config& config) {
  if (config.grpc_listen.empty() || !config.tls_client_ca_file.empty()) return false;
  const auto address = SplitAddress(config.grpc_listen, "grpc_listen");
  return address.ok() && !IsLoopback(address->first);
}

std::vector<std::string> WarningsOf(const Config& config) {
  if (!IsExposed(config)) return {};
  return {absl::StrCat("open to the network: anyone who reaches ", config.grpc_listen,
                       " can exhaust the server's memory, with or without a token; require client certificates "
                       "(--tls_client_ca_file), or listen on a loopback address or --edge_listen behind the edge")};
}

StatusOr<std::vector<uid_t>> ParseUids(const std::string& text) {
  std::vector<uid_t> uids;
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    uint32_t uid = 0;
    if (!absl::SimpleAtoi(word, &uid)) {
      return BadFlag("edge_uids", absl::StrCat("'", word, "' is not a numeric user id; write 1000 or 1000,1001"));
    }
    uids.push_back(uid);
  }
  return uids;
}

StatusOr<ReadyWhen> ParseReadyWhen(const std::string& text) {
  if (text == "all") return ReadyWhen::kAll;
  if (text == "any") return ReadyWhen::kAny;
  return BadFlag("ready_when", absl::StrCat("is '", text, "'; it must be all or any"));
}

StatusOr<TuningStrategy> ParseTuningStrategy(const std::string& text) {
  for (const TuningStrategy strategy : {TuningStrategy::kMeasured, TuningStrategy::kEstimated}) {
    if (text == ToString(strategy)) return strategy;
  }
  return BadFlag("tuning_strategy", absl::StrCat("is '", text, "'; it must be measured or estimated"));
}

StatusOr<KeepAnswers> ParseKeepAnswers(const std::string& text) {
  if (text == "auto") return KeepAnswers::kAuto;
  if (text == "always") return KeepAnswers::kAlways;
  if (text == "never") return KeepAnswers::kNever;
  return BadFlag("keep_answers", absl::StrCat("is '", text, "'; it must be auto, always or never"));
}

Status CheckConfig(const Config& config) {
  std::string host;  // empty: only the unix socket
  if (!config.grpc_listen.empty()) {
    VICINAL_ASSIGN_OR_RETURN(const auto grpc, SplitAddress(config.grpc_listen, "grpc_listen"));
    host = grpc.first;
  } else if (config.edge_listen.empty()) {
    return BadFlag("grpc_listen", "is empty, which needs --edge_listen");
  }
  if (!config.metrics_listen.empty()) {
    VICINAL_RETURN_IF_ERROR(SplitAddress(config.metrics_listen, "metrics_listen").status());
  }
  if (!config.status_listen.empty()) {
    VICINAL_ASSIGN_OR_RETURN(const auto status, SplitAddress(config.status_listen, "status_listen"));
    if (!IsLoopback(status.first) && !config.allow_plaintext_status) {
      return BadFlag(
          "status_listen",
          absl::StrCat("the page, and the tokens of those who sign in, would travel in plain text to ", status.first,
                       "; listen on a loopback address, or set --allow_plaintext_status if something "
                       "else encrypts the connection"));
    }
  }
  if (!config.health_listen.empty()) {
    VICINAL_RETURN_IF_ERROR(SplitAddress(config.health_listen, "health_listen").status());
  }
  if (config.threads < 0 || config.threads > 4096) return BadFlag("threads", "must be within 0..4096");
  VICINAL_RETURN_IF_ERROR(CheckDurations(config));
  VICINAL_RETURN_IF_ERROR(CheckRanges(config.limits));
  VICINAL_RETURN_IF_ERROR(CheckAdvertised(config.advertise_address));
  VICINAL_RETURN_IF_ERROR(CheckTls(config));
  return CheckWhoMayCall(config, host);
}

}  // namespace vicinal::server
