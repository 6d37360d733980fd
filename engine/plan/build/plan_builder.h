// SPDX-License-Identifier: Apache-2.0
// Turns a program into launches: a kernel for each node, its weights packed and on the device, every value and the
// kernels' scratch in one arena. What comes out holds no pointer into the builder.
#ifndef VICINAL_ENGINE_PLAN_BUILD_PLAN_BUILDER_H_
#define VICINAL_ENGINE_PLAN_BUILD_PLAN_BUILDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/build/derived_bytes.h"
#include "engine/plan/build/scratch_ledger.h"
#include "engine/plan/plan.h"
#include "engine/plan/receptive_field/receptive_field_program.h"
#include "engine/plan/rewrite/program.h"
#include "engine/plan/run/launch.h"

namespace vicinal::internal {

// All that a plan needs to run.
struct BuiltPlan {
  PlanRequest request;  // holds the model and the graph
  std::vector<std::unique_ptr<Launch>> launches;
  std::vector<std::string> decisions;
  ReceptiveFieldProgram field;
  DeviceKind device = DeviceKind::kCpu;
  // Takes rows of features and numbers for fields, where the device has memory of its own; else null.
  const RegisteredKernel<RowwiseKernel>* gather_rows = nullptr;
  ConstMatrixView result;
  // Places in the launches' arguments that are set to the features of each run.
  std::vector<ConstMatrixView*> dense_inputs;
  std::vector<CsrView*> sparse_inputs;
  std::vector<int64_t*> input_nnz;
  // What the arguments point to.
  Buffer arena;
  std::vector<Buffer> constants;
  std::vector<std::shared_ptr<const DeviceCsr>> adjacencies;
  std::vector<std::shared_ptr<const DeviceVector>> degree_scales;
  std::vector<AdjacencyLayoutRef> layouts;
  int64_t constant_bytes = 0;
  int64_t step_bytes = 0;       // of the launches and what is told of them, in host memory
  int64_t reduction_order = 0;  // as Plan::reduction_order
};

// What was packed; empty: something that is packed once only.
using PackedKey = std::vector<const void*>;

class PlanBuilder {
 public:
  // `stop` may be empty.
  PlanBuilder(const PlanRequest& request, const KernelRegistry& registry, Device& device, const StopCheck& stop);
  // As Plan::Build.
  StatusOr<BuiltPlan> Build(const PlanAdmission& admit);

 private:
  Status CheckRequest() const;
  Status CheckStop() const { return stop_ ? stop_() : OkStatus(); }
  // Makes the program that is laid out.
  Status Rewrite();
  // Admits, if asked to, and lays out, as often as a setting turns out to be unfit.
  Status LayOutWhatFits(const PlanAdmission& admit);
  // Everything up to the places of values and scratch in an arena, twice where there is a budget: first as a draft,
  // which only counts, so that the bytes that are admitted are those that will be held.
  Status LayOut(bool draft);
  StatusOr<int64_t> CountBytes();
  void BookValues();
  Status ChooseKernels();
  Status Choose(int step, const Node& node);
  void Bind(const Node& node, Launch* launch);
  // All but what was kept on the device.
  void BindEpilogue(const EpilogueSpec& spec, Epilogue* epilogue);
  void MakeField();
  // Why there are no receptive fields with this device or graph; empty: there may be.
  std::string RefuseField();
  void BindRowwise(const Node& node, RowwiseArgs* args);

  Status ChooseLinear(int step, const Node& node, Launch* launch);
  Status ChoosePropagate(int step, const Node& node, Launch* launch);
  Status ChoosePropagateLinear(int step, const Node& node, Launch* launch);
  Status ChooseAttention(int step, const Node& node, Launch* launch);
  Status ChooseEdgeMlp(int step, const Node& node, Launch* launch);
  Status ChooseRowwise(int step, const Node& node, Launch* launch);
  // What `node` asks of its operation, but for a product.
  AggregateProblem AggregationOf(const Node& node);
  TuningWork WorkOf(const AggregateProblem& problem, const Node& node) const;
  // As ProductRefusal.
  std::string WhyProductUnsupported(const Node& node, int64_t out_width);
  // The product of `node`, packed, and what happens to rows before it.
  Status AddProduct(const Node& node, Bound<AggregateKernel>* bound);

