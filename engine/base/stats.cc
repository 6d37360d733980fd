// SPDX-License-Identifier: Apache-2.0
#include "engine/base/stats.h"

namespace vicinal {
namespace {

class NullSink final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
};

}  // namespace

StatsSink& StatsSink::Null() {
  static NullSink* const sink = new NullSink;
  return *sink;
}

}  // namespace vicinal
