// SPDX-License-Identifier: Apache-2.0
// Reference row-wise operations: one function per kind, in double precision, rows in order. dst may be `a`, as each
// function reads all it needs of an element, row or segment before it stores to it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/reference.h"

namespace vicinal::internal {
namespace {

double Affine(const RowwiseArgs& args, double x, int64_t col) {
  return x * (args.scale != nullptr ? args.scale[col] : 1.0) + (args.shift != nullptr ? args.shift[col] : 0.0);
}

void Add(const RowwiseArgs& args) {
  for (int64_t i = 0; i < args.dst.rows; ++i) {
    for (int64_t d = 0; d < args.dst.cols; ++d) {
      args.dst.row(i)[d] = ReferenceEpilogue(args.epilogue, Affine(args, args.a.row(i)[d], d), i, d);
    }
  }
}

void Max(const RowwiseArgs& args) {
  for (int64_t i = 0; i < args.dst.rows; ++i) {
    for (int64_t d = 0; d < args.dst.cols; ++d) {
      const double larger = ReferenceExtreme(Reduce::kMax, args.a.row(i)[d], args.b.row(i)[d]);
      args.dst.row(i)[d] = ReferenceEpilogue(args.epilogue, larger, i, d);
    }
  }
}

void Multiply(const RowwiseArgs& args) {
  for (int64_t i = 0; i < args.dst.rows; ++i) {
    for (int64_t d = 0; d < args.dst.cols; ++d) {
      const double product = static_cast<double>(args.a.row(i)[d]) * args.b.row(i)[d];
      args.dst.row(i)[d] = ReferenceEpilogue(args.epilogue, product, i, d);
    }
  }
}

void Softmax(const RowwiseArgs& args, bool logarithm) {
  for (int64_t i = 0; i < args.dst.rows; ++i) {
    double most = args.dst.cols > 0 ? args.a.row(i)[0] : 0.0, sum = 0;
    for (int64_t d = 1; d < args.dst.cols; ++d) most = ReferenceExtreme(Reduce::kMax, most, args.a.row(i)[d]);
    for (int64_t d = 0; d < args.dst.cols; ++d) sum += std::exp(args.a.row(i)[d] - most);
    for (int64_t d = 0; d < args.dst.cols; ++d) {
      const double x = args.a.row(i)[d] - most;
      args.dst.row(i)[d] = static_cast<float>(logarithm ? x - std::log(sum) : std::exp(x) / sum);
    }
  }
}

void Normalize(const RowwiseArgs& args) {
  for (int64_t i = 0; i < args.dst.rows; ++i) {
    double squares = 0;
    for (int64_t d = 0; d < args.dst.cols; ++d) squares += static_cast<double>(args.a.row(i)[d]) * args.a.row(i)[d];
    const double norm = std::max(std::sqrt(squares), 1e-12);
    for (int64_t d = 0; d < args.dst.cols; ++d) args.dst.row(i)[d] = static_cast<float>(args.a.row(i)[d] / norm);
  }
}

// Normalises rows [begin, end) by their common mean and deviation. `eps_inside`: divides by sqrt(variance + eps), else
// deviation + eps.
void Standardize(const RowwiseArgs& args, int64_t begin, int64_t end, bool eps_inside) {
  const double count = static_cast<double>(end - begin) * static_cast<double>(args.dst.cols);
  double sum = 0, squares = 0;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t d = 0; d < args.dst.cols; ++d) sum += args.a.row(i)[d];
  }
  const double mean = sum / count;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t d = 0; d < args.dst.cols; ++d) squares += (args.a.row(i)[d] - mean) * (args.a.row(i)[d] - mean);
  }
  const double variance = squares / count;
  const double divisor = eps_inside ? std::sqrt(variance + args.eps) : std::sqrt(variance) + args.eps;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t d = 0; d < args.dst.cols; ++d) {
      args.dst.row(i)[d] = ReferenceEpilogue(args.epilogue, Affine(args, (args.a.row(i)[d] - mean) / divisor, d), i, d);
    }
  }
}

