// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/scrape.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "server/metrics/families.h"
#include "server/metrics/gpu_families.h"

namespace vicinal::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

double Seconds(WallTime time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

// Second field of /proc/self/statm: resident pages.
double ResidentBytes() {
  long size = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0.0;
  const int fields = std::fscanf(file, "%ld %ld", &size, &resident);
  std::fclose(file);
  return fields == 2 ? static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0.0;
}

// What malloc has handed out, in its heaps and as mappings of its own, and what it holds back. Unlike resident memory,
// the first two say how much the process really uses.
MetricFamily Allocator() {
  MetricFamily family =
      Family("process_allocator_bytes", "Bytes of the memory allocator, by what they are.", MetricType::Gauge);
  const struct mallinfo2 info = mallinfo2();
  const std::pair<const char*, size_t> kinds[] = {
      {"in_use", info.uordblks}, {"mapped", info.hblkhd}, {"free", info.fordblks}};
  for (const auto& [kind, bytes] : kinds) AddValue(&family, static_cast<double>(bytes), {{"kind", kind}});
  return family;
}

MetricFamily Memory(const StateSnapshot& state) {
  MetricFamily family = Family("vicinal_memory_bytes", "Reserved bytes by use.", MetricType::Gauge);
  const std::pair<const char*, int64_t> kinds[] = {{"graphs", state.graph_bytes},   {"features", state.feature_bytes},
                                                   {"models", state.model_bytes},   {"plans", state.plan_bytes},
                                                   {"answers", state.answer_bytes}, {"requests", state.request_bytes},
                                                   {"uploads", state.upload_bytes}};
  for (const auto& [kind, bytes] : kinds) AddValue(&family, static_cast<double>(bytes), {{"kind", kind}});
  return family;
}

MetricFamily Tiers(const StateSnapshot& state) {
  MetricFamily family =
      Family("vicinal_tier_bytes", "Bytes of graphs, feature sets and models, by where they are.", MetricType::Gauge);
  const std::pair<const char*, const StoredBytes*> tiers[] = {
      {"disk", &state.on_disk}, {"host", &state.on_host}, {"device", &state.on_device}};
  for (const auto& [tier, bytes] : tiers) {
    const std::pair<const char*, int64_t> kinds[] = {
        {"graphs", bytes->graphs}, {"features", bytes->features}, {"models", bytes->models}};
    for (const auto& [kind, count] : kinds) {
      AddValue(&family, static_cast<double>(count), {{"tier", tier}, {"kind", kind}});
    }
  }
  return family;
}

MetricFamily Refused(const ConnectionCounts& counts) {
  MetricFamily family =
      Family("vicinal_connections_refused_total", "Connections closed as soon as they were made.", MetricType::Counter);
  const std::pair<const char*, int64_t> reasons[] = {
      {"full", counts.refused_full}, {"address", counts.refused_address}, {"peer", counts.refused_peer}};
  for (const auto& [reason, count] : reasons) AddValue(&family, static_cast<double>(count), {{"reason", reason}});
  return family;
}

MetricFamily Launches(const StateSnapshot& state) {
  MetricFamily family = Family("vicinal_kernel_launches_total", "Launches of a kernel.", MetricType::Counter);
  for (const StateSnapshot::Launches& entry : state.launches) {
    AddValue(&family, static_cast<double>(entry.count),
             {{"operation", entry.operation}, {"kernel", entry.kernel}, {"device", entry.device}});
  }
  return family;
}

}  // namespace

Scrape::Scrape(Metrics::Options options)
    : options_(std::move(options)),
      start_seconds_(Seconds((options_.clock != nullptr ? *options_.clock : Clock::Real()).WallNow())) {}

std::vector<MetricFamily> Scrape::Collect() const {
  StateSnapshot state;
  std::string device;
  std::shared_ptr<const Nvml> gpu;
  {
    MutexLock lock(&mutex_);
    if (source_) state = source_();
    device = device_;
    gpu = gpu_;
  }
  std::vector<MetricFamily> families = StateFamilies(state, device);
  if (gpu != nullptr) {
    std::vector<MetricFamily> gpu_families = GpuFamilies(gpu->Read(), device);
    std::move(gpu_families.begin(), gpu_families.end(), std::back_inserter(families));
  }
  return families;
}

