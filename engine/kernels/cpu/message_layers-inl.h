// SPDX-License-Identifier: Apache-2.0
// Reduction of messages that pass through scratch: those of an MLP, gated ones, mixtures, and all whose sum is weighted
// by a softmax. Edges are processed some dozens at a time, across rows, so that every layer is a small product of a
// block of messages and packed weights in registers, both in the near caches, and runs at nearly the speed of a dense
// update. A row's reduction is carried from block to block, edge by edge: bits do not depend on where blocks begin.
// Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_MESSAGE_LAYERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_LAYERS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_LAYERS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_MESSAGE_LAYERS_INL_H_
#endif

#include <utility>

#include "engine/kernels/cpu/edge_features.h"
#include "engine/kernels/cpu/gather_job.h"
#include "engine/kernels/cpu/message_scratch.h"
#include "engine/kernels/cpu/message_vector-inl.h"
#include "engine/kernels/cpu/work.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

inline constexpr int kEdgePanelVectors = static_cast<int>(kEdgePanel / kLanes);
// Panels of a tile, so that with kLayerRows rows its accumulators, one row of panels and the broadcast fit the
// registers.
inline constexpr int kLayerPanels = kLanes >= 16 ? 4 : 1;
// Inputs whose products are summed before they are added to the total.
inline constexpr int64_t kLayerInputs = 256;

template <int kPanels>
constexpr int LayerRows() {
  if (kLanes < 8) return 2;
  if (kLanes < 16) return 6;
  return kPanels >= 3 ? 6 : 12;
}

// out = activation(in W^T + bias) for a block of rows of scratch.
struct LayerJob {
  const float* in;
  float* out;
  int64_t in_stride, out_stride;
  int64_t in_width, out_width;
  MessageLayerArgs layer;
};

template <int kRows, int kPanels>
HWY_NOINLINE void LayerTile(const LayerJob& job, int64_t row, int64_t panel) {
  constexpr int kVectors = kPanels * kEdgePanelVectors;
  const Floats d;
  const float* weights = static_cast<const float*>(job.layer.weight) + panel * kEdgePanel * job.in_width;
  const float* in = job.in + row * job.in_stride;
  HWY_ALIGN float total[kLanes * kRows * kVectors];
  VF acc[kRows][kVectors];
  for (int64_t block = 0; block == 0 || block < job.in_width; block += kLayerInputs) {
    VICINAL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      VICINAL_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
    }
    const int64_t end = Smaller(job.in_width, block + kLayerInputs);
    for (int64_t f = block; f < end; ++f) {
      VF b[kVectors];
      VICINAL_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const int64_t of_panel = v / kEdgePanelVectors * kEdgePanel * job.in_width;
        b[v] = hn::LoadU(d, weights + of_panel + f * kEdgePanel + v % kEdgePanelVectors * kLanes);
      }
      VICINAL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const VF a = hn::Set(d, in[r * job.in_stride + f]);
        VICINAL_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(a, b[v], acc[r][v]);
      }
    }
    VICINAL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      VICINAL_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        float* sum = total + (r * kVectors + v) * kLanes;
        hn::Store(block == 0 ? acc[r][v] : hn::Add(hn::Load(d, sum), acc[r][v]), d, sum);
      }
    }
  }
  // Rows of scratch are padded to whole panels: values beyond out_width are written and never read.
  for (int v = 0; v < kVectors; ++v) {
    const int64_t col = panel * kEdgePanel + v * kLanes, count = job.out_width - col;
    const VF bias = job.layer.bias != nullptr && count > 0 ? LoadSome(job.layer.bias + col, count) : hn::Zero(d);
    for (int r = 0; r < kRows; ++r) {
      const VF sum = hn::Load(d, total + (r * kVectors + v) * kLanes);
      hn::StoreU(Activate(hn::Add(sum, bias), job.layer.activation), d, job.out + (row + r) * job.out_stride + col);
    }
  }
}

// Rows [begin, end) by kPanels panels: full tiles, then the rest in halves.
template <int kRows, int kPanels>
VICINAL_INLINE void LayerTiles(const LayerJob& job, int64_t begin, int64_t end, int64_t panel) {
  for (; begin + kRows <= end; begin += kRows) LayerTile<kRows, kPanels>(job, begin, panel);
  if constexpr (kRows > 1) {
    if (begin < end) LayerTiles<kRows / 2, kPanels>(job, begin, end, panel);
  }
}