void GatherRows(const RowwiseArgs& args) {
  for (int64_t i = 0; i < args.dst.rows; ++i) {
    if (args.dst.cols > 0) std::memcpy(args.dst.row(i), args.a.row(args.index[i]), args.dst.cols * sizeof(float));
  }
}

void SparseToDense(const RowwiseArgs& args) {
  for (int64_t i = 0; i < args.dst.rows; ++i) {
    for (int64_t d = 0; d < args.dst.cols; ++d) args.dst.row(i)[d] = 0;
    for (int64_t e = args.sparse.row_ptr[i]; e < args.sparse.row_ptr[i + 1]; ++e) {
      args.dst.row(i)[args.sparse.col[e]] = args.sparse.value != nullptr ? args.sparse.value[e] : 1.0f;
    }
  }
}

void Readout(const RowwiseArgs& args) {
  const Reduce reduce = args.problem.reduce;
  for (int64_t g = 0; g < args.num_segments; ++g) {
    const int64_t begin = args.segments[g], end = args.segments[g + 1];
    for (int64_t d = 0; d < args.dst.cols; ++d) {
      double result = end > begin ? args.a.row(begin)[d] : 0.0;
      for (int64_t i = begin + 1; i < end; ++i) result = ReferenceJoin(reduce, result, args.a.row(i)[d]);
      if (reduce == Reduce::kMean && end > begin) result /= static_cast<double>(end - begin);
      args.dst.row(g)[d] = ReferenceEpilogue(args.epilogue, result, g, d);
    }
  }
}

// This and SortRows sort copies, so unlike Kernel::Run promises they allocate: what they are compared with does not.
void Median(const RowwiseArgs& args) {
  for (int64_t g = 0; g < args.num_segments; ++g) {
    for (int64_t d = 0; d < args.dst.cols; ++d) {
      std::vector<float> column;
      for (int64_t i = args.segments[g]; i < args.segments[g + 1]; ++i) column.push_back(args.a.row(i)[d]);
      std::sort(column.begin(), column.end());
      const double median = column.empty() ? 0.0 : column[(column.size() - 1) / 2];
      args.dst.row(g)[d] = ReferenceEpilogue(args.epilogue, median, g, d);
    }
  }
}

void SortRows(const RowwiseArgs& args) {
  const int64_t width = args.a.cols;
  for (int64_t g = 0; g < args.num_segments; ++g) {
    // Each row from its last column to its first.
    std::vector<std::vector<float>> rows;
    for (int64_t i = args.segments[g]; i < args.segments[g + 1]; ++i)
      rows.emplace_back(std::make_reverse_iterator(args.a.row(i) + width), std::make_reverse_iterator(args.a.row(i)));
    std::sort(rows.begin(), rows.end(), std::greater<>());
    for (int64_t d = 0; d < args.dst.cols; ++d) {
      const auto row = static_cast<size_t>(d / width);
      const double x = row < rows.size() ? rows[row][width - 1 - d % width] : 0.0;
      args.dst.row(g)[d] = ReferenceEpilogue(args.epilogue, x, g, d);
    }
  }
}

void Expand(const RowwiseArgs& args) {
  for (int64_t g = 0; g < args.num_segments; ++g) {
    for (int64_t i = args.segments[g]; i < args.segments[g + 1]; ++i) {
      for (int64_t d = 0; d < args.dst.cols; ++d)
        args.dst.row(i)[d] = ReferenceEpilogue(args.epilogue, args.a.row(g)[d], i, d);
    }
  }
}

// Both rows are read before either can be overwritten: dst may be `a`.
void Gate(const RowwiseArgs& args) {
  const int64_t width = args.dst.cols;
  for (int64_t i = 0; i < args.dst.rows; ++i) {
    const float *a = args.a.row(i), *b = args.b.row(i);
    double score = 0;
    for (int64_t d = 0; d < width; ++d) {
      score += static_cast<double>(args.scale[d]) * a[d] + static_cast<double>(args.scale[width + d]) * b[d] +
               static_cast<double>(args.scale[2 * width + d]) * (static_cast<double>(a[d]) - b[d]);
    }
    const double gate = 1 / (1 + std::exp(-score));
    for (int64_t d = 0; d < width; ++d) args.dst.row(i)[d] = static_cast<float>(gate * b[d] + (1 - gate) * a[d]);
  }
}

