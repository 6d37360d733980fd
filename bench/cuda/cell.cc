// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/cell.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/cuda/listed_peers.h"

namespace vicinal::bench {
namespace {

Json ToJson(const Timing& timing) {
  return {{"median_us", timing.median_us}, {"p10_us", timing.p10_us},     {"p90_us", timing.p90_us},
          {"samples", timing.samples},     {"launches", timing.launches}, {"host_us", timing.host_us}};
}

Json ToJson(const std::vector<PeerRun>& runs) {
  Json list = Json::array();
  for (const PeerRun& run : runs) {
    Json one = {{"algorithm", run.algorithm}, {"right", run.right}};
    one.update(ToJson(run.timing));
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

std::vector<PeerRun> CellBench::TimePeers(const Operation& operation, const Workload& workload,
                                          const SampledRows& rows) {
  if (operation.family == Family::kEdgeScores) {
    gpu_.Poison(workload.result(0), workload.result_bytes());
    return TimeCusparse(workload.sddmm(), gpu_.stream(), options_.budget_us, [&] {
      return rows.WorstError(gpu_, workload.result(0), Storage::kFloat32) <= kFloat32Tolerance;
    });
  }
  const Buffer value = graph_.PeerValues(gpu_, operation);
  std::vector<PeerRun> runs;
  const bool narrow = operation.storage != Storage::kFloat32;
  const double tolerance = narrow ? kSixteenBitTolerance : kFloat32Tolerance;
  // 16-bit rows: into 16 bits, which moves least, and into float32, as ours do.
  std::vector<Storage> results = {Storage::kFloat32};
  if (narrow) results.push_back(operation.storage);
  for (const Storage result : results) {
    gpu_.Poison(workload.result(0), workload.result_bytes());
    for (PeerRun& run : TimeCusparse(workload.spmm(value, result), gpu_.stream(), options_.budget_us,
                                     [&] { return rows.WorstError(gpu_, workload.result(0), result) <= tolerance; })) {
      if (narrow) run.algorithm += " into " + std::string(ToString(result));
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

double CellBench::SumUs(int64_t width) {
  const auto known = sum_us_.find(width);
  if (known != sum_us_.end()) return known->second;
  const Operation sum = AllOperations().front();
  const Workload workload(gpu_, graph_, sum, width);
  const std::vector<PeerRun> runs = TimePeers(sum, workload, SampledRows(graph_, sum, width));
  const PeerRun* const fastest = Fastest(runs);
  return sum_us_[width] = fastest == nullptr ? 0.0 : fastest->timing.median_us;
}

Json CellBench::TimeKernel(const Contestant& contestant, const Workload& workload, const SampledRows& rows,
                           double* best_us) {
  Json result = {{"kernel", contestant.kernel},
                 {"parameters", contestant.parameters},
                 {"first_choice", contestant.first_choice},
                 {"deterministic", contestant.deterministic},
                 {"reduction_order", contestant.reduction_order},
                 {"scratch_bytes", contestant.scratch_bytes},
                 {"layout_bytes", contestant.layout_bytes},
                 {"layout_seconds", contestant.layout_seconds}};
  const Buffer scratch = gpu_.Allocate(contestant.scratch_bytes);
  gpu_.Poison(scratch.data(), contestant.scratch_bytes);
  gpu_.Poison(workload.result(0), workload.result_bytes());
  Status status;
  const Launcher launch = [&](int i) {
    if (status.ok()) status = contestant.launch(i % kSets, scratch.data());
  };
  const Timing first = TimeOnce(gpu_.stream(), launch);
  if (!status.ok()) {
    result["failed"] = std::string(status.message());
    return result;
  }
  MustBeOk(gpu_.context().Synchronize(), contestant.kernel);
  const double error = rows.WorstError(gpu_, workload.result(0), Storage::kFloat32);
  result["relative_error"] = error;
  result["right"] = error <= kFloat32Tolerance;
  Timing timing = TimeBriefly(gpu_.stream(), launch, first, *best_us);
  if (contestant.first_choice || *best_us == 0 || timing.median_us <= options_.early_stop_ratio * *best_us) {
    timing = TimeFully(gpu_.stream(), launch, timing, options_.budget_us);
  }
  MustBeOk(status, contestant.kernel);
  if (result["right"].get<bool>() && (*best_us == 0 || timing.median_us < *best_us)) *best_us = timing.median_us;
  result.update(ToJson(timing));
  return result;
}

Json CellBench::Run(const Operation& operation, int64_t width) {
  const double sum_us = SumUs(width);
  const Workload workload(gpu_, graph_, operation, width);
  const SampledRows rows(graph_, operation, width);
  const Traffic traffic = workload.traffic();
  Json cell = {{"graph", graph_.name()},
               {"order", graph_.order()},
               {"nodes", graph_.nodes()},
               {"edges", graph_.edges()},
               {"operation", std::string(operation.name)},
               {"width", width},
               {"dram_floor_us", 1e6 * traffic.floor / speed_.copy},
               {"gather_floor_us", 1e6 * traffic.gather / speed_.l2_read},
               {"gather_bytes", traffic.gather},
               {"cusparse_sum_us", sum_us}};
  if (operation.has_cusparse()) {
    const std::vector<PeerRun> peers = TimePeers(operation, workload, rows);
    cell["peers"] = ToJson(peers);
    if (const PeerRun* fastest = Fastest(peers)) {
      cell["cusparse"] = fastest->algorithm;
      cell["cusparse_us"] = fastest->timing.median_us;
    }
  }
  if (const std::optional<double> share = ListedShareOfCusparse(graph_.name(), width, operation.listed);
      share && sum_us > 0 && graph_.order() == "none") {
    cell["listed_us"] = *share * sum_us;
  }
  cell["kernels"] = Json::array();
  const Entrants entrants = workload.Kernels(options_.choice);
  for (const KernelRefusal& refusal : entrants.refusals) {
    cell["kernels"].push_back({{"kernel", refusal.kernel}, {"refused", refusal.reason}});
  }
  double best_us = 0;
  std::string last;
  for (const Contestant& contestant : entrants.contestants) {
    const bool default_configuration = std::exchange(last, contestant.kernel) != contestant.kernel;
    if (!options_.all_configurations && !default_configuration) continue;
    cell["kernels"].push_back(TimeKernel(contestant, workload, rows, &best_us));
  }
  return cell;
}

}  // namespace vicinal::bench
