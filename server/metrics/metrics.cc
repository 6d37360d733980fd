// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "engine/base/mutex.h"
#include "server/metrics/label_cache.h"
#include "server/metrics/scrape.h"

namespace vicinal::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

// Bucket bounds in seconds, from ten microseconds to a hundred seconds, including round values for objectives.
const std::vector<double>& Buckets() {
  static const std::vector<double> buckets = {.00001, .00005, .0001, .0003, .0006, .0008, .001, .002, .003, .004,
                                              .005,   .006,   .008,  .01,   .013,  .016,  .02,  .025, .03,  .04,
                                              .05,    .065,   .08,   .1,    .13,   .16,   .2,   .25,  .3,   .4,
                                              .5,     .65,    .8,    1,     2,     5,     10,   20,   50,   100};
  return buckets;
}

// Most graphs are used with one or two models.
constexpr int64_t kPairsPerName = 2;

constexpr int kCodes = 17;
constexpr const char* kCodeNames[kCodes] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

constexpr std::string_view kPhases[] = {"queue",          "plan",           "receptive_field",
                                        "field_features", "execute",        "gather",
                                        "encode",         "send",           "aggregate",
                                        "attention",      "message_reduce", "edge_scores",
                                        "dense_update",   "sparse_update",  "sparse_aggregate_update",
                                        "rowwise",        "expression",     "links",
                                        "tiles",          "other"};
constexpr const char* kComputed[] = {"full_graph", "receptive_field", "kept_answers"};  // as ComputedOver
constexpr std::string_view kPassOutcomes[] = {"kept",    "ahead",  "unchanged", "interrupted",
                                              "refused", "failed", "late",      "other"};
constexpr std::string_view kDropReasons[] = {"queue_full", "client_full", "overloaded", "deadline_too_short",
                                             "expired",    "cancelled",   "draining",   "other"};
constexpr std::string_view kTuningOutcomes[] = {"changed", "kept", "failed", "forced", "other"};
constexpr std::string_view kCompilationOutcomes[] = {"compiled", "kept", "failed", "unloaded", "other"};
constexpr std::string_view kStateFailures[] = {"disk_full",   "too_many_files", "access_denied", "gone",   "io_error",
                                               "sync_failed", "damaged",        "missing",       "format", "other"};
constexpr std::string_view kStages[] = {"assemble", "validate", "csr", "renumber", "profile", "publish", "other"};

// The index of a value; of unknown ones the last, "other".
template <size_t N>
size_t IndexOf(const std::string_view (&values)[N], std::string_view value) {
  size_t i = 0;
  while (i + 1 < N && values[i] != value) ++i;
  return i;
}

// The series of a fixed set of label values, made at the start; unknown values go to the last, "other".
template <size_t N>
class FixedHistograms {
 public:
  FixedHistograms(prometheus::Family<Histogram>& family, const std::string& label, const std::string_view (&values)[N])
      : values_(values) {
    for (size_t i = 0; i < N; ++i) series_[i] = &family.Add({{label, std::string(values[i])}}, Buckets());
  }
  Histogram& Of(std::string_view value) const { return *series_[IndexOf(values_, value)]; }

 private:
  const std::string_view (&values_)[N];
  Histogram* series_[N];
};

}  // namespace

