// SPDX-License-Identifier: Apache-2.0
// Dense products of the CUDA backend, src [rows, inputs] * W^T [inputs, outputs], and of cuBLAS in the same run. cuBLAS
// uses float32 with TF32 off unless --precision says otherwise, and the faster of the two layouts of W. Rows have the
// strides of a plan. CUDA events, medians of 30 samples, 10th and 90th percentiles in --json, rotating sets of buffers.
// Three rows are checked in double precision before a time counts.
//   vicinal_bench_products --backends=libvicinal_cuda.so[,libvicinal_cuda_before.so] [--kernels=register_tiles,cublas]
//   [--json=OUT.json] [OPTIONS] [ROWSxINPUTSxOUTPUTS ...]
// --residual: dst = dst + src * W^T, like the second product of a SAGE layer. Several backends are timed in turn, which
// compares a change with the version before.
#include <cublas_v2.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bench/cuda/event_timer.h"
#include "bench/cuda/gpu.h"
#include "bench/cuda/numbers.h"
#include "engine/device/row_stride.h"

ABSL_FLAG(std::vector<std::string>, backends, {"libvicinal_cuda.so"}, "The CUDA backends.");
ABSL_FLAG(bool, residual, false, "Products are added to what dst holds.");
ABSL_FLAG(std::string, precision, "float32",
          "To what factors may be rounded: float32, tf32 (cuBLAS's too), bfloat16 or float16 (cuBLAS: in TF32).");
ABSL_FLAG(std::vector<std::string>, kernels, {}, "The backends' kernels; empty: the first that does not refuse.");
ABSL_FLAG(std::string, json, "", "File for the results; empty: none.");
ABSL_FLAG(double, budget_ms, 60, "Time for the launches of a product.");

namespace vicinal::bench {
namespace {

ProductPrecision Precision() {
  for (const ProductPrecision precision :
       {ProductPrecision::kFloat32, ProductPrecision::kTf32, ProductPrecision::kBfloat16, ProductPrecision::kFloat16}) {
    if (absl::GetFlag(FLAGS_precision) == ToString(precision)) return precision;
  }
  MustBeOk(absl::InvalidArgumentError("it is float32, tf32, bfloat16 or float16"), "--precision");
  return ProductPrecision::kFloat32;
}

// Maximum error of an element, relative to the largest of its row.
double Tolerance() {
  switch (Precision()) {
    case ProductPrecision::kFloat32:
      return 1e-5;
    case ProductPrecision::kBfloat16:
      return 2e-2;
    default:
      return 2e-3;
  }
}

struct Shape {
  int64_t rows = 0, inputs = 0, outputs = 0;
};

// First and hidden layers of models on public graphs, from Cora to ogbn-products, and of receptive fields.
const std::vector<std::string> kShapes = {
    "2708x1433x16",  "2708x16x7",     "2708x1433x64",   "3327x3703x16",   "19717x500x16",
    "19717x500x64",  "7650x745x64",   "13752x767x64",   "1x602x64",       "100x602x64",
    "1000x602x64",   "4000x602x16",   "4000x602x64",    "4000x64x64",     "20000x128x64",
    "40000x128x64",  "89250x500x16",  "169343x128x256", "169343x256x40",  "232965x602x16",
    "232965x602x32", "232965x602x64", "232965x64x41",   "2449029x100x64", "2449029x64x47"};

StatusOr<Shape> ParseShape(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, 'x');
  Shape shape;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &shape.rows) || !absl::SimpleAtoi(words[1], &shape.inputs) ||
      !absl::SimpleAtoi(words[2], &shape.outputs) || std::min({shape.rows, shape.inputs, shape.outputs}) < 1) {
    return absl::InvalidArgumentError(text + " is no ROWSxINPUTSxOUTPUTS");
  }
  return shape;
}

