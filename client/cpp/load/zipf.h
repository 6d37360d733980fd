// SPDX-License-Identifier: Apache-2.0
// Random ranks with Zipf popularity: rank r = 0, 1, ... is drawn with a probability proportional to 1/(r+1)^exponent.
// By rejection-inversion (Hoermann and Derflinger, 1996): constant time and memory for any number of ranks.
#ifndef VICINAL_CLIENT_CPP_LOAD_ZIPF_H_
#define VICINAL_CLIENT_CPP_LOAD_ZIPF_H_

#include <cstdint>
#include <random>

namespace vicinal::client::load {

class Zipf {
 public:
  // REQUIRES count >= 1 and a finite exponent >= 0; 0 is uniform.
  Zipf(int64_t count, double exponent);

  int64_t Draw(std::mt19937_64& random) const;

 private:
  double Integral(double x) const;  // of 1/x^exponent, from 1
  double InverseOfIntegral(double y) const;

  int64_t count_;
  double exponent_;
  double low_, high_, accept_;
};

}  // namespace vicinal::client::load

#endif  // VICINAL_CLIENT_CPP_LOAD_ZIPF_H_
