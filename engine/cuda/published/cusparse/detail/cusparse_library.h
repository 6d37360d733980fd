// SPDX-License-Identifier: Apache-2.0
// NVIDIA's cuSPARSE, loaded on first use, so that the backend works on machines that have only the driver.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_CUSPARSE_DETAIL_CUSPARSE_LIBRARY_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_CUSPARSE_DETAIL_CUSPARSE_LIBRARY_H_

#include <cusparse.h>

#include <string>

#include "engine/base/status.h"

namespace vicinal::cuda {

struct CusparseLibrary {
  decltype(&::cusparseCreate) Create = nullptr;
  decltype(&::cusparseDestroy) Destroy = nullptr;
  decltype(&::cusparseSetStream) SetStream = nullptr;
  decltype(&::cusparseGetErrorString) GetErrorString = nullptr;
  decltype(&::cusparseCreateCsr) CreateCsr = nullptr;
  decltype(&::cusparseCreateDnMat) CreateDnMat = nullptr;
  decltype(&::cusparseDestroySpMat) DestroySpMat = nullptr;
  decltype(&::cusparseDestroyDnMat) DestroyDnMat = nullptr;
  decltype(&::cusparseSpMM_bufferSize) SpMM_bufferSize = nullptr;
  decltype(&::cusparseSpMM_preprocess) SpMM_preprocess = nullptr;
  decltype(&::cusparseSpMM) SpMM = nullptr;

  // The library, loaded by the first call and never unloaded. Null if it cannot be loaded; *why then gives the reason.
  static const CusparseLibrary* Get(std::string* why);
  Status StatusOf(cusparseStatus_t status, const char* what) const;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_CUSPARSE_DETAIL_CUSPARSE_LIBRARY_H_