// A product's matrices on the device. W is stored in both layouts for cuBLAS.
class Product {
 public:
  Product(Gpu& gpu, const Shape& shape) : gpu_(gpu), shape_(shape), sets_(SetsFor(shape)) {
    const int64_t stride = RowStrideFor(shape.inputs);
    src_ = gpu.Allocate(sets_ * shape.rows * stride * sizeof(float));
    FillNumbers(src_.data(), sets_ * shape.rows * stride, 0, Storage::kFloat32, gpu.stream());
    dst_ = gpu.Allocate(sets_ * shape.rows * RowStrideFor(shape.outputs) * sizeof(float));
    weight_.resize(shape.outputs * shape.inputs);
    const int64_t across = RowStrideFor(shape.outputs);
    std::vector<float> straight(shape.outputs * stride), transposed(shape.inputs * across);
    for (int64_t h = 0; h < shape.outputs; ++h) {
      for (int64_t f = 0; f < shape.inputs; ++f) {
        const float w = Number(kWeights + h * shape.inputs + f);
        weight_[h * shape.inputs + f] = straight[h * stride + f] = transposed[f * across + h] = w;
      }
    }
    rows_of_outputs_ = gpu.Upload(straight);
    rows_of_inputs_ = gpu.Upload(transposed);
    MustBeOk(cudaStreamSynchronize(gpu.stream()), "fill");
  }

  const Shape& shape() const { return shape_; }
  const std::vector<float>& weight() const { return weight_; }
  const float* weight_on_device(bool rows_of_outputs) const {
    return (rows_of_outputs ? rows_of_outputs_ : rows_of_inputs_).as<float>();
  }
  ConstMatrixView src(int i) const {
    const int64_t stride = RowStrideFor(shape_.inputs);
    return {src_.as<float>() + i % sets_ * shape_.rows * stride, shape_.rows, shape_.inputs, stride};
  }
  MatrixView dst(int i) const {
    const int64_t stride = RowStrideFor(shape_.outputs);
    return {dst_.as<float>() + i % sets_ * shape_.rows * stride, shape_.rows, shape_.outputs, stride};
  }
  // Fills dst with residuals, or with NaN, which every product must overwrite.
  void Refill() const {
    if (absl::GetFlag(FLAGS_residual)) {
      FillNumbers(dst_.data(), dst_.bytes() / sizeof(float), kResiduals, Storage::kFloat32, gpu_.stream());
    } else {
      gpu_.Poison(dst_.data(), dst_.bytes());
    }
    MustBeOk(cudaStreamSynchronize(gpu_.stream()), "refill");  // a run may be in another stream
  }

