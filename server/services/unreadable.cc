// SPDX-License-Identifier: Apache-2.0
// An interceptor that looks at the status of each call as it leaves. Nothing of ours says UNIMPLEMENTED without a text,
// and calls of methods that are not there get no interceptor: so such a status is gRPC's, of a message it could not
// read.
#include "server/services/unreadable.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/errors.h"
#include "server/methods.h"

namespace vicinal::server {
namespace {

using grpc::experimental::InterceptionHookPoints;

class Unreadable final : public grpc::experimental::Interceptor {
 public:
  Unreadable(Core& core, Method method) : core_(core), method_(method) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
        methods->ModifySendStatus(Answer());
      }
    }
    methods->Proceed();
  }

 private:
  grpc::Status Answer() const {
    core_.metrics.BeginCall(method_);
    core_.metrics.EndCall(method_, StatusCode::kInvalidArgument, 0.0, "", "");
    return ToGrpc(InvalidArgument(
        "BAD_MESSAGE", "",
        absl::StrCat("the message is no Protobuf of the type that ", InfoOf(method_).name,
                     " takes; is it cut short, of another method, or made from another .proto than the server's?")));
  }

  Core& core_;
  const Method method_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(Core& core) : core_(core) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    if (info->type() == grpc::experimental::ServerRpcInfo::Type::CLIENT_STREAMING) return nullptr;
    const std::string_view path(info->method());  // "/package.Service/Method"
    const auto found = std::find_if(std::begin(kMethods), std::end(kMethods), [path](const MethodInfo& method) {
      return !path.empty() && path.substr(1) == method.name;
    });
    if (found == std::end(kMethods)) return nullptr;
    return new Unreadable(core_, static_cast<Method>(found - std::begin(kMethods)));
  }

 private:
  Core& core_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> AnswerUnreadable(Core& core) {
  return std::make_unique<Factory>(core);
}

}  // namespace vicinal::server
