// SPDX-License-Identifier: Apache-2.0
// The device layer: accounting, copies larger than the staging, an allocation that cannot be met, rows picked from a
// matrix, and recordings, also while other threads use the device.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "tests/conformance/cases.h"

namespace vicinal::conformance {
namespace {

// Lists that travel with the launch, longer ones, and more rows or floats than one piece holds.
void RowCases(Machine& machine, Report& report) {
  struct Case {
    int64_t rows, cols, picked;
  };
  for (const Case& c : {Case{1, 1, 1}, Case{300, 7, 256}, Case{300, 41, 257}, Case{200'000, 3, 150'000},
                        Case{9'000, 1'000, 5'000}, Case{40, 300'000, 12}}) {
    const HostMatrix matrix = RandomMatrix(c.rows, c.cols, 61);
    for (const MatrixLayout& layout : {MatrixLayout{0, 0}, MatrixLayout{1, 3}}) {
      const DeviceMatrix on_device(*machine.device, matrix, layout, 1e30f);
      std::vector<int64_t> rows;
      HostMatrix want{c.picked, c.cols, {}};
      for (int64_t i = 0; i < c.picked; ++i) {
        rows.push_back(i * 7919 % c.rows);
        const auto row = matrix.values.begin() + rows.back() * c.cols;
        want.values.insert(want.values.end(), row, row + c.cols);
      }
      HostMatrix got{c.picked, c.cols, std::vector<float>(c.picked * c.cols, -1.0f)};
      MustBeOk(machine.context->CopyRowsToHost(got.values.data(), on_device.view(), rows.data(), c.picked),
               "copy rows");
      report.CheckSame("rows to the host", std::to_string(c.picked) + " x " + std::to_string(c.cols), got, want);
    }
  }
  report.CheckTrue("rows to the host", "none", machine.context->CopyRowsToHost(nullptr, {}, nullptr, 0).ok());
}

bool HasReason(const Status& status, const char* reason) {
  return !status.ok() && DetailOf(status).has_value() && DetailOf(status)->reason == reason;
}

// A product, to be launched again and again.
struct Product {
  static constexpr int64_t kRows = 500, kIn = 90, kOut = 40;
  const RegisteredKernel<DenseUpdateKernel>& kernel;
  DeviceMatrix src, dst;
  DeviceArray<char> packed;
  DenseUpdateArgs args;

