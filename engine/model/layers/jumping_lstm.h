// SPDX-License-Identifier: Apache-2.0
// JumpingKnowledge with mode "lstm" (Xu et al. 2018): the sum of the inputs, weighted per node by a softmax over
// scores, which a bidirectional LSTM over the inputs and a product give.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_JUMPING_LSTM_H_
#define VICINAL_ENGINE_MODEL_LAYERS_JUMPING_LSTM_H_

#include "engine/model/layer_type.h"

namespace vicinal::internal {

// Arguments `channels`, the width of all inputs, and `num_layers`. BAD_ARCHITECTURE, or of the tensors.
StatusOr<ValueId> LowerJumpingLstm(const LayerContext& context);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_JUMPING_LSTM_H_
