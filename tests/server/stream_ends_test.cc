// SPDX-License-Identifier: Apache-2.0
// Over a socket, by a clock that only the test moves: how a stream of pieces ends when its deadline passes on the
// server, before the first piece and amid the pieces, and when its client leaves before there is a result.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "server/server.h"
#include "tests/server/fake_engine.h"
#include "tests/support/eventually.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::server {
namespace {

using ::vicinal::testing::Eventually;

// Every request waits for the test, which then answers it with rows for any kind of stream.
class HeldEngine final : public ::vicinal::testing::FakeEngine {
 public:
  // 4 values and 4 ids a row: several megabytes, of which a connection that nobody reads takes little.
  static constexpr int64_t kRows = 200'000, kWidth = 4;

  struct Asked {
    InferenceRequest request;
    InferenceCallback done;

    void Answer() const {
      InferenceResult result;
      result.rows = kRows;
      result.width = kWidth;
      result.values.assign(kRows * kWidth, 0.5f);
      result.links.assign(kRows * kWidth, 1);
      done(std::move(result));
    }
  };

  Status Submit(InferenceRequest request, InferenceCallback done) override {
    MutexLock lock(&mutex_);
    asked_ = Asked{std::move(request), std::move(done)};
    came_.NotifyOne();
    return OkStatus();
  }
  // Waits for the next request.
  Asked Take() {
    MutexLock lock(&mutex_);
    while (!asked_) came_.Wait(&mutex_);
    return *std::exchange(asked_, std::nullopt);
  }

 private:
  Mutex mutex_;
  CondVar came_;
  std::optional<Asked> asked_ VICINAL_GUARDED_BY(mutex_);
};

class StreamEndsTest : public ::testing::Test {
 protected:
  // One call of any of the methods; reads one piece.
  struct Stream {
    grpc::ClientContext context;
    std::function<bool()> read;
    std::function<grpc::Status()> finish;
    bool whole = false;  // the last piece has come, which alone tells the times
  };

  StreamEndsTest() {
    Config config;
    config.grpc_listen = "127.0.0.1:0";
    config.metrics_listen = "";
    config.log_level = LogLevel::kError;
    config.limits.memory_budget_bytes = 1 << 30;
    config.limits.max_response_bytes = 1 << 16;
    config.limits.send_timeout = std::chrono::hours(240);  // only deadlines end streams
    Fakes fakes;
    fakes.clock = &clock_;
    auto engine = std::make_unique<HeldEngine>();
    engine_ = engine.get();
    fakes.engine = std::move(engine);
    auto server = Server::Start(config, std::move(fakes));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    // The connection takes 64 KiB and no more, until somebody reads.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    stub_ = v1::InferenceService::NewStub(
        grpc::CreateCustomChannel(server_->grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  }
  ~StreamEndsTest() override {
    stub_.reset();
    EXPECT_TRUE(server_->Stop());
  }

  template <class Request, class Response>
  std::unique_ptr<Stream> Open(std::unique_ptr<grpc::ClientReader<Response>> (v1::InferenceService::Stub::*method)(
                                   grpc::ClientContext*, const Request&),
                               Request request) {
    request.mutable_target()->set_graph("g");
    request.mutable_target()->set_model("m");
    auto stream = std::make_unique<Stream>();
    // By the client's clock it is far away.
    stream->context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    const std::shared_ptr<grpc::ClientReader<Response>> reader = (stub_.get()->*method)(&stream->context, request);
    stream->read = [reader, whole = &stream->whole] {
      Response piece;
      if (!reader->Read(&piece)) return false;
      *whole = piece.has_timing();
      return true;
    };
    stream->finish = [reader] { return reader->Finish(); };
    return stream;
  }
  std::unique_ptr<Stream> OpenClassify() {
    v1::ClassifyRequest request;
    request.mutable_nodes()->set_all(true);
    request.set_return_logits(true);
    return Open(&v1::InferenceService::Stub::ClassifyStream, request);
  }
  std::unique_ptr<Stream> OpenEmbed() {
    v1::EmbedRequest request;
    request.mutable_nodes()->set_all(true);
    return Open(&v1::InferenceService::Stub::EmbedStream, request);
  }
  std::unique_ptr<Stream> OpenLinks() {
    v1::PredictLinksRequest request;
    request.set_all_edges(true);
    return Open(&v1::InferenceService::Stub::PredictLinksStream, request);
  }
  std::unique_ptr<Stream> OpenPartners() {
    v1::TopLinksRequest request;
    request.mutable_nodes()->set_all(true);
    return Open(&v1::InferenceService::Stub::TopLinksStream, request);
  }
  // Each kind of stream.
  void ForEach(const std::function<void(Stream& stream)>& check) {
    const std::pair<std::string, std::unique_ptr<Stream> (StreamEndsTest::*)()> kinds[] = {
        {"ClassifyStream", &StreamEndsTest::OpenClassify},
        {"EmbedStream", &StreamEndsTest::OpenEmbed},
        {"PredictLinksStream", &StreamEndsTest::OpenLinks},
        {"TopLinksStream", &StreamEndsTest::OpenPartners}};
    for (const auto& [name, open] : kinds) {
      SCOPED_TRACE(name);
      const std::unique_ptr<Stream> stream = (this->*open)();
      check(*stream);
    }
  }
  // gRPC rounds deadlines on their way to the server.
  void PassDeadline() { clock_.Advance(kDeadline + std::chrono::minutes(1)); }
  static void ExpectDeadline(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
    // Of the server: what the client's library says of its own deadline has no details.
    EXPECT_NE(status.error_details().find("DEADLINE_EXCEEDED"), std::string::npos) << status.error_message();
  }

  static constexpr std::chrono::minutes kDeadline{20};
  FakeClock clock_;
  std::unique_ptr<Server> server_;
  HeldEngine* engine_ = nullptr;  // the server's
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

TEST_F(StreamEndsTest, AResultAfterTheDeadlineIsNotSent) {
  ForEach([&](Stream& stream) {
    const HeldEngine::Asked asked = engine_->Take();
    PassDeadline();
    asked.Answer();
    EXPECT_FALSE(stream.read());
    ExpectDeadline(stream.finish());
  });
}

// The client has read one piece by then, and what was under way follows.
TEST_F(StreamEndsTest, ADeadlineThatPassesAmidThePiecesEndsThem) {
  ForEach([&](Stream& stream) {
    engine_->Take().Answer();
    EXPECT_TRUE(stream.read());
    PassDeadline();
    while (stream.read()) continue;
    EXPECT_FALSE(stream.whole);
    ExpectDeadline(stream.finish());
  });
}

TEST_F(StreamEndsTest, PiecesUntilTheDeadlineComeWhole) {
  ForEach([&](Stream& stream) {
    engine_->Take().Answer();
    clock_.Advance(kDeadline / 2);
    while (stream.read()) continue;
    EXPECT_TRUE(stream.whole);
    const grpc::Status end = stream.finish();
    EXPECT_TRUE(end.ok()) << end.error_message();
  });
}

// The engine is told, and may answer nevertheless.
TEST_F(StreamEndsTest, AClientThatLeavesBeforeTheResultEndsTheWork) {
  ForEach([&](Stream& stream) {
    const HeldEngine::Asked asked = engine_->Take();
    EXPECT_TRUE(asked.request.limits.Check(clock_).ok());
    stream.context.TryCancel();
    EXPECT_FALSE(stream.read());
    EXPECT_EQ(stream.finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(Eventually([&] { return asked.request.limits.Check(clock_).code() == StatusCode::kCancelled; }));
    asked.Answer();
  });
}

}  // namespace
}  // namespace vicinal::server
