// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/device_run.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "tests/split_mix.h"

namespace vicinal::cuda_test {
namespace {

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0; }

}  // namespace

void MustBeOk(const Status& status, const std::string& what) {
  if (status.ok()) return;
  std::printf("FATAL: %s: %s\n", what.c_str(), std::string(status.message()).c_str());
  std::exit(1);
}

DeviceMatrix::DeviceMatrix(Device& device, const HostMatrix& host, const MatrixLayout& layout, float outside)
    : rows_(host.rows),
      cols_(host.cols),
      stride_(host.cols + layout.padding),
      offset_(layout.offset),
      outside_(outside) {
  std::vector<float> storage(offset_ + rows_ * stride_ + 16, outside);
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < cols_; ++c) storage[offset_ + r * stride_ + c] = host.at(r, c);
  }
  array_ = DeviceArray<float>(device, storage);
}

MatrixView DeviceMatrix::view() const { return {array_.data() + offset_, rows_, cols_, stride_}; }

HostMatrix DeviceMatrix::Download(Device& device) const {
  const std::vector<float> storage = array_.Download(device);
  HostMatrix host{rows_, cols_, std::vector<float>(rows_ * cols_)};
  for (int64_t r = 0; r < rows_; ++r) {
    for (int64_t c = 0; c < cols_; ++c) host.values[r * cols_ + c] = storage[offset_ + r * stride_ + c];
  }
  return host;
}

bool DeviceMatrix::OutsideUntouched(Device& device) const {
  const std::vector<float> storage = array_.Download(device);
  for (int64_t i = 0; i < static_cast<int64_t>(storage.size()); ++i) {
    const int64_t at = i - offset_;
    const bool inside = at >= 0 && at < rows_ * stride_ && at % stride_ < cols_;
    if (!inside && !SameBits(storage[i], outside_)) return false;
  }
  return true;
}

HostMatrix RandomMatrix(int64_t rows, int64_t cols, uint64_t seed) {
  return {rows, cols, RandomVector(rows * cols, seed)};
}

HostMatrix FilledMatrix(int64_t rows, int64_t cols, float value) {
  return {rows, cols, std::vector<float>(rows * cols, value)};
}

void PutNans(HostMatrix* matrix) {
  for (int64_t row = 2; row < matrix->rows; row += 5) {
    for (int64_t col = row % 3; col < matrix->cols; col += 3) matrix->values[row * matrix->cols + col] = std::nanf("");
  }
}

std::vector<float> RandomVector(int64_t size, uint64_t seed) {
  testing::SplitMix64 random(seed);
  std::vector<float> values(size);
  for (float& x : values) x = static_cast<float>(2.0 * random.Unit() - 1.0);
  return values;
}

DeviceGraph::DeviceGraph(Device& device, const HostGraph& host)
    : rows_(host.rows),
      cols_(host.cols),
      edges_(host.edges()),
      row_ptr_(device, host.row_ptr),
      col_(device, host.col),
      value_(device, host.value) {}

CsrView DeviceGraph::view(bool weighted) const {
  return {rows_, cols_, edges_, row_ptr_.data(), col_.data(), weighted ? value_.data() : nullptr};
}

DeviceArray<float> Scratch(Device& device, size_t bytes) {
  return DeviceArray<float>(device, std::vector<float>((bytes + 3) / 4, std::numeric_limits<float>::quiet_NaN()));
}

}  // namespace vicinal::cuda_test
