// SPDX-License-Identifier: Apache-2.0
// The oracle on every small model of tests/data/layers: each layer type and argument against PyTorch Geometric's
// float64. A model that make_references.py adds takes part by itself.
#include "tests/engine/plan_interpreter/reference_case.h"

namespace vicinal::testing {
namespace {

class LayerReferencesTest : public ::testing::TestWithParam<ReferenceCase> {};

TEST_P(LayerReferencesTest, InterpreterGivesFloat64Reference) { CheckReferenceCase(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, LayerReferencesTest, ::testing::ValuesIn(LayerCases()), CaseName);

TEST(LayerReferences, AreAllThere) { EXPECT_GE(LayerCases().size(), 60u); }

}  // namespace
}  // namespace vicinal::testing
