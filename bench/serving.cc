// SPDX-License-Identifier: Apache-2.0
// What serving costs: Classify of 10 stored nodes of Cora against the emptiest call of the same server
// (GetCapabilities, and the health check that gRPC itself answers), over loopback, interleaved in one run so that both
// see the same machine. Prints medians, 99th percentiles and their ratios as JSON. Starts the server that lies beside
// it, and stops it.
//   vicinal_bench_serving [--calls=N] [--warmup=N] [--data=tests/data]
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/client.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/graph_file.h"
#include "tests/integration/server_process.h"
#include "vicinal/v1/inference.grpc.pb.h"
#include "vicinal/v1/server.grpc.pb.h"

ABSL_FLAG(int, calls, 4000, "Calls of each kind that are measured.");
ABSL_FLAG(int, warmup, 500, "Calls of each kind before that.");
ABSL_FLAG(std::string, data, "tests/data", "Folder with graphs/cora.npz and models/cora-gcn.*.");

namespace vicinal::bench {
namespace {

using Seconds = std::vector<double>;

absl::Status Upload(client::Client& client, const std::string& data) {
  const auto graph = client::ReadGraphFile(data + "/graphs/cora.npz", {});
  if (!graph.ok()) return graph.status();
  const auto view = [](const char* name, const client::Array& array, v1::DataType type) {
    return client::UploadTensor{name, type, array.shape, array.data};
  };
  v1::UploadGraphSpec spec;
  spec.set_name("cora");
  spec.set_node_count(graph->node_count);
  spec.set_feature_count(graph->features->columns);
  const auto uploaded = client.UploadGraph(spec, {view("edge_index", graph->edge_index, v1::DATA_TYPE_INT32),
                                                  view("x_indptr", graph->features->indptr, v1::DATA_TYPE_INT64),
                                                  view("x_indices", graph->features->indices, v1::DATA_TYPE_INT32),
                                                  view("x_values", graph->features->values, v1::DATA_TYPE_FLOAT32)});
  if (!uploaded.ok()) return uploaded.status();
  const auto weights = client::ReadFile(data + "/models/cora-gcn.safetensors");
  const auto architecture = client::ReadFile(data + "/models/cora-gcn.json");
  if (!weights.ok()) return weights.status();
  if (!architecture.ok()) return architecture.status();
  v1::UploadModelSpec model;
  model.set_name("gcn");
  model.set_architecture_json(*architecture);
  return client
      .UploadModel(model, {{"weights", v1::DATA_TYPE_UINT8, {static_cast<int64_t>(weights->size())}, *weights}})
      .status();
}

double Quantile(Seconds seconds, double q) {
  const auto place = seconds.begin() + static_cast<int64_t>(q * static_cast<double>(seconds.size() - 1));
  std::nth_element(seconds.begin(), place, seconds.end());
  return *place;
}

nlohmann::ordered_json Summary(const char* call, const Seconds& seconds) {
  return {{"call", call},
          {"median_us", Quantile(seconds, 0.5) * 1e6},
          {"p90_us", Quantile(seconds, 0.9) * 1e6},
          {"p99_us", Quantile(seconds, 0.99) * 1e6}};
}

// One call of each kind per round, in an order that is drawn anew, so that no kind always follows the same other.
class Rounds {
 public:
  void Add(const std::string& name, std::function<bool()> call) { kinds_.push_back({name, std::move(call), {}}); }

  bool Run(int rounds, bool record) {
    std::vector<size_t> order(kinds_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      for (const size_t i : order) {
        const auto begin = std::chrono::steady_clock::now();
        if (!kinds_[i].call()) return false;
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        if (record) kinds_[i].seconds.push_back(took.count());
      }
    }
    return true;
  }

  const Seconds& Of(const std::string& name) const {
    return std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return kind.name == name; })->seconds;
  }

 private:
  struct Kind {
    std::string name;
    std::function<bool()> call;
    Seconds seconds;
  };
  std::vector<Kind> kinds_;
  std::mt19937 random_{7};
};

int Main() {
  const std::string beside = std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/vicinal-server";
  const auto server = testing::ServerProcess::Start(beside);
  if (!server.ok()) return std::fprintf(stderr, "%s\n", server.status().ToString().c_str()), 1;
  client::ClientOptions options;
  options.target = (*server)->grpc_address();
  const auto client = client::Client::Connect(options);
  if (!client.ok()) return 1;
  if (const absl::Status status = Upload(**client, absl::GetFlag(FLAGS_data)); !status.ok()) {
    return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
  }

  const auto channel = grpc::CreateChannel(options.target, grpc::InsecureChannelCredentials());
  const auto inference = v1::InferenceService::NewStub(channel);
  const auto about = v1::ServerService::NewStub(channel);
  std::mt19937 random(1);
  double execute = 0, queue = 0, total = 0;
  Rounds rounds;
  rounds.Add("classify", [&] {
    v1::ClassifyRequest request;
    request.mutable_target()->set_graph("cora");
    request.mutable_target()->set_model("gcn");
    for (int i = 0; i < 10; ++i)
      request.mutable_nodes()->add_ids(std::uniform_int_distribution<int64_t>(0, 2707)(random));
    grpc::ClientContext context;
    v1::ClassifyResponse response;
    if (!inference->Classify(&context, request, &response).ok()) return false;
    execute += response.timing().execute_seconds();
    queue += response.timing().queue_seconds();
    total += response.timing().total_seconds();
    return true;
  });
  rounds.Add("capabilities", [&] {
    grpc::ClientContext context;
    v1::Capabilities response;
    return about->GetCapabilities(&context, {}, &response).ok();
  });
  rounds.Add("health", [&] { return (*client)->CheckHealth("").ok(); });
  if (!rounds.Run(absl::GetFlag(FLAGS_warmup), false)) return 1;
  execute = queue = total = 0;
  const int calls = absl::GetFlag(FLAGS_calls);
  if (!rounds.Run(calls, true)) return 1;

  // The health check has empty messages and nothing of ours in it: the bar.
  const Seconds &classify = rounds.Of("classify"), &told = rounds.Of("capabilities"), &empty = rounds.Of("health");
  nlohmann::ordered_json json = {
      {"bench", "serving"},
      {"what", "Classify of 10 stored nodes of Cora (GCN) against empty calls, loopback, interleaved"},
      {"cores", std::thread::hardware_concurrency()},
      {"calls", calls},
      {"cases", nlohmann::ordered_json::array(
                    {Summary("Classify", classify), Summary("GetCapabilities", told), Summary("health Check", empty)})},
      {"median_ratio", Quantile(classify, 0.5) / Quantile(empty, 0.5)},
      {"p99_ratio", Quantile(classify, 0.99) / Quantile(empty, 0.99)},
      {"median_ratio_capabilities", Quantile(classify, 0.5) / Quantile(told, 0.5)},
      {"p99_ratio_capabilities", Quantile(classify, 0.99) / Quantile(told, 0.99)},
      {"server_mean_us",
       {{"queue", queue / calls * 1e6}, {"execute", execute / calls * 1e6}, {"total", total / calls * 1e6}}}};
  std::printf("%s\n", json.dump(1).c_str());
  return (*server)->Stop();
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  // As the server (server/main.cc) and `vicinal load` do: the client's share of a call is part of what is timed.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return vicinal::bench::Main();
}
