// SPDX-License-Identifier: Apache-2.0
// The engine's statistics interface. The engine does not depend on Prometheus: the server implements this interface.
#ifndef VICINAL_ENGINE_BASE_STATS_H_
#define VICINAL_ENGINE_BASE_STATS_H_

#include <cstdint>
#include <string_view>

namespace vicinal {

// Thread-safe. Implementations must be cheap (they run on the request path) and must not call back into the engine.
class StatsSink {
 public:
  virtual ~StatsSink() = default;

  // A stage of graph preparation took `seconds`: assemble, validate, csr, renumber, profile, publish.
  virtual void StageSeconds(std::string_view stage, double seconds) = 0;
  // A phase of a request took `seconds`: queue, plan, gather, encode, or a kind of step (aggregate, attention, ...).
  virtual void PhaseSeconds(std::string_view phase, double seconds) = 0;
  // The current number of requests waiting for the executor.
  virtual void QueueDepth(int64_t depth) = 0;
  // A request was answered without being run. `reason`: queue_full, client_full, overloaded, deadline_too_short (all
  // refused on arrival or, but for the first two, when their turn came), expired or cancelled (while they waited).
  virtual void RequestDropped(std::string_view reason) { (void)reason; }
  // A run ended that answered so many requests.
  virtual void RunRequests(int64_t requests) { (void)requests; }
  // The tuning of one kind of work on one graph ended. `outcome`: changed (another kernel or configuration serves now),
  // kept, failed, forced. `seconds` were spent on measured runs; `dropped_samples` of `samples` were disturbed and not
  // counted.
  virtual void TuningRun(std::string_view outcome, double seconds, int64_t samples, int64_t dropped_samples) {
    (void)outcome, (void)seconds, (void)samples, (void)dropped_samples;
  }

  // A pass over all nodes, whose rows were to be kept as answers, ended after `seconds`. `outcome`: kept, unchanged
  // (the rows that were kept have the bits of the new plan, too), interrupted (by requests; it will be repeated),
  // refused (no memory), failed; of a version that is about to serve: ahead (kept), late (the publication waits no
  // longer).
  virtual void AnswerPass(std::string_view outcome, double seconds) { (void)outcome, (void)seconds; }
  // Kept answers were dropped because memory was needed.
  virtual void AnswersEvicted() {}

  // Loading a graph from disk ended after `seconds`. `outcome`: loaded, failed.
  virtual void GraphLoaded(std::string_view outcome, double seconds) { (void)outcome, (void)seconds; }
  // A graph left memory, because that was needed; it stays on disk.
  virtual void GraphEvicted() {}
  // A graph left the device, because its memory was needed; it stays on the host.
  virtual void GraphLeftDevice() {}
  // Copying such a graph to the device again ended after `seconds`. `outcome`: loaded, failed.
  virtual void GraphReturned(std::string_view outcome, double seconds) { (void)outcome, (void)seconds; }

  // A backend made a kernel for one program of messages, or could not, after `seconds`. `outcome`: compiled; kept (by
  // a process with the same directory); failed (the program is interpreted); unloaded (of one that was made before).
  virtual void KernelCompiled(std::string_view outcome, double seconds) { (void)outcome, (void)seconds; }

  // The state directory could not be written or read. `kind`: disk_full, too_many_files, access_denied, gone, io_error,
  // sync_failed, damaged, missing, format; anything else is "other".
  virtual void StateFailure(std::string_view kind) { (void)kind; }

  // Discards everything.
  static StatsSink& Null();
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_STATS_H_
