// SPDX-License-Identifier: Apache-2.0
// The document that lists the stored layouts of a graph version for one kind of device (docs/state.md, "Layouts").
#ifndef VICINAL_ENGINE_DURABLE_LAYOUT_DOCUMENT_H_
#define VICINAL_ENGINE_DURABLE_LAYOUT_DOCUMENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/state/state_directory.h"

namespace vicinal::durable {

struct StoredLayout {
  PreparedGraph::LayoutKey key;
  int64_t layout_version = 0;              // LayoutCodec::layout_version of the build that wrote it
  std::map<std::string, int64_t> numbers;  // FlatLayout::numbers
  state::ManifestFile file;                // its arrays, as sections of uint8
  int64_t memory_bytes = 0;                // AdjacencyLayout::size_bytes
  double make_seconds = 0.0;               // what making it took, and reading it when it was stored: for people
  double read_seconds = 0.0;
};

struct LayoutDocument {
  std::string graph;
  int64_t version = 0;
  std::string device;  // kind of processor or GPU
  std::vector<StoredLayout> layouts;
};

std::string EncodeLayoutDocument(const LayoutDocument& document);
// `path` names it in errors. DATA_LOSS (STATE_DAMAGED); FAILED_PRECONDITION (STATE_FORMAT_TOO_NEW).
StatusOr<LayoutDocument> ParseLayoutDocument(const std::string& path, std::string_view text);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_LAYOUT_DOCUMENT_H_
