// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/standard_headers.h"

namespace vicinal::cuda {
namespace {

constexpr char kIntegers[] = R"(#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t; typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
#define INT32_MAX 2147483647
namespace std { using ::int32_t; using ::int64_t; using ::size_t; using ::uint32_t; using ::uint64_t; using ::uintptr_t; }
)";

constexpr char kMath[] = R"(#pragma once
#define INFINITY (__int_as_float(0x7f800000))
namespace std { __host__ __device__ inline bool isnan(float x) { return x != x; }
__host__ __device__ inline bool isnan(double x) { return x != x; } }
)";

constexpr char kArray[] = R"(#pragma once
namespace std { template <class T, size_t kSize> struct array {
T at_[kSize];
__host__ __device__ T& operator[](size_t i) { return at_[i]; }
__host__ __device__ const T& operator[](size_t i) const { return at_[i]; }
friend bool operator==(const array&, const array&) = default; }; }
)";

constexpr char kAlgorithm[] = R"(#pragma once
namespace std {
template <class T> constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> constexpr const T& clamp(const T& x, const T& low, const T& high) { return x < low ? low : high < x ? high : x; } }
)";

// NVRTC knows the types.
constexpr char kRuntime[] = R"(#pragma once
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int);
)";

constexpr HeaderText kHeaders[] = {
    {"cstdint", kIntegers},
    {"cstddef", "#pragma once\nnamespace std { using ::size_t; }\n"},
    {"cmath", kMath},
    {"array", kArray},
    {"algorithm", kAlgorithm},
    {"string", "#pragma once\nnamespace std { struct string {}; }\n"},
    {"string_view", "#pragma once\nnamespace std { class string_view; }\n"},
    {"cuda_runtime_api.h", kRuntime},
};

}  // namespace

std::span<const HeaderText> StandardHeaders() { return kHeaders; }

}  // namespace vicinal::cuda
