#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checker of queries finds what it must find."""

import unittest

import promql

PAGE = """# HELP vicinal_requests_total Requests.
# TYPE vicinal_requests_total counter
vicinal_requests_total{method="m",code="OK"} 3
# TYPE vicinal_graphs gauge
vicinal_graphs 0
# TYPE vicinal_request_duration_seconds histogram
vicinal_request_duration_seconds_bucket{method="m",le="+Inf"} 3
"""


class PromqlTest(unittest.TestCase):
    def setUp(self):
        self.samples = promql.exported(PAGE)

    def test_reads_the_page(self):
        self.assertEqual(self.samples["vicinal_requests_total"], {"method", "code", "instance", "job"})
        self.assertEqual(promql.families(PAGE),
                         {"vicinal_requests_total", "vicinal_graphs", "vicinal_request_duration_seconds"})

    def test_what_is_there_passes(self):
        for query in ('sum by (code) (rate(vicinal_requests_total{instance=~"$instance"}[5m]))', "vicinal_graphs == 0",
                      'up{job="vicinal"} == 0',
                      "histogram_quantile(0.9, sum by (method, le) (rate(vicinal_request_duration_seconds_bucket[5m])))",
                      'vicinal_requests_total{code=~"vicinal_x{a}"}'):
            self.assertEqual(promql.problems(query, self.samples), [], query)

    def test_what_is_not_is_named(self):
        for query, expected in (("vicinal_graph == 0", "vicinal_graph"),
                                ('vicinal_graphs{kind="x"}', "no label kind"),
                                ("sum by (kernel) (vicinal_requests_total)", "grouped by kernel"),
                                ("vector(1)", "no metric")):
            found = promql.problems(query, self.samples)
            self.assertEqual(len(found), 1, query)
            self.assertIn(expected, found[0])


if __name__ == "__main__":
    unittest.main()
