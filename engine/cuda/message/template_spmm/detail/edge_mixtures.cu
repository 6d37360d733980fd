// SPDX-License-Identifier: Apache-2.0
// template_spmm for mixtures (NNConv, GMMConv): a message is the sum of a source's parts times coefficients, which are
// features of the edge or come from them by a network or by Gaussians.
//
// Idea. A warp makes the coefficients of 16 edges (4 with wide networks) in shared memory of its own: a lane has an
// output of a layer for some of the edges, so that a load of a weight serves these. Then messages are made in registers
// (edge_rows.cuh): a lane multiplies 4 columns of a part of each of its edges' sources, all loads of a part in flight.
// Per edge rather than as K sums per row before one product: any reduction serves, and nothing of [N, K F] is written;
// it reads K parts of a source instead of one row. Order of evaluation: inputs of a layer ascending, folded every 64,
// then the bias; parts in order; then that of edge_rows.cuh. Traffic: edges * (8 + 4 * K * width + 4 * A for every 64
// columns) bytes of gather; rows * 4 * width of results.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/dense/packed_weights.h"
#include "engine/cuda/message/template_spmm/detail/edge_rows.cuh"
#include "engine/cuda/message/template_spmm/detail/gaussians.cuh"

namespace vicinal::cuda {
namespace {

struct Layer {
  const float* weight;  // W^T [in_width, out_width], rows `stride` apart
  int64_t stride;
  const float* bias;  // or null
  Activation activation;
  int in_width, out_width;
};

// Some edges' numbers in shared memory, those of an edge `stride` apart from the next one's.
struct Numbers {
  float* data;
  int stride;
};

// out = activation(in * W^T + bias) for kStep edges. kLanes lanes have an output each, for kMine edges.
template <int kStep, int kLanes>
__device__ inline void Multiply(const Layer& layer, int lane, const Numbers& in, const Numbers& out) {
  constexpr int kMine = kStep * kLanes / 32;
  const int first = lane / kLanes * kMine;
  const float* const x = in.data + first * in.stride;
#pragma unroll 1
  for (int h = lane % kLanes; h < layer.out_width; h += kLanes) {
    float total[kMine] = {}, sum[kMine] = {};
    const float* weight = layer.weight + h;
#pragma unroll 1
    for (int k = 0; k < layer.in_width; k += 4) {
      float w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i, weight += layer.stride) w[i] = k + i < layer.in_width ? __ldg(weight) : 0.0f;
#pragma unroll
      for (int e = 0; e < kMine; ++e) {
        const Pack<4> four = LoadShared<4>(x + e * in.stride + k);  // the last ones are padded with zeros
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[e] = fmaf(four.v[i], w[i], sum[e]);
      }
      if (k % kFoldInputs != kFoldInputs - 4) continue;
#pragma unroll
      for (int e = 0; e < kMine; ++e) {
        total[e] += sum[e];
        sum[e] = 0.0f;
      }
    }
    const float bias = layer.bias != nullptr ? __ldg(layer.bias + h) : 0.0f;
#pragma unroll
    for (int e = 0; e < kMine; ++e) out.data[(first + e) * out.stride + h] = total[e] + sum[e] + bias;
      // One copy of the function: sixteen of them, of which few are run, do not stay in the instruction cache.
#pragma unroll 1
    for (int e = 0; e < kMine; ++e) {
      float& y = out.data[(first + e) * out.stride + h];
      y = Activate(layer.activation, y);
    }
  }
}

// out = the Gaussians of `width` features in `in`, for kStep edges. kLanes lanes have one each, for kMine edges.
template <int kStep, int kLanes>
__device__ inline void EvaluateGaussians(const MessageReduceArgs& args, int width, int lane, const Numbers& in,
                                         const Numbers& out) {
  constexpr int kMine = kStep * kLanes / 32;
  const int first = lane / kLanes * kMine, count = static_cast<int>(args.problem.gaussians);
  int place[kMine];
#pragma unroll
  for (int e = 0; e < kMine; ++e) place[e] = (first + e) * in.stride;
#pragma unroll 1
  for (int k = lane % kLanes; k < count; k += kLanes) {
    const GaussianColumn gaussian(args, k);
    float total[kMine] = {};
#pragma unroll 1
    for (int a = 0; a < width; a += kFoldFeatures) {
      float sum[kMine] = {};
      gaussian.AddTerms(in.data + a, place, a, min(width - a, kFoldFeatures), count, sum);
#pragma unroll
      for (int e = 0; e < kMine; ++e) total[e] += sum[e];
    }
#pragma unroll
    for (int e = 0; e < kMine; ++e) out.data[(first + e) * out.stride + k] = expf(total[e]);
  }
}

// Zeros behind numbers [0, width) up to a multiple of 4.
template <int kStep>
__device__ inline void Pad(const Numbers& numbers, int width, int lane) {
  const int missing = (4 - width % 4) % 4;
  for (int item = lane; item < kStep * missing; item += 32) {
    numbers.data[item / missing * numbers.stride + width + item % missing] = 0.0f;
  }
}

template <int kStep_>
struct MixtureMaker {
  static constexpr int kStep = kStep_;

  __host__ __device__ static int BlockFloats(const RowParams&) { return 0; }
  __host__ __device__ static int Floats(const RowParams& params) {
    return kStep * (params.network.strides[0] + params.network.strides[1]);
  }
  template <class L>
  __device__ static void Begin(const RowParams&, const RowWork<L>&) {}

  template <class L>
  __device__ static void Make(const RowParams& params, const RowWork<L>& work, int entry, int base, int edges) {
    FindRowEdges(params, work, entry, base, edges);
    const Numbers coefficients = MakeCoefficients(params, work, edges);
    float z[L::kCount];
    Mix(params, work, coefficients, z);
    StoreMessages(work, z);
  }

