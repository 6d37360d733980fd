#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An unmodified tritonclient (PyPI) lists, checks and asks a real server, sync, async and as a stream; answers are compared with the logits
that PyTorch Geometric gave. Exit status 77: no Python has tritonclient. VICINAL_TRITON_PYTHON may name one that has."""

import asyncio
import importlib.util
import json
import os
import queue
import sys
import unittest

if importlib.util.find_spec("tritonclient") is None:
    other = os.environ.get("VICINAL_TRITON_PYTHON")
    if other:
        os.execv(other, [other, *sys.argv])
    print("skipped: tritonclient is not installed (pip install 'tritonclient[grpc]'; VICINAL_TRITON_PYTHON=PYTHON)")
    sys.exit(77)

import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy"))
from server_process import ServerProcess

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
DATA = os.path.join(ROOT, "tests", "data")
NAME = "cora/cora-gcn"


def read_safetensors(path, name):
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:8 + size])[name]
    begin, end = entry["data_offsets"]
    kind = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}[entry["dtype"]]
    return np.frombuffer(data[8 + size + begin:8 + size + end], dtype=kind).reshape(entry["shape"])


def tensor(name, values, datatype):
    made = triton.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values)
    return made


def nodes(*ids):
    return tensor("nodes", np.array(ids, dtype=np.int64), "INT64")


def outputs(*names):
    return [triton.InferRequestedOutput(name) for name in names]


class TritonClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess()
        cls.server.__enter__()
        model = os.path.join(DATA, "models", "cora-gcn")
        cls.server.vicinal("graph", "upload", f"{DATA}/graphs/cora.npz", "--name", "cora")
        cls.server.vicinal("model", "upload", f"{model}.json", "--weights", f"{model}.safetensors", "--name", "cora-gcn")
        cls.logits = read_safetensors(f"{model}.reference.safetensors", "logits")
        pool = os.path.join(DATA, "models", "proteins-ginpool")
        cls.server.vicinal("model", "upload", f"{pool}.json", "--weights", f"{pool}.safetensors", "--name", "proteins-ginpool")
        cls.graph_logits = read_safetensors(f"{pool}.reference.safetensors", "graph_logits")
        cls.client = triton.InferenceServerClient(cls.server.grpc)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__()

    def assert_logits(self, got, ids):
        np.testing.assert_allclose(got, self.logits[list(ids)], rtol=1e-4, atol=1e-5)

    def test_lists_and_describes(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready(NAME))
        self.assertFalse(self.client.is_model_ready("cora/unknown"))
        self.assertEqual(self.client.get_server_metadata().name, "vicinal")
        models = self.client.get_model_repository_index().models
        self.assertEqual([(model.name, model.state) for model in models], [("proteins-ginpool", "READY"), (NAME, "READY")])
        self.assertTrue(self.client.is_model_ready(NAME, models[1].version))
        metadata = self.client.get_model_metadata(NAME, as_json=True)
        self.assertEqual([one["name"] for one in metadata["inputs"]], ["nodes", "x", "x_nodes"])
        self.assertEqual([one["name"] for one in metadata["outputs"]], ["classes", "scores", "logits", "probabilities"])
        config = self.client.get_model_config(NAME).config
        self.assertTrue(all(one.optional for one in config.input))
        self.assertIn("last_conv_input", config.parameters["embeddings"].string_value)

    def test_classes_and_scores(self):
        ids = (0, 7, 2707)
        answer = self.client.infer(NAME, [nodes(*ids)], outputs=outputs("classes", "scores", "probabilities"), parameters={"top_k": 3})
        order = np.argsort(-self.logits[list(ids)], axis=1)[:, :3]
        np.testing.assert_array_equal(answer.as_numpy("classes"), order)
        probabilities = answer.as_numpy("probabilities")
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
        np.testing.assert_allclose(answer.as_numpy("scores"), np.take_along_axis(probabilities, order, axis=1), rtol=1e-5)
        self.assertEqual(self.client.infer(NAME, [nodes(5)]).as_numpy("classes").shape, (1, 1))

    def test_logits_and_embeddings(self):
        self.assert_logits(self.client.infer(NAME, [nodes(3, 3, 9)], outputs=outputs("logits")).as_numpy("logits"), (3, 3, 9))
        self.assert_logits(self.client.infer(NAME, [], outputs=outputs("logits")).as_numpy("logits"), range(len(self.logits)))
        answer = self.client.infer(NAME, [nodes(3)], outputs=outputs("embeddings"), parameters={"output": "logits"})
        self.assert_logits(answer.as_numpy("embeddings"), (3,))

    def test_small_graphs(self):
        with np.load(os.path.join(DATA, "graphs", "proteins.npz")) as arrays:
            edges, x, graph_id = arrays["edge_index"], arrays["x"], arrays["graph_id"]
        count = 20
        size = int((graph_id < count).sum())
        ptr = np.searchsorted(graph_id, np.arange(count + 1)).astype(np.int64)
        edges = np.ascontiguousarray(edges[:, edges[0] < size])
        answer = self.client.infer("proteins-ginpool", [tensor("ptr", ptr, "INT64"), tensor("edge_index", edges, "INT32"),
                                                        tensor("x", np.ascontiguousarray(x[:size]), "FP32")],
                                   outputs=outputs("logits", "classes"))
        np.testing.assert_allclose(answer.as_numpy("logits"), self.graph_logits[:count], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(answer.as_numpy("classes")[:, 0], self.graph_logits[:count].argmax(axis=1))

    def test_features_of_the_request(self):
        width = self.client.get_model_metadata(NAME).inputs[1].shape[1]
        x = np.zeros((1, width), dtype=np.float32)
        changed = self.client.infer(NAME, [nodes(3, 2000), tensor("x", x, "FP32"), tensor("x_nodes", np.array([3]), "INT64")],
                                    outputs=outputs("logits")).as_numpy("logits")
        self.assertGreater(np.abs(changed[0] - self.logits[3]).max(), 1e-3)

    def test_errors(self):
        for name, inputs, status in ((NAME, [nodes(99999)], "INVALID_ARGUMENT"), ("cora/unknown", [nodes(1)], "NOT_FOUND"),
                                     ("cora-gcn", [], "INVALID_ARGUMENT"), (NAME, [tensor("nodes", np.zeros((1,), np.float32), "FP32")],
                                                                            "INVALID_ARGUMENT")):
            with self.assertRaises(InferenceServerException) as raised:
                self.client.infer(name, inputs)
            self.assertEqual(raised.exception.status(), f"StatusCode.{status}")

    def test_stream(self):
        answers = queue.Queue()
        with triton.InferenceServerClient(self.server.grpc) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            for i in range(4):
                client.async_stream_infer(NAME, [nodes(i if i != 2 else -1)], request_id=str(i), outputs=outputs("logits"))
            for i in range(4):
                result, error = answers.get(timeout=60)
                if i == 2:
                    self.assertIn("-1", str(error))
                    continue
                self.assertIsNone(error)
                self.assertEqual(result.get_response().id, str(i))
                self.assert_logits(result.as_numpy("logits"), (i,))
            client.async_stream_infer(NAME, [nodes(5)], outputs=outputs("logits"), enable_empty_final_response=True)
            result, error = answers.get(timeout=60)
            self.assertIsNone(error)
            self.assertTrue(result.get_response().parameters["triton_final_response"].bool_param)
            self.assert_logits(result.as_numpy("logits"), (5,))
            client.stop_stream()

    def test_async(self):
        async def ask():
            async with triton_aio.InferenceServerClient(self.server.grpc) as client:
                self.assertTrue(await client.is_model_ready(NAME))
                answers = await asyncio.gather(*(client.infer(NAME, [nodes(i)], outputs=outputs("logits")) for i in range(8)))
                return [answer.as_numpy("logits")[0] for answer in answers]
        self.assert_logits(np.array(asyncio.run(ask())), range(8))

    def test_statistics(self):
        self.client.infer(NAME, [nodes(1)])
        before = self.client.get_inference_statistics(NAME).model_stats[0]
        self.client.infer(NAME, [nodes(1)])
        after = self.client.get_inference_statistics(NAME).model_stats[0]
        self.assertEqual(after.inference_count, before.inference_count + 1)
        self.assertGreater(after.inference_stats.success.ns, before.inference_stats.success.ns)


if __name__ == "__main__":
    unittest.main()
