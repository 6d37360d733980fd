// SPDX-License-Identifier: Apache-2.0
#include "server/rpc_scope.h"

#include <grpcpp/server_context.h>

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "proto/wire/names.h"
#include "server/call_log.h"
#include "server/errors.h"
#include "server/rpc_credentials.h"

namespace vicinal::server {
namespace {

// Smaller messages are not counted against the budget: gRPC and the call itself use as much.
constexpr size_t kSmallMessageBytes = 64 << 10;

std::string_view Std(const grpc::string_ref& text) { return {text.data(), text.size()}; }

}  // namespace

RpcScope::RpcScope(Core& core, grpc::CallbackServerContext* context, Method method)
    : core_(core), context_(context), cancel_(std::make_shared<CancelToken>()), logged_(IsLogged(method, core.log)) {
  call_.method = method;
  call_.begin = core_.clock.Now();
  call_.limits.cancel = cancel_;
  const auto deadline = context_->deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    const auto left = deadline - std::chrono::system_clock::now();
    // Deadlines of centuries must not overflow the monotonic clock.
    if (left < std::chrono::hours(24 * 365)) call_.limits.deadline = call_.begin + left;
  }
  core_.metrics.BeginCall(method);
  const bool open = core_.drain.Enter();
  admitted_ = OrOutOfMemory([&] { return ReadMetadata(); });
  if (admitted_.code() == StatusCode::kUnauthenticated) core_.refusals.Count(PeerName(context_->peer()));
  if (!open) admitted_ = Drain::Refusal();
  if (!admitted_.ok()) return;
  admitted_ = core_.open_calls.Enter();
  has_place_ = admitted_.ok();
}

RpcScope::~RpcScope() {
  if (has_stream_place_) core_.open_calls.LeaveStream(call_.principal);
  if (has_place_) core_.open_calls.Leave(answered_);
}

Status RpcScope::ReadMetadata() {
  Caller caller;
  for (const auto& [key, value] : context_->client_metadata()) {
    const std::string_view name = Std(key);
    if (name == wire::kAuthorizationMetadata) {
      caller.authorization = Std(value);
    } else if (name == wire::kGraphMetadata) {
      call_.RouteTo(Std(value));
    } else if (name == wire::kRequestIdMetadata) {
      if (IsUsableRequestId(Std(value))) call_.request_id = std::string(Std(value));
    } else if (name == "traceparent") {
      call_.trace_id = std::string(TraceIdOf(Std(value)));
    }
  }
  if (call_.request_id.empty()) call_.request_id = NewRequestId();
  if (core_.client_certificates) ReadCertificate(*context_, &caller);
  if (core_.edge != nullptr) VICINAL_RETURN_IF_ERROR(ReadEdge(&caller));
  Identity who;
  Status status = core_.auth.Check(caller, InfoOf(call_.method).role, &who);
  call_.role = who.role;
  call_.principal = std::move(who.principal);
  call_.interactive = who.interactive;
  if (logged_ || call_.principal.empty()) {
    if (call_.peer.empty()) call_.peer = PeerName(context_->peer());
    if (call_.principal.empty()) {
      call_.principal = edge_address_.empty() ? std::string(AddressIn(call_.peer)) : edge_address_;
    }
  }
  return status;
}

Status RpcScope::ReadEdge(Caller* caller) {
  call_.peer = PeerName(context_->peer());
  if (!IsUnix(call_.peer)) return OkStatus();
  for (const auto& [key, value] : context_->client_metadata()) {
    const std::string_view name = Std(key);
    if (name == kEdgeCertificateMetadata && !value.empty()) {
      VICINAL_ASSIGN_OR_RETURN(const EdgeCertificates::Names names, core_.edge->NamesIn(Std(value)));
      caller->certificate = true;
      caller->certificate_names = *names;
    } else if (name == kEdgeAddressMetadata && IsUsableRequestId(Std(value))) {
      call_.peer = std::string(Std(value));
      edge_address_ = call_.peer;
    }
  }
  return OkStatus();
}

Status RpcScope::CheckSize(size_t bytes) const {
  const auto size = static_cast<int64_t>(bytes);
  if (size <= core_.limits.max_message_bytes) return OkStatus();
  return OverLimit("max_message_bytes", "", size, core_.limits.max_message_bytes);
}

