// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/model_reference.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

constexpr char kField[] = "reference";

Status Bad(std::string_view message) { return InvalidArgument("BAD_REFERENCE", kField, message); }

StatusOr<DataType> TypeOf(const SafetensorsEntry& entry, std::string_view name) {
  if (entry.dtype == "F32") return DataType::kFloat32;
  if (entry.dtype == "F16") return DataType::kFloat16;
  if (entry.dtype == "BF16") return DataType::kBFloat16;
  if (entry.dtype == "I32") return DataType::kInt32;
  if (entry.dtype == "I64") return DataType::kInt64;
  return Bad(absl::StrCat("the reference's tensor '", std::string(name), "' has type ", entry.dtype,
                          "; use F32, F16, BF16, I32 or I64"));
}

// A tensor of the file; nullopt when it is not there.
StatusOr<std::optional<TensorView>> Find(const Safetensors& file, std::string_view name) {
  const SafetensorsEntry* entry = file.Find(name);
  if (entry == nullptr) return std::optional<TensorView>();
  VICINAL_ASSIGN_OR_RETURN(const DataType dtype, TypeOf(*entry, name));
  return std::optional<TensorView>(TensorView{dtype, entry->shape, entry->bytes});
}

StatusOr<TensorView> Need(const Safetensors& file, const Model& model, std::string_view name) {
  VICINAL_ASSIGN_OR_RETURN(std::optional<TensorView> tensor, Find(file, name));
  if (tensor) return *std::move(tensor);
  if (model.graph_level) {
    return Bad(absl::StrCat("the reference has no tensor '", std::string(name),
                            "'; a model of graphs is checked on graphs in line: the file must hold edge_index, x and "
                            "ptr beside graph_logits"));
  }
  return Bad(absl::StrCat("the reference has no tensor '", std::string(name),
                          "', and names no stored graph; add it, or name a graph"));
}

}  // namespace

StatusOr<ReferenceAnswers> ReadReferenceAnswers(const Safetensors& file, const Model& model) {
  const std::string name = model.graph_level ? "graph_logits" : "logits";
  const SafetensorsEntry* logits = file.Find(name);
  if (logits == nullptr && model.graph_level) logits = file.Find("logits");
  if (logits == nullptr) return Bad(absl::StrCat("the reference has no tensor '", name, "'"));
  if (logits->shape.size() != 2 || logits->shape[1] != model.class_count) {
    return Bad(absl::StrCat("the reference's '", name, "' has shape ", ShapeToString(logits->shape),
                            ", but the model gives [n, ", model.class_count, "]"));
  }
  if (logits->shape[0] == 0) return Bad(absl::StrCat("the reference's '", name, "' has no rows: it checks nothing"));
  ReferenceAnswers answers;
  answers.rows = logits->shape[0];
  answers.classes = logits->shape[1];
  VICINAL_ASSIGN_OR_RETURN(answers.values, Safetensors::ToFloats(*logits, name));
  if (const SafetensorsEntry* nodes = file.Find("nodes")) {
    if (model.graph_level) return Bad("a reference of graphs has no 'nodes': it answers for all graphs");
    VICINAL_ASSIGN_OR_RETURN(answers.nodes, Safetensors::ToInts(*nodes, "nodes"));
    if (static_cast<int64_t>(answers.nodes->size()) != answers.rows) {
      return Bad(absl::StrCat("the reference has ", answers.rows, " rows of '", name, "' for ", answers.nodes->size(),
                              " 'nodes'"));
    }
  }
  return answers;
}

StatusOr<std::optional<ReferenceLinks>> ReadReferenceLinks(const Safetensors& file, const Model& model) {
  const SafetensorsEntry* const scores = file.Find("link_scores");
  if (scores == nullptr) return std::optional<ReferenceLinks>();
  if (!model.decoder) {
    return Bad("the reference has 'link_scores', but the model's document has no section 'decoder'");
  }
  ReferenceLinks links;
  VICINAL_ASSIGN_OR_RETURN(links.scores, Safetensors::ToFloats(*scores, "link_scores"));
  const auto count = static_cast<int64_t>(links.scores.size());
  if (count == 0) return Bad("the reference's 'link_scores' is empty: it checks nothing");
  const SafetensorsEntry* const index = file.Find("link_index");
  if (index == nullptr || index->shape != std::vector<int64_t>{2, count}) {
    return Bad(absl::StrCat("the reference has ", count, " 'link_scores'; add 'link_index' [2, ", count,
                            "], the sources and targets that they are of"));
  }
  VICINAL_ASSIGN_OR_RETURN(const std::vector<int64_t> ends, Safetensors::ToInts(*index, "link_index"));
  links.pairs.sources.assign(ends.begin(), ends.begin() + count);
  links.pairs.targets.assign(ends.begin() + count, ends.end());
  if (const SafetensorsEntry* const relations = file.Find("link_relations")) {
    VICINAL_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, Safetensors::ToInts(*relations, "link_relations"));
    for (const int64_t number : numbers) {
      if (number < 0 || number >= model.decoder->relations) {
        return Bad(absl::StrCat("the reference's 'link_relations' names ", number, "; the decoder has 0 to ",
                                model.decoder->relations - 1));
      }
      links.pairs.relations.push_back(static_cast<int32_t>(number));
    }
  }
  return std::optional<ReferenceLinks>(std::move(links));
}

StatusOr<InlineGraph> ReadInlineGraph(const Safetensors& file, const Model& model, const InlineGraphMaker& maker,
                                      const Clock& clock) {
  VICINAL_ASSIGN_OR_RETURN(const TensorView edge_index, Need(file, model, "edge_index"));
  VICINAL_ASSIGN_OR_RETURN(const TensorView x, Need(file, model, "x"));
  VICINAL_ASSIGN_OR_RETURN(const std::optional<TensorView> edge_weight, Find(file, "edge_weight"));
  VICINAL_ASSIGN_OR_RETURN(const std::optional<TensorView> edge_attr, Find(file, "edge_attr"));
  if (model.graph_level) {
    VICINAL_ASSIGN_OR_RETURN(const TensorView ptr, Need(file, model, "ptr"));
    FeatureTensors tensors;
    tensors.dense = x;
    return maker.MakeBatch({ptr, edge_index, edge_weight, edge_attr}, tensors, "");
  }
  if (x.shape.size() != 2)
    return Bad(absl::StrCat("the reference's 'x' has shape ", ShapeToString(x.shape), "; it must be [N, F]"));
  return maker.MakeGraph({edge_index, x, edge_weight, edge_attr}, clock);
}

}  // namespace vicinal
