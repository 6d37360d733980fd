#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The contents of the images `cuda` and `cuda-full` on a machine with a GPU, without buildah and without a network:

  python3 tests/deploy/image_gpu_check.py --image build/image --data tests/data --json image.json

FOLDER of --image is that of deploy/image.sh. It needs root, Python's standard library and util-linux. Each image runs as a container: a
mount namespace with the image's files as its read-only root, user 65532, no capabilities, no_new_privs, the entry point of the
Dockerfile. The driver's libraries are put where NVIDIA's container toolkit mounts them. NVIDIA's own libraries, where FOLDER lacks
cuda-full because it is large, are those of --toolkit. The checks are those of the quick start, all made with the command line inside the
image. --device cpu: checks this script where there is no GPU. Exit status 1: a check failed."""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from container_process import Container

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
USER = 65532
# What the toolkit mounts for NVIDIA_DRIVER_CAPABILITIES=compute,utility, as far as libraries go.
DRIVER = ("cuda", "nvidia-ml", "nvidia-ptxjitcompiler", "nvidia-nvvm", "nvidia-gpucomp")
DRIVER_PLACE = "usr/lib/x86_64-linux-gnu"
# And where deploy/image.sh puts them.
NVIDIA = {"opt/vicinal/lib": ("libcublasLt.so.13", "libcusparse.so.12", "libnvJitLink.so.13", "libnvrtc.so.13"),
          "lib/x86_64-linux-gnu": ("libnvrtc-builtins.so.13.*",)}
TOKEN = "a-token-for-this-check-alone"
MODEL = "cora-gcn"


def instruction(name):
    """The words of a list that the Dockerfile's last instruction of this name has."""
    with open(os.path.join(ROOT, "Dockerfile"), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    return json.loads(re.search(rf"(?m)^{name}.*?(\[.*\])", text).group(1))


def config():
    with open(os.path.join(ROOT, "Dockerfile"), encoding="utf-8") as file:
        user = re.search(r"(?m)^USER (\S+)", file.read()).group(1)
    return {"User": user, "Entrypoint": instruction("ENTRYPOINT"), "Healthcheck": {"Test": ["CMD", *instruction("HEALTHCHECK")]}}


def driver_libraries():
    """Paths of the driver's libraries, each once."""
    folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
               *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    folders += [os.path.dirname(path) for path in re.findall(r"libcuda\.so\.1 .*=> (\S+)", listed)]
    found = {}
    for folder in filter(None, folders):
        for name in DRIVER:
            for path in glob.glob(os.path.join(folder, f"lib{name}.so.[0-9]*")):
                found.setdefault(os.path.basename(path), path)
    return sorted(found.values())


def nvidia_libraries(toolkit):
    """{folder in the image: paths} of NVIDIA's libraries that cuda-full has, from a CUDA toolkit or the wheels that PyTorch depends on."""
    paths = {place: [] for place in NVIDIA}
    for place, name in ((place, name) for place, names in NVIDIA.items() for name in names):
        folders = [toolkit] + [path for folder in sys.path for path in glob.glob(os.path.join(folder, "nvidia", "*", "lib"))]
        found = [path for folder in folders for path in sorted(glob.glob(os.path.join(folder, name)))]
        if not found:
            raise SystemExit(f"image_gpu_check: neither {toolkit} nor a Python package has {name}; name the folder with --toolkit")
        paths[place].append(found[0])
    return paths


def assemble(image, layers, libraries, target):
    """The root of an image from its layers and further files, {folder in it: paths}."""
    for layer in layers:
        shutil.copytree(os.path.join(image, layer), target, dirs_exist_ok=True, symlinks=True)
    os.makedirs(os.path.join(target, "var/lib/vicinal"), exist_ok=True)
    for place, paths in libraries.items():
        os.makedirs(os.path.join(target, place), exist_ok=True)
        for path in paths:
            shutil.copyfile(path, os.path.join(target, place, os.path.basename(path)))
    return target


def container_folder(scratch, data):
    """What the container sees of this machine: a token, a state volume, and the files that are uploaded."""
    folder = tempfile.mkdtemp(dir=scratch)
    for name in ("secrets", "state", "tmp"):
        os.mkdir(os.path.join(folder, name))
        os.chown(os.path.join(folder, name), USER, USER)
    token = os.path.join(folder, "secrets", "admin.token")
    with open(token, "w", encoding="utf-8") as file:
        file.write(TOKEN + "\n")
    os.chown(token, 0, USER)
    os.chmod(token, 0o440)
    for path in (f"{data}/graphs/cora.npz", *glob.glob(f"{data}/models/{MODEL}.*")):
        shutil.copy(path, os.path.join(folder, "tmp"))
    return folder


class Checks:
    def __init__(self):
        self.results = []

    def add(self, name, ok, said=""):
        said = str(said).strip()
        self.results.append({"check": name, "ok": bool(ok), "said": said})
        print(f"{'ok  ' if ok else 'FAIL'} {name}" + (f": {said}" if said else ""), flush=True)


class ImageChecks:
    """The checks of one image, `name`, in the folder `root`."""

    def __init__(self, name, root, folder, device, checks):
        self.name, self.root, self.folder, self.device, self.checks = name, root, folder, device, checks

    def check(self, what, ok, said=""):
        self.checks.add(f"{self.name}: {what}", ok, said)

    def vicinal(self, container, *arguments):
        """Output and status of the image's own command line, inside the container."""
        words = ["/opt/vicinal/bin/vicinal", "--server", container.addresses["grpc"], "--token_file", "/run/secrets/admin.token",
                 *arguments]
        done = subprocess.run(container.command(words), capture_output=True, text=True, check=False, timeout=120)
        return done.stdout + done.stderr, done.returncode

    def container(self):
        return Container(self.root, config(), self.folder, f"--device={self.device}", "--state_dir=/var/lib/vicinal")

    def check_isolation(self, container):
        self.check("runs as user 65532 without capabilities",
                   container.status("Uid") == [str(USER)] * 4 and container.status("CapEff") == ["0" * 16] and
                   container.status("NoNewPrivs") == ["1"])
        self.check("root is read-only", "ro" in container.mount_options("/"))
        self.check("health check passes", container.health() == 0)
        with open(f"/proc/{container.process.pid}/maps", encoding="utf-8") as file:
            loaded = sorted({line.split()[-1] for line in file if ".so" in line})
        driver = [os.path.basename(path) for path in loaded if f"/{DRIVER_PLACE}/" in path]
        self.check("loads the driver's libraries", self.device == "cpu" or any(name.startswith("libcuda.so") for name in driver),
                   f"{len(loaded)} libraries, of the driver: {' '.join(driver) or 'none'}")

    def check_quick_start(self, container):
        begin = time.monotonic()
        said, status = self.vicinal(container, "graph", "upload", "/tmp/cora.npz", "--name", "cora", "--wait_for", "durable")
        self.check("uploads Cora", status == 0, said.splitlines()[0])
        said, status = self.vicinal(container, "model", "upload", f"/tmp/{MODEL}.json", "--weights", f"/tmp/{MODEL}.safetensors", "--name",
                                    MODEL, "--reference", f"/tmp/{MODEL}.reference.safetensors", "--reference_graph", "cora",
                                    "--wait_for", "durable")
        self.check("loads a GCN and checks its reference", status == 0,
                   "".join(re.findall(r"(?m)^matches its reference.*$", said)) or said)
        said, status = self.vicinal(container, "classify", "--graph", "cora", "--model", MODEL, "--labels", "/tmp/cora.npz", "--mask",
                                    "test_mask")
        self.check("classifies the test nodes", "(795/1000)" in said, "".join(re.findall(r"accuracy.*", said)) or said)
        self.check("takes for all that", True, f"{time.monotonic() - begin:.1f} s")
        said, _ = self.vicinal(container, "classify", "--graph", "cora", "--model", MODEL, "--nodes", "0,1,2,3,4,5,6,7,8,9", "--repeat",
                               "100")
        self.check("latency of ten nodes", "median" in said, " ".join(said.splitlines()[-1:]))

    def check_device(self, container):
        kind = self.device.split(":")[0]
        said, _ = self.vicinal(container, "status")
        self.check("says its device", f"device {kind}" in said, "".join(re.findall(r"(?m)^device .*$", said)))
        said, _ = self.vicinal(container, "graph", "explain", "cora", "--model", MODEL, "--verbose")
        self.check("explains a plan for it", f"plan on {kind}" in said, "".join(re.findall(r"(?m)^plan on .*$", said)))
        with urllib.request.urlopen(f"http://{container.addresses['metrics']}/metrics", timeout=10) as page:
            text = page.read().decode()
        launches = [line for line in text.splitlines()
                    if re.match(r'vicinal_kernel_launches_total\{.*device="' + kind, line) and not line.endswith(" 0")]
        self.check("counts launches on it", launches, " | ".join(line[len("vicinal_kernel_launches_total"):] for line in launches))
        if kind == "cuda":
            gpu = [line for line in text.splitlines() if line.startswith("vicinal_gpu_memory_bytes") and "used" in line]
            self.check("reads the GPU's state through NVML", gpu, " ".join(gpu))

    def check_nvidia(self, container, there):
        """Kernels of NVIDIA's libraries compute, or refuse with the reason."""
        if self.device == "cpu":
            return
        for operation, kernel in (("dense_update", "cublas"), ("aggregate", "cusparse")):
            said, status = self.vicinal(container, "classify", "--graph", "cora", "--model", MODEL, "--labels", "/tmp/cora.npz", "--mask",
                                        "test_mask", "--kernel", f"{operation}={kernel}")
            if there:
                ok = status == 0 and re.search(r"\(79[4-6]/1000\)", said)
                self.check(f"{kernel} computes", ok, "".join(re.findall(r"accuracy.*", said)) or said)
            else:
                self.check(f"{kernel} refuses with a reason", "KERNEL_REFUSED" in said and "not there" in said, said.splitlines()[0])

    def run(self, nvidia_libraries):
        with self.container() as container:
            self.check_isolation(container)
            self.check_quick_start(container)
            self.check_device(container)
            self.check_nvidia(container, nvidia_libraries)
            before, _ = self.vicinal(container, "classify", "--graph", "cora", "--model", MODEL, "--nodes", "0,5,9")
        self.check("stops on SIGTERM with status 0", True)
        with self.container() as container:
            after, status = self.vicinal(container, "classify", "--graph", "cora", "--model", MODEL, "--nodes", "0,5,9")
        rows = [re.findall(r"(?m)^\s*[059]\s.*$", text) for text in (before, after)]
        self.check("answers the same after a restart on its state", status == 0 and len(rows[0]) == 3 and rows[0] == rows[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", required=True, help="a folder of deploy/image.sh")
    parser.add_argument("--data", default=os.path.join(ROOT, "tests", "data"))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--toolkit", default="/usr/local/cuda/lib64")
    parser.add_argument("--json", help="writes the results to this file")
    options = parser.parse_args()
    checks = Checks()
    driver = driver_libraries()
    print("driver: " + (" ".join(driver) or "none found"), flush=True)
    carried = os.path.isdir(os.path.join(options.image, "cuda-full"))
    nvidia = {} if carried else nvidia_libraries(options.toolkit)
    print("NVIDIA's libraries of cuda-full: " + ("the image's" if carried else " ".join(sum(nvidia.values(), []))), flush=True)
    with tempfile.TemporaryDirectory(prefix="vicinal-image-") as scratch:
        os.chmod(scratch, 0o755)
        layers = ["cpu", "cuda"]
        for name, libraries in (("cuda", {}), ("cuda-full", nvidia)):
            full = name == "cuda-full"
            files = {DRIVER_PLACE: driver, **libraries}
            try:
                root = assemble(options.image, layers + (["cuda-full"] if full and carried else []), files, os.path.join(scratch, name))
                ImageChecks(name, root, container_folder(scratch, options.data), options.device, checks).run(full)
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                checks.add(f"{name}: runs to the end", False, error)
    failed = sum(not result["ok"] for result in checks.results)
    print(f"{len(checks.results)} checks, {failed} failed")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"device": options.device, "driver": driver, "nvidia": nvidia, "checks": checks.results}, file, indent=1)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
