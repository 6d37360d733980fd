// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/links/link_scorer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/plan/build/kernel_choice.h"
#include "engine/prepare/counted_features.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

// Rows without edges that a block of edges may have.
constexpr int64_t kBlockRows = 65536;

ConstMatrixView WeightView(const Weight& weight, int64_t rows, int64_t cols, int64_t first = 0) {
  return {weight.values.data() + first, rows, cols, cols};
}

}  // namespace

// --- memory and launches ---

StatusOr<void*> LinkScorer::Room(Slot slot, int64_t bytes) {
  Buffer& buffer = room_[slot];
  if (static_cast<int64_t>(buffer.bytes()) < bytes || buffer.data() == nullptr) {
    if (buffer.data() != nullptr) VICINAL_RETURN_IF_ERROR(parts_.context->Synchronize());  // it may be in use
    buffer = Buffer();
    memory_[slot] = Reservation();
    VICINAL_ASSIGN_OR_RETURN(memory_[slot], ReserveLarge(bytes, "scoring links", parts_.budget));
    VICINAL_ASSIGN_OR_RETURN(buffer, device_.Allocate(static_cast<size_t>(std::max<int64_t>(bytes, 1))));
  }
  return buffer.data();
}

StatusOr<MatrixView> LinkScorer::Matrix(Slot slot, int64_t rows, int64_t cols) {
  VICINAL_ASSIGN_OR_RETURN(void* const data, Room(slot, rows * cols * static_cast<int64_t>(sizeof(float))));
  return MatrixView{static_cast<float*>(data), rows, cols, cols};
}

Status LinkScorer::ToDevice(const void* host, int64_t bytes, Buffer* buffer) {
  VICINAL_ASSIGN_OR_RETURN(*buffer, device_.Allocate(static_cast<size_t>(bytes)));
  return device_.CopyFromHost(buffer->data(), host, static_cast<size_t>(bytes));
}

template <class K>
Status LinkScorer::Launch(const OperationKernels<K>& operation, typename K::Args args) {
  // Other operations are forced for the model's layers.
  static const ForcedKernels& none = *new ForcedKernels();
  const bool forceable = operation.operation() == kOperationName<EdgeScoresProblem>;
  const ForcedKernels& forced = forceable ? parts_.options->kernels : none;
  VICINAL_ASSIGN_OR_RETURN(const auto choice, operation.Choose(args.problem, device_.kind(),
                                                               internal::ForcedName(forced, operation.operation())));
  const K& kernel = choice.kernel->kernel();
  if (const auto parameters = internal::ForcedParameters(forced, operation.operation()); !parameters.empty()) {
    VICINAL_ASSIGN_OR_RETURN(args.config, ParseParameters(ParametersOf(operation, kernel), parameters));
  }
  const ThreadPool* const pool = parts_.context->thread_pool();
  const size_t bytes = kernel.ScratchBytes(args.problem, args.config, pool != nullptr ? pool->num_threads() : 1);
  VICINAL_ASSIGN_OR_RETURN(void* const scratch, Room(kScratch, static_cast<int64_t>(bytes)));
  return choice.kernel->Launch(*parts_.context, args, scratch);
}

Status LinkScorer::GatherTo(ConstMatrixView rows, Slot index_slot, const int64_t* index, int64_t count,
                            MatrixView out) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int64_t));
  VICINAL_ASSIGN_OR_RETURN(void* const place, Room(index_slot, bytes));
  VICINAL_RETURN_IF_ERROR(device_.CopyFromHost(place, index, static_cast<size_t>(bytes)));
  RowwiseArgs args;
  args.problem = {RowwiseKind::kGatherRows, Reduce::kSum, count, rows.cols};
  args.a = rows;
  args.dst = out;
  args.index = static_cast<const int64_t*>(place);
  return Launch(parts_.registry->rowwise, args);
}

