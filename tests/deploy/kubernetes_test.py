#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes, as kubectl renders it: objects are valid and belong together, and the server takes the flags of every pod and answers
its probes. Exit status 77: there is no kubectl that knows components."""

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import grpc
import yaml

import manifests
import promql
from server_process import BIN, ServerProcess

ROOT = manifests.ROOT
DATA = os.path.join(ROOT, "tests", "data")
TOKEN = {"admin": "the-token-of-admins", "infer": "the-token-of-clients"}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def every_rendering():
    """(name, objects) of each overlay, and of the base with each component that needs no other one."""
    for overlay in manifests.overlays():
        yield overlay, manifests.render(overlay)
    for component in ("edge", "gpu", "monitoring", "state", "tls"):
        yield f"base and {component}", manifests.combine(component)
    yield "base", manifests.combine()


@functools.lru_cache
def known_flags():
    done = subprocess.run([os.path.join(BIN, "vicinal-server"), "--helpfull"], capture_output=True, text=True, check=False)
    return frozenset(re.findall(r"^\s+--([a-z0-9_]+) \(", done.stdout, re.MULTILINE))


def problems(objects, version):
    """What kubernetes-validate says of them for that version of Kubernetes; empty: all is well."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump_all(objects, file)
        file.flush()
        command = ["kubernetes-validate", "--strict", "--kubernetes-version", version, file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    return said if done.returncode != 0 or "WARN" in said else ""


def sync_job(objects):
    """The pod of the job that synchronises servers."""
    return next(d for d in objects if d["kind"] == "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def size(text):
    number, unit = re.fullmatch(r"(\d+)(Gi|GiB)", text).groups()
    assert unit
    return int(number) << 30


def seconds(text):
    return float(re.fullmatch(r"(\d+)s", text).group(1))


def for_each_pod(test):
    """A test of one pod (its specification, its container), for all pods of all renderings."""
    @functools.wraps(test)
    def test_all(self):
        for name, objects in self.renderings.items():
            for workload in manifests.workloads(objects):
                with self.subTest(f"{name}: {workload['metadata']['name']}"):
                    test(self, workload["spec"]["template"]["spec"], manifests.server_of(workload))
    return test_all


class RenderedTest(unittest.TestCase):
    """Needs neither a cluster nor a server."""

    @classmethod
    def setUpClass(cls):
        cls.renderings = dict(every_rendering())

    @unittest.skipUnless(shutil.which("kubernetes-validate"), "no kubernetes-validate here (PyPI)")
    def test_kubernetes_knows_every_field(self):
        # Kinds of operators have no schema there.
        own = [document for objects in self.renderings.values() for document in objects
               if not document["apiVersion"].startswith("monitoring.coreos.com/")]
        for version in ("1.30", "1.37"):
            self.assertEqual(problems(own, version), "", version)

    @unittest.skipUnless(shutil.which("kubernetes-validate"), "no kubernetes-validate here (PyPI)")
    def test_an_older_kubernetes_takes_the_servers_with_the_patch_of_the_page(self):
        block = re.search(r"before 1\.30 [^\n]*\n\n((?:    .*\n)+)", read("docs/kubernetes.md")).group(1)
        patches = yaml.safe_load(block)["patches"]
        for version, components in (("1.25", ("state",)), ("1.27", ("state", "readers"))):
            self.assertIn("sleep", problems(manifests.combine(*components), version))
            self.assertEqual(problems(manifests.combine(*components, patches=patches), version), "", version)

    def test_every_component_is_in_an_overlay(self):
        used = "".join(read(f"deploy/kubernetes/overlays/{overlay}/kustomization.yaml") for overlay in manifests.overlays())
        self.assertEqual({name for name in manifests.components() if f"components/{name}\n" not in used}, set())

    @for_each_pod
    def test_one_image_everywhere(self, pod, server):
        version = re.search(r"project\(\w+ VERSION ([0-9.]+)", read("CMakeLists.txt")).group(1)
        gpu = "nvidia.com/gpu" in server["resources"]["limits"]
        self.assertEqual(server["image"], f"vicinal:{version}" + ("-cuda" if gpu else ""))
        self.assertEqual(manifests.flags_of(server).get("device"), "cuda:0" if gpu else None)

    @for_each_pod
    def test_flags_exist(self, pod, server):
        self.assertIn("grpc_listen", known_flags())
        self.assertLessEqual(set(manifests.flags_of(server)), known_flags())

    @for_each_pod
    def test_ports_agree(self, pod, server):
        flags = manifests.flags_of(server)
        ports = {port["name"]: port["containerPort"] for port in server["ports"]}
        behind = manifests.edge_of(pod) is not None
        self.assertEqual(set(ports), {"health", "metrics"} if behind else {"grpc", "health", "metrics"})
        if behind:
            self.assertEqual(flags["grpc_listen"], "", "there is no way around the edge")
        for name, port in ports.items():
            self.assertEqual(flags[f"{name}_listen"], f"0.0.0.0:{port}")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(server[probe]["grpc"]["port"], ports["health"], probe)
        for name in ports:
            self.assertRegex(read("Dockerfile"), rf"--{name}_listen=0\.0\.0\.0:{ports[name]}\b")

    @for_each_pod
    def test_pods_outlive_their_drain(self, pod, server):
        flags, sleep = manifests.flags_of(server), server["lifecycle"]["preStop"]["sleep"]["seconds"]
        self.assertGreaterEqual(pod["terminationGracePeriodSeconds"],
                                sleep + seconds(flags["drain_delay"]) + seconds(flags["drain_timeout"]) + 15)
        # Names are looked up again after the drain has begun; by then they must lead elsewhere (DNS keeps answers for 5 s).
        self.assertGreater(sleep, 5)
        # Readiness must be seen before the delay ends.
        probe = server["readinessProbe"]
        self.assertLessEqual(probe["periodSeconds"] * probe["failureThreshold"], seconds(flags["drain_delay"]))

    @for_each_pod
    def test_pods_run_without_privileges(self, pod, server):
        user = int(re.search(r"^USER (\d+):\d+$", read("Dockerfile"), re.MULTILINE).group(1))
        self.assertTrue(pod["securityContext"]["runAsNonRoot"])
        for field in ("runAsUser", "runAsGroup", "fsGroup"):
            self.assertEqual(pod["securityContext"][field], user)
        self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertEqual(server["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                     "capabilities": {"drop": ["ALL"]}})
        self.assertFalse(pod["automountServiceAccountToken"])

    @for_each_pod
    def test_resources_fit_the_flags(self, pod, server):
        flags, resources = manifests.flags_of(server), server["resources"]
        self.assertEqual(flags["threads"], resources["requests"]["cpu"])
        self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"])
        self.assertEqual(size(flags["memory_budget_bytes"]) * 4, size(resources["limits"]["memory"]) * 3)

    @for_each_pod
    def test_files_of_flags_are_mounted(self, pod, server):
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: mount for mount in server["volumeMounts"]}
        self.assertEqual({mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}, volumes)
        for flag, value in manifests.flags_of(server).items():
            if not value.startswith("/"):
                continue
            place = os.path.dirname(value)
            self.assertIn(place, mounts, flag)
            self.assertNotIn("subPath", mounts[place], "secrets with subPath are never renewed")
            written = flag == "edge_listen" or flag == "state_dir" and "state_read_only" not in manifests.flags_of(server)
            self.assertEqual(mounts[place].get("readOnly", False), not written)

    @for_each_pod
    def test_the_edge_is_the_one_that_the_server_expects(self, pod, server):
        edge, flags = manifests.edge_of(pod), manifests.flags_of(server)
        self.assertEqual(edge is None, "edge_listen" not in flags)
        if edge is None:
            return
        self.assertEqual(edge["image"], server["image"] + "-edge")
        self.assertRegex(read("deploy/edge/Dockerfile"), rf"(?m)^USER {flags['edge_uids']}:")
        self.assertEqual(edge["securityContext"], {"runAsUser": int(flags["edge_uids"]), **server["securityContext"]})
        variables = {one["name"]: one["value"] for one in edge["env"]}
        self.assertLessEqual(set(variables), set(re.findall(r"presetenv (\w+)", read("deploy/edge/haproxy.cfg"))))
        self.assertEqual(variables["VICINAL_EDGE_SERVER"], f"unix@{flags['edge_listen']}")
        mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in edge["volumeMounts"]}
        self.assertEqual(mounts, {os.path.dirname(flags["edge_listen"]): False, variables["VICINAL_EDGE_DIR"]: True,
                                  os.path.dirname(variables["VICINAL_EDGE_RUN"]): False})
        self.assertEqual(edge["ports"], [{"name": "grpc", "containerPort": 8443}])
        self.assertEqual(variables["VICINAL_EDGE_STATUS"], f":{edge['readinessProbe']['httpGet']['port']}")
        # New connections come until the pod has left the endpoints.
        self.assertEqual(edge["lifecycle"]["preStop"]["exec"]["command"], ["sleep", str(server["lifecycle"]["preStop"]["sleep"]["seconds"])])

    @for_each_pod
    def test_inference_needs_a_token(self, pod, server):
        flags = manifests.flags_of(server)
        self.assertIn("infer_token_file", flags)
        self.assertIn("admin_token_file", flags)
        # Either TLS, or something else must encrypt.
        self.assertEqual(flags["allow_plaintext_tokens"], "false" if {"tls_cert_file", "edge_listen"} & set(flags) else "true")

    def test_selectors_find_pods(self):
        for name, objects in self.renderings.items():
            pods = [workload["spec"]["template"]["metadata"]["labels"] for workload in manifests.workloads(objects)]
            for document in objects:
                spec = document.get("spec", {})
                selector = spec.get("podSelector") or spec.get("selector")
                if selector is None:
                    continue
                labels = selector if document["kind"] == "Service" else selector["matchLabels"]
                found = [pod for pod in pods if labels.items() <= pod.items()]
                where = f"{name}: {document['kind']} {document['metadata']['name']}"
                if document["kind"] in ("NetworkPolicy", "PodMonitor"):
                    self.assertEqual(len(found), len(pods), where)
                else:
                    self.assertEqual(len(found), 1, where)

    def test_ports_of_services_and_policies_have_names_of_the_pods(self):
        for name, objects in self.renderings.items():
            for document in objects:
                spec = document.get("spec", {})
                if document["kind"] == "Service":
                    named = {port["targetPort"] for port in spec["ports"]}
                    self.assertEqual(spec["clusterIP"], "None", "a client would stay with one pod")
                elif document["kind"] == "NetworkPolicy":
                    named = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
                    self.assertEqual(spec["egress"], [])
                elif document["kind"] == "PodMonitor":
                    named = {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]}
                else:
                    continue
                self.assertLessEqual(named, {"grpc", "metrics"}, name)

    def test_readers_answer_and_the_writer_takes_uploads(self):
        objects = self.renderings["cluster"]
        selectors = {document["metadata"]["name"]: document["spec"]["selector"]["app.kubernetes.io/component"]
                     for document in objects if document["kind"] == "Service"}
        self.assertEqual(selectors, {"vicinal": "reader", "vicinal-writer": "server"})
        writer, reader = (next(w for w in manifests.workloads(objects) if w["kind"] == kind) for kind in manifests.WORKLOADS)
        self.assertEqual(writer["spec"]["replicas"], 1)
        self.assertEqual(writer["spec"]["serviceName"], "vicinal-writer")
        self.assertNotIn("replicas", reader["spec"], "the autoscaler's number would be reset")
        theirs, ours = manifests.flags_of(manifests.server_of(reader)), manifests.flags_of(manifests.server_of(writer))
        self.assertEqual(theirs["state_read_only"], "true")
        self.assertNotIn("state_read_only", ours)
        self.assertEqual(theirs["state_dir"], ours["state_dir"])
        self.assertEqual(ours["advertise_address"], "vicinal-writer:8500")
        claims = [document["spec"]["accessModes"] for document in objects if document["kind"] == "PersistentVolumeClaim"]
        self.assertEqual(claims, [["ReadWriteMany"]])

    def test_the_sync_job_names_every_server(self):
        objects = self.renderings["synced"]
        (servers,) = manifests.workloads(objects)
        job = sync_job(objects)
        (sync,) = job["containers"]
        service = servers["spec"]["serviceName"]
        expected = [f"--to=vicinal-{i}.{service}:8500" for i in range(servers["spec"]["replicas"])]
        self.assertEqual([argument for argument in sync["args"] if argument.startswith("--to=")], expected)
        self.assertEqual(sync["image"], manifests.server_of(servers)["image"])
        self.assertEqual(sync["securityContext"], manifests.server_of(servers)["securityContext"])
        self.assertEqual(job["securityContext"], servers["spec"]["template"]["spec"]["securityContext"])
        mounts = {mount["mountPath"] for mount in sync["volumeMounts"]}
        for argument in sync["args"]:
            path = argument.rpartition("=")[2]
            if path.startswith("/"):
                self.assertIn(os.path.dirname(path), mounts)
        # The policy lets it in, and does not take it for a server, which may connect to nothing.
        policy = next(d for d in objects if d["kind"] == "NetworkPolicy")["spec"]
        labels = next(d for d in objects if d["kind"] == "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
        self.assertFalse(policy["podSelector"]["matchLabels"].items() <= labels.items())
        self.assertLessEqual(policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"].items(), labels.items())

    def test_drains_are_never_blocked(self):
        for name, objects in self.renderings.items():
            for document in objects:
                if document["kind"] == "PodDisruptionBudget":
                    self.assertEqual(document["spec"]["maxUnavailable"], 1, name)
                    self.assertNotIn("minAvailable", document["spec"])

    def test_the_operators_rules_are_prometheus_rules(self):
        rules = next(d for d in self.renderings["cluster"] if d["kind"] == "PrometheusRule")
        groups = [group for name in ("alerts", "recording") for group in yaml.safe_load(read(f"deploy/prometheus/{name}.yml"))["groups"]]
        self.assertEqual(rules["spec"], {"groups": groups})
        # The rules that name a job name the one that the monitor gives.
        monitor = next(d for d in self.renderings["cluster"] if d["kind"] == "PodMonitor")
        job = monitor["spec"]["selector"]["matchLabels"][monitor["spec"]["jobLabel"]]
        self.assertEqual(set(re.findall(r'job="([^"]*)"', read("deploy/prometheus/alerts.yml"))), {job})

    def test_the_dashboard_is_the_dashboard(self):
        config = next(d for d in self.renderings["cluster"] if d["kind"] == "ConfigMap")
        self.assertEqual(config["data"]["vicinal.json"], read("deploy/grafana/vicinal.json"))

    def test_the_autoscaler_asks_for_what_the_adapter_makes(self):
        scaler = next(d for d in self.renderings["cluster"] if d["kind"] == "HorizontalPodAutoscaler")["spec"]
        rules = yaml.safe_load(read("deploy/kubernetes/components/autoscaling/adapter_rules.yaml"))["rules"]
        self.assertEqual([metric["pods"]["metric"]["name"] for metric in scaler["metrics"]], [rule["name"]["as"] for rule in rules])
        names = [(workload["kind"], workload["metadata"]["name"]) for workload in manifests.workloads(self.renderings["cluster"])]
        self.assertIn((scaler["scaleTargetRef"]["kind"], scaler["scaleTargetRef"]["name"]), names)


class RunningTest(unittest.TestCase):
    """The servers of the pods of an overlay, with its flags, on this machine."""

    @contextlib.contextmanager
    def pod(self, workload, volumes):
        """A server with the flags of a pod; paths lie in the folder `volumes`, addresses are free ports of loopback."""
        flags = manifests.flags_of(manifests.server_of(workload))
        for name in ("grpc_listen", "metrics_listen"):
            del flags[name]
        flags["health_listen"] = "127.0.0.1:0"
        # The test need not wait for load balancers.
        flags["drain_delay"] = "0s"
        arguments = [f"--{flag}={volumes + value if value.startswith('/') else value}" for flag, value in flags.items()]
        with ServerProcess(*arguments) as server:
            yield server

    def health(self, server, name):
        with grpc.insecure_channel(server.health) as channel:
            # HealthCheckRequest{service = 1}; HealthCheckResponse{status = 1}, SERVING is 1.
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            return check(b"\x0a" + bytes([len(name)]) + name.encode(), timeout=10)

    def test_the_cluster_serves(self):
        writer, reader = (next(w for w in manifests.workloads(manifests.combine("state", "readers")) if w["kind"] == kind)
                          for kind in manifests.WORKLOADS)
        with tempfile.TemporaryDirectory(prefix="vicinal-kubernetes-") as volumes, contextlib.ExitStack() as stack:
            os.makedirs(f"{volumes}/var/lib/vicinal")
            os.makedirs(f"{volumes}/var/run/vicinal/tokens")
            for role, token in TOKEN.items():
                with open(f"{volumes}/var/run/vicinal/tokens/{role}", "w", encoding="utf-8") as file:
                    file.write(token)
            servers = [stack.enter_context(self.pod(workload, volumes)) for workload in (writer, reader)]
            for workload, server in zip((writer, reader), servers):
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    service = manifests.server_of(workload)[probe]["grpc"]["service"]
                    self.assertEqual(self.health(server, service), b"\x08\x01", probe)
            admin, infer = (["--token_file", f"{volumes}/var/run/vicinal/tokens/{role}"] for role in ("admin", "infer"))
            model = f"{DATA}/models/cora-gcn"
            servers[0].vicinal(*admin, "graph", "upload", f"{DATA}/graphs/cora.npz", "--name", "cora")
            servers[0].vicinal(*admin, "model", "upload", f"{model}.json", "--weights", f"{model}.safetensors", "--name", "cora-gcn")
            query = ["classify", "--graph", "cora", "--model", "cora-gcn", "--nodes", "0,5,9"]
            for kind, name in (("graph", "cora"), ("model", "cora-gcn")):
                while name not in servers[1].vicinal(*infer, kind, "list"):  # follows within a second
                    pass
            answers = [re.findall(r"(?m)^\s*[059]\s.*$", server.vicinal(*infer, *query)) for server in servers]
            self.assertEqual(len(answers[0]), 3)
            self.assertEqual(answers[0], answers[1])
            with self.assertRaisesRegex(RuntimeError, "UNAUTHENTICATED"):
                servers[1].vicinal(*query)
            with self.assertRaisesRegex(RuntimeError, "vicinal-writer:8500"):
                servers[1].vicinal(*admin, "graph", "delete", "cora")
            self.check_adapter(servers[1].scrape())

    def test_the_sync_job_fills_every_server(self):
        objects = manifests.render("synced")
        (workload,) = manifests.workloads(objects)
        (sync,) = sync_job(objects)["containers"]
        with tempfile.TemporaryDirectory(prefix="vicinal-kubernetes-") as volumes, contextlib.ExitStack() as stack:
            for folder in ("tokens", "files"):
                os.makedirs(f"{volumes}/var/run/vicinal/{folder}")
            for role, token in TOKEN.items():
                with open(f"{volumes}/var/run/vicinal/tokens/{role}", "w", encoding="utf-8") as file:
                    file.write(token)
            shutil.copy(f"{DATA}/graphs/cora.npz", f"{volumes}/var/run/vicinal/files")
            with open(f"{volumes}/var/run/vicinal/files/state.yaml", "w", encoding="utf-8") as file:
                file.write("graphs: {cora: {file: cora.npz}}\n")
            servers = [stack.enter_context(self.pod(workload, volumes)) for _ in range(2)]
            arguments = [re.sub(r"^(--\w+=)?/", rf"\1{volumes}/", argument) for argument in sync["args"] if not argument.startswith("--to=")]
            arguments += [f"--to={server.grpc}" for server in servers]
            done = subprocess.run([os.path.join(BIN, "vicinal"), *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            for server in servers:
                self.assertIn("cora", server.vicinal("--token_file", f"{volumes}/var/run/vicinal/tokens/infer", "graph", "list"))

    def check_adapter(self, page):
        """The query of the metrics adapter, filled in as it does, is PromQL about exported metrics."""
        samples = promql.exported(page)
        for rule in yaml.safe_load(read("deploy/kubernetes/components/autoscaling/adapter_rules.yaml"))["rules"]:
            query = rule["metricsQuery"].replace("<<.GroupBy>>", "instance").replace("<<.LabelMatchers>>", 'instance="a"')
            self.assertEqual(promql.problems(query, samples), [], query)
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                yaml.safe_dump({"groups": [{"name": "adapter", "rules": [{"record": "a", "expr": query}]}]}, file)
                file.flush()
                done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if manifests.why_not():
        print(f"skipped: {manifests.why_not()}")
        sys.exit(77)
    unittest.main()
