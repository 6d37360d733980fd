#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The container images, made from the build under test: what is in them, how large they are, and that the server runs in them as an
unprivileged user with a read-only root, keeps its state, tells its health and drains. Exit status 77: this machine cannot (no root, no
buildah, no mounts)."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from container_process import Container, Images, run

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BIN = os.path.abspath(os.environ.get("VICINAL_BIN_DIR", "build/release/bin"))
DATA = os.path.join(ROOT, "tests", "data")
USER = 65532
HAS_CUDA = os.path.exists(os.path.join(BIN, "..", "lib", "libvicinal_cuda.so"))
TOOLKIT = os.environ.get("CUDA_HOME", "/usr/local/cuda")


def why_not():
    """Why this machine cannot make or run containers; empty: it can."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("buildah"):
        return "needs buildah"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        return "may not mount"
    return ""


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def files_of(root):
    """(path in the image, its lstat) of everything in it."""
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            yield "/" + os.path.relpath(path, root), os.lstat(path)


def vicinal(container, *arguments, check=True):
    """The command line of this machine against the container; its output."""
    done = subprocess.run([f"{BIN}/vicinal", "--server", container.addresses["grpc"], *arguments], cwd=container.folder,
                          capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{arguments}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="vicinal-image-")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.images = Images(cls.scratch.name)
        cls.layers = os.path.join(cls.scratch.name, "layers")
        run(f"{ROOT}/deploy/image.sh", os.path.dirname(BIN), cls.layers, cwd=ROOT)
        cls.image = cls.images.build(ROOT, cls.layers, "cpu")
        cls.config = cls.images.config(cls.image)
        cls.root = cls.images.root(cls.image)

    def folder(self):
        """What a container sees of this machine: a token, a state volume, a place for small files."""
        folder = tempfile.mkdtemp(dir=self.scratch.name)
        for name in ("secrets", "state", "tmp"):
            os.mkdir(os.path.join(folder, name))
            os.chown(os.path.join(folder, name), USER, USER)
        token = os.path.join(folder, "secrets", "admin.token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("a-token-for-this-test-alone\n")
        os.chown(token, 0, USER)
        os.chmod(token, 0o440)
        return folder, token

    def upload(self, container, token):
        model = f"{DATA}/models/cora-gcn"
        vicinal(container, "--token_file", token, "graph", "upload", f"{DATA}/graphs/cora.npz", "--name", "cora", "--wait_for", "durable")
        vicinal(container, "--token_file", token, "model", "upload", f"{model}.json", "--weights", f"{model}.safetensors", "--name",
                "cora-gcn", "--reference", f"{model}.reference.safetensors", "--reference_graph", "cora", "--wait_for", "durable")

    def test_it_says_who_it_is(self):
        version = re.search(r"project\(\w+ VERSION ([0-9.]+)", read("CMakeLists.txt")).group(1)
        self.assertEqual(self.config["Labels"]["org.opencontainers.image.version"], version)
        self.assertEqual(self.config["Labels"]["org.opencontainers.image.licenses"], "Apache-2.0")
        self.assertEqual(self.config["User"], f"{USER}:{USER}")
        self.assertEqual(self.config["StopSignal"], "SIGTERM")

    def test_it_is_small(self):
        self.assertLess(self.images.compressed_bytes(self.image), 40e6)
        if HAS_CUDA:
            self.assertLess(self.images.compressed_bytes(self.images.build(ROOT, self.layers, "cuda")), 150e6)

    @unittest.skipUnless(HAS_CUDA, "built without the CUDA backend")
    def test_the_driver_finds_the_parts_of_glibc_that_it_asks_for(self):
        root = self.images.root(self.images.build(ROOT, self.layers, "cuda"))
        names = {os.path.basename(path) for path, _ in files_of(root)}
        # What `readelf -d libcuda.so.1` of driver 580 lists as NEEDED.
        self.assertLessEqual({"libm.so.6", "libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}, names)

    def cuda_full(self):
        """The layer's folder; not as an image, because compressing NVIDIA's libraries takes a minute."""
        if not HAS_CUDA or not os.path.isdir(TOOLKIT):
            self.skipTest("built without the CUDA backend, or no toolkit here")
        return os.path.join(self.layers, "cuda-full")

    def test_nvidias_libraries_find_all_that_they_ask_for(self):
        layer = self.cuda_full()
        libraries = {os.path.basename(path): layer + path for path, status in files_of(layer) if ".so." in path and stat.S_ISREG(status.st_mode)}
        for wanted in ("libcublasLt", "libcusparse", "libnvrtc", "libnvrtc-builtins"):
            self.assertTrue([name for name in libraries if name.startswith(f"{wanted}.so.")], wanted)
        names = {os.path.basename(path) for folder in ("cpu", "cuda", "cuda-full") for path, _ in files_of(os.path.join(self.layers, folder))}
        for name, path in libraries.items():
            dynamic = run("readelf", "--dynamic", path)
            self.assertLessEqual(set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)), names, name)
            self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", dynamic), [name], "it is asked for by this name")
        with open(f"{layer}/usr/share/vicinal/cuda-full.spdx.json", encoding="utf-8") as file:
            listed = {f"{package['name']}.so.{package['versionInfo']}" for package in json.load(file)["packages"]}
        self.assertEqual(listed, set(libraries))

    def test_nvrtc_compiles_inside_the_image(self):
        self.cuda_full()
        root = tempfile.mkdtemp(dir=self.scratch.name)
        os.chmod(root, 0o755)
        for layer in ("cpu", "cuda", "cuda-full"):
            run("cp", "--recursive", "--link", f"{self.layers}/{layer}/.", root)
        os.makedirs(f"{root}/var/lib/vicinal", exist_ok=True)
        folder, _ = self.folder()
        # As the server finds them.
        run("c++", "-Wl,-rpath,/opt/vicinal/lib", "-o", f"{folder}/tmp/nvrtc_check", f"{ROOT}/tests/deploy/nvrtc_check.cc", "-ldl")
        library = next(path for path, _ in files_of(root) if "/libnvrtc.so." in path)
        said = run(*Container(root, self.config, folder).command(["/tmp/nvrtc_check", library]))
        self.assertRegex(said, r"^status 0, [1-9]\d* bytes")

    def test_nothing_else_can_be_executed(self):
        programs, privileged = [], []
        for path, status in files_of(self.root):
            if not stat.S_ISREG(status.st_mode):
                continue
            if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
                privileged.append(path)
            with open(self.root + path, "rb") as file:
                runs = file.read(4) in (b"\x7fELF", b"#!/b", b"#!/u")
            if runs and not re.search(r"\.so(\.[\d.]+)?$", path):
                programs.append(path)
        compiler = ["/opt/vicinal/bin/vicinal-kernel-compiler"] if os.path.exists(self.root + "/opt/vicinal/lib/libvicinal_cuda.so") else []
        self.assertEqual(sorted(programs), ["/opt/vicinal/bin/vicinal", *compiler, "/opt/vicinal/bin/vicinal-server"])
        self.assertEqual(privileged, [])

    def test_only_the_state_directory_belongs_to_the_user(self):
        owned = [path for path, status in files_of(self.root) if status.st_uid == USER]
        self.assertEqual(owned, ["/var/lib/vicinal"])
        writable = [path for path, status in files_of(self.root) if status.st_mode & 0o002 and not stat.S_ISLNK(status.st_mode)]
        self.assertEqual(writable, ["/tmp"])

    def test_every_library_is_in_the_bill_of_materials(self):
        with open(f"{self.root}/usr/share/vicinal/cpu.spdx.json", encoding="utf-8") as file:
            document = json.load(file)
        listed = {package["name"]: package["versionInfo"] for package in document["packages"]}
        self.assertIn("vicinal", listed)
        identifiers = {package["SPDXID"] for package in document["packages"]}
        self.assertEqual(len(identifiers), len(document["packages"]))
        self.assertLessEqual(set(document["documentDescribes"]), identifiers)
        # Asked the other way round: of each package, the names of its files.
        wanted = {os.path.basename(path) for path, _ in files_of(self.root) if re.search(r"\.so(\.[\d.]+)?$", path)}
        wanted = {name for name in wanted if not name.startswith("libvicinal_")}
        for package, version in listed.items():
            if package == "vicinal":
                continue
            self.assertEqual(run("dpkg-query", "-W", "-f", "${Version}", package), version, package)
            status = read(f"{self.root}/var/lib/dpkg/status.d/{package}")
            self.assertIn(f"Version: {version}\n", status)
            wanted -= {os.path.basename(line) for line in run("dpkg-query", "-L", package).splitlines()}
        self.assertEqual(wanted, set())

    def test_serves_without_privileges_and_keeps_its_state(self):
        folder, token = self.folder()
        flags = ("--state_dir=/var/lib/vicinal", "--tuning_budget=0s")
        with Container(self.root, self.config, folder, *flags) as container:
            self.assertEqual(container.status("Uid"), [str(USER)] * 4)
            self.assertEqual(container.status("CapEff"), ["0" * 16])
            self.assertEqual(container.status("NoNewPrivs"), ["1"])
            self.assertIn("ro", container.mount_options("/"))
            self.assertEqual(container.health(), 0)
            refused = vicinal(container, "graph", "upload", f"{DATA}/graphs/cora.npz", "--name", "cora", check=False)
            self.assertIn("UNAUTHENTICATED", refused)
            self.upload(container, token)
            answer = vicinal(container, "classify", "--graph", "cora", "--model", "cora-gcn", "--labels", f"{DATA}/graphs/cora.npz",
                             "--mask", "test_mask")
            first = vicinal(container, "classify", "--graph", "cora", "--model", "cora-gcn", "--nodes", "0,5,9")
        right = round(1000 * json.loads(read("tests/data/models/cora-gcn.json"))["test_accuracy"])
        self.assertIn(f"({right}/1000)", answer)
        with Container(self.root, self.config, folder, *flags) as container:
            self.assertIn("cora-gcn", vicinal(container, "model", "list"))
            again = vicinal(container, "classify", "--graph", "cora", "--model", "cora-gcn", "--nodes", "0,5,9")

        def rows(text):
            return re.findall(r"(?m)^\s*[059]\s.*$", text)

        self.assertEqual(len(rows(first)), 3)
        self.assertEqual(rows(again), rows(first))

    def test_drains_on_sigterm(self):
        folder, _ = self.folder()
        # Long, so that a busy machine sees it; the end of the block sends a second signal, which skips the rest.
        with Container(self.root, self.config, folder, "--drain_delay=5m") as container:
            self.assertEqual(container.health(), 0)
            container.terminate()
            deadline = time.monotonic() + 60
            while container.health() == 0 and time.monotonic() < deadline:
                pass
            self.assertEqual(container.health(), 3)
            # It still works and still answers: load balancers have time to notice.
            self.assertEqual(container.health("--service", "liveness"), 0)
            self.assertIn("NOT_SERVING", vicinal(container, "status"))

    def test_without_a_token_it_does_not_start(self):
        folder, token = self.folder()
        os.remove(token)
        with self.assertRaisesRegex(AssertionError, "admin.token"):
            with Container(self.root, self.config, folder):
                pass


if __name__ == "__main__":
    if why_not():
        print(f"skipped: {why_not()}")
        sys.exit(77)
    unittest.main()
