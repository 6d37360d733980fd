// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"

namespace vicinal::conformance {
namespace {

constexpr double kEps = 1e-5;

struct Case {
  std::string name;
  RowwiseKind kind;
  Reduce reduce = Reduce::kSum;
  HostMatrix a, b;
  std::vector<float> scale, shift;
  std::vector<int64_t> segments, index;
  bool batched = false;
  bool in_place = false;  // dst is a
  int64_t rows = 0;       // of dst
};

double Affine(const Case& c, double x, int64_t col) {
  return x * (c.scale.empty() ? 1.0 : c.scale[col]) + (c.shift.empty() ? 0.0 : c.shift[col]);
}

// Rows [begin, end) of a, standardised together.
void Standardize(const Case& c, int64_t begin, int64_t end, bool eps_inside, std::vector<double>& out) {
  const double count = static_cast<double>((end - begin) * c.a.cols);
  double mean = 0, variance = 0;
  for (int64_t i = begin * c.a.cols; i < end * c.a.cols; ++i) mean += c.a.values[i] / count;
  for (int64_t i = begin * c.a.cols; i < end * c.a.cols; ++i) variance += std::pow(c.a.values[i] - mean, 2) / count;
  const double divisor = eps_inside ? std::sqrt(variance + kEps) : std::sqrt(variance) + kEps;
  for (int64_t i = begin * c.a.cols; i < end * c.a.cols; ++i) {
    out[i] = Affine(c, (c.a.values[i] - mean) / divisor, i % c.a.cols);
  }
}

double MedianOf(const Case& c, int64_t segment, int64_t col) {
  std::vector<float> column;
  for (int64_t i = c.segments[segment]; i < c.segments[segment + 1]; ++i) column.push_back(c.a.at(i, col));
  std::sort(column.begin(), column.end());
  return column.empty() ? 0.0 : column[(column.size() - 1) / 2];
}

// The first row of the order, or 0.
double FirstOf(const Case& c, int64_t segment, int64_t col) {
  const int64_t begin = c.segments[segment], end = c.segments[segment + 1];
  int64_t first = begin;
  for (int64_t i = begin; i < end; ++i) {
    if (c.a.at(i, c.a.cols - 1) > c.a.at(first, c.a.cols - 1)) first = i;
  }
  return begin == end ? 0.0 : c.a.at(first, col);
}

double ReadoutOf(const Case& c, int64_t segment, int64_t col) {
  const int64_t begin = c.segments[segment], end = c.segments[segment + 1];
  double result = 0;
  for (int64_t i = begin; i < end; ++i) {
    const double x = c.a.at(i, col);
    if (c.reduce == Reduce::kMax || c.reduce == Reduce::kMin) {
      result = i == begin ? x : Extreme(c.reduce, result, x);
    } else {
      result += x;
    }
  }
  return c.reduce == Reduce::kMean && end > begin ? result / static_cast<double>(end - begin) : result;
}

std::vector<double> Want(const Case& c) {
  const int64_t cols = c.a.cols;
  std::vector<double> out(c.rows * cols, 0.0);
  if (c.kind == RowwiseKind::kExpand) {
    for (size_t s = 0; s + 1 < c.segments.size(); ++s) {
      for (int64_t i = c.segments[s] * cols; i < c.segments[s + 1] * cols; ++i)
        out[i] = c.a.at(static_cast<int64_t>(s), i % cols);
    }
    return out;
  }
  if (c.kind == RowwiseKind::kGraphNorm) {
    for (size_t s = 0; s + 1 < c.segments.size(); ++s) Standardize(c, c.segments[s], c.segments[s + 1], c.batched, out);
    return out;
  }
  for (int64_t row = 0; row < c.rows; ++row) {
    if (c.kind == RowwiseKind::kLayerNorm) Standardize(c, row, row + 1, true, out);
    double score = 0;
    for (int64_t col = 0; c.kind == RowwiseKind::kGate && col < cols; ++col) {
      const double a = c.a.at(row, col), b = c.b.at(row, col);
      score += c.scale[col] * a + c.scale[cols + col] * b + c.scale[2 * cols + col] * (a - b);
    }
    const int64_t summed = c.a.rows == c.rows && c.a.cols == cols ? cols : 0;  // of softmax
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t col = 0; col < summed; ++col) most = std::max<double>(most, c.a.at(row, col));
    for (int64_t col = 0; col < summed; ++col) sum += std::exp(c.a.at(row, col) - most);
    double norm = 0;
    for (int64_t col = 0; c.kind == RowwiseKind::kNormalize && col < cols; ++col) norm += std::pow(c.a.at(row, col), 2);
    for (int64_t col = 0; col < cols; ++col) {
      double& x = out[row * cols + col];
      if (c.kind == RowwiseKind::kAdd) x = Affine(c, c.a.at(row, col), col);
      if (c.kind == RowwiseKind::kMax) x = Extreme(Reduce::kMax, c.a.at(row, col), c.b.at(row, col));
      if (c.kind == RowwiseKind::kMultiply) x = static_cast<double>(c.a.at(row, col)) * c.b.at(row, col);
      if (c.kind == RowwiseKind::kSoftmax) x = std::exp(c.a.at(row, col) - most) / sum;
      if (c.kind == RowwiseKind::kLogSoftmax) x = c.a.at(row, col) - most - std::log(sum);
      if (c.kind == RowwiseKind::kNormalize) x = c.a.at(row, col) / std::max(std::sqrt(norm), 1e-12);
      if (c.kind == RowwiseKind::kGatherRows) x = c.a.at(c.index[row], col);
      if (c.kind == RowwiseKind::kReadout) x = ReadoutOf(c, row, col);
      if (c.kind == RowwiseKind::kMedian) x = MedianOf(c, row, col);
      if (c.kind == RowwiseKind::kSortRows) x = FirstOf(c, row, col);
      if (c.kind == RowwiseKind::kGate) {
        const double gate = 1.0 / (1.0 + std::exp(-score));
        x = gate * c.b.at(row, col) + (1.0 - gate) * c.a.at(row, col);
      }
    }
  }
  return out;
}

// In place: RunOnce's dst cannot be a, so the launch is done here.
HostMatrix RunInPlace(Machine& machine, Report& report, const RegisteredKernel<RowwiseKernel>& kernel, RowwiseArgs args,
                      const Case& c, const HostEpilogue& host_epilogue) {
  const DeviceMatrix a(*machine.device, c.a, {1, 2}, 7.0f);
  args.a = a.view();
  args.dst = a.view();
  const DeviceEpilogue epilogue(machine, host_epilogue, a.view());
  args.epilogue = epilogue.epilogue;
  LaunchAndWait(machine, report, kernel, args);
  return a.Download(*machine.device);
}

HostMatrix Run(Machine& machine, Report& report, const RegisteredKernel<RowwiseKernel>& kernel, const Case& c,
               const HostEpilogue& epilogue) {
  const DeviceMatrix a(*machine.device, c.a, {3, 1}, 1e30f), b(*machine.device, c.b, {}, 1e30f);
  const DeviceArray<float> scale(*machine.device, c.scale), shift(*machine.device, c.shift);
  const DeviceArray<int64_t> segments(*machine.device, c.segments), index(*machine.device, c.index);
  RowwiseArgs args;
  args.problem = {c.kind, c.reduce, c.rows, c.a.cols};
  args.a = a.view();
  args.b = b.view();
  if (!c.scale.empty()) args.scale = scale.data();
  if (!c.shift.empty()) args.shift = shift.data();
  args.batched = c.batched;
  args.segments = segments.data();
  args.num_segments = c.segments.empty() ? 0 : static_cast<int64_t>(c.segments.size()) - 1;
  args.index = index.data();
  if (c.in_place) return RunInPlace(machine, report, kernel, args, c, epilogue);
  return RunOnce(machine, report, kernel, args, epilogue, {2, 3}, c.rows, c.a.cols);
}

std::vector<Case> Cases(int64_t rows, int64_t cols) {
  const HostMatrix a = RandomMatrix(rows, cols, 61), b = RandomMatrix(rows, cols, 62);
  const std::vector<float> scale = RandomVector(cols, 63), shift = RandomVector(cols, 64);
  const std::vector<int64_t> whole = {0, rows}, parts = {0, 0, rows / 3, rows / 3 + 1, rows, rows};
  HostMatrix with_nans = a;
  PutNans(&with_nans);
  std::vector<int64_t> index;
  for (int64_t i = 0; i < 50; ++i) index.push_back(i * 7919 % rows);
  std::vector<Case> cases;
  for (bool in_place : {false, true}) {
    cases.push_back({"copy", RowwiseKind::kAdd, Reduce::kSum, a, {}, {}, {}, {}, {}, false, in_place, rows});
    cases.push_back({"affine", RowwiseKind::kAdd, Reduce::kSum, a, {}, scale, shift, {}, {}, false, in_place, rows});
    cases.push_back({"max", RowwiseKind::kMax, Reduce::kSum, a, b, {}, {}, {}, {}, false, in_place, rows});
    cases.push_back(
        {"max, NaN first", RowwiseKind::kMax, Reduce::kSum, with_nans, b, {}, {}, {}, {}, false, in_place, rows});
    cases.push_back(
        {"max, NaN second", RowwiseKind::kMax, Reduce::kSum, b, with_nans, {}, {}, {}, {}, false, in_place, rows});
    cases.push_back({"gate",
                     RowwiseKind::kGate,
                     Reduce::kSum,
                     a,
                     b,
                     RandomVector(3 * cols, 68),
                     {},
                     {},
                     {},
                     false,
                     in_place,
                     rows});
    cases.push_back({"multiply", RowwiseKind::kMultiply, Reduce::kSum, a, b, {}, {}, {}, {}, false, in_place, rows});
    cases.push_back({"softmax", RowwiseKind::kSoftmax, Reduce::kSum, a, {}, {}, {}, {}, {}, false, in_place, rows});
    cases.push_back(
        {"log softmax", RowwiseKind::kLogSoftmax, Reduce::kSum, a, {}, {}, {}, {}, {}, false, in_place, rows});
    cases.push_back({"normalize", RowwiseKind::kNormalize, Reduce::kSum, a, {}, {}, {}, {}, {}, false, in_place, rows});
    cases.push_back(
        {"layer norm", RowwiseKind::kLayerNorm, Reduce::kSum, a, {}, scale, shift, {}, {}, false, in_place, rows});
    for (const auto& segments : {whole, parts}) {
      for (bool batched : {false, true}) {
        cases.push_back({"graph norm",
                         RowwiseKind::kGraphNorm,
                         Reduce::kSum,
                         a,
                         {},
                         scale,
                         shift,
                         segments,
                         {},
                         batched,
                         in_place,
                         rows});
      }
    }
  }
  cases.push_back({"gather", RowwiseKind::kGatherRows, Reduce::kSum, a, {}, {}, {}, {}, index, false, false, 50});
  const HostMatrix pooled = RandomMatrix(5, cols, 71);
  cases.push_back({"median", RowwiseKind::kMedian, Reduce::kSum, a, {}, {}, {}, parts, {}, false, false, 5});
  cases.push_back({"sort", RowwiseKind::kSortRows, Reduce::kSum, a, {}, {}, {}, parts, {}, false, false, 5});
  cases.push_back({"expand", RowwiseKind::kExpand, Reduce::kSum, pooled, {}, {}, {}, parts, {}, false, false, rows});
  for (Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin}) {
    cases.push_back({"readout", RowwiseKind::kReadout, reduce, a, {}, {}, {}, parts, {}, false, false, 5});
    cases.push_back(
        {"readout of NaN", RowwiseKind::kReadout, reduce, with_nans, {}, {}, {}, parts, {}, false, false, 5});
  }
  return cases;
}

