// SPDX-License-Identifier: Apache-2.0
// Upper bounds of what kernels may use of a GPU, so that one GPU can stand in for a smaller one: conformance runs with
// the limits of others, and launches that exceed them fail. Plain data.
#ifndef VICINAL_ENGINE_DEVICE_DEVICE_LIMITS_H_
#define VICINAL_ENGINE_DEVICE_DEVICE_LIMITS_H_

namespace vicinal {

// 0: what the device has.
struct DeviceLimits {
  int capability = 0;                   // compute capability, 10 * major + minor: 75 for 7.5
  int block_shared_bytes = 0;           // shared memory of a block
  int multiprocessor_shared_bytes = 0;  // of all blocks of a multiprocessor, including what the system takes of each
  int multiprocessor_threads = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_DEVICE_LIMITS_H_
