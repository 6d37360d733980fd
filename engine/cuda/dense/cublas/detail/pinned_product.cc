// SPDX-License-Identifier: Apache-2.0
// cuBLASLt is column-major. To it, the packed weights [H, F] are an F x H matrix, the rows of src are columns of length
// F, and the rows of dst are columns of length H: dst^T = W * src^T, with the weights transposed.
#include "engine/cuda/dense/cublas/detail/pinned_product.h"

#include "engine/base/error.h"
#include "engine/cuda/common/alignment.h"

namespace vicinal::cuda {
namespace {

constexpr float kOne = 1.0f, kZero = 0.0f;
constexpr int kProposals = 16;

// A matrix as the library describes it. Owns the descriptor.
class Layout {
 public:
  Layout(const CublasLibrary& library, int64_t rows, int64_t cols, int64_t stride)
      : library_(library),
        status_(library.MatrixLayoutCreate(&layout_, CUDA_R_32F, static_cast<uint64_t>(rows),
                                           static_cast<uint64_t>(cols), stride)) {}
  ~Layout() {
    if (layout_ != nullptr) library_.MatrixLayoutDestroy(layout_);
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  Status status() const { return library_.StatusOf(status_, "cublasLtMatrixLayoutCreate"); }
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  const CublasLibrary& library_;
  cublasLtMatrixLayout_t layout_ = nullptr;
  const cublasStatus_t status_;
};

}  // namespace

PinnedProduct::~PinnedProduct() {
  if (product_ != nullptr) library_.MatmulDescDestroy(product_);
}

Status PinnedProduct::Describe(int64_t in_width, int64_t out_width, const GpuLimits& limits) {
  in_width_ = in_width, out_width_ = out_width;
  step_ = PanelStep(limits), heights_ = PanelHeights(in_width, limits);
  src_stride_ = PackedStride(in_width), dst_stride_ = PackedStride(out_width);
  VICINAL_RETURN_IF_ERROR(library_.StatusOf(
      library_.MatmulDescCreate(&product_, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F), "cublasLtMatmulDescCreate"));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  return library_.StatusOf(
      library_.MatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
      "cublasLtMatmulDescSetAttribute");
}

StatusOr<std::vector<cublasLtMatmulAlgo_t>> PinnedProduct::Proposals() const {
  const int64_t rows = heights_ * step_;
  const Layout a(library_, in_width_, out_width_, src_stride_), b(library_, in_width_, rows, src_stride_),
      d(library_, out_width_, rows, dst_stride_);
  for (const Layout* layout : {&a, &b, &d}) VICINAL_RETURN_IF_ERROR(layout->status());
  cublasLtMatmulPreference_t preference = nullptr;
  VICINAL_RETURN_IF_ERROR(library_.StatusOf(library_.PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = library_.PreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{0});
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(alignment, uint32_t{kPackBytes});
  }
  cublasLtMatmulHeuristicResult_t results[kProposals];
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = library_.AlgoGetHeuristic(handle_, product_, a.get(), b.get(), d.get(), d.get(), preference, kProposals,
                                       results, &count);
  }
  library_.PreferenceDestroy(preference);
  VICINAL_RETURN_IF_ERROR(library_.StatusOf(status, "cublasLtMatmulAlgoGetHeuristic"));
  std::vector<cublasLtMatmulAlgo_t> proposals;
  for (int i = 0; i < count; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize == 0)
      proposals.push_back(results[i].algo);
  }
  return proposals;
}

std::vector<int64_t> PinnedProduct::ConfigurationOf(const cublasLtMatmulAlgo_t& algorithm) const {
  std::vector<int64_t> configuration;
  // Values have 32 bits, the last two 16: bits that are not written stay zero.
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, size_t bytes) {
    uint32_t value = 0;
    size_t written = 0;
    library_.AlgoConfigGetAttribute(&algorithm, attribute, &value, bytes, &written);
    configuration.push_back(value);
    return value;
  };
  get(CUBLASLT_ALGO_CONFIG_ID, 4);
  get(CUBLASLT_ALGO_CONFIG_TILE_ID, 4);
  get(CUBLASLT_ALGO_CONFIG_STAGES_ID, 4);
  if (get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4) > 1) return {};
  if (get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4) != CUBLASLT_REDUCTION_SCHEME_NONE) return {};
  get(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4);
  get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4);
  get(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2);
  get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2);
  return configuration;
}

Status PinnedProduct::Multiply(int height, const float* src, int64_t src_stride, const float* weight, float* dst,
                               int64_t dst_stride, cudaStream_t stream) const {
  const int64_t rows = height * step_;
  const Layout a(library_, in_width_, out_width_, src_stride_), b(library_, in_width_, rows, src_stride),
      d(library_, out_width_, rows, dst_stride);
  for (const Layout* layout : {&a, &b, &d}) VICINAL_RETURN_IF_ERROR(layout->status());
  return library_.StatusOf(library_.Matmul(handle_, product_, &kOne, weight, a.get(), src, b.get(), &kZero, dst,
                                           d.get(), dst, d.get(), &algorithm_, nullptr, 0, stream),
                           "cublasLtMatmul");
}

}  // namespace vicinal::cuda
