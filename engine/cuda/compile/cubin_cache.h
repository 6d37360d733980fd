// SPDX-License-Identifier: Apache-2.0
// Compiled kernels in a directory, a file per key. A damaged file counts as missing and is removed, as anything in the
// directory can be made again. Several processes may share a directory. Host code; needs no GPU.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_CUBIN_CACHE_H_
#define VICINAL_ENGINE_CUDA_COMPILE_CUBIN_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "engine/cuda/compile/compile_request.h"

namespace vicinal::cuda {

// 128 bits of everything that a compiled kernel depends on: source, headers, options (the architecture among them) and
// the version of the compiler. 32 hexadecimal digits.
std::string KeyOf(const CompileRequest& request);

class CubinCache {
 public:
  // Empty: keeps nothing.
  explicit CubinCache(std::string directory) : directory_(std::move(directory)) {}

  std::optional<std::string> Load(const std::string& key) const;
  // Best effort: what cannot be kept is compiled again. False: it was not kept.
  bool Store(const std::string& key, const std::string& cubin) const;

 private:
  std::string PathOf(const std::string& key) const;

  const std::string directory_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_CUBIN_CACHE_H_
