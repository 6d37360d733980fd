// SPDX-License-Identifier: Apache-2.0
// The parts of an upload that do not depend on what is uploaded.
#include "client/cpp/upload.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "proto/wire/tensors.h"

namespace vicinal::client::internal {

bool MayGoOn(const absl::Status& status) {
  if (IsBrokenOff(status)) return true;
  // ABORTED with an offset is about a chunk; without, about a version, which sending again does not fix.
  return absl::IsAborted(status) && DetailsOf(status).metadata.count("offset") != 0;
}

bool MayGoOnLater(const absl::Status& status) {
  return MayGoOn(status) || absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

std::string RandomUploadId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, i == 0 ? "" : "-", absl::Hex(random(), absl::kZeroPad8));
  return id;
}

absl::Status CheckTensors(const std::vector<UploadTensor>& tensors) {
  for (const UploadTensor& tensor : tensors) {
    const absl::StatusOr<int64_t> size = wire::ByteSize(tensor.dtype, tensor.shape);
    if (!size.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "': ", size.status().message()));
    }
    if (static_cast<uint64_t>(*size) != tensor.data.size()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' of shape ",
                                                     wire::ShapeToString(tensor.shape), " needs ", *size,
                                                     " bytes, not ", tensor.data.size()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Offsets> OffsetsOf(const v1::Upload& upload, const std::vector<UploadTensor>& tensors) {
  Offsets offsets(tensors.size(), 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto size = static_cast<int64_t>(tensors[i].data.size());
    if (upload.state() == v1::Upload::STATE_FINISHED) {
      offsets[i] = size;
      continue;
    }
    bool found = false;
    for (const v1::TensorProgress& progress : upload.tensors()) {
      if (progress.name() != tensors[i].name) continue;
      found = progress.size_bytes() == size && progress.received_bytes() >= 0 && progress.received_bytes() <= size;
      offsets[i] = progress.received_bytes();
    }
    if (!found) {
      return absl::InvalidArgumentError(absl::StrCat(
          "upload '", upload.upload_id(), "' was started with other tensors: '", tensors[i].name, "' differs"));
    }
  }
  return offsets;
}

}  // namespace vicinal::client::internal