StatusOr<ConstMatrixView> LinkScorer::Gather(ConstMatrixView rows, const std::vector<int64_t>& index) {
  const auto count = static_cast<int64_t>(index.size());
  VICINAL_ASSIGN_OR_RETURN(const MatrixView out, Matrix(kGathered, count, rows.cols));
  VICINAL_RETURN_IF_ERROR(GatherTo(rows, kGatherIndex, index.data(), count, out));
  return ConstMatrixView(out);
}

Status LinkScorer::Fetch(const float* scores, int64_t count, float* host) {
  VICINAL_RETURN_IF_ERROR(parts_.context->Synchronize());
  if (scores == host) return OkStatus();
  return device_.CopyToHost(host, scores, static_cast<size_t>(count) * sizeof(float));
}

// --- weights ---

StatusOr<LinkScorer::Product> LinkScorer::MakeProduct(ConstMatrixView weight, const float* bias,
                                                      Activation activation) const {
  const DenseUpdateProblem problem = {kBlockPairs, weight.cols, weight.rows, parts_.options->product_precision};
  VICINAL_ASSIGN_OR_RETURN(const auto choice, parts_.registry->dense_update.Choose(problem, device_.kind(), {}));
  Product product;
  product.kernel = choice.kernel;
  product.in_width = weight.cols;
  product.out_width = weight.rows;
  product.activation = activation;
  const DenseUpdateKernel& kernel = choice.kernel->kernel();
  // Packing writes to aligned memory of the host, which on a CPU is where the kernel reads.
  const std::unique_ptr<Device> host = device_.kind() == DeviceKind::kCpu ? nullptr : MakeCpuDevice(1);
  const size_t bytes = kernel.PackedBytes(weight.rows, weight.cols);
  const size_t bias_bytes = bias != nullptr ? static_cast<size_t>(weight.rows) * sizeof(float) : 0;
  const auto copies = static_cast<int64_t>(host != nullptr ? 2 * bytes : bytes);
  VICINAL_ASSIGN_OR_RETURN(product.memory, ReserveLarge(copies + static_cast<int64_t>(bias_bytes),
                                                        "the packed weights of the decoder", parts_.budget));
  VICINAL_ASSIGN_OR_RETURN(Buffer packed, (host != nullptr ? *host : device_).Allocate(bytes));
  kernel.Pack(weight, packed.data());
  if (host == nullptr) {
    product.weight = std::move(packed);
  } else {
    VICINAL_ASSIGN_OR_RETURN(product.weight, device_.Allocate(bytes));
    VICINAL_RETURN_IF_ERROR(device_.CopyFromHost(product.weight.data(), packed.data(), bytes));
    product.memory.Shrink(static_cast<int64_t>(bytes + bias_bytes));
  }
  if (bias == nullptr) return product;
  VICINAL_ASSIGN_OR_RETURN(product.bias, device_.Allocate(bias_bytes));
  VICINAL_RETURN_IF_ERROR(device_.CopyFromHost(product.bias.data(), bias, bias_bytes));
  return product;
}

Status LinkScorer::Multiply(const Product& product, ConstMatrixView src, MatrixView dst) {
  DenseUpdateArgs args;
  args.problem = {src.rows, product.in_width, product.out_width, parts_.options->product_precision};
  args.src = src;
  args.weight = product.weight.data();
  args.dst = dst;
  args.epilogue.bias = product.bias.as<float>();
  args.epilogue.activation = product.activation;
  // The kernel that packed the weights.
  VICINAL_ASSIGN_OR_RETURN(
      void* const scratch,
      Room(kScratch,
           static_cast<int64_t>(product.kernel->kernel().ScratchBytes(
               args.problem, args.config,
               parts_.context->thread_pool() != nullptr ? parts_.context->thread_pool()->num_threads() : 1))));
  return product.kernel->Launch(*parts_.context, args, scratch);
}

