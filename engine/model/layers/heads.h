// SPDX-License-Identifier: Apache-2.0
// Heads of attention layers: their number and widths from the arguments in_channels, out_channels, heads and concat.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_HEADS_H_
#define VICINAL_ENGINE_MODEL_LAYERS_HEADS_H_

#include <string>
#include <vector>

#include "engine/model/layer_type.h"

namespace vicinal::internal {

struct Heads {
  int64_t count = 1;
  int64_t width = 1;
  int64_t total = 1;  // before heads are concatenated or averaged
  int64_t out = 1;    // after
};

// in_channels, out_channels, heads, concat.
inline std::vector<ArgumentSpec> HeadArguments() {
  return {InChannelsArgument("in_channels"), RequiredIntArgument("out_channels", 1, kMaxWidth),
          IntArgument("heads", 1, 1, 65536), BoolArgument("concat", true)};
}

// BAD_ARCHITECTURE: in_channels is not the input's width, or heads times out_channels is beyond kMaxWidth.
inline StatusOr<Heads> ReadHeads(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  Heads heads;
  heads.count = args.Int("heads");
  heads.width = args.Int("out_channels");
  heads.total = heads.count * heads.width;
  if (heads.total > kMaxWidth) {
    return BadArchitecture(args.FieldOf("heads"), context.Describe() + " is " + std::to_string(heads.total) +
                                                      " columns wide (heads times out_channels); at most " +
                                                      std::to_string(kMaxWidth) + " are supported");
  }
  heads.out = args.Bool("concat") ? heads.total : heads.width;
  return heads;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_HEADS_H_
