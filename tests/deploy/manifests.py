# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes as the cluster sees it: rendered by kubectl, without a cluster."""

import os
import shutil
import subprocess
import tempfile

import yaml

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
KUBERNETES = os.path.join(ROOT, "deploy", "kubernetes")
WORKLOADS = ("StatefulSet", "Deployment")


def overlays():
    return sorted(os.listdir(os.path.join(KUBERNETES, "overlays")))


def components():
    return sorted(os.listdir(os.path.join(KUBERNETES, "components")))


def why_not():
    """Why manifests cannot be rendered here; empty: they can. Components came with kubectl 1.21."""
    if not shutil.which("kubectl"):
        return "needs kubectl"
    probe = subprocess.run(["kubectl", "kustomize", os.path.join(KUBERNETES, "overlays", "cpu")], capture_output=True, text=True, check=False)
    return "needs kubectl 1.21 or later" if "unknown field" in probe.stderr else ""


def kustomize(folder):
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{folder}: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def render(overlay):
    return kustomize(os.path.join(KUBERNETES, "overlays", overlay))


def combine(*names, patches=()):
    """The base with these components, in this order, and then these patches."""
    with tempfile.TemporaryDirectory(dir=KUBERNETES) as folder:
        with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
            yaml.safe_dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["../base"],
                            "components": [f"../components/{name}" for name in names], "patches": list(patches)}, file)
        return kustomize(folder)


def workloads(objects):
    return [document for document in objects if document["kind"] in WORKLOADS]


def server_of(workload):
    """The first container of its pods; another one can only be the edge."""
    server, *others = workload["spec"]["template"]["spec"]["containers"]
    if [container["name"] for container in (server, *others)] not in (["server"], ["server", "edge"]):
        raise AssertionError(f"unexpected containers of {workload['metadata']['name']}")
    return server


def edge_of(pod):
    """The edge of a pod, by the pod's specification; None: it has none."""
    return next((container for container in pod["containers"] if container["name"] == "edge"), None)


def flags_of(server):
    """{flag: value}: of a flag that stands twice the last counts; one without a value is "true"."""
    flags = {}
    for argument in server["args"]:
        name, equals, value = argument.removeprefix("--").partition("=")
        flags[name] = value if equals else "true"
    return flags
