#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The asyncio client against a real server; answers are compared with the blocking client's."""

import asyncio
import unittest

import numpy as np

import vicinal
from data import layer_model, model_files, read_graph
from server_process import ServerProcess
from vicinal import errors

GRAPH = read_graph("cora")


class AsyncClientTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.server = ServerProcess().__enter__()
        self.addCleanup(self.server.__exit__)
        self.client = vicinal.AsyncClient(self.server.grpc)
        self.addAsyncCleanup(self.client.close)
        await self.client.upload_graph("cora", GRAPH["edge_index"], x=GRAPH["x"])
        await self.client.upload_model("gcn", *model_files("cora-gcn"))

    async def test_answers_are_the_blocking_clients(self):
        with vicinal.Client(self.server.grpc) as client:
            expected = client.classify("cora", "gcn", logits=True).logits
        answers = await asyncio.gather(*(self.client.classify("cora", "gcn", [node], logits=True) for node in range(20)))
        np.testing.assert_array_equal(np.concatenate([answer.logits for answer in answers]), expected[:20])
        pieces = [piece.logits async for piece in self.client.classify_stream("cora", "gcn", logits=True)]
        np.testing.assert_array_equal(np.concatenate(pieces), expected)
        np.testing.assert_array_equal((await self.client.classify("cora", "gcn", logits=True)).logits, expected)
        self.assertEqual((await self.client.embed("cora", "gcn", [1])).embeddings.shape, (1, 16))
        edges = await self.client.predict_links("cora", "gcn")
        pairs = await self.client.predict_links("cora", "gcn", edges.links[:3, 0], edges.links[:3, 1])
        np.testing.assert_array_equal(pairs.scores, edges.scores[:3])
        self.assertEqual((await self.client.top_links("cora", "gcn", [1], k=2)).partners.shape, (1, 2))
        with self.assertRaisesRegex(vicinal.InputError, "relations are of pairs"):
            await self.client.predict_links("cora", "gcn", relations=[0])
        with self.assertRaisesRegex(vicinal.InputError, "relation is True"):
            await self.client.top_links("cora", "gcn", [1], relation=True)

    async def test_a_stream_of_queries(self):
        async def queries():
            for node in range(100):
                yield vicinal.ClassifyQuery("cora", "gcn", [node], logits=True)

        expected = (await self.client.classify("cora", "gcn", list(range(100)), logits=True)).logits
        answers = [answer async for answer in self.client.query_stream(queries())]
        np.testing.assert_array_equal(np.concatenate([answer.get().logits for answer in answers]), expected)
        answers = [answer async for answer in self.client.query_stream([vicinal.EmbedQuery("cora", "nope", [1])], in_order=False)]
        self.assertIsInstance(answers[0].error, errors.NotFound)

    async def test_edge_feature_sets(self):
        graph = read_graph("tiny")
        await self.client.upload_model("gine", *layer_model("gine"))
        made = await self.client.upload_graph("tiny", graph["edge_index"], x=graph["x"], keep_edge_order=True)
        self.assertEqual(made.edge_feature_sets, ())
        one = await self.client.upload_edge_features("tiny", graph["edge_attr"], name="one")
        answer = await self.client.classify("tiny", "gine", [3], edge_feature_set="one")
        self.assertEqual((answer.served_by.edge_feature_set, answer.served_by.edge_feature_set_version), ("one", one.version))
        self.assertEqual([found.name for found in await self.client.list_edge_features("tiny")], ["one"])
        await self.client.delete_edge_features("tiny", "one")
        with self.assertRaises(errors.NotFound):
            await self.client.delete_edge_features("tiny", "one")

    async def test_errors_are_typed(self):
        with self.assertRaises(errors.NotFound):
            await self.client.get_graph("nope")
        with self.assertRaises(errors.NotFound):
            async for _ in self.client.embed_stream("cora", "nope"):
                self.fail("a piece of an unknown model")
        with self.assertRaises(errors.InvalidArgument) as raised:
            await self.client.classify("cora", "gcn", [-1])
        self.assertEqual(raised.exception.reason, "NODE_OUT_OF_RANGE")

    async def test_a_cancelled_task_cancels_its_call(self):
        task = asyncio.ensure_future(self.client.classify("cora", "gcn"))
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual((await self.client.classify("cora", "gcn", [1])).classes.shape, (1, 1))

    async def test_resources(self):
        graph = await self.client.upload_graph("g", [["a"], ["b"]], ids=["a", "b"], x=GRAPH["x"][:2])
        self.assertEqual((await self.client.classify("g", "gcn", ["b"])).classes.shape, (1, 1))
        self.assertEqual([one.name for one in await self.client.list_graphs()], ["cora", "g"])
        self.assertEqual((await self.client.watch_graph("g")).ids_digest, graph.ids.digest)
        await self.client.delete_graph("g")
        await self.client.delete_graph("g", missing_ok=True)
        await self.client.delete_model("gcn")
        self.assertEqual(await self.client.list_models(), [])


if __name__ == "__main__":
    unittest.main()
