// SPDX-License-Identifier: Apache-2.0
// The methods of the API for metrics, logs and roles: one row each, indexed by an enum so that no call looks up a
// string.
#ifndef VICINAL_SERVER_METHODS_H_
#define VICINAL_SERVER_METHODS_H_

#include <cstddef>

namespace vicinal::server {

enum class Method {
  kUploadGraph,
  kGetUpload,
  kGetGraph,
  kListGraphs,
  kWatchGraph,
  kDeleteGraph,
  kTuneGraph,
  kGetTuning,
  kGetGraphPicture,
  kUploadFeatures,
  kListFeatures,
  kDeleteFeatures,
  kUploadModel,
  kGetModel,
  kListModels,
  kDeleteModel,
  kClassify,
  kClassifyStream,
  kEmbed,
  kEmbedStream,
  kClassifyGraphs,
  kPredictLinks,
  kPredictLinksStream,
  kTopLinks,
  kTopLinksStream,
  kInferStream,
  kGetCapabilities,
  kExplain,
  kServerLive,
  kServerReady,
  kModelReady,
  kServerMetadata,
  kModelMetadata,
  kModelInfer,
  kModelStreamInfer,
  kModelConfig,
  kModelStatistics,
  kRepositoryIndex,
};

// The role that a method requires. The admin role includes all.
enum class Role { kInfer, kAdmin };

struct MethodInfo {
  const char* name;  // label of metrics: "package.Service/Method"
  Role role;
  bool changes = false;  // changes state: each such call is logged
};
inline constexpr bool kChanges = true;

inline constexpr MethodInfo kMethods[] = {
    {"vicinal.v1.GraphService/UploadGraph", Role::kAdmin, kChanges},
    {"vicinal.v1.GraphService/GetUpload", Role::kAdmin},
    {"vicinal.v1.GraphService/GetGraph", Role::kInfer},
    {"vicinal.v1.GraphService/ListGraphs", Role::kInfer},
    {"vicinal.v1.GraphService/WatchGraph", Role::kInfer},
    {"vicinal.v1.GraphService/DeleteGraph", Role::kAdmin, kChanges},
    {"vicinal.v1.GraphService/TuneGraph", Role::kAdmin, kChanges},
    {"vicinal.v1.GraphService/GetTuning", Role::kInfer},
    {"vicinal.v1.GraphService/GetGraphPicture", Role::kInfer},
    {"vicinal.v1.GraphService/UploadFeatures", Role::kAdmin, kChanges},
    {"vicinal.v1.GraphService/ListFeatures", Role::kInfer},
    {"vicinal.v1.GraphService/DeleteFeatures", Role::kAdmin, kChanges},
    {"vicinal.v1.ModelService/UploadModel", Role::kAdmin, kChanges},
    {"vicinal.v1.ModelService/GetModel", Role::kInfer},
    {"vicinal.v1.ModelService/ListModels", Role::kInfer},
    {"vicinal.v1.ModelService/DeleteModel", Role::kAdmin, kChanges},
    {"vicinal.v1.InferenceService/Classify", Role::kInfer},
    {"vicinal.v1.InferenceService/ClassifyStream", Role::kInfer},
    {"vicinal.v1.InferenceService/Embed", Role::kInfer},
    {"vicinal.v1.InferenceService/EmbedStream", Role::kInfer},
    {"vicinal.v1.InferenceService/ClassifyGraphs", Role::kInfer},
    {"vicinal.v1.InferenceService/PredictLinks", Role::kInfer},
    {"vicinal.v1.InferenceService/PredictLinksStream", Role::kInfer},
    {"vicinal.v1.InferenceService/TopLinks", Role::kInfer},
    {"vicinal.v1.InferenceService/TopLinksStream", Role::kInfer},
    {"vicinal.v1.InferenceService/InferStream", Role::kInfer},
    {"vicinal.v1.ServerService/GetCapabilities", Role::kInfer},
    {"vicinal.v1.ServerService/Explain", Role::kInfer},
    {"inference.GRPCInferenceService/ServerLive", Role::kInfer},
    {"inference.GRPCInferenceService/ServerReady", Role::kInfer},
    {"inference.GRPCInferenceService/ModelReady", Role::kInfer},
    {"inference.GRPCInferenceService/ServerMetadata", Role::kInfer},
    {"inference.GRPCInferenceService/ModelMetadata", Role::kInfer},
    {"inference.GRPCInferenceService/ModelInfer", Role::kInfer},
    {"inference.GRPCInferenceService/ModelStreamInfer", Role::kInfer},
    {"inference.GRPCInferenceService/ModelConfig", Role::kInfer},
    {"inference.GRPCInferenceService/ModelStatistics", Role::kInfer},
    {"inference.GRPCInferenceService/RepositoryIndex", Role::kInfer},
};
inline constexpr size_t kMethodCount = sizeof(kMethods) / sizeof(kMethods[0]);
static_assert(kMethodCount == static_cast<size_t>(Method::kRepositoryIndex) + 1);

inline constexpr const MethodInfo& InfoOf(Method method) { return kMethods[static_cast<size_t>(method)]; }

// Whether a call of the method is a stream of requests, each with an answer of its own.
inline constexpr bool CarriesRequests(Method method) {
  return method == Method::kInferStream || method == Method::kModelStreamInfer;
}

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METHODS_H_