 private:
  template <class L>
  __device__ static void LoadFeatures(const RowParams& params, const RowWork<L>& work, int edges, const Numbers& to) {
    const int width = static_cast<int>(params.args.edge.width);
    constexpr int kAcross = 32 / kStep;  // lanes of an edge
    const int edge = work.lane / kAcross;
    const float* const features = work.memory.features[min(edge, edges - 1)];
#pragma unroll 4
    for (int a = work.lane % kAcross; a < width; a += kAcross) to.data[edge * to.stride + a] = __ldg(features + a);
    Pad<kStep>(to, width, work.lane);
    __syncwarp();
  }

  template <class L>
  __device__ static Numbers MakeCoefficients(const RowParams& params, const RowWork<L>& work, int edges) {
    const RowNetwork& network = params.network;
    Numbers in = {work.own_memory, network.strides[0]};
    Numbers out = {work.own_memory + kStep * network.strides[0], network.strides[1]};
    LoadFeatures(params, work, edges, in);
    int width = static_cast<int>(params.args.edge.width);
    if (params.args.problem.gaussians > 0) {
      EvaluateGaussians<kStep, 8>(params.args, width, work.lane, in, out);
      __syncwarp();
      return out;
    }
    for (int l = 0; l < params.args.problem.num_layers; ++l) {
      const int out_width = static_cast<int>(network.out_widths[l]);
      const Layer layer = {static_cast<const float*>(network.layers[l].weight),
                           network.weight_strides[l],
                           network.layers[l].bias,
                           network.layers[l].activation,
                           width,
                           out_width};
      if (out_width <= 8) {
        Multiply<kStep, 8>(layer, work.lane, in, out);
      } else if (out_width <= 16) {
        Multiply<kStep, 16>(layer, work.lane, in, out);
      } else {
        Multiply<kStep, 32>(layer, work.lane, in, out);
      }
      Pad<kStep>(out, out_width, work.lane);
      __syncwarp();
      const Numbers made = out;
      out = in;
      in = made;
      width = out_width;
    }
    return in;
  }

  // Sums of the sources' parts times coefficients.
  template <class L>
  __device__ static void Mix(const RowParams& params, const RowWork<L>& work, const Numbers& coefficients,
                             float (&z)[L::kCount]) {
    const MessageReduceArgs& args = params.args;
    const int parts = params.network.coefficients;
    const int64_t width = args.problem.width;
    const float* u[L::kMine];
#pragma unroll
    for (int k = 0; k < L::kMine; ++k) {
      u[k] = args.src.data + int64_t{work.memory.source[work.EdgeOf(k)]} * args.src.stride + work.column;
      const Pack<L::kVec> x =
          args.problem.one_more ? LoadPlain<L::kVec>(u[k] + parts * width) : Pack<L::kVec>::Filled(0.0f);
#pragma unroll
      for (int v = 0; v < L::kVec; ++v) z[k * L::kVec + v] = x.v[v];
    }
    const float* const c = coefficients.data + work.group * coefficients.stride;
#pragma unroll 1
    for (int p = 0; p < parts; ++p) {
      Pack<L::kVec> part[L::kMine];
#pragma unroll
      for (int k = 0; k < L::kMine; ++k) {
        part[k] = LoadPlain<L::kVec>(u[k]);
        u[k] += width;
      }
#pragma unroll
      for (int k = 0; k < L::kMine; ++k) {
        const float x = c[k * L::kGroups * coefficients.stride + p];
#pragma unroll
        for (int v = 0; v < L::kVec; ++v) z[k * L::kVec + v] = fmaf(x, part[k].v[v], z[k * L::kVec + v]);
      }
    }
  }
};

template <int kStep, class Total>
cudaError_t LaunchColumns(const RowParams& params, bool packs, const LaunchTarget& target) {
  using Maker = MixtureMaker<kStep>;
  return packs ? LaunchRows<RowLayout<4, 16, kStep, Total>, Maker>(params, target)
               : LaunchRows<RowLayout<1, kFeaturedTile, kStep, Total>, Maker>(params, target);
}

template <int kStep>
cudaError_t LaunchTotal(const RowParams& params, bool packs, const LaunchTarget& target) {
  if (params.args.problem.softmax) return LaunchColumns<kStep, SoftmaxTotal>(params, packs, target);
  return IsExtreme(params.args.problem.reduce) ? LaunchColumns<kStep, PlainTotal<true>>(params, packs, target)
                                               : LaunchColumns<kStep, PlainTotal<false>>(params, packs, target);
}

}  // namespace

cudaError_t LaunchEdgeMixtures(const MessageReduceArgs& args, const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  RowParams params;
  if (const cudaError_t error = SetRowParams(args, target, scratch, &params); error != cudaSuccess) return error;
  std::copy(args.layers.begin(), args.layers.end(), params.network.layers);
  for (int l = 0; l < args.problem.num_layers; ++l) {
    params.network.out_widths[l] = args.problem.out_widths[l];
    params.network.weight_strides[l] = PackedStride(args.problem.out_widths[l]);
  }
  params.network.coefficients = static_cast<int>(args.problem.coefficients());
  const MixtureMemory memory(args.problem);
  std::copy(memory.strides, memory.strides + 2, params.network.strides);
  const bool packs = InPacks(args.src) && args.problem.width % 4 == 0;
  return memory.Bytes(kLargeMixtureStep) <= LargeMixtureBytes(target.limits)
             ? LaunchTotal<kLargeMixtureStep>(params, packs, target)
             : LaunchTotal<kSmallMixtureStep>(params, packs, target);
}

}  // namespace vicinal::cuda
