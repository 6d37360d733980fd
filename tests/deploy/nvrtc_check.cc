// SPDX-License-Identifier: Apache-2.0
// Compiles a kernel with the NVRTC at the path that is given; needs no GPU. image_test.py runs it inside the image
// cuda-full, whose dynamic linker has no cache of this machine's libraries. Exit status 1, with the compiler's words:
// it did not compile.

#include <dlfcn.h>

#include <cstdio>
#include <vector>

namespace {

using Program = void*;

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: nvrtc_check LIBNVRTC\n", stderr);
    return 2;
  }
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  auto* create = Find<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>(
      library, "nvrtcCreateProgram");
  auto* compile = Find<int(Program, int, const char* const*)>(library, "nvrtcCompileProgram");
  auto* log_size = Find<int(Program, size_t*)>(library, "nvrtcGetProgramLogSize");
  auto* log = Find<int(Program, char*)>(library, "nvrtcGetProgramLog");
  auto* machine_code_size = Find<int(Program, size_t*)>(library, "nvrtcGetCUBINSize");

  Program program = nullptr;
  const char* source =
      "extern \"C\" __global__ void Twice(float* x) { x[threadIdx.x] = 2.0f * __expf(x[threadIdx.x]); }";
  create(&program, source, "twice.cu", 0, nullptr, nullptr);
  const char* options[] = {"--gpu-architecture=sm_90"};
  const int failed = compile(program, 1, options);
  size_t size = 0;
  log_size(program, &size);
  std::vector<char> text(size + 1);
  log(program, text.data());
  size = 0;
  machine_code_size(program, &size);
  std::printf("status %d, %zu bytes of machine code %s\n", failed, size, text.data());
  return failed != 0 || size == 0 ? 1 : 0;
}