std::vector<MetricFamily> Scrape::StateFamilies(const StateSnapshot& state, const std::string& device) const {
  MetricFamily build = Family("vicinal_build_info", "Always 1; the labels have the information.", MetricType::Gauge);
  AddValue(&build, 1.0,
           {{"version", options_.version}, {"device", device}, {"instruction_set", options_.instruction_set}});
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  return {
      GaugeFamily("vicinal_queue_depth", "Requests waiting for the executor.", real(state.queue_depth)),
      CounterFamily("vicinal_executor_busy_seconds_total", "Time in which requests kept the executor busy.",
                    state.busy_seconds),
      GaugeFamily("vicinal_graphs", "Graphs, in any state.", real(state.graphs)),
      GaugeFamily("vicinal_resident_graphs",
                  "Graphs in memory; the others are being prepared or loaded, or on disk only.",
                  real(state.resident_graphs)),
      GaugeFamily("vicinal_host_graphs", "Graphs that have left the device, and are on the host.",
                  real(state.host_graphs)),
      GaugeFamily("vicinal_models", "Models.", real(state.models)),
      GaugeFamily("vicinal_feature_sets", "Feature sets of all graphs.", real(state.feature_sets)),
      GaugeFamily("vicinal_versions_not_durable",
                  "Versions that could not be written to the state directory, and serve from memory.",
                  real(state.not_durable)),
      GaugeFamily("vicinal_quarantined_kernels", "Kernel configurations that do not run on this device any more.",
                  real(state.quarantined_kernels)),
      GaugeFamily("vicinal_state_last_write_timestamp_seconds",
                  "When a version was last written to the state directory, in seconds since 1970; 0: never.",
                  state.last_state_write_seconds),
      GaugeFamily("vicinal_open_uploads", "Uploads that await chunks.", real(state.open_uploads)),
      GaugeFamily("vicinal_kept_answers", "Outputs whose rows are kept for all nodes.", real(state.kept_answers)),
      Memory(state),
      Tiers(state),
      GaugeFamily("vicinal_memory_budget_bytes", "Memory budget in bytes; 0: unlimited.", real(state.budget_bytes)),
      GaugeFamily("vicinal_device_allocated_bytes", "What this server has allocated on its GPU; 0: it has none.",
                  real(state.device_bytes)),
      GaugeFamily("vicinal_device_memory_limit_bytes", "--device_memory_bytes; 0: as much as the GPU has.",
                  real(state.device_limit_bytes)),
      GaugeFamily("vicinal_ready", "1 while the server accepts requests.", state.ready ? 1.0 : 0.0),
      Launches(state),
      std::move(build),
      GaugeFamily("vicinal_connections", "Open connections to the API.", real(state.connections.open)),
      GaugeFamily("vicinal_max_connections", "--max_connections.", real(state.connections.most)),
      Refused(state.connections),
      CounterFamily("vicinal_connections_hung_up_total",
                    "Connections ended because too many calls on them were refused.", real(state.connections.hung_up)),
      GaugeFamily("vicinal_open_calls", "Calls that are open, over all connections.", real(state.open_calls)),
      GaugeFamily("vicinal_max_open_calls", "--max_open_calls.", real(state.max_open_calls)),
      GaugeFamily("vicinal_stream_bytes",
                  "Bytes of requests and answers that are under way on streams of requests; counted only where "
                  "--max_stream_bytes_per_client is not 0.",
                  real(state.stream_bytes)),
      CounterFamily("vicinal_stream_refusals_total", "Requests on streams that were refused as CLIENT_STREAMS_FULL.",
                    real(state.stream_refusals)),
      GaugeFamily("vicinal_exposed", "1 if anyone on a network may connect: no client certificates and no edge.",
                  state.exposed ? 1.0 : 0.0),
      GaugeFamily("vicinal_certificate_expiry_timestamp_seconds",
                  "End of the server's certificate, in seconds since 1970; 0 without TLS.",
                  state.certificate_expiry_seconds),
      Allocator(),
      GaugeFamily("process_resident_memory_bytes", "Resident memory of the process.", ResidentBytes()),
      GaugeFamily("process_start_time_seconds", "Start of the process, in seconds since 1970.", start_seconds_)};
}

void Scrape::SetDevice(const std::string& device, std::shared_ptr<const Nvml> gpu) {
  MutexLock lock(&mutex_);
  device_ = device;
  gpu_ = std::move(gpu);
}

void Scrape::SetSource(std::function<StateSnapshot()> source) {
  MutexLock lock(&mutex_);
  source_ = std::move(source);
}

}  // namespace vicinal::server
