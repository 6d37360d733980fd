// SPDX-License-Identifier: Apache-2.0
#include "server/call_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace vicinal::server {
namespace {

// A message may quote long input of the client.
constexpr size_t kLongestError = 1024;

constexpr std::string_view kUnix = "unix:";

LogLevel LevelOf(Method method, StatusCode code) {
  if (code == StatusCode::kInternal) return LogLevel::kError;
  if (!InfoOf(method).changes) return LogLevel::kDebug;
  const bool forbidden = code == StatusCode::kUnauthenticated || code == StatusCode::kPermissionDenied;
  return forbidden ? LogLevel::kWarning : LogLevel::kInfo;
}

const char* MessageOf(Method method, StatusCode code) {
  if (code == StatusCode::kInternal) return "request failed";
  return InfoOf(method).changes ? "admin request" : "request finished";
}

const std::string& FirstOf(const std::string& one, const std::string& other) { return one.empty() ? other : one; }

}  // namespace

bool IsLogged(Method method, const JsonLog& log) { return log.enabled(LevelOf(method, StatusCode::kPermissionDenied)); }

void LogCall(const Call& call, const Subject& subject, const Status& status, double seconds, int64_t left_out,
             JsonLog* log) {
  const LogLevel level = LevelOf(call.method, status.code());
  if (!log->enabled(level)) return;
  LogFields fields = {{"method", InfoOf(call.method).name},
                      {"code", absl::StatusCodeToString(status.code())},
                      {"seconds", absl::StrCat(seconds)}};
  const auto add = [&fields](const char* name, std::string_view value) {
    if (!value.empty()) fields.emplace_back(name, std::string(value));
  };
  add("action", subject.action);
  add("graph", FirstOf(subject.graph, FirstOf(call.graph, call.routed_graph)));
  add("feature_set", subject.feature_set);
  add("model", FirstOf(subject.model, call.model));
  if (subject.version != 0) add("version", std::to_string(subject.version));
  add("kernel", subject.kernel);
  add("upload_id", subject.upload_id);
  add("upload", subject.upload);
  add("principal", call.principal);
  add("role", call.role);
  add("peer", call.peer);
  add("request_id", call.request_id);
  add("trace_id", call.trace_id);
  if (!status.ok()) {
    const std::string_view error(status.message().data(), std::min(status.message().size(), kLongestError));
    add("error", error);
  }
  if (left_out > 0) fields.emplace_back("left_out", std::to_string(left_out));
  log->Log(level, MessageOf(call.method, status.code()), fields);
}

std::string PeerName(std::string_view peer) {
  for (const std::string_view kind : {"ipv4:", "ipv6:"}) {
    if (peer.substr(0, kind.size()) != kind) continue;
    const std::string_view rest = peer.substr(kind.size());
    return absl::StrReplaceAll(absl::string_view(rest.data(), rest.size()), {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
  }
  return std::string(peer);
}

bool IsUnix(std::string_view peer_name) { return peer_name.substr(0, kUnix.size()) == kUnix; }

std::string_view AddressIn(std::string_view peer_name) {
  if (IsUnix(peer_name)) return kUnix;
  return peer_name.substr(0, peer_name.rfind(':'));
}

}  // namespace vicinal::server
