// SPDX-License-Identifier: Apache-2.0
#include "engine/model/ready_made.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/model/arguments.h"
#include "engine/model/torch_names.h"

namespace vicinal::internal {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxConvs = 1024;

// Arguments of BasicGNN; the rest of a class's arguments belong to its convolution.
std::vector<ArgumentSpec> BasicArguments() {
  return {RequiredIntArgument("in_channels", 1, kMaxWidth),
          RequiredIntArgument("hidden_channels", 1, kMaxWidth),
          RequiredIntArgument("num_layers", 1, kMaxConvs),
          IntArgument("out_channels", nullptr, 1, kMaxWidth),
          IgnoredArgument("dropout"),
          IgnoredArgument("act"),
          BoolArgument("act_first", false),
          IgnoredArgument("act_kwargs"),
          IgnoredArgument("norm"),
          IgnoredArgument("norm_kwargs"),
          ChoiceArgument("jk", nullptr, {"last", "cat", "max", "lstm"})};
}

// `kwargs[key]`, an object; empty when absent or null.
StatusOr<Json> ReadObject(const Json& kwargs, const char* key, const std::string& field) {
  const auto it = kwargs.find(key);
  if (it == kwargs.end() || it->is_null()) return Json::object();
  if (!it->is_object())
    return BadArchitecture(field + "." + key, field + "." + key + " must be an object of arguments, or null");
  return *it;
}

// Writes the layers of one ready-made class in the order that BasicGNN.forward runs them.
class ReadyMadeWriter {
 public:
  // `class_name` is GCN, GraphSAGE, GIN, GAT or EdgeCNN; `prefix` of its tensors; `field` the path of `kwargs`.
  ReadyMadeWriter(std::string class_name, std::string prefix, std::string field, bool edge_weight)
      : class_(std::move(class_name)),
        prefix_(std::move(prefix)),
        field_(std::move(field)),
        edge_weight_(edge_weight) {}

  // Reads `kwargs` and appends the layers to `out`.
  Status Write(const Json& kwargs, std::vector<LayerDeclaration>* out);
  int64_t in_channels() const { return in_; }

 private:
  Status Read(const Json& kwargs);
  Status AddConv(int64_t index);
  StatusOr<Json> ConvArguments(int64_t index) const;
  Json Mlp(int64_t in, int64_t width) const;
  void AddNormAndActivation(int64_t index);
  void AddEnd();
  // Appends a layer that reads the layer before, or `inputs`.
  void Add(const std::string& name, const std::string& type, Json args, const std::string& args_field,
           std::vector<std::string> inputs = {});

  bool HasJump() const { return !jk_.empty(); }
  bool IsConvToOut(int64_t index) const { return index == num_layers_ - 1 && out_ > 0 && !HasJump(); }

