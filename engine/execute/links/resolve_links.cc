// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/nearest_name.h"
#include "engine/base/printable.h"
#include "engine/execute/links/attention_weights.h"
#include "engine/execute/links/link_query.h"
#include "engine/execute/selection.h"

namespace vicinal {
namespace {

constexpr int64_t kDefaultPartners = 10;

const Decoder& Plain(DecoderKind kind) {
  static const std::array<Decoder, 2>& plain = *new std::array<Decoder, 2>([] {
    std::array<Decoder, 2> made;
    made[1].kind = DecoderKind::kCosine;
    return made;
  }());
  return plain[kind == DecoderKind::kDot ? 0 : 1];
}

StatusOr<const Decoder*> FindDecoder(LinkDecoder wanted, const Model& model) {
  if (wanted == LinkDecoder::kCosine) return &Plain(DecoderKind::kCosine);
  if (wanted == LinkDecoder::kDot) return &Plain(DecoderKind::kDot);
  if (model.decoder) return &*model.decoder;
  if (wanted == LinkDecoder::kDefault) return &Plain(DecoderKind::kDot);
  return FailedPrecondition("NO_DECODER",
                            "the model has no decoder of its own; ask for dot or cosine, or upload it with a section "
                            "'decoder' (docs/formats.md)");
}

// The output whose rows are scored.
Status TakeOutput(const Decoder& decoder, std::string* output) {
  const std::string& own = decoder.output;
  if (output->empty()) *output = own;
  if (own.empty() || *output == own) return OkStatus();
  return InvalidArgument("OUTPUT_NOT_DECODED", "output",
                         absl::StrCat("the model's decoder scores rows of its output '", own, "', not of '",
                                      Printable(*output), "'; leave output out, or ask for dot or cosine"));
}

Status CheckRelation(int64_t relation, const Decoder& decoder, const std::string& field) {
  if (relation >= 0 && relation < decoder.relations) return OkStatus();
  const std::string has = decoder.relations == 1
                              ? absl::StrCat("the decoder (", std::string(NameOf(decoder.kind)), ") has one, 0")
                              : absl::StrCat("the decoder has 0 to ", decoder.relations - 1);
  return InvalidArgument("RELATION_OUT_OF_RANGE", field, absl::StrCat(field, " is ", relation, "; ", has));
}

Status CheckNodes(const NodeSelection& nodes, int64_t num_nodes, const std::string& field) {
  if (nodes.all == !nodes.ids.empty()) {
    return InvalidArgument("BAD_SELECTION", field, absl::StrCat("give either ", field, ".ids or ", field, ".all"));
  }
  return CheckNodeIds(nodes.ids, num_nodes, field + ".ids");
}

// Distinct and ascending.
std::vector<int64_t> Distinct(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<int32_t> PlacesIn(const std::vector<int64_t>& distinct, const std::vector<int64_t>& ids) {
  std::vector<int32_t> places(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    places[i] = static_cast<int32_t>(std::lower_bound(distinct.begin(), distinct.end(), ids[i]) - distinct.begin());
  }
  return places;
}

Status TakePairs(const LinkPairs& pairs, int64_t num_nodes, LinkQuery* query, NodeSelection* nodes) {
  for (const auto& [ids, field] : {std::pair(&pairs.sources, "pairs.sources"), {&pairs.targets, "pairs.targets"}}) {
    if (!ids->empty()) continue;
    return InvalidArgument("BAD_LINKS", field,
                           absl::StrCat(field, " is empty; name at least one source and target, or set all_edges"));
  }
  if (pairs.sources.size() != pairs.targets.size()) {
    return InvalidArgument("BAD_LINKS", "pairs",
                           absl::StrCat("pairs has ", pairs.sources.size(), " sources and ", pairs.targets.size(),
                                        " targets; give one of each per pair"));
  }
  if (!pairs.relations.empty() && pairs.relations.size() != pairs.sources.size()) {
    return InvalidArgument("BAD_LINKS", "pairs.relations",
                           absl::StrCat("pairs.relations has ", pairs.relations.size(), " entries for ",
                                        pairs.sources.size(), " pairs; give one per pair, or none"));
  }
  VICINAL_RETURN_IF_ERROR(CheckNodeIds(pairs.sources, num_nodes, "pairs.sources"));
  VICINAL_RETURN_IF_ERROR(CheckNodeIds(pairs.targets, num_nodes, "pairs.targets"));
  for (size_t i = 0; i < pairs.relations.size(); ++i) {
    VICINAL_RETURN_IF_ERROR(
        CheckRelation(pairs.relations[i], *query->decoder, absl::StrCat("pairs.relations[", i, "]")));
  }
  std::vector<int64_t> ends = pairs.sources;
  ends.insert(ends.end(), pairs.targets.begin(), pairs.targets.end());
  nodes->ids = Distinct(std::move(ends));
  query->kind = LinkQuery::Kind::kPairs;
  query->rows = static_cast<int64_t>(pairs.sources.size());
  query->sources = PlacesIn(nodes->ids, pairs.sources);
  query->targets = PlacesIn(nodes->ids, pairs.targets);
  query->relations = pairs.relations;
  return OkStatus();
}

// The nodes asked for that are not among the partners come after these.
void PlaceNodes(const std::vector<int64_t>& partners, LinkQuery* query, NodeSelection* nodes) {
  std::vector<int64_t> others;
  for (const int64_t node : query->nodes) {
    if (!std::binary_search(partners.begin(), partners.end(), node)) others.push_back(node);
  }
  others = Distinct(std::move(others));
  const auto first_other = static_cast<int32_t>(partners.size());
  query->places.resize(query->nodes.size());
  for (size_t i = 0; i < query->nodes.size(); ++i) {
    const auto found = std::lower_bound(partners.begin(), partners.end(), query->nodes[i]);
    const bool partner = found != partners.end() && *found == query->nodes[i];
    const auto other = std::lower_bound(others.begin(), others.end(), query->nodes[i]) - others.begin();
    query->places[i] = static_cast<int32_t>(partner ? found - partners.begin() : first_other + other);
  }
  nodes->ids = partners;
  nodes->ids.insert(nodes->ids.end(), others.begin(), others.end());
}

Status TakePartners(const WantedPartners& wanted, int64_t num_nodes, LinkQuery* query, NodeSelection* nodes) {
  VICINAL_RETURN_IF_ERROR(CheckNodes(wanted.nodes, num_nodes, "nodes"));
  VICINAL_RETURN_IF_ERROR(CheckNodes(wanted.partners, num_nodes, "partners"));
  query->kind = LinkQuery::Kind::kPartners;
  query->nodes = wanted.nodes.ids;
  if (wanted.nodes.all) {
    query->nodes.resize(static_cast<size_t>(num_nodes));
    for (int64_t i = 0; i < num_nodes; ++i) query->nodes[static_cast<size_t>(i)] = i;
  }
  query->all_partners = wanted.partners.all;
  query->num_partners = num_nodes;
  if (wanted.partners.all) {
    nodes->all = true;
  } else {
    const std::vector<int64_t> partners = Distinct(wanted.partners.ids);
    query->num_partners = static_cast<int64_t>(partners.size());
    PlaceNodes(partners, query, nodes);
  }
  query->k = wanted.k != 0 ? wanted.k : std::min(kDefaultPartners, query->num_partners);
  if (query->k < 1 || query->k > query->num_partners) {
    return InvalidArgument("BAD_TOP_K", "k",
                           absl::StrCat("k is ", query->k, "; it must be 1 to the number of partners to choose from, ",
                                        query->num_partners));
  }
  query->rows = static_cast<int64_t>(query->nodes.size());
  query->nodes_are_targets = wanted.nodes_are_targets;
  query->exclude_links = wanted.exclude_links;
  query->include_self = wanted.include_self;
  return OkStatus();
}

// The layers of `model` whose weights can be asked for.
std::string LayersWithAttention(const Model& model) {
  std::string layers;
  for (const AttentionSource& known : model.attention)
    absl::StrAppend(&layers, layers.empty() ? "" : ", ", Quoted(known.layer));
  return layers.empty() ? "none of the model's layers has" : "the model's layers that have: " + layers;
}

StatusOr<const AttentionSource*> FindAttention(const std::string& layer, const Model& model) {
  if (const AttentionSource* const source = model.FindAttention(layer); source != nullptr) return source;
  const auto refused = [&model](const std::string& why) {
    return InvalidArgument("ATTENTION_UNKNOWN", "attention", absl::StrCat(why, "; ", LayersWithAttention(model)));
  };
  std::vector<std::string> names;
  for (const ModelLayer& known : model.layers) {
    if (known.name == layer) {
      return refused(absl::StrCat("layer ", Quoted(layer), " (", known.type, ") has no attention weights to show",
                                  known.type == "DirGNNConv" ? ": it may attend, but in two directions" : ""));
    }
    names.push_back(known.name);
  }
  const std::string nearest = NearestName(layer, names);
  return refused(absl::StrCat("the model has no layer ", Quoted(layer),
                              nearest.empty() ? "" : absl::StrCat(" (did you mean ", Quoted(nearest), "?)"),
                              ", whose attention weights are asked for"));
}

Status CheckShape(const LinkQuery& query, const AnswerCheck& check) {
  return check ? check({query.rows, query.width()}) : OkStatus();
}

// Where `wanted` names nodes: the ends of their in-edges.
std::vector<int64_t> EndsOf(const std::vector<int64_t>& targets, const PreparedGraph& graph) {
  const Permutation& permutation = graph.parts().permutation;
  const Csr& csr = graph.parts().csr;
  std::vector<int64_t> ends;
  for (const int64_t target : Distinct(targets)) {
    ends.push_back(target);
    const auto row = static_cast<size_t>(RowOfNode(permutation, target));
    for (EdgeId e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
      const NodeId source = csr.col[static_cast<size_t>(e)];
      ends.push_back(permutation.is_identity() ? source : permutation.ToOld(source));
    }
  }
  return Distinct(std::move(ends));
}

Status TakeAttention(const WantedAttention& wanted, const Model& model, const PreparedGraph& graph,
                     const AnswerCheck& check, LinkQuery* query, std::string* output, NodeSelection* nodes) {
  VICINAL_ASSIGN_OR_RETURN(query->attention, FindAttention(wanted.layer, model));
  if (!output->empty()) {
    return InvalidArgument("BAD_ATTENTION", "output",
                           "output and attention are set, but a request returns one of them; send two requests");
  }
  VICINAL_RETURN_IF_ERROR(CheckNodes(wanted.nodes, graph.num_nodes(), "nodes"));
  *output = query->attention->terms.name;
  *nodes = NodeSelection();
  query->kind = LinkQuery::Kind::kAttention;
  query->nodes = wanted.nodes.ids;
  nodes->all = wanted.nodes.all;
  const SelfLoops loops = query->attention->step.adjacency.loops;
  const auto count = [&](int64_t row) { query->rows += EdgesOfRow(graph.parts().csr, row, loops); };
  for (int64_t row = 0; nodes->all && row < graph.num_nodes(); ++row) count(row);
  for (const int64_t target : query->nodes) count(RowOfNode(graph.parts().permutation, target));
  VICINAL_RETURN_IF_ERROR(CheckShape(*query, check));
  if (!nodes->all) nodes->ids = EndsOf(query->nodes, graph);
  return OkStatus();
}

}  // namespace

StatusOr<std::shared_ptr<const LinkQuery>> ResolveLinks(const WantedLinks& wanted, const Model& model,
                                                        const PreparedGraph& graph, const AnswerCheck& check,
                                                        std::string* output, NodeSelection* nodes) {
  auto query = std::make_shared<LinkQuery>();
  if (wanted.attention) {
    VICINAL_RETURN_IF_ERROR(TakeAttention(*wanted.attention, model, graph, check, query.get(), output, nodes));
    return std::shared_ptr<const LinkQuery>(std::move(query));
  }
  VICINAL_ASSIGN_OR_RETURN(query->decoder, FindDecoder(wanted.decoder, model));
  VICINAL_RETURN_IF_ERROR(TakeOutput(*query->decoder, output));
  VICINAL_RETURN_IF_ERROR(CheckRelation(wanted.relation, *query->decoder, "relation"));
  query->relation = wanted.relation;
  *nodes = NodeSelection();
  if (int{wanted.all_edges} + int{wanted.pairs.has_value()} + int{wanted.partners.has_value()} != 1) {
    return InvalidArgument("BAD_LINKS", "pairs", "give either pairs or all_edges");
  }
  if (wanted.pairs) {
    VICINAL_RETURN_IF_ERROR(TakePairs(*wanted.pairs, graph.num_nodes(), query.get(), nodes));
  } else if (wanted.partners) {
    VICINAL_RETURN_IF_ERROR(TakePartners(*wanted.partners, graph.num_nodes(), query.get(), nodes));
  } else {
    query->kind = LinkQuery::Kind::kEdges;
    query->rows = graph.num_edges();
    nodes->all = true;
  }
  VICINAL_RETURN_IF_ERROR(CheckShape(*query, check));
  return std::shared_ptr<const LinkQuery>(std::move(query));
}

}  // namespace vicinal
