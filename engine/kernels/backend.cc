// SPDX-License-Identifier: Apache-2.0
// Opens a device backend and rejects libraries that were not built together with this engine: misreading the layout of
// a table would be worse than having no backend.
#include "engine/kernels/backend.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

std::string LastDlError() {
  const char* error = dlerror();
  return error != nullptr ? error : "unknown error of the dynamic loader";
}

// Empty if `table` can be used, otherwise the reason. Reads the version first, because it defines the other fields.
std::string Objection(const BackendTable* table) {
  if (table == nullptr) return "its entry symbol returned nothing";
  if (table->interface_version != kBackendInterfaceVersion) {
    return absl::StrCat("it has interface version ", table->interface_version, ", this engine has ",
                        kBackendInterfaceVersion, "; install the backend of the same release");
  }
  if (table->build_id == nullptr || std::strcmp(table->build_id, BackendBuildId()) != 0) {
    return absl::StrCat("it was built as '", table->build_id != nullptr ? table->build_id : "", "', this engine as '",
                        BackendBuildId(), "'; build both together");
  }
  if (table->name == nullptr || table->device_count == nullptr || table->open_device == nullptr ||
      table->register_kernels == nullptr) {
    return "its table has empty entries";
  }
  return {};
}

}  // namespace

const char* BackendBuildId() { return VICINAL_BUILD_ID; }

StatusOr<std::unique_ptr<Backend>> Backend::Load(const std::string& path) {
  // RTLD_NOW: an unresolved symbol is an error here, not a crash at the first launch.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return FailedPrecondition("BACKEND_NOT_LOADED", absl::StrCat("cannot load backend: ", LastDlError()));
  void* symbol = dlsym(library, kBackendEntrySymbol);
  if (symbol == nullptr) {
    const std::string error = LastDlError();
    dlclose(library);
    return FailedPrecondition("BACKEND_NOT_LOADED", absl::StrCat(path, " is not a backend: ", error));
  }
  const BackendTable* table = reinterpret_cast<const BackendTable* (*)()>(symbol)();
  const std::string objection = Objection(table);
  if (!objection.empty()) {
    // Its initialisers have run and may have started threads: it stays mapped, unused.
    return FailedPrecondition("BACKEND_REFUSED", absl::StrCat("backend ", path, " cannot be used: ", objection));
  }
  return std::unique_ptr<Backend>(new Backend(table));
}

}  // namespace vicinal
