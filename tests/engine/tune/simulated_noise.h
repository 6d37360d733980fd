// SPDX-License-Identifier: Apache-2.0
// Times of runs as a shared machine gives them: log-normal jitter, spikes, a speed that drifts, and a phase in which
// somebody else works. Seeded: the same on every machine.
#ifndef VICINAL_TESTS_ENGINE_TUNE_SIMULATED_NOISE_H_
#define VICINAL_TESTS_ENGINE_TUNE_SIMULATED_NOISE_H_

#include <cmath>
#include <cstdint>

#include "tests/split_mix.h"

namespace vicinal::testing {

// With distributions of our own, because those of the standard library differ between libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  uint64_t Bits() { return bits_.Next(); }
  double Uniform() { return bits_.Unit(); }
  double Between(double low, double high) { return low + (high - low) * Uniform(); }
  double Normal() { return std::sqrt(-2.0 * std::log(1.0 - Uniform())) * std::cos(6.283185307179586 * Uniform()); }

 private:
  SplitMix64 bits_;
};

struct Noise {
  double jitter = 0.02;       // deviation of the logarithm
  double spike_chance = 0.0;  // of a run that takes 1.5 to 10 times as long
  double drift = 0.0;         // over 100 runs the speed changes by this share, up and down
  int disturbed_begin = 0;    // runs [begin, end) take `disturbed_factor` as long, with much jitter
  int disturbed_end = 0;
  double disturbed_factor = 1.6;
  double drop_chance = 0.0;  // samples that are known to be disturbed

  // The time of run number `run`, in a row of all runs, whose true time is `seconds`.
  double Time(double seconds, int run, Random& random) const {
    const bool disturbed = run >= disturbed_begin && run < disturbed_end;
    double factor = std::exp((disturbed ? jitter + 0.2 : jitter) * random.Normal());
    if (disturbed) factor *= disturbed_factor;
    if (random.Uniform() < spike_chance) factor *= random.Between(1.5, 10.0);
    return seconds * factor * (1.0 + drift * std::sin(run * 0.0628));
  }
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_TUNE_SIMULATED_NOISE_H_
