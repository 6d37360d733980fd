// SPDX-License-Identifier: Apache-2.0
// The order of work: program, memory of values booked, kernels chosen (which books their scratch), arena allocated,
// arguments bound. Where somebody has to admit the bytes, all before the arena happens once more before it, without
// memory.
#include "engine/plan/build/plan_builder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/device/row_stride.h"
#include "engine/plan/build/plan_bytes.h"
#include "engine/plan/rewrite/fold.h"
#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {
namespace {

Status CheckForcedNames(const ForcedKernels& forced, const KernelRegistry& registry) {
  std::string operations;
  registry.ForEachOperation([&](const auto& op) {
    absl::StrAppend(&operations, operations.empty() ? "" : ", ", std::string(op.operation()));
  });
  for (const auto& [operation, kernel] : forced) {
    bool known = false;
    registry.ForEachOperation([&](const auto& op) { known = known || op.operation() == operation; });
    if (!known) {
      return InvalidArgument("OPERATION_UNKNOWN", absl::StrCat("execution.kernels[", operation, "]"),
                             absl::StrCat("there is no operation '", operation, "' to force kernel '", kernel,
                                          "' for; there are: ", operations));
    }
  }
  return OkStatus();
}

// Of a weight that is packed only its shape is asked for any more.
void ForgetWeight(ProductWeightRef* weight) {
  if (*weight == nullptr) return;
  auto shape = std::make_shared<ProductWeight>();
  shape->rows = (*weight)->rows;
  shape->cols = (*weight)->cols;
  *weight = std::move(shape);
}

void ForgetWeights(Node* node) {
  ForgetWeight(&node->weight);
  for (EdgeLayer& layer : node->edge_layers) ForgetWeight(&layer.weight);
}

}  // namespace

PlanBuilder::PlanBuilder(const PlanRequest& request, const KernelRegistry& registry, Device& device,
                         const StopCheck& stop)
    : request_(request), registry_(registry), device_(device), stop_(stop) {}

Status PlanBuilder::Rewrite() {
  const PreparedGraph& graph = *request_.graph;
  Status wanted;
  const std::function<bool()> unwanted = [&] { return !(wanted = CheckStop()).ok(); };
  program_ =
      RewriteModel(*request_.model, request_.output, request_.features.sparse,
                   {graph.num_nodes(), graph.num_edges(), request_.features.nnz}, request_.features.crowded, unwanted);
  VICINAL_RETURN_IF_ERROR(wanted);
  if (!graph.weighted()) program_ = FactorWeights(std::move(program_));
  if (request_.precision != Storage::kFloat32) program_ = NarrowGathers(std::move(program_), request_.precision);
  // Of a copy: what it asks is answered by the program as it is.
  program_ = FuseProducts(
      program_, [this](const Node& node, int64_t out_width) { return WhyProductUnsupported(node, out_width); });
  return OkStatus();
}

StatusOr<BuiltPlan> PlanBuilder::Build(const PlanAdmission& admit) {
  VICINAL_RETURN_IF_ERROR(CheckRequest());
  const int64_t segments = static_cast<int64_t>(request_.graph->parts().segments.size());
  num_graphs_ = segments > 0 ? segments - 1 : 1;
  if (admit) VICINAL_RETURN_IF_ERROR(admit(RewriteBytesBound(*request_.model)));
  VICINAL_RETURN_IF_ERROR(Rewrite());
  if (admit) VICINAL_RETURN_IF_ERROR(admit(PackingBytes()));
  VICINAL_RETURN_IF_ERROR(LayOutWhatFits(admit));
  for (Node& node : program_.nodes) ForgetWeights(&node);
  VICINAL_ASSIGN_OR_RETURN(built_.arena, device_.Allocate(ledger_.total_bytes()));
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    current_ = static_cast<int>(i);
    Launch* launch = built_.launches[i].get();
    if (scratch_booking_[i] >= 0) launch->scratch = built_.arena.as<char>() + ledger_.offset(scratch_booking_[i]);
    Bind(program_.nodes[i], launch);
  }
  built_.result = ViewOf(program_.output);
  if (program_.untold > 0) program_.decisions.push_back(absl::StrCat("and ", program_.untold, " more such decisions"));
  MakeField();
  built_.decisions = std::move(program_.decisions);
  built_.request = request_;
  return std::move(built_);
}

Status PlanBuilder::LayOutWhatFits(const PlanAdmission& admit) {
  while (true) {
    const size_t unfit = unfit_.size();
    if (admit) {
      VICINAL_ASSIGN_OR_RETURN(const int64_t bytes, CountBytes());
      VICINAL_RETURN_IF_ERROR(admit(bytes));
    }
    Status laid_out = LayOut(false);
    if (unfit_.size() == unfit) return laid_out;
  }
}

