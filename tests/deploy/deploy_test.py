#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What deploy/ and docs/ say about the server is true of the server: flags, metrics, methods. Kubernetes: kubernetes_test.py."""

import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import grpc
import yaml

import promql
from server_process import BIN, ServerProcess

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
DATA = os.path.join(ROOT, "tests", "data")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def server_flags():
    """{flag: default} of the server's own flags, from its help."""
    done = subprocess.run([os.path.join(BIN, "vicinal-server"), "--help"], capture_output=True, text=True, check=False)
    return dict(re.findall(r"^\s+--([a-z0-9_]+) \(.*?default: \"?([^\";]*)\"?;", done.stdout, re.MULTILINE | re.DOTALL))


def dashboard_queries():
    """[(panel or variable, PromQL)] of the dashboard, with Grafana's variable for durations filled in."""
    dashboard = json.loads(read("deploy/grafana/vicinal.json"))
    queries = [(panel["title"], target["expr"].replace("$__rate_interval", "5m")) for panel in dashboard["panels"]
               for target in panel.get("targets", [])]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
            queries.append((variable["name"], f"sum by ({label}) ({metric})"))
    return queries


def rules():
    """[(alert or record, PromQL)] of deploy/prometheus."""
    groups = [group for name in ("alerts", "recording") for group in yaml.safe_load(read(f"deploy/prometheus/{name}.yml"))["groups"]]
    return [(rule.get("alert") or rule["record"], rule["expr"]) for group in groups for rule in group["rules"]]


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


class FilesTest(unittest.TestCase):
    """Needs no running server."""

    def test_every_flag_that_is_written_down_exists(self):
        known = set(server_flags())
        self.assertIn("grpc_listen", known)
        files = ["Dockerfile", "deploy/systemd/vicinal.service", "deploy/edge/compose.yaml",
                 "deploy/edge/vicinal-behind-edge.conf"]
        for path in files:
            used = set(re.findall(r"(?<![\w-])--([a-z]+_[a-z0-9_]+)", read(path)))
            self.assertLessEqual(used, known, path)
            self.assertTrue(used, path)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd here")
    def test_systemd_takes_every_line_of_the_units(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "vicinal.service.d"))
            for source, target in (("systemd/vicinal.service", "vicinal.service"), ("edge/vicinal-edge.service", "vicinal-edge.service"),
                                   ("edge/vicinal-behind-edge.conf", "vicinal.service.d/edge.conf")):
                shutil.copy(os.path.join(ROOT, "deploy", source), os.path.join(folder, target))
            done = subprocess.run(["systemd-analyze", "verify", *glob.glob(f"{folder}/*.service")], capture_output=True, text=True,
                                  check=False, env={**os.environ, "SYSTEMD_UNIT_PATH": folder + ":"})
        # The programs are not installed here.
        said = [line for line in done.stderr.splitlines() if line and "is not executable" not in line]
        self.assertEqual(said, [])

    def test_operations_page_lists_exactly_the_flags_there_are(self):
        documented = set(re.findall(r"^\| `--([a-z0-9_]+)` ", read("docs/operations.md"), re.MULTILINE))
        self.assertEqual(documented, set(server_flags()))

    def test_errors_page_lists_exactly_the_reasons_there_are(self):
        # Reasons are the literals in UPPER_SNAKE_CASE; names of instruction sets and of element types look alike.
        other = re.compile(r"AVX|F8_")
        codes = {"INVALID_ARGUMENT", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "OUT_OF_RANGE",
                 "DATA_LOSS"}
        used = {"CANCELLED", "INTERNAL", "DRAINING"}
        for folder in ("engine", "server"):
            for path in glob.glob(f"{ROOT}/{folder}/**/*.[hc]*", recursive=True):
                used |= set(re.findall(r'"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)"', read(os.path.relpath(path, ROOT))))
        used = {reason for reason in used - codes if not other.match(reason)}
        rows = re.findall(r"^\| (`[A-Z].*?) \|", read("docs/errors.md"), re.MULTILINE)
        documented = {reason for row in rows for reason in re.findall(r"`([A-Z_0-9]+)`", row)}
        self.assertEqual(documented, used)

    def test_one_image_everywhere(self):
        version = re.search(r"project\(\w+ VERSION ([0-9.]+)", read("CMakeLists.txt")).group(1)
        for path in ("README.md", "Dockerfile", "docs/containers.md", "deploy/edge/compose.yaml"):
            built = re.findall(r"docker build .*?-t (\S+)", read(path))
            self.assertTrue(built, path)
            for name in built:
                self.assertIn(name.partition("-")[0], (f"vicinal:{version}",), path)

    def test_flags_of_docker_run_add_to_those_of_the_image(self):
        lines = read("Dockerfile").replace("\\\n", "")
        self.assertEqual(re.findall(r"^CMD", lines, re.MULTILINE), [])
        entry = json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", lines, re.MULTILINE).group(1))
        self.assertEqual({argument.partition("=")[0] for argument in entry[1:]},
                         {"--grpc_listen", "--health_listen", "--metrics_listen", "--admin_token_file", "--allow_plaintext_tokens"})
        # Of a flag that stands twice the last counts: only the second of these can be at fault.
        done = subprocess.run([os.path.join(BIN, "vicinal-server"), "--grpc_listen=first", "--grpc_listen=second"],
                              capture_output=True, text=True, check=False)
        self.assertIn("'second' is not HOST:PORT", done.stderr)

    def test_secrets_stay_out_of_images_and_commits(self):
        for path in (".gitignore", ".dockerignore"):
            self.assertIn("*.token", read(path).splitlines(), path)

    def test_service_configs_name_methods_that_exist(self):
        protos = "".join(read(os.path.relpath(p, ROOT)) for p in glob.glob(ROOT + "/proto/**/*.proto", recursive=True))
        for entry in json.loads(read("deploy/service_config.json"))["methodConfig"]:
            for name in entry["name"]:
                service = name["service"].rpartition(".")[2]
                self.assertRegex(protos, rf"service {service} \{{")
                if "method" in name:
                    self.assertRegex(protos, rf"rpc {name['method']}\(")

    def test_prometheus_files(self):
        promtool("check", "config", "deploy/prometheus/prometheus.yml")
        promtool("test", "rules", "tests/deploy/alerts_test.yml", "tests/deploy/recording_test.yml")

    def test_every_rule_has_a_unit_test(self):
        tests = read("tests/deploy/alerts_test.yml") + read("tests/deploy/recording_test.yml")
        # Alerts whose test says that they fire, and records with the samples they have.
        tested = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:", tests)) | set(re.findall(r"expr: ([\w:]+)", tests))
        self.assertEqual({name for name, _ in rules()} - tested, set())

    def test_metrics_page_has_every_metric_that_rules_and_dashboard_name(self):
        documented = set(re.findall(r"^\| `([a-z0-9_]+)` ", read("docs/metrics.md"), re.MULTILINE))
        for where, query in rules() + dashboard_queries():
            for name in re.findall(r"\b(?:vicinal|process)_[a-z0-9_]+", re.sub(r'"[^"]*"', "", query)):
                self.assertIn(re.sub(r"_(bucket|sum|count)$", "", name), documented, where)

    def test_dashboard_speaks_promql(self):
        # promtool reads rules, not dashboards: each query becomes a rule.
        rules = [{"record": f"query{i}", "expr": query} for i, (_, query) in enumerate(dashboard_queries())]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            promtool("check", "rules", file.name)
        identifiers = [panel["id"] for panel in json.loads(read("deploy/grafana/vicinal.json"))["panels"]]
        self.assertEqual(len(identifiers), len(set(identifiers)))


