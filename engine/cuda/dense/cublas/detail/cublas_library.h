// SPDX-License-Identifier: Apache-2.0
// NVIDIA's cuBLASLt, loaded on first use, so that the backend works on machines that have only the driver.
#ifndef VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_CUBLAS_LIBRARY_H_
#define VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_CUBLAS_LIBRARY_H_

#include <cublasLt.h>

#include <string>

#include "engine/base/status.h"

namespace vicinal::cuda {

struct CublasLibrary {
  decltype(&::cublasLtCreate) Create = nullptr;
  decltype(&::cublasLtGetVersion) GetVersion = nullptr;
  decltype(&::cublasLtGetStatusString) GetStatusString = nullptr;
  decltype(&::cublasLtMatmul) Matmul = nullptr;
  decltype(&::cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) PreferenceCreate = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) PreferenceDestroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) PreferenceSetAttribute = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) AlgoGetHeuristic = nullptr;
  decltype(&::cublasLtMatmulAlgoConfigGetAttribute) AlgoConfigGetAttribute = nullptr;

  // The library, loaded by the first call and never unloaded. Null if it cannot be loaded; *why then gives the reason.
  static const CublasLibrary* Get(std::string* why);
  // RESOURCE_EXHAUSTED if memory is short.
  Status StatusOf(cublasStatus_t status, const char* what) const;
  // A handle on the current device. It is never destroyed: that would call CUDA after the device is gone.
  StatusOr<cublasLtHandle_t> MakeHandle() const;
};

// The library, with a handle.
struct LoadedCublas {
  const CublasLibrary* library;
  cublasLtHandle_t handle;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_CUBLAS_LIBRARY_H_
