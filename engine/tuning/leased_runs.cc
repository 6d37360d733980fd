// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/leased_runs.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/execute/awaited.h"

namespace vicinal {
namespace {

// Attempts at an undisturbed sample; after that the round continues without it.
constexpr int kTries = 4;

// As `part`, which may run on the executor's thread and must not throw there.
Status Caught(const std::function<Status()>& part) try { return part(); } catch (const std::bad_alloc&) {
  return NoMemoryToTune();
}

Status NotCompiled() {
  return MakeError(StatusCode::kUnavailable,
                   absl::StrCat("not measured: its kernels were not compiled within ", kLongestCompilation,
                                " s; tune again when the compiler has less to do"),
                   {});
}

// What FirstRuns hears of a part of a preparation: that it ended well says nothing about the kernel's own runs.
Status NotProven(const Status& part) { return part.ok() ? absl::CancelledError("prepared, and not run") : part; }

}  // namespace

StatusOr<LeasedRuns::Sampled> LeasedRuns::Sample(const Trial& trial, int candidate, int64_t turn) {
  Sampled sampled;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (stopping_()) return TuningStopped();
    if (!tools_.is_current(*job_.graph)) return TunedGraphGone();
    VICINAL_ASSIGN_OR_RETURN(const Tried tried, RunWatched(trial, candidate, turn));
    const double seconds = tried.sample.seconds;
    used_ += tried.used_seconds;
    ++samples_;
    if (!tried.stopped && !tried.sample.disturbed) {
      sampled.seconds = seconds;
      break;
    }
    ++sampled.dropped;
    if (tried.stopped) continue;
    sampled.seconds = std::min(sampled.seconds.value_or(seconds), seconds);
  }
  if (sampled.dropped == kTries && sampled.seconds.has_value()) --sampled.dropped;
  dropped_ += sampled.dropped;
  return sampled;
}

Status LeasedRuns::Prepare(const std::string& configuration, KernelPreparation* preparation) {
  using Part = KernelPreparation::Part;
  bool first = false;  // the next run is the first one of what was loaded
  while (preparation->next() != Part::kDone) {
    if (stopping_()) return TuningStopped();
    if (!tools_.is_current(*job_.graph)) return TunedGraphGone();
    const bool load = preparation->next() == Part::kLoad;
    VICINAL_RETURN_IF_ERROR(load ? LoadPart(configuration, preparation) : RunPart(configuration, first, preparation));
    first = load;
  }
  return OkStatus();
}

Status LeasedRuns::LoadPart(const std::string& configuration, KernelPreparation* preparation) {
  if (tools_.first_runs != nullptr) tools_.first_runs->Begin(configuration);
  Status loaded = Caught([&] { return preparation->Load(); });
  if (tools_.first_runs != nullptr) tools_.first_runs->End(configuration, NotProven(loaded));
  return loaded;
}

// Marks cost a write to the disk, for which requests would wait: only the first run has one.
Status LeasedRuns::RunPart(const std::string& configuration, bool first, KernelPreparation* preparation) {
  bool marked = false;
  const auto mark = [&] {
    if (tools_.first_runs != nullptr && !std::exchange(marked, true)) tools_.first_runs->Begin(configuration);
  };
  Awaited<Status> outcome;
  executor_.SubmitBackground({"tuning", [&](const Status& admitted, DeviceContext&, const Lease&) {
                                if (!admitted.ok()) return outcome.Set(admitted);
                                if (first) mark();
                                const MonotonicTime begin = tools_.clock->Now();
                                Status ran = Caught([&] { return preparation->Run(); });
                                used_ += SecondsBetween(begin, tools_.clock->Now());
                                outcome.Set(std::move(ran));
                              }});
  Status ran = outcome.Take();
  if (ran.code() == StatusCode::kInternal) mark();  // so that the failure can be told
  if (marked) tools_.first_runs->End(configuration, NotProven(ran));
  return ran;
}

Status LeasedRuns::AwaitCode(const ExpressionCompilation& compilation) const {
  const MonotonicTime begin = tools_.clock->Now();
  while (true) {
    if (stopping_()) return TuningStopped();
    if (!tools_.is_current(*job_.graph)) return TunedGraphGone();
    if (compilation.Await(kCompilationLook)) return OkStatus();
    if (SecondsBetween(begin, tools_.clock->Now()) >= kLongestCompilation) return NotCompiled();
  }
}

StatusOr<LeasedRuns::Tried> LeasedRuns::RunWatched(const Trial& trial, int candidate, int64_t turn) {
  StatusOr<Tried> tried = RunInLease(trial, candidate, turn);
  if (tools_.first_runs == nullptr) return tried;
  const std::string name = ConfigurationName(job_.work.key, trial.candidates()[candidate]);
  const bool cut_short = tried.ok() && tried->stopped;
  tools_.first_runs->End(name, cut_short ? absl::CancelledError("a request came") : tried.status());
  return tried;
}

StatusOr<LeasedRuns::Tried> LeasedRuns::RunInLease(const Trial& trial, int candidate, int64_t turn) {
  Awaited<StatusOr<Tried>> outcome;
  // The mark of a first run is written when the executor is free, not before: while requests keep the run waiting, an
  // end of the process says nothing about the kernel.
  executor_.SubmitBackground(
      {"tuning", [&](const Status& admitted, DeviceContext& context, const Lease& lease) {
         if (admitted.ok() && tools_.first_runs != nullptr) {
           tools_.first_runs->Begin(ConfigurationName(job_.work.key, trial.candidates()[candidate]));
         }
         outcome.Set(admitted.ok() ? MeasureOne(trial, candidate, turn, context, lease) : admitted);
       }});
  return outcome.Take();
}

// On the executor's thread, so it must not throw. When a request arrives, loops on the CPU stop early: on a shared
// machine, a run may take ten times what was predicted.
StatusOr<LeasedRuns::Tried> LeasedRuns::MeasureOne(const Trial& trial, int candidate, int64_t turn,
                                                   DeviceContext& context, const Lease& lease) try {
  const std::function<bool()> wanted = [&lease] { return lease.ShouldStop(); };
  const ThreadPool::StopScope loops(context.thread_pool(), wanted);
  const MonotonicTime begin = tools_.clock->Now();
  trial.Renew(turn, context);
  const double renewing = SecondsBetween(begin, tools_.clock->Now());
  const auto run = [&] { return trial.Run(candidate, turn, context); };
  VICINAL_ASSIGN_OR_RETURN(const RunSample sample,
                           tools_.meter->Measure(job_.work.key, trial.candidates()[candidate].setting, run));
  // The budget counts the executor's time on the clock, not only what the meter reports.
  const double passed = SecondsBetween(begin, tools_.clock->Now());
  return Tried{sample, std::max(passed, renewing + sample.seconds), lease.ShouldStop()};
} catch (const std::bad_alloc&) {
  return NoMemoryToTune();
}

}  // namespace vicinal
