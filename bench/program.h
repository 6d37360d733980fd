// SPDX-License-Identifier: Apache-2.0
// What programs that measure share: they end with the message of the first error, summarise samples, and write their
// results to a file.
#ifndef VICINAL_BENCH_PROGRAM_H_
#define VICINAL_BENCH_PROGRAM_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/parse.h"
#include "engine/base/status.h"

namespace vicinal::bench {

inline void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

template <class T>
T Must(StatusOr<T> value) {
  Must(value.status());
  return *std::move(value);
}

// The value at place q * (count - 1), rounded down. REQUIRES: values is not empty.
inline double Quantile(std::vector<double> values, double q) {
  const auto place = values.begin() + static_cast<int64_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// The upper one of the two in the middle, where there are two. REQUIRES: values is not empty.
inline double Median(std::vector<double> values) {
  const auto place = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// No file if `path` is empty.
inline void WriteResults(const std::string& path, const nlohmann::ordered_json& results) {
  if (!path.empty()) std::ofstream(path) << results.dump(2) << "\n";
}

// The status of a program with flags and one other word, which `run` gets.
template <class Run>
int RunWithWord(int argc, char** argv, const char* usage, const Run& run) {
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  if (words.size() != 2) {
    std::fprintf(stderr, "usage: %s\n", usage);
    return 2;
  }
  return run(words[1]);
}

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_PROGRAM_H_
