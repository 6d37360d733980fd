// SPDX-License-Identifier: Apache-2.0
// GNNAdvisor's model of neighbour groups (Wang et al., OSDI'21, section 7.1): how long a setting takes (Eq. 2, in
// arbitrary units), and which settings a thread and a block can bear (Eq. 3 and 4). It ranks settings; it does not
// predict seconds.
//
// As printed, Eq. 2 has poles where dw is a third of the width and tpb the root of the most threads; here these two
// distances are at least 1. It also prefers settings far from them. Whether that is right is for measurements to say.
#ifndef VICINAL_ENGINE_KERNELS_GROUP_MODEL_H_
#define VICINAL_ENGINE_KERNELS_GROUP_MODEL_H_

namespace vicinal {

struct GroupSetting {
  double gs = 0.0;   // neighbours of a group
  double dw = 0.0;   // threads that share its columns
  double tpb = 0.0;  // threads of a block
};

// The input of the model.
struct GroupModel {
  double nodes = 0.0;             // N
  double edges = 0.0;             // E
  double width = 0.0;             // D
  double degree_deviation = 0.0;  // standard deviation of the in-degrees
  double max_threads = 0.0;       // max_tpb: the most threads of a block
  double block_bytes = 0.0;       // memory_capacity: shared memory of a block
  double lane_floats = 0.0;       // computation_capability: floats of one group that a thread may add; 0: no limit

  // Between 0.15, where all degrees are equal, and 0.3; grows with deviation / mean of the degrees, halfway at 1.
  double Alpha() const;
  // Eq. 2. REQUIRES: gs > 0.
  double Latency(const GroupSetting& setting) const;
  // Eq. 3 and 4. REQUIRES: dw > 0.
  bool Fits(const GroupSetting& setting) const;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_GROUP_MODEL_H_
