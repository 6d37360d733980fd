// SPDX-License-Identifier: Apache-2.0
// How the thread that writes to disk stands back behind those that answer queries.
#ifndef VICINAL_ENGINE_DURABLE_WRITER_THREAD_H_
#define VICINAL_ENGINE_DURABLE_WRITER_THREAD_H_

namespace vicinal::durable {

// A wish of the calling thread, for the rest of its life: a tenth of a core while others of the process want it, and to
// make way at once when one of them wakes. Without effect where the kernel refuses.
void StandBackBehindQueries();

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_WRITER_THREAD_H_
