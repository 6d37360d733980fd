// SPDX-License-Identifier: Apache-2.0
// Conformance of the row-wise kinds, each against its definition in double precision; activations to a few units in the
// last place.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/engine/kernels/oracle.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kWidths[] = {1, 3, 16, 32, 33, 64, 200, 602};
constexpr double kUnit = 0x1p-24;

void ForEachKernel(const std::function<void(const RegisteredKernel<RowwiseKernel>&)>& f) {
  for (const auto& kernel : TheMachine().registry.rowwise.kernels()) {
    SCOPED_TRACE(std::string(kernel->kernel().name()));
    f(*kernel);
  }
}

// One problem of `rows` x `width` with everything a kind may want; dst is a matrix of its own or `a`.
struct Operands {
  Operands(int64_t rows, int64_t width)
      : a(rows, width, 1), b(rows, width, 2), addend(rows, width, 3), scale(width), shift(width), bias(width) {
    Random r(4);
    for (std::vector<float>* v : {&scale, &shift, &bias}) {
      for (float& x : *v) x = r.Float();
    }
  }
  RowwiseArgs Args(RowwiseKind kind, TestMatrix* dst) {
    RowwiseArgs args;
    args.problem = {kind, Reduce::kSum, dst->rows(), dst->cols()};
    args.a = a.view();
    args.b = b.view();
    args.dst = dst->view();
    args.scale = scale.data();
    args.shift = shift.data();
    args.epilogue.bias = bias.data();
    args.epilogue.addend = addend.view();
    args.epilogue.addend_scale = 2.0f;
    args.epilogue.activation = {ActivationKind::kLeakyRelu, 0.5f};
    return args;
  }
  void Epilogue(Expected* expected) {
    OracleEpilogue(&bias, &addend, 2.0f, {ActivationKind::kLeakyRelu, 0.5f}, expected);
  }

  TestMatrix a, b, addend;
  std::vector<float> scale, shift, bias;
};

TEST(Rowwise, AddIsAffineAndFused) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      for (const bool in_place : {false, true}) {
        Operands o(29, width);
        const TestMatrix before = o.a;
        TestMatrix other(29, width, 9);
        TestMatrix* dst = in_place ? &o.a : &other;
        ASSERT_TRUE(Launch(kernel, o.Args(RowwiseKind::kAdd, dst)).ok());
        Expected expected = Exactly(before);
        for (int64_t i = 0; i < 29; ++i) {
          for (int64_t c = 0; c < width; ++c) {
            expected.m(i, c) = std::abs(expected.v(i, c) * o.scale[c]) + std::abs(o.shift[c]);
            expected.v(i, c) = expected.v(i, c) * o.scale[c] + o.shift[c];
          }
        }
        o.Epilogue(&expected);
        EXPECT_EQ(Differs(expected, *dst, 1), "");
        EXPECT_TRUE(dst->GapsUntouched());
      }
    }
  });
}

TEST(Rowwise, AddWithoutAnythingCopiesBits) {
  ForEachKernel([](const auto& kernel) {
    const TestMatrix a(17, 37, 1);
    TestMatrix dst(17, 37, 2);
    RowwiseArgs args;
    args.problem = {RowwiseKind::kAdd, Reduce::kSum, 17, 37};
    args.a = a.view();
    args.dst = dst.view();
    ASSERT_TRUE(Launch(kernel, args).ok());
    EXPECT_EQ(a.Values(), dst.Values());
  });
}

TEST(Rowwise, Max) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      Operands o(13, width);
      TestMatrix dst(13, width, 9);
      ASSERT_TRUE(Launch(kernel, o.Args(RowwiseKind::kMax, &dst)).ok());
      Expected expected = Exactly(o.a);
      for (int64_t i = 0; i < 13; ++i) {
        for (int64_t c = 0; c < width; ++c) {
          if (o.b.at(i, c) > o.a.at(i, c)) expected.v(i, c) = o.b.at(i, c);
          expected.m(i, c) = std::abs(expected.v(i, c));
        }
      }
      o.Epilogue(&expected);
      EXPECT_EQ(Differs(expected, dst, 1), "");
    }
  });
}