bool TakesEpilogue(RowwiseKind kind) {
  return kind != RowwiseKind::kNormalize && kind != RowwiseKind::kGatherRows && kind != RowwiseKind::kGate &&
         kind != RowwiseKind::kSoftmax && kind != RowwiseKind::kLogSoftmax;
}

// The nearest number of `digits` binary digits behind the first whose unit in the last place is at least `smallest`; of
// two equally near ones the even one. By another way than the kernel's: in double precision, to whole multiples.
double Nearest(double x, int digits, double smallest) {
  if (x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::max(std::ldexp(1.0, exponent - 1 - digits), smallest);
  return std::nearbyint(x / unit) * unit;
}

double FromBits(Storage storage, uint16_t bits) {
  const int digits = storage == Storage::kBfloat16 ? 7 : 10, bias = storage == Storage::kBfloat16 ? 127 : 15;
  const int field = bits >> digits & (2 * bias + 1), rest = bits & ((1 << digits) - 1);
  const double size = field == 2 * bias + 1 ? (rest == 0 ? HUGE_VAL : std::nan(""))
                      : field == 0          ? std::ldexp(rest, 1 - bias - digits)
                                            : std::ldexp((1 << digits) + rest, field - bias - digits);
  return bits >> 15 != 0 ? -size : size;
}

// Ordinary numbers, ties in both directions, the smallest and the largest, in every layout.
void NarrowCases(Machine& machine, Report& report, const RegisteredKernel<RowwiseKernel>& kernel) {
  for (const Storage storage : {Storage::kBfloat16, Storage::kFloat16}) {
    const bool bfloat16 = storage == Storage::kBfloat16;
    const int digits = bfloat16 ? 7 : 10;
    for (const auto& [rows, cols, gap] :
         {std::array<int64_t, 3>{1, 1, 0}, {37, 64, 0}, {37, 64, 8}, {50, 33, 3}, {9, 20, 1}}) {
      HostMatrix a = RandomMatrix(rows, cols, 69);
      for (int64_t i = 0; i < rows * cols; ++i) {
        float& x = a.values[i];
        if (i % 5 == 1) {
          const double tie = 1.0 + std::ldexp(static_cast<double>(i) + 0.5, -digits);
          x = static_cast<float>(i % 2 == 0 ? tie : -tie);
        } else if (i % 7 == 2) {
          x *= bfloat16 ? 1e-38f : 1e-6f;
        } else if (i % 11 == 3) {
          x *= bfloat16 ? 1e38f : 6e4f;
        } else if (i % 13 == 4) {
          x = 0.0f;
        }
      }
      const DeviceMatrix device_a(*machine.device, a, {0, gap}, 1e30f);
      const int64_t stride = cols + gap;
      const DeviceArray<uint16_t> dst(*machine.device, std::vector<uint16_t>(rows * stride, 0x7fff));
      RowwiseArgs args;
      args.problem = {RowwiseKind::kNarrow, Reduce::kSum, rows, cols, storage};
      args.a = device_a.view();
      args.dst16 = {dst.data(), rows, cols, stride};
      LaunchAndWait(machine, report, kernel, args);
      const std::vector<uint16_t> got = dst.Download(*machine.device);
      bool ok = true;
      for (int64_t i = 0; i < rows * stride; ++i) {
        if (i % stride >= cols) {
          ok = ok && got[i] == 0x7fff;
          continue;
        }
        const double x = a.at(i / stride, i % stride);
        ok = ok && FromBits(storage, got[i]) == Nearest(x, digits, std::ldexp(1.0, bfloat16 ? -133 : -24));
      }
      report.CheckTrue("rowwise narrow",
                       std::string(ToString(storage)) + ", " + std::to_string(rows) + " x " + std::to_string(cols), ok);
    }
  }
}

// Every activation, over numbers in the reach of all their branches.
void ActivationCases(Machine& machine, Report& report, const RegisteredKernel<RowwiseKernel>& kernel) {
  HostMatrix a = RandomMatrix(90, 37, 70);
  for (float& x : a.values) x *= 4.0f;
  HostMatrix positive = a;
  for (float& x : positive.values) x = std::abs(x);
  for (int kind = 0; kind <= static_cast<int>(ActivationKind::kSquare); ++kind) {
    HostEpilogue epilogue;
    epilogue.activation = {static_cast<ActivationKind>(kind), 0.4f, 1.3f};
    const bool root =
        kind == static_cast<int>(ActivationKind::kRoot) || kind == static_cast<int>(ActivationKind::kInverseRoot);
    const Case c{
        "activation", RowwiseKind::kAdd, Reduce::kSum, root ? positive : a, {}, {}, {}, {}, {}, false, false, 90};
    report.CheckTwice(
        "rowwise " + std::string(kernel.kernel().name()), std::string(ToString(epilogue.activation.kind)),
        [&] { return Run(machine, report, kernel, c, epilogue); }, WithEpilogue(Want(c), a.cols, epilogue));
  }
}

void SparseToDense(Machine& machine, Report& report, const RegisteredKernel<RowwiseKernel>& kernel) {
  HostGraph sparse{"sparse", 60, 45, {0}, {}, {}};
  for (int64_t row = 0; row < sparse.rows; ++row) {
    for (int64_t col = row % 7; col < sparse.cols && row % 5 != 0; col += 1 + row % 11) {
      sparse.col.push_back(static_cast<int32_t>(col));
    }
    sparse.row_ptr.push_back(sparse.edges());
  }
  sparse.value = RandomVector(sparse.edges(), 65);
  const DeviceGraph device_sparse(*machine.device, sparse);
  for (bool weighted : {false, true}) {
    RowwiseArgs args;
    args.problem = {RowwiseKind::kSparseToDense, Reduce::kSum, sparse.rows, sparse.cols};
    args.sparse = device_sparse.view(weighted);
    const auto run = [&] { return RunOnce(machine, report, kernel, args, {}, {1, 2}, sparse.rows, sparse.cols); };
    const HostMatrix want = Dense(sparse, weighted);
    report.CheckSame("rowwise " + std::string(kernel.kernel().name()), "sparse to dense", run(), want);
  }
}

}  // namespace

void RunRowwiseCases(Machine& machine, Report& report) {
  for (const auto& kernel : machine.registry.rowwise.kernels()) {
    SparseToDense(machine, report, *kernel);
    NarrowCases(machine, report, *kernel);
    ActivationCases(machine, report, *kernel);
    for (const auto& shape : {std::pair<int64_t, int64_t>{1, 1}, {40, 3}, {333, 64}, {5000, 33}, {77, 602}}) {
      for (const Case& c : Cases(shape.first, shape.second)) {
        HostEpilogue epilogue;
        if (TakesEpilogue(c.kind)) {
          epilogue.bias = RandomVector(c.a.cols, 66);
          epilogue.activation = {ActivationKind::kElu, 1.0f};
          if (!c.in_place) epilogue.residual = RandomMatrix(c.rows, c.a.cols, 67);
        }
        report.CheckTwice(
            "rowwise " + std::string(kernel->kernel().name()),
            c.name + (c.in_place ? " in place, " : ", ") + std::to_string(shape.first) + " x " +
                std::to_string(shape.second),
            [&] { return Run(machine, report, *kernel, c, epilogue); }, WithEpilogue(Want(c), c.a.cols, epilogue));
      }
    }
  }
}

}  // namespace vicinal::conformance
