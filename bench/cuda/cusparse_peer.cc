// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/cusparse_peer.h"

#include <cusparse.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace vicinal::bench {
namespace {

constexpr auto kPlain = CUSPARSE_OPERATION_NON_TRANSPOSE, kTransposed = CUSPARSE_OPERATION_TRANSPOSE;
constexpr float kOne = 1.0f, kZero = 0.0f;
// An algorithm that is slower than the fastest by this factor in its first runs is not run again.
constexpr double kEarlyStopRatio = 1.3;

void MustBeOk(cusparseStatus_t status, const char* what) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, cusparseGetErrorString(status));
  std::exit(1);
}

cudaDataType TypeOf(Storage storage) {
  return storage == Storage::kBfloat16 ? CUDA_R_16BF : storage == Storage::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

// Handle and matrices, freed at the end.
class Descriptors {
 public:
  Descriptors(const PeerMatrix& matrix, void* value, Storage storage, cudaStream_t stream) {
    MustBeOk(cusparseCreate(&handle_), "cusparseCreate");
    MustBeOk(cusparseSetStream(handle_, stream), "cusparseSetStream");
    MustBeOk(cusparseCreateCsr(&sparse_, matrix.nodes, matrix.nodes, matrix.edges, matrix.row_ptr, matrix.col, value,
                               CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, TypeOf(storage)),
             "cusparseCreateCsr");
  }
  ~Descriptors() {
    for (cusparseDnMatDescr_t matrix : dense_) cusparseDestroyDnMat(matrix);
    cusparseDestroySpMat(sparse_);
    cusparseDestroy(handle_);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  cusparseHandle_t handle() const { return handle_; }
  cusparseSpMatDescr_t sparse() const { return sparse_; }
  cusparseDnMatDescr_t Dense(int64_t rows, int64_t width, void* data, Storage storage) {
    MustBeOk(cusparseCreateDnMat(&dense_.emplace_back(), rows, width, width, data, TypeOf(storage), CUSPARSE_ORDER_ROW),
             "cusparseCreateDnMat");
    return dense_.back();
  }

 private:
  cusparseHandle_t handle_ = nullptr;
  cusparseSpMatDescr_t sparse_ = nullptr;
  std::vector<cusparseDnMatDescr_t> dense_;
};

struct CudaFree {
  void operator()(void* data) const { cudaFree(data); }
};
using Workspace = std::unique_ptr<void, CudaFree>;

Workspace MakeWorkspace(size_t bytes) {
  void* data = nullptr;
  bench::MustBeOk(cudaMalloc(&data, bytes + 16), "cuSPARSE's workspace");
  return Workspace(data);
}

// One algorithm, ready to run; null when it does not take the problem.
struct Prepared {
  std::string name;
  std::shared_ptr<void> keeps;  // what `launch` needs
  Launcher launch;
};

struct SpmmState {
  SpmmState(const SpmmPeer& peer, cudaStream_t stream) : descriptors(peer.matrix, peer.value, peer.storage, stream) {
    for (int set = 0; set < kSets; ++set) {
      b[set] = descriptors.Dense(peer.matrix.nodes, peer.width, peer.src[set], peer.storage);
      c[set] = descriptors.Dense(peer.matrix.nodes, peer.width, peer.result[set], peer.result_storage);
    }
  }
  Descriptors descriptors;
  cusparseDnMatDescr_t b[kSets], c[kSets];
  Workspace workspace;
};

bool Prepare(const SpmmPeer& peer, cudaStream_t stream, cusparseSpMMAlg_t algorithm, Prepared* prepared) {
  auto state = std::make_shared<SpmmState>(peer, stream);
  const Descriptors& d = state->descriptors;
  size_t bytes = 0;
  if (cusparseSpMM_bufferSize(d.handle(), kPlain, kPlain, &kOne, d.sparse(), state->b[0], &kZero, state->c[0],
                              CUDA_R_32F, algorithm, &bytes) != CUSPARSE_STATUS_SUCCESS) {
    return false;
  }
  state->workspace = MakeWorkspace(bytes);
  if (cusparseSpMM_preprocess(d.handle(), kPlain, kPlain, &kOne, d.sparse(), state->b[0], &kZero, state->c[0],
                              CUDA_R_32F, algorithm, state->workspace.get()) != CUSPARSE_STATUS_SUCCESS) {
    return false;
  }
  prepared->keeps = state;
  prepared->launch = [state = state.get(), algorithm](int i) {
    const int set = i % kSets;
    MustBeOk(cusparseSpMM(state->descriptors.handle(), kPlain, kPlain, &kOne, state->descriptors.sparse(),
                          state->b[set], &kZero, state->c[set], CUDA_R_32F, algorithm, state->workspace.get()),
             "cusparseSpMM");
  };
  return true;
}

struct SddmmState {
  // One sparse matrix a set: its values are the result.
  SddmmState(const SddmmPeer& peer, cudaStream_t stream) {
    for (int set = 0; set < kSets; ++set) {
      descriptors[set] = std::make_unique<Descriptors>(peer.matrix, peer.result[set], Storage::kFloat32, stream);
      a[set] = descriptors[set]->Dense(peer.matrix.nodes, peer.width, peer.target[set], Storage::kFloat32);
      b[set] = descriptors[set]->Dense(peer.matrix.nodes, peer.width, peer.src[set], Storage::kFloat32);
    }
  }
  std::unique_ptr<Descriptors> descriptors[kSets];
  cusparseDnMatDescr_t a[kSets], b[kSets];
  Workspace workspace[kSets];
};

bool Prepare(const SddmmPeer& peer, cudaStream_t stream, Prepared* prepared) {
  auto state = std::make_shared<SddmmState>(peer, stream);
  for (int set = 0; set < kSets; ++set) {
    const Descriptors& d = *state->descriptors[set];
    size_t bytes = 0;
    if (cusparseSDDMM_bufferSize(d.handle(), kPlain, kTransposed, &kOne, state->a[set], state->b[set], &kZero,
                                 d.sparse(), CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT,
                                 &bytes) != CUSPARSE_STATUS_SUCCESS) {
      return false;
    }
    state->workspace[set] = MakeWorkspace(bytes);
    if (cusparseSDDMM_preprocess(d.handle(), kPlain, kTransposed, &kOne, state->a[set], state->b[set], &kZero,
                                 d.sparse(), CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT,
                                 state->workspace[set].get()) != CUSPARSE_STATUS_SUCCESS) {
      return false;
    }
  }
  prepared->keeps = state;
  prepared->launch = [state = state.get()](int i) {
    const int set = i % kSets;
    const Descriptors& d = *state->descriptors[set];
    MustBeOk(cusparseSDDMM(d.handle(), kPlain, kTransposed, &kOne, state->a[set], state->b[set], &kZero, d.sparse(),
                           CUDA_R_32F, CUSPARSE_SDDMM_ALG_DEFAULT, state->workspace[set].get()),
             "cusparseSDDMM");
  };
  return true;
}

std::vector<PeerRun> Time(const std::vector<Prepared>& prepared, cudaStream_t stream, double budget_us,
                          const std::function<bool()>& is_right) {
  std::vector<PeerRun> runs;
  for (const Prepared& one : prepared) {
    const Timing first = TimeOnce(stream, one.launch);
    const bool right = is_right();
    const PeerRun* const best = Fastest(runs);
    runs.push_back(
        {one.name, TimeBriefly(stream, one.launch, first, best == nullptr ? 0.0 : best->timing.median_us), right});
  }
  const PeerRun* const fastest = Fastest(runs);
  if (fastest == nullptr) return runs;
  const double limit = kEarlyStopRatio * fastest->timing.median_us;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].right || runs[i].timing.median_us > limit) continue;
    runs[i].timing = TimeFully(stream, prepared[i].launch, runs[i].timing, budget_us);
  }
  return runs;
}

}  // namespace