Status PlanBuilder::LayOut(bool draft) {
  draft_ = draft;
  built_ = BuiltPlan();
  ledger_ = ScratchLedger();
  packed_.clear();
  segments_ = nullptr;
  BookValues();
  VICINAL_RETURN_IF_ERROR(ChooseKernels());
  ledger_.Assign();
  built_.step_bytes = StepBytes(built_.launches, program_.decisions);
  return OkStatus();
}

StatusOr<int64_t> PlanBuilder::CountBytes() {
  derived_.emplace(*request_.graph);
  VICINAL_RETURN_IF_ERROR(LayOut(true));
  return static_cast<int64_t>(ledger_.total_bytes()) + built_.constant_bytes + built_.step_bytes + derived_->total();
}

int64_t PlanBuilder::PackingBytes() const {
  int64_t most = 0;
  const auto look = [&](const ProductWeightRef& weight) {
    if (weight == nullptr) return;
    const int64_t bytes = weight->rows * weight->cols * static_cast<int64_t>(sizeof(float));
    const int64_t packed = device_.kind() == DeviceKind::kCpu ? 0 : 2 * bytes;  // on the host first
    most = std::max(most, packed + (weight->plain() ? 0 : bytes));
  };
  for (const Node& node : program_.nodes) {
    look(node.weight);
    for (const EdgeLayer& layer : node.edge_layers) look(layer.weight);
  }
  return most;
}

Status PlanBuilder::CheckRequest() const {
  VICINAL_RETURN_IF_ERROR(CheckForcedNames(request_.forced, registry_));
  if (request_.features.cols != request_.model->feature_count) {
    return FailedPrecondition(
        "FEATURE_WIDTH", absl::StrCat("the features have ", request_.features.cols, " columns, but the model reads ",
                                      request_.model->feature_count, "; use a feature set of that width"));
  }
  return OkStatus();
}

int64_t PlanBuilder::RowsOf(ValueId value) const {
  return program_.values[value].per_graph ? num_graphs_ : request_.graph->num_nodes();
}

void PlanBuilder::BookValues() {
  struct Life {
    int first = -1;
    int last = -1;
  };
  std::vector<Life> lives(program_.values.size());
  const auto touch = [&](ValueId value, int step) {
    Life& life = lives[PlaceOf(program_, value).root];
    if (life.first < 0) life.first = step;
    life.last = std::max(life.last, step);
  };
  const int steps = static_cast<int>(program_.nodes.size());
  for (int step = 0; step < steps; ++step) {
    const Node& node = program_.nodes[step];
    for (ValueId input : node.inputs) touch(input, step);
    for (const ValueId residual : {node.inner.residual, node.epilogue.residual}) {
      if (residual >= 0) touch(residual, step);
    }
    touch(node.output, step);
  }
  touch(program_.output, steps);
  value_booking_.assign(program_.values.size(), -1);
  stride_.assign(program_.values.size(), 0);
  for (size_t v = 1; v < program_.values.size(); ++v) {
    if (lives[v].first < 0) continue;
    stride_[v] = RowStrideFor(program_.values[v].width);
    const size_t element = program_.values[v].storage == Storage::kFloat32 ? sizeof(float) : sizeof(uint16_t);
    const size_t bytes =
        static_cast<size_t>(RowsOf(static_cast<ValueId>(v))) * static_cast<size_t>(stride_[v]) * element;
    value_booking_[v] = ledger_.Book(bytes, lives[v].first, lives[v].last);
  }
}

Status PlanBuilder::ChooseKernels() {
  scratch_booking_.assign(program_.nodes.size(), -1);
  bias_.assign(program_.nodes.size(), nullptr);
  row_scale_.assign(program_.nodes.size(), nullptr);
  for (size_t i = 0; i < program_.nodes.size(); ++i) {
    VICINAL_RETURN_IF_ERROR(CheckStop());
    built_.launches.push_back(std::make_unique<Launch>());
    VICINAL_ASSIGN_OR_RETURN(bias_[i], KeepVector(program_.nodes[i].epilogue.bias));
    VICINAL_ASSIGN_OR_RETURN(row_scale_[i], DegreeScaleOf(program_.nodes[i].epilogue.degree_scale));
    VICINAL_RETURN_IF_ERROR(Choose(static_cast<int>(i), program_.nodes[i]));
  }
  return OkStatus();
}

