// SPDX-License-Identifier: Apache-2.0
// A context that neither records nor times, in the host's memory: what the CPU is, and what tests begin from.
#include "engine/base/error.h"
#include "engine/device/device.h"

namespace vicinal {
namespace {

constexpr char kRunsAtOnce[] = "launches of this device run at once";
constexpr char kHostMemory[] = "this device works in the host's memory: nothing is sent to it";

}  // namespace

StatusOr<std::unique_ptr<Recording>> DeviceContext::Record(const std::function<Status()>&) {
  return FailedPrecondition(kCannotRecordReason, kRunsAtOnce);
}

Status DeviceContext::Replay(const Recording&) { return FailedPrecondition(kCannotRecordReason, kRunsAtOnce); }

StatusOr<std::unique_ptr<DeviceTimer>> DeviceContext::MakeTimer(int) {
  return FailedPrecondition(kCannotRecordReason, kRunsAtOnce);
}

Status DeviceContext::SendPieces(void*, std::span<const HostPiece>) { return Internal(kHostMemory); }

Status DeviceContext::GatherSparseRows(const CsrView&, const int64_t*, const SparseRowsOut&) {
  return Internal(kHostMemory);
}

}  // namespace vicinal