  // Largest error of an element in the first, a middle and the last row, relative to the row's largest expected
  // element.
  double WorstError() const {
    double worst = 0;
    for (const int64_t row : {int64_t{0}, shape_.rows / 2, shape_.rows - 1}) {
      const std::vector<float> got = gpu_.Download(dst(0).row(row), shape_.outputs);
      double largest = 0, error = 0;
      for (int64_t h = 0; h < shape_.outputs; ++h) {
        double want = absl::GetFlag(FLAGS_residual) ? Number(kResiduals + row * RowStrideFor(shape_.outputs) + h) : 0.0;
        for (int64_t f = 0; f < shape_.inputs; ++f) {
          want += double{Number(row * RowStrideFor(shape_.inputs) + f)} * weight_[h * shape_.inputs + f];
        }
        largest = std::max(largest, std::abs(want));
        const double difference = std::abs(got[h] - want);
        error = std::max(error, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
      }
      worst = std::max(worst, error / largest);
    }
    return worst;
  }

 private:
  static constexpr uint64_t kWeights = uint64_t{1} << 60, kResiduals = uint64_t{1} << 61;  // disjoint ranges of Number

  // So many sets that the L2 holds nothing of a set when it is used again.
  static int SetsFor(const Shape& shape) {
    constexpr int64_t kBytes = int64_t{200} << 20;
    const int64_t bytes = shape.rows * (RowStrideFor(shape.inputs) + RowStrideFor(shape.outputs)) * 4;
    return static_cast<int>(std::clamp<int64_t>(kBytes / bytes + 1, 2, 16));
  }

  Gpu& gpu_;
  const Shape shape_;
  const int sets_;
  Buffer src_, dst_, rows_of_outputs_, rows_of_inputs_;
  std::vector<float> weight_;
};

// The time of a wrong or missing result: infinite.
Timing Never() {
  Timing timing;
  timing.median_us = std::numeric_limits<double>::infinity();
  return timing;
}

Timing Time(Gpu& gpu, const Product& product, const Launcher& launch) {
  product.Refill();
  launch(0);
  MustBeOk(cudaStreamSynchronize(gpu.stream()), "product");
  if (!(product.WorstError() < Tolerance())) return Never();
  const Timing brief = TimeBriefly(gpu.stream(), launch, TimeOnce(gpu.stream(), launch), 0);
  return TimeFully(gpu.stream(), launch, brief, absl::GetFlag(FLAGS_budget_ms) * 1000);
}

// Uses the kernel `wanted`, or if that is empty the first that does not refuse.
Timing TimeBackend(Gpu& gpu, const Product& product, const std::string& wanted) {
  const Shape& shape = product.shape();
  const DenseUpdateProblem problem = {shape.rows, shape.inputs, shape.outputs, Precision()};
  const auto& kernels = gpu.registry().dense_update.kernels();
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const auto& one) {
    return (wanted.empty() || one->kernel().name() == wanted) && one->kernel().WhyUnsupported(problem).empty();
  });
  if (found == kernels.end()) return Never();
  const RegisteredKernel<DenseUpdateKernel>& kernel = **found;
  std::vector<float> weight = product.weight();
  std::vector<char> packed(kernel.kernel().PackedBytes(shape.outputs, shape.inputs));
  kernel.kernel().Pack({weight.data(), shape.outputs, shape.inputs, shape.inputs}, packed.data());
  const Buffer on_device = gpu.Upload(packed);
  const Buffer scratch = gpu.Allocate(kernel.kernel().ScratchBytes(problem, {}, 0));
  DenseUpdateArgs args;
  args.problem = problem;
  args.weight = on_device.data();
  return Time(gpu, product, [&](int i) {
    args.src = product.src(i);
    args.dst = product.dst(i);
    if (absl::GetFlag(FLAGS_residual)) args.epilogue.residual = args.dst;
    MustBeOk(kernel.Launch(gpu.context(), args, scratch.data()), "launch");
  });
}

