// SPDX-License-Identifier: Apache-2.0
// The words in which `graph upload` and `sync` say how a graph file is read, and the tensors of what was read.
#ifndef VICINAL_CLIENT_CPP_CLI_GRAPH_OPTIONS_H_
#define VICINAL_CLIENT_CPP_CLI_GRAPH_OPTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/formats/graph_file.h"

namespace vicinal::client::cli {

// The choices of each option; the first is the default.
const std::vector<std::string>& FormatWords();   // auto, npz, edgelist, mtx
const std::vector<std::string>& ReorderWords();  // auto, none, degree, rcm, community, metis
const std::vector<std::string>& ChoiceWords();   // auto, yes, no
const std::vector<std::string>& RowsWords();     // target, source

// REQUIRES: one of the words.
GraphFormat ParseFormat(std::string_view word);
v1::Reorder ParseReorder(std::string_view word);
MatrixRows ParseRows(std::string_view word);
// Choice: Titles or Comments.
template <class Choice>
Choice ParseChoice(std::string_view word) {
  return word == "yes" ? Choice::kYes : word == "no" ? Choice::kNo : Choice::kAuto;
}

// edge_index, edge_weight and features; views of `graph`, which must outlive them.
std::vector<UploadTensor> GraphTensors(const GraphData& graph);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_GRAPH_OPTIONS_H_
