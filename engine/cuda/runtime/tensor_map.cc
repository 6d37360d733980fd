// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/runtime/tensor_map.h"

namespace vicinal::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, looked up at run time as libcuda is not linked. Null if it does not exist.
Encode FindEncode() {
  constexpr unsigned kSince = 12000;  // the CUDA version that introduced it
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault, &result);
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

CUtensorMapSwizzle SwizzleOf(int64_t row_floats) {
  return row_floats == 32 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
}

}  // namespace

cudaError_t DescribeBoxes(const float* data, const BoxedDimension* dimensions, int count, bool swizzled,
                          CUtensorMap* map) {
  static const Encode encode = FindEncode();
  if (encode == nullptr) return cudaErrorNotSupported;
  cuuint64_t extents[3], strides[2];
  cuuint32_t boxes[3], steps[3];
  for (int i = 0; i < count; ++i) {
    extents[i] = static_cast<cuuint64_t>(dimensions[i].extent);
    boxes[i] = static_cast<cuuint32_t>(dimensions[i].box);
    steps[i] = 1;
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(dimensions[i].stride) * sizeof(float);
  }
  const CUresult result = encode(
      map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, static_cast<cuuint32_t>(count), const_cast<float*>(data), extents, strides,
      boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzled ? SwizzleOf(dimensions[0].box) : CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace vicinal::cuda
