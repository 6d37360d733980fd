// SPDX-License-Identifier: Apache-2.0
// Sends a field's inputs to a device with memory of its own (docs/adr/0010-receptive-fields-on-a-gpu.md). One block of
// device memory holds them all. Its front is a copy of the host's data: the nodes (again in 32 bits, for kernels that
// find features of edges by them), each adjacency's renumbered edges, the row ends of sparse features. The device
// gathers the rest from the full graph's features, weights and numbers. Transfers 16 bytes per node and 4 per edge.
#include <algorithm>

#include "engine/plan/receptive_field/receptive_field_inputs.h"

namespace vicinal::internal {
namespace {

class Sender {
 public:
  Sender(const ReceptiveFieldProgram& field, const FeatureMatrix& features, ReceptiveFieldWorkspace* work)
      : field_(field), features_(features), work_(*work), rows_(work->finder.rows(field.input_depth)) {}

  Status Send(DeviceContext& context) {
    VICINAL_RETURN_IF_ERROR(ListPieces());
    bytes_ = 0;
    for (const HostPiece& piece : work_.pieces) bytes_ += piece.room();
    for (const NodeVector& vector : field_.vectors) bytes_ += Room<float>(work_.finder.rows(vector.depth));
    for (size_t i = 0; i < field_.adjacencies.size(); ++i) {
      if (field_.adjacencies[i].value != nullptr) bytes_ += Room<float>(Edges(i).nnz);
    }
    bytes_ += features_.sparse() ? Room<int32_t>(entries()) + Room<float>(entries())
                                 : Room<float>(rows_ * features_.dense().stride);
    VICINAL_RETURN_IF_ERROR(work_.on_device.Reserve(static_cast<int64_t>(bytes_)));
    next_ = work_.on_device.data();
    return context.SendPieces(next_, work_.pieces);
  }

  // Takes memory in the order of ListPieces, then of the sum in Send. REQUIRES: Send returned OK.
  Status Gather(const RegisteredKernel<RowwiseKernel>& gather, DeviceContext& context, ReceptiveFieldInputs* inputs) {
    const int64_t* nodes = Take<int64_t>(work_.finder.num_nodes());
    inputs->nodes = field_.edge_features ? Take<NodeId>(work_.finder.num_nodes()) : nullptr;
    inputs->adjacencies.resize(field_.adjacencies.size());
    for (size_t i = 0; i < field_.adjacencies.size(); ++i) {
      const CsrView edges = Edges(i);
      inputs->adjacencies[i].row_ptr = Take<int64_t>(edges.rows + 1);
      inputs->adjacencies[i].col = Take<int32_t>(edges.nnz);
      inputs->adjacencies[i].value = nullptr;
    }
    const int64_t* row_ptr = features_.sparse() ? Take<int64_t>(rows_ + 1) : nullptr;
    inputs->vectors.resize(field_.vectors.size());
    for (size_t v = 0; v < field_.vectors.size(); ++v) {
      const int64_t rows = work_.finder.rows(field_.vectors[v].depth), all = field_.shape.num_nodes;
      const MatrixView to = {Take<float>(rows), rows, 1, 1};
      VICINAL_RETURN_IF_ERROR(GatherRows(gather, context, {field_.vectors[v].values, all, 1, 1}, nodes, to));
      inputs->vectors[v] = to.data;
    }
    for (size_t i = 0; i < field_.adjacencies.size(); ++i) {
      if (field_.adjacencies[i].value == nullptr) continue;
      const CsrView edges = Edges(i);
      ReceptiveFieldInputs::Edges& there = inputs->adjacencies[i];
      float* const value = Take<float>(edges.nnz);
      VICINAL_RETURN_IF_ERROR(context.GatherSparseRows(field_.adjacencies[i], nodes,
                                                       {edges.rows, edges.nnz, there.row_ptr, nullptr, value}));
      there.value = value;
    }
    return features_.sparse() ? GatherSparse(context, nodes, row_ptr, inputs)
                              : GatherDense(gather, context, nodes, inputs);
  }