VICINAL_INLINE void ApplyLayer(const LayerJob& job, int64_t rows) {
  const int64_t panels = DivideUp(job.out_width, kEdgePanel);
  for (int64_t panel = 0; panel < panels;) {
    const int64_t group = Smaller(kLayerPanels, panels - panel);
    switch (group) {
      case 1:
        LayerTiles<LayerRows<1>(), 1>(job, 0, rows, panel);
        break;
      case 2:
        LayerTiles<LayerRows<2>(), HWY_MIN(2, kLayerPanels)>(job, 0, rows, panel);
        break;
      case 3:
        LayerTiles<LayerRows<3>(), HWY_MIN(3, kLayerPanels)>(job, 0, rows, panel);
        break;
      default:
        LayerTiles<LayerRows<4>(), kLayerPanels>(job, 0, rows, panel);
        break;
    }
    panel += group;
  }
}

// One thread's work on rows: messages of a block of edges, their layers, their reduction.
template <RowReduction kReduction>
class EdgeLayers {
 public:
  EdgeLayers(const MessageReduceArgs& args, float* scratch, const StopWithin& stop)
      : args_(args),
        stop_(stop),
        stride_(MessageStride(args.problem)),
        together_(EdgesTogether(args.config)),
        last_edge_(args.adjacency.row_ptr[args.dst.rows]),
        prefetch_(WorthPrefetching(args.src)),
        messages_(scratch),
        other_(scratch + together_ * stride_),
        total_(scratch + 2 * together_ * stride_),
        partial_(total_ + ReductionRows(args.problem) * stride_) {}

  // Rows [begin, end), or some of them if the loop is stopped.
  HWY_NOINLINE void Run(int64_t begin, int64_t end) {
    const int64_t* row_ptr = args_.adjacency.row_ptr;
    const int64_t last = row_ptr[end];
    int64_t row = begin;
    StartRow(partial_);
    for (int64_t edge = row_ptr[begin]; edge < last; edge += together_) {
      const int64_t block_end = Smaller(last, edge + together_);
      if (stop_.Before(block_end - edge)) return;
      const float* results = MessagesOf(row, edge, block_end);
      // Stores all rows that end within the block; the last row may continue in the next block.
      for (int64_t from = edge; row < end && from < block_end;) {
        const int64_t to = Smaller(row_ptr[row + 1], block_end);
        ReduceEdges(row, from, to, results + (from - edge) * stride_);
        from = to;
        for (; row < end && row_ptr[row + 1] <= to; ++row) StoreRow(row);
      }
    }
    // Rows without edges at the end, or no edges at all.
    for (; row < end; ++row) StoreRow(row);
  }

 private:
  static constexpr bool kExtreme = kReduction == RowReduction::kExtreme,
                        kWeighted = kReduction == RowReduction::kSoftmax;
  using R = Reducer<kExtreme>;

  // The finished messages of edges [begin, end), stride_ apart.
  VICINAL_INLINE const float* MessagesOf(int64_t row, int64_t begin, int64_t end) {
    const MessageReduceProblem& p = args_.problem;
    if (p.form == MessageForm::kMixture) {
      p.gaussians > 0 ? WriteGaussians(row, begin, end) : CopyFeatures(row, begin, end);
      const float* const coefficients = ApplyLayers(end - begin, p.edge_width);
      return Mix(begin, end, coefficients, coefficients == messages_ ? other_ : messages_);
    }
    p.form == MessageForm::kGated ? BuildGated(row, begin, end) : BuildMessages(row, begin, end);
    return ApplyLayers(end - begin, p.width);
  }

  // Calls use(e, row, features) for edges [begin, end); `features` are null without any.
  template <class Use>
  VICINAL_INLINE void ForEachEdge(int64_t row, int64_t begin, int64_t end, const Use& use) const {
    const int64_t* row_ptr = args_.adjacency.row_ptr;
    const bool featured = args_.problem.edge_width > 0;
    EdgeFeaturesOfRow of_row;
    int64_t featured_row = -1;
    for (int64_t e = begin; e < end; ++e) {
      while (row_ptr[row + 1] <= e) ++row;
      if (featured && featured_row != row) of_row = EdgeFeaturesOfRow(args_.edge, featured_row = row);
      use(e, row, featured ? of_row.At(e - row_ptr[row]) : nullptr);
    }
  }