Status LinkScorer::Prepare(int32_t relation) {
  if (prepared_relation_ == relation) return OkStatus();
  const int64_t width = decoder_.width;
  if (decoder_.kind == DecoderKind::kMlp && prepared_relation_ < 0) VICINAL_RETURN_IF_ERROR(PrepareNetwork());
  if (decoder_.kind == DecoderKind::kDistMult) {
    VICINAL_RETURN_IF_ERROR(ToDevice(decoder_.weight->values.data() + relation * width,
                                     width * static_cast<int64_t>(sizeof(float)), &relation_vector_));
  }
  if (decoder_.kind == DecoderKind::kBilinear) {
    ends_.clear();
    VICINAL_ASSIGN_OR_RETURN(
        Product product,
        MakeProduct(WeightView(*decoder_.weight, width, width, relation * width * width), nullptr, {}));
    ends_.push_back(std::move(product));
  }
  prepared_relation_ = relation;
  return OkStatus();
}

Status LinkScorer::PrepareNetwork() {
  const auto bias_of = [](const DecoderLayer& layer) {
    return layer.bias != nullptr ? layer.bias->values.data() : nullptr;
  };
  size_t first = 0;
  if (!decoder_.product) {
    const DecoderLayer& layer = decoder_.layers[0];
    const int64_t out = layer.weight->shape[0], width = decoder_.width;
    const float* const weight = layer.weight->values.data();
    for (const int64_t part : {0, 1}) {
      VICINAL_ASSIGN_OR_RETURN(Product product, MakeProduct({weight + part * width, out, width, 2 * width},
                                                            part == 0 ? bias_of(layer) : nullptr, {}));
      ends_.push_back(std::move(product));
    }
    first = 1;
  }
  for (size_t l = first; l < decoder_.layers.size(); ++l) {
    const DecoderLayer& layer = decoder_.layers[l];
    VICINAL_ASSIGN_OR_RETURN(Product product,
                             MakeProduct(WeightView(*layer.weight, layer.weight->shape[0], layer.weight->shape[1]),
                                         bias_of(layer), layer.activation));
    layers_.push_back(std::move(product));
  }
  return OkStatus();
}

// --- ends ---

StatusOr<ConstMatrixView> LinkScorer::Normalise(Slot slot, ConstMatrixView rows) {
  VICINAL_ASSIGN_OR_RETURN(const MatrixView out, Matrix(slot, rows.rows, rows.cols));
  RowwiseArgs args;
  args.problem = {RowwiseKind::kNormalize, Reduce::kSum, rows.rows, rows.cols};
  args.a = rows;
  args.dst = out;
  VICINAL_RETURN_IF_ERROR(Launch(parts_.registry->rowwise, args));
  return ConstMatrixView(out);
}

Status LinkScorer::TransformEnds(ConstMatrixView sources, ConstMatrixView targets, ConstMatrixView* source_ends,
                                 ConstMatrixView* target_ends) {
  *source_ends = sources;
  *target_ends = targets;
  const bool same = sources.data == targets.data;
  if (decoder_.kind == DecoderKind::kCosine) {
    VICINAL_ASSIGN_OR_RETURN(*source_ends, Normalise(kSourceEnds, sources));
    *target_ends = *source_ends;
    if (same) return OkStatus();
    VICINAL_ASSIGN_OR_RETURN(*target_ends, Normalise(kTargetEnds, targets));
  } else if (decoder_.kind == DecoderKind::kDistMult) {
    VICINAL_ASSIGN_OR_RETURN(const MatrixView out, Matrix(kTargetEnds, targets.rows, targets.cols));
    RowwiseArgs args;
    args.problem = {RowwiseKind::kAdd, Reduce::kSum, targets.rows, targets.cols};
    args.a = targets;
    args.dst = out;
    args.scale = relation_vector_.as<float>();
    VICINAL_RETURN_IF_ERROR(Launch(parts_.registry->rowwise, args));
    *target_ends = out;
  } else if (!ends_.empty()) {
    VICINAL_ASSIGN_OR_RETURN(const MatrixView out, Matrix(kTargetEnds, targets.rows, ends_.back().out_width));
    VICINAL_RETURN_IF_ERROR(Multiply(ends_.back(), targets, out));
    *target_ends = out;
    if (ends_.size() == 1) return OkStatus();
    VICINAL_ASSIGN_OR_RETURN(const MatrixView of_sources, Matrix(kSourceEnds, sources.rows, ends_[0].out_width));
    VICINAL_RETURN_IF_ERROR(Multiply(ends_[0], sources, of_sources));
    *source_ends = of_sources;
  }
  return OkStatus();
}