def gpu_lines():
    """What a server with a GPU exports more, as NvmlTest has it: here there may be none."""
    lines = re.findall(r'"(vicinal_gpu_(?:[^"\\]|\\.)*)"', read("tests/server/metrics/nvml_test.cc"))
    return "\n".join(line.replace('\\"', '"') for line in lines if " " in line)


class RunningServerTest(unittest.TestCase):
    """One server that has done a bit of everything."""

    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess().__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        vicinal = cls.server.vicinal
        vicinal("graph", "upload", f"{DATA}/graphs/cora.npz", "--name", "cora")
        model = f"{DATA}/models/cora-gcn"
        vicinal("model", "upload", f"{model}.json", "--weights", f"{model}.safetensors", "--name", "cora-gcn")
        vicinal("classify", "--graph", "cora", "--model", "cora-gcn", "--nodes", "0,5,9")
        vicinal("classify", "--graph", "cora", "--model", "nobody", "--nodes", "0", check=False)
        cls.page = cls.server.scrape()
        cls.samples = promql.exported(cls.page + "\n" + gpu_lines())

    def check_queries(self, queries):
        self.assertTrue(queries)
        for where, query in queries:
            self.assertEqual(promql.problems(query, self.samples), [], f"{where}: {query}")

    def test_rules_ask_for_what_is_exported(self):
        self.check_queries(rules())

    def test_dashboard_asks_for_what_is_exported(self):
        self.check_queries(dashboard_queries())

    def test_metrics_page_documents_exactly_what_is_exported(self):
        documented = set(re.findall(r"^\| `([a-z0-9_]+)` ", read("docs/metrics.md"), re.MULTILINE))
        ours = {name for name in promql.families(self.page) if name.startswith(("vicinal_", "process_"))}
        of_gpu = set(re.findall(r"^(vicinal_gpu_\w+)", gpu_lines(), re.MULTILINE))
        self.assertEqual(documented, ours | of_gpu)

    def test_grpc_takes_the_service_config(self):
        options = [("grpc.service_config", read("deploy/service_config.json"))]
        with grpc.insecure_channel(self.server.grpc, options=options) as channel:
            capabilities = channel.unary_unary("/vicinal.v1.ServerService/GetCapabilities")
            self.assertTrue(capabilities(b"", timeout=10))


if __name__ == "__main__":
    unittest.main()
