#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The blocking Python client against a real server, and the command line beside it."""

import io
import json
import os
import tempfile
import unittest
from unittest import mock

import numpy as np

import vicinal
from data import layer_model, model_files, needs, read_graph, read_safetensors, safetensors, snippets
from server_process import ServerProcess
from vicinal import errors

GRAPH = read_graph("cora")
TEST = np.flatnonzero(GRAPH["test_mask"])


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess().__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.client = vicinal.Client(cls.server.grpc)
        cls.addClassCleanup(cls.client.close)
        cls.graph = cls.client.upload_graph("cora", GRAPH["edge_index"], x=GRAPH["x"])
        cls.model = cls.client.upload_model("gcn", *model_files("cora-gcn"))

    def small_graph(self, name, **options):
        return self.client.upload_graph(name, [["ann", "bob"], ["bob", "cid"]], ids=["cid", "ann", "bob"], x=GRAPH["x"][:3], **options)

    def test_tells_what_it_uploaded(self):
        self.assertEqual((self.graph.state, self.graph.num_nodes, self.graph.num_edges, self.graph.feature_sets),
                         ("READY", 2708, 10556, ("default",)))
        self.assertEqual((self.model.num_features, self.model.num_classes, self.model.reference_error), (1433, 7, None))
        self.assertEqual(self.client.get_graph("cora").version, self.graph.version)
        self.assertIn("cora", [graph.name for graph in self.client.list_graphs()])
        self.assertIn("gcn", [model.name for model in self.client.list_models()])
        self.assertIn("GCNConv", [layer.type for layer in self.client.capabilities().layer_types])
        self.assertGreater(len(self.client.explain("cora", "gcn").steps), 1)

    def test_snippets_of_the_guide(self):
        (block,) = snippets("python.md", "client_test.py")
        names = {"np": np, "vicinal": vicinal, "client": self.client}
        exec(block, names)  # pylint: disable=exec-used
        self.assertEqual(names["graph"].edge_features, 2)

    def test_classifies_as_pytorch_geometric_does(self):
        answer = self.client.classify("cora", "gcn", TEST, top_k=3, logits=True, probabilities=True)
        self.assertEqual((answer.classes[:, 0] == GRAPH["y"][TEST]).sum(), 795)
        self.assertEqual((answer.classes.shape, answer.scores.dtype, answer.logits.shape), ((1000, 3), np.float32, (1000, 7)))
        np.testing.assert_allclose(answer.probabilities.sum(axis=1), 1, rtol=1e-5)
        self.assertEqual((answer.served_by.graph, answer.served_by.graph_version), ("cora", self.graph.version))
        self.assertGreater(answer.seconds, 0)
        self.assertFalse(answer.classes.flags.owndata)

    def test_another_thread_may_delete_a_graph_meanwhile(self):
        class Forgetful(dict):
            """As if another thread took each entry out as soon as it was looked at."""

            def get(self, key, default=None):
                return self.pop(key, default)

        self.small_graph("known", replace=True)
        self.client.upload_graph("plain", [[0, 1], [1, 2]], x=GRAPH["x"][:3], replace=True)
        session = self.client._session  # pylint: disable=protected-access
        for name, nodes in (("plain", [0, 2]), ("known", ["ann", "bob"])):
            with self.subTest(name), mock.patch.object(session, "known", Forgetful(session.known)):
                self.assertEqual(self.client.classify(name, "gcn", nodes).classes.shape[0], 2)

    def test_all_nodes_come_in_pieces(self):
        whole = self.client.classify("cora", "gcn", logits=True)
        self.assertEqual(whole.logits.shape, (2708, 7))
        np.testing.assert_array_equal(whole.logits[TEST], self.client.classify("cora", "gcn", TEST, logits=True).logits)
        pieces = list(self.client.embed_stream("cora", "gcn"))
        self.assertEqual(pieces[0].first_row, 0)
        np.testing.assert_array_equal(np.concatenate([piece.embeddings for piece in pieces]), self.client.embed("cora", "gcn").embeddings)

    def test_links_are_scored(self):
        z = self.client.embed("cora", "gcn", output="logits").embeddings.astype(np.float64)
        pairs = self.client.predict_links("cora", "gcn", [3, 5, 3], [7, 5, 7], probabilities=True)
        np.testing.assert_allclose(pairs.scores, (z[[3, 5, 3]] * z[[7, 5, 7]]).sum(axis=1), rtol=1e-5)
        np.testing.assert_allclose(pairs.probabilities, 1 / (1 + np.exp(-pairs.scores.astype(np.float64))), rtol=1e-5)
        self.assertEqual((pairs.scores[0], pairs.named()[0]), (pairs.scores[2], (3, 7)))
        edges = self.client.predict_links("cora", "gcn", decoder="cosine")
        self.assertEqual(edges.links.shape, (10556, 2))
        self.assertEqual(sorted(map(tuple, edges.links.tolist())), sorted(zip(*GRAPH["edge_index"].tolist())))
        same = self.client.predict_links("cora", "gcn", edges.links[:, 0], edges.links[:, 1], decoder="cosine")
        np.testing.assert_array_equal(same.scores, edges.scores)

    def test_attention_weights_are_those_of_the_layer(self):
        self.client.upload_model("gat", *model_files("cora-gat"), replace=True)
        every = self.client.attention("cora", "gat", "convs.0")
        self.assertEqual(every.weights.shape, (10556 + 2708, 8))  # cora has no loops: one per node is added
        totals = np.zeros((2708, 8))
        np.add.at(totals, every.edges[:, 1], every.weights.astype(np.float64))
        np.testing.assert_allclose(totals, 1, rtol=1e-6)
        some = self.client.attention("cora", "gat", "convs.0", [5, 0])
        of = [np.flatnonzero(every.edges[:, 1] == node) for node in (5, 0)]
        np.testing.assert_array_equal(some.edges, every.edges[np.concatenate(of)])
        np.testing.assert_array_equal(some.weights, every.weights[np.concatenate(of)])
        with self.assertRaises(errors.InvalidArgument) as raised:
            self.client.attention("cora", "gcn", "convs.0")
        self.assertEqual(raised.exception.reason, "ATTENTION_UNKNOWN")
        self.assertIn("layer 'convs.0' (GCNConv) has no attention weights to show; none of the model's layers has", str(raised.exception))
        with self.assertRaisesRegex(errors.InvalidArgument, r"no layer 'conv.0' \(did you mean 'convs.0'\?\).*: 'convs.0', 'convs.1'"):
            self.client.attention("cora", "gat", "conv.0")

    def test_a_stream_takes_links(self):
        queries = [vicinal.PredictLinksQuery("cora", "gcn", [3, 5], [7, 5], probabilities=True), vicinal.EmbedQuery("cora", "gcn", [1]),
                   vicinal.PredictLinksQuery("cora", "gcn")]
        pairs, row, edges = [answer.get() for answer in self.client.query_stream(queries)]
        alone = self.client.predict_links("cora", "gcn", [3, 5], [7, 5], probabilities=True)
        np.testing.assert_array_equal(pairs.scores, alone.scores)
        np.testing.assert_array_equal(pairs.probabilities, alone.probabilities)
        self.assertEqual(pairs.links.tolist(), [[3, 7], [5, 5]])
        self.assertEqual((row.rows, edges.rows), (1, 10556))

    def test_the_best_partners_are_found(self):
        z = self.client.embed("cora", "gcn", output="logits").embeddings.astype(np.float64)
        found = self.client.top_links("cora", "gcn", [2707, 0], k=4, exclude_links=True)
        self.assertEqual((found.partners.shape, found.scores.shape), ((2, 4), (2, 4)))
        for node, partners, scores in zip([2707, 0], found.partners, found.scores):
            left_out = np.append(GRAPH["edge_index"][1][GRAPH["edge_index"][0] == node], node)
            others = np.setdiff1d(np.arange(2708), left_out)
            self.assertFalse(set(partners) & set(left_out))
            np.testing.assert_allclose(scores, np.sort(z[others] @ z[node])[::-1][:4], rtol=1e-5)
        every = self.client.top_links("cora", "gcn", k=1)
        self.assertEqual(every.rows, 2708)
        # More than fit a message come in pieces, of all nodes as of those that are named.
        nodes = np.arange(2708)[::-1]
        wide, named = (self.client.top_links("cora", "gcn", of, k=120, probabilities=True) for of in (None, nodes))
        self.assertEqual(wide.partners.nbytes + wide.scores.nbytes, 2708 * 120 * 12)
        for array in ("partners", "scores", "probabilities"):
            np.testing.assert_array_equal(getattr(named, array), getattr(wide, array)[::-1])
        few = self.client.top_links("cora", "gcn", [2707, 0], k=120)
        np.testing.assert_array_equal(few.partners, wide.partners[[2707, 0]])
        np.testing.assert_array_equal(few.scores, wide.scores[[2707, 0]])
        np.testing.assert_array_equal(every.scores, wide.scores[:, :1])
        few = self.client.top_links("cora", "gcn", [1], k=2, partners=[1, 9])
        self.assertEqual(few.named(), [[9]])
        self.assertEqual((few.partners.tolist(), few.scores[0, 1]), ([[9, -1]], -np.inf))

    def test_edge_feature_sets_stand_for_the_graphs_own(self):
        graph = read_graph("tiny")
        monday, tuesday = graph["edge_attr"][::-1].copy(), graph["edge_attr"] * 0.5 - 0.25
        self.client.upload_model("gine", *layer_model("gine"))
        arguments = {"x": graph["x"], "edge_weight": graph["edge_weight"], "reorder": "rcm"}
        bare = self.client.upload_graph("bare", graph["edge_index"], keep_edge_order=True, **arguments)
        self.assertEqual((bare.edge_features, bare.edge_feature_sets), (0, ()))
        expected = {}
        for name, rows in (("monday", monday), ("tuesday", tuesday)):
            self.client.upload_graph(name, graph["edge_index"], edge_attr=rows, **arguments)
            expected[name] = self.client.classify(name, "gine", logits=True).logits
            made = self.client.upload_edge_features("bare", rows, name=name)
            self.assertEqual((made.num_nodes, made.num_edges, made.num_features), (0, len(rows), rows.shape[1]))
            answer = self.client.classify("bare", "gine", logits=True, edge_feature_set=name)
            np.testing.assert_array_equal(answer.logits, expected[name])
            self.assertEqual((answer.served_by.edge_feature_set, answer.served_by.edge_feature_set_version), (name, made.version))
        with self.assertRaises(errors.FailedPrecondition) as raised:
            self.client.classify("bare", "gine")
        self.assertEqual(raised.exception.reason, "EDGE_ATTR_MISSING")
        self.assertGreater(len(self.client.explain("bare", "gine", feature_set="default", edge_feature_set="monday").steps), 0)
        with self.assertRaises(errors.AlreadyExists):
            self.client.upload_edge_features("bare", tuesday, name="monday")
        self.client.upload_edge_features("bare", tuesday)
        np.testing.assert_array_equal(self.client.classify("bare", "gine", logits=True).logits, expected["tuesday"])
        (query,) = self.client.query_stream([vicinal.ClassifyQuery("bare", "gine", logits=True, edge_feature_set="monday")])
        np.testing.assert_array_equal(query.get().logits, expected["monday"])
        self.assertEqual([one.name for one in self.client.list_edge_features("bare")], ["default", "monday", "tuesday"])
        self.assertEqual([one.name for one in self.client.list_features("bare")], ["default"])
        self.client.delete_edge_features("bare", "monday")
        self.client.delete_edge_features("bare", "monday", missing_ok=True)
        with self.assertRaises(errors.NotFound):
            self.client.classify("bare", "gine", edge_feature_set="monday")
        with self.assertRaises(errors.InvalidArgument):
            self.client.upload_edge_features("bare", tuesday[1:], name="short")
        with self.assertRaises(errors.FailedPrecondition) as raised:
            self.client.upload_edge_features("cora", np.ones((10556, 2)))
        self.assertEqual(raised.exception.reason, "EDGE_ORDER_MISSING")

    def test_links_of_a_graph_with_its_own_ids(self):
        self.small_graph("linked")
        pairs = self.client.predict_links("linked", "gcn", ["ann"], ["bob"])
        self.assertEqual(pairs.named(), [("ann", "bob")])
        self.assertEqual(self.client.predict_links("linked", "gcn").named(), [("bob", "cid"), ("ann", "bob")])
        self.assertEqual(sorted(self.client.top_links("linked", "gcn", ["ann"], k=3).named()[0]), ["bob", "cid"])

    def test_bad_links_are_refused(self):
        with self.assertRaisesRegex(vicinal.InputError, "both sources and targets"):
            self.client.predict_links("cora", "gcn", [1])
        with self.assertRaisesRegex(vicinal.InputError, r"for an edge_label_index write \*edge_label_index$"):
            self.client.predict_links("cora", "gcn", GRAPH["edge_index"])
        with self.assertRaisesRegex(vicinal.InputError, "^sources is empty; name at least one source and target, or neither"):
            self.client.predict_links("cora", "gcn", [], [])
        with self.assertRaisesRegex(vicinal.InputError, "^targets is empty; name at least one"):
            list(self.client.query_stream([vicinal.PredictLinksQuery("cora", "gcn", [1], np.array([], np.int64))]))
        for what, given in (("nodes", {"nodes": []}), ("partners", {"nodes": [1], "partners": np.empty(0, np.int64)})):
            with self.assertRaisesRegex(vicinal.InputError, f"^{what} is empty; {what}=None asks for all$"):
                self.client.top_links("cora", "gcn", **given)
        for what, given in (("sources", {"sources": 1, "targets": [2]}), ("targets", {"sources": [1], "targets": [2.5]})):
            with self.assertRaisesRegex(vicinal.IdsError, f"^{what} (is 1, but must be a list|must be a list of row numbers)"):
                self.client.predict_links("cora", "gcn", **given)
        with self.assertRaisesRegex(vicinal.IdsError, "^partners is 2, but must be a list"):
            self.client.top_links("cora", "gcn", [1], partners=2)
        with self.assertRaisesRegex(vicinal.InputError, "2 sources and 1 targets"):
            self.client.predict_links("cora", "gcn", [1, 2], [3])
        with self.assertRaisesRegex(vicinal.InputError, "decoder is 'best'"):
            self.client.top_links("cora", "gcn", [1], decoder="best")
        with self.assertRaises(errors.FailedPrecondition) as raised:
            self.client.predict_links("cora", "gcn", [1], [2], decoder="model")
        self.assertEqual(raised.exception.reason, "NO_DECODER")

    def test_a_model_without_tensors_needs_no_weights(self):
        document = {"format": "vicinal.model/1", "in_channels": 1433, "layers": [{"name": "act", "type": "ReLU"}]}
        self.assertEqual(self.client.upload_model("bare", document).num_parameters, 0)
        with self.assertRaises(errors.InvalidArgument) as raised:
            self.client.upload_model("bare2", model_files("cora-gcn")[0])
        self.assertEqual(raised.exception.reason, "TENSOR_MISSING")

    def relational_model(self):
        """DistMult with three relations: w_r, by which relation r weights a single column."""
        document = {"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "rows", "type": "ReLU"}],
                    "decoder": {"type": "distmult", "args": {"num_relations": 3}}}
        weights = safetensors({"decoder.weight": np.eye(3, dtype=np.float32)})
        self.client.upload_graph("square", [[0, 1], [1, 2]], x=np.arange(1, 10).reshape(3, 3), replace=True)
        self.client.upload_model("relational", document, weights, replace=True)

    def test_relations_of_links(self):
        self.relational_model()
        score = lambda **given: self.client.predict_links("square", "relational", [0, 1], [1, 2], **given).scores.tolist()
        self.assertEqual(score(relations=[2, 0]), [3 * 6, 4 * 7])
        self.assertEqual(score(relations=np.array([1, 1], np.uint8)), score(relation=1))
        self.assertEqual(score(relation=1), [2 * 5, 5 * 8])
        self.assertEqual(self.client.predict_links("square", "relational", relation=2).scores.tolist(), [3 * 6, 6 * 9])
        self.assertEqual(score(), score(relation=0))
        (streamed,) = self.client.query_stream([vicinal.PredictLinksQuery("square", "relational", [0, 1], [1, 2], relations=[2, 0])])
        self.assertEqual(streamed.get().scores.tolist(), [3 * 6, 4 * 7])

    def test_bad_relations_are_refused(self):
        self.relational_model()
        with self.assertRaisesRegex(vicinal.InputError, "^relations are of pairs; for all edges give relation=R$"):
            self.client.predict_links("square", "relational", relations=[1, 1])
        for relation in (0, 1):
            with self.assertRaisesRegex(vicinal.InputError, "relations and relation are given"):
                self.client.predict_links("square", "relational", [0, 1], [1, 2], relations=[1, 1], relation=relation)
        for relations, told in (([0.5, 1], "relations is float64"), (1, "relations is 1, but must be a list"), ("ab", "relations is 'ab'"),
                                ([[1, 1]], r"relations is int64 \[1, 2\]"), ([1, 1 << 40], r"relations\[1\] is 1099511627776"),
                                ([True, False], "relations is bool"), ([0, -1], r"relations\[1\] is -1"), ([[1], [1, 2]], "relations is list"),
                                (["a", "b"], "relations is <U1"), ([1 << 80, 0], "relations is object"), ([1], "1 relations and 2 links")):
            with self.assertRaisesRegex(vicinal.InputError, told):
                self.client.predict_links("square", "relational", [0, 1], [1, 2], relations=relations)
        for relation in (0.5, "ab", True, np.True_, 1 << 40, -1, [1]):
            for call in (self.client.predict_links, self.client.top_links):
                with self.assertRaisesRegex(vicinal.InputError, "^relation is .*must be a relation's number"):
                    call("square", "relational", relation=relation)

    def test_features_of_a_request(self):
        x = GRAPH["x"].copy()
        x[5] = 0
        expected = self.client.classify("cora", "gcn", [5, 6], logits=True, x=x).logits
        replaced = self.client.classify("cora", "gcn", [5, 6], logits=True, x=x[[5]], x_nodes=[5]).logits
        np.testing.assert_array_equal(replaced, expected)
        with self.assertRaisesRegex(vicinal.InputError, "x_nodes without x"):
            self.client.classify("cora", "gcn", [5], x_nodes=[5])

    def test_models_say_what_they_answer(self):
        layers = [{"name": "act", "type": "ReLU"}]
        for target in ("multi_class", "multi_label", "regression"):
            document = {"format": "vicinal.model/1", "in_channels": 3, "target": target, "layers": layers}
            for model in (self.client.upload_model(target, document), self.client.get_model(target)):
                self.assertEqual((model.task, model.target, model.multi_label), ("node", target, target == "multi_label"))
        self.client.upload_model("pooled", {"format": "vicinal.model/1", "in_channels": 3, "task": "graph",
                                            "layers": [*layers, {"name": "pool", "type": "global_add_pool"}]})
        said = {model.name: (model.task, model.target) for model in self.client.list_models()}
        self.assertEqual((said["pooled"], said["gcn"], said["regression"]), (("graph", "multi_class"), ("node", "multi_class"), ("node", "regression")))
        table = self.server.vicinal("model", "list")
        for name, of, target in (("pooled", "graphs", "multi-class"), ("regression", "nodes", "regression"), ("multi_label", "nodes", "multi-label")):
            self.assertRegex(table, rf"(?m)^{name} .* {of} +{target} ")
        self.assertIn("3 features -> 3 numbers of nodes (regression)", self.server.vicinal("model", "get", "regression"))
        self.assertIn("classes of nodes (multi-class)", self.server.vicinal("model", "get", "gcn"))
        shown = json.loads(self.server.vicinal("model", "get", "multi_label", "--json"))
        self.assertEqual((shown["task"], shown["target"]), ("NODE", "MULTI_LABEL"))
        for name in said:
            if name in ("multi_class", "multi_label", "regression", "pooled"):
                self.client.delete_model(name)

    def test_feature_sets(self):
        self.client.upload_features("cora", np.zeros_like(GRAPH["x"]), name="zeros")
        plain = self.client.classify("cora", "gcn", [1], logits=True, feature_set="zeros")
        self.assertEqual(plain.served_by.feature_set, "zeros")
        self.assertIn("zeros", [one.name for one in self.client.list_features("cora")])
        (version,) = [one.version for one in self.client.list_features("cora") if one.name == "zeros"]
        with self.assertRaises(errors.Aborted) as raised:
            self.client.delete_features("cora", "zeros", if_version=version + 1)
        self.assertEqual(raised.exception.reason, "VERSION_MISMATCH")
        with self.assertRaisesRegex(errors.NotFound, "a feature set of nodes has this name"):
            self.client.delete_edge_features("cora", "zeros")
        self.client.delete_features("cora", "zeros", if_version=version)
        with self.assertRaises(errors.NotFound):
            self.client.delete_features("cora", "zeros")
        self.client.delete_features("cora", "zeros", missing_ok=True)

    def test_a_stream_of_queries(self):
        def queries():
            for node in range(200):
                yield vicinal.ClassifyQuery("cora", "gcn", [node], logits=True)
            yield vicinal.ClassifyQuery("cora", "gcn", [2708])
            yield vicinal.EmbedQuery("cora", "gcn", [7, 8])

        expected = self.client.classify("cora", "gcn", list(range(200)), logits=True).logits
        for in_order in (True, False):
            answers = list(self.client.query_stream(queries(), in_order=in_order))
            self.assertEqual(len(answers), 202)
            if in_order:
                self.assertEqual([answer.query.nodes for answer in answers[:200]], [[node] for node in range(200)])
            for answer in answers:
                if isinstance(answer.query, vicinal.EmbedQuery):
                    np.testing.assert_array_equal(answer.get().embeddings, self.client.embed("cora", "gcn", [7, 8]).embeddings)
                elif answer.query.nodes == [2708]:
                    self.assertEqual((answer.result, answer.error.reason), (None, "NODE_OUT_OF_RANGE"))
                    with self.assertRaises(errors.InvalidArgument):
                        answer.get()
                else:
                    np.testing.assert_array_equal(answer.get().logits[0], expected[answer.query.nodes[0]])

    def test_answers_say_where_their_time_went(self):
        whole = self.client.classify("cora", "gcn", [1, 2], options={"receptive_field": "never"})
        timing = whole.timing
        self.assertFalse(timing.receptive_field)
        # An answer that was kept needs no run.
        self.assertEqual(timing.computed_nodes, 0 if timing.kept_answers else 2708)
        self.assertEqual(timing.run_requests == 0, timing.kept_answers)
        self.assertGreaterEqual(timing.total, timing.queue + timing.plan + timing.execute)
        self.assertEqual(whole.seconds, timing.total)
        (answer,) = self.client.query_stream([vicinal.EmbedQuery("cora", "gcn", [1])])
        self.assertIsInstance(answer.get().timing, vicinal.Timing)
        self.assertIsInstance(self.client.predict_links("cora", "gcn", [1], [2]).timing, vicinal.Timing)
        *before, last = self.client.embed_stream("cora", "gcn", None)
        self.assertEqual([piece.timing for piece in before], [None] * len(before))
        self.assertIsInstance(last.timing, vicinal.Timing)

    def test_timing_is_the_replys(self):
        from vicinal._messages import message  # pylint: disable=import-outside-toplevel
        reply = message("EmbedResponse")()
        self.assertIsNone(vicinal.Timing.of(reply))
        sent = reply.timing
        sent.queue_seconds, sent.plan_seconds, sent.execute_seconds, sent.total_seconds = 1, 2, 3, 7
        sent.computed_node_count, sent.run_request_count, sent.receptive_field = 5, 6, True
        self.assertEqual(vicinal.Timing.of(reply), vicinal.Timing(queue=1, plan=2, execute=3, total=7, receptive_field=True, computed_nodes=5,
                                                                  kept_answers=False, run_requests=6))
        sent.kept_answers = True
        self.assertTrue(vicinal.Timing.of(reply).kept_answers)

    def test_timeouts_that_are_none_are_told_before_anything_is_sent(self):
        for bad in (float("nan"), float("inf"), "1", -1, 0, True, 1e300, [1]):
            for query in (lambda: vicinal.ClassifyQuery("cora", "gcn", [1], timeout=bad), lambda: vicinal.EmbedQuery("cora", "gcn", timeout=bad),
                          lambda: vicinal.PredictLinksQuery("cora", "gcn", timeout=bad), lambda: vicinal.Client(timeout=bad),
                          lambda: next(self.client.query_stream([], timeout=bad))):
                with self.assertRaisesRegex(vicinal.InputError, "timeout is .* a number of seconds above 0"):
                    query()
        query = vicinal.PredictLinksQuery("cora", "gcn", [1], [2])
        query.timeout = "1"
        with self.assertRaisesRegex(vicinal.InputError, "timeout is '1'"):
            list(self.client.query_stream([query]))
        for good in (None, 60, 60.5, np.float32(60), np.int64(60)):
            (answer,) = self.client.query_stream([vicinal.ClassifyQuery("cora", "gcn", [1], timeout=good)], timeout=good)
            self.assertEqual(answer.get().classes.shape, (1, 1))

    def test_a_query_that_cannot_be_sent_ends_its_stream(self):
        queries = [vicinal.ClassifyQuery("cora", "gcn", [1]), vicinal.ClassifyQuery("cora", "gcn", [1], x_nodes=[1])]
        seen = []
        with self.assertRaisesRegex(vicinal.InputError, "x_nodes without x"):
            for answer in self.client.query_stream(queries):
                seen.append(answer.get().classes.shape)
        self.assertEqual(seen, [(1, 1)])

    def test_small_graphs(self):
        batch = read_graph("tiny_batch")
        sizes = np.bincount(batch["graph_id"])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        graphs = []
        for start, size in zip(starts, sizes):
            inside = batch["graph_id"][batch["edge_index"][0]] == batch["graph_id"][start]
            graphs.append((batch["edge_index"][:, inside] - start, batch["x"][start:start + size]))
        files = layer_model("pool-mean")
        self.client.upload_model("pool", *files, replace=True)
        answer = self.client.classify_graphs("pool", graphs, logits=True)
        expected = read_safetensors(files[1].replace(".safetensors", ".reference.safetensors"), "graph_logits")
        np.testing.assert_allclose(answer.logits, expected, rtol=1e-4, atol=1e-5)

    def test_ids_of_ones_own(self):
        graph = self.small_graph("friends", replace=True)
        by_id = self.client.classify("friends", "gcn", ["ann", "cid"], logits=True).logits
        by_row = self.client.classify("friends", "gcn", [1, 0], ids=False, logits=True).logits
        np.testing.assert_array_equal(by_id, by_row)
        with self.assertRaisesRegex(vicinal.IdsError, "'zoe'"):
            self.client.classify("friends", "gcn", ["zoe"])
        with vicinal.Client(self.server.grpc) as other:
            with self.assertRaisesRegex(vicinal.IdsError, "ids=vicinal.Ids.load"):
                other.classify("friends", "gcn", ["ann"])
            answer = other.classify("friends", "gcn", ["ann", "cid"], ids=graph.ids, logits=True)
            np.testing.assert_array_equal(answer.logits, by_id)
            with self.assertRaises(errors.FailedPrecondition) as raised:
                other.classify("friends", "gcn", ["ann"], ids=vicinal.Ids(["ann", "bob", "cid"]))
            self.assertEqual(raised.exception.reason, "IDS_DIGEST_MISMATCH")

    def test_row_numbers_are_not_used_once_a_graph_has_ids(self):
        edges = [[0, 1], [1, 2]]
        self.client.upload_graph("turned", edges, x=GRAPH["x"][:3], replace=True)
        self.client.classify("turned", "gcn", [0])
        with vicinal.Client(self.server.grpc) as other:
            other.upload_graph("turned", [["7", "8"], ["8", "9"]], x=GRAPH["x"][:3], ids=[7, 8, 9], replace=True)
        with self.assertRaisesRegex(vicinal.IdsError, "replaced by a version with ids"):
            self.client.classify("turned", "gcn", [0])

    def test_ids_are_those_of_the_command_line(self):
        graph = self.small_graph("shared", replace=True)
        graph.ids.save(self.server.path("shared.ids.txt"), "shared")
        output = self.server.vicinal("classify", "--graph", "shared", "--model", "gcn", "--nodes", "ann,cid", "--ids", "shared.ids.txt")
        self.assertRegex(output, r"(?m)^\s*cid\s")
        with open(self.server.path("edges.txt"), "w", encoding="ascii") as file:
            file.write("x y\ny z\n")
        np.save(self.server.path("x.npy"), GRAPH["x"][:3])
        with open(self.server.path("order.txt"), "w", encoding="ascii") as file:
            file.write("z\nx\ny\n")
        self.server.vicinal("graph", "upload", "edges.txt", "--name", "cli", "--ids", "order.txt", "--x", "x.npy")
        ids = vicinal.Ids.load(self.server.path("cli.ids.txt"))
        self.assertEqual(ids.digest, self.client.get_graph("cli").ids_digest)
        self.client.classify("cli", "gcn", ["z"], ids=ids)

    def test_errors_say_code_reason_and_field(self):
        with self.assertRaises(errors.NotFound) as raised:
            self.client.classify("cora", "nope", [1])
        self.assertEqual(raised.exception.reason, "NOT_FOUND")
        with self.assertRaises(errors.InvalidArgument) as raised:
            self.client.classify("cora", "gcn", [1, 2708])
        self.assertEqual(raised.exception.reason, "NODE_OUT_OF_RANGE")
        self.assertEqual([one.field for one in raised.exception.field_violations], ["nodes.ids[1]"])
        self.assertIn("field: nodes.ids[1]", str(raised.exception))
        with self.assertRaises(errors.AlreadyExists):
            self.client.upload_graph("cora", GRAPH["edge_index"])
        with self.assertRaises(errors.Aborted):
            self.client.upload_graph("cora", GRAPH["edge_index"], replace=True, if_version=999)
        with self.assertRaises(errors.InvalidArgument) as raised:
            self.client.upload_model("bad", {"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "a", "type": "ChebConv"}]},
                                     model_files("cora-gcn")[1])
        self.assertIn("ChebConv", str(raised.exception))
        self.client.classify("cora", "gcn", [1])  # the server goes on

    def test_bad_arguments_are_refused_here(self):
        for bad in ({"target": "localhost"}, {"target": "http://localhost:8500/"}, {"token": "two words"}, {"chunk_bytes": 0}):
            with self.assertRaises(vicinal.InputError):
                vicinal.Client(**bad)
        for nodes in ([0.5], [[1]], ["ann"]):
            with self.assertRaises(vicinal.IdsError):
                self.client.classify("cora", "gcn", nodes)
        with self.assertRaisesRegex(vicinal.IdsError, "nodes is a mask; .*nonzero"):
            self.client.classify("cora", "gcn", GRAPH["test_mask"].astype(bool))
        for nodes, told in ((3, r"nodes is 3, but must be a list.*\[3\]"), ("ann", "nodes is 'ann', but must be a list"),
                            (np.int64(3), "but must be a list")):
            with self.assertRaisesRegex(vicinal.IdsError, told):
                self.client.classify("cora", "gcn", nodes)
        for options, told in (({"top_k": "3"}, "top_k is '3'"), ({"top_k": 1 << 40}, "top_k is 1099511627776"), ({"logits": "yes"}, "^logits is 'yes'")):
            with self.assertRaisesRegex(vicinal.InputError, told):
                self.client.classify("cora", "gcn", [1], **options)
        with self.assertRaisesRegex(vicinal.InputError, "graph is Graph; its name is needed, .name"):
            self.client.classify(self.client.get_graph("cora"), "gcn", [1])
        with self.assertRaisesRegex(vicinal.InputError, "model is int; its name is needed$"):
            self.client.classify("cora", 1, [1])
        architecture, weights = model_files("cora-gcn")[:2]
        for arguments, told in (((weights, architecture), r"cora-gcn\.safetensors is not UTF-8 text: the architecture \(JSON\) comes first"),
                                ((architecture, {"a": 1}), r"weights is dict.*safetensors\.torch\.save")):
            with self.assertRaisesRegex(vicinal.InputError, told):
                self.client.upload_model("m", *arguments)
        with self.assertRaisesRegex(vicinal.InputError, "no option 'speed'"):
            self.client.classify("cora", "gcn", [1], options={"speed": "high"})
        with self.assertRaisesRegex(vicinal.InputError, "must be one of.*bfloat16"):
            self.client.classify("cora", "gcn", [1], options={"precision": "int8"})
        with self.assertRaisesRegex(vicinal.InputError, "reorder is 'best'"):
            self.client.upload_graph("g", [[0], [1]], reorder="best")
        with self.assertRaisesRegex(vicinal.InputError, "must be one of.*'durable'"):
            self.client.upload_graph("g", [[0], [1]], wait_for="ages")
        with self.assertRaisesRegex(errors.FailedPrecondition, "--state_dir"):
            self.client.upload_graph("g", [[0], [1]], wait_for="durable")
        with self.assertRaisesRegex(vicinal.InputError, "must be one of.*batch"):
            self.client.classify("cora", "gcn", [1], options={"priority": "high"})

    def test_options(self):
        whole = self.client.classify("cora", "gcn", [1], logits=True, options={"receptive_field": "never"}).logits
        np.testing.assert_array_equal(self.client.classify("cora", "gcn", [1], logits=True, options={"receptive_field": "always"}).logits, whole)
        forced = self.client.classify("cora", "gcn", [1], logits=True, options={"kernels": {"aggregate": "reference"}})
        np.testing.assert_allclose(forced.logits, whole, rtol=1e-4, atol=1e-5)
        for priority in ("batch", "interactive"):
            same = self.client.classify("cora", "gcn", [1], logits=True, options={"priority": priority})
            np.testing.assert_array_equal(same.logits, whole)

    def test_does_not_wait_unless_asked(self):
        accepted = self.client.upload_graph("later", GRAPH["edge_index"], x=GRAPH["x"], wait_for="accepted")
        self.assertIn(accepted.state, ("UPLOADING", "PREPARING", "READY"))
        self.assertEqual(self.client.watch_graph("later").durability, "MEMORY")

    def test_reports_progress(self):
        steps = []
        self.client.upload_graph("progress", GRAPH["edge_index"], x=GRAPH["x"], progress=steps.append, replace=True)
        sent = [step for step in steps if step.stage == "upload"]
        self.assertEqual(sent[-1].done, sent[-1].total)
        self.assertEqual(steps[-1].stage, "prepare")
        self.assertEqual(sorted(step.done for step in sent), [step.done for step in sent])
        text = io.StringIO()
        bar = vicinal.ProgressBar("graph g", text)
        for done in (0, 1, 50, 100):
            bar(vicinal.Progress("upload", done * 1e6, 100e6))
        self.assertIn(" 50% of 100.0 MB", text.getvalue())
        self.assertTrue(text.getvalue().endswith("100% of 100.0 MB\n"))

    @needs("torch")
    def test_torch_results_share_memory(self):
        answer = self.client.embed("cora", "gcn", [1, 2])
        tensors = answer.torch()
        self.assertEqual(tensors.embeddings.data_ptr(), answer.embeddings.ctypes.data)

    @needs("scipy")
    def test_sparse_features(self):
        from scipy import sparse
        self.client.upload_graph("sparse", GRAPH["edge_index"], x=sparse.csr_matrix(GRAPH["x"]), replace=True)
        self.assertTrue(self.client.list_features("sparse")[0].sparse)
        answer = self.client.classify("sparse", "gcn", TEST)
        self.assertEqual((answer.classes[:, 0] == GRAPH["y"][TEST]).sum(), 795)

    def test_models_with_a_reference(self):
        architecture, weights = model_files("cora-gcn")
        logits = self.client.classify("cora", "gcn", [3, 4], logits=True).logits
        for change, passes in ((0.0, True), (1.0, False)):
            reference = safetensors({"logits": logits + np.float32(change), "nodes": np.array([3, 4])})
            upload = lambda: self.client.upload_model("checked", architecture, weights, reference=reference,  # noqa: E731
                                                      reference_graph="cora", replace=True)
            if passes:
                self.assertLess(upload().reference_error, 1e-6)
            else:
                with self.assertRaises(errors.InvalidArgument) as raised:
                    upload()
                self.assertEqual(raised.exception.reason, "REFERENCE_MISSED")


class StateTest(unittest.TestCase):
    def test_what_an_upload_waited_for_is_there_after_a_restart(self):
        with tempfile.TemporaryDirectory() as folder:
            flag = f"--state_dir={os.path.join(folder, 'state')}"
            stages = []
            with ServerProcess(flag) as server, vicinal.Client(server.grpc) as client:
                graph = client.upload_graph("cora", GRAPH["edge_index"], x=GRAPH["x"], pinned=True,
                                            progress=lambda progress: stages.append(progress.stage))
                model = client.upload_model("gcn", *model_files("cora-gcn"))
                features = client.upload_features("cora", GRAPH["x"] * 2, name="twice", wait_for="durable")
                self.assertEqual([one.durability for one in (graph, model, features)], ["DURABLE"] * 3)
                self.assertTrue(graph.raw.pinned)
                self.assertEqual(list(dict.fromkeys(stages)), ["upload", "prepare", "write"])
                expected = client.classify("cora", "gcn", TEST, logits=True)
            with ServerProcess(flag) as server, vicinal.Client(server.grpc) as client:
                answer = client.classify("cora", "gcn", TEST, logits=True)
                self.assertEqual(answer.served_by, expected.served_by)
                np.testing.assert_array_equal(answer.logits, expected.logits)
                self.assertEqual(sorted(one.name for one in client.list_features("cora")), ["default", "twice"])


class TokenTest(unittest.TestCase):
    def test_token(self):
        server = ServerProcess(f"--admin_token_file={os.devnull}")
        path = server.path("admin.token")
        with open(path, "w", encoding="ascii") as file:
            file.write("s3cret-s3cret-s3cret-s3cret-s3cret\n")
        os.chmod(path, 0o600)
        server.flags = (f"--admin_token_file={path}",)
        with server:
            with vicinal.Client(server.grpc) as client, self.assertRaises(errors.Unauthenticated) as raised:
                client.upload_graph("g", [[0], [1]])
            self.assertEqual(raised.exception.reason, "TOKEN_MISSING")
            with vicinal.Client(server.grpc, token="s3cret-s3cret-s3cret-s3cret-s3cret") as client:
                self.assertEqual(client.upload_graph("g", [[0], [1]]).state, "READY")


if __name__ == "__main__":
    unittest.main()