Status PlanBuilder::Choose(int step, const Node& node) {
  Launch* launch = built_.launches[step].get();
  switch (node.kind) {
    case NodeKind::kLinear:
      return ChooseLinear(step, node, launch);
    case NodeKind::kPropagate:
      return ChoosePropagate(step, node, launch);
    case NodeKind::kPropagateLinear:
      return ChoosePropagateLinear(step, node, launch);
    case NodeKind::kAttention:
      return ChooseAttention(step, node, launch);
    case NodeKind::kEdgeMlp:
      return ChooseEdgeMlp(step, node, launch);
    default:
      return ChooseRowwise(step, node, launch);
  }
}

StatusOr<const void*> PlanBuilder::Keep(const void* host, size_t bytes) {
  if (draft_) {
    built_.constant_bytes += static_cast<int64_t>(bytes);
    return host;
  }
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device_.Allocate(bytes));
  VICINAL_RETURN_IF_ERROR(device_.CopyFromHost(buffer.data(), host, bytes));
  return KeepBuffer(std::move(buffer));
}

const void* PlanBuilder::KeepBuffer(Buffer buffer) {
  built_.constant_bytes += static_cast<int64_t>(buffer.bytes());
  built_.constants.push_back(std::move(buffer));
  return built_.constants.back().data();
}

StatusOr<const float*> PlanBuilder::KeepVector(const ParametersRef& vector) {
  if (vector == nullptr) return nullptr;
  const std::vector<float> rounded(vector->values.begin(), vector->values.end());
  VICINAL_ASSIGN_OR_RETURN(const void* kept, Keep(rounded.data(), rounded.size() * sizeof(float)));
  return static_cast<const float*>(kept);
}

StatusOr<const float*> PlanBuilder::DegreeScaleOf(const std::optional<SelfLoops>& loops) {
  if (!loops) return nullptr;
  if (draft_) {
    derived_->AddDegreeScale(*loops);
    return nullptr;
  }
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceVector> scale, request_.graph->DegreeScale(*loops));
  built_.degree_scales.push_back(scale);
  return scale->data();
}

StatusOr<const int64_t*> PlanBuilder::Segments() {
  if (segments_ != nullptr) return segments_;
  std::vector<int64_t> offsets = request_.graph->parts().segments;
  if (offsets.empty()) offsets = {0, request_.graph->num_nodes()};
  VICINAL_ASSIGN_OR_RETURN(const void* kept, Keep(offsets.data(), offsets.size() * sizeof(int64_t)));
  return segments_ = static_cast<const int64_t*>(kept);
}

MatrixView PlanBuilder::ViewOf(ValueId value) const {
  const Place place = PlaceOf(program_, value);
  float* data = reinterpret_cast<float*>(built_.arena.as<char>() + ledger_.offset(value_booking_[place.root]));
  return {data + place.offset, RowsOf(value), WidthOf(value), stride_[place.root]};
}

MatrixView16 PlanBuilder::ViewOf16(ValueId value) const {
  auto* data = reinterpret_cast<uint16_t*>(built_.arena.as<char>() + ledger_.offset(value_booking_[value]));
  return {data, RowsOf(value), WidthOf(value), stride_[value]};
}

void PlanBuilder::BindInput(ValueId value, ConstMatrixView* view) {
  if (value == kInputValue) {
    built_.dense_inputs.push_back(view);
  } else {
    *view = ViewOf(value);
  }
}

void PlanBuilder::BindEpilogue(const EpilogueSpec& spec, Epilogue* epilogue) {
  epilogue->scale = static_cast<float>(spec.scale);
  epilogue->residual_scale = static_cast<float>(spec.residual_scale);
  if (spec.residual >= 0) BindInput(spec.residual, &epilogue->residual);
  epilogue->activation = spec.activation;
}

std::string PlanBuilder::RefuseField() {
  built_.device = device_.kind();
  if (!request_.graph->parts().segments.empty()) return "batches of small graphs are computed whole";
  if (device_.kind() == DeviceKind::kCpu) return {};
  const RowwiseProblem gather = {RowwiseKind::kGatherRows, Reduce::kSum, request_.graph->num_nodes(),
                                 request_.features.sparse ? 1 : request_.features.cols};
  const auto choice = registry_.rowwise.Choose(gather, device_.kind(), {});
  if (!choice.ok()) return "no kernel of " + device_.name() + " gathers rows of these features";
  built_.gather_rows = choice->kernel;
  return {};
}

void PlanBuilder::MakeField() {
  built_.field = MakeReceptiveFieldProgram(program_, built_.launches, request_, device_.kind(), RefuseField());
  const ReceptiveFieldShape& shape = built_.field.shape;
  program_.decisions.push_back(
      shape.refusal.empty() ? absl::StrCat("where some nodes are asked for, only what they depend on, up to ",
                                           shape.levels.size() - 1, " steps away, is computed if that is cheaper")
                            : absl::StrCat("the full graph is computed whatever nodes are asked for: ", shape.refusal));
}

}  // namespace vicinal::internal
