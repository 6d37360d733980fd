// SPDX-License-Identifier: Apache-2.0
// What kernels are run on, the CPU or the first device of a backend, and arrays and matrices with a half on the host
// and one on the device. Nothing here knows which device it is.
#ifndef VICINAL_TESTS_CONFORMANCE_MACHINE_H_
#define VICINAL_TESTS_CONFORMANCE_MACHINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/device/device_limits.h"
#include "engine/device/views.h"
#include "engine/kernels/backend.h"
#include "engine/kernels/registry.h"

namespace vicinal::conformance {

// Everything a case runs with. Errors of the device end the program: no case after one means anything. Used by one
// thread.
class Machine {
 public:
  // The CPU, with contexts of 1, 2 and 3 threads. VICINAL_TEST_TARGET=AVX2 (SSE4, SCALAR) makes its kernels believe
  // that the processor has nothing better.
  static std::unique_ptr<Machine> Cpu();
  // The first device of a backend's library, used as if it had no more than `limits`; null where the backend has none.
  static std::unique_ptr<Machine> OfBackend(const std::string& library, const DeviceLimits& limits);

  bool is_cpu() const { return backend == nullptr; }
  // Whether kernels only launch there, as on a GPU: work is recorded, and memory is the device's own.
  bool launches_only() const { return context->launches_only(); }
  // A context to run in, and how many threads it has. On the CPU another number of threads each time, so that a case
  // that is run twice also tells whether bits depend on it.
  struct Turn {
    DeviceContext& context;
    int threads;
  };
  Turn NextTurn();

  std::unique_ptr<Backend> backend;
  KernelRegistry registry;
  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceContext> context;

 private:
  struct Threaded {
    std::unique_ptr<Device> device;
    std::unique_ptr<DeviceContext> context;
  };
  std::vector<Threaded> more_threads_;  // the CPU with 2 threads and with 3
  size_t turn_ = 0;
};

// Prints and exits with 1 when `status` is not OK.
void MustBeOk(const Status& status, const std::string& what);

// A vector and its copy on the device.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(Device& device, const std::vector<T>& host) {
    auto buffer = device.Allocate(host.size() * sizeof(T));
    MustBeOk(buffer.status(), "allocate");
    buffer_ = *std::move(buffer);
    MustBeOk(device.CopyFromHost(buffer_.data(), host.data(), host.size() * sizeof(T)), "copy to the device");
  }
  T* data() const { return buffer_.as<T>(); }
  std::vector<T> Download(Device& device) const {
    std::vector<T> host(buffer_.bytes() / sizeof(T));
    MustBeOk(device.CopyToHost(host.data(), buffer_.data(), buffer_.bytes()), "copy from the device");
    return host;
  }

 private:
  Buffer buffer_;
};

// How a matrix lies in its array: `offset` floats before the first row, `padding` floats after each.
struct MatrixLayout {
  int64_t offset = 0;
  int64_t padding = 0;
};

// A matrix on the host, [rows, cols], and where its floats lie on the device.
struct HostMatrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> values;  // [rows * cols]

  float at(int64_t row, int64_t col) const { return values[row * cols + col]; }
};

class DeviceMatrix {
 public:
  // Floats outside the matrix hold `outside`.
  DeviceMatrix(Device& device, const HostMatrix& host, const MatrixLayout& layout, float outside);
  MatrixView view() const;
  HostMatrix Download(Device& device) const;
  // Whether all floats outside the matrix still hold what they did.
  bool OutsideUntouched(Device& device) const;

 private:
  int64_t rows_, cols_, stride_, offset_;
  float outside_;
  DeviceArray<float> array_;
};

// Uniform in [-1, 1], the same for the same seed everywhere.
HostMatrix RandomMatrix(int64_t rows, int64_t cols, uint64_t seed);
// Makes every fifth row NaN in every third column: some rows that read them meet one first, some last, some none.
void PutNans(HostMatrix* matrix);
HostMatrix FilledMatrix(int64_t rows, int64_t cols, float value);
std::vector<float> RandomVector(int64_t size, uint64_t seed);

// A graph on the host, rows = targets, and its copy on the device.
struct HostGraph {
  std::string name;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<int64_t> row_ptr;
  std::vector<int32_t> col;
  std::vector<float> value;  // always filled; used where a case is weighted
  // Borders of rows that belong together, for kernels that ask (LayoutSource::blocks); empty: none are known.
  std::vector<int64_t> blocks = {};

  int64_t edges() const { return static_cast<int64_t>(col.size()); }
};

class DeviceGraph {
 public:
  DeviceGraph(Device& device, const HostGraph& host);
  CsrView view(bool weighted) const;

 private:
  int64_t rows_, cols_, edges_;
  DeviceArray<int64_t> row_ptr_;
  DeviceArray<int32_t> col_;
  DeviceArray<float> value_;
};

// Scratch for one run, poisoned: kernels may not rely on what it holds. Behind it lie bytes that they must leave alone.
class Scratch {
 public:
  Scratch(Device& device, size_t bytes);
  void* data() const { return array_.data(); }
  // Whether nothing was written behind the bytes that were asked for.
  bool EndUntouched(Device& device) const;

 private:
  size_t bytes_;
  DeviceArray<uint8_t> array_;
};

}  // namespace vicinal::conformance

#endif  // VICINAL_TESTS_CONFORMANCE_MACHINE_H_
