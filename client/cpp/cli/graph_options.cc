// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/graph_options.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/tensors.h"

namespace vicinal::client::cli {

const std::vector<std::string>& FormatWords() {
  static const auto* const words = new std::vector<std::string>{"auto", "npz", "edgelist", "mtx"};
  return *words;
}

const std::vector<std::string>& ReorderWords() {
  static const auto* const words = new std::vector<std::string>{"auto", "none", "degree", "rcm", "community", "metis"};
  return *words;
}

const std::vector<std::string>& ChoiceWords() {
  static const auto* const words = new std::vector<std::string>{"auto", "yes", "no"};
  return *words;
}

const std::vector<std::string>& RowsWords() {
  static const auto* const words = new std::vector<std::string>{"target", "source"};
  return *words;
}

GraphFormat ParseFormat(std::string_view word) {
  return word == "npz"        ? GraphFormat::kNpz
         : word == "edgelist" ? GraphFormat::kEdgeList
         : word == "mtx"      ? GraphFormat::kMatrixMarket
                              : GraphFormat::kAuto;
}

v1::Reorder ParseReorder(std::string_view word) {
  v1::Reorder reorder = v1::REORDER_UNSPECIFIED;
  v1::Reorder_Parse(absl::StrCat("REORDER_", absl::AsciiStrToUpper(std::string(word))), &reorder);
  return reorder;
}

MatrixRows ParseRows(std::string_view word) { return word == "source" ? MatrixRows::kSource : MatrixRows::kTarget; }

std::vector<UploadTensor> GraphTensors(const GraphData& graph) {
  std::vector<UploadTensor> tensors = {ToUploadTensor("edge_index", graph.edge_index)};
  if (graph.edge_weight) tensors.push_back(ToUploadTensor("edge_weight", *graph.edge_weight));
  if (graph.edge_attr) tensors.push_back(ToUploadTensor("edge_attr", *graph.edge_attr));
  if (graph.features) {
    for (UploadTensor& tensor : FeatureTensors(*graph.features)) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace vicinal::client::cli
