// SPDX-License-Identifier: Apache-2.0
// The messages by hand, because Debian packages no generated code: the request's field 1 is the service (a string), the
// reply's field 1 its status (an enum).
#include "server/services/health_service.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "server/call_log.h"
#include "server/errors.h"
#include "server/services/method_service.h"

namespace vicinal::server {
namespace {

constexpr char kCheck[] = "grpc.health.v1.Health/Check", kWatch[] = "grpc.health.v1.Health/Watch";
constexpr uint32_t kServiceTag = 1 << 3 | 2;
constexpr char kStatusTag = 1 << 3 | 0;
constexpr char kServing = 1, kNotServing = 2, kServiceUnknown = 3;

// The service that a request names; nullopt: it does not parse.
std::optional<std::string> ServiceIn(const grpc::ByteBuffer& request) {
  using google::protobuf::internal::WireFormatLite;
  std::vector<grpc::Slice> slices;
  if (!request.Dump(&slices).ok()) return std::nullopt;
  std::string bytes, service;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  while (const uint32_t tag = input.ReadTag()) {
    if (tag != kServiceTag) {
      if (!WireFormatLite::SkipField(&input, tag)) return std::nullopt;
    } else if (!WireFormatLite::ReadString(&input, &service)) {
      return std::nullopt;
    }
  }
  if (!input.ConsumedEntireMessage()) return std::nullopt;
  return service;
}

grpc::ByteBuffer ReplyOf(char status) {
  const char bytes[] = {kStatusTag, status};
  const grpc::Slice slice(bytes, sizeof(bytes));
  return grpc::ByteBuffer(&slice, 1);
}

// What both methods begin with: a place, and the message.
class HealthReactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  HealthReactor(Core& core, OpenCalls& calls, HealthStates& states, grpc::CallbackServerContext* context,
                const char* method)
      : states_(states), core_(core), calls_(calls), context_(context), method_(method) {}
  ~HealthReactor() override {
    if (has_place_) calls_.Leave();
  }

  void Begin() {
    const Status entered = calls_.Enter();
    if (!entered.ok()) {
      core_.refusals.Count(PeerName(context_->peer()));
      return Finish(ToGrpc(entered));
    }
    has_place_ = true;
    ticket_ = calls_.Await([this](const Status& why) { Finish(ToGrpc(why)); });
    StartRead(&request_);
  }
  void OnReadDone(bool ok) final {
    if (!calls_.Arrived(ticket_)) return;
    std::optional<std::string> service;
    const Status status = OrOutOfMemory([&]() -> Status {
      if (ok) service = ServiceIn(request_);
      if (service || context_->IsCancelled()) return OkStatus();
      return ok ? BadMessage(method_, 1, request_.Length()) : NoMessage(method_);
    });
    if (!status.ok()) return Finish(ToGrpc(status));
    if (!service) return Finish(grpc::Status::CANCELLED);
    Start(*service);
  }
  void OnDone() override { delete this; }

 protected:
  // Ends in one Finish.
  virtual void Start(const std::string& service) = 0;
  char StatusOf(const std::string& service) const {
    const std::optional<bool> serves = states_.Serves(service);
    return !serves ? kServiceUnknown : *serves ? kServing : kNotServing;
  }

  HealthStates& states_;
  grpc::ByteBuffer reply_;

 private:
  Core& core_;
  OpenCalls& calls_;
  grpc::CallbackServerContext* const context_;
  const char* const method_;
  bool has_place_ = false;
  OpenCalls::Ticket ticket_;
  grpc::ByteBuffer request_;
};

class CheckReactor final : public HealthReactor {
 public:
  CheckReactor(Core& core, OpenCalls& calls, HealthStates& states, grpc::CallbackServerContext* context)
      : HealthReactor(core, calls, states, context, kCheck) {}

 private:
  void Start(const std::string& service) override {
    const char status = StatusOf(service);
    if (status == kServiceUnknown) return Finish(ToGrpc(NotFound("service", service)));
    reply_ = ReplyOf(status);
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }
};

// The state at once, and after each change, until the client goes.
class HealthWatchReactor final : public HealthReactor {
 public:
  HealthWatchReactor(Core& core, OpenCalls& calls, HealthStates& states, grpc::CallbackServerContext* context)
      : HealthReactor(core, calls, states, context, kWatch) {}
  ~HealthWatchReactor() override { states_.Forget(watch_); }

  void OnWriteDone(bool ok) override {
    bool end = false;
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      cancelled_ = cancelled_ || !ok;
      end = cancelled_ && !std::exchange(ended_, true);
    }
    if (end) return Finish(grpc::Status::CANCELLED);
    Pump();
  }
  void OnCancel() override {
    {
      MutexLock lock(&mutex_);
      cancelled_ = true;
      if (!started_ || writing_ || std::exchange(ended_, true)) return;
    }
    Finish(grpc::Status::CANCELLED);
  }

 private:
  void Start(const std::string& service) override {
    service_ = service;
    bool end = false;
    {
      MutexLock lock(&mutex_);
      started_ = true;
      end = cancelled_ && !std::exchange(ended_, true);
    }
    if (end) return Finish(grpc::Status::CANCELLED);
    watch_ = states_.Watch([this] { Pump(); });
    Pump();
  }
  // Sends the state, unless it was sent, or a write is in progress.
  void Pump() {
    {
      MutexLock lock(&mutex_);
      const char status = StatusOf(service_);
      if (writing_ || ended_ || status == sent_) return;
      writing_ = true;
      sent_ = status;
      reply_ = ReplyOf(status);
    }
    StartWrite(&reply_);
  }

  std::string service_;
  int64_t watch_ = 0;
  Mutex mutex_;
  bool started_ VICINAL_GUARDED_BY(mutex_) = false;
  bool writing_ VICINAL_GUARDED_BY(mutex_) = false;
  bool cancelled_ VICINAL_GUARDED_BY(mutex_) = false;
  bool ended_ VICINAL_GUARDED_BY(mutex_) = false;
  char sent_ VICINAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeHealthService(Core& core, HealthStates& states, HealthPlaces& places) {
  auto service = std::make_unique<MethodService>(core);
  service->AddStream<grpc::ByteBuffer, grpc::ByteBuffer>(kCheck, [&](grpc::CallbackServerContext* context) {
    return new CheckReactor(core, places.checks, states, context);
  });
  service->AddStream<grpc::ByteBuffer, grpc::ByteBuffer>(kWatch, [&](grpc::CallbackServerContext* context) {
    return new HealthWatchReactor(core, places.watches, states, context);
  });
  return service;
}

}  // namespace vicinal::server
