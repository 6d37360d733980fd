// SPDX-License-Identifier: Apache-2.0
// What a kernel must do on the device before it can say whether it supports a problem, in parts that fit between
// requests. The kernel remembers the answer for the whole process. Until then it remembers nothing: a preparation that
// fails or is given up leaves no trace, and the next one begins anew.
#ifndef VICINAL_ENGINE_KERNELS_KERNEL_PREPARATION_H_
#define VICINAL_ENGINE_KERNELS_KERNEL_PREPARATION_H_

#include <cstdint>

#include "engine/base/status.h"

namespace vicinal {

// Used by one thread at a time. Frees what it holds when it is destroyed.
class KernelPreparation {
 public:
  // kLoad, kRun: the call that is due. kDone: WhyUnsupported answers without using the device.
  enum class Part { kLoad, kRun, kDone };

  virtual ~KernelPreparation() = default;
  // Upper bound of the bytes on the device that it holds from its first Load on.
  virtual int64_t bytes() const = 0;
  virtual Part next() const = 0;
  // Loads what the next Run needs: libraries, code, memory. May take long, but runs nothing on the device, so it may be
  // called while requests run. The Run after a Load is the first run of that code.
  // REQUIRES: next() is kLoad. An error ends the preparation.
  virtual Status Load() = 0;
  // One unit of work on the device, of a few milliseconds at most, and waits for its end. REQUIRES: next() is kRun. An
  // error ends the preparation; a refusal of the problem is an answer, and no error.
  virtual Status Run() = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_KERNEL_PREPARATION_H_
