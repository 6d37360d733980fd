#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus with the configuration of deploy/prometheus scrapes a real server: every query of the dashboard and every recording rule
has data under load, and alerts fire and clear when the server drains, ends, comes back empty and is filled again. Exit status 77: no Prometheus."""

import contextlib
import json
import math
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import yaml

from deploy_test import DATA, dashboard_queries, read
from free_port import free_port
from server_process import BIN, ServerProcess

# Of scrapes and rules, in seconds.
INTERVAL = 1
PATIENCE_SECONDS = 120


def eventually(what, ask):
    """Asks until the answer is true; that answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_SECONDS} s: {what}")
        time.sleep(0.1)
    return answer


class Prometheus:
    """with Prometheus("HOST:PORT") as prometheus: scrapes that address with the configuration of deploy/prometheus, every second. Alerts
    fire at once: what they wait for is the business of promtool's tests."""

    def __init__(self, target):
        self.target, self.address = target, f"127.0.0.1:{free_port()}"
        self.folder = tempfile.TemporaryDirectory(prefix="vicinal-prometheus-")

    def configure(self):
        config = yaml.safe_load(read("deploy/prometheus/prometheus.yml"))
        config["global"] = {"scrape_interval": f"{INTERVAL}s", "evaluation_interval": f"{INTERVAL}s"}
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [self.target]
        for name in config["rule_files"]:
            rules = yaml.safe_load(read(f"deploy/prometheus/{name}"))
            for rule in (rule for group in rules["groups"] for rule in group["rules"]):
                rule.pop("for", None)
            with open(f"{self.folder.name}/{name}", "w", encoding="utf-8") as file:
                yaml.safe_dump(rules, file)
        with open(f"{self.folder.name}/prometheus.yml", "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file)

    def __enter__(self):
        self.configure()
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder.name}/prometheus.yml", f"--storage.tsdb.path={self.folder.name}/data",
             f"--web.listen-address={self.address}", "--log.level=error"], stdin=subprocess.DEVNULL)
        eventually("Prometheus is ready", self.ready)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5) as page:
                return page.status == 200
        except OSError:
            return False

    def get(self, path, **arguments):
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}", timeout=10) as page:
            return json.load(page)["data"]

    def values(self, query):
        """The samples that are numbers."""
        samples = [float(series["value"][1]) for series in self.get("query", query=query)["result"]]
        return [value for value in samples if not math.isnan(value)]

    def firing(self):
        return {alert["labels"]["alertname"] for alert in self.get("alerts")["alerts"] if alert["state"] == "firing"}


def upload(server):
    model = f"{DATA}/models/cora-gcn"
    server.vicinal("graph", "upload", f"{DATA}/graphs/cora.npz", "--name", "cora", "--replace")
    server.vicinal("model", "upload", f"{model}.json", "--weights", f"{model}.safetensors", "--name", "cora-gcn", "--replace")


class PrometheusTest(unittest.TestCase):
    def test_every_query_has_data_under_load(self):
        with ServerProcess("--tuning_budget=50ms") as server, Prometheus(server.metrics) as prometheus:
            # Counters have a rate once they have risen between two scrapes.
            eventually("a first scrape", lambda: prometheus.values("vicinal_ready"))
            upload(server)
            queries = [(where, query.replace("$instance", ".*").replace("$method", ".*").replace("[5m]", "[1m]"))
                       for where, query in dashboard_queries() if "vicinal_gpu_" not in query]  # there may be no GPU
            queries += [(rule["record"], rule["record"]) for group in yaml.safe_load(read("deploy/prometheus/recording.yml"))["groups"]
                        for rule in group["rules"]]
            load = subprocess.Popen(
                [f"{BIN}/vicinal", "--server", server.grpc, "load", "--graph", "cora", "--model", "cora-gcn", "--rate", "50", "--duration",
                 str(2 * PATIENCE_SECONDS), "--mix", "classify=8,embed=2,classify_stream=1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                server.vicinal("graph", "tune", "cora", "--budget", "0.1")
                server.vicinal("load", "--graph", "cora", "--model", "cora-gcn", "--streams", "--calls", "10", "--warmup", "0")
                missing = set(queries)

                def all_answered():
                    self.assertIsNone(load.poll(), "the load ended")
                    missing.difference_update([entry for entry in missing if prometheus.values(entry[1])])
                    return not missing

                with contextlib.suppress(TimeoutError):
                    eventually("all queries have data", all_answered)
                self.assertEqual(missing, set())
            finally:
                load.kill()
                load.communicate()

    def test_alerts_fire_and_clear(self):
        address = f"127.0.0.1:{free_port()}"
        with Prometheus(address) as prometheus:
            with ServerProcess(f"--metrics_listen={address}", "--drain_delay=15s") as server:
                upload(server)
                eventually("the graph is seen", lambda: prometheus.values("vicinal_graphs == 1"))
                eventually("no alert", lambda: not prometheus.firing())
                server.process.send_signal(signal.SIGTERM)
                eventually("the drain is noticed", lambda: "VicinalNotReady" in prometheus.firing())
            eventually("the end is noticed", lambda: prometheus.firing() == {"VicinalDown"})
            with ServerProcess(f"--metrics_listen={address}") as server:
                eventually("the loss is noticed", lambda: prometheus.firing() == {"VicinalGraphsGone"})
                upload(server)
                eventually("all is well again", lambda: not prometheus.firing())


if __name__ == "__main__":
    if not shutil.which("prometheus"):
        print("skipped: needs prometheus")
        sys.exit(77)
    unittest.main()
