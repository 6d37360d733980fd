// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/published/cusparse/detail/cusparse_library.h"

#include <dlfcn.h>

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::cuda {
namespace {

#define VICINAL_STRING_INNER(x) #x
#define VICINAL_STRING(x) VICINAL_STRING_INNER(x)
// The name contains the major version, on which the interface depends.
constexpr char kLibrary[] = "libcusparse.so." VICINAL_STRING(CUSPARSE_VER_MAJOR);

struct Loaded {
  CusparseLibrary library;
  std::string why;  // empty: loaded

  Loaded() {
    void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      why = absl::StrCat("cuSPARSE is not there: ", dlerror());
      return;
    }
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
      if (*function == nullptr && why.empty()) why = absl::StrCat(kLibrary, " has no ", name);
    };
    find("cusparseCreate", &library.Create);
    find("cusparseDestroy", &library.Destroy);
    find("cusparseSetStream", &library.SetStream);
    find("cusparseGetErrorString", &library.GetErrorString);
    find("cusparseCreateCsr", &library.CreateCsr);
    find("cusparseCreateDnMat", &library.CreateDnMat);
    find("cusparseDestroySpMat", &library.DestroySpMat);
    find("cusparseDestroyDnMat", &library.DestroyDnMat);
    find("cusparseSpMM_bufferSize", &library.SpMM_bufferSize);
    find("cusparseSpMM_preprocess", &library.SpMM_preprocess);
    find("cusparseSpMM", &library.SpMM);
  }
};

}  // namespace

const CusparseLibrary* CusparseLibrary::Get(std::string* why) {
  static const Loaded& loaded = *new Loaded();
  if (loaded.why.empty()) return &loaded.library;
  *why = loaded.why;
  return nullptr;
}

Status CusparseLibrary::StatusOf(cusparseStatus_t status, const char* what) const {
  if (status == CUSPARSE_STATUS_SUCCESS) return OkStatus();
  const std::string message = absl::StrCat(what, " failed: ", GetErrorString(status));
  if (status == CUSPARSE_STATUS_NOT_SUPPORTED) return FailedPrecondition("CUSPARSE_UNSUPPORTED", message);
  if (status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES) {
    return ResourceExhausted("OUT_OF_MEMORY", message, std::chrono::seconds(1));
  }
  return Internal(message);
}

}  // namespace vicinal::cuda