TEST(Rowwise, NormalizeKeepsZeroRows) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      Operands o(9, width);
      for (int64_t c = 0; c < width; ++c) o.a.view().row(4)[c] = 0;
      TestMatrix dst(9, width, 9);
      ASSERT_TRUE(Launch(kernel, o.Args(RowwiseKind::kNormalize, &dst)).ok());
      Expected expected = Exactly(o.a);
      for (int64_t i = 0; i < 9; ++i) {
        long double squares = 0;
        for (int64_t c = 0; c < width; ++c) squares += static_cast<long double>(o.a.at(i, c)) * o.a.at(i, c);
        for (int64_t c = 0; c < width; ++c) {
          expected.v(i, c) = i == 4 ? 0 : static_cast<double>(o.a.at(i, c) / std::sqrt(squares));
          expected.m(i, c) = std::abs(expected.v(i, c));
        }
      }
      EXPECT_EQ(Differs(expected, dst, 1), "");
      EXPECT_TRUE(dst.GapsUntouched());
    }
  });
}

// (a - mean) / divisor * scale + shift over rows [begin, end), and what float32 may be off.
void Standardize(const TestMatrix& a, int64_t begin, int64_t end, bool inside, double eps, const Operands& o,
                 Expected* expected) {
  long double sum = 0, squares = 0;
  const long double count = static_cast<long double>((end - begin) * a.cols());
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < a.cols(); ++c) {
      sum += a.at(i, c);
      squares += static_cast<long double>(a.at(i, c)) * a.at(i, c);
    }
  }
  const double mean = static_cast<double>(sum / count);
  const double variance = static_cast<double>(squares / count - sum / count * sum / count);
  const double divisor = inside ? std::sqrt(variance + eps) : std::sqrt(std::max(variance, 0.0)) + eps;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < a.cols(); ++c) {
      expected->v(i, c) = (a.at(i, c) - mean) / divisor * o.scale[c] + o.shift[c];
      expected->m(i, c) =
          (std::abs(a.at(i, c)) + std::abs(mean)) / divisor * std::abs(o.scale[c]) + std::abs(o.shift[c]);
    }
  }
}

TEST(Rowwise, LayerNorm) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      if (width == 1) continue;  // its variance is 0: the result is the noise of one subtraction
      Operands o(11, width);
      TestMatrix dst(11, width, 9);
      ASSERT_TRUE(Launch(kernel, o.Args(RowwiseKind::kLayerNorm, &dst)).ok());
      Expected expected(11, width);
      for (int64_t i = 0; i < 11; ++i) Standardize(o.a, i, i + 1, true, 1e-5f, o, &expected);
      o.Epilogue(&expected);
      EXPECT_EQ(Differs(expected, dst, 4), "");
    }
  });
}

TEST(Rowwise, GraphNormBothFormulasAndSegments) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : {3, 16, 65}) {
      for (const bool batched : {false, true}) {
        for (const std::vector<int64_t>& segments :
             {std::vector<int64_t>{0, 900}, std::vector<int64_t>{0, 5, 5, 600, 900}}) {
          Operands o(900, width);
          const TestMatrix before = o.a;
          RowwiseArgs args = o.Args(RowwiseKind::kGraphNorm, &o.a);
          args.segments = segments.data();
          args.num_segments = static_cast<int64_t>(segments.size()) - 1;
          args.batched = batched;
          ASSERT_TRUE(Launch(kernel, args).ok());
          Expected expected(900, width);
          for (size_t g = 0; g + 1 < segments.size(); ++g)
            Standardize(before, segments[g], segments[g + 1], batched, 1e-5f, o, &expected);
          o.Epilogue(&expected);
          EXPECT_EQ(Differs(expected, o.a, 4), "");
        }
      }
    }
  });
}

