// SPDX-License-Identifier: Apache-2.0
// The files that a sync file names: their digests, and uploads made of them.
#ifndef VICINAL_CLIENT_CPP_CLI_SYNC_CONTENT_H_
#define VICINAL_CLIENT_CPP_CLI_SYNC_CONTENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/cli/sync_file.h"
#include "client/cpp/cli/sync_plan.h"
#include "client/cpp/client.h"
#include "client/cpp/formats/graph_file.h"

namespace vicinal::client::cli {

// The digests of all that `file` declares, over the bytes of its files and over the options that matter. Reads every
// file once. Memory: the largest file.
absl::StatusOr<SyncDigests> ReadDigests(const SyncFile& file);

// `status` as an error of `resource` in the sync file: "PATH:LINE: graph 'g': ...". Keeps code and details; OK stays
// OK.
absl::Status AtResource(const SyncFile& file, const char* kind, const DeclaredResource& resource,
                        const absl::Status& status);

// What is sent for a resource. Reading fails if a file has changed since `digest` was computed.
struct GraphContent {
  GraphData data;
  v1::UploadGraphSpec spec;  // without replace and version
};
absl::StatusOr<GraphContent> ReadGraphContent(const DeclaredGraph& declared, const std::string& digest);

struct FeaturesContent {
  Features features;
  v1::UploadFeaturesSpec spec;
};
absl::StatusOr<FeaturesContent> ReadFeaturesContent(const std::string& graph, const DeclaredResource& declared,
                                                    const std::string& digest);

struct EdgeFeaturesContent {
  Array edge_attr;
  v1::UploadFeaturesSpec spec;
};
absl::StatusOr<EdgeFeaturesContent> ReadEdgeFeaturesContent(const std::string& graph, const DeclaredResource& declared,
                                                            const std::string& digest);

struct ModelContent {
  std::string weights, reference;  // the files; `reference` empty: none
  v1::UploadModelSpec spec;
};
absl::StatusOr<ModelContent> ReadModelContent(const DeclaredResource& declared, const std::string& digest);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_SYNC_CONTENT_H_
