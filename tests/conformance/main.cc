// SPDX-License-Identifier: Apache-2.0
// Kernel conformance: runs every kernel that a device's registry has against the oracle. The same cases for the CPU and
// for a backend's device. A plain program that needs nothing installed but the driver, so that it can be carried to a
// GPU machine.
//   vicinal_conformance [cpu|LIBRARY.so]
//       [device|overlap|aggregate|product|attention|message|expression|edge|feature|update|rowwise|field ...] [as=7.5]
//       [once] [SHARE/OF]
// SHARE/OF: only that share (from 0) of the cases of all groups but device, edge and rowwise; GTEST_SHARD_INDEX and
// GTEST_TOTAL_SHARDS in the environment say the same. once: for compute-sanitizer (Report::BeBrief).
// as=7.5 (8.0, 8.6, 8.9, 10.0, 12.0): with no more shared memory and threads per multiprocessor than a GPU of that
// compute capability has, and the kernels for it as far as the library has code for them; larger launches fail.
// A group that is run as a whole fails when a kernel of its operations that the machine is fit for was reached by none
// of its cases.
// Exit status 77: no such device here, nothing tested.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/cases.h"

namespace vicinal::conformance {
namespace {

constexpr int kSkipped = 77;

struct Group {
  std::string_view name;
  std::vector<void (*)(Machine&, Report&)> run;
  std::vector<std::string_view> operations;  // whose kernels it must reach
  bool gpu_only = false;                     // what the CPU's device does not have: streams, recordings
};

const std::vector<Group>& Groups() {
  static const auto& groups = *new std::vector<Group>{{"device", {RunDeviceCases, RunClassRowCases}, {}, true},
                                                      {"overlap", {RunOverlapCases}, {}, true},
                                                      {"rowwise", {RunRowwiseCases}, {"rowwise"}},
                                                      {"update",
                                                       {RunUpdateCases, RunProductPrecisionCases},
                                                       {"dense_update", "sparse_update", "sparse_aggregate_update"}},
                                                      {"attention", {RunAttentionCases}, {"attention"}},
                                                      {"message", {RunMessageCases}, {"message_reduce"}},
                                                      {"expression", {RunExpressionCases}, {"expression"}},
                                                      {"edge", {RunEdgeScoreCases}, {"edge_scores"}},
                                                      {"feature", {RunEdgeFeatureCases, RunEdgeMessageCases}, {}},
                                                      {"aggregate", {RunAggregateCases}, {"aggregate"}},
                                                      {"product", {RunAggregateProductCases}, {}},
                                                      {"field", {RunReceptiveFieldCases}, {}}};
  return groups;
}

// Names each kernel of the group's operations that no case has launched. Of a share of the cases nothing is asked: what
// it leaves out others reach.
void CheckCoverage(const Machine& machine, const Group& group, Report& report) {
  if (report.is_share()) return;
  machine.registry.ForEachOperation([&](const auto& operation) {
    const auto& wanted = group.operations;
    if (std::find(wanted.begin(), wanted.end(), operation.operation()) == wanted.end()) return;
    for (const auto& kernel : operation.kernels()) {
      if (const Refusal why = kernel->kernel().WhyUnfit(); !why.empty()) {
        std::printf("not on this machine: %s %s: %s\n", std::string(operation.operation()).c_str(),
                    std::string(kernel->kernel().name()).c_str(), why.c_str());
        continue;
      }
      report.CheckTrue("coverage",
                       std::string(operation.operation()) + " " + std::string(kernel->kernel().name()) +
                           " is registered and was reached by a case",
                       kernel->launches() > 0);
    }
  });
}

// The groups that are wanted; all where none is named.
bool RunGroups(Machine& machine, const std::vector<std::string>& wanted, Report& report) {
  for (const Group& group : Groups()) {
    const bool named = std::find(wanted.begin(), wanted.end(), group.name) != wanted.end();
    if ((!wanted.empty() && !named) || (group.gpu_only && machine.is_cpu())) continue;
    for (const auto run : group.run) run(machine, report);
    CheckCoverage(machine, group, report);
  }
  return report.Summary();
}

bool AreGroups(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto is_it = [&name](const Group& group) { return group.name == name; };
    if (std::any_of(Groups().begin(), Groups().end(), is_it)) continue;
    std::printf("there is no group of cases '%s'\n", name.c_str());
    return false;
  }
  return true;
}

// Of the CUDA C++ Programming Guide's table of technical specifications.
struct NamedLimits {
  std::string_view name;
  DeviceLimits limits;
};
constexpr NamedLimits kNamedLimits[] = {
    {"as=7.5", {75, 64 << 10, 64 << 10, 1024}},     {"as=8.0", {80, 163 << 10, 164 << 10, 2048}},
    {"as=8.6", {86, 99 << 10, 100 << 10, 1536}},    {"as=8.9", {89, 99 << 10, 100 << 10, 1536}},
    {"as=10.0", {100, 227 << 10, 228 << 10, 2048}}, {"as=12.0", {120, 99 << 10, 100 << 10, 1536}}};

// Takes the limits that the arguments name; by default none.
DeviceLimits TakeLimits(std::vector<std::string>& arguments) {
  for (const NamedLimits& named : kNamedLimits) {
    const auto found = std::find(arguments.begin(), arguments.end(), named.name);
    if (found == arguments.end()) continue;
    arguments.erase(found);
    return named.limits;
  }
  return {};
}

int Main(const std::string& device, const DeviceLimits& limits, const std::vector<std::string>& wanted,
         Report& report) {
  if (!AreGroups(wanted)) return 2;
  const std::unique_ptr<Machine> machine = device == "cpu" ? Machine::Cpu() : Machine::OfBackend(device, limits);
  if (machine == nullptr) {
    std::printf("SKIPPED: no GPU here; the CUDA backend was loaded, none of its kernels was run\n");
    return kSkipped;
  }
  std::printf("%s: %s\n", machine->device->name().c_str(), machine->device->description().c_str());
  const bool ok = RunGroups(*machine, wanted, report);
  std::printf("%s\n", ok ? "CONFORMS" : "DOES NOT CONFORM");
  return ok ? 0 : 1;
}

// The share that the arguments or the environment name.
void TakeShare(std::vector<std::string>& arguments, Report& report) {
  int share = 0, of = 0;
  const char* index = std::getenv("GTEST_SHARD_INDEX");
  const char* total = std::getenv("GTEST_TOTAL_SHARDS");
  if (!arguments.empty() && std::sscanf(arguments.back().c_str(), "%d/%d", &share, &of) == 2) {
    arguments.pop_back();
  } else if (index != nullptr && total != nullptr) {
    share = std::atoi(index), of = std::atoi(total);
  }
  if (of > 0) report.TakeShare(share, of);
}

}  // namespace
}  // namespace vicinal::conformance

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string device = VICINAL_CONFORMANCE_DEVICE;
  if (!arguments.empty() && (arguments[0] == "cpu" || arguments[0].find(".so") != std::string::npos)) {
    device = arguments[0];
    arguments.erase(arguments.begin());
  }
  vicinal::conformance::Report report;
  vicinal::conformance::TakeShare(arguments, report);
  if (const auto once = std::find(arguments.begin(), arguments.end(), "once"); once != arguments.end()) {
    report.BeBrief();
    arguments.erase(once);
  }
  const vicinal::DeviceLimits limits = vicinal::conformance::TakeLimits(arguments);
  return vicinal::conformance::Main(device, limits, arguments, report);
}
