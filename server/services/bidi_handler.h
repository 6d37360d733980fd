// SPDX-License-Identifier: Apache-2.0
// gRPC's handler of bidirectional streams, for streams of Received messages (received.h), with one difference: a
// reactor's OnDone is called by the thread that sees the end of the call. gRPC 1.51 wakes a thread of its executor for
// it, which cost a small call a quarter of its time, since all our calls are such streams (method_service.h). Our
// reactors allow it: their OnDone returns at once, or leaves what may wait to a worker.
//
// It must do what gRPC's handler does, in the same order, so it is only for the version that it was compared with; any
// other gets its own handler.
#ifndef VICINAL_SERVER_SERVICES_BIDI_HANDLER_H_
#define VICINAL_SERVER_SERVICES_BIDI_HANDLER_H_

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/version_info.h>

#include <atomic>
#include <functional>
#include <new>
#include <utility>

#include "server/services/received.h"

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51

namespace grpc::internal {

template <class Message, class Response>
class CallbackBidiHandler<vicinal::server::Received<Message>, Response> final : public MethodHandler {
 public:
  using Request = vicinal::server::Received<Message>;
  using Reactor = ServerBidiReactor<Request, Response>;

  explicit CallbackBidiHandler(std::function<Reactor*(CallbackServerContext*)> make) : make_(std::move(make)) {}

  void RunHandler(const HandlerParameter& param) override {
    auto* const context = static_cast<CallbackServerContext*>(param.server_context);
    g_core_codegen_interface->grpc_call_ref(param.call->call());
    auto* const stream = InArena<Stream>(param.call, context, param.call, param.call_requester);
    context->BeginCompletionOp(
        param.call, [stream](bool) { stream->MaybeDone(kHere); }, stream);
    Reactor* reactor = param.status.ok() ? CatchingReactorGetter<Reactor>(make_, context) : nullptr;
    if (reactor == nullptr) {
      reactor = InArena<UnimplementedBidiReactor<Request, Response>>(param.call, Status(StatusCode::UNIMPLEMENTED, ""));
    }
    stream->Begin(reactor);
  }

 private:
  // Whether the thread that sees the end calls OnDone.
  static constexpr bool kHere = true;

  // The call's memory lives until its last reference is gone.
  template <class T, class... Args>
  static T* InArena(Call* call, Args&&... args) {
    void* const memory = g_core_codegen_interface->grpc_call_arena_alloc(call->call(), sizeof(T));
    return new (memory) T(std::forward<Args>(args)...);
  }

  // The base counts what is under way: the start, the end (Finish), the completion of the call, and each operation.
  class Stream final : public ServerCallbackReaderWriter<Request, Response> {
   public:
    Stream(CallbackServerContext* context, Call* call, std::function<void()> call_requester)
        : context_(context), call_(*call), call_requester_(std::move(call_requester)) {}

    void Begin(Reactor* reactor) {
      reactor_ = reactor;
      Prepare(&read_tag_, &read_ops_, [this, reactor](bool ok) {
        if (!ok) context_->MaybeMarkCancelledOnRead();
        reactor->OnReadDone(ok);
      });
      Prepare(&write_tag_, &write_ops_, [reactor](bool ok) { reactor->OnWriteDone(ok); });
      this->BindReactor(reactor);
      this->MaybeCallOnCancel(reactor);
      this->MaybeDone(kHere);
    }

    void Read(Request* request) override {
      this->Ref();
      read_ops_.RecvMessage(request);
      call_.PerformOps(&read_ops_);
    }
    void Write(const Response* response, WriteOptions options) override {
      this->Ref();
      if (options.is_last_message()) options.set_buffer_hint();
      AddInitialMetadata(&write_ops_);
      AddMessage(response, options, &write_ops_);
      call_.PerformOps(&write_ops_);
    }
    void WriteAndFinish(const Response* response, WriteOptions options, Status status) override {
      AddMessage(response, options, &finish_ops_);
      Finish(std::move(status));
    }
    void Finish(Status status) override {
      finish_tag_.Set(
          call_.call(), [this](bool) { this->MaybeDone(kHere); }, &finish_ops_, /*can_inline=*/true);
      finish_ops_.set_core_cq_tag(&finish_tag_);
      AddInitialMetadata(&finish_ops_);
      finish_ops_.ServerSendStatus(&context_->trailing_metadata_, status);
      call_.PerformOps(&finish_ops_);
    }
    void SendInitialMetadata() override {
      this->Ref();
      Prepare(&metadata_tag_, &metadata_ops_, [this](bool ok) { reactor_.load()->OnSendInitialMetadataDone(ok); });
      AddInitialMetadata(&metadata_ops_);
      call_.PerformOps(&metadata_ops_);
    }

   private:
    // `react` is called when an operation of `ops` has ended.
    template <class Ops, class React>
    void Prepare(CallbackWithSuccessTag* tag, Ops* ops, React react) {
      tag->Set(
          call_.call(),
          [this, react](bool ok) {
            react(ok);
            this->MaybeDone(kHere);
          },
          ops, /*can_inline=*/false);
      ops->set_core_cq_tag(tag);
    }
    template <class Ops>
    void AddInitialMetadata(Ops* ops) {
      if (context_->sent_initial_metadata_) return;
      ops->SendInitialMetadata(&context_->initial_metadata_, context_->initial_metadata_flags());
      if (context_->compression_level_set()) ops->set_compression_level(context_->compression_level());
      context_->sent_initial_metadata_ = true;
    }
    template <class Ops>
    static void AddMessage(const Response* response, WriteOptions options, Ops* ops) {
      GPR_CODEGEN_ASSERT(ops->SendMessagePtr(response, options).ok());
    }

    ServerReactor* reactor() override { return reactor_.load(); }
    void CallOnDone() override {
      reactor_.load()->OnDone();
      grpc_call* const call = call_.call();
      const std::function<void()> call_requester = std::move(call_requester_);
      if (context_->context_allocator() != nullptr) context_->context_allocator()->Release(context_);
      this->~Stream();
      g_core_codegen_interface->grpc_call_unref(call);
      call_requester();
    }

    CallbackServerContext* const context_;
    Call call_;
    std::function<void()> call_requester_;
    std::atomic<Reactor*> reactor_{nullptr};  // set by Begin, read by the thread that sees the end
    CallOpSet<CallOpRecvMessage<Request>> read_ops_;
    CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage> write_ops_;
    CallOpSet<CallOpSendInitialMetadata, CallOpSendMessage, CallOpServerSendStatus> finish_ops_;
    CallOpSet<CallOpSendInitialMetadata> metadata_ops_;
    CallbackWithSuccessTag read_tag_, write_tag_, finish_tag_, metadata_tag_;
  };

  const std::function<Reactor*(CallbackServerContext*)> make_;
};

}  // namespace grpc::internal

#endif  // gRPC 1.51

#endif  // VICINAL_SERVER_SERVICES_BIDI_HANDLER_H_