  std::string class_, prefix_, field_;
  bool edge_weight_ = false;
  int64_t in_ = 0, hidden_ = 0, num_layers_ = 0;
  int64_t out_ = 0;  // 0: none given
  std::string act_, norm_, jk_;
  Json act_kwargs_, norm_kwargs_, conv_kwargs_;
  bool act_first_ = false;
  std::vector<std::string> jumps_;  // names of what JumpingKnowledge reads
  std::vector<LayerDeclaration>* layers_ = nullptr;
};

Status ReadyMadeWriter::Read(const Json& kwargs) {
  if (!kwargs.is_object())
    return BadArchitecture(field_, field_ + " must be an object with the arguments of the class");
  const std::vector<ArgumentSpec> specs = BasicArguments();
  Json basic = Json::object();
  conv_kwargs_ = Json::object();
  for (const auto& item : kwargs.items()) {
    const bool own =
        std::any_of(specs.begin(), specs.end(), [&](const ArgumentSpec& spec) { return spec.name == item.key(); });
    (own ? basic : conv_kwargs_)[item.key()] = item.value();
  }
  VICINAL_ASSIGN_OR_RETURN(const Arguments args, Arguments::Read(basic, specs, field_, class_));
  in_ = args.Int("in_channels");
  hidden_ = args.Int("hidden_channels");
  num_layers_ = args.Int("num_layers");
  out_ = args.IsNull("out_channels") ? 0 : args.Int("out_channels");
  act_first_ = args.Bool("act_first");
  jk_ = args.IsNull("jk") ? "" : args.Choice("jk");
  VICINAL_ASSIGN_OR_RETURN(act_,
                           ActivationType(kwargs.contains("act") ? kwargs["act"] : Json("relu"), field_ + ".act"));
  VICINAL_ASSIGN_OR_RETURN(norm_, NormType(kwargs.contains("norm") ? kwargs["norm"] : Json(), field_ + ".norm"));
  if (class_ == "EdgeCNN" && !norm_.empty() && norm_ != "BatchNorm") {
    return UnsupportedArgument(field_ + ".norm",
                               field_ + ".norm is '" + kwargs["norm"].get<std::string>() +
                                   "', which EdgeCNN would also apply to the messages of edges; that is " +
                                   "not supported; supported: batch_norm");
  }
  VICINAL_ASSIGN_OR_RETURN(act_kwargs_, ReadObject(kwargs, "act_kwargs", field_));
  VICINAL_ASSIGN_OR_RETURN(norm_kwargs_, ReadObject(kwargs, "norm_kwargs", field_));
  return OkStatus();
}

Status ReadyMadeWriter::Write(const Json& kwargs, std::vector<LayerDeclaration>* out) {
  layers_ = out;
  VICINAL_RETURN_IF_ERROR(Read(kwargs));
  for (int64_t i = 0; i < num_layers_; ++i) {
    VICINAL_RETURN_IF_ERROR(AddConv(i));
    if (i == num_layers_ - 1 && !HasJump()) break;
    AddNormAndActivation(i);
    jumps_.push_back(layers_->back().name);
  }
  if (HasJump()) AddEnd();
  return OkStatus();
}

Status ReadyMadeWriter::AddConv(int64_t index) {
  VICINAL_ASSIGN_OR_RETURN(Json args, ConvArguments(index));
  std::string type = class_ == "GCN"         ? "GCNConv"
                     : class_ == "GraphSAGE" ? "SAGEConv"
                     : class_ == "GIN"       ? "GINConv"
                     : class_ == "EdgeCNN"   ? "EdgeConv"
                                             : "GATConv";
  if (class_ == "GAT" && args.contains("v2")) {
    if (!args["v2"].is_boolean()) return BadArchitecture(field_ + ".v2", field_ + ".v2 must be true or false");
    if (args["v2"].get<bool>()) type = "GATv2Conv";
    args.erase("v2");
  }
  Add("convs." + std::to_string(index), type, std::move(args), field_);
  layers_->back().edge_weight = edge_weight_;
  return OkStatus();
}

StatusOr<Json> ReadyMadeWriter::ConvArguments(int64_t index) const {
  const int64_t in = index == 0 ? in_ : hidden_;
  int64_t width = IsConvToOut(index) ? out_ : hidden_;
  Json args = conv_kwargs_;
  if (class_ == "GIN" || class_ == "EdgeCNN") {
    if (args.contains("nn")) return BadArchitecture(field_ + ".nn", class_ + " creates its own nn; remove it");
    args["nn"] = Mlp(class_ == "GIN" ? in : 2 * in, width);
    return args;
  }
  args["in_channels"] = in;
  if (class_ == "GAT") {
    const auto heads = args.find("heads");
    const auto concat = args.find("concat");
    // A last layer that maps to out_channels averages its heads, whatever `concat` says.
    const bool joins = !IsConvToOut(index) && (concat == args.end() || *concat == true);
    if (joins && heads != args.end() && heads->is_number_integer() && *heads >= 1) {
      const int64_t count = heads->get<int64_t>();
      if (width % count != 0) {
        return BadArchitecture(field_ + ".heads", field_ + ".hidden_channels (" + std::to_string(width) +
                                                      ") must be divisible by heads (" + std::to_string(count) + ")");
      }
      width /= count;
    }
    if (IsConvToOut(index)) args["concat"] = false;
  }
  args["out_channels"] = width;
  return args;
}

// torch_geometric.nn.MLP([in, width, width]): lins.0, norms.0, activation, lins.1.
Json ReadyMadeWriter::Mlp(int64_t in, int64_t width) const {
  Json list = Json::array();
  const Json act = {{"type", act_}, {"args", act_kwargs_}};
  list.push_back({{"type", "Linear"}, {"prefix", "lins.0."}, {"args", {{"in_channels", in}, {"out_channels", width}}}});
  if (!act_.empty() && act_first_) list.push_back(act);
  if (!norm_.empty()) {
    Json norm_args = norm_kwargs_;
    norm_args.emplace("in_channels", width);
    list.push_back({{"type", norm_}, {"prefix", "norms.0."}, {"args", norm_args}});
  }
  if (!act_.empty() && !act_first_) list.push_back(act);
  list.push_back(
      {{"type", "Linear"}, {"prefix", "lins.1."}, {"args", {{"in_channels", width}, {"out_channels", width}}}});
  return list;
}

void ReadyMadeWriter::AddNormAndActivation(int64_t index) {
  const std::string number = std::to_string(index);
  if (!act_.empty() && act_first_) Add("acts." + number, act_, act_kwargs_, field_ + ".act_kwargs");
  if (!norm_.empty()) {
    Json args = norm_kwargs_;
    args.emplace("in_channels", hidden_);
    Add("norms." + number, norm_, std::move(args), field_ + ".norm_kwargs");
  }
  if (!act_.empty() && !act_first_) Add("acts." + number, act_, act_kwargs_, field_ + ".act_kwargs");
}

// Any `jk`, "last" too, comes with a final linear layer.
void ReadyMadeWriter::AddEnd() {
  if (jk_ == "lstm") {
    Add("jk", "JumpingKnowledge", {{"mode", jk_}, {"channels", hidden_}, {"num_layers", num_layers_}}, field_, jumps_);
  } else if (jk_ != "last") {
    Add("jk", "JumpingKnowledge", {{"mode", jk_}}, field_, jumps_);
  }
  Add("lin", "Linear", {{"out_channels", out_ > 0 ? out_ : hidden_}}, field_);
}

void ReadyMadeWriter::Add(const std::string& name, const std::string& type, Json args, const std::string& args_field,
                          std::vector<std::string> inputs) {
  LayerDeclaration layer;
  layer.name = prefix_ + name;
  layer.type = type;
  layer.prefix = layer.name + ".";
  if (inputs.empty()) inputs = {layers_->empty() ? std::string(kInputName) : layers_->back().name};
  layer.inputs = std::move(inputs);
  layer.args = std::move(args);
  layer.field = field_;
  layer.args_field = args_field;
  layers_->push_back(std::move(layer));
}

// "torch_geometric.nn.models.GCN" and the other paths of the class -> "GCN"; "" if it is none of them.
std::string ClassName(const std::string& path) {
  constexpr std::array<const char*, 4> kModules = {"", "torch_geometric.nn.", "torch_geometric.nn.models.",
                                                   "torch_geometric.nn.models.basic_gnn."};
  for (const char* name : {"GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN"}) {
    for (const char* module : kModules) {
      if (path == std::string(module) + name) return name;
    }
  }
  return "";
}

StatusOr<std::string> ReadClass(const Json& json, const std::string& field) {
  const auto it = json.find("class");
  const std::string path = it != json.end() && it->is_string() ? it->get<std::string>() : "";
  const std::string name = ClassName(path);
  if (!name.empty()) return name;
  return BadArchitecture(
      field, field + " is '" + Printable(path) +
                 "'; supported: GCN, GraphSAGE, GIN, GAT, EdgeCNN of torch_geometric.nn.models, and " +
                 "\"... -> global_add_pool -> Linear\" (or mean, max); declare other models as a list of layers");
}

StatusOr<std::string> ReadPrefix(const Json& json, const std::string& default_prefix, const std::string& field) {
  const auto it = json.find("tensor_prefix");
  if (it == json.end()) return default_prefix;
  const bool good =
      it->is_string() && it->get_ref<const std::string&>().size() <= 64 && Printable(it->get<std::string>()) == *it;
  if (!good) return BadArchitecture(field, field + " must be a string of at most 64 printable characters");
  return it->get<std::string>();
}

StatusOr<bool> ReadEdgeWeight(const Json& json, const std::string& class_name) {
  const auto it = json.find("edge_weight");
  if (it == json.end()) return false;
  if (!it->is_boolean()) return BadArchitecture("edge_weight", "edge_weight must be true or false");
  if (it->get<bool>() && class_name != "GCN") {
    return UnsupportedArgument("edge_weight",
                               "the ready-made " + class_name + " does not support edge weights; remove edge_weight");
  }
  return it->get<bool>();
}

StatusOr<Architecture> ReadNodeModel(const Json& json) {
  VICINAL_RETURN_IF_ERROR(CheckDocumentKeys(
      json, {"class", "kwargs", "tensor_prefix", "edge_weight", "task", "target", "multi_label", "decoder"}));
  VICINAL_ASSIGN_OR_RETURN(const std::string name, ReadClass(json, "class"));
  VICINAL_ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(json, "", "tensor_prefix"));
  VICINAL_ASSIGN_OR_RETURN(const bool edge_weight, ReadEdgeWeight(json, name));
  Architecture architecture;
  VICINAL_RETURN_IF_ERROR(ReadTask(json, &architecture));
  ReadyMadeWriter writer(name, prefix, "kwargs", edge_weight);
  VICINAL_RETURN_IF_ERROR(writer.Write(json.contains("kwargs") ? json["kwargs"] : Json(), &architecture.layers));
  architecture.in_channels = writer.in_channels();
  return architecture;
}