  HWY_NOINLINE void CopyFeatures(int64_t row, int64_t begin, int64_t end) {
    ForEachEdge(row, begin, end, [&, width = args_.problem.edge_width](int64_t e, int64_t, const float* features) {
      float* const out = messages_ + (e - begin) * stride_;
      for (int64_t a = 0; a < width; a += kLanes) hn::StoreU(LoadSome(features + a, width - a), Floats(), out + a);
    });
  }

  HWY_NOINLINE void WriteGaussians(int64_t row, int64_t begin, int64_t end) {
    ForEachEdge(row, begin, end, [&](int64_t e, int64_t, const float* features) {
      GaussiansOf(args_, features, messages_ + (e - begin) * stride_);
    });
  }

  // The mixtures of the sources' parts by `coefficients`, rows of scratch as the result.
  HWY_NOINLINE const float* Mix(int64_t begin, int64_t end, const float* coefficients, float* result) const {
    const MessageReduceProblem& p = args_.problem;
    const int64_t parts = p.coefficients();
    for (int64_t e = begin; e < end; ++e) {
      const float* const u = args_.src.row(args_.adjacency.col[e]);
      const float* const share = coefficients + (e - begin) * stride_;
      float* const out = result + (e - begin) * stride_;
      for (int64_t c = 0; c < p.width; c += kLanes) {
        const int64_t count = p.width - c;
        VF m = p.one_more ? LoadSome(u + parts * p.width + c, count) : hn::Zero(Floats());
        for (int64_t k = 0; k < parts; ++k) {
          m = hn::MulAdd(hn::Set(Floats(), share[k]), LoadSome(u + k * p.width + c, count), m);
        }
        hn::StoreU(m, Floats(), out + c);
      }
    }
    return result;
  }

  // z of each edge, and its halves' product in place of the first.
  HWY_NOINLINE void BuildGated(int64_t row, int64_t begin, int64_t end) {
    const int64_t width = args_.problem.width, both = 2 * width, own = args_.target.cols;
    ForEachEdge(row, begin, end, [&](int64_t e, int64_t i, const float* features) {
      const float* const u = args_.src.row(args_.adjacency.col[e]);
      const float* const v = own > 0 ? args_.target.row(i) : nullptr;
      float* const z = messages_ + (e - begin) * stride_;
      const auto of_nodes = [&](int64_t c, int64_t count) HWY_ATTR {
        const VF x = LoadSome(u + c, count);
        return c < own ? hn::Add(x, LoadSome(v + c, own - c)) : x;
      };
      if (features == nullptr) {
        for (int64_t c = 0; c < both; c += kLanes) hn::StoreU(of_nodes(c, both - c), Floats(), z + c);
      } else {
        ForEachTerm(FeatureProductOf(args_, features, both), both, [&](VF term, int64_t c, int64_t count) HWY_ATTR {
          hn::StoreU(hn::Add(of_nodes(c, count), term), Floats(), z + c);
        });
      }
      for (int64_t c = 0; c < width; c += kLanes) {
        const int64_t count = width - c;
        const VF gate = Activate(LoadSome(z + c, count), args_.gate);
        StoreSome(hn::Mul(gate, Activate(LoadSome(z + width + c, count), args_.activation)), z + c, count);
      }
    });
  }

  // Messages of edges [begin, end). The first belongs to `row` or, if that row is complete, to a later one.
  VICINAL_INLINE void BuildMessages(int64_t row, int64_t begin, int64_t end) {
    switch (WithTargetOf(args_.problem.message)) {
      case WithTarget::kNothing:
        return BuildRows<WithTarget::kNothing>(row, begin, end);
      case WithTarget::kAdd:
        return BuildRows<WithTarget::kAdd>(row, begin, end);
      case WithTarget::kMultiply:
        return BuildRows<WithTarget::kMultiply>(row, begin, end);
    }
  }