struct Metrics::Impl {
  explicit Impl(const Options& options)
      : registry(std::make_shared<prometheus::Registry>()),
        requests(prometheus::BuildCounter()
                     .Name("vicinal_requests_total")
                     .Help("Finished calls, and finished requests on streams.")
                     .Register(*registry)),
        streams(prometheus::BuildCounter()
                    .Name("vicinal_streams_total")
                    .Help("Ended streams of requests.")
                    .Register(*registry)),
        durations(prometheus::BuildHistogram()
                      .Name("vicinal_request_duration_seconds")
                      .Help("Time of a call, from its first message to its status, or of a request on a stream.")
                      .Register(*registry)),
        rows(prometheus::BuildCounter()
                 .Name("vicinal_result_rows_total")
                 .Help("Rows of inference results.")
                 .Register(*registry)),
        labels(options.max_label_names, options.max_label_names, kPairsPerName * options.max_label_names),
        phases(prometheus::BuildHistogram()
                   .Name("vicinal_phase_duration_seconds")
                   .Help("Time of a phase of requests, and of each operation of plans.")
                   .Register(*registry),
               "phase", kPhases),
        stages(prometheus::BuildHistogram()
                   .Name("vicinal_graph_stage_duration_seconds")
                   .Help("Time of a stage of graph preparation.")
                   .Register(*registry),
               "stage", kStages),
        scrape(std::make_shared<Scrape>(options)) {
    auto& in_flight_family =
        prometheus::BuildGauge().Name("vicinal_requests_in_flight").Help("Calls under way.").Register(*registry);
    for (size_t i = 0; i < kMethodCount; ++i) in_flight[i] = &in_flight_family.Add({{"method", kMethods[i].name}});
    for (size_t i = 0; i < kMethodCount; ++i) {
      const auto method = static_cast<Method>(i);
      if (CarriesRequests(method)) CounterOf(streams, &streams_by_code, method, StatusCode::kOk);
    }
    auto& results = prometheus::BuildCounter()
                        .Name("vicinal_results_total")
                        .Help("Inference results, by what was computed for them.")
                        .Register(*registry);
    auto& nodes = prometheus::BuildCounter()
                      .Name("vicinal_computed_nodes_total")
                      .Help("Nodes whose features were read for inference results.")
                      .Register(*registry);
    for (size_t i = 0; i < std::size(kComputed); ++i) {
      computed_results[i] = &results.Add({{"computed", kComputed[i]}});
      computed_nodes[i] = &nodes.Add({{"computed", kComputed[i]}});
    }
    auto& passes = prometheus::BuildCounter()
                       .Name("vicinal_answer_passes_total")
                       .Help("Passes over all nodes whose rows were to be kept, by outcome.")
                       .Register(*registry);
    for (size_t i = 0; i < std::size(kPassOutcomes); ++i) {
      answer_passes[i] = &passes.Add({{"outcome", std::string(kPassOutcomes[i])}});
    }
    answer_seconds = &prometheus::BuildCounter()
                          .Name("vicinal_answer_seconds_total")
                          .Help("Time of passes over all nodes whose rows were to be kept.")
                          .Register(*registry)
                          .Add({});
    answers_evicted = &prometheus::BuildCounter()
                           .Name("vicinal_answers_evicted_total")
                           .Help("Kept answers that were dropped because memory was needed.")
                           .Register(*registry)
                           .Add({});
    auto& loads = prometheus::BuildHistogram()
                      .Name("vicinal_graph_load_duration_seconds")
                      .Help("Time to load a graph with its feature sets from disk, by outcome.")
                      .Register(*registry);
    const Histogram::BucketBoundaries load_seconds = {0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300};
    loads_succeeded = &loads.Add({{"outcome", "loaded"}}, load_seconds);
    loads_failed = &loads.Add({{"outcome", "failed"}}, load_seconds);
    graphs_evicted = &prometheus::BuildCounter()
                          .Name("vicinal_graphs_evicted_total")
                          .Help("Graphs that left memory because it was needed, and stay on disk.")
                          .Register(*registry)
                          .Add({});
    auto& returns = prometheus::BuildHistogram()
                        .Name("vicinal_graph_return_duration_seconds")
                        .Help("Time to copy a graph with its feature sets from the host to the device, by outcome.")
                        .Register(*registry);
    returns_succeeded = &returns.Add({{"outcome", "loaded"}}, load_seconds);
    returns_failed = &returns.Add({{"outcome", "failed"}}, load_seconds);
    graphs_left_device = &prometheus::BuildCounter()
                              .Name("vicinal_graphs_left_device_total")
                              .Help("Graphs that left the device because its memory was needed, and stay on the host.")
                              .Register(*registry)
                              .Add({});
    auto& compilations = prometheus::BuildCounter()
                             .Name("vicinal_kernel_compilations_total")
                             .Help("Kernels made for expressions of models, by outcome.")
                             .Register(*registry);
    for (size_t i = 0; i < std::size(kCompilationOutcomes); ++i) {
      kernel_compilations[i] = &compilations.Add({{"outcome", std::string(kCompilationOutcomes[i])}});
    }
    kernel_compilation_seconds = &prometheus::BuildCounter()
                                      .Name("vicinal_kernel_compilation_seconds_total")
                                      .Help("Time to make kernels for expressions of models.")
                                      .Register(*registry)
                                      .Add({});
    auto& failures = prometheus::BuildCounter()
                         .Name("vicinal_state_failures_total")
                         .Help("Operations on the state directory that failed, by kind.")
                         .Register(*registry);
    for (size_t i = 0; i < std::size(kStateFailures); ++i) {
      state_failures[i] = &failures.Add({{"kind", std::string(kStateFailures[i])}});
    }
    run_requests = &prometheus::BuildHistogram()
                        .Name("vicinal_run_requests")
                        .Help("Requests that one run answered.")
                        .Register(*registry)
                        .Add({}, std::vector<double>{1, 2, 4, 8, 16, 32, 64, 128, 256});
    auto& drops = prometheus::BuildCounter()
                      .Name("vicinal_requests_dropped_total")
                      .Help("Inference requests that were answered without being run.")
                      .Register(*registry);
    for (size_t i = 0; i < std::size(kDropReasons); ++i) {
      dropped[i] = &drops.Add({{"reason", std::string(kDropReasons[i])}});
    }
    auto& runs = prometheus::BuildCounter()
                     .Name("vicinal_tuning_runs_total")
                     .Help("Kinds of work whose kernels were tuned, by outcome.")
                     .Register(*registry);
    for (size_t i = 0; i < std::size(kTuningOutcomes); ++i) {
      tuning_runs[i] = &runs.Add({{"outcome", std::string(kTuningOutcomes[i])}});
    }
    auto& samples = prometheus::BuildCounter()
                        .Name("vicinal_tuning_samples_total")
                        .Help("Measured runs of tuning; disturbed ones are dropped.")
                        .Register(*registry);
    tuning_samples = &samples.Add({{"result", "counted"}});
    tuning_samples_dropped = &samples.Add({{"result", "dropped"}});
    tuning_seconds = &prometheus::BuildCounter()
                          .Name("vicinal_tuning_seconds_total")
                          .Help("Time of measured runs of tuning.")
                          .Register(*registry)
                          .Add({});
    auto& uploads = prometheus::BuildCounter()
                        .Name("vicinal_upload_bytes_total")
                        .Help("Bytes of accepted chunks.")
                        .Register(*registry);
    for (size_t i = 0; i < 3; ++i) upload_bytes[i] = &uploads.Add({{"kind", kUploadKinds[i]}});
  }

