// SPDX-License-Identifier: Apache-2.0
// Scores of links by a decoder, from rows in the device's memory, with the kernels of the registry: the generalised
// sampled product ("edge_scores") for what meets at a link, "dense_update" and "rowwise" for what is of one end alone.
//
// Dot-like decoders: one end is transformed (cosine: both are normalised), then every link is a dot product. MLPs: the
// first layer of [u, v] is a sum of a part of the source and a part of the target, so it is computed per row; a link
// adds the two, and the other layers are products with blocks of links.
//
// A score depends on its two rows alone: pairs in a list and edges of a graph get the same bits, in any block.
#ifndef VICINAL_ENGINE_EXECUTE_LINKS_LINK_SCORER_H_
#define VICINAL_ENGINE_EXECUTE_LINKS_LINK_SCORER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "engine/api/requests.h"
#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/model/decoder.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

// One thread at a time, on the context's thread.
class LinkScorer {
 public:
  // Pairs that ScorePairs takes at most.
  static constexpr int64_t kBlockPairs = 8192;

  struct Parts {
    DeviceContext* context = nullptr;
    const KernelRegistry* registry = nullptr;
    MemoryBudget* budget = nullptr;
    const ExecutionOptions* options = nullptr;  // the kernel of "edge_scores" may be forced
    const StopCheck* stop = nullptr;            // asked between blocks
  };
  // All of `parts`, and `decoder`, must outlive the scorer.
  LinkScorer(const Decoder& decoder, Parts parts)
      : decoder_(decoder), parts_(parts), device_(parts.context->device()) {}

  // scores[i] of the rows sources[i] and targets[i] of `rows`, i < count <= kBlockPairs. Errors: the budget's, the
  // device's, KERNEL_UNKNOWN, KERNEL_REFUSED.
  Status ScorePairs(ConstMatrixView rows, int32_t relation, const int64_t* sources, const int64_t* targets,
                    int64_t count, float* scores);
  // scores [E] of all edges, in the order of `adjacency`. `row_ptr` is its row_ptr on the host. Errors also of `stop`.
  Status ScoreEdges(ConstMatrixView rows, int32_t relation, const CsrView& adjacency, const int64_t* row_ptr,
                    float* scores);
  // Rows index[i] of `rows`, on the device, until the next call.
  StatusOr<ConstMatrixView> Gather(ConstMatrixView rows, const std::vector<int64_t>& index);

 private:
  // Memory on the device that is kept for the next block.
  enum Slot {
    kSourceRows,
    kTargetRows,
    kSourceEnds,
    kTargetEnds,
    kHidden,
    kOtherHidden,
    kSourceIndex,
    kTargetIndex,
    kIota,
    kColumns,
    kScores,
    kScratch,
    kGathered,
    kGatherIndex,
    kRowPtr,
    kNumSlots
  };
  // A product that is ready to run: weights packed by its kernel, on the device.
  struct Product {
    const RegisteredKernel<DenseUpdateKernel>* kernel = nullptr;
    int64_t in_width = 0, out_width = 0;
    Reservation memory;  // of both buffers; first: they go before it
    Buffer weight, bias;
    Activation activation;
  };

  StatusOr<void*> Room(Slot slot, int64_t bytes);
  StatusOr<MatrixView> Matrix(Slot slot, int64_t rows, int64_t cols);
  Status ToDevice(const void* host, int64_t bytes, Buffer* buffer);
  template <class K>
  Status Launch(const OperationKernels<K>& operation, typename K::Args args);
  Status GatherTo(ConstMatrixView rows, Slot index_slot, const int64_t* index, int64_t count, MatrixView out);

  StatusOr<Product> MakeProduct(ConstMatrixView weight, const float* bias, Activation activation) const;
  Status Multiply(const Product& product, ConstMatrixView src, MatrixView dst);
  // The weights of `relation`, packed; kept until another is asked for.
  Status Prepare(int32_t relation);
  Status PrepareNetwork();
  // What links read of the sources and of the targets.
  Status TransformEnds(ConstMatrixView sources, ConstMatrixView targets, ConstMatrixView* source_ends,
                       ConstMatrixView* target_ends);
  StatusOr<ConstMatrixView> Normalise(Slot slot, ConstMatrixView rows);
  // Scores of the edges of `adjacency` between these ends.
  Status Score(const CsrView& adjacency, ConstMatrixView source_ends, ConstMatrixView target_ends, float* scores);
  Status ScoreNetwork(const CsrView& adjacency, ConstMatrixView source_ends, ConstMatrixView target_ends,
                      float* scores);
  Status ScoreNetworkInBlocks(const CsrView& adjacency, const int64_t* row_ptr, ConstMatrixView source_ends,
                              ConstMatrixView target_ends, float* scores);
  Status Fetch(const float* scores, int64_t count, float* host);

  const Decoder& decoder_;
  const Parts parts_;
  Device& device_;
  std::array<Buffer, kNumSlots> room_;
  std::array<Reservation, kNumSlots> memory_;
  int32_t prepared_relation_ = -1;
  Buffer relation_vector_;              // kDistMult: a few rows, not counted
  std::vector<Product> ends_, layers_;  // kBilinear: of targets; kMlp of [u, v]: of sources, of targets; the rest
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_LINKS_LINK_SCORER_H_