TEST(Rowwise, GraphNormHasEqualBitsForThreadsAndForASegmentOfItsOwn) {
  ForEachKernel([](const auto& kernel) {
    Operands o(20000, 33);
    const std::vector<int64_t> whole = {0, 20000}, beside = {0, 20000, 20000};
    TestMatrix one(20000, 33, 9), two = one, three = one, segmented = one;
    int threads = 1;
    for (TestMatrix* dst : {&one, &two, &three, &segmented}) {
      RowwiseArgs args = o.Args(RowwiseKind::kGraphNorm, dst);
      args.segments = dst == &segmented ? beside.data() : whole.data();
      args.num_segments = dst == &segmented ? 2 : 1;
      ASSERT_TRUE(Launch(kernel, args, dst == &segmented ? 1 : threads++).ok());
    }
    EXPECT_EQ(one.Values(), two.Values());
    EXPECT_EQ(one.Values(), three.Values());
    EXPECT_EQ(one.Values(), segmented.Values());
  });
}

TEST(Rowwise, GatherRowsAndSparseToDenseCopyBits) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      Operands o(19, width);
      const std::vector<int64_t> index = {18, 0, 0, 7, 18};
      TestMatrix dst(5, width, 9);
      RowwiseArgs args = o.Args(RowwiseKind::kGatherRows, &dst);
      args.index = index.data();
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t c = 0; c < width; ++c) EXPECT_EQ(dst.at(i, c), o.a.at(index[i], c));
      }
      for (const bool weighted : {false, true}) {
        const TestCsr sparse = RandomSparse(23, width, 4, 5);
        TestMatrix dense(23, width, 9);
        args = o.Args(RowwiseKind::kSparseToDense, &dense);
        args.sparse = sparse.View(weighted);
        ASSERT_TRUE(Launch(kernel, args).ok());
        Expected expected = OracleDense(sparse, weighted);
        for (int64_t i = 0; i < 23; ++i) {
          for (int64_t c = 0; c < width; ++c) EXPECT_EQ(dense.at(i, c), expected.v(i, c));
        }
        EXPECT_TRUE(dense.GapsUntouched());
      }
    }
  });
}

// TransformerConv's beta: in place or not.
TEST(Rowwise, GateWeighsTwoRows) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      for (const bool in_place : {false, true}) {
        Operands o(29, width);
        std::vector<float> scale(3 * width);
        Random r(8);
        for (float& s : scale) s = 3 * r.Float();
        const TestMatrix a = o.a;
        TestMatrix other(29, width, 9);
        TestMatrix* dst = in_place ? &o.a : &other;
        RowwiseArgs args = o.Args(RowwiseKind::kGate, dst);
        args.scale = scale.data();
        args.shift = nullptr;
        args.epilogue = {};
        ASSERT_EQ(kernel.kernel().Refuses(args.problem), "");
        ASSERT_TRUE(Launch(kernel, args).ok());
        Expected expected(29, width);
        for (int64_t i = 0; i < 29; ++i) {
          double score = 0, size = 1;
          for (int64_t c = width - 1; c >= 0; --c) {
            const double x = a.at(i, c), y = o.b.at(i, c);
            score += x * (static_cast<double>(scale[c]) + scale[2 * width + c]) +
                     y * (static_cast<double>(scale[width + c]) - scale[2 * width + c]);
            size += (std::abs(x) + std::abs(y)) *
                    (std::abs(scale[c]) + std::abs(scale[width + c]) + std::abs(scale[2 * width + c]));
          }
          const double gate = 0.5 + 0.5 * std::tanh(score / 2);
          for (int64_t c = 0; c < width; ++c) {
            const double x = a.at(i, c), y = o.b.at(i, c);
            expected.v(i, c) = x + gate * (y - x);
            expected.m(i, c) = (std::abs(x) + std::abs(y)) * size;
          }
        }
        EXPECT_EQ(Differs(expected, *dst, width), "");
        EXPECT_TRUE(dst->GapsUntouched());
      }
    }
  });
}