  explicit Product(Machine& machine)
      : kernel(ExactProduct(machine)),
        src(*machine.device, RandomMatrix(kRows, kIn, 71), {}, 0.0f),
        dst(*machine.device, FilledMatrix(kRows, kOut, 0.0f), {}, 0.0f) {
    std::vector<float> weight = RandomVector(kOut * kIn, 72);
    std::vector<char> bytes(kernel.kernel().PackedBytes(kOut, kIn));
    kernel.kernel().Pack({weight.data(), kOut, kIn, kIn}, bytes.data());
    packed = DeviceArray<char>(*machine.device, bytes);
    args.problem = {kRows, kIn, kOut};
    args.src = src.view();
    args.weight = packed.data();
    args.dst = dst.view();
  }
  Status Launch(DeviceContext& context) const { return kernel.Launch(context, args, nullptr); }
  void Poison(Machine& machine) const {
    const std::vector<float> poison(kRows * kOut, 1e30f);
    MustBeOk(machine.device->CopyFromHost(dst.view().data, poison.data(), poison.size() * sizeof(float)), "poison");
  }
};

void RecordingCases(Machine& machine, Report& report) {
  const Product product(machine);
  DeviceContext& context = *machine.context;
  MustBeOk(product.Launch(context), "launch");
  MustBeOk(context.Synchronize(), "launch");
  const HostMatrix want = product.dst.Download(*machine.device);
  const auto launch = [&] { return product.Launch(context); };
  product.Poison(machine);
  auto recording = context.Record(launch);
  MustBeOk(recording.status(), "record");
  report.CheckTrue("recording", "recording runs nothing", product.dst.Download(*machine.device).values[0] == 1e30f);
  for (int i = 0; i < 3; ++i) {
    product.Poison(machine);
    MustBeOk(context.Replay(**recording), "replay");
    MustBeOk(context.Synchronize(), "replay");
    report.CheckSame("recording", "a replay is a run", product.dst.Download(*machine.device), want);
  }
  const auto refused = context.Record([&] {
    (void)product.Launch(context);
    return Internal("no more");
  });
  report.CheckTrue("recording", "a failed launch is a refusal", HasReason(refused.status(), kCannotRecordReason));
  const std::unique_ptr<DeviceContext> other = machine.device->CreateContext();
  report.CheckTrue("recording", "another context refuses", HasReason(other->Replay(**recording), kCannotRecordReason));
  auto timer = context.MakeTimer(2);
  MustBeOk(timer.status(), "make a timer");
  const auto timed = context.Record([&] {
    VICINAL_RETURN_IF_ERROR((*timer)->Mark(0));
    VICINAL_RETURN_IF_ERROR(product.Launch(context));
    return (*timer)->Mark(1);
  });
  MustBeOk(timed.status(), "record with marks");
  MustBeOk(context.Replay(**timed), "replay with marks");
  MustBeOk(context.Synchronize(), "replay with marks");
  const auto seconds = (*timer)->Seconds(0, 1);
  MustBeOk(seconds.status(), "read a time");
  report.CheckTrue("recording", "a product of 500 rows takes less than a millisecond",
                   *seconds > 0 && (report.brief() || *seconds < 1e-3));
  MustBeOk((*timer)->Mark(0), "mark outside a recording");
  MustBeOk(product.Launch(context), "launch");
  MustBeOk((*timer)->Mark(1), "mark outside a recording");
  MustBeOk(context.Synchronize(), "launch");
  report.CheckTrue("recording", "marks outside a recording", (*timer)->Seconds(0, 1).ok());
}

// Uploads of other threads neither end up in a recording nor spoil it.
void BusyRecordingCases(Machine& machine, Report& report) {
  const Product product(machine);
  DeviceContext& context = *machine.context;
  MustBeOk(product.Launch(context), "launch");
  MustBeOk(context.Synchronize(), "launch");
  const HostMatrix want = product.dst.Download(*machine.device);
  std::atomic<bool> stop{false};
  std::atomic<int> uploads{0};
  std::thread uploader([&] {
    const std::vector<float> sent = RandomVector(100'000, 81);
    while (!stop.load()) {
      const DeviceArray<float> array(*machine.device, sent);
      if (array.Download(*machine.device) == sent) uploads.fetch_add(1);
    }
  });
  int done = 0;
  while (done < 200 || uploads.load() < 20) {
    ++done;
    auto recording = context.Record([&] { return product.Launch(context); });
    MustBeOk(recording.status(), "record while others copy");
    MustBeOk(context.Replay(**recording), "replay while others copy");
    MustBeOk(context.Synchronize(), "replay while others copy");
  }
  stop.store(true);
  uploader.join();
  report.CheckSame("recording", "while others copy", product.dst.Download(*machine.device), want);
}

}  // namespace

void RunDeviceCases(Machine& machine, Report& report) {
  Device& device = *machine.device;
  report.CheckTrue("device", "kind", device.kind() == DeviceKind::kCuda && device.name().rfind("cuda:", 0) == 0);
  report.CheckTrue("device", "has a description", !device.description().empty());
  const int64_t before = device.allocated_bytes();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{4} << 20, (size_t{9} << 20) + 3, size_t{40} << 20}) {
    std::vector<char> sent(bytes);
    for (size_t i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * 2654435761u >> 13);
    const DeviceArray<char> array(device, sent);
    report.CheckTrue("device", "bytes are counted", device.allocated_bytes() == before + static_cast<int64_t>(bytes));
    report.CheckTrue("device", "what is sent comes back", array.Download(device) == sent);
    const DeviceArray<char> copy(device, std::vector<char>(bytes));
    MustBeOk(device.CopyOnDevice(copy.data(), array.data(), bytes), "copy on the device");
    report.CheckTrue("device", "a copy on the device", copy.Download(device) == sent);
    report.CheckTrue("device", "aligned to 64 bytes", reinterpret_cast<uintptr_t>(array.data()) % 64 == 0);
  }
  report.CheckTrue("device", "freed bytes are counted", device.allocated_bytes() == before);
  const auto too_much = device.Allocate(size_t{1} << 46);
  report.CheckTrue("device", "64 TiB are refused with RESOURCE_EXHAUSTED",
                   too_much.status().code() == StatusCode::kResourceExhausted);
  report.CheckTrue("device", "and the device goes on",
                   device.Allocate(1024).ok() && machine.context->Synchronize().ok());
  const std::unique_ptr<DeviceContext> second = device.CreateContext();
  report.CheckTrue("device", "a second context", second->Synchronize().ok() && second->thread_pool() == nullptr);
  report.CheckTrue("device", "is in good health", device.Health().ok());
  RowCases(machine, report);
  RecordingCases(machine, report);
  BusyRecordingCases(machine, report);
}

}  // namespace vicinal::conformance
