// SPDX-License-Identifier: Apache-2.0
// `vicinal model ...`: upload, list, get, delete.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/architecture_notes.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe.h"
#include "client/cpp/cli/node_names.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/cli/tensors.h"
#include "client/cpp/cli/wait_option.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client::cli {
namespace {

absl::Status UploadModel(const Context& context) {
  const Arguments& args = context.args;
  for (const char* option : {"reference_graph", "reference_features", "reference_edge_features", "tolerance"}) {
    if (args.Has(option) && !args.Has("reference")) {
      return absl::InvalidArgumentError(absl::StrCat("--", option, " needs --reference FILE.safetensors"));
    }
  }
  CLIENT_ASSIGN_OR_RETURN(const std::string architecture, ReadFile(args.Positional(0)));
  if (!IsUtf8(architecture)) {
    return FileError(args.Positional(0), 0,
                     "is not UTF-8 text; pass the architecture (JSON) here, and the weights with --weights");
  }
  CLIENT_ASSIGN_OR_RETURN(const std::string weights, ReadFile(args.Text("weights")));
  std::vector<UploadTensor> tensors = {FileTensor("weights", weights)};
  v1::UploadModelSpec spec;
  spec.set_name(args.Text("name"));
  spec.set_upload_id(args.Text("upload_id"));
  spec.set_architecture_json(architecture);
  spec.set_replace(args.Has("replace") || args.Has("if_version"));
  spec.set_if_version(args.Integer("if_version", 0));
  std::string reference;
  if (args.Has("reference")) {
    CLIENT_ASSIGN_OR_RETURN(reference, ReadFile(args.Text("reference")));
    tensors.push_back(FileTensor("reference", reference));
    spec.mutable_reference()->set_graph(args.Text("reference_graph"));
    spec.mutable_reference()->set_feature_set(args.Text("reference_features"));
    spec.mutable_reference()->set_edge_feature_set(args.Text("reference_edge_features"));
    spec.mutable_reference()->set_tolerance(args.Number("tolerance", 0));
  }
  ProgressBar bar(context.err, context.terminal);
  UploadOptions options;
  options.progress = [&](const UploadProgress& progress) {
    bar.Show(static_cast<double>(progress.sent_bytes) / static_cast<double>(std::max<int64_t>(progress.total_bytes, 1)),
             absl::StrCat("uploading ", FormatBytes(progress.sent_bytes)));
  };
  CLIENT_RETURN_IF_ERROR(SetWait(context, &bar, &options));
  const absl::StatusOr<v1::Model> uploaded = context.client.UploadModel(spec, tensors, options);
  bar.Clear();
  if (!uploaded.ok()) {
    return args.Has("reference_graph") ? WithNodeName(context, args.Text("reference_graph"), uploaded.status())
                                       : uploaded.status();
  }
  // A reference that is met has settled them.
  const std::vector<std::string> notes =
      args.Has("reference") ? std::vector<std::string>() : ArchitectureNotes(architecture);
  if (context.json) {
    Json json = ToJson(*uploaded);
    json["notes"] = notes;
    context.PrintJson(json);
    return absl::OkStatus();
  }
  PrintModel(*uploaded, context.out);
  for (const std::string& note : notes) context.out << "note: " << note << '\n';
  return absl::OkStatus();
}

absl::Status ListModels(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(const std::vector<v1::Model> models, context.client.ListModels());
  if (!context.json) {
    PrintModels(models, context.out);
    return absl::OkStatus();
  }
  Json list = Json::array();
  for (const v1::Model& model : models) list.push_back(ToJson(model));
  context.PrintJson(Json{{"models", list}});
  return absl::OkStatus();
}

absl::Status GetModel(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(const v1::Model model, context.client.GetModel(context.args.Positional(0)));
  if (context.json) {
    context.PrintJson(ToJson(model));
  } else {
    PrintModel(model, context.out);
  }
  return absl::OkStatus();
}

absl::Status DeleteModel(const Context& context) {
  const std::string& name = context.args.Positional(0);
  CLIENT_RETURN_IF_ERROR(context.client.DeleteModel(name, context.args.Integer("if_version", 0)));
  if (context.json) {
    context.PrintJson(Json{{"deleted", name}});
  } else {
    context.out << "model '" << name << "' is deleted\n";
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Command> ModelCommands() {
  return {
      {{"model upload",
        {"FILE.json"},
        "Uploads a model: its architecture and its weights.",
        "FILE.json lists the layers, or names a class of torch_geometric.nn.models with its arguments; the weights are "
        "the\n"
        "module's state_dict as safetensors. A reference contains expected logits; a model that differs is rejected.",
        {{"weights", OptionKind::kText, "FILE.safetensors", "the weights", {}, true},
         {"name", OptionKind::kName, "NAME", "name of the model: [a-z0-9][a-z0-9._-]{0,62}", {}, true},
         {"replace", OptionKind::kFlag, "", "replace a model of this name"},
         AtLeast(1, {"if_version", OptionKind::kInteger, "V", "replace only version V"}),
         {"reference", OptionKind::kText, "FILE.safetensors", "expected logits to check the model against"},
         {"reference_graph", OptionKind::kName, "GRAPH",
          "the stored graph that they belong to; default: the graph in the reference file"},
         {"reference_features", OptionKind::kName, "NAME", "that graph's feature set; default: default"},
         {"reference_edge_features", OptionKind::kName, "NAME",
          "that graph's edge feature set; default: default, or the graph's own edge_attr"},
         {"tolerance", OptionKind::kNumber, "T",
          "largest allowed difference, relative to the largest expected magnitude in its row (at least 1); default: "
          "1e-4"},
         WaitOption(),
         {"upload_id", OptionKind::kText, "ID", "resume the upload with this id: [a-z0-9-]{8,64}"}}},
       UploadModel},
      {{"model list", {}, "Lists the models.", "", {}}, ListModels},
      {{"model get", {"NAME"}, "Shows a model: layers, outputs, sizes.", "", {}}, GetModel},
      {{"model delete",
        {"NAME"},
        "Deletes a model.",
        "",
        {AtLeast(1, {"if_version", OptionKind::kInteger, "V", "only if the model has this version"})}},
       DeleteModel},
      ExportCommand(),
  };
}

}  // namespace vicinal::client::cli
