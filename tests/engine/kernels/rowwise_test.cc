// SPDX-License-Identifier: Apache-2.0
// Conformance of the row-wise kinds, each against its definition in double precision. Rounding to 16 bits and
// activations: rowwise_narrow_test.cc, activations_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/engine/kernels/oracle.h"
#include "tests/engine/kernels/rowwise_testing.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kWidths[] = {1, 3, 16, 32, 33, 64, 200, 602};

// One problem of `rows` x `width` with everything a kind may want; dst is a matrix of its own or `a`.
struct Operands {
  Operands(int64_t rows, int64_t width)
      : a(rows, width, 1), b(rows, width, 2), residual(rows, width, 3), scale(width), shift(width), bias(width) {
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
    args.epilogue.residual = residual.view();
    args.epilogue.residual_scale = 2.0f;
    args.epilogue.activation = {ActivationKind::kLeakyRelu, 0.5f};
    return args;
  }
  void Epilogue(Expected* expected) {
    OracleEpilogue(&bias, &residual, 2.0f, {ActivationKind::kLeakyRelu, 0.5f}, expected);
  }

  TestMatrix a, b, residual;
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

TEST(Rowwise, Multiply) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      for (const bool in_place : {false, true}) {
        Operands o(13, width);
        const TestMatrix a = o.a;
        TestMatrix other(13, width, 9);
        TestMatrix* dst = in_place ? &o.a : &other;
        ASSERT_TRUE(Launch(kernel, o.Args(RowwiseKind::kMultiply, dst)).ok());
        Expected expected = Exactly(a);
        for (int64_t i = 0; i < 13; ++i) {
          for (int64_t c = 0; c < width; ++c) {
            expected.v(i, c) *= o.b.at(i, c);
            expected.m(i, c) = std::abs(expected.v(i, c));
          }
        }
        o.Epilogue(&expected);
        EXPECT_EQ(Differs(expected, *dst, 1), "");
        EXPECT_TRUE(dst->GapsUntouched());
      }
    }
  });
}

// In place or not, also of numbers whose exponentials overflow.
TEST(Rowwise, SoftmaxAndItsLogarithm) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      for (const RowwiseKind kind : {RowwiseKind::kSoftmax, RowwiseKind::kLogSoftmax}) {
        for (const bool in_place : {false, true}) {
          Operands o(11, width);
          for (int64_t c = 0; c < width; ++c) o.a.view().row(4)[c] = o.a.at(4, c) * 10 + 500;
          const TestMatrix a = o.a;
          TestMatrix other(11, width, 9);
          TestMatrix* dst = in_place ? &o.a : &other;
          RowwiseArgs args = o.Args(kind, dst);
          args.epilogue = {};
          ASSERT_TRUE(Launch(kernel, args).ok());
          Expected expected(11, width);
          for (int64_t i = 0; i < 11; ++i) {
            long double sum = 0;
            for (int64_t c = 0; c < width; ++c) sum += std::exp(static_cast<long double>(a.at(i, c)));
            for (int64_t c = 0; c < width; ++c) {
              const double logarithm = static_cast<double>(a.at(i, c) - std::log(sum));
              expected.v(i, c) = kind == RowwiseKind::kLogSoftmax ? logarithm : std::exp(logarithm);
              expected.m(i, c) = kind == RowwiseKind::kLogSoftmax ? 8 + 2 * std::abs(logarithm)
                                                                  : (8 + std::abs(logarithm)) * expected.v(i, c);
            }
          }
          EXPECT_EQ(Differs(expected, *dst, width), "");
          EXPECT_TRUE(dst->GapsUntouched());
        }
      }
    }
  });
}

// Only its own row is spoilt by a NaN.
TEST(Rowwise, SoftmaxOfNan) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      Operands o(5, width);
      o.a.view().row(1)[0] = o.a.view().row(3)[width - 1] = std::nanf("");
      TestMatrix dst(5, width, 9);
      RowwiseArgs args = o.Args(RowwiseKind::kSoftmax, &dst);
      args.epilogue = {};
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t c = 0; c < width; ++c) EXPECT_EQ(std::isnan(dst.at(i, c)), i % 2 == 1) << i << ", " << c;
      }
    }
  });
}

