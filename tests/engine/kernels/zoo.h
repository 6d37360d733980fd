// SPDX-License-Identifier: Apache-2.0
// Small graphs that kernels are tried on, and what the tests need to hold operands: matrices with gaps between their
// rows that must stay untouched, random numbers that are the same everywhere, and runs of a kernel with scratch full of
// rubbish.
#ifndef VICINAL_TESTS_ENGINE_KERNELS_ZOO_H_
#define VICINAL_TESTS_ENGINE_KERNELS_ZOO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "tests/split_mix.h"

namespace vicinal::testing {

struct Edge {
  int32_t source;
  int32_t target;
  float weight;
};

// A graph as an edge list, sorted by nothing in particular; the order within a target is the order of its in-edges.
struct TestGraph {
  std::string name;
  int64_t targets;  // R
  int64_t sources;  // S
  std::vector<Edge> edges;
};

// Numbers in [-1, 1), the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed * 2 + 1) {}
  uint64_t Next() { return bits_.Next(); }
  float Float() { return static_cast<float>(2.0 * bits_.Unit() - 1.0); }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }

 private:
  SplitMix64 bits_;
};
std::vector<float> RandomVector(int64_t size, uint64_t seed);

// One node, no edges, loops, duplicates, a star either way, a path, a hub beside empty rows, directed, disconnected,
// bipartite, complete, random.
std::vector<TestGraph> Zoo();
// Enough work for several threads; degrees from 0 to thousands.
TestGraph LargeGraph(int64_t nodes, int64_t edges);

// A graph in CSR by target, owning its arrays.
struct TestCsr {
  std::vector<int64_t> row_ptr;
  std::vector<int32_t> col;
  std::vector<float> value;
  int64_t rows = 0, cols = 0;

  CsrView View(bool weighted) const;
};
TestCsr ToCsr(const TestGraph& graph);
// Random sparse rows, columns ascending; about `per_row` nonzeros in each, none in every fifth.
TestCsr RandomSparse(int64_t rows, int64_t cols, int64_t per_row, uint64_t seed);

// Random [rows, cols] with `gap` elements between rows, beginning at an address that is not aligned to a vector.
class TestMatrix {
 public:
  TestMatrix(int64_t rows, int64_t cols, uint64_t seed, int64_t gap = 3);
  MatrixView view();
  ConstMatrixView view() const;
  float at(int64_t r, int64_t c) const { return data_[kOffset + r * stride_ + c]; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  void Fill(float value);
  // True when nothing was written between the rows, before the first or after the last.
  bool GapsUntouched() const;
  std::vector<float> Values() const;

 private:
  static constexpr int64_t kOffset = 5;
  int64_t rows_, cols_, stride_;
  std::vector<float> data_;
};

// The CPU's kernels, and contexts with 1, 2 and 3 threads.
struct Machine {
  Machine();
  KernelRegistry registry;
  std::unique_ptr<Device> devices[3];
  std::unique_ptr<DeviceContext> contexts[3];
};
Machine& TheMachine();

// Scratch of `bytes` that holds NaN; aligned as promised.
Buffer RubbishScratch(size_t bytes);

// Runs one kernel with the context of `threads` threads.
template <class K>
Status Launch(const RegisteredKernel<K>& kernel, const typename K::Args& args, int threads = 1) {
  Buffer scratch = RubbishScratch(kernel.kernel().ScratchBytes(args.problem, args.config, threads));
  return kernel.Launch(*TheMachine().contexts[threads - 1], args, scratch.data());
}

// W packed as the kernel wants it.
template <class K>
Buffer Packed(const K& kernel, ConstMatrixView weight) {
  Buffer packed = RubbishScratch(kernel.PackedBytes(weight.rows, weight.cols));
  kernel.Pack(weight, packed.data());
  return packed;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_KERNELS_ZOO_H_
