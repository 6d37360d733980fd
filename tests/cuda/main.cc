// SPDX-License-Identifier: Apache-2.0
// Conformance of the CUDA backend on a real GPU: loads the library as the engine does and runs every kernel it
// registers against the oracle. Needs nothing installed but the driver, so that it can be carried to a GPU machine.
//   vicinal_cuda_conformance [LIBRARY]
//       [device|overlap|aggregate|product|attention|message|edge|update|rowwise|field ...] [once] [SHARE/OF]
// SHARE/OF: only that share (from 0) of the cases of all groups but device, edge and rowwise. once: for
// compute-sanitizer (Report::BeBrief).
// Exit status 77: no GPU here, nothing tested.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/cuda/cases.h"

namespace vicinal::cuda_test {
namespace {

constexpr int kSkipped = 77;

int Main(const std::string& library, const std::vector<std::string>& wanted, Report& report) {
  Gpu gpu;
  auto backend = Backend::Load(library);
  MustBeOk(backend.status(), "loading " + library);
  gpu.backend = *std::move(backend);
  if (gpu.backend->table().device_count() == 0) {
    std::printf("SKIPPED: no GPU here; the CUDA backend was loaded, none of its kernels was run\n");
    return kSkipped;
  }
  gpu.backend->table().register_kernels(gpu.registry);
  auto device = gpu.backend->table().open_device(0);
  MustBeOk(device.status(), "opening the device");
  gpu.device = *std::move(device);
  gpu.context = gpu.device->CreateContext();
  std::printf("%s: %s\n", gpu.device->name().c_str(), gpu.device->description().c_str());
  const auto want = [&](const char* group) {
    for (const std::string& name : wanted) {
      if (name == group) return true;
    }
    return wanted.empty();
  };
  if (want("device")) RunDeviceCases(gpu, report);
  if (want("overlap")) RunOverlapCases(gpu, report);
  if (want("rowwise")) RunRowwiseCases(gpu, report);
  if (want("update")) RunUpdateCases(gpu, report);
  if (want("update")) RunProductPrecisionCases(gpu, report);
  if (want("attention")) RunAttentionCases(gpu, report);
  if (want("message")) RunMessageCases(gpu, report);
  if (want("edge")) RunEdgeScoreCases(gpu, report);
  if (want("aggregate")) RunAggregateCases(gpu, report);
  if (want("product")) RunAggregateProductCases(gpu, report);
  if (want("field")) RunFieldCases(gpu, report);
  const bool ok = report.Summary();
  gpu.context.reset();
  std::printf("%s\n", ok ? "CONFORMS" : "DOES NOT CONFORM");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace vicinal::cuda_test

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string library = VICINAL_LIB_DIR "/libvicinal_cuda.so";
  if (!arguments.empty() && arguments[0].find(".so") != std::string::npos) {
    library = arguments[0];
    arguments.erase(arguments.begin());
  }
  vicinal::cuda_test::Report report;
  int share = 0, of = 0;
  if (!arguments.empty() && std::sscanf(arguments.back().c_str(), "%d/%d", &share, &of) == 2) {
    report.TakeShare(share, of);
    arguments.pop_back();
  }
  if (const auto once = std::find(arguments.begin(), arguments.end(), "once"); once != arguments.end()) {
    report.BeBrief();
    arguments.erase(once);
  }
  return vicinal::cuda_test::Main(library, arguments, report);
}
