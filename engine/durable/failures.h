// SPDX-License-Identifier: Apache-2.0
// What a failure of the state directory means: how metrics call it, and whether it can pass by itself.
#ifndef VICINAL_ENGINE_DURABLE_FAILURES_H_
#define VICINAL_ENGINE_DURABLE_FAILURES_H_

#include <string_view>

#include "engine/base/status.h"
#include "engine/state/state_directory.h"

namespace vicinal::durable {

// The `kind` of vicinal_state_failures_total: disk_full, too_many_files, access_denied, gone (the whole directory),
// io_error, sync_failed, damaged, missing (a file), format (of a newer build); other.
std::string_view FailureKind(const Status& error);

// Whether the same operation may succeed later, on files of its own: there is space again, the directory can be written
// again. Never after the disk reported an error: nobody knows what it kept.
bool CanPass(const Status& error);

// What requests are told of a version that is in quarantine, in the life that moved it there and in all later ones:
// DATA_LOSS (STATE_DAMAGED).
Status LostError(const state::LostVersion& lost);

// Whether a version that could not be read may be readable later.
bool MayBeReadable(const Status& error);

// No space or over quota.
bool IsDiskFull(const Status& error);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_FAILURES_H_
