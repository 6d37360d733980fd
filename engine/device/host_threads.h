// SPDX-License-Identifier: Apache-2.0
// The threads of the host's part of work on a device.
#ifndef VICINAL_ENGINE_DEVICE_HOST_THREADS_H_
#define VICINAL_ENGINE_DEVICE_HOST_THREADS_H_

#include <memory>

#include "engine/base/thread_pool.h"
#include "engine/device/device.h"

namespace vicinal {

// Those of a CPU's context, which must outlive the object; as many of its own for a context without threads.
class HostThreads {
 public:
  explicit HostThreads(DeviceContext& context)
      : own_(MakeHostPool(context)), pool_(own_ != nullptr ? own_.get() : context.thread_pool()) {}

  ThreadPool* pool() const { return pool_; }

 private:
  std::unique_ptr<ThreadPool> own_;
  ThreadPool* pool_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_HOST_THREADS_H_
