// SPDX-License-Identifier: Apache-2.0
// A context's life. Its creation cannot fail by signature, so an error is kept and returned by every Prepare.
#include "engine/cuda/cuda_device.h"
#include "engine/cuda/cuda_error.h"

namespace vicinal::cuda {

CudaContext::CudaContext(CudaDevice& device) : device_(device), created_(Create()) { device_.Register(this); }

CudaContext::~CudaContext() {
  device_.Unregister(this);
  if (!device_.MakeCurrent().ok()) return;
  if (target_.stream != nullptr) {
    cudaStreamSynchronize(target_.stream);
    cudaStreamDestroy(target_.stream);
  }
  if (done_ != nullptr) cudaEventDestroy(done_);
}

Status CudaContext::Create() {
  VICINAL_RETURN_IF_ERROR(device_.MakeCurrent());
  target_.multiprocessors = device_.multiprocessors();
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&target_.stream, cudaStreamNonBlocking), "making a stream"));
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "making an event"));
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

}  // namespace vicinal::cuda
