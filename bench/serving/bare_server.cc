// SPDX-License-Identifier: Apache-2.0
// What gRPC alone can do: a callback server with the methods that `vicinal load` calls, which answers every Classify
// with the same reply. It asks a real server once for the graph, the model and that reply, so that messages and their
// sizes are the real ones; nothing is decoded, authorised, measured or logged.
//   vicinal_bench_bare_server --from=HOST:PORT --graph=NAME --model=NAME [--nodes=10] [--listen=127.0.0.1:0]
//                             [--search_for_deadlocks=false]
// Prints its address once it serves, and serves until SIGTERM.
#include <grpcpp/grpcpp.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/client.h"
#include "vicinal/v1/graph.grpc.pb.h"
#include "vicinal/v1/inference.grpc.pb.h"
#include "vicinal/v1/model.grpc.pb.h"

ABSL_FLAG(std::string, from, "", "The server whose replies are given again.");
ABSL_FLAG(std::string, graph, "", "Its graph.");
ABSL_FLAG(std::string, model, "", "Its model.");
ABSL_FLAG(int, nodes, 10, "Nodes of the reply.");
ABSL_FLAG(std::string, listen, "127.0.0.1:0", "Where to serve.");
ABSL_FLAG(bool, search_for_deadlocks, true,
          "Leaves Abseil's search for deadlocks on, as it is in Debian's build; vicinal-server turns it off.");

namespace vicinal::bench {
namespace {

struct Replies {
  v1::Graph graph;
  v1::Model model;
  v1::ClassifyResponse classes;
};

absl::StatusOr<Replies> Ask() {
  client::ClientOptions options;
  options.target = absl::GetFlag(FLAGS_from);
  const auto client = client::Client::Connect(options);
  if (!client.ok()) return client.status();
  v1::ClassifyRequest request;
  request.mutable_target()->set_graph(absl::GetFlag(FLAGS_graph));
  request.mutable_target()->set_model(absl::GetFlag(FLAGS_model));
  for (int i = 0; i < absl::GetFlag(FLAGS_nodes); ++i) request.mutable_nodes()->add_ids(i);
  const auto graph = (*client)->GetGraph(absl::GetFlag(FLAGS_graph));
  if (!graph.ok()) return graph.status();
  const auto model = (*client)->GetModel(absl::GetFlag(FLAGS_model));
  if (!model.ok()) return model.status();
  const auto classes = (*client)->Classify(request);
  if (!classes.ok()) return classes.status();
  return Replies{*graph, *model, *classes};
}

// Answers with a copy of `reply`.
template <class Message>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const Message& reply, Message* response) {
  *response = reply;
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

class Inference final : public v1::InferenceService::CallbackService {
 public:
  explicit Inference(const Replies& replies) : replies_(replies) {}
  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context, const v1::ClassifyRequest*,
                                     v1::ClassifyResponse* response) override {
    return Answer(context, replies_.classes, response);
  }

 private:
  const Replies& replies_;
};

class Graphs final : public v1::GraphService::CallbackService {
 public:
  explicit Graphs(const Replies& replies) : replies_(replies) {}
  grpc::ServerUnaryReactor* GetGraph(grpc::CallbackServerContext* context, const v1::GetGraphRequest*,
                                     v1::Graph* response) override {
    return Answer(context, replies_.graph, response);
  }

 private:
  const Replies& replies_;
};

class Models final : public v1::ModelService::CallbackService {
 public:
  explicit Models(const Replies& replies) : replies_(replies) {}
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const v1::GetModelRequest*,
                                     v1::Model* response) override {
    return Answer(context, replies_.model, response);
  }

 private:
  const Replies& replies_;
};

int Main() {
  // Before gRPC's threads exist, so that they inherit it.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  if (!absl::GetFlag(FLAGS_search_for_deadlocks)) {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  }
  const absl::StatusOr<Replies> replies = Ask();
  if (!replies.ok()) return std::fprintf(stderr, "%s\n", replies.status().ToString().c_str()), 1;

  Inference inference(*replies);
  Graphs graphs(*replies);
  Models models(*replies);
  grpc::ServerBuilder builder;
  int port = 0;
  const std::string listen = absl::GetFlag(FLAGS_listen);
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&inference);
  builder.RegisterService(&graphs);
  builder.RegisterService(&models);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return std::fprintf(stderr, "cannot listen on %s\n", listen.c_str()), 1;
  std::printf("%s:%d\n", listen.substr(0, listen.rfind(':')).c_str(), port);
  std::fflush(stdout);
  int signal = 0;
  sigwait(&stop, &signal);
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return vicinal::bench::Main();
}
