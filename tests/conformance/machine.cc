// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/machine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "hwy/highway.h"
#include "hwy/targets.h"
#include "tests/split_mix.h"

namespace vicinal::conformance {
namespace {

// Bytes behind scratch: a vector of the widest instruction set, and one more.
constexpr size_t kScratchEnd = 128;

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0; }

void LimitInstructionSet() {
  const char* name = std::getenv("VICINAL_TEST_TARGET");
  if (name == nullptr) return;
  int64_t usable = 0;
  for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    const int64_t instruction_set = targets & -targets;
    // Better ones are lower bits: from the named one on, all stay.
    if (usable != 0 || hwy::TargetName(instruction_set) == std::string(name)) usable |= instruction_set;
  }
  VICINAL_CHECK(usable != 0);
  hwy::SetSupportedTargetsForTest(usable);
  hwy::GetChosenTarget().Update(usable);
}

}  // namespace

std::unique_ptr<Machine> Machine::Cpu() {
  LimitInstructionSet();
  auto machine = std::make_unique<Machine>();
  RegisterCpuKernels(machine->registry);
  machine->device = MakeCpuDevice(1);
  machine->context = machine->device->CreateContext();
  for (const int threads : {2, 3}) {
    Threaded more{MakeCpuDevice(threads), nullptr};
    more.context = more.device->CreateContext();
    machine->more_threads_.push_back(std::move(more));
  }
  return machine;
}

std::unique_ptr<Machine> Machine::OfBackend(const std::string& library, const DeviceLimits& limits) {
  auto machine = std::make_unique<Machine>();
  auto backend = Backend::Load(library);
  MustBeOk(backend.status(), "loading " + library);
  machine->backend = *std::move(backend);
  if (machine->backend->table().device_count() == 0) return nullptr;
  auto device = machine->backend->table().open_device(0, limits);
  MustBeOk(device.status(), "opening the device");
  machine->device = *std::move(device);
  machine->backend->table().register_kernels(machine->registry, machine->device.get());
  machine->context = machine->device->CreateContext();
  return machine;
}

Machine::Turn Machine::NextTurn() {
  const size_t turn = turn_++ % (1 + more_threads_.size());
  if (turn == 0) return {*context, 1};
  return {*more_threads_[turn - 1].context, static_cast<int>(turn) + 1};
}

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

// 0xff in every byte is NaN as a float and -1 as an integer.
Scratch::Scratch(Device& device, size_t bytes)
    : bytes_(bytes), array_(device, std::vector<uint8_t>(bytes + kScratchEnd, 0xff)) {}

bool Scratch::EndUntouched(Device& device) const {
  const std::vector<uint8_t> bytes = array_.Download(device);
  return std::all_of(bytes.begin() + static_cast<int64_t>(bytes_), bytes.end(),
                     [](uint8_t byte) { return byte == 0xff; });
}

}  // namespace vicinal::conformance