// --- scores ---

Status LinkScorer::ScoreNetwork(const CsrView& adjacency, ConstMatrixView source_ends, ConstMatrixView target_ends,
                                float* scores) {
  const int64_t edges = adjacency.nnz;
  VICINAL_ASSIGN_OR_RETURN(MatrixView hidden, Matrix(kHidden, edges, source_ends.cols));
  EdgeScoresArgs args;
  args.problem = {false,
                  decoder_.product ? Message::kMultiply : Message::kAdd,
                  adjacency.rows,
                  adjacency.cols,
                  edges,
                  source_ends.cols,
                  1};
  args.adjacency = adjacency;
  args.src = source_ends;
  args.target = target_ends;
  args.dst = hidden;
  VICINAL_RETURN_IF_ERROR(Launch(parts_.registry->edge_scores, args));
  const Activation first = decoder_.layers[0].activation;
  if (!decoder_.product && first.kind != ActivationKind::kNone) {
    RowwiseArgs activate;
    activate.problem = {RowwiseKind::kAdd, Reduce::kSum, edges, hidden.cols};
    activate.a = hidden;
    activate.dst = hidden;
    activate.epilogue.activation = first;
    VICINAL_RETURN_IF_ERROR(Launch(parts_.registry->rowwise, activate));
  }
  Slot free = kOtherHidden;
  for (const Product& layer : layers_) {
    VICINAL_ASSIGN_OR_RETURN(const MatrixView next, Matrix(free, edges, layer.out_width));
    VICINAL_RETURN_IF_ERROR(Multiply(layer, hidden, next));
    hidden = next;
    free = free == kHidden ? kOtherHidden : kHidden;
  }
  return Fetch(hidden.data, edges, scores);
}

Status LinkScorer::ScoreNetworkInBlocks(const CsrView& adjacency, const int64_t* row_ptr, ConstMatrixView source_ends,
                                        ConstMatrixView target_ends, float* scores) {
  std::vector<int64_t> clipped;
  int64_t row = 0;
  for (int64_t begin = 0; begin < adjacency.nnz;) {
    VICINAL_RETURN_IF_ERROR((*parts_.stop)());
    while (row_ptr[row + 1] <= begin) ++row;
    const int64_t limit = std::min(adjacency.nnz, begin + kBlockPairs);
    int64_t last = row + 1;
    while (last < adjacency.rows && last - row < kBlockRows && row_ptr[last] < limit) ++last;
    const int64_t end = std::min(limit, row_ptr[last]);
    clipped.clear();
    for (int64_t i = row; i <= last; ++i) clipped.push_back(std::clamp(row_ptr[i], begin, end) - begin);
    const auto bytes = static_cast<int64_t>(clipped.size() * sizeof(int64_t));
    VICINAL_ASSIGN_OR_RETURN(void* const place, Room(kRowPtr, bytes));
    VICINAL_RETURN_IF_ERROR(device_.CopyFromHost(place, clipped.data(), static_cast<size_t>(bytes)));
    const CsrView block = {
        last - row, adjacency.cols, end - begin, static_cast<const int64_t*>(place), adjacency.col + begin, nullptr};
    const ConstMatrixView targets = {target_ends.row(row), last - row, target_ends.cols, target_ends.stride};
    VICINAL_RETURN_IF_ERROR(ScoreNetwork(block, source_ends, targets, scores + begin));
    begin = end;
  }
  return OkStatus();
}