// The upper half of a float32, rounded. A NaN is made quiet instead, as rounding could turn it into infinity.
uint16_t ToBfloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// IEEE binary16: 1, 5, 10 bits. nearbyint rounds to nearest even; a carry increments the exponent.
uint16_t ToFloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t sign = bits >> 16 & 0x8000;
  if (std::isnan(x)) return static_cast<uint16_t>(sign | 0x7E00 | (bits >> 13 & 0x3FF));
  const double size = std::abs(static_cast<double>(x));
  if (size >= 65520) return static_cast<uint16_t>(sign | 0x7C00);
  int exponent = 0;
  const double mantissa = std::frexp(size, &exponent);  // in [0.5, 1)
  const uint32_t rounded = size < 0x1p-14 ? static_cast<uint32_t>(std::nearbyint(size * 0x1p24))
                                          : (static_cast<uint32_t>(exponent + 13) << 10) +
                                                static_cast<uint32_t>(std::nearbyint(mantissa * 0x1p11));
  return static_cast<uint16_t>(sign | rounded);
}

void Narrow(const RowwiseArgs& args) {
  const bool bfloat16 = args.problem.storage == Storage::kBfloat16;
  for (int64_t i = 0; i < args.dst16.rows; ++i) {
    for (int64_t d = 0; d < args.dst16.cols; ++d) {
      const float x = args.a.row(i)[d];
      args.dst16.row(i)[d] = bfloat16 ? ToBfloat16(x) : ToFloat16(x);
    }
  }
}

class ReferenceRowwise final : public ReferenceKernel<RowwiseKernel> {
 public:
  Refusal WhyUnsupported(const RowwiseProblem& problem) const override {
    if (problem.kind == RowwiseKind::kNarrow && problem.storage == Storage::kFloat32)
      return "narrows to bfloat16 or float16 only";
    return {};
  }
  Status Run(DeviceContext&, const RowwiseArgs& args, void*) const override {
    switch (args.problem.kind) {
      case RowwiseKind::kAdd:
        Add(args);
        break;
      case RowwiseKind::kMax:
        Max(args);
        break;
      case RowwiseKind::kNormalize:
        Normalize(args);
        break;
      case RowwiseKind::kLayerNorm:
        for (int64_t i = 0; i < args.dst.rows; ++i) Standardize(args, i, i + 1, true);
        break;
      case RowwiseKind::kGraphNorm:
        for (int64_t g = 0; g < args.num_segments; ++g)
          Standardize(args, args.segments[g], args.segments[g + 1], args.batched);
        break;
      case RowwiseKind::kGatherRows:
        GatherRows(args);
        break;
      case RowwiseKind::kSparseToDense:
        SparseToDense(args);
        break;
      case RowwiseKind::kReadout:
        Readout(args);
        break;
      case RowwiseKind::kExpand:
        Expand(args);
        break;
      case RowwiseKind::kMedian:
        Median(args);
        break;
      case RowwiseKind::kSortRows:
        SortRows(args);
        break;
      case RowwiseKind::kGate:
        Gate(args);
        break;
      case RowwiseKind::kNarrow:
        Narrow(args);
        break;
      case RowwiseKind::kMultiply:
        Multiply(args);
        break;
      case RowwiseKind::kSoftmax:
      case RowwiseKind::kLogSoftmax:
        Softmax(args, args.problem.kind == RowwiseKind::kLogSoftmax);
        break;
    }
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const RowwiseKernel> MakeReferenceRowwise() { return std::make_unique<ReferenceRowwise>(); }

}  // namespace vicinal::internal