Status RpcScope::Take(const google::protobuf::Message& message) {
  message_memory_.Release();
  VICINAL_ASSIGN_OR_RETURN(message_memory_, Reserve(message));
  return OkStatus();
}

StatusOr<Reservation> RpcScope::Reserve(const google::protobuf::Message& message) {
  const size_t bytes = message.ByteSizeLong();
  VICINAL_RETURN_IF_ERROR(CheckSize(bytes));
  if (bytes <= kSmallMessageBytes) return Reservation();
  return core_.engine.memory().Reserve(Account::kRequests, static_cast<int64_t>(message.SpaceUsedLong()),
                                       "the call's message");
}

void RpcScope::Cancel() {
  if (call_.EndedByDeadline(core_.clock.Now())) {
    cancel_->Expire();
  } else {
    cancel_->Cancel();
  }
}

Status RpcScope::WhyCancelled() const {
  return OrOutOfMemory([this] {
    if (cancel_->expired() || call_.EndedByDeadline(core_.clock.Now())) {
      return DeadlineExceeded("DEADLINE_EXCEEDED", "the deadline passed");
    }
    ErrorDetail detail;
    detail.reason = "CANCELLED";
    return MakeError(StatusCode::kCancelled, "the client cancelled the call", detail);
  });
}

Status RpcScope::TakeStreamPlace() {
  Status status = OrOutOfMemory([this] { return core_.open_calls.EnterStream(call_.principal); });
  has_stream_place_ = status.ok();
  return status;
}

Status RpcScope::WhyNoMessage() const {
  if (context_->IsCancelled()) return WhyCancelled();
  return NoMessage(InfoOf(call_.method).name);
}

Status RpcScope::CheckArrival(const Arrival& arrival) {
  ++messages_;
  switch (arrival.kind) {
    case Arrival::Kind::kMessage:
      return OkStatus();
    case Arrival::Kind::kMalformed:
      return OrOutOfMemory([&] { return BadMessage(InfoOf(call_.method).name, messages_, arrival.bytes); });
    case Arrival::Kind::kNoMemory:
      return OutOfMemory();
  }
  return OkStatus();
}

grpc::Status RpcScope::Finish(const Status& status) {
  grpc::Status converted(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
  try {
    converted = Report(status);
  } catch (const std::bad_alloc&) {
    // Out of memory even for the error's details: only the code, so that the call ends nevertheless.
  }
  core_.drain.Leave();
  answered_ = true;
  if (has_place_) core_.open_calls.Answered();
  return converted;
}

void RpcScope::EndRequest(const Call& one, StatusCode code) {
  try {
    const double seconds = SecondsBetween(one.begin, core_.clock.Now());
    core_.metrics.EndRequest(one.method, code, seconds, one.graph, one.model);
  } catch (const std::bad_alloc&) {
    // Then it is not counted.
  }
}

void RpcScope::CountCall(StatusCode code, double seconds) {
  if (!CarriesRequests(call_.method)) {
    return core_.metrics.EndCall(call_.method, code, seconds, call_.graph, call_.model);
  }
  core_.metrics.EndStream(call_.method, code);
  // Its client had a request, whose refusal counts as those of single calls do.
  if (!admitted_.ok()) EndRequest(call_, code);
}

grpc::Status RpcScope::Report(const Status& status) {
  const double seconds = SecondsBetween(call_.begin, core_.clock.Now());
  CountCall(status.code(), seconds);
  // Anyone may cause these lines, as many as there is room for on the disk.
  const bool limited = status.code() == StatusCode::kUnauthenticated && !core_.log.enabled(LogLevel::kDebug);
  if (const auto left_out = limited ? core_.unknown_callers.Admit() : std::optional<int64_t>(0)) {
    MutexLock lock(&subject_mutex_);
    LogCall(call_, subject_, status, seconds, *left_out, &core_.log);
  }
  if (!status.ok()) {
    context_->AddTrailingMetadata(wire::kRequestIdMetadata, call_.request_id);
    if (const auto pushback = PushbackOf(status)) {
      context_->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(pushback->count()));
    }
  }
  return ToGrpc(status);
}

}  // namespace vicinal::server
