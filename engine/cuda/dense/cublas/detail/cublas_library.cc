// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/dense/cublas/detail/cublas_library.h"

#include <dlfcn.h>

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::cuda {
namespace {

#define VICINAL_STRING_INNER(x) #x
#define VICINAL_STRING(x) VICINAL_STRING_INNER(x)
// The name contains the major version, on which the interface depends.
constexpr char kLibrary[] = "libcublasLt.so." VICINAL_STRING(CUBLAS_VER_MAJOR);

struct Loaded {
  CublasLibrary library;
  std::string why;  // empty: loaded

  Loaded() {
    void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      why = absl::StrCat("cuBLAS is not there: ", dlerror());
      return;
    }
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
      if (*function == nullptr && why.empty()) why = absl::StrCat(kLibrary, " has no ", name);
    };
    find("cublasLtCreate", &library.Create);
    find("cublasLtGetVersion", &library.GetVersion);
    find("cublasLtGetStatusString", &library.GetStatusString);
    find("cublasLtMatmul", &library.Matmul);
    find("cublasLtMatmulDescCreate", &library.MatmulDescCreate);
    find("cublasLtMatmulDescSetAttribute", &library.MatmulDescSetAttribute);
    find("cublasLtMatmulDescDestroy", &library.MatmulDescDestroy);
    find("cublasLtMatrixLayoutCreate", &library.MatrixLayoutCreate);
    find("cublasLtMatrixLayoutDestroy", &library.MatrixLayoutDestroy);
    find("cublasLtMatmulPreferenceCreate", &library.PreferenceCreate);
    find("cublasLtMatmulPreferenceDestroy", &library.PreferenceDestroy);
    find("cublasLtMatmulPreferenceSetAttribute", &library.PreferenceSetAttribute);
    find("cublasLtMatmulAlgoGetHeuristic", &library.AlgoGetHeuristic);
    find("cublasLtMatmulAlgoConfigGetAttribute", &library.AlgoConfigGetAttribute);
  }
};

}  // namespace

const CublasLibrary* CublasLibrary::Get(std::string* why) {
  static const Loaded& loaded = *new Loaded();
  if (loaded.why.empty()) return &loaded.library;
  *why = loaded.why;
  return nullptr;
}

Status CublasLibrary::StatusOf(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return OkStatus();
  const std::string message = absl::StrCat(what, " failed: ", GetStatusString(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return FailedPrecondition("CUBLAS_UNSUPPORTED", message);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return ResourceExhausted("OUT_OF_MEMORY", message, std::chrono::seconds(1));
  return Internal(message);
}

StatusOr<cublasLtHandle_t> CublasLibrary::MakeHandle() const {
  cublasLtHandle_t handle = nullptr;
  VICINAL_RETURN_IF_ERROR(StatusOf(Create(&handle), "cublasLtCreate"));
  return handle;
}

}  // namespace vicinal::cuda