// "GIN -> global_add_pool -> Linear" -> "global_add_pool".
StatusOr<std::string> PoolOf(const Json& json, const std::string& class_name) {
  const std::string path = json["class"].get<std::string>();
  for (const auto& [pool, word] : {std::pair("global_add_pool", "sum"), std::pair("global_mean_pool", "mean"),
                                   std::pair("global_max_pool", "max")}) {
    if (path != class_name + " -> " + pool + " -> Linear") continue;
    const auto readout = json.find("readout");
    if (readout != json.end() && *readout != std::string(word) + " over graph_id" && *readout != word) {
      return BadArchitecture("readout", std::string("readout must be \"") + word + "\", to agree with class");
    }
    return std::string(pool);
  }
  return BadArchitecture("class", "class must be \"" + class_name +
                                      " -> global_add_pool -> Linear\" (or mean, max) to agree with gnn.class");
}

StatusOr<Architecture> ReadPooledModel(const Json& json) {
  VICINAL_RETURN_IF_ERROR(
      CheckDocumentKeys(json, {"class", "kwargs", "gnn", "readout", "linear", "task", "target", "multi_label"}));
  const auto gnn = json.find("gnn");
  if (gnn == json.end() || !gnn->is_object())
    return BadArchitecture("gnn", "gnn must be an object with class, kwargs and tensor_prefix");
  VICINAL_ASSIGN_OR_RETURN(const std::string name, ReadClass(*gnn, "gnn.class"));
  VICINAL_ASSIGN_OR_RETURN(const std::string pool, PoolOf(json, name));
  VICINAL_ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(*gnn, "gnn.", "gnn.tensor_prefix"));
  const Json linear = json.contains("linear") ? json["linear"] : Json::object();
  if (!linear.is_object()) return BadArchitecture("linear", "linear must be an object with tensor_prefix");
  VICINAL_ASSIGN_OR_RETURN(const std::string linear_prefix, ReadPrefix(linear, "lin.", "linear.tensor_prefix"));
  const Json kwargs = json.contains("kwargs") ? json["kwargs"] : Json();
  const Json out = kwargs.is_object() && kwargs.contains("out_channels") ? kwargs["out_channels"] : Json();
  if (!out.is_number_integer())
    return BadArchitecture("kwargs.out_channels", "kwargs.out_channels must be the number of classes");

  Architecture architecture;
  VICINAL_RETURN_IF_ERROR(ReadTask(json, &architecture));
  if (json.contains("task") && !architecture.graph_level)
    return BadArchitecture("task", "a model with a readout has the task \"graph\"");
  architecture.graph_level = true;
  ReadyMadeWriter writer(name, prefix, "gnn.kwargs", false);
  VICINAL_RETURN_IF_ERROR(writer.Write(gnn->contains("kwargs") ? (*gnn)["kwargs"] : Json(), &architecture.layers));
  architecture.in_channels = writer.in_channels();
  const std::string last = architecture.layers.back().name;
  architecture.layers.push_back({"pool", pool, "pool.", {last}, false, Json::object(), "readout", "readout"});
  architecture.layers.push_back(
      {"head", "Linear", linear_prefix, {"pool"}, false, {{"out_channels", out}}, "linear", "kwargs"});
  return architecture;
}

}  // namespace

StatusOr<Architecture> ReadReadyMade(const Json& json) {
  const Json& path = json["class"];
  const bool pooled = path.is_string() && path.get_ref<const std::string&>().find("->") != std::string::npos;
  return pooled ? ReadPooledModel(json) : ReadNodeModel(json);
}

}  // namespace vicinal::internal
