// SPDX-License-Identifier: Apache-2.0
// Counts and times per model for ModelStatistics. Bounded: beyond kMostModels the one that was asked longest ago is
// forgotten.
#ifndef VICINAL_SERVER_OPEN_INFERENCE_INFER_STATISTICS_H_
#define VICINAL_SERVER_OPEN_INFERENCE_INFER_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "inference/grpc_inference.pb.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::server {

// Thread-safe.
class InferStatistics {
 public:
  static constexpr size_t kMostModels = 1000;

  // A request was answered after `seconds`; `timing` says where they went.
  void Succeeded(const std::string& name, int64_t version, const v1::Timing& timing, double seconds, WallTime now);
  void Failed(const std::string& name, double seconds, WallTime now);

  // Of one model; zeros if it was never asked.
  inference::ModelStatistics Of(const std::string& name) const;
  // Of all that were asked, sorted by name.
  std::vector<inference::ModelStatistics> All() const;

 private:
  struct Duration {
    uint64_t count = 0;
    double seconds = 0.0;
    void Add(double more) { ++count, seconds += more; }
  };
  struct Entry {
    int64_t version = 0;
    WallTime last{}, last_success{};
    double runs = 0.0;  // each request's part of the run that it shared
    Duration success, fail, queue, plan, execute, rest, kept;
  };
  Entry& Touch(const std::string& name, WallTime now) VICINAL_REQUIRES(mutex_);
  static void Set(const Duration& duration, inference::StatisticDuration* out);
  static inference::ModelStatistics ToProto(const std::string& name, const Entry& entry);

  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_OPEN_INFERENCE_INFER_STATISTICS_H_
