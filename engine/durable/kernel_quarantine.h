// SPDX-License-Identifier: Apache-2.0
// Keeps kernel configurations that hurt from hurting again. Before a configuration runs for the first time on this kind
// of device, a mark is written to disk; it goes when the run has ended. A configuration is quarantined after an error
// of the device, or when two processes ended while it ran for the first time: one that was killed during a healthy run
// proves nothing.
#ifndef VICINAL_ENGINE_DURABLE_KERNEL_QUARANTINE_H_
#define VICINAL_ENGINE_DURABLE_KERNEL_QUARANTINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/state/file_system.h"
#include "engine/state/kernel_marks.h"
#include "engine/tune/first_runs.h"

namespace vicinal::durable {

// Thread-safe.
class KernelQuarantine final : public FirstRuns {
 public:
  // All must outlive the object.
  struct Parts {
    state::FileSystem* files = nullptr;  // which nobody else writes; null: this process alone remembers
    // Of a state directory that another server writes: what is quarantined there does not run here. Read once. May be
    // null.
    const state::FileSystem* followed = nullptr;
    std::string device;  // the kind of processor or GPU
    std::string build;   // of the kernels: what ended well in another build is run for the first time again
    Logger* logger = nullptr;
    StatsSink* stats = nullptr;
    // A configuration was quarantined, on the thread that told of its run. May be empty.
    std::function<void(const std::string& configuration)> on_quarantine = {};
  };
  // Reads the marks that earlier processes left, and counts those of runs that never ended.
  explicit KernelQuarantine(Parts parts);

  std::string WhyQuarantined(const std::string& configuration) const override;
  int64_t revision() const override { return revision_.load(std::memory_order_acquire); }
  bool HasEndedWell(const std::string& configuration) const override;
  void Begin(const std::string& configuration) override;
  void End(const std::string& configuration, const Status& run) override;
  void Doubt(const std::vector<std::string>& configurations) override;

  int64_t count() const;  // of quarantined configurations

 private:
  void Read() VICINAL_REQUIRES(mutex_);
  void ReadFollowed() VICINAL_REQUIRES(mutex_);
  // Counts the runs that never ended.
  void CountInterrupted() VICINAL_REQUIRES(mutex_);
  // A mark that cannot be written keeps nothing from running: it is logged and counted.
  void Write() VICINAL_REQUIRES(mutex_);
  void Quarantine(const std::string& configuration, const std::string& reason) VICINAL_REQUIRES(mutex_);

  const Parts parts_;
  std::atomic<int64_t> revision_{0};
  mutable Mutex mutex_;
  state::KernelMarks marks_ VICINAL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> followed_ VICINAL_GUARDED_BY(mutex_);  // quarantined by the writer, and why
  bool may_write_ VICINAL_GUARDED_BY(mutex_) = true;                        // false: the file is of a newer format
};

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_KERNEL_QUARANTINE_H_
