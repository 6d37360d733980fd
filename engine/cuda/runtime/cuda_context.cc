// SPDX-License-Identifier: Apache-2.0
// The lifetime of a context, recordings, timers and copies. A constructor cannot return an error, so errors of creation
// are kept and returned by every Prepare().
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/cuda/compile/compiled_kernels.h"
#include "engine/cuda/runtime/class_rows.h"
#include "engine/cuda/runtime/cuda_device.h"
#include "engine/cuda/runtime/cuda_error.h"
#include "engine/cuda/runtime/cuda_recording.h"
#include "engine/cuda/runtime/gather_sparse_rows.h"

namespace vicinal::cuda {
namespace {

uint64_t NextNumber() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// An open stream capture. Ends it on every path, and owns the captured graph.
class OpenRecording {
 public:
  explicit OpenRecording(cudaStream_t stream, std::function<void()> ended)
      : stream_(stream), ended_(std::move(ended)) {}
  ~OpenRecording() {
    if (open_) (void)End();
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  OpenRecording(const OpenRecording&) = delete;
  OpenRecording& operator=(const OpenRecording&) = delete;

  Status End() {
    open_ = false;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph_);
    ended_();
    return CudaStatus(error, "recording");
  }
  cudaGraph_t graph() const { return graph_; }

 private:
  const cudaStream_t stream_;
  const std::function<void()> ended_;
  bool open_ = true;
  cudaGraph_t graph_ = nullptr;
};

Status CannotRecord(const Status& why) {
  if (DetailOf(why)->reason == kDeviceLostReason) return why;
  return FailedPrecondition(kCannotRecordReason, std::string(why.message()));
}

}  // namespace

CudaContext::CudaContext(CudaDevice& device, bool urgent)
    : device_(device), number_(NextNumber()), created_(Create(urgent)) {
  device_.Register(this);
}

CudaContext::~CudaContext() {
  device_.Unregister(this);
  if (!device_.MakeCurrent().ok()) return;
  if (target_.stream != nullptr) {
    cudaStreamSynchronize(target_.stream);
    cudaStreamDestroy(target_.stream);
  }
  if (target_.side_stream != nullptr) cudaStreamDestroy(target_.side_stream);
  for (cudaEvent_t event : {done_, target_.fork_event, target_.join_event}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
}

Status CudaContext::Create(bool urgent) {
  VICINAL_RETURN_IF_ERROR(device_.MakeCurrent());
  target_.limits = device_.limits();
  int least = 0, greatest = 0;  // the greatest priority is the least number
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities"));
  const auto make = [](int priority, cudaStream_t* stream) {
    return CudaStatus(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority), "making a stream");
  };
  // What runs on the side stream is long (rows of hubs), so it begins first; but not before an urgent context's work.
  VICINAL_RETURN_IF_ERROR(make(urgent ? greatest : least, &target_.stream));
  VICINAL_RETURN_IF_ERROR(make(urgent ? greatest : std::max(greatest, least - 1), &target_.side_stream));
  for (cudaEvent_t* event : {&done_, &target_.fork_event, &target_.join_event}) {
    VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event"));
  }
  VICINAL_ASSIGN_OR_RETURN(tickets_, device_.Allocate(kContextTickets * sizeof(int)));
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(cudaMemsetAsync(tickets_.data(), 0, tickets_.bytes(), target_.stream), "clearing the tickets"));
  target_.tickets = tickets_.as<int>();
  return CudaStatus(cudaStreamSynchronize(target_.stream), "making a context");
}

Device& CudaContext::device() { return device_; }

Status CudaContext::Prepare() {
  VICINAL_RETURN_IF_ERROR(created_);
  return device_.MakeCurrent();
}

Status CudaContext::Synchronize() {
  VICINAL_RETURN_IF_ERROR(Prepare());
  return CudaStatus(cudaStreamSynchronize(target_.stream), "waiting for the device");
}

Status CudaContext::CopyRowsToHost(float* host, ConstMatrixView src, const int64_t* rows, int64_t count) {
  VICINAL_RETURN_IF_ERROR(Prepare());
  return rows_to_host_.Copy(device_, target_.stream, host, src, rows, count);
}

bool CudaContext::RanksClasses(int64_t classes, int64_t top_k) const { return classes * top_k <= kMaxRankedReads; }

Status CudaContext::ClassRowsToHost(const ClassRowsJob& job) {
  VICINAL_RETURN_IF_ERROR(Prepare());
  return rows_to_host_.Rank(device_, target_.stream, job);
}

StatusOr<std::unique_ptr<Recording>> CudaContext::Record(const std::function<Status()>& launch) {
  VICINAL_RETURN_IF_ERROR(Prepare());
  VICINAL_RETURN_IF_ERROR(device_.BeginRecording(this));
  const uint64_t epoch = CompiledKernelsEpoch();
  RecordedCode::Collector code;
  target_.overlap = target_.limits.overlapping_launches();
  OpenRecording open(target_.stream, [this] { target_.overlap = false, device_.EndRecording(this); });
  const Status launched = launch();
  const Status ended = open.End();
  if (!launched.ok()) return CannotRecord(launched);
  if (!ended.ok()) return CannotRecord(ended);
  cudaGraphExec_t exec = nullptr;
  const Status made = CudaStatus(cudaGraphInstantiate(&exec, open.graph(), 0), "making a graph of what was recorded");
  if (!made.ok()) return CannotRecord(made);
  auto recording = std::make_unique<CudaRecording>(exec, number_, device_.ordinal(), epoch, code.Take());
  // Uploads the graph now, so that its first launch need not.
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaGraphUpload(exec, target_.stream), "sending a graph to the device"));
  return std::unique_ptr<Recording>(std::move(recording));
}

Status CudaContext::Replay(const Recording& recording) {
  const CudaRecording& graph = static_cast<const CudaRecording&>(recording);
  if (graph.context() != number_) return FailedPrecondition(kCannotRecordReason, "recorded by another context");
  if (graph.epoch() != CompiledKernelsEpoch()) {
    return FailedPrecondition(kCannotRecordReason, "recorded before a kernel was compiled; record again");
  }
  VICINAL_RETURN_IF_ERROR(Prepare());
  return CudaStatus(cudaGraphLaunch(graph.exec(), target_.stream), "launching a graph");
}

StatusOr<std::unique_ptr<DeviceTimer>> CudaContext::MakeTimer(int points) {
  VICINAL_RETURN_IF_ERROR(Prepare());
  return CudaTimer::Make(this, points);
}

Status CudaContext::SendPieces(void* dst, std::span<const HostPiece> pieces) {
  VICINAL_RETURN_IF_ERROR(Prepare());
  return pieces_to_device_.Send(target_.stream, dst, pieces);
}

Status CudaContext::GatherSparseRows(const CsrView& src, const int64_t* rows, const SparseRowsOut& out) {
  VICINAL_RETURN_IF_ERROR(Prepare());
  return CudaStatus(LaunchGatherSparseRows(src, rows, out, target_.stream), "gathering sparse rows");
}

}  // namespace vicinal::cuda
