// SPDX-License-Identifier: Apache-2.0
// vicinal-kernel-compiler: the child process of a server that compiles a kernel with NVRTC. It reads a request from
// standard input and writes a reply to standard output (compile_request.h). NVRTC is opened by name and may be missing.
// Arguments: bytes of address space and seconds of processor time, beyond which the kernel ends this process. It dies
// with its parent.
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cuda/compile/compile_request.h"

namespace vicinal::cuda {
namespace {

// NVRTC's interface, as far as it is used; none of its headers is needed.
struct Program;
struct Nvrtc {
  int (*version)(int*, int*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*create)(Program**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program*, int, const char* const*) = nullptr;
  int (*log_size)(Program*, size_t*) = nullptr;
  int (*log)(Program*, char*) = nullptr;
  int (*cubin_size)(Program*, size_t*) = nullptr;
  int (*cubin)(Program*, char*) = nullptr;
};

template <class F>
bool Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

// Why not; empty: `nvrtc` is complete.
std::string Open(int major, int minor, Nvrtc* nvrtc) {
  // NVRTC opens its built-in functions by name, and finds those that are open already.
  void* library = nullptr;
  for (const std::string folder : {"", "/usr/local/cuda/lib64/"}) {
    const std::string version = std::to_string(major);
    dlopen((folder + "libnvrtc-builtins.so." + version + "." + std::to_string(minor)).c_str(), RTLD_NOW);
    if (library == nullptr) library = dlopen((folder + "libnvrtc.so." + version).c_str(), RTLD_NOW);
  }
  if (library == nullptr) return "NVRTC is not installed (libnvrtc.so." + std::to_string(major) + ")";
  const bool complete =
      Find(library, "nvrtcVersion", &nvrtc->version) && Find(library, "nvrtcGetErrorString", &nvrtc->error_text) &&
      Find(library, "nvrtcCreateProgram", &nvrtc->create) && Find(library, "nvrtcCompileProgram", &nvrtc->compile) &&
      Find(library, "nvrtcGetProgramLogSize", &nvrtc->log_size) && Find(library, "nvrtcGetProgramLog", &nvrtc->log) &&
      Find(library, "nvrtcGetCUBINSize", &nvrtc->cubin_size) && Find(library, "nvrtcGetCUBIN", &nvrtc->cubin);
  return complete ? "" : "NVRTC lacks a function that is needed";
}

std::string LogOf(const Nvrtc& nvrtc, Program* program) {
  size_t size = 0;
  if (nvrtc.log_size(program, &size) != 0 || size == 0) return {};
  std::string log(size, '\0');
  nvrtc.log(program, log.data());
  constexpr size_t kLongest = 2000;
  return log.substr(0, kLongest);
}

CompileReply Compile(const CompileRequest& request) {
  CompileReply reply;
  Nvrtc nvrtc;
  reply.error = Open(request.version / 1000, request.version % 1000 / 10, &nvrtc);
  if (!reply.error.empty()) return reply;
  int major = 0, minor = 0;
  nvrtc.version(&major, &minor);
  if (major * 1000 + minor * 10 != request.version) {
    reply.error = "NVRTC is version " + std::to_string(major) + "." + std::to_string(minor) + ", this build needs " +
                  std::to_string(request.version / 1000) + "." + std::to_string(request.version % 1000 / 10) +
                  " for equal bits";
    return reply;
  }
  std::vector<const char*> names, texts, options;
  for (const auto& [name, text] : request.headers) names.push_back(name.c_str()), texts.push_back(text.c_str());
  for (const std::string& option : request.options) options.push_back(option.c_str());
  Program* program = nullptr;
  int status = nvrtc.create(&program, request.source.c_str(), "expression.cu", static_cast<int>(names.size()),
                            texts.data(), names.data());
  if (status == 0) status = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  size_t size = 0;
  if (status == 0) status = nvrtc.cubin_size(program, &size);
  if (status == 0) reply.cubin.resize(size);
  if (status == 0) status = nvrtc.cubin(program, reply.cubin.data());
  if (status == 0) return reply;
  reply.cubin.clear();
  reply.error = std::string(nvrtc.error_text(status)) + (program != nullptr ? ": " + LogOf(nvrtc, program) : "");
  return reply;
}

void Limit(int resource, const char* text) {
  const rlim_t most = std::strtoull(text, nullptr, 10);
  const rlimit limit = {most, most};
  if (most == 0 || setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) std::exit(3);
}

std::string ReadAll() {
  std::string all;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count <= 0) return all;
    all.append(buffer, static_cast<size_t>(count));
  }
}

int Main(int argc, char** argv) {
  if (argc != 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_range(STDERR_FILENO + 1, ~0u, 0);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  Limit(RLIMIT_AS, argv[1]);
  Limit(RLIMIT_CPU, argv[2]);
  CompileRequest request;
  if (!request.Decode(ReadAll())) return 2;
  const std::string reply = Compile(request).Encode();
  for (size_t sent = 0; sent < reply.size();) {
    const ssize_t count = write(STDOUT_FILENO, reply.data() + sent, reply.size() - sent);
    if (count <= 0) return 3;
    sent += static_cast<size_t>(count);
  }
  return 0;
}

}  // namespace
}  // namespace vicinal::cuda

int main(int argc, char** argv) { return vicinal::cuda::Main(argc, argv); }
