// SPDX-License-Identifier: Apache-2.0
#include "server/convert_resources.h"

#include <chrono>
#include <cstdint>
#include <string>

#include "server/convert_profile.h"

namespace vicinal::server {
namespace {

v1::Graph::State StateOf(GraphState state) {
  switch (state) {
    case GraphState::kPreparing:
      return v1::Graph::STATE_PREPARING;
    case GraphState::kReady:
      return v1::Graph::STATE_READY;
    case GraphState::kFailed:
      return v1::Graph::STATE_FAILED;
    case GraphState::kLoading:
      return v1::Graph::STATE_LOADING;
  }
  return v1::Graph::STATE_UNSPECIFIED;
}

v1::Durability DurabilityOf(Durability durability) {
  switch (durability) {
    case Durability::kMemory:
      return v1::DURABILITY_MEMORY;
    case Durability::kWriting:
      return v1::DURABILITY_WRITING;
    case Durability::kDurable:
      return v1::DURABILITY_DURABLE;
  }
  return v1::DURABILITY_UNSPECIFIED;
}

// Of a graph, a feature set or a model.
template <class Resource, class Message>
void SetDurability(const Resource& resource, Message* message) {
  message->set_durability(DurabilityOf(resource.durability));
  if (!resource.durability_error.ok()) {
    message->set_durability_error(std::string(resource.durability_error.message()));
  }
}

v1::Graph::Tier TierOf(Tier tier) {
  switch (tier) {
    case Tier::kDisk:
      return v1::Graph::TIER_DISK;
    case Tier::kHost:
      return v1::Graph::TIER_HOST;
    case Tier::kDevice:
      return v1::Graph::TIER_DEVICE;
  }
  return v1::Graph::TIER_UNSPECIFIED;
}

void SetServing(const ServingGraph& serving, v1::Graph* graph) {
  SetDurability(serving, graph);
  graph->set_version(serving.version);
  graph->set_ids_digest(serving.ids_digest);
  graph->set_source_digest(serving.source_digest);
  graph->set_pinned(serving.pinned);
  graph->set_resident(serving.in_memory());
  graph->set_tier(TierOf(serving.tier));
  graph->set_weighted(serving.weighted);
  graph->set_edge_feature_width(serving.edge_feature_width);
  graph->set_edge_order_kept(serving.edge_order_kept);
  graph->set_reorder(ToProto(serving.requested_order));
  graph->set_order(std::string(ToString(serving.order)));
  graph->set_numerics_revision(serving.numerics_revision);
  graph->set_size_bytes(serving.size_bytes);
  for (const StageTime& stage : serving.stages) {
    v1::StageTime* time = graph->add_stages();
    time->set_stage(stage.stage);
    time->set_seconds(stage.seconds);
  }
  *graph->mutable_profile() = ToProto(serving.profile);
  *graph->mutable_create_time() = ToProto(serving.create_time);
}

}  // namespace

google::protobuf::Timestamp ToProto(WallTime time) {
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  google::protobuf::Timestamp timestamp;
  // Rounded down, so that the nanoseconds are never negative.
  const int64_t seconds = ns / 1'000'000'000 - (ns % 1'000'000'000 < 0 ? 1 : 0);
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(static_cast<int32_t>(ns - seconds * 1'000'000'000));
  return timestamp;
}

v1::Reorder ToProto(OrderKind order) {
  switch (order) {
    case OrderKind::kAuto:
      return v1::REORDER_AUTO;
    case OrderKind::kNone:
      return v1::REORDER_NONE;
    case OrderKind::kDegree:
      return v1::REORDER_DEGREE;
    case OrderKind::kRcm:
      return v1::REORDER_RCM;
    case OrderKind::kCommunity:
      return v1::REORDER_COMMUNITY;
    case OrderKind::kMetis:
      return v1::REORDER_METIS;
  }
  return v1::REORDER_UNSPECIFIED;
}

v1::GraphPicture ToProto(const GraphPicture& picture) {
  v1::GraphPicture out;
  out.set_name(picture.graph);
  out.set_version(picture.version);
  out.set_node_count(picture.node_count);
  out.set_edge_count(picture.edge_count);
  out.set_order(std::string(ToString(picture.order)));
  out.mutable_degree_counts()->Add(picture.degree_counts.begin(), picture.degree_counts.end());
  out.set_tiles(picture.side);
  out.set_row_stride(picture.row_stride);
  out.mutable_before()->Add(picture.before.begin(), picture.before.end());
  out.mutable_after()->Add(picture.after.begin(), picture.after.end());
  return out;
}

v1::Graph ToProto(const GraphResource& graph) {
  v1::Graph out;
  out.set_name(graph.name);
  out.set_state(StateOf(graph.state));
  out.set_progress(graph.state == GraphState::kReady ? 1.0 : graph.progress);
  if (!graph.error.ok()) {
    out.set_error_code(static_cast<int32_t>(graph.error.code()));
    out.set_error_message(std::string(graph.error.message()));
  }
  out.set_node_count(graph.node_count);
  out.set_edge_count(graph.edge_count);
  out.set_incarnation(graph.incarnation);
  out.set_preparing_version(graph.preparing_version);
  out.set_version(graph.unloaded_version);
  if (graph.serving) SetServing(*graph.serving, &out);
  for (const FeatureSetResource& set : graph.feature_sets) {
    *(set.kind == FeatureKind::kEdges ? out.add_edge_feature_sets() : out.add_feature_sets()) = ToProto(set);
  }
  return out;
}

v1::FeatureSet ToProto(const FeatureSetResource& set) {
  v1::FeatureSet out;
  out.set_graph(set.graph);
  out.set_name(set.name);
  out.set_version(set.version);
  out.set_kind(set.kind == FeatureKind::kEdges ? v1::FEATURE_KIND_EDGES : v1::FEATURE_KIND_NODES);
  out.set_node_count(set.node_count);
  out.set_edge_count(set.edge_count);
  out.set_feature_count(set.feature_count);
  out.set_sparse(set.sparse);
  out.set_entry_count(set.entry_count);
  out.set_size_bytes(set.size_bytes);
  out.set_source_digest(set.source_digest);
  SetDurability(set, &out);
  *out.mutable_create_time() = ToProto(set.create_time);
  return out;
}

v1::Model ToProto(const ModelResource& model) {
  v1::Model out;
  out.set_name(model.name);
  out.set_version(model.version);
  out.set_feature_count(model.feature_count);
  out.set_class_count(model.class_count);
  out.set_graph_level(model.graph_level);
  out.set_multi_label(model.multi_label);
  out.set_task(model.graph_level ? v1::MODEL_TASK_GRAPH : v1::MODEL_TASK_NODE);
  out.set_target(model.regression    ? v1::MODEL_TARGET_REGRESSION
                 : model.multi_label ? v1::MODEL_TARGET_MULTI_LABEL
                                     : v1::MODEL_TARGET_MULTI_CLASS);
  out.set_uses_edge_weight(model.uses_edge_weight);
  out.set_edge_feature_width(model.edge_feature_width);
  if (!model.decoder.empty()) {
    out.mutable_decoder()->set_type(model.decoder);
    out.mutable_decoder()->set_output(model.decoder_output);
    out.mutable_decoder()->set_relation_count(model.decoder_relations);
  }
  for (const LayerInfo& layer : model.layers) {
    v1::Layer* entry = out.add_layers();
    entry->set_name(layer.name);
    entry->set_type(layer.type);
    entry->set_arguments_json(layer.arguments_json);
    entry->set_tensor_prefix(layer.tensor_prefix);
    for (const std::string& input : layer.inputs) entry->add_inputs(input);
    entry->set_locality(std::string(ToString(layer.locality)));
    entry->set_width(layer.width);
  }
  for (const std::string& output : model.outputs) out.add_outputs(output);
  out.set_parameter_count(model.parameter_count);
  out.set_size_bytes(model.size_bytes);
  out.set_reference_checked(model.reference_checked);
  out.set_reference_error(model.reference_error);
  out.set_incarnation(model.incarnation);
  out.set_source_digest(model.source_digest);
  SetDurability(model, &out);
  *out.mutable_create_time() = ToProto(model.create_time);
  return out;
}

}  // namespace vicinal::server
