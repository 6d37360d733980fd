// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/attention_answer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {
namespace {

constexpr size_t kShownHeads = 6;

void PrintEdges(const std::optional<IdMap>& ids, const Answer& answer, std::ostream& out) {
  const auto heads = static_cast<size_t>(answer.matrices.at("weights").shape[1]);
  std::vector<std::string> titles = {"source", "target"};
  for (size_t head = 0; head < std::min(heads, kShownHeads); ++head) titles.push_back(absl::StrCat("head ", head + 1));
  if (heads > kShownHeads) titles.emplace_back("...");
  Table table(titles);
  for (int64_t row = 0; row < std::min(answer.rows, kShownRows); ++row) {
    const std::vector<double> ends = RowOf(answer.matrices.at("edges"), row);
    const std::vector<double> weights = RowOf(answer.matrices.at("weights"), row);
    std::vector<std::string> cells = {NodeName(ids, static_cast<int64_t>(ends[0])),
                                      NodeName(ids, static_cast<int64_t>(ends[1]))};
    for (size_t head = 0; head < std::min(heads, kShownHeads); ++head) cells.push_back(FormatFixed(weights[head], 4));
    if (heads > kShownHeads) cells.emplace_back("...");
    table.Add(cells);
  }
  table.Print(out);
  if (answer.rows > kShownRows) out << "... " << answer.rows - kShownRows << " more\n";
}

}  // namespace

absl::Status ReportAttention(const Context& context, const std::optional<IdMap>& ids,
                             const std::vector<std::string>& notes, const Answer& answer) {
  const std::string out = context.args.Text("out");
  if (!out.empty()) CLIENT_RETURN_IF_ERROR(WriteAnswer(out, answer, "weights", {}));
  if (context.json) {
    Json json = ToJson(answer);
    for (Json& edge : json["edges"]) {
      for (Json& node : edge) {
        if (ids) node = NodeName(ids, node.get<int64_t>());
      }
    }
    json["notes"] = notes;
    context.PrintJson(json);
    return absl::OkStatus();
  }
  PrintEdges(ids, answer, context.out);
  context.out << "served by " << Served(answer.served_by) << "\ntime: " << FormatSeconds(answer.timing.total_seconds())
              << " on the server\n";
  if (!out.empty()) context.out << answer.rows << " edges are in " << out << '\n';
  return absl::OkStatus();
}

}  // namespace vicinal::client::cli