  // Created on first use: not every method ends with every code.
  struct ByCode {
    std::atomic<Counter*> of[kMethodCount][kCodes] = {};
  };
  static Counter& CounterOf(prometheus::Family<Counter>& family, ByCode* counters, Method method, StatusCode code) {
    const int index = std::min(std::max(static_cast<int>(code), 0), kCodes - 1);
    std::atomic<Counter*>& slot = counters->of[static_cast<size_t>(method)][index];
    Counter* counter = slot.load(std::memory_order_acquire);
    if (counter == nullptr) {
      counter = &family.Add({{"method", InfoOf(method).name}, {"code", kCodeNames[index]}});
      slot.store(counter, std::memory_order_release);
    }
    return *counter;
  }

  static constexpr const char* kUploadKinds[] = {"graph", "features", "model"};

  const std::shared_ptr<prometheus::Registry> registry;
  prometheus::Family<Counter>& requests;
  prometheus::Family<Counter>& streams;
  prometheus::Family<Histogram>& durations;
  prometheus::Family<Counter>& rows;
  ByCode requests_by_code, streams_by_code;
  std::atomic<Counter*> rows_by_method[kMethodCount] = {};
  Gauge* in_flight[kMethodCount];
  Counter* upload_bytes[3];
  Counter* computed_results[std::size(kComputed)];
  Counter* computed_nodes[std::size(kComputed)];
  Counter* answer_passes[std::size(kPassOutcomes)];
  Histogram* run_requests;
  Counter* dropped[std::size(kDropReasons)];
  Counter* answer_seconds;
  Counter* answers_evicted;
  Histogram *loads_succeeded, *loads_failed;
  Counter* graphs_evicted;
  Histogram *returns_succeeded, *returns_failed;
  Counter* graphs_left_device;
  Counter* kernel_compilations[std::size(kCompilationOutcomes)];
  Counter* kernel_compilation_seconds;
  Counter* state_failures[std::size(kStateFailures)];
  Counter* tuning_runs[std::size(kTuningOutcomes)];
  Counter* tuning_samples;
  Counter* tuning_samples_dropped;
  Counter* tuning_seconds;
  LabelCache<Histogram> labels;
  FixedHistograms<std::size(kPhases)> phases;
  FixedHistograms<std::size(kStages)> stages;
  const std::shared_ptr<Scrape> scrape;
};

