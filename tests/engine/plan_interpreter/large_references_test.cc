// SPDX-License-Identifier: Apache-2.0
// As references_test.cc, on the data sets that take the slow oracle seconds to half a minute and up to 2 GB (x dense in
// double).
#include "tests/engine/plan_interpreter/reference_case.h"

namespace vicinal::testing {
namespace {

class LargeReferencesTest : public ::testing::TestWithParam<ReferenceCase> {};

TEST_P(LargeReferencesTest, InterpreterGivesFloat64Reference) { CheckReferenceCase(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Real, LargeReferencesTest,
                         ::testing::Values(ReferenceCase{"pubmed-gcn", "pubmed"},
                                           ReferenceCase{"pubmed-sage", "pubmed"},
                                           ReferenceCase{"pubmed-gin", "pubmed"}, ReferenceCase{"pubmed-gat", "pubmed"},
                                           ReferenceCase{"amazon_computers-gcn", "amazon_computers"},
                                           ReferenceCase{"amazon_computers-sagemax", "amazon_computers"},
                                           ReferenceCase{"amazon_computers-gat", "amazon_computers"},
                                           ReferenceCase{"cornell5-gcn", "cornell5"},
                                           ReferenceCase{"cornell5-sagemax", "cornell5"}),
                         CaseName);

}  // namespace
}  // namespace vicinal::testing
