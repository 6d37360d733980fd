// SPDX-License-Identifier: Apache-2.0
#include "engine/prepare/graph_uploads.h"

#include <chrono>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/prepare/measure_orders.h"
#include "engine/prepare/prepare.h"
#include "engine/store/version_errors.h"

namespace vicinal {
namespace {

// Grows `memory` to `bytes` where it is smaller: the bounds that were reserved cover what is kept, unless they are
// wrong.
Status Cover(int64_t bytes, std::string_view what, Reservation* memory) {
  return bytes <= memory->bytes() ? OkStatus() : memory->Grow(bytes - memory->bytes(), what);
}

// The budget refused, and waiting does not change that.
bool IsRefusedForGood(const Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return !status.ok() && !(detail && detail->retry_after);
}

const Status& StatusOf(const Status& status) { return status; }
const Status& StatusOf(const StatusOr<Reservation>& result) { return result.status(); }

// Calls `reserve(bytes, among)` for all orders, and for fewer of them as long as the budget has no room for more: a
// graph in an order that is not the best one serves, one that is refused does not. Returns the last result.
template <class Reserve>
auto WithOrdersThatFit(const GraphSizes& sizes, DeviceKind device, const Reserve& reserve)
    -> decltype(reserve(int64_t{}, AutoOrders::kAll)) {
  auto result = reserve(PreparationBytesBound(sizes, device), AutoOrders::kAll);
  if (sizes.order != OrderKind::kAuto) return result;
  for (const AutoOrders among : {AutoOrders::kWithoutCommunities, AutoOrders::kAsSent}) {
    if (!IsRefusedForGood(StatusOf(result))) return result;
    result = reserve(PreparationBytesBound(sizes, device, among), among);
  }
  return result;
}

constexpr char kDefaultSet[] = "default";

Status NobodyWaits() {
  ErrorDetail detail;
  detail.reason = "CANCELLED";
  return MakeError(StatusCode::kCancelled, "the graph was deleted, or the server stops", detail);
}

// `wanted`: the version that features were made for; 0: whichever serves.
Status CheckVersionOf(const GraphHandle& handle, int64_t wanted) {
  const PreparedGraph::Parts& parts = handle.graph->parts();
  return wanted == 0 || wanted == parts.version ? OkStatus() : internal::GraphReplaced(parts.name, parts.version);
}

std::string Preparing(const std::string& name) { return absl::StrCat("preparing graph '", name, "'"); }

}  // namespace

GraphUploads::GraphUploads(Parts parts)
    : parts_(std::move(parts)),
      context_(parts_.device->CreateContext()),
      threads_(*context_),
      queue_(parts_.max_waiting) {}

Status GraphUploads::CheckGraphFits(const GraphSizes& sizes, bool replace) const {
  const Status status = WithOrdersThatFit(sizes, parts_.device->kind(), [&](int64_t bytes, AutoOrders) {
    return parts_.budget->Check(bytes, "preparing the graph", {.replace = replace});
  });
  return IsRefusedForGood(status) ? status : OkStatus();
}

Status GraphUploads::CheckFeaturesFit(const FeatureSizes& sizes, bool replace) const {
  const DeviceKind device = parts_.device->kind();
  const Status status = parts_.budget->Check(
      CanTake(sizes, device) ? TakenFeaturesBytesBound(sizes) : FeaturePreparationBytesBound(sizes, device, 0),
      "preparing the feature set", {.replace = replace});
  return IsRefusedForGood(status) ? status : OkStatus();
}

Status GraphUploads::CheckEdgeFeaturesFit(const EdgeFeatureSizes& sizes, bool replace) const {
  const int64_t bytes = EdgeFeaturePreparationBytesBound(sizes, parts_.device->kind(), 0);
  const Status status = parts_.budget->Check(bytes, "preparing the edge feature set", {.replace = replace});
  return IsRefusedForGood(status) ? status : OkStatus();
}

StatusOr<GraphStatus> GraphUploads::PutGraph(GraphSource source, Reservation memory) {
  const int64_t edges = source.edge_index.shape.size() == 2 ? source.edge_index.shape[1] : 0;
  const std::string name = source.name;
  VICINAL_RETURN_IF_ERROR(queue_.Reserve());
  AutoOrders among = AutoOrders::kAll;
  StatusOr<Reservation> reserved =
      WithOrdersThatFit(SizesOf(source), parts_.device->kind(), [&](int64_t bytes, AutoOrders orders) {
        among = orders;
        return parts_.budget->Reserve(Account::kPreparing, bytes, Preparing(name),
                                      {.replace = source.replace, .consumed = &memory});
      });
  StatusOr<int64_t> version =
      reserved.ok() ? parts_.graphs->BeginPrepare(name, source.replace, source.if_version, source.node_count, edges)
                    : reserved.status();
  if (!version.ok()) {
    queue_.Release();
    return version.status();
  }
  auto shared = std::make_shared<std::pair<GraphSource, Reservation>>(std::move(source), *std::move(reserved));
  queue_.Push([this, shared, among, v = *version](bool stopping) {
    Prepare(std::move(shared->first), among, std::move(shared->second), v, stopping);
  });
  // Preparation may have ended meanwhile: the caller waits for the version that it began.
  VICINAL_ASSIGN_OR_RETURN(GraphStatus status, parts_.graphs->Get(name));
  status.preparing_version = *version;
  return status;
}

void GraphUploads::Prepare(GraphSource source, AutoOrders among, Reservation memory, int64_t version, bool stopping) {
  const std::string name = source.name;
  StatusOr<PreparedUpload> prepared =
      Unavailable("DRAINING", "the server stopped before the graph was prepared", std::chrono::seconds(1));
  PrepareContext context;
  context.device = parts_.device;
  context.clock = parts_.clock;
  context.stats = parts_.stats;
  context.choose = ChooseOptionsFor(*parts_.registry, *context_, *parts_.clock, threads_.pool(), parts_.first_runs);
  context.choose.auto_orders = among;
  context.choose.given_up = [&] { return queue_.stopping() || !parts_.graphs->IsPreparing(name, version); };
  context.on_progress = [&](double progress, std::string_view stage) {
    parts_.graphs->SetProgress(name, version, progress, stage);
  };
  try {
    if (!stopping) prepared = PrepareGraph(std::move(source), version, context);
  } catch (const std::bad_alloc&) {
    prepared = OutOfMemory();
  }
  if (prepared.ok()) {
    const int64_t kept =
        prepared->graph->size_bytes() + (prepared->features != nullptr ? prepared->features->size_bytes() : 0);
    if (Status covered = Cover(kept, absl::StrCat("graph '", name, "'"), &memory); !covered.ok()) prepared = covered;
  }
  if (!prepared.ok()) {
    parts_.logger->Log(LogLevel::kWarning, "graph not prepared",
                       {{"graph", name}, {"error", std::string(prepared.status().message())}});
    return parts_.graphs->FinishPrepare(name, version, prepared.status(), nullptr);
  }
  parts_.logger->Log(LogLevel::kInfo, "graph ready", {{"graph", name}, {"version", absl::StrCat(version)}});
  prepared->graph->AddReservation(memory.Split(prepared->graph->size_bytes()));
  std::shared_ptr<Reservation> features_memory;
  if (prepared->features) {
    features_memory = std::make_shared<Reservation>(memory.Split(prepared->features->size_bytes()));
  }
  memory.Release();
  parts_.before_publish(prepared->graph, kDefaultSet, prepared->features,
                        [&] { return context.choose.given_up() ? NobodyWaits() : OkStatus(); });
  const MutexLock publishing(&publishing_);
  parts_.graphs->FinishPrepare(name, version, std::move(prepared->graph), std::move(prepared->features),
                               std::move(features_memory));
  parts_.on_publish(name);
}

void GraphUploads::AwaitPublished() { const MutexLock none(&publishing_); }

StatusOr<FeatureSetHandle> GraphUploads::PutFeatures(const std::string& graph, const std::string& name,
                                                     const FeatureTensors& tensors, bool replace, int64_t if_version,
                                                     const GivenTensors& given, const WorkLimits& limits) try {
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle, parts_.graphs->Find(graph, 0, "", 0));
  VICINAL_RETURN_IF_ERROR(CheckVersionOf(handle, tensors.graph_version));
  const std::string what = absl::StrCat("feature set '", name, "'");
  const DeviceKind device = parts_.device->kind();
  const FeatureSizes sizes = SizesOf(tensors);
  const bool take = given.memory != nullptr && CanTake(sizes, device);
  const int64_t reserved = given.memory != nullptr ? given.memory->bytes() : 0;
  ReserveOptions options = {.replace = replace, .own_bytes = take ? 0 : reserved};
  if (take) options.consumed = given.memory;
  VICINAL_ASSIGN_OR_RETURN(Reservation memory,
                           parts_.budget->Reserve(Account::kPreparing,
                                                  take ? TakenFeaturesBytesBound(sizes)
                                                       : FeaturePreparationBytesBound(sizes, device, reserved),
                                                  what, options));
  if (take) *given.taken = true;
  VICINAL_ASSIGN_OR_RETURN(auto matrix, take ? TakeFeatures(tensors, *handle.graph, *parts_.device)
                                             : PrepareFeatures(tensors, *handle.graph, *parts_.device));
  VICINAL_RETURN_IF_ERROR(Cover(matrix->size_bytes(), what, &memory));
  memory.Shrink(matrix->size_bytes());
  parts_.before_publish(handle.graph, name, matrix, [&] { return limits.Check(*parts_.clock); });
  return parts_.graphs->PutFeatures(graph, name, handle.graph->parts().version, std::move(matrix), replace, if_version,
                                    std::make_shared<Reservation>(std::move(memory)), tensors.source_digest);
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

StatusOr<FeatureSetHandle> GraphUploads::PutEdgeFeatures(const std::string& graph, const std::string& name,
                                                         const EdgeFeatureTensors& tensors, bool replace,
                                                         int64_t if_version, int64_t reserved_bytes,
                                                         const WorkLimits& limits) try {
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle, parts_.graphs->Find(graph, 0, "", 0));
  VICINAL_RETURN_IF_ERROR(CheckVersionOf(handle, tensors.graph_version));
  const std::string what = absl::StrCat(TypeName(FeatureKind::kEdges), " '", name, "'");
  const TensorView& edge_attr = tensors.edge_attr;
  EdgeFeatureSizes sizes;
  sizes.edge_attr = {edge_attr.dtype, static_cast<int64_t>(edge_attr.bytes.size())};
  sizes.node_count = handle.graph->num_nodes();
  sizes.edge_count = handle.graph->num_edges();
  sizes.cols = edge_attr.shape.size() == 2 ? edge_attr.shape[1] : 0;  // else PrepareEdgeFeatures refuses it
  VICINAL_ASSIGN_OR_RETURN(
      Reservation memory,
      parts_.budget->Reserve(Account::kPreparing,
                             EdgeFeaturePreparationBytesBound(sizes, parts_.device->kind(), reserved_bytes), what,
                             {.replace = replace, .own_bytes = reserved_bytes}));
  VICINAL_ASSIGN_OR_RETURN(auto edges, PrepareEdgeFeatures(tensors, *handle.graph, *parts_.device, threads_.pool()));
  VICINAL_RETURN_IF_ERROR(Cover(edges->size_bytes(), what, &memory));
  memory.Shrink(edges->size_bytes());
  parts_.before_edges(handle.graph, name, edges, [&] { return limits.Check(*parts_.clock); });
  return parts_.graphs->PutEdgeFeatures(graph, name, handle.graph->parts().version, std::move(edges), replace,
                                        if_version, std::make_shared<Reservation>(std::move(memory)),
                                        tensors.source_digest);
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace vicinal