 private:
  template <class T>
  static size_t Room(int64_t count) {
    return HostPiece{nullptr, static_cast<size_t>(count) * sizeof(T)}.room();
  }
  // Takes the next `count` elements of the block.
  template <class T>
  T* Take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += Room<T>(count);
    return taken;
  }
  template <class T>
  void AddPiece(const T* data, int64_t count) {
    work_.pieces.push_back({data, static_cast<size_t>(count) * sizeof(T)});
  }
  CsrView Edges(size_t index) const { return work_.finder.Adjacency(static_cast<int>(index)); }
  int64_t entries() const { return work_.row_ptr.data()[rows_]; }  // of sparse features

  Status ListPieces() {
    const int64_t num_nodes = work_.finder.num_nodes();
    VICINAL_RETURN_IF_ERROR(work_.nodes.Reserve(num_nodes));
    std::copy_n(work_.finder.nodes(), num_nodes, work_.nodes.data());
    work_.pieces.clear();
    AddPiece(work_.nodes.data(), num_nodes);
    if (field_.edge_features) AddPiece(work_.finder.nodes(), num_nodes);
    for (size_t i = 0; i < field_.adjacencies.size(); ++i) {
      const CsrView edges = Edges(i);
      AddPiece(edges.row_ptr, edges.rows + 1);
      AddPiece(edges.col, edges.nnz);
    }
    if (!features_.sparse()) return OkStatus();
    VICINAL_RETURN_IF_ERROR(GatherRowEnds(features_.host_row_ptr(), rows_, &work_));
    AddPiece(work_.row_ptr.data(), rows_ + 1);
    return OkStatus();
  }

  static Status GatherRows(const RegisteredKernel<RowwiseKernel>& gather, DeviceContext& context, ConstMatrixView from,
                           const int64_t* nodes, MatrixView to) {
    RowwiseArgs args;
    args.problem = {RowwiseKind::kGatherRows, Reduce::kSum, to.rows, to.cols};
    args.a = from;
    args.index = nodes;
    args.dst = to;
    return gather.Launch(context, args, nullptr);
  }

  Status GatherDense(const RegisteredKernel<RowwiseKernel>& gather, DeviceContext& context, const int64_t* nodes,
                     ReceptiveFieldInputs* inputs) {
    const ConstMatrixView from = features_.dense();
    const MatrixView to = {Take<float>(rows_ * from.stride), rows_, from.cols, from.stride};
    inputs->dense = to;
    return GatherRows(gather, context, from, nodes, to);
  }

  Status GatherSparse(DeviceContext& context, const int64_t* nodes, const int64_t* row_ptr,
                      ReceptiveFieldInputs* inputs) {
    const CsrView from = features_.csr();
    int32_t* const col = Take<int32_t>(entries());
    float* const value = from.value != nullptr ? Take<float>(entries()) : nullptr;
    inputs->sparse = {rows_, features_.cols(), entries(), row_ptr, col, value};
    inputs->sparse_ends = work_.row_ptr.data();
    return context.GatherSparseRows(from, nodes, {rows_, entries(), row_ptr, col, value});
  }

  const ReceptiveFieldProgram& field_;
  const FeatureMatrix& features_;
  ReceptiveFieldWorkspace& work_;
  const int64_t rows_;  // of features
  size_t bytes_ = 0;
  char* next_ = nullptr;
};

}  // namespace

Status SendInputs(const ReceptiveFieldProgram& field, const FeatureMatrix& features,
                  const RegisteredKernel<RowwiseKernel>& gather, DeviceContext& context, ReceptiveFieldWorkspace* work,
                  ReceptiveFieldInputs* inputs) {
  Sender sender(field, features, work);
  VICINAL_RETURN_IF_ERROR(sender.Send(context));
  return sender.Gather(gather, context, inputs);
}

}  // namespace vicinal::internal