std::vector<PeerRun> TimeCusparse(const SpmmPeer& peer, cudaStream_t stream, double budget_us,
                                  const std::function<bool()>& is_right) {
  constexpr std::pair<const char*, cusparseSpMMAlg_t> kAlgorithms[] = {{"default", CUSPARSE_SPMM_ALG_DEFAULT},
                                                                       {"csr_alg1", CUSPARSE_SPMM_CSR_ALG1},
                                                                       {"csr_alg2", CUSPARSE_SPMM_CSR_ALG2},
                                                                       {"csr_alg3", CUSPARSE_SPMM_CSR_ALG3}};
  std::vector<Prepared> prepared;
  for (const auto& [name, algorithm] : kAlgorithms) {
    Prepared one;
    one.name = name;
    if (Prepare(peer, stream, algorithm, &one)) prepared.push_back(std::move(one));
  }
  return Time(prepared, stream, budget_us, is_right);
}

std::vector<PeerRun> TimeCusparse(const SddmmPeer& peer, cudaStream_t stream, double budget_us,
                                  const std::function<bool()>& is_right) {
  std::vector<Prepared> prepared(1);
  prepared[0].name = "sddmm";
  if (!Prepare(peer, stream, &prepared[0])) return {};
  return Time(prepared, stream, budget_us, is_right);
}

const PeerRun* Fastest(const std::vector<PeerRun>& runs) {
  const PeerRun* fastest = nullptr;
  for (const PeerRun& run : runs) {
    if (run.right && (fastest == nullptr || run.timing.median_us < fastest->timing.median_us)) fastest = &run;
  }
  return fastest;
}

}  // namespace vicinal::bench
