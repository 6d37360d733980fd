// SPDX-License-Identifier: Apache-2.0
// Compiled kernels in a directory, a file per key. A damaged file counts as missing and is removed, as anything in the
// directory can be made again; so are those that were not read or written for longest, beyond a limit of bytes. Several
// processes may share a directory. Host code; needs no GPU.
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

// Of all files of a directory.
inline constexpr int64_t kMostCubinBytes = int64_t{128} << 20;

class CubinCache {
 public:
  // Empty: keeps nothing.
  explicit CubinCache(std::string directory, int64_t most_bytes = kMostCubinBytes)
      : directory_(std::move(directory)), most_bytes_(most_bytes) {}

  std::optional<std::string> Load(const std::string& key) const;
  // Best effort: what cannot be kept is compiled again. False: it was not kept.
  bool Store(const std::string& key, const std::string& cubin) const;

 private:
  std::string PathOf(const std::string& key) const;
  // Removes the files that were used longest ago, while there are more bytes than allowed.
  void Sweep() const;

  const std::string directory_;
  const int64_t most_bytes_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_CUBIN_CACHE_H_