TEST(Rowwise, NanIsNotLostToAMaximum) {
  const std::vector<int64_t> segments = {0, 1, 2, 8, 13};
  ForEachKernel([&](const auto& kernel) {
    for (const int64_t width : kWidths) {
      Operands o(13, width);
      const int64_t last = width - 1;
      o.a.view().row(1)[0] = o.a.view().row(2)[last] = o.b.view().row(4)[last] = o.a.view().row(12)[0] = std::nanf("");
      TestMatrix dst(13, width, 9), pooled(4, width, 9);
      RowwiseArgs args = o.Args(RowwiseKind::kMax, &dst);
      args.epilogue = {};
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (int64_t i = 0; i < 13; ++i) {
        for (int64_t c = 0; c < width; ++c) {
          EXPECT_EQ(std::isnan(dst.at(i, c)), std::isnan(o.a.at(i, c)) || std::isnan(o.b.at(i, c))) << i << ", " << c;
        }
      }
      for (const Reduce reduce : {Reduce::kMax, Reduce::kMin}) {
        args = o.Args(RowwiseKind::kReadout, &pooled);
        args.epilogue = {};
        args.problem.reduce = reduce;
        args.segments = segments.data();
        args.num_segments = 4;
        ASSERT_TRUE(Launch(kernel, args).ok());
        for (int64_t g = 0; g < 4; ++g) {
          for (int64_t c = 0; c < width; ++c) {
            const bool spoilt = (g == 1 && c == 0) || (g == 2 && c == last) || (g == 3 && c == 0);
            EXPECT_EQ(std::isnan(pooled.at(g, c)), spoilt) << g << ", " << c;
          }
        }
      }
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

// Lengths and differences from means that are no floats any more.
TEST(Rowwise, RowsNearTheEndOfFloatsAreNormalised) {
  ForEachKernel([](const auto& kernel) {
    for (const int64_t width : kWidths) {
      if (width < 3) continue;
      Operands o(2, width);
      long double squares = 0, sum = 0;
      for (int64_t c = 0; c < width; ++c) {
        const float x = c % 3 == 0 ? 3e38f : -3.2e38f;
        o.a.view().row(0)[c] = o.a.view().row(1)[c] = x;
        squares += static_cast<long double>(x) * x, sum += x;
      }
      const long double mean = sum / width, deviation = std::sqrt(squares / width - mean * mean);
      TestMatrix dst(2, width, 9);
      RowwiseArgs args;
      args.a = o.a.view();
      args.dst = dst.view();
      args.problem = {RowwiseKind::kNormalize, Reduce::kSum, 2, width};
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (int64_t c = 0; c < width; ++c) {
        EXPECT_NEAR(dst.at(1, c), static_cast<double>(o.a.at(1, c) / std::sqrt(squares)), 1e-6) << c << " of " << width;
      }
      args.problem.kind = RowwiseKind::kLayerNorm;
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (int64_t c = 0; c < width; ++c) {
        EXPECT_NEAR(dst.at(1, c), static_cast<double>((o.a.at(1, c) - mean) / deviation), 1e-5) << c << " of " << width;
      }
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
        ASSERT_EQ(kernel.kernel().WhyUnsupported(args.problem), "");
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

TEST(Rowwise, MediansAndRowsInOrder) {
  const std::vector<int64_t> segments = {0, 0, 1, 400, 400, 407, 450};
  constexpr int64_t kRows = 9;
  ForEachKernel([&](const auto& kernel) {
    for (const int64_t width : kWidths) {
      Operands o(450, width);
      TestMatrix medians(6, width, 9), sorted(6, kRows * width, 9);
      for (TestMatrix* const dst : {&medians, &sorted}) {
        RowwiseArgs args = o.Args(dst == &medians ? RowwiseKind::kMedian : RowwiseKind::kSortRows, dst);
        args.epilogue = {};
        args.segments = segments.data();
        args.num_segments = 6;
        ASSERT_TRUE(Launch(kernel, args).ok());
        EXPECT_TRUE(dst->GapsUntouched());
      }
      for (int64_t g = 0; g < 6; ++g) {
        std::vector<int64_t> rows;
        for (int64_t i = segments[g]; i < segments[g + 1]; ++i) rows.push_back(i);
        const auto before = [&](int64_t i, int64_t j) {
          for (int64_t c = width - 1; c >= 0; --c) {
            if (o.a.at(i, c) != o.a.at(j, c)) return o.a.at(i, c) > o.a.at(j, c);
          }
          return false;
        };
        std::sort(rows.begin(), rows.end(), before);
        for (int64_t c = 0; c < width; ++c) {
          for (int64_t place = 0; place < kRows; ++place) {
            const bool some = place < static_cast<int64_t>(rows.size());
            EXPECT_EQ(sorted.at(g, place * width + c), some ? o.a.at(rows[place], c) : 0.0f);
          }
          // As many numbers are below the median as above it, or one less.
          int64_t below = 0, equal = 0;
          for (const int64_t i : rows) {
            below += o.a.at(i, c) < medians.at(g, c) ? 1 : 0;
            equal += o.a.at(i, c) == medians.at(g, c) ? 1 : 0;
          }
          const int64_t rank = (static_cast<int64_t>(rows.size()) - 1) / 2;
          const bool right = rows.empty() ? medians.at(g, c) == 0.0f : below <= rank && rank < below + equal;
          EXPECT_TRUE(right) << g << " " << c;
        }
      }
    }
  });
}

TEST(Rowwise, ExpandGivesEachRowThatOfItsSegment) {
  const std::vector<int64_t> segments = {0, 0, 1, 400, 400, 407, 450, 450};
  ForEachKernel([&](const auto& kernel) {
    for (const int64_t width : kWidths) {
      Operands o(450, width);
      const TestMatrix pooled(7, width, 10);
      TestMatrix dst(450, width, 9);
      RowwiseArgs args = o.Args(RowwiseKind::kExpand, &dst);
      args.a = pooled.view();
      args.segments = segments.data();
      args.num_segments = 7;
      ASSERT_TRUE(Launch(kernel, args).ok());
      Expected expected(450, width);
      for (int64_t g = 0; g < 7; ++g) {
        for (int64_t i = segments[g]; i < segments[g + 1]; ++i) {
          for (int64_t c = 0; c < width; ++c) {
            expected.v(i, c) = pooled.at(g, c);
            expected.m(i, c) = std::abs(expected.v(i, c));
          }
        }
      }
      o.Epilogue(&expected);
      EXPECT_EQ(Differs(expected, dst, 1), "");
      EXPECT_TRUE(dst.GapsUntouched());
    }
  });
}

TEST(Rowwise, NothingToDo) {
  ForEachKernel([](const auto& kernel) {
    const int64_t none = 0;
    for (const RowwiseKind kind :
         {RowwiseKind::kAdd, RowwiseKind::kMax, RowwiseKind::kMultiply, RowwiseKind::kSoftmax, RowwiseKind::kLogSoftmax,
          RowwiseKind::kNormalize, RowwiseKind::kLayerNorm, RowwiseKind::kGraphNorm, RowwiseKind::kGatherRows,
          RowwiseKind::kSparseToDense, RowwiseKind::kReadout}) {
      Operands o(0, 5);
      TestMatrix dst(0, 5, 1);
      RowwiseArgs args = o.Args(kind, &dst);
      args.segments = &none;
      EXPECT_TRUE(Launch(kernel, args).ok());
    }
  });
}

}  // namespace
}  // namespace vicinal::testing