class Cublas {
 public:
  explicit Cublas(cudaStream_t stream) {
    Check(cublasCreate(&handle_));
    Check(cublasSetStream(handle_, stream));
    const bool exact = Precision() == ProductPrecision::kFloat32;
    Check(cublasSetMathMode(handle_, exact ? CUBLAS_PEDANTIC_MATH : CUBLAS_TF32_TENSOR_OP_MATH));
  }
  ~Cublas() { cublasDestroy(handle_); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // cuBLAS is column-major: our rows are its columns, and the product is dst^T = W * src^T.
  void Launch(const Product& product, bool rows_of_outputs, int i) const {
    const Shape& shape = product.shape();
    const ConstMatrixView src = product.src(i);
    const MatrixView dst = product.dst(i);
    const float one = 1, beta = absl::GetFlag(FLAGS_residual) ? 1 : 0;
    Check(cublasSgemm(handle_, rows_of_outputs ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N,
                      static_cast<int>(shape.outputs), static_cast<int>(shape.rows), static_cast<int>(shape.inputs),
                      &one, product.weight_on_device(rows_of_outputs),
                      static_cast<int>(RowStrideFor(rows_of_outputs ? shape.inputs : shape.outputs)), src.data,
                      static_cast<int>(src.stride), &beta, dst.data, static_cast<int>(dst.stride)));
  }

 private:
  static void Check(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    std::fprintf(stderr, "cuBLAS: %s\n", cublasGetStatusString(status));
    std::exit(1);
  }
  cublasHandle_t handle_ = nullptr;
};

// One backend with one of its kernels.
struct Column {
  std::string name;
  Gpu* gpu;
  std::string kernel;
};

std::vector<Column> Columns(const std::vector<std::unique_ptr<Gpu>>& gpus) {
  std::vector<std::string> kernels = absl::GetFlag(FLAGS_kernels);
  if (kernels.empty()) kernels = {""};
  const std::vector<std::string> paths = absl::GetFlag(FLAGS_backends);
  std::vector<Column> columns;
  for (size_t i = 0; i < gpus.size(); ++i) {
    for (const std::string& kernel : kernels) {
      columns.push_back(
          {paths.size() == 1 && !kernel.empty() ? kernel : paths[i] + ":" + kernel, gpus[i].get(), kernel});
    }
  }
  return columns;
}

nlohmann::ordered_json Recorded(const std::string& product, const std::string& kernel, const Timing& timing) {
  nlohmann::ordered_json entry = {{"product", product}, {"kernel", kernel}};
  if (!std::isfinite(timing.median_us)) return entry;
  entry["us"] = timing.median_us;
  entry["p10_us"] = timing.p10_us;
  entry["p90_us"] = timing.p90_us;
  entry["samples"] = timing.samples;
  return entry;
}

void PrintTiming(const Timing& timing) { std::printf(" %21.2f us", timing.median_us); }

int Main(std::vector<std::string> words) {
  if (words.empty()) words = kShapes;
  std::vector<std::unique_ptr<Gpu>> gpus;
  for (const std::string& path : absl::GetFlag(FLAGS_backends)) gpus.push_back(std::make_unique<Gpu>(path));
  const std::vector<Column> columns = Columns(gpus);
  std::printf("%s\n%-20s", gpus[0]->description().c_str(), "rows x in x out");
  for (const Column& column : columns) {
    std::printf(" %24s", column.name.substr(column.name.size() - std::min<size_t>(column.name.size(), 24)).c_str());
  }
  std::printf(" %24s %9s\n", "cublasSgemm", "TFLOP/s");
  const Cublas cublas(gpus[0]->stream());
  nlohmann::ordered_json results = {{"device", gpus[0]->description()},
                                    {"precision", absl::GetFlag(FLAGS_precision)},
                                    {"residual", absl::GetFlag(FLAGS_residual)},
                                    {"products", nlohmann::ordered_json::array()}};
  bool right = true;
  for (const std::string& word : words) {
    const Shape shape = Must(ParseShape(word), "shape");
    const Product product(*gpus[0], shape);
    double first = 0;
    std::printf("%-20s", word.c_str());
    for (const Column& column : columns) {
      const Timing timing = TimeBackend(*column.gpu, product, column.kernel);
      right = right && std::isfinite(timing.median_us);
      if (first == 0) first = timing.median_us;
      PrintTiming(timing);
      results["products"].push_back(Recorded(word, column.name, timing));
    }
    Timing peer = Never();
    for (const bool rows_of_outputs : {false, true}) {
      const Timing timing = Time(*gpus[0], product, [&](int i) { cublas.Launch(product, rows_of_outputs, i); });
      if (timing.median_us < peer.median_us) peer = timing;
    }
    PrintTiming(peer);
    results["products"].push_back(Recorded(word, "cublasSgemm", peer));
    std::printf(" %9.1f\n", 2e-6 * shape.rows * shape.inputs * shape.outputs / first);
    std::fflush(stdout);
    if (const std::string path = absl::GetFlag(FLAGS_json); !path.empty())
      std::ofstream(path) << results.dump(1) << "\n";
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace vicinal::bench

int main(int argc, char** argv) {
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  return vicinal::bench::Main({words.begin() + 1, words.end()});
}
