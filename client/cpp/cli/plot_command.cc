// SPDX-License-Identifier: Apache-2.0
// `vicinal graph plot`: the pictures of the status page as an SVG file.
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "proto/picture/svg.h"

namespace vicinal::client::cli {
namespace {

std::string Draw(const v1::GraphPicture& picture) {
  picture::GraphCounts counts;
  counts.title =
      absl::StrCat("graph '", picture.name(), "' version ", picture.version(), ": ",
                   FormatCount(picture.node_count(), "node"), ", ", FormatCount(picture.edge_count(), "edge"));
  counts.order = picture.order();
  counts.degree_counts.assign(picture.degree_counts().begin(), picture.degree_counts().end());
  counts.side = picture.tiles();
  counts.row_stride = picture.row_stride();
  counts.before.assign(picture.before().begin(), picture.before().end());
  counts.after.assign(picture.after().begin(), picture.after().end());
  return picture::GraphSvg(counts);
}

absl::Status Plot(const Context& context) {
  const Arguments& args = context.args;
  const std::string path = args.Text("output");
  if (path != "-") CLIENT_RETURN_IF_ERROR(CheckWritable(path));
  const auto tiles = static_cast<int32_t>(args.Integer("tiles", 0));
  if (tiles != args.Integer("tiles", 0)) return absl::InvalidArgumentError("--tiles is out of range");
  CLIENT_ASSIGN_OR_RETURN(const v1::GraphPicture picture, context.client.GetGraphPicture(args.Positional(0), tiles));
  if (path == "-") {
    if (context.json) return absl::InvalidArgumentError("--json and --output - would both write to the output");
    context.out << Draw(picture);
    return absl::OkStatus();
  }
  CLIENT_RETURN_IF_ERROR(WriteFile(path, Draw(picture)));
  if (context.json) {
    context.PrintJson(Json{{"file", path}, {"picture", ToJson(picture)}});
  } else {
    context.out << "wrote the picture of graph '" << picture.name() << "' version " << picture.version() << " to "
                << path << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

Command PlotCommand() {
  return {{"graph plot",
           {"NAME"},
           "Draws a graph: nodes by in-degree, and its adjacency before and after renumbering.",
           "The picture is that of the server's status page. The graph must be in the server's memory.",
           {{"output", OptionKind::kText, "FILE.svg", "file for the picture; '-': print it", {}, true},
            AtLeast(1, {"tiles", OptionKind::kInteger, "T",
                        "tiles on each side of the adjacency, up to 256; default: 64"})}},
          Plot};
}

}  // namespace vicinal::client::cli
