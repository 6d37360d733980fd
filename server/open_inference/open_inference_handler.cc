// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/open_inference_handler.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/printable.h"
#include "server/handlers/server_handler.h"
#include "server/open_inference/describe_models.h"
#include "server/open_inference/encode_infer.h"
#include "server/open_inference/model_names.h"

namespace vicinal::server {
namespace {

// As for the messages of calls: smaller ones are not counted against the budget.
constexpr int64_t kSmallBytes = 64 << 10;
// Longer timeouts than a year are none, and would overflow the clock.
constexpr std::chrono::hours kLongestTimeout{24 * 365};

void Shorten(std::chrono::microseconds timeout, Call* call) {
  if (timeout > kLongestTimeout) return;
  const MonotonicTime deadline = call->begin + timeout;
  if (!call->limits.deadline || deadline < *call->limits.deadline) call->limits.deadline = deadline;
}

bool IsRegression(const Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return detail && detail->reason == "REGRESSION_MODEL";
}

template <class Message>
int64_t BytesOf(const Message& message) {
  return static_cast<int64_t>(message.SpaceUsedLong());
}

}  // namespace

// One request on its way; lives until `done`.
struct OpenInferenceHandler::Work {
  OpenModelName name;
  OpenInfer infer;
  v1::EmbedRequest logits;  // asked for instead of classes, of a model that predicts numbers
  Reservation memory;       // of the converted request
  std::variant<v1::ClassifyResponse, v1::EmbedResponse, v1::ClassifyGraphsResponse> reply;
};

StatusOr<OpenModel> OpenInferenceHandler::Find(const std::string& name, const std::string& version) const {
  VICINAL_ASSIGN_OR_RETURN(const OpenModelName parsed, ParseOpenModelName(name, "name"));
  VICINAL_ASSIGN_OR_RETURN(const int64_t number, ParseOpenVersion(version, "version"));
  return FindOpenModel(engine_, parsed, number);
}

Status OpenInferenceHandler::ServerLive(const Call&, const inference::ServerLiveRequest&,
                                        inference::ServerLiveResponse* response) {
  response->set_live(true);
  return OkStatus();
}

Status OpenInferenceHandler::ServerReady(const Call&, const inference::ServerReadyRequest&,
                                         inference::ServerReadyResponse* response) {
  response->set_ready(ready_());
  return OkStatus();
}

Status OpenInferenceHandler::ModelReady(const Call&, const inference::ModelReadyRequest& request,
                                        inference::ModelReadyResponse* response) {
  const StatusOr<OpenModel> model = Find(request.name(), request.version());
  if (model.status().code() == StatusCode::kNotFound) return OkStatus();
  VICINAL_RETURN_IF_ERROR(model.status());
  response->set_ready(ready_() && IsReady(*model));
  return OkStatus();
}

Status OpenInferenceHandler::ServerMetadata(const Call&, const inference::ServerMetadataRequest&,
                                            inference::ServerMetadataResponse* response) {
  response->set_name(kOpenPlatform);
  response->set_version(Version());
  for (const char* extension : {"model_configuration", "model_repository", "parameters", "statistics"})
    response->add_extensions(extension);
  return OkStatus();
}

Status OpenInferenceHandler::ModelMetadata(const Call&, const inference::ModelMetadataRequest& request,
                                           inference::ModelMetadataResponse* response) {
  VICINAL_ASSIGN_OR_RETURN(const OpenModel model, Find(request.name(), request.version()));
  *response = MetadataOf(model);
  return OkStatus();
}

Status OpenInferenceHandler::ModelConfig(const Call&, const inference::ModelConfigRequest& request,
                                         inference::ModelConfigResponse* response) {
  VICINAL_ASSIGN_OR_RETURN(const OpenModel model, Find(request.name(), request.version()));
  *response->mutable_config() = ConfigOf(model);
  return OkStatus();
}

Status OpenInferenceHandler::ModelStatistics(const Call&, const inference::ModelStatisticsRequest& request,
                                             inference::ModelStatisticsResponse* response) {
  if (request.name().empty()) {
    VICINAL_RETURN_IF_ERROR(ParseOpenVersion(request.version(), "version").status());
    for (inference::ModelStatistics& one : statistics_.All()) *response->add_model_stats() = std::move(one);
    return OkStatus();
  }
  VICINAL_ASSIGN_OR_RETURN(const OpenModel model, Find(request.name(), request.version()));
  *response->add_model_stats() = statistics_.Of(request.name());
  if (response->model_stats(0).version().empty())
    response->mutable_model_stats(0)->set_version(std::to_string(model.model.version));
  return OkStatus();
}

Status OpenInferenceHandler::RepositoryIndex(const Call&, const inference::RepositoryIndexRequest& request,
                                             inference::RepositoryIndexResponse* response) {
  if (!request.repository_name().empty()) {
    return InvalidArgument(
        "BAD_NAME", "repository_name",
        absl::StrCat("there is no repository ", Quoted(request.repository_name()), "; leave repository_name empty"));
  }
  return ListModels(engine_.ListGraphs(), engine_.ListModels(), request.ready(), limits_.max_response_bytes, response);
}

StatusOr<std::shared_ptr<OpenInferenceHandler::Work>> OpenInferenceHandler::Decode(
    Call& call, const inference::ModelInferRequest& request) {
  auto work = std::make_shared<Work>();
  VICINAL_ASSIGN_OR_RETURN(work->name, ParseOpenModelName(request.model_name(), "model_name"));
  // The tensors are copied once. Reserved before that is done.
  const int64_t bytes = BytesOf(request);
  if (bytes > kSmallBytes) {
    VICINAL_ASSIGN_OR_RETURN(work->memory,
                             engine_.memory().Reserve(Account::kRequests, bytes, "the request's tensors"));
  }
  VICINAL_ASSIGN_OR_RETURN(work->infer, DecodeInfer(work->name, request));
  if (work->infer.timeout) Shorten(*work->infer.timeout, &call);
  return work;
}

Status OpenInferenceHandler::Encode(Call& call, const inference::ModelInferRequest& request, Work& work,
                                    inference::ModelInferResponse* response) {
  return std::visit(
      [&](auto& reply) -> Status {
        // A large reply has been reserved by InferenceHandler; contents are another copy of it.
        if (!work.infer.raw && call.reply_memory) {
          VICINAL_RETURN_IF_ERROR(call.reply_memory.Grow(BytesOf(reply), "the reply"));
        }
        EncodeInfer(request, work.infer, &reply, response);
        statistics_.Succeeded(request.model_name(), reply.served_by().model_version(), reply.timing(),
                              SecondsBetween(call.begin, clock_.Now()), clock_.WallNow());
        return OkStatus();
      },
      work.reply);
}

void OpenInferenceHandler::CountFailure(const Call& call, const std::string& name) {
  const StatusOr<OpenModelName> parsed = ParseOpenModelName(name, "model_name");
  if (!parsed.ok() || !FindOpenModel(engine_, *parsed, 0).ok()) return;
  statistics_.Failed(name, SecondsBetween(call.begin, clock_.Now()), clock_.WallNow());
}

void OpenInferenceHandler::ModelInfer(Call& call, const inference::ModelInferRequest& request,
                                      inference::ModelInferResponse* response, const Done& done) {
  StatusOr<std::shared_ptr<Work>> decoded = Decode(call, request);
  if (!decoded.ok()) {
    CountFailure(call, request.model_name());
    return done(decoded.status());
  }
  const std::shared_ptr<Work> work = *std::move(decoded);
  const Done finish = [this, &call, &request, response, work, done](Status status) {
    status = OrOutOfMemory([&]() -> Status {
      if (status.ok()) return Encode(call, request, *work, response);
      CountFailure(call, request.model_name());
      return status;
    });
    done(status);
  };
  if (auto* const classify = std::get_if<v1::ClassifyRequest>(&work->infer.request)) {
    const Done or_logits = [this, &call, work, classify, finish](const Status& status) {
      if (work->infer.chosen || !IsRegression(status)) return finish(status);
      work->logits = LogitsInstead(classify);
      inference_.Embed(call, work->logits, &work->reply.emplace<v1::EmbedResponse>(), finish);
    };
    return inference_.Classify(call, *classify, &work->reply.emplace<v1::ClassifyResponse>(), or_logits);
  }
  if (auto* const embed = std::get_if<v1::EmbedRequest>(&work->infer.request)) {
    return inference_.Embed(call, *embed, &work->reply.emplace<v1::EmbedResponse>(), finish);
  }
  inference_.ClassifyGraphs(call, std::get<v1::ClassifyGraphsRequest>(work->infer.request),
                            &work->reply.emplace<v1::ClassifyGraphsResponse>(), finish);
}

}  // namespace vicinal::server
