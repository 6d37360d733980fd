// SPDX-License-Identifier: Apache-2.0
// The operands of an attention on the device, for all cases that run one.
#ifndef VICINAL_TESTS_CONFORMANCE_ATTENTION_OPERANDS_H_
#define VICINAL_TESTS_CONFORMANCE_ATTENTION_OPERANDS_H_

#include "engine/kernels/operations.h"
#include "tests/conformance/machine.h"
#include "tests/conformance/oracle.h"

namespace vicinal::conformance {

class AttentionOperands {
 public:
  // `between`: what lies between the rows of wide matrices, which kernels may read with them, but not use.
  AttentionOperands(Device& device, const HostAttention& attention, const MatrixLayout& layout, float between)
      : value_(device, attention.value, layout, between),
        score_src_(device, attention.score_src, layout, 1e30f),
        score_dst_(device, attention.score_dst, {}, 1e30f),
        query_(device, attention.query, layout, between),
        key_(device, attention.key, layout, between),
        att_(device, attention.att),
        negative_slope_(attention.negative_slope),
        score_scale_(attention.score_scale) {}

  // Arguments without problem, configuration and adjacency. They reference this object.
  AttentionArgs Args() const {
    AttentionArgs args;
    args.value = value_.view();
    args.score_src = score_src_.view();
    args.score_dst = score_dst_.view();
    args.query = query_.view();
    args.key = key_.view();
    args.att = att_.data();
    args.negative_slope = negative_slope_;
    args.score_scale = score_scale_;
    return args;
  }

 private:
  const DeviceMatrix value_, score_src_, score_dst_, query_, key_;
  const DeviceArray<float> att_;
  const float negative_slope_, score_scale_;
};

}  // namespace vicinal::conformance

#endif  // VICINAL_TESTS_CONFORMANCE_ATTENTION_OPERANDS_H_
