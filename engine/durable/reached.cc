// SPDX-License-Identifier: Apache-2.0
// The stores say whether the version serves, DurableStore whether it is on disk. A version that the stores do not have
// any more will never be on disk, because nothing that was replaced is written.
#include "engine/durable/reached.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::durable {
namespace {

using Kind = UploadedVersion::Kind;

FeatureKind KindOf(const UploadedVersion& version) {
  return version.kind == Kind::kEdgeFeatures ? FeatureKind::kEdges : FeatureKind::kNodes;
}

std::string NameOf(const UploadedVersion& version) {
  switch (version.kind) {
    case Kind::kGraph:
      return absl::StrCat("graph '", version.name, "'");
    case Kind::kFeatures:
    case Kind::kEdgeFeatures:
      return absl::StrCat(TypeName(KindOf(version)), " '", version.feature_set, "' of graph '", version.name, "'");
    case Kind::kModel:
      return absl::StrCat("model '", version.name, "'");
  }
  return version.name;
}

Status Superseded(const UploadedVersion& version, WaitFor wait_for) {
  ErrorDetail detail;
  detail.reason = "UPLOAD_SUPERSEDED";
  detail.metadata = {{"version", absl::StrCat(version.version)}};
  return MakeError(
      StatusCode::kAborted,
      absl::StrCat(NameOf(version), ", version ", version.version, ", was replaced or deleted before it was ",
                   wait_for == WaitFor::kReady ? "READY" : "DURABLE", "; read the resource to see what serves now"),
      detail);
}

// Whether a graph version serves.
StatusOr<bool> IsReady(const GraphStore& graphs, const UploadedVersion& version, WaitFor wait_for) {
  const StatusOr<GraphStatus> status = graphs.Get(version.name);
  if (!status.ok()) return Superseded(version, wait_for);
  if (status->preparing_version == version.version) return false;
  if (graphs.Has(version.name, version.version)) return true;
  if (status->failed_version == version.version) {
    return Annotate(status->error, absl::StrCat(NameOf(version), " could not be prepared"));
  }
  return Superseded(version, wait_for);
}

bool HasFeatures(const GraphStore& graphs, const UploadedVersion& version) {
  const StatusOr<GraphStatus> status = graphs.Get(version.name);
  return status.ok() &&
         graphs.Has(version.name, ServingVersion(*status), version.feature_set, version.version, KindOf(version));
}

// Whether the version serves. Feature sets and models serve from the start.
StatusOr<bool> IsReady(const GraphStore& graphs, const ModelStore& models, const UploadedVersion& version,
                       WaitFor wait_for) {
  switch (version.kind) {
    case Kind::kGraph:
      return IsReady(graphs, version, wait_for);
    case Kind::kFeatures:
    case Kind::kEdgeFeatures:
      if (HasFeatures(graphs, version)) return true;
      return Superseded(version, wait_for);
    case Kind::kModel:
      if (models.Find(version.name, version.version).ok()) return true;
      return Superseded(version, wait_for);
  }
  return Internal("an upload of an unknown kind");
}

}  // namespace

StatusOr<bool> HasReached(const GraphStore& graphs, const ModelStore& models, const DurableStore* durable,
                          const UploadedVersion& version, WaitFor wait_for) {
  if (wait_for == WaitFor::kAccepted) return true;
  if (wait_for == WaitFor::kDurable && durable == nullptr) {
    return FailedPrecondition("NO_STATE_DIRECTORY",
                              "wait_for is DURABLE, but this server keeps everything in memory; start it with "
                              "--state_dir, or wait for READY");
  }
  VICINAL_ASSIGN_OR_RETURN(const bool ready, IsReady(graphs, models, version, wait_for));
  if (!ready || wait_for == WaitFor::kReady) return ready;
  StatusOr<bool> on_disk = durable->IsDurable(version);
  if (on_disk.ok()) return on_disk;
  return Annotate(on_disk.status(), absl::StrCat(NameOf(version), ", version ", version.version,
                                                 ", serves until the server stops, but could not be written"));
}

}  // namespace vicinal::durable
