// SPDX-License-Identifier: Apache-2.0
// Counts cases per operation, compares against the oracle and prints what failed.
#ifndef VICINAL_TESTS_CONFORMANCE_REPORT_H_
#define VICINAL_TESTS_CONFORMANCE_REPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/machine.h"

namespace vicinal::conformance {

class Report {
 public:
  static constexpr double kRelativeL2 = 2e-6;
  // What each element may be off by, [rows * cols].
  using Bounds = std::function<std::vector<double>()>;

  // Of the cases that ask whether they are to run, every `of`-th is, from number `share` on: so that several processes
  // share out what is slow in one (compute-sanitizer).
  void TakeShare(int share, int of) {
    share_ = share;
    of_ = of;
  }
  bool IsMine() { return asked_++ % of_ == share_; }
  bool is_share() const { return of_ > 1; }
  // For tools that only watch what a run does, and make it take a hundred times as long: nothing is run a second time
  // for its bits' sake, the largest graphs have fewer edges, cases that differ by numbers alone run in one shape, and
  // how long a step takes is not looked at.
  void BeBrief() { brief_ = true; }
  bool brief() const { return brief_; }

  // One case: `got` within the engine's exactness of `want` [rows * cols] (relative L2 error `relative_l2`, no row
  // worse than 1e-4 of its norm), and `again`, a second run's result, equal to it bit by bit. Where terms cancel, a
  // norm says too little: then it is enough that each element is within `bounds()`, which is asked only then.
  void Check(const std::string& operation, const std::string& what, const HostMatrix& got, const HostMatrix& again,
             const std::vector<double>& want, double relative_l2 = kRelativeL2, const Bounds& bounds = {});
  // The same for what `run` gives, twice; returns the first.
  template <class Run>
  HostMatrix CheckTwice(const std::string& operation, const std::string& what, const Run& run,
                        const std::vector<double>& want, const Bounds& bounds = {}) {
    HostMatrix got = run();
    Check(operation, what, got, brief_ ? got : run(), want, kRelativeL2, bounds);
    return got;
  }
  // One case that two results are equal bit by bit.
  void CheckSame(const std::string& operation, const std::string& what, const HostMatrix& got, const HostMatrix& want);
  void CheckTrue(const std::string& operation, const std::string& what, bool ok);
  // Prints a line per operation; true when no case failed. There must be one, but for a share of none: cases that no
  // kernel takes are shared out, too.
  bool Summary() const;

 private:
  struct Count {
    int64_t cases = 0;
    int64_t failed = 0;
    double worst = 0;  // relative L2 error
  };
  void Fail(const std::string& operation, const std::string& what, const std::string& why);
  std::map<std::string, Count> counts_;
  int64_t asked_ = 0;
  int share_ = 0, of_ = 1;
  bool brief_ = false;
};

}  // namespace vicinal::conformance

#endif  // VICINAL_TESTS_CONFORMANCE_REPORT_H_
