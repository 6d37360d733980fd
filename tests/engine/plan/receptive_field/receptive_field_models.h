// SPDX-License-Identifier: Apache-2.0
// Models whose answers for some nodes need the receptive field only: every kind of layer, two deep or more.
#ifndef VICINAL_TESTS_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_MODELS_H_
#define VICINAL_TESTS_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_MODELS_H_

#include <functional>
#include <vector>

#include "tests/engine/plan/model_maker.h"

namespace vicinal::testing {

inline AdjacencySpec Spec(SelfLoops loops, EdgeWeighting weighting) {
  AdjacencySpec spec;
  spec.loops = loops;
  spec.weighting = weighting;
  return spec;
}

inline ValueId Gcn(ModelMaker& maker, ValueId x, int64_t out, EdgeWeighting weighting) {
  return maker.Bias(
      maker.Propagate(maker.Linear(x, out, false), Reduce::kSum, Spec(SelfLoops::kAddRemaining, weighting)));
}
inline ValueId Sage(ModelMaker& maker, ValueId x, int64_t out, Reduce reduce) {
  return maker.Sum(maker.Linear(maker.Propagate(x, reduce), out, true), maker.Linear(x, out, false));
}
inline ValueId Gin(ModelMaker& maker, ValueId x, int64_t out) {
  const ValueId hidden = maker.BatchNorm(maker.Linear(maker.Propagate(x, Reduce::kSum, {}, 1.25), out, true));
  return maker.Linear(maker.Activate(hidden, ActivationKind::kRelu), out, true);
}
inline ValueId Relu(ModelMaker& maker, ValueId x) { return maker.Activate(x, ActivationKind::kRelu); }

// Two layers of attention that read features of edges.
inline ValueId TwoWithEdgeFeatures(ModelMaker& maker, AttentionKind kind, LoopFeatures loops) {
  ValueId x = 0;
  for (int layer = 0; layer < 2; ++layer) {
    const ValueId h = maker.Linear(x, 12, true), other = maker.Linear(x, 12, true);
    x = kind == AttentionKind::kGat     ? maker.Attention(h, 2, true)
        : kind == AttentionKind::kGatV2 ? maker.AttentionV2(h, other, 2, true)
                                        : maker.AttentionDot(h, other, maker.Linear(x, 12, true), 2, true);
    maker.WithEdgeFeatures(x, loops);
  }
  return x;
}

struct ReceptiveFieldModel {
  const char* name;
  bool weighted;
  std::function<ValueId(ModelMaker&)> layers;
};

inline const std::vector<ReceptiveFieldModel>& ReceptiveFieldModels() {
  static const auto& cases = *new std::vector<ReceptiveFieldModel>{
      {"gcn", false,
       [](ModelMaker& m) {
         return Gcn(m, Relu(m, Gcn(m, 0, 16, EdgeWeighting::kGcnOnes)), 5, EdgeWeighting::kGcnOnes);
       }},
      {"gcn_weighted", true,
       [](ModelMaker& m) {
         return Gcn(m, Relu(m, Gcn(m, 0, 16, EdgeWeighting::kGcnSent)), 5, EdgeWeighting::kGcnSent);
       }},
      {"gcn_mixed_adjacencies", true,
       [](ModelMaker& m) {
         const ValueId one = Relu(m, Gcn(m, 0, 16, EdgeWeighting::kGcnSent));
         const ValueId two = Relu(m, Sage(m, one, 20, Reduce::kMean));
         return Gcn(m, m.Sum(two, m.Linear(one, 20, false)), 5, EdgeWeighting::kGcnOnes);
       }},
      {"sage_mean", false,
       [](ModelMaker& m) { return Sage(m, Relu(m, Sage(m, 0, 24, Reduce::kMean)), 6, Reduce::kMean); }},
      {"sage_max_on_features", false,
       [](ModelMaker& m) { return m.Normalize(Sage(m, Relu(m, Sage(m, 0, 24, Reduce::kMax)), 6, Reduce::kMax)); }},
      {"gin", false, [](ModelMaker& m) { return Gin(m, Relu(m, Gin(m, 0, 16)), 7); }},
      {"gat", false,
       [](ModelMaker& m) {
         const ValueId one = m.Activate(m.Bias(m.Attention(m.Linear(0, 24, false), 3, true)), ActivationKind::kElu);
         return m.Bias(m.Attention(m.Linear(one, 10, false), 2, false));
       }},
      {"gatv2", false,
       [](ModelMaker& m) {
         const ValueId one = Relu(m, m.AttentionV2(m.Linear(0, 24, true), m.Linear(0, 24, true), 3, true));
         return m.AttentionV2(m.Linear(one, 10, true), m.Linear(one, 10, true), 2, false);
       }},
      {"transformer", false,
       [](ModelMaker& m) {
         const ValueId one =
             m.AttentionDot(m.Linear(0, 24, true), m.Linear(0, 24, true), m.Linear(0, 24, true), 3, true);
         const ValueId two = m.Gate(Relu(m, one), m.Linear(0, 24, true));
         return m.AttentionDot(m.Linear(two, 10, true), m.Linear(two, 10, true), m.Linear(two, 10, true), 2, false);
       }},
      {"edge_conv", false,
       [](ModelMaker& m) {
         return m.EdgeConv(m.EdgeConv(m.Linear(0, 12, true), Reduce::kMax, {16, 8}, {0, 3}), Reduce::kSum, {6}, {3});
       }},
      {"jumping_knowledge", false,
       [](ModelMaker& m) {
         const ValueId one = Relu(m, Gcn(m, 0, 12, EdgeWeighting::kGcnOnes));
         const ValueId two = Relu(m, Sage(m, one, 12, Reduce::kMax)), three = Relu(m, Gin(m, two, 12));
         return m.Linear(m.Concat({m.Max({one, two, three}), one, three}), 4, true);
       }},
      {"chain", false,
       [](ModelMaker& m) {
         const ValueId hidden = m.LayerNorm(m.Linear(0, 20, true), true);
         const ValueId far = m.Propagate(
             m.Propagate(hidden, Reduce::kSum, Spec(SelfLoops::kAddRemaining, EdgeWeighting::kGcnOnes)), Reduce::kMean);
         return m.Linear(m.Sum(m.Activate(far, ActivationKind::kTanh), hidden), 5, true);
       }},
      {"rows_alone", false, [](ModelMaker& m) { return m.Linear(Relu(m, m.Linear(0, 16, true)), 5, true); }},
      {"gine", false,
       [](ModelMaker& m) {
         const ValueId h = m.Linear(m.EdgeSum(0, Reduce::kSum, true), kEdgeFeatures, true);
         return m.Mix(m.EdgeSum(h, Reduce::kMax, false), 1.0, h, 1.5);
       }},
      {"gated_messages", false,
       [](ModelMaker& m) {
         const ValueId h = m.GatedMessages(0, 12, Reduce::kSum, true, true);
         return m.GatedMessages(h, 5, Reduce::kMax, false, false);
       }},
      {"softmax_messages", false,
       [](ModelMaker& m) {
         const ValueId h = m.SoftmaxMessages(m.Linear(0, 20, true), 1.0, true);
         return m.SoftmaxMessages(m.Linear(h, 7, true), -0.5, false);
       }},
      {"mixed_messages", false,
       [](ModelMaker& m) {
         const ValueId h = m.MixedMessages(0, 12, Reduce::kMean, 6, true);
         return m.MixedMessages(h, 5, Reduce::kSum, 0, false);
       }},
      {"expression", false,
       [](ModelMaker& m) {
         const std::vector<EdgeReduce> reduces = {EdgeReduce::kStd, EdgeReduce::kMax};
         const ValueId h = m.Linear(m.Expression(0, 12, 2, reduces, {}), 16, true);
         return m.RowExpression(m.Linear(m.Expression(h, 8, 1, {}, {SelfLoops::kReplace}), 5, true),
                                m.Linear(h, 1, true));
       }},
      {"expression_of_targets", true, [](ModelMaker& m) { return m.TargetMessages(m.Linear(0, 5, true)); }},
      {"expression_of_targets_twice", true,
       [](ModelMaker& m) { return Gcn(m, m.TargetMessages(m.Linear(0, 5, true)), 5, EdgeWeighting::kGcnSent); }},
      {"gat_edge_mean", false,
       [](ModelMaker& m) { return TwoWithEdgeFeatures(m, AttentionKind::kGat, LoopFeatures()); }},
      {"gatv2_edge_number", false,
       [](ModelMaker& m) {
         return TwoWithEdgeFeatures(m, AttentionKind::kGatV2, {false, 0.5f});
       }},
      {"transformer_edge", false,
       [](ModelMaker& m) { return TwoWithEdgeFeatures(m, AttentionKind::kDot, LoopFeatures()); }},
      {"features_themselves", false, [](ModelMaker& m) { return m.Propagate(0, Reduce::kMax); }},
  };
  return cases;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_MODELS_H_
