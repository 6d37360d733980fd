// SPDX-License-Identifier: Apache-2.0
// A version that an upload made or is about to make, and what its uploader waits for.
#ifndef VICINAL_ENGINE_API_UPLOADED_VERSION_H_
#define VICINAL_ENGINE_API_UPLOADED_VERSION_H_

#include <cstdint>
#include <string>

namespace vicinal {

// Each includes those before it.
enum class WaitFor {
  kAccepted,  // the upload is complete and its name is taken
  kReady,     // the version serves
  kDurable,   // it survives a restart, with the feature set that came along
};

struct UploadedVersion {
  enum class Kind { kGraph, kFeatures, kEdgeFeatures, kModel };
  Kind kind = Kind::kGraph;
  std::string name;         // of the graph or model
  std::string feature_set;  // kFeatures, kEdgeFeatures: the set of the graph `name`
  int64_t version = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_UPLOADED_VERSION_H_