// A score far from 0 must not overflow into NaN: the gate is 0 or 1.
TEST(Rowwise, GateOfLargeScores) {
  ForEachKernel([](const auto& kernel) {
    Operands o(2, 4);
    const std::vector<float> scale = {1e30f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    o.a.view().row(0)[0] = 1;
    o.a.view().row(1)[0] = -1;
    TestMatrix dst(2, 4, 9);
    RowwiseArgs args = o.Args(RowwiseKind::kGate, &dst);
    args.scale = scale.data();
    args.epilogue = {};
    ASSERT_TRUE(Launch(kernel, args).ok());
    for (int64_t c = 0; c < 4; ++c) {
      EXPECT_EQ(dst.at(0, c), o.b.at(0, c));
      EXPECT_EQ(dst.at(1, c), o.a.at(1, c));
    }
  });
}

// The value of a 16-bit pattern, by its fields.
double Decode(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7FFF) >> mantissa_bits, fraction = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  const int scale = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  return sign * std::ldexp(fraction + (exponent == 0 ? 0 : 1 << mantissa_bits), scale);
}

// The pattern nearest to a finite x > 0, the even one of two: by bisection over all patterns, which ascend in value.
uint16_t Nearest(double x, int exponent_bits) {
  const int largest = ((1 << exponent_bits) - 1) << (15 - exponent_bits);  // infinity
  // As if the exponent went on: what infinity stands for in rounding.
  const double beyond = 2 * std::ldexp(1.0, (1 << (exponent_bits - 1)) - 1);
  int low = 0, high = largest;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (Decode(static_cast<uint16_t>(middle), exponent_bits) <= x ? low : high) = middle;
  }
  const double below = x - Decode(static_cast<uint16_t>(low), exponent_bits);
  const double above = (high == largest ? beyond : Decode(static_cast<uint16_t>(high), exponent_bits)) - x;
  if (x >= beyond || above < below) return static_cast<uint16_t>(high);
  return static_cast<uint16_t>(below < above || low % 2 == 0 ? low : high);
}

// Numbers of every exponent, halfway cases and their neighbours, the ends of both formats' ranges.
std::vector<float> NumbersToNarrow() {
  std::vector<float> numbers = {0.0f,     1e-45f,          65504.0f,     65519.996f,   65520.0f,        65536.0f,
                                3.4e38f,  6.1e-5f,         0x1.FFCp-15f, 0x1.FFEp-15f, 0x1p-14f,        0x1p-24f,
                                0x1p-25f, 0x1.000002p-25f, 0x1.8p-24f,   0x1.FEp127f,  0x1.FEFFFEp127f, 0x1.FFp127f};
  Random r(12);
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (int k = 0; k < 12; ++k) {
      // Few bits set: ties of both formats are frequent.
      const double mantissa = 1 + static_cast<double>(r.Below(4096)) / 4096;
      numbers.push_back(static_cast<float>(std::ldexp(mantissa, exponent)));
      numbers.push_back(std::nextafter(numbers.back(), k % 2 == 0 ? HUGE_VALF : 0.0f));
    }
  }
  for (float& x : numbers) {
    if (std::isinf(x)) x = 1.0f;
  }
  const size_t count = numbers.size();
  for (size_t k = 0; k < count; ++k) numbers.push_back(-numbers[k]);
  return numbers;
}

