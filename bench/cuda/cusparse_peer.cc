// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/cusparse_peer.h"

#include <cusparse.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace vicinal::bench {
namespace {

void MustBeOk(cusparseStatus_t status, const char* what) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, cusparseGetErrorString(status));
  std::exit(1);
}

// Descriptors of one width; the matrices are those of the first buffers and are pointed at the others before each
// launch.
struct Descriptors {
  cusparseHandle_t handle = nullptr;
  cusparseSpMatDescr_t a = nullptr;
  std::vector<cusparseDnMatDescr_t> b, c;

  Descriptors(const PeerGraph& graph, int64_t width, float* const* src, float* const* dst, int buffers,
              cudaStream_t stream) {
    MustBeOk(cusparseCreate(&handle), "cusparseCreate");
    MustBeOk(cusparseSetStream(handle, stream), "cusparseSetStream");
    MustBeOk(cusparseCreateCsr(&a, graph.nodes, graph.nodes, graph.edges, graph.row_ptr, graph.col, graph.value,
                               CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
             "cusparseCreateCsr");
    b.resize(buffers);
    c.resize(buffers);
    for (int i = 0; i < buffers; ++i) {
      MustBeOk(cusparseCreateDnMat(&b[i], graph.nodes, width, width, src[i], CUDA_R_32F, CUSPARSE_ORDER_ROW), "b");
      MustBeOk(cusparseCreateDnMat(&c[i], graph.nodes, width, width, dst[i], CUDA_R_32F, CUSPARSE_ORDER_ROW), "c");
    }
  }
  ~Descriptors() {
    for (auto matrix : b) cusparseDestroyDnMat(matrix);
    for (auto matrix : c) cusparseDestroyDnMat(matrix);
    cusparseDestroySpMat(a);
    cusparseDestroy(handle);
  }
};

}  // namespace

PeerResult TimeCusparse(const PeerGraph& graph, int64_t width, float* const* src, float* const* dst, int num_buffers,
                        cudaStream_t stream, int warm_up, int repeats) {
  const std::pair<const char*, cusparseSpMMAlg_t> algorithms[] = {{"default", CUSPARSE_SPMM_ALG_DEFAULT},
                                                                  {"csr_alg1", CUSPARSE_SPMM_CSR_ALG1},
                                                                  {"csr_alg2", CUSPARSE_SPMM_CSR_ALG2},
                                                                  {"csr_alg3", CUSPARSE_SPMM_CSR_ALG3}};
  const float one = 1.0f, zero = 0.0f;
  const auto op = CUSPARSE_OPERATION_NON_TRANSPOSE;
  PeerResult best;
  for (const auto& [name, algorithm] : algorithms) {
    Descriptors d(graph, width, src, dst, num_buffers, stream);
    size_t bytes = 0;
    if (cusparseSpMM_bufferSize(d.handle, op, op, &one, d.a, d.b[0], &zero, d.c[0], CUDA_R_32F, algorithm, &bytes) !=
        CUSPARSE_STATUS_SUCCESS) {
      continue;
    }
    void* workspace = nullptr;
    bench::MustBeOk(cudaMalloc(&workspace, bytes + 16), "cuSPARSE's workspace");
    MustBeOk(
        cusparseSpMM_preprocess(d.handle, op, op, &one, d.a, d.b[0], &zero, d.c[0], CUDA_R_32F, algorithm, workspace),
        "cusparseSpMM_preprocess");
    const Timing timing = TimeLaunches(stream, warm_up, repeats, [&](int i) {
      const int at = i % num_buffers;
      MustBeOk(cusparseSpMM(d.handle, op, op, &one, d.a, d.b[at], &zero, d.c[at], CUDA_R_32F, algorithm, workspace),
               "cusparseSpMM");
    });
    cudaFree(workspace);
    if (best.algorithm.empty() || timing.median_us < best.timing.median_us) best = {name, timing};
  }
  return best;
}

}  // namespace vicinal::bench