Status LinkScorer::Score(const CsrView& adjacency, ConstMatrixView source_ends, ConstMatrixView target_ends,
                         float* scores) {
  const int64_t edges = adjacency.nnz;
  const bool direct = device_.kind() == DeviceKind::kCpu;
  MatrixView dst = {scores, edges, 1, 1};
  if (!direct) {
    VICINAL_ASSIGN_OR_RETURN(dst, Matrix(kScores, edges, 1));
  }
  EdgeScoresArgs args;
  args.problem = {true, Message::kMultiply, adjacency.rows, adjacency.cols, edges, source_ends.cols, 1};
  args.adjacency = adjacency;
  args.src = source_ends;
  args.target = target_ends;
  args.dst = dst;
  VICINAL_RETURN_IF_ERROR(Launch(parts_.registry->edge_scores, args));
  VICINAL_RETURN_IF_ERROR(Fetch(dst.data, edges, scores));
  if (decoder_.bias == nullptr) return OkStatus();
  const float bias = decoder_.bias->values[static_cast<size_t>(prepared_relation_)];
  for (int64_t e = 0; e < edges; ++e) scores[e] += bias;
  return OkStatus();
}

Status LinkScorer::ScorePairs(ConstMatrixView rows, int32_t relation, const int64_t* sources, const int64_t* targets,
                              int64_t count, float* scores) {
  VICINAL_RETURN_IF_ERROR(Prepare(relation));
  VICINAL_ASSIGN_OR_RETURN(const MatrixView of_sources, Matrix(kSourceRows, count, rows.cols));
  VICINAL_ASSIGN_OR_RETURN(const MatrixView of_targets, Matrix(kTargetRows, count, rows.cols));
  VICINAL_RETURN_IF_ERROR(GatherTo(rows, kSourceIndex, sources, count, of_sources));
  VICINAL_RETURN_IF_ERROR(GatherTo(rows, kTargetIndex, targets, count, of_targets));
  ConstMatrixView source_ends, target_ends;
  VICINAL_RETURN_IF_ERROR(TransformEnds(of_sources, of_targets, &source_ends, &target_ends));
  // Pair i is the one edge of row i, from source i.
  std::vector<int64_t> row_ptr(static_cast<size_t>(count) + 1);
  std::iota(row_ptr.begin(), row_ptr.end(), int64_t{0});
  const std::vector<int32_t> columns(row_ptr.begin(), row_ptr.end() - 1);
  const auto row_bytes = static_cast<int64_t>(row_ptr.size() * sizeof(int64_t));
  const auto column_bytes = static_cast<int64_t>(columns.size() * sizeof(int32_t));
  VICINAL_ASSIGN_OR_RETURN(void* const of_rows, Room(kIota, row_bytes));
  VICINAL_ASSIGN_OR_RETURN(void* const of_columns, Room(kColumns, column_bytes));
  VICINAL_RETURN_IF_ERROR(device_.CopyFromHost(of_rows, row_ptr.data(), static_cast<size_t>(row_bytes)));
  VICINAL_RETURN_IF_ERROR(device_.CopyFromHost(of_columns, columns.data(), static_cast<size_t>(column_bytes)));
  const CsrView adjacency = {
      count, count, count, static_cast<const int64_t*>(of_rows), static_cast<const int32_t*>(of_columns), nullptr};
  if (decoder_.kind == DecoderKind::kMlp) return ScoreNetwork(adjacency, source_ends, target_ends, scores);
  return Score(adjacency, source_ends, target_ends, scores);
}

Status LinkScorer::ScoreEdges(ConstMatrixView rows, int32_t relation, const CsrView& adjacency, const int64_t* row_ptr,
                              float* scores) {
  VICINAL_RETURN_IF_ERROR(Prepare(relation));
  ConstMatrixView source_ends, target_ends;
  VICINAL_RETURN_IF_ERROR(TransformEnds(rows, rows, &source_ends, &target_ends));
  if (decoder_.kind == DecoderKind::kMlp) {
    return ScoreNetworkInBlocks(adjacency, row_ptr, source_ends, target_ends, scores);
  }
  return Score(adjacency, source_ends, target_ends, scores);
}

}  // namespace vicinal
