// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/torn_answers/quiet_server.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/integration/torn_answers/world.h"

namespace vicinal::testing {
namespace {

absl::Status Failed(const std::string& what, const absl::Status& status) {
  return {status.code(), absl::StrCat("the quiet server refused ", what, ": ", status.message())};
}

absl::Status Tune(client::Client& client, const std::function<void(v1::TuneGraphRequest*)>& fill) {
  v1::TuneGraphRequest request;
  request.set_name("g");
  fill(&request);
  return client.TuneGraph(request).status();
}

}  // namespace

std::unique_ptr<client::Client> ClientOf(const ServerProcess& server) {
  client::ClientOptions options;
  options.target = server.grpc_address();
  options.own_connection = true;
  auto client = client::Client::Connect(options);
  return client.ok() ? *std::move(client) : nullptr;
}

// `reference` is left out: its bits are its own, and the server refuses to force it on a graph.
std::vector<std::string> TunableKernels(client::Client& client) {
  std::vector<std::string> names;
  const auto capabilities = client.GetCapabilities();
  if (!capabilities.ok()) return names;
  for (const v1::KernelInfo& kernel : capabilities->kernels()) {
    if (kernel.operation() == "aggregate" && kernel.name() != "reference") names.push_back(kernel.name());
  }
  return names;
}

absl::Status ForceKernel(client::Client& client, const std::string& kernel) {
  return Tune(client, [&kernel](v1::TuneGraphRequest* request) {
    request->mutable_force()->set_kernel(kernel);
    for (const int64_t width : kTornWidths) request->add_widths(width);
  });
}

absl::StatusOr<QuietServer> QuietServer::Start(const std::string& program, const std::string& device) {
  QuietServer quiet;
  auto server = ServerProcess::Start(program, {"--device=" + device, "--tuning_budget=0", "--keep_answers=never"});
  if (!server.ok()) return server.status();
  quiet.server_ = *std::move(server);
  quiet.client_ = ClientOf(*quiet.server_);
  if (quiet.client_ == nullptr) return absl::UnavailableError("the quiet server cannot be reached");
  return quiet;
}

absl::Status QuietServer::Put(const Question& question) {
  if (const auto graph = PutTornGraph(*client_, question.graph); !graph.ok()) return Failed("a graph", graph.status());
  if (const auto model = PutTornModel(*client_, question.model); !model.ok()) return Failed("a model", model.status());
  if (question.features == question.graph) return absl::OkStatus();  // they came with it
  const auto features = PutTornFeatures(*client_, question.features);
  return features.ok() ? absl::OkStatus() : Failed("features", features.status());
}

absl::StatusOr<std::string> QuietServer::Ask(const Question& question, std::string* seen) {
  const auto reply = client_->Classify(AskAllNodes(question.precision));
  if (!reply.ok()) return Failed("a query", reply.status());
  const int64_t revision = reply->served_by().numerics_revision();
  if (revision == question.revision) return reply->logits().data();
  absl::StrAppend(seen, seen->empty() ? "" : ", ", revision);
  return std::string();
}

absl::StatusOr<std::string> QuietServer::Answer(const Question& question, const std::vector<std::string>& texts) {
  if (absl::Status put = Put(question); !put.ok()) return put;
  std::string seen;
  for (const std::string& text : texts) {
    const absl::Status imported =
        Tune(*client_, [&text](v1::TuneGraphRequest* request) { request->set_import_text(text); });
    if (!imported.ok()) return Failed("the disturbed server's decisions", imported);
    auto answer = Ask(question, &seen);
    if (!answer.ok() || !answer->empty()) return answer;
  }
  if (!texts.empty()) {
    const absl::Status reset = Tune(*client_, [](v1::TuneGraphRequest* request) { request->set_reset(true); });
    if (!reset.ok()) return Failed("a reset", reset);
  }
  if (auto answer = Ask(question, &seen); !answer.ok() || !answer->empty()) return answer;
  for (const std::string& kernel : TunableKernels(*client_)) {
    if (!ForceKernel(*client_, kernel).ok()) continue;  // it does not support these widths
    auto answer = Ask(question, &seen);
    if (!answer.ok() || !answer->empty()) return answer;
  }
  return absl::NotFoundError(absl::StrCat("no decisions of ", texts.size(), " exports and no kernel give revision ",
                                          question.revision, "; there were: ", seen));
}

}  // namespace vicinal::testing