Metrics::Metrics(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Metrics::~Metrics() = default;

void Metrics::BeginCall(Method method) { impl_->in_flight[static_cast<size_t>(method)]->Increment(); }

void Metrics::EndCall(Method method, StatusCode code, double seconds, std::string_view graph, std::string_view model) {
  impl_->in_flight[static_cast<size_t>(method)]->Decrement();
  EndRequest(method, code, seconds, graph, model);
}

void Metrics::EndStream(Method method, StatusCode code) {
  impl_->in_flight[static_cast<size_t>(method)]->Decrement();
  Impl::CounterOf(impl_->streams, &impl_->streams_by_code, method, code).Increment();
}

void Metrics::EndRequest(Method method, StatusCode code, double seconds, std::string_view graph,
                         std::string_view model) {
  Impl::CounterOf(impl_->requests, &impl_->requests_by_code, method, code).Increment();
  const auto make = [&](const std::string& graph_label, const std::string& model_label) {
    return &impl_->durations.Add({{"method", InfoOf(method).name}, {"graph", graph_label}, {"model", model_label}},
                                 Buckets());
  };
  impl_->labels.Get(method, graph, model, code == StatusCode::kOk, make).Observe(seconds);
}

namespace {

// The calls of one method, over all graphs and models.
struct MethodCalls {
  int64_t count = 0;
  double seconds = 0.0;
  std::map<double, int64_t> within;  // calls no longer than that bound

  double BoundOf(double share) const {
    double last = 0.0;
    for (const auto& [bound, calls] : within) {
      if (std::isfinite(bound)) last = bound;
      if (static_cast<double>(calls) >= share * static_cast<double>(count)) break;
    }
    return last;
  }
};

}  // namespace

std::vector<MethodLatency> Metrics::Latencies() const {
  std::map<std::string, MethodCalls> methods;
  for (const prometheus::MetricFamily& family : impl_->durations.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      for (const prometheus::ClientMetric::Label& label : metric.label) {
        if (label.name != "method") continue;
        MethodCalls& calls = methods[label.value];
        calls.count += static_cast<int64_t>(metric.histogram.sample_count);
        calls.seconds += metric.histogram.sample_sum;
        for (const auto& bucket : metric.histogram.bucket) {
          calls.within[bucket.upper_bound] += static_cast<int64_t>(bucket.cumulative_count);
        }
      }
    }
  }
  std::vector<MethodLatency> latencies;
  for (const MethodInfo& info : kMethods) {
    const auto found = methods.find(info.name);
    if (found == methods.end() || found->second.count == 0) continue;
    const MethodCalls& calls = found->second;
    latencies.push_back({info.name, calls.count, calls.seconds / static_cast<double>(calls.count), calls.BoundOf(0.5),
                         calls.BoundOf(0.99)});
  }
  return latencies;
}

