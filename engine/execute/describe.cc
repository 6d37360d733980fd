// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/describe.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/execute/links/link_query.h"
#include "engine/plan/build/kernel_choice.h"

namespace vicinal {
namespace {

ServingGraph ServingOf(const PreparedGraph& graph) {
  const PreparedGraph::Parts& parts = graph.parts();
  ServingGraph serving;
  serving.version = parts.version;
  serving.create_time = parts.create_time;
  serving.ids_digest = parts.ids_digest;
  serving.source_digest = parts.source_digest;
  serving.pinned = parts.pinned;
  serving.weighted = graph.weighted();
  serving.edge_feature_width = graph.edge_feature_width();
  serving.edge_order_kept = graph.has_edge_order();
  serving.requested_order = parts.requested_order;
  serving.order = parts.order;
  serving.numerics_revision = parts.numerics_revision;
  serving.size_bytes = graph.size_bytes();
  serving.stages = parts.stages;
  serving.profile = parts.profile;
  return serving;
}

}  // namespace

GraphResource ResourceOf(const GraphStatus& status) {
  GraphResource resource;
  resource.name = status.name;
  resource.state = status.state;
  resource.progress = status.progress;
  resource.stage = status.stage;
  resource.error = status.error;
  resource.preparing_version = status.preparing_version;
  resource.unloaded_version = status.unloaded_version;
  resource.node_count = status.node_count;
  resource.edge_count = status.edge_count;
  if (status.graph != nullptr) resource.serving = ServingOf(*status.graph);
  for (const FeatureSetHandle& set : status.feature_sets) resource.feature_sets.push_back(ResourceOf(*set));
  if (status.stored != nullptr) {
    resource.serving = status.stored->serving;
    resource.feature_sets = status.stored->feature_sets;
  }
  return resource;
}

FeatureSetResource ResourceOf(const FeatureSet& set) {
  FeatureSetResource resource;
  resource.kind = set.kind;
  resource.graph = set.graph;
  resource.name = set.name;
  resource.version = set.version;
  resource.create_time = set.create_time;
  resource.size_bytes = set.size_bytes();
  resource.source_digest = set.source_digest;
  if (set.kind == FeatureKind::kEdges) {
    resource.edge_count = set.edges->rows();
    resource.feature_count = set.edges->cols();
    resource.entry_count = set.edges->rows() * set.edges->cols();
    return resource;
  }
  resource.node_count = set.matrix->rows();
  resource.feature_count = set.matrix->cols();
  resource.sparse = set.matrix->sparse();
  resource.entry_count = set.matrix->entries();
  return resource;
}

ModelResource ResourceOf(const StoredModel& stored) {
  const Model& model = *stored.model;
  ModelResource resource;
  resource.name = stored.name;
  resource.version = stored.version;
  resource.create_time = stored.create_time;
  resource.feature_count = model.feature_count;
  resource.class_count = model.class_count;
  resource.graph_level = model.graph_level;
  resource.multi_label = model.multi_label;
  resource.regression = model.regression;
  resource.uses_edge_weight = model.uses_edge_weight;
  resource.edge_feature_width = model.edge_feature_width;
  resource.layers.assign(model.layers.begin(), model.layers.end());
  for (const NamedOutput& output : model.outputs) resource.outputs.push_back(output.name);
  if (model.decoder) {
    resource.decoder = std::string(NameOf(model.decoder->kind));
    resource.decoder_output = model.decoder->output;
    resource.decoder_relations = model.decoder->relations;
  }
  resource.parameter_count = model.parameter_count;
  resource.size_bytes = model.size_bytes;
  resource.reference_checked = stored.reference_checked;
  resource.reference_error = stored.reference_error;
  resource.source_digest = stored.source_digest;
  return resource;
}

std::vector<ModelResource> ResourcesOf(const std::vector<ModelHandle>& models) {
  std::vector<ModelResource> resources;
  resources.reserve(models.size());
  for (const ModelHandle& model : models) resources.push_back(ResourceOf(*model));
  return resources;
}

namespace {

// Of `all` bytes of a kind, those on a device with memory of its own and those on the host.
void AddBytes(ResourceCounts* counts, DeviceKind device, int64_t all, int64_t device_part, int64_t StoredBytes::*kind) {
  const int64_t there = device == DeviceKind::kCpu ? 0 : device_part;
  counts->on_device.*kind += there;
  counts->on_host.*kind += all - there;
}

}  // namespace

void AddTo(ResourceCounts* counts, const GraphStatus& graph, DeviceKind device) {
  ++counts->graphs;
  counts->feature_sets += static_cast<int64_t>(graph.feature_sets.size());
  if (graph.stored != nullptr) counts->feature_sets += static_cast<int64_t>(graph.stored->feature_sets.size());
  if (graph.host != nullptr) {
    ++counts->resident_graphs;
    ++counts->host_graphs;
    AddBytes(counts, device, graph.host->graph()->size_bytes(), 0, &StoredBytes::graphs);
    AddBytes(counts, device, graph.host->feature_bytes(), 0, &StoredBytes::features);
  }
  if (graph.graph == nullptr) return;
  ++counts->resident_graphs;
  const int64_t on_device = graph.graph->device_bytes();  // may grow before size_bytes() is asked
  AddBytes(counts, device, graph.graph->size_bytes(), on_device, &StoredBytes::graphs);
  for (const FeatureSetHandle& set : graph.feature_sets) {
    AddBytes(counts, device, set->size_bytes(), set->device_bytes(), &StoredBytes::features);
  }
}

void AddTo(ResourceCounts* counts, const StoredModel& model, DeviceKind device) {
  ++counts->models;
  AddBytes(counts, device, model.model->size_bytes, 0, &StoredBytes::models);
}

namespace {

// Each multiplication and addition is one.
int64_t OperationsPerPair(const Decoder& decoder, int64_t width) {
  switch (decoder.kind) {
    case DecoderKind::kDot:
      return 2 * width;
    case DecoderKind::kCosine:
    case DecoderKind::kDistMult:
      return 3 * width;
    case DecoderKind::kBilinear:
      return 2 * width * width + 2 * width;
    case DecoderKind::kMlp:
      break;
  }
  int64_t operations = decoder.product ? width : 0;
  for (const DecoderLayer& layer : decoder.layers) operations += 2 * layer.weight->shape[0] * layer.weight->shape[1];
  return operations;
}

LinkScoringInfo ScoringOf(const QueuedRequest& request, const KernelRegistry& registry, const Device& device) {
  const Decoder& decoder = *request.links->decoder;
  LinkScoringInfo info;
  info.decoder = std::string(NameOf(decoder.kind));
  info.output = request.key.options.output;
  info.width = request.answer.width;
  info.operations_per_pair = OperationsPerPair(decoder, info.width);
  EdgeScoresProblem problem;
  problem.rows = problem.cols = request.graph->num_nodes();
  problem.edges = request.graph->num_edges();
  problem.width = info.width;
  const ForcedKernels& forced = request.key.options.kernels;
  const auto choice = registry.edge_scores.Choose(problem, device.kind(),
                                                  internal::ForcedName(forced, registry.edge_scores.operation()));
  if (!choice.ok()) return info;
  const EdgeScoresKernel& kernel = choice->kernel->kernel();
  info.kernel = std::string(kernel.name());
  // A plan that exists has checked them.
  const auto config = ParseParameters(ParametersOf(registry.edge_scores, kernel),
                                      internal::ForcedParameters(forced, registry.edge_scores.operation()));
  if (config.ok()) info.parameters = NameParameters(kernel, *config);
  return info;
}

// Whether a step is of that operation, or what comes after the steps.
bool Serves(std::string_view operation, const KernelRegistry& registry, const Explanation& explanation) {
  if (explanation.links && operation == registry.edge_scores.operation()) return true;
  return std::any_of(explanation.steps.begin(), explanation.steps.end(),
                     [&](const PlanStepInfo& step) { return step.operation == operation; });
}

}  // namespace

Explanation ExplanationOf(const QueuedRequest& request, const Plan& plan, const KernelRegistry& registry,
                          const Device& device) {
  const PreparedGraph::Parts& parts = request.graph->parts();
  Explanation explanation;
  explanation.served_by = ServedByOf(request);
  explanation.steps = plan.Steps();
  for (const PlanStepInfo& step : explanation.steps) {
    explanation.tuning.push_back(step.tuning_key ? request.graph->tuning().Record(*step.tuning_key) : std::nullopt);
  }
  explanation.decisions = plan.Decisions();
  if (parts.former_revision != 0) {
    explanation.decisions.push_back(absl::StrCat(
        "the graph has the numerics revision ", parts.numerics_revision, " in place of ", parts.former_revision,
        ", with which it was stored: this build has no kernels that add in that order, so answers may differ in bits"));
  }
  explanation.scratch_bytes = plan.scratch_bytes();
  explanation.whole_scratch_bytes = plan.whole_scratch_bytes();
  explanation.tiled_scratch_bytes = plan.tiled_scratch_bytes();
  explanation.order = absl::StrCat(std::string(ToString(parts.order)), ": ", parts.order_reason);
  explanation.device = device.name();
  if (request.links != nullptr && request.links->decoder != nullptr) {
    explanation.links = ScoringOf(request, registry, device);
  }
  for (const auto& [operation, kernel] : request.key.options.kernels) {
    if (!Serves(operation, registry, explanation)) {
      explanation.decisions.push_back(absl::StrCat(
          operation, " ", kernel,
          " was forced, but no step is of that operation: nothing changes but the numerics revision, which is 0"));
    }
  }
  return explanation;
}

std::vector<KernelStatus> KernelsOf(const KernelRegistry& registry) {
  std::vector<KernelStatus> kernels;
  registry.ForEachOperation([&](const auto& operation) {
    for (const auto& entry : operation.kernels()) {
      kernels.push_back({std::string(operation.operation()), std::string(entry->kernel().name()),
                         entry->kernel().device() == DeviceKind::kCpu ? "cpu" : "cuda", entry->launches()});
      for (const std::string_view name : entry->kernel().ParameterNames()) kernels.back().parameters.emplace_back(name);
    }
  });
  return kernels;
}

}  // namespace vicinal
