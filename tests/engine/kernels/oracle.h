// SPDX-License-Identifier: Apache-2.0
// The double-precision oracle of the conformance tests. Works on edge lists by scattering messages into targets, in the
// list's own order: no CSR, no code of the kernels. Every value comes with the sum of the magnitudes of the terms it is
// made of, from which the tolerance follows: float32 arithmetic cannot be asked for more than a multiple of epsilon
// times that.
#ifndef VICINAL_TESTS_ENGINE_KERNELS_ORACLE_H_
#define VICINAL_TESTS_ENGINE_KERNELS_ORACLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/kernels/operations.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {

// [rows, cols] of values and of what each may be off by, in units of float32's epsilon (2^-24).
struct Expected {
  Expected(int64_t r, int64_t c) : rows(r), cols(c), value(r * c), magnitude(r * c) {}
  double& v(int64_t r, int64_t c) { return value[r * cols + c]; }
  double& m(int64_t r, int64_t c) { return magnitude[r * cols + c]; }

  int64_t rows, cols;
  std::vector<double> value;
  std::vector<double> magnitude;
};

Expected OracleAggregate(const TestGraph& graph, bool weighted, Reduce reduce, float self_scale, const TestMatrix& src);
Expected OracleAttention(const TestGraph& graph, const AttentionArgs& args, const TestMatrix& value,
                         const TestMatrix& score_src, const TestMatrix& score_dst, const TestMatrix& query,
                         const std::vector<float>& att);
// x [R, F] times w [H, F] transposed; `x` is given densely as values and magnitudes.
Expected OracleProduct(const Expected& x, const TestMatrix& w);
// A dense matrix, exact.
Expected Exactly(const TestMatrix& matrix);
// A sparse one, made dense.
Expected OracleDense(const TestCsr& sparse, bool weighted);
// Aggregation over an edge list of rows that are already expected values.
Expected OracleAggregateRows(const TestGraph& graph, bool weighted, Reduce reduce, float self_scale,
                             const Expected& src);

// An epilogue by its parts, so that the oracle needs none of the kernels' views. `residual` as it was before the kernel
// ran.
void OracleEpilogue(const std::vector<float>* bias, const TestMatrix* residual, float residual_scale,
                    Activation activation, Expected* result);

// Empty when every element of `got` is near; else which is worst. `terms`: the length of the longest sum behind an
// element.
std::string Differs(const Expected& expected, const TestMatrix& got, int64_t terms);

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_KERNELS_ORACLE_H_
