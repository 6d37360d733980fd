// SPDX-License-Identifier: Apache-2.0
// How two rows of a model's output become the score of a link: the section `decoder` of a model's document, bound to
// weights (docs/formats.md, "Decoders of links"). Immutable, part of the model.
#ifndef VICINAL_ENGINE_MODEL_DECODER_H_
#define VICINAL_ENGINE_MODEL_DECODER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/vocabulary.h"
#include "engine/model/step.h"

namespace vicinal {

enum class DecoderKind {
  kDot,       // sum_c u_c v_c
  kCosine,    // the same of u / max(|u|, 1e-12) and v / max(|v|, 1e-12)
  kBilinear,  // sum_ab u_a W_r[a, b] v_b + bias_r
  kDistMult,  // sum_c u_c w_r[c] v_c
  kMlp,       // layers applied to [u, v], or to the products u_c v_c
};

// out = activation(in W^T + bias).
struct DecoderLayer {
  WeightRef weight;  // [out, in]
  WeightRef bias;    // [out] or null
  Activation activation;
};

struct Decoder {
  DecoderKind kind = DecoderKind::kDot;
  std::string output;                // of the model, whose rows it takes
  int64_t width = 0;                 // D of these rows
  int64_t relations = 1;             // R; pairs name one of [0, R)
  WeightRef weight;                  // kBilinear [R, D, D]; kDistMult [R, D]
  WeightRef bias;                    // kBilinear [R], or null
  bool product = false;              // kMlp: of u * v, not of [u, v]
  std::vector<DecoderLayer> layers;  // kMlp, at least one; the last has one column

  std::vector<WeightRef> weights() const;
};

// "dot", "cosine", "bilinear", "distmult", "mlp".
std::string_view NameOf(DecoderKind kind);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MODEL_DECODER_H_
