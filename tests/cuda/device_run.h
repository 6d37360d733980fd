// SPDX-License-Identifier: Apache-2.0
// The test's side of the device: the loaded backend with one context, and arrays and matrices with a host and a device
// half.
#ifndef VICINAL_TESTS_CUDA_DEVICE_RUN_H_
#define VICINAL_TESTS_CUDA_DEVICE_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/device/views.h"
#include "engine/kernels/backend.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda_test {

// Everything a case runs with. Errors of the device end the program: no case after one means anything.
struct Gpu {
  std::unique_ptr<Backend> backend;
  KernelRegistry registry;
  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceContext> context;
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

// Scratch for one run, poisoned: kernels may not rely on what it holds.
DeviceArray<float> Scratch(Device& device, size_t bytes);

}  // namespace vicinal::cuda_test

#endif  // VICINAL_TESTS_CUDA_DEVICE_RUN_H_
