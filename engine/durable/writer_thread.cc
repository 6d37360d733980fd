// SPDX-License-Identifier: Apache-2.0
// Linux (EEVDF, since 6.6) lets a thread run to the end of its slice, although one with a better claim has woken: a
// query that met the writer waited for 1 to 1.5 ms. Since 6.12 a waking thread interrupts one that asked for a longer
// slice than its own. 4 ms are just longer than the default (0.7 ms, times 2 on two cores, times 4 from eight on); with
// more, the process as a whole waits longer for a core that other processes want, too
// (docs/notebook/durable_writes.md).
#include "engine/durable/writer_thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace vicinal::durable {
namespace {

constexpr int kNice = 10;
constexpr uint64_t kSliceNanoseconds = 4'000'000;

// struct sched_attr of the kernel, in its first version, which glibc 2.36 does not declare.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = kNice;
  uint32_t priority = 0;
  uint64_t runtime = kSliceNanoseconds;
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

void StandBackBehindQueries() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()),
                    kNice);  // where a filter of system calls allows this alone
}

}  // namespace vicinal::durable