  // `work`: what it is to the graph's tuning table; null for operations that are not tuned.
  template <class K>
  StatusOr<Bound<K>*> Register(const OperationKernels<K>& operation, const typename K::Problem& problem, int step,
                               Launch* launch, const TuningWork* work = nullptr);
  template <class K>
  StatusOr<KernelChoice<K>> ChooseKernel(const OperationKernels<K>& operation, const typename K::Problem& problem,
                                         const TuningWork* work, KernelConfig* config, Launch* launch);
  template <class K>
  StatusOr<KernelChoice<K>> ChosenKernel(const OperationKernels<K>& operation, const typename K::Problem& problem,
                                         const std::optional<KernelSetting>& setting, bool* tuned) const;
  // What `kernel` works on beside the adjacency of `work`; null where it wants nothing.
  template <class K>
  StatusOr<const AdjacencyLayout*> LayoutOf(const K& kernel, const typename K::Problem& problem,
                                            const KernelConfig& config, const TuningWork& work);
  // A setting of the tuning table whose kernel finds that the adjacency is not for it: it was measured on some of the
  // rows, or forced for an adjacency with other self-loops. Another setting serves.
  struct Unfit {
    TuningKey key;
    std::string reason;
  };
  const Unfit* FindUnfit(const TuningKey& key) const;  // null: none
  void NoteUnfit(const TuningKey& key, std::string_view kernel, const Status& refused);
  void NoteReductionOrder(int step, int64_t reduction_order);
  // W as `kernel` reads it; once for all nodes that multiply by the same weights of the model.
  template <class K>
  StatusOr<const void*> Pack(const K& kernel, const ProductWeight& weight);
  template <class K>
  StatusOr<const void*> PackAnew(const K& kernel, const ProductWeight& weight);
  static PackedKey KeyOfPacked(const void* kernel, const ProductWeight& weight);
  // Host memory that packing takes beside what is kept, at its height.
  int64_t PackingBytes() const;
  // What `node` propagates over; of a draft nothing but its sizes.
  AdjacencyShape ShapeOf(const Node& node);
  StatusOr<CsrView> AdjacencyOf(const Node& node, const AdjacencyShape& shape);
  void Tell(const Node& node, const AdjacencyShape& adjacency, Launch* launch) const;
  // Copies to the device what must live as long as the plan. Of a draft it stays where it is, and nobody reads it.
  StatusOr<const void*> Keep(const void* host, size_t bytes);
  const void* KeepBuffer(Buffer buffer);
  StatusOr<const float*> KeepVector(const ParametersRef& vector);               // null for null
  StatusOr<const float*> DegreeScaleOf(const std::optional<SelfLoops>& loops);  // null for none
  StatusOr<const int64_t*> Segments();

  int64_t RowsOf(ValueId value) const;
  int64_t WidthOf(ValueId value) const { return program_.values[value].width; }
  bool IsSparseInput(ValueId value) const { return value == kInputValue && program_.sparse_input; }
  MatrixView ViewOf(ValueId value) const;                // of the arena; REQUIRES: not the input
  MatrixView16 ViewOf16(ValueId value) const;            // REQUIRES: a value of 16-bit storage
  void BindInput(ValueId value, ConstMatrixView* view);  // either

  const PlanRequest& request_;
  const KernelRegistry& registry_;
  Device& device_;
  const StopCheck& stop_;
  Program program_;
  ScratchLedger ledger_;
  std::vector<int> value_booking_;       // per value: of its memory, for roots; else -1
  std::vector<int64_t> stride_;          // per value, for roots
  std::vector<int> scratch_booking_;     // per node; -1: none
  std::vector<const float*> bias_;       // per node, on the device
  std::vector<const float*> row_scale_;  // the same
  const int64_t* segments_ = nullptr;
  int64_t num_graphs_ = 1;
  int current_ = 0;  // the node being bound
  bool draft_ = false;
  std::vector<Unfit> unfit_;
  std::optional<DerivedBytes> derived_;                           // of a draft
  std::vector<std::pair<AdjacencySpec, AdjacencyShape>> shapes_;  // asked for so far
  std::map<PackedKey, const void*> packed_;
  BuiltPlan built_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_PLAN_BUILDER_H_
