// SPDX-License-Identifier: Apache-2.0
// The oracle itself is held against PyTorch Geometric's float64 answers: the small data sets, and every hand-written
// model.
#include "tests/engine/plan_interpreter/reference_case.h"

namespace vicinal::testing {
namespace {

class ReferencesTest : public ::testing::TestWithParam<ReferenceCase> {};

TEST_P(ReferencesTest, InterpreterGivesFloat64Reference) { CheckReferenceCase(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Cora, ReferencesTest,
                         ::testing::Values(ReferenceCase{"cora-gcn", "cora"}, ReferenceCase{"cora-gcn4", "cora"},
                                           ReferenceCase{"cora-sage", "cora"}, ReferenceCase{"cora-sagemax", "cora"},
                                           ReferenceCase{"cora-gin", "cora"}, ReferenceCase{"cora-gat", "cora"},
                                           ReferenceCase{"cora-gatv2", "cora"}),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(
    Directed, ReferencesTest,
    ::testing::Values(ReferenceCase{"directed-gcn", "directed"}, ReferenceCase{"directed-gcn4", "directed"},
                      ReferenceCase{"directed-sage", "directed"}, ReferenceCase{"directed-sagemax", "directed"},
                      ReferenceCase{"directed-gin", "directed"}, ReferenceCase{"directed-gat", "directed"},
                      ReferenceCase{"directed-gatv2", "directed"}),
    CaseName);
INSTANTIATE_TEST_SUITE_P(
    HandWritten, ReferencesTest,
    ::testing::Values(
        ReferenceCase{"directed-chain-gcnw", "directed"}, ReferenceCase{"directed-chain-gcnplain", "directed"},
        ReferenceCase{"directed-chain-gcnimproved", "directed"}, ReferenceCase{"directed-chain-sagesum", "directed"},
        ReferenceCase{"directed-chain-sageproject", "directed"}, ReferenceCase{"directed-chain-gin", "directed"},
        ReferenceCase{"directed-chain-gat", "directed"}, ReferenceCase{"directed-chain-gatv2", "directed"},
        ReferenceCase{"directed-chain-transformer", "directed"}, ReferenceCase{"directed-chain-edge", "directed"},
        ReferenceCase{"directed-chain-sg", "directed"}, ReferenceCase{"directed-chain-appnp", "directed"}),
    CaseName);
INSTANTIATE_TEST_SUITE_P(Proteins, ReferencesTest, ::testing::Values(ReferenceCase{"proteins-ginpool", "proteins"}),
                         CaseName);

}  // namespace
}  // namespace vicinal::testing
