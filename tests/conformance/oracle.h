// SPDX-License-Identifier: Apache-2.0
// What every operation should give, in double precision on the host, written from the operations' definitions and
// sharing no code with any kernel. Results are [rows * cols] of dst.
#ifndef VICINAL_TESTS_CONFORMANCE_ORACLE_H_
#define VICINAL_TESTS_CONFORMANCE_ORACLE_H_

#include <cstdint>
#include <vector>

#include "engine/kernels/operations.h"
#include "tests/conformance/machine.h"

namespace vicinal::conformance {

// The larger (kMax) or smaller (kMin) of two; NaN where either is one.
double Extreme(Reduce reduce, double a, double b);

// The epilogue's host side. Empty vectors: none.
struct HostEpilogue {
  float scale = 1.0f;
  std::vector<float> row_scale;
  std::vector<float> bias;
  HostMatrix residual;
  float residual_scale = 1.0f;
  Activation activation;
};

double Activated(const Activation& activation, double x);
std::vector<double> WithEpilogue(std::vector<double> result, int64_t cols, const HostEpilogue& epilogue);

std::vector<double> Aggregate(const HostGraph& graph, bool weighted, Reduce reduce, const HostMatrix& src,
                              float self_scale);
// Adds self_scale * src to sums of the same shape.
void AddOwnRows(const HostMatrix& src, float self_scale, std::vector<double>* sums);

struct HostAttention {
  AttentionKind kind = AttentionKind::kGat;
  int64_t heads = 1;
  int64_t head_width = 1;
  bool concat = true;
  HostMatrix value, score_src, score_dst, query;
  std::vector<float> att;
  float negative_slope = 0.2f;
  HostMatrix key;
  float score_scale = 1.0f;
};
std::vector<double> Attend(const HostGraph& graph, const HostAttention& attention);

// src * W^T.
std::vector<double> Product(const HostMatrix& src, const HostMatrix& weight);
HostMatrix Dense(const HostGraph& sparse, bool weighted);

}  // namespace vicinal::conformance

#endif  // VICINAL_TESTS_CONFORMANCE_ORACLE_H_