TEST(Rowwise, NarrowsToNearestEven) {
  const std::vector<float> numbers = NumbersToNarrow();
  ForEachKernel([&](const auto& kernel) {
    for (const Storage storage : {Storage::kBfloat16, Storage::kFloat16}) {
      const int exponent_bits = storage == Storage::kBfloat16 ? 8 : 5;
      for (const int64_t width : {1, 7, 16, 37, 200}) {
        const int64_t rows = static_cast<int64_t>(numbers.size()) / width, stride = width + 3;
        TestMatrix a(rows, width, 1);
        for (int64_t k = 0; k < rows * width; ++k) a.view().row(k / width)[k % width] = numbers[k];
        std::vector<uint16_t> dst(rows * stride, 0xABCD);
        RowwiseArgs args;
        args.problem = {RowwiseKind::kNarrow, Reduce::kSum, rows, width, storage};
        args.a = a.view();
        args.dst16 = {dst.data(), rows, width, stride};
        ASSERT_EQ(kernel.kernel().Refuses(args.problem), "");
        ASSERT_TRUE(Launch(kernel, args, 2).ok());
        for (int64_t k = 0; k < rows * stride; ++k) {
          const int64_t i = k / stride, c = k % stride;
          if (c >= width) {
            ASSERT_EQ(dst[k], 0xABCD);
            continue;
          }
          const float x = a.at(i, c);
          const int want = Nearest(std::abs(static_cast<double>(x)), exponent_bits) | (std::signbit(x) ? 0x8000 : 0);
          ASSERT_EQ(dst[k], want) << x;
        }
      }
    }
  });
}

TEST(Rowwise, NarrowKeepsNanAndInfinity) {
  uint32_t low_payload = 0x7F800001;  // a NaN whose upper half alone is infinity
  float signalling;
  std::memcpy(&signalling, &low_payload, sizeof(signalling));
  ForEachKernel([&](const auto& kernel) {
    for (const Storage storage : {Storage::kBfloat16, Storage::kFloat16}) {
      TestMatrix a(1, 40, 1);
      const float specials[] = {std::nanf(""), -std::nanf(""), signalling, HUGE_VALF, -HUGE_VALF};
      for (int k = 0; k < 5; ++k) a.view().row(0)[30 + k] = specials[k];
      std::vector<uint16_t> dst(40);
      RowwiseArgs args;
      args.problem = {RowwiseKind::kNarrow, Reduce::kSum, 1, 40, storage};
      args.a = a.view();
      args.dst16 = {dst.data(), 1, 40, 40};
      ASSERT_TRUE(Launch(kernel, args).ok());
      const int exponent_bits = storage == Storage::kBfloat16 ? 8 : 5;
      for (int k = 30; k < 33; ++k) EXPECT_TRUE(std::isnan(Decode(dst[k], exponent_bits)));
      EXPECT_EQ(Decode(dst[33], exponent_bits), HUGE_VAL);
      EXPECT_EQ(Decode(dst[34], exponent_bits), -HUGE_VAL);
    }
  });
}

TEST(Rowwise, NarrowRefusesFloat32) {
  ForEachKernel([](const auto& kernel) {
    EXPECT_NE(kernel.kernel().Refuses({RowwiseKind::kNarrow, Reduce::kSum, 3, 4, Storage::kFloat32}), "");
  });
}

TEST(Rowwise, ReadoutOfSegmentsEmptyOnesIncluded) {
  const std::vector<int64_t> segments = {0, 0, 1, 400, 400, 407, 450};
  TestGraph graph{"segments", 6, 450, {}};
  for (int32_t g = 0; g < 6; ++g) {
    for (int64_t i = segments[g]; i < segments[g + 1]; ++i) graph.edges.push_back({static_cast<int32_t>(i), g, 1.0f});
  }
  ForEachKernel([&](const auto& kernel) {
    for (const int64_t width : kWidths) {
      for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax}) {
        Operands o(450, width);
        TestMatrix dst(6, width, 9);
        RowwiseArgs args = o.Args(RowwiseKind::kReadout, &dst);
        args.problem.reduce = reduce;
        args.segments = segments.data();
        args.num_segments = 6;
        ASSERT_TRUE(Launch(kernel, args).ok());
        Expected expected = OracleAggregate(graph, false, reduce, 0, o.a);
        o.Epilogue(&expected);
        EXPECT_EQ(Differs(expected, dst, 400), "");
      }
    }
  });
}