void Metrics::UploadBytes(std::string_view kind, int64_t bytes) {
  for (size_t i = 0; i < 3; ++i) {
    if (kind == Impl::kUploadKinds[i]) impl_->upload_bytes[i]->Increment(static_cast<double>(bytes));
  }
}

void Metrics::ResultRows(Method method, int64_t rows) {
  std::atomic<Counter*>& slot = impl_->rows_by_method[static_cast<size_t>(method)];
  Counter* counter = slot.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = &impl_->rows.Add({{"method", InfoOf(method).name}});
    slot.store(counter, std::memory_order_release);
  }
  counter->Increment(static_cast<double>(rows));
}

void Metrics::RunRequests(int64_t requests) { impl_->run_requests->Observe(static_cast<double>(requests)); }

void Metrics::Computed(ComputedOver over, double nodes) {
  impl_->computed_results[static_cast<size_t>(over)]->Increment();
  impl_->computed_nodes[static_cast<size_t>(over)]->Increment(nodes);
}

void Metrics::AnswerPass(std::string_view outcome, double seconds) {
  impl_->answer_passes[IndexOf(kPassOutcomes, outcome)]->Increment();
  impl_->answer_seconds->Increment(seconds);
}

void Metrics::RequestDropped(std::string_view reason) { impl_->dropped[IndexOf(kDropReasons, reason)]->Increment(); }

void Metrics::AnswersEvicted() { impl_->answers_evicted->Increment(); }

void Metrics::GraphLoaded(std::string_view outcome, double seconds) {
  (outcome == "loaded" ? impl_->loads_succeeded : impl_->loads_failed)->Observe(seconds);
}

void Metrics::GraphEvicted() { impl_->graphs_evicted->Increment(); }

void Metrics::GraphLeftDevice() { impl_->graphs_left_device->Increment(); }

void Metrics::GraphReturned(std::string_view outcome, double seconds) {
  (outcome == "loaded" ? impl_->returns_succeeded : impl_->returns_failed)->Observe(seconds);
}

void Metrics::KernelCompiled(std::string_view outcome, double seconds) {
  impl_->kernel_compilations[IndexOf(kCompilationOutcomes, outcome)]->Increment();
  impl_->kernel_compilation_seconds->Increment(seconds);
}

CompiledKernelCounts Metrics::CompiledKernels() const {
  const auto of = [this](std::string_view outcome) {
    return static_cast<int64_t>(impl_->kernel_compilations[IndexOf(kCompilationOutcomes, outcome)]->Value());
  };
  return {of("compiled"), of("kept"), of("failed"), of("unloaded"), impl_->kernel_compilation_seconds->Value()};
}

void Metrics::StateFailure(std::string_view kind) { impl_->state_failures[IndexOf(kStateFailures, kind)]->Increment(); }

void Metrics::TuningRun(std::string_view outcome, double seconds, int64_t samples, int64_t dropped_samples) {
  impl_->tuning_runs[IndexOf(kTuningOutcomes, outcome)]->Increment();
  impl_->tuning_seconds->Increment(seconds);
  impl_->tuning_samples->Increment(static_cast<double>(samples - dropped_samples));
  impl_->tuning_samples_dropped->Increment(static_cast<double>(dropped_samples));
}

void Metrics::StageSeconds(std::string_view stage, double seconds) { impl_->stages.Of(stage).Observe(seconds); }
void Metrics::PhaseSeconds(std::string_view phase, double seconds) { impl_->phases.Of(phase).Observe(seconds); }
void Metrics::QueueDepth(int64_t) {}  // read from the engine at the scrape

void Metrics::SetDevice(const std::string& device, std::shared_ptr<const Nvml> gpu) {
  impl_->scrape->SetDevice(device, std::move(gpu));
}
void Metrics::SetSource(std::function<StateSnapshot()> source) { impl_->scrape->SetSource(std::move(source)); }

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry->Collect();
  for (prometheus::MetricFamily& family : impl_->scrape->Collect()) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace vicinal::server