  template <WithTarget kWith>
  HWY_NOINLINE void BuildRows(int64_t row, int64_t begin, int64_t end) {
    const CsrView& a = args_.adjacency;
    const int64_t width = args_.problem.width;
    const bool featured = args_.problem.edge_width > 0;
    EdgeFeaturesOfRow of_row;
    int64_t featured_row = -1;
    for (int64_t e = begin; e < end; ++e) {
      while (a.row_ptr[row + 1] <= e) ++row;
      if (featured && featured_row != row) of_row = EdgeFeaturesOfRow(args_.edge, featured_row = row);
      const float* features = featured ? of_row.At(e - a.row_ptr[row]) : nullptr;
      const float* u = args_.src.row(a.col[e]);
      const float* v = kWith == WithTarget::kNothing ? u : args_.target.row(row);
      const VF weight = hn::Set(Floats(), a.value != nullptr ? a.value[e] : 1.0f);
      float* out = messages_ + (e - begin) * stride_;
      if (prefetch_ && e + kAhead < last_edge_) {
        const float* next = args_.src.row(a.col[e + kAhead]);
        for (int64_t c = 0; c < width; c += 16) hwy::Prefetch(next + c);
      }
      const auto of_nodes = [&](int64_t c, int64_t count) HWY_ATTR {
        return MessageOf<kWith>(LoadSome(u + c, count), LoadTarget<kWith>(args_.problem.message, v + c, count));
      };
      const auto store = [&](VF message, int64_t c) HWY_ATTR {
        hn::StoreU(Activate(hn::Mul(message, weight), args_.activation), Floats(), out + c);
      };
      if (!featured) {
        for (int64_t c = 0; c < width; c += kLanes) store(of_nodes(c, width - c), c);
      } else {
        ForEachTerm(FeatureProductOf(args_, features, width), width,
                    [&](VF term, int64_t c, int64_t count) HWY_ATTR { store(hn::Add(of_nodes(c, count), term), c); });
      }
    }
  }

  // Of rows of `in_width` columns in messages_. Returns a pointer to the last layer's outputs.
  VICINAL_INLINE const float* ApplyLayers(int64_t edges, int64_t in_width) {
    float *in = messages_, *out = other_;
    for (int32_t l = 0; l < args_.problem.num_layers; ++l) {
      const int64_t out_width = args_.problem.out_widths[l];
      ApplyLayer({in, out, stride_, stride_, in_width, out_width, args_.layers[l]}, edges);
      in_width = out_width;
      std::swap(in, out);
    }
    return in;
  }

  VICINAL_INLINE void StartRow(float* reduction) const {
    for (int64_t c = 0; c < stride_; c += kLanes) {
      if constexpr (kWeighted) StoreSoftmax(SoftmaxSum::Start(), reduction + c);
      if constexpr (!kWeighted) hn::StoreU(R::Start(), Floats(), reduction + c);
    }
  }

  // Their three numbers of a column stand in rows of scratch.
  VICINAL_INLINE SoftmaxSum LoadSoftmax(const float* p) const {
    return {hn::LoadU(Floats(), p), hn::LoadU(Floats(), p + stride_), hn::LoadU(Floats(), p + 2 * stride_)};
  }
  VICINAL_INLINE void StoreSoftmax(const SoftmaxSum& x, float* p) const {
    hn::StoreU(x.largest, Floats(), p);
    hn::StoreU(x.weights, Floats(), p + stride_);
    hn::StoreU(x.sum, Floats(), p + 2 * stride_);
  }

  // Adds the `results` of edges [begin, end) of `row` to partial_, and partial_ to total_ at the end of each block of
  // kMessageBlock edges of the row.
  VICINAL_INLINE void ReduceEdges(int64_t row, int64_t begin, int64_t end, const float* results) {
    const int64_t first = args_.adjacency.row_ptr[row];
    for (int64_t e = begin; e < end;) {
      if (e != first && (e - first) % kMessageBlock == 0) CloseBlock(e - first == kMessageBlock);
      const int64_t block_end = Smaller(end, first + ((e - first) / kMessageBlock + 1) * kMessageBlock);
      JoinEdges(block_end - e, results + (e - begin) * stride_);
      e = block_end;
    }
  }

