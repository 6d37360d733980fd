// SPDX-License-Identifier: Apache-2.0
// An interceptor that checks the status of each call when it is sent. The server's own code never returns UNIMPLEMENTED
// without a text, and calls of unknown methods get no interceptor. Therefore such a status comes from gRPC, for a
// message that it could not parse. gRPC's health service sends a text instead, with different codes in Check and Watch.
#include "server/services/unreadable.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/call_log.h"
#include "server/errors.h"
#include "server/methods.h"

namespace vicinal::server {
namespace {

using grpc::experimental::InterceptionHookPoints;

// gRPC's text for a message that it could not read.
bool IsOfMethods(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty();
}
bool IsOfHealth(const grpc::Status& status) { return status.error_message() == "could not parse request"; }

class Unreadable final : public grpc::experimental::Interceptor {
 public:
  // `name`: "package.Service/Method"; must outlive the call. `method`: set for Vicinal's own methods, whose calls are
  // counted.
  Unreadable(Core& core, std::string_view name, std::optional<Method> method, const grpc::ServerContextBase* context)
      : core_(core), name_(name), method_(method), context_(context) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (method_ ? IsOfMethods(status) : IsOfHealth(status)) methods->ModifySendStatus(Answer());
    }
    methods->Proceed();
  }

 private:
  grpc::Status Answer() const {
    const Status status = InvalidArgument(
        "BAD_MESSAGE", "",
        absl::StrCat("the message is not valid Protobuf of the type of ", std::string(name_),
                     "; is it truncated, of another method, or generated from another .proto than the server's?"));
    if (method_) Report(status);
    return ToGrpc(status);
  }
  void Report(const Status& status) const {
    core_.metrics.BeginCall(*method_);
    core_.metrics.EndCall(*method_, status.code(), 0.0, "", "");
    Call call;
    call.method = *method_;
    call.peer = PeerName(context_->peer());
    LogCall(call, {}, status, 0.0, &core_.log);
  }

  Core& core_;
  const std::string_view name_;
  const std::optional<Method> method_;
  const grpc::ServerContextBase* const context_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(Core& core) : core_(core) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    if (info->type() == grpc::experimental::ServerRpcInfo::Type::CLIENT_STREAMING) return nullptr;
    constexpr std::string_view kHealth = "grpc.health.v1.Health/";
    std::string_view name(info->method());  // "/package.Service/Method"
    name.remove_prefix(std::min<size_t>(1, name.size()));
    if (name.substr(0, kHealth.size()) == kHealth)
      return new Unreadable(core_, name, std::nullopt, info->server_context());
    const auto found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                    [name](const MethodInfo& method) { return name == method.name; });
    if (found == std::end(kMethods)) return nullptr;
    return new Unreadable(core_, name, static_cast<Method>(found - std::begin(kMethods)), info->server_context());
  }

 private:
  Core& core_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AnswerUnreadable(Core& core) {
  return std::make_unique<Factory>(core);
}

}  // namespace vicinal::server
