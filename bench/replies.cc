// SPDX-License-Identifier: Apache-2.0
// Times the making of Classify's replies from logits: classes, scores and probabilities into the message's bytes. In
// the same run it times the plain way, one row after the other with std::exp and std::partial_sort through arrays of
// their own, as the server did before, and prints the ratio.
//   vicinal_bench_replies [--threads N] [--budget_ms MS] [--json FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "engine/base/thread_pool.h"
#include "server/handlers/encode_result.h"
#include "tests/split_mix.h"

namespace vicinal::bench {
namespace {

struct Case {
  const char* name;
  int64_t rows, classes;
  server::ClassifyWants wants;
  bool multi_label;
};

constexpr Case kCases[] = {
    {"Flickr, top 1", 7575, 7, {1, false, false}, false},
    {"Flickr, top 3 and probabilities", 7575, 7, {3, false, true}, false},
    {"10 nodes, top 1", 10, 7, {1, false, false}, false},
    {"40 classes, top 5", 169343, 40, {5, false, false}, false},
    {"1,000 classes, top 5", 5000, 1000, {5, false, false}, false},
    {"112 labels, top 3 and probabilities", 50000, 112, {3, false, true}, true},
};

InferenceResult Logits(const Case& c) {
  InferenceResult result;
  result.rows = c.rows;
  result.width = c.classes;
  result.multi_label = c.multi_label;
  testing::SplitMix64 random(7);
  result.values.resize(static_cast<size_t>(c.rows * c.classes));
  for (float& x : result.values) x = static_cast<float>(16 * random.Unit() - 8);
  return result;
}

double PlainProbability(const float* row, int64_t c, bool multi_label, double largest, double sum) {
  return multi_label ? 1 / (1 + std::exp(-static_cast<double>(row[c]))) : std::exp(row[c] - largest) / sum;
}

void Plain(const InferenceResult& result, const server::ClassifyWants& wants, v1::ClassifyResponse* response) {
  const int64_t classes = result.width, k = wants.top_k;
  std::vector<int32_t> top, order(static_cast<size_t>(classes));
  std::vector<float> scores, probabilities;
  for (int64_t r = 0; r < result.rows; ++r) {
    const float* const row = result.values.data() + r * classes;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [row](int32_t a, int32_t b) {
      const bool a_nan = std::isnan(row[a]), b_nan = std::isnan(row[b]);
      if (a_nan != b_nan) return b_nan;
      return !a_nan && row[a] != row[b] ? row[a] > row[b] : a < b;
    });
    double sum = 0;
    const double largest = row[order[0]];
    for (int64_t c = 0; c < classes && !result.multi_label; ++c) sum += std::exp(row[c] - largest);
    const auto probability = [&](int64_t c) {
      return static_cast<float>(PlainProbability(row, c, result.multi_label, largest, sum));
    };
    for (int64_t i = 0; i < k; ++i) {
      top.push_back(order[i]);
      scores.push_back(probability(order[i]));
    }
    for (int64_t c = 0; c < classes && wants.probabilities; ++c) probabilities.push_back(probability(c));
  }
  const auto set = [](const auto& values, v1::Tensor* tensor) {
    tensor->mutable_data()->assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  set(top, response->mutable_classes());
  set(scores, response->mutable_scores());
  if (wants.probabilities) set(probabilities, response->mutable_probabilities());
}

nlohmann::json Time(const Case& c, ThreadPool* pool, double budget_ms) {
  const InferenceResult result = Logits(c);
  const StopCheck never = [] { return OkStatus(); };
  v1::ClassifyResponse response, plain;
  const Timing now = Measure(
      [&] {
        response.Clear();
        if (!server::EncodeClasses(result, c.wants, 0, c.rows, never, pool, &response).ok()) std::exit(1);
      },
      budget_ms);
  const Timing before = Measure(
      [&] {
        plain.Clear();
        Plain(result, c.wants, &plain);
      },
      budget_ms);
  if (response.classes().data() != plain.classes().data()) {
    std::fprintf(stderr, "%s: other classes than the plain way\n", c.name);
    std::exit(1);
  }
  const double ratio = before.median_us / now.median_us;
  const double per_logit = 1000 * now.median_us / static_cast<double>(c.rows * c.classes);
  std::printf("%-40s %11.1f %7.1f%% %9.2f %11.1f %7.1f%% %8.1f\n", c.name, now.median_us, 100 * now.spread, per_logit,
              before.median_us, 100 * before.spread, ratio);
  return {{"case", c.name},
          {"rows", c.rows},
          {"classes", c.classes},
          {"top_k", c.wants.top_k},
          {"probabilities", c.wants.probabilities},
          {"multi_label", c.multi_label},
          {"median_us", now.median_us},
          {"spread", now.spread},
          {"samples", now.samples},
          {"plain_median_us", before.median_us},
          {"plain_spread", before.spread},
          {"plain_over_this", ratio}};
}

}  // namespace

int Main(int argc, char** argv) {
  int threads = 1;
  double budget_ms = 500;
  std::string json;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--threads") {
      threads = std::max(1, std::atoi(value));
    } else if (flag == "--budget_ms") {
      budget_ms = std::atof(value);
    } else if (flag == "--json" && *value != '\0') {
      json = value;
    } else {
      std::fprintf(stderr, "usage: vicinal_bench_replies [--threads N] [--budget_ms MS] [--json FILE]\n");
      return 2;
    }
  }
  ThreadPool pool(threads);
  std::printf("%d threads\n%-40s %11s %8s %9s %11s %8s %8s\n", threads, "case", "median us", "spread", "ns/logit",
              "plain us", "spread", "ratio");
  nlohmann::json cases = nlohmann::json::array();
  for (const Case& c : kCases) cases.push_back(Time(c, &pool, budget_ms));
  if (json.empty()) return 0;
  std::ofstream file(json);
  file << nlohmann::json({{"bench", "replies"}, {"threads", threads}, {"results", cases}}).dump(1) << "\n";
  return file.good() ? 0 : 1;
}

}  // namespace vicinal::bench

int main(int argc, char** argv) { return vicinal::bench::Main(argc, argv); }