TEST(Rowwise, NothingToDo) {
  ForEachKernel([](const auto& kernel) {
    const int64_t none = 0;
    for (const RowwiseKind kind :
         {RowwiseKind::kAdd, RowwiseKind::kMax, RowwiseKind::kNormalize, RowwiseKind::kLayerNorm,
          RowwiseKind::kGraphNorm, RowwiseKind::kGatherRows, RowwiseKind::kSparseToDense, RowwiseKind::kReadout}) {
      Operands o(0, 5);
      TestMatrix dst(0, 5, 1);
      RowwiseArgs args = o.Args(kind, &dst);
      args.segments = &none;
      EXPECT_TRUE(Launch(kernel, args).ok());
    }
  });
}

// Relative error in units of 2^-24 against the C library in extended precision.
TEST(Activations, AccurateOverTheWholeRange) {
  struct Reference {
    Activation activation;
    std::function<long double(long double)> f;
  };
  const Reference references[] = {
      {{ActivationKind::kElu, 1.0f}, [](long double x) { return x > 0 ? x : std::expm1(x); }},
      {{ActivationKind::kSigmoid, 0}, [](long double x) { return 1 / (1 + std::exp(-x)); }},
      {{ActivationKind::kTanh, 0}, [](long double x) { return std::tanh(x); }}};
  std::vector<float> inputs = {0.0f, -0.0f};
  for (float x = 1e-30f; x < 80.0f; x *= 1.0137f) inputs.insert(inputs.end(), {x, -x});
  ForEachKernel([&](const auto& kernel) {
    for (const Reference& reference : references) {
      TestMatrix a(1, static_cast<int64_t>(inputs.size()), 1), dst = a;
      for (size_t c = 0; c < inputs.size(); ++c) a.view().row(0)[c] = inputs[c];
      RowwiseArgs args;
      args.problem = {RowwiseKind::kAdd, Reduce::kSum, 1, a.cols()};
      args.a = a.view();
      args.dst = dst.view();
      args.epilogue.activation = reference.activation;
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (size_t c = 0; c < inputs.size(); ++c) {
        const long double want = reference.f(inputs[c]);
        ASSERT_NEAR(dst.at(0, c), want, 6 * kUnit * std::abs(want))
            << ToString(reference.activation.kind) << " of " << inputs[c];
      }
    }
  });
}

TEST(Activations, KeepNanAndTakeInfinity) {
  ForEachKernel([](const auto& kernel) {
    for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kElu, ActivationKind::kLeakyRelu,
                                      ActivationKind::kSigmoid, ActivationKind::kTanh}) {
      TestMatrix a(1, 40, 1), dst = a;
      a.view().row(0)[7] = std::nanf("");
      a.view().row(0)[8] = HUGE_VALF;
      a.view().row(0)[9] = -HUGE_VALF;
      RowwiseArgs args;
      args.problem = {RowwiseKind::kAdd, Reduce::kSum, 1, 40};
      args.a = a.view();
      args.dst = dst.view();
      args.epilogue.activation = {kind, 0.5f};
      ASSERT_TRUE(Launch(kernel, args).ok());
      EXPECT_TRUE(std::isnan(dst.at(0, 7))) << ToString(kind);
      const bool bounded = kind == ActivationKind::kSigmoid || kind == ActivationKind::kTanh;
      EXPECT_EQ(dst.at(0, 8), bounded ? 1.0f : HUGE_VALF) << ToString(kind);
      const float low = kind == ActivationKind::kRelu || kind == ActivationKind::kSigmoid ? 0.0f
                        : kind == ActivationKind::kElu                                    ? -0.5f
                        : kind == ActivationKind::kTanh                                   ? -1.0f
                                                                                          : -HUGE_VALF;
      EXPECT_EQ(dst.at(0, 9), low) << ToString(kind);
      for (int64_t c = 10; c < 40; ++c) EXPECT_TRUE(std::isfinite(dst.at(0, c)));
    }
  });
}

}  // namespace
}  // namespace vicinal::testing
