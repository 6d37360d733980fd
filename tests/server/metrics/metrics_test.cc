// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/metrics.h"

#include <gtest/gtest.h>

#include <thread>

namespace vicinal::server {
namespace {

Metrics::Options WithLabels(int64_t names) {
  Metrics::Options options;
  options.max_label_names = names;
  options.version = "1.2.3";
  options.instruction_set = "TEST";
  return options;
}

void ExpectLine(const Metrics& metrics, const std::string& line) {
  EXPECT_NE(metrics.Text().find(line), std::string::npos) << line << "\nis not in\n" << metrics.Text();
}

TEST(MetricsTest, CallsAreCountedByMethodAndCode) {
  Metrics metrics(WithLabels(5));
  metrics.BeginCall(Method::kClassify);
  metrics.BeginCall(Method::kClassify);
  metrics.EndCall(Method::kClassify, StatusCode::kNotFound, 0.0002, "g", "m");
  ExpectLine(metrics, "vicinal_requests_in_flight{method=\"vicinal.v1.InferenceService/Classify\"} 1");
  ExpectLine(metrics, "vicinal_requests_total{code=\"NOT_FOUND\",method=\"vicinal.v1.InferenceService/Classify\"} 1");
  // Not answered: its names are no labels.
  ExpectLine(metrics,
             "vicinal_request_duration_seconds_count{graph=\"\",method=\"vicinal.v1.InferenceService/"
             "Classify\",model=\"\"} 1");
  metrics.EndCall(Method::kClassify, StatusCode::kOk, 0.0002, "g", "m");
  ExpectLine(metrics,
             "vicinal_request_duration_seconds_bucket{graph=\"g\",method=\"vicinal.v1.InferenceService/"
             "Classify\",model=\"m\",le=\"0.0003\"} 1");
  ExpectLine(metrics,
             "vicinal_request_duration_seconds_bucket{graph=\"g\",method=\"vicinal.v1.InferenceService/"
             "Classify\",model=\"m\",le=\"0.0001\"} 0");
}

TEST(MetricsTest, RequestsOnStreamsCountAsCallsDoAndStreamsApart) {
  Metrics metrics(WithLabels(5));
  metrics.BeginCall(Method::kInferStream);
  metrics.EndRequest(Method::kInferStream, StatusCode::kOk, 0.0002, "g", "m");
  metrics.EndRequest(Method::kInferStream, StatusCode::kOk, 0.0002, "g", "m");
  metrics.EndRequest(Method::kInferStream, StatusCode::kUnavailable, 0.0, "g", "m");
  ExpectLine(metrics, "vicinal_requests_in_flight{method=\"vicinal.v1.InferenceService/InferStream\"} 1");
  ExpectLine(metrics, "vicinal_streams_total{code=\"OK\",method=\"vicinal.v1.InferenceService/InferStream\"} 0");
  metrics.EndStream(Method::kInferStream, StatusCode::kCancelled);
  ExpectLine(metrics, "vicinal_requests_in_flight{method=\"vicinal.v1.InferenceService/InferStream\"} 0");
  ExpectLine(metrics, "vicinal_requests_total{code=\"OK\",method=\"vicinal.v1.InferenceService/InferStream\"} 2");
  ExpectLine(metrics,
             "vicinal_requests_total{code=\"UNAVAILABLE\",method=\"vicinal.v1.InferenceService/InferStream\"} 1");
  ExpectLine(metrics,
             "vicinal_request_duration_seconds_count{graph=\"g\",method=\"vicinal.v1.InferenceService/"
             "InferStream\",model=\"m\"} 3");
  ExpectLine(metrics, "vicinal_streams_total{code=\"CANCELLED\",method=\"vicinal.v1.InferenceService/InferStream\"} 1");
  EXPECT_EQ(metrics.Text().find("vicinal_requests_total{code=\"CANCELLED\""), std::string::npos);
}

TEST(MetricsTest, NamesBeyondTheBoundAreOther) {
  Metrics metrics(WithLabels(2));
  for (const char* graph : {"a", "b", "c", "d", "a"}) {
    metrics.BeginCall(Method::kEmbed);
    metrics.EndCall(Method::kEmbed, StatusCode::kOk, 1.0, graph, "m");
  }
  ExpectLine(metrics, "_count{graph=\"a\",method=\"vicinal.v1.InferenceService/Embed\",model=\"m\"} 2");
  ExpectLine(metrics, "_count{graph=\"other\",method=\"vicinal.v1.InferenceService/Embed\",model=\"m\"} 2");
  EXPECT_EQ(metrics.Text().find("graph=\"c\""), std::string::npos);
}

// Lines of the histogram of calls' durations, each series being 43.
int64_t DurationLines(const Metrics& metrics) {
  const std::string text = metrics.Text();
  int64_t count = 0;
  for (size_t at = 0; (at = text.find("\nvicinal_request_duration_seconds_", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(MetricsTest, PairsBeyondTheBoundAreOther) {
  Metrics metrics(WithLabels(3));
  const auto call = [&](Method method, const std::string& graph, const std::string& model) {
    metrics.BeginCall(method);
    metrics.EndCall(method, StatusCode::kOk, 1.0, graph, model);
  };
  for (const char* graph : {"a", "b", "c"}) {
    for (const char* model : {"m", "n", "o"}) call(Method::kEmbed, graph, model);
  }
  ExpectLine(metrics, "_count{graph=\"b\",method=\"vicinal.v1.InferenceService/Embed\",model=\"o\"} 1");
  ExpectLine(metrics, "_count{graph=\"other\",method=\"vicinal.v1.InferenceService/Embed\",model=\"other\"} 3");
  EXPECT_EQ(metrics.Text().find("graph=\"c\""), std::string::npos);
  // A pair that is named is so for every method; its name alone is not bound by pairs.
  call(Method::kClassify, "a", "m");
  call(Method::kTuneGraph, "c", "");
  ExpectLine(metrics, "_count{graph=\"a\",method=\"vicinal.v1.InferenceService/Classify\",model=\"m\"} 1");
  ExpectLine(metrics, "_count{graph=\"c\",method=\"vicinal.v1.GraphService/TuneGraph\",model=\"\"} 1");
}

// What docs/metrics.md promises, where clients do their worst.
TEST(MetricsTest, HowManySeriesThereCanBe) {
  constexpr int64_t kNames = 4, kLinesPerSeries = 43;
  Metrics metrics(WithLabels(kNames));
  const std::string names[] = {"", "p", "q", "r", "s", "t", "u"};
  for (size_t method = 0; method < kMethodCount; ++method) {
    for (const std::string& graph : names) {
      for (const std::string& model : names) {
        const Method m = static_cast<Method>(method);
        const bool both = InfoOf(m).role == Role::kInfer;
        metrics.BeginCall(m);
        metrics.EndCall(m, StatusCode::kOk, 1.0, both ? graph : "", both ? model : "");
      }
    }
  }
  int64_t naming = 0;
  for (const MethodInfo& method : kMethods) naming += method.role == Role::kInfer;
  const int64_t series_of_one = 2 * kNames + 1 + 2 * (kNames + 1) + 1;
  EXPECT_EQ(DurationLines(metrics),
            kLinesPerSeries * (naming * series_of_one + static_cast<int64_t>(kMethodCount) - naming));
}

TEST(MetricsTest, TheRest) {
  Metrics metrics(WithLabels(2));
  metrics.SetDevice("cpu", nullptr);
  metrics.UploadBytes("features", 7);
  metrics.ResultRows(Method::kClassify, 3);
  metrics.StageSeconds("csr", 0.5);
  metrics.PhaseSeconds("aggregate", 0.5);
  metrics.PhaseSeconds("something new", 0.5);
  metrics.Computed(ComputedOver::kReceptiveField, 12);
  metrics.Computed(ComputedOver::kReceptiveField, 3);
  metrics.Computed(ComputedOver::kFullGraph, 100);
  metrics.Computed(ComputedOver::kKeptAnswers, 0);
  metrics.AnswerPass("kept", 0.25);
  metrics.AnswerPass("something new", 0.5);
  metrics.AnswersEvicted();
  metrics.GraphLoaded("loaded", 0.25);
  metrics.GraphLoaded("failed", 0.5);
  metrics.GraphEvicted();
  metrics.GraphLeftDevice();
  metrics.GraphReturned("loaded", 0.125);
  metrics.GraphReturned("failed", 0.5);
  metrics.KernelCompiled("compiled", 2.5);
  metrics.KernelCompiled("compiled", 1.5);
  metrics.KernelCompiled("kept", 0.25);
  metrics.KernelCompiled("failed", 0.5);
  metrics.KernelCompiled("unloaded", 0.0);
  metrics.KernelCompiled("something new", 0.0);
  metrics.StateFailure("disk_full");
  metrics.StateFailure("disk_full");
  metrics.StateFailure("something new");
  metrics.TuningRun("changed", 0.25, 40, 3);
  metrics.TuningRun("kept", 0.5, 10, 0);
  metrics.TuningRun("something new", 0.0, 0, 0);
  metrics.SetSource([] {
    StateSnapshot state;
    state.graphs = 4;
    state.resident_graphs = 3;
    state.host_graphs = 2;
    state.device_bytes = 110;
    state.device_limit_bytes = 111;
    state.not_durable = 5;
    state.quarantined_kernels = 2;
    state.last_state_write_seconds = 1700000000.5;
    state.ready = true;
    state.busy_seconds = 1.5;
    state.answer_bytes = 12;
    state.kept_answers = 2;
    state.request_bytes = 13;
    state.upload_bytes = 11;
    state.on_disk = {101, 102, 103};
    state.on_host = {104, 105, 106};
    state.on_device = {107, 108, 109};
    state.launches = {{"aggregate", "simd_rows", "cpu", 9}};
    return state;
  });
  for (const char* line :
       {"vicinal_upload_bytes_total{kind=\"features\"} 7",
        "vicinal_result_rows_total{method=\"vicinal.v1.InferenceService/Classify\"} 3",
        "vicinal_graph_stage_duration_seconds_sum{stage=\"csr\"} 0.5",
        "vicinal_phase_duration_seconds_sum{phase=\"aggregate\"} 0.5",
        "vicinal_phase_duration_seconds_sum{phase=\"other\"} 0.5",
        "vicinal_executor_busy_seconds_total 1.5",
        "vicinal_results_total{computed=\"receptive_field\"} 2",
        "vicinal_results_total{computed=\"full_graph\"} 1",
        "vicinal_computed_nodes_total{computed=\"receptive_field\"} 15",
        "vicinal_computed_nodes_total{computed=\"full_graph\"} 100",
        "vicinal_results_total{computed=\"kept_answers\"} 1",
        "vicinal_answer_passes_total{outcome=\"kept\"} 1",
        "vicinal_answer_passes_total{outcome=\"other\"} 1",
        "vicinal_answer_seconds_total 0.75",
        "vicinal_answers_evicted_total 1",
        "vicinal_graph_load_duration_seconds_sum{outcome=\"loaded\"} 0.25",
        "vicinal_graph_load_duration_seconds_count{outcome=\"failed\"} 1",
        "vicinal_graphs_evicted_total 1",
        "vicinal_graphs_left_device_total 1",
        "vicinal_graph_return_duration_seconds_sum{outcome=\"loaded\"} 0.125",
        "vicinal_graph_return_duration_seconds_count{outcome=\"failed\"} 1",
        "vicinal_host_graphs 2",
        "vicinal_device_allocated_bytes 110",
        "vicinal_device_memory_limit_bytes 111",
        "vicinal_resident_graphs 3",
        "vicinal_kernel_compilations_total{outcome=\"compiled\"} 2",
        "vicinal_kernel_compilations_total{outcome=\"kept\"} 1",
        "vicinal_kernel_compilations_total{outcome=\"failed\"} 1",
        "vicinal_kernel_compilations_total{outcome=\"unloaded\"} 1",
        "vicinal_kernel_compilations_total{outcome=\"other\"} 1",
        "vicinal_kernel_compilation_seconds_total 4.75",
        "vicinal_state_failures_total{kind=\"disk_full\"} 2",
        "vicinal_state_failures_total{kind=\"other\"} 1",
        "vicinal_versions_not_durable 5",
        "vicinal_quarantined_kernels 2",
        "vicinal_state_last_write_timestamp_seconds 1700000000.5",
        "vicinal_memory_bytes{kind=\"answers\"} 12",
        "vicinal_kept_answers 2",
        "vicinal_tuning_runs_total{outcome=\"changed\"} 1",
        "vicinal_tuning_runs_total{outcome=\"kept\"} 1",
        "vicinal_tuning_runs_total{outcome=\"other\"} 1",
        "vicinal_tuning_seconds_total 0.75",
        "vicinal_tuning_samples_total{result=\"counted\"} 47",
        "vicinal_tuning_samples_total{result=\"dropped\"} 3",
        "vicinal_graphs 4",
        "vicinal_ready 1",
        "vicinal_memory_bytes{kind=\"requests\"} 13",
        "vicinal_memory_bytes{kind=\"uploads\"} 11",
        "vicinal_tier_bytes{tier=\"disk\",kind=\"graphs\"} 101",
        "vicinal_tier_bytes{tier=\"disk\",kind=\"features\"} 102",
        "vicinal_tier_bytes{tier=\"disk\",kind=\"models\"} 103",
        "vicinal_tier_bytes{tier=\"host\",kind=\"graphs\"} 104",
        "vicinal_tier_bytes{tier=\"host\",kind=\"features\"} 105",
        "vicinal_tier_bytes{tier=\"host\",kind=\"models\"} 106",
        "vicinal_tier_bytes{tier=\"device\",kind=\"graphs\"} 107",
        "vicinal_tier_bytes{tier=\"device\",kind=\"features\"} 108",
        "vicinal_tier_bytes{tier=\"device\",kind=\"models\"} 109",
        "vicinal_kernel_launches_total{operation=\"aggregate\",kernel=\"simd_rows\",device=\"cpu\"} 9",
        "vicinal_build_info{version=\"1.2.3\",device=\"cpu\",instruction_set=\"TEST\"} 1",
        "process_allocator_bytes{kind=\"in_use\"} ",
        "process_allocator_bytes{kind=\"mapped\"} ",
        "process_allocator_bytes{kind=\"free\"} ",
        "process_resident_memory_bytes "}) {
    ExpectLine(metrics, line);
  }
}

TEST(MetricsTest, StressCallsWhileScraped) {
  Metrics metrics(WithLabels(10));
  std::atomic<bool> stop{false};
  std::thread scraper([&] {
    while (!stop) EXPECT_FALSE(metrics.Text().empty());
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics, t] {
      for (int i = 0; i < 500; ++i) {
        const auto method = static_cast<Method>(i % kMethodCount);
        metrics.BeginCall(method);
        metrics.PhaseSeconds("queue", 0.001);
        metrics.ResultRows(method, 1);
        metrics.EndCall(method, static_cast<StatusCode>(i % 17), 0.001, "g" + std::to_string(i % 20),
                        "m" + std::to_string(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  scraper.join();
  ExpectLine(metrics, "vicinal_phase_duration_seconds_count{phase=\"queue\"} 2000");
}

}  // namespace
}  // namespace vicinal::server