  HWY_NOINLINE void JoinEdges(int64_t edges, const float* results) {
    const Floats d;
    const VF flip = FlipOf(args_.problem.reduce);
    if constexpr (kWeighted) return JoinWeighted(edges, results);
    for (int64_t c = 0; c < args_.dst.cols; c += kLanes) {
      VF acc = hn::LoadU(d, partial_ + c);
      for (int64_t k = 0; k < edges; ++k) {
        const VF x = hn::LoadU(d, results + k * stride_ + c);
        acc = R::Join(acc, kExtreme ? hn::Xor(x, flip) : x);
      }
      hn::StoreU(acc, d, partial_ + c);
    }
  }

  VICINAL_INLINE void JoinWeighted(int64_t edges, const float* results) {
    int64_t c = 0;
    for (; c + kWeightedVectors * kLanes <= args_.dst.cols; c += kWeightedVectors * kLanes) {
      JoinWeightedVectors<kWeightedVectors>(edges, results, c);
    }
    for (; c < args_.dst.cols; c += kLanes) JoinWeightedVectors<1>(edges, results, c);
  }

  // N vectors of columns from c on: each waits for its own exponential, edge after edge, so that several overlap.
  template <int N>
  VICINAL_INLINE void JoinWeightedVectors(int64_t edges, const float* results, int64_t c) {
    const Floats d;
    const VF temperature = hn::Set(d, args_.temperature), one = hn::Set(d, 1.0f);
    SoftmaxSum so_far[N];
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) so_far[n] = LoadSoftmax(partial_ + c + n * kLanes);
    for (int64_t k = 0; k < edges; ++k) {
      VICINAL_UNROLL
      for (int n = 0; n < N; ++n) {
        const int64_t col = c + n * kLanes;
        const VF x = LoadSome(results + k * stride_ + col, args_.dst.cols - col);
        so_far[n].Join({hn::Mul(temperature, x), one, x});
      }
    }
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) StoreSoftmax(so_far[n], partial_ + c + n * kLanes);
  }

  // Adds partial_ to total_, or initialises total_ with it.
  HWY_NOINLINE void CloseBlock(bool is_first) {
    const Floats d;
    for (int64_t c = 0; c < args_.dst.cols; c += kLanes) {
      if constexpr (kWeighted) {
        SoftmaxSum total = LoadSoftmax((is_first ? partial_ : total_) + c);
        if (!is_first) total.Join(LoadSoftmax(partial_ + c));
        StoreSoftmax(total, total_ + c);
      } else {
        const VF block = hn::LoadU(d, partial_ + c);
        hn::StoreU(is_first ? block : R::Join(hn::LoadU(d, total_ + c), block), d, total_ + c);
      }
    }
    StartRow(partial_);
  }

  VICINAL_INLINE void StoreRow(int64_t row) {
    const Floats d;
    const int64_t degree = args_.adjacency.row_ptr[row + 1] - args_.adjacency.row_ptr[row];
    for (int64_t c = 0; c < args_.dst.cols; c += kLanes) {
      const int64_t count = args_.dst.cols - c;
      VF acc;
      if constexpr (kWeighted) {
        SoftmaxSum sum = LoadSoftmax((degree > kMessageBlock ? total_ : partial_) + c);
        if (degree > kMessageBlock) sum.Join(LoadSoftmax(partial_ + c));
        acc = sum.Result();
      } else {
        acc = hn::LoadU(d, partial_ + c);
        if (degree > kMessageBlock) acc = R::Join(hn::LoadU(d, total_ + c), acc);
      }
      StoreSome(Finish(ReducedOf(args_, degree, acc), args_.epilogue, row, c, count), args_.dst.row(row) + c, count);
    }
    StartRow(partial_);
  }

  static constexpr int64_t kAhead = 6;
  static constexpr int kWeightedVectors = 4;

  const MessageReduceArgs& args_;
  StopWithin stop_;
  const int64_t stride_, together_, last_edge_;
  const bool prefetch_;
  float* const messages_;
  float* const other_;
  float* const total_;    // of the row's complete blocks
  float* const partial_;  // of its current block
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_MESSAGE_LAYERS_INL_H_
