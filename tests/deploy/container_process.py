# SPDX-License-Identifier: Apache-2.0
"""Images made with buildah, and a container of one for the length of a test. Needs root, but no daemon and no runtime: a container
here is a mount namespace with the image as its read-only root, the image's own user and entry point, and the machine's network."""

import json
import os
import signal
import subprocess
import time

START_SECONDS = 60
STOP_SECONDS = 60

# $1 root, $2 folder that becomes /run/secrets, $3 state, $4 /tmp, $5 UID:GID; the rest is the command.
ENTER = """set -e
root="$1" secrets="$2" state="$3" tmp="$4" user="$5"
shift 5
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount --bind -o ro "$secrets" "$root/run/secrets"
mount --bind "$state" "$root/var/lib/vicinal"
mount --bind "$tmp" "$root/tmp"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs --clear-groups env -i PATH="$PATH" chroot --userspec="$user" "$root" "$@"
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Images:
    """buildah with a storage of its own in `folder`."""

    def __init__(self, folder):
        self.folder = folder
        config = os.path.join(folder, "storage.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/storage"\n')
        self.environment = {**os.environ, "CONTAINERS_STORAGE_CONF": config, "BUILDAH_ISOLATION": "chroot"}

    def buildah(self, *arguments, **options):
        return run("buildah", *arguments, env=self.environment, **options).strip()

    def build(self, source, layers, target):
        """The id of the image `target` of the Dockerfile in `source`, from the folder `layers` of deploy/image.sh."""
        return self.buildah("build", "-q", "--format", "docker", "--build-context", f"image={layers}", "--target", target, source)

    def config(self, image):
        return json.loads(self.buildah("inspect", "--type", "image", image))["Docker"]["config"]

    def root(self, image):
        """A folder with the image's files, which a container may have as its root."""
        return self.buildah("mount", self.buildah("from", image))

    def compressed_bytes(self, image):
        """As a registry stores it."""
        target = os.path.join(self.folder, "pushed")
        self.buildah("push", "-q", "--format", "v2s2", image, f"dir:{target}")
        return sum(entry.stat().st_size for entry in os.scandir(target))


class Container:
    """with Container(root, config, "--flag") as container: container.addresses, by port name. `folder` has state/, secrets/ and tmp/."""

    def __init__(self, root, config, folder, *flags):
        self.root, self.config, self.folder, self.flags = root, config, folder, flags

    def command(self, words):
        folders = [os.path.join(self.folder, name) for name in ("secrets", "state", "tmp")]
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "enter", self.root, *folders,
                self.config["User"], *words]

    def __enter__(self):
        ready = os.path.join(self.folder, "tmp", "ready.json")
        if os.path.exists(ready):
            os.remove(ready)
        ports = [f"--{name}_listen=127.0.0.1:0" for name in ("grpc", "health", "metrics")]
        words = [*self.config["Entrypoint"], *ports, "--ready_file=/tmp/ready.json", *self.flags]
        self.process = subprocess.Popen(self.command(words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + START_SECONDS
        while not (os.path.exists(ready) and os.path.getsize(ready) > 0):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError("the container did not become ready:\n" + self.process.communicate()[1])
            time.sleep(0.02)
        with open(ready, encoding="utf-8") as file:
            self.addresses = json.load(file)
        return self

    def status(self, name):
        """A line of the process's /proc/PID/status."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].split() for line in file if line.startswith(name + ":"))

    def mount_options(self, place):
        with open(f"/proc/{self.process.pid}/mounts", encoding="utf-8") as file:
            return next(line.split()[3].split(",") for line in file if line.split()[1] == place)

    def health(self, *arguments):
        """The exit status of the image's own health check, at the port that the server has here."""
        words = [self.addresses["health"] if word == "127.0.0.1:8501" else word for word in self.config["Healthcheck"]["Test"][1:]]
        return subprocess.run(self.command([*words, *arguments]), capture_output=True, check=False).returncode

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.terminate()
        try:
            _, log = self.process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        if self.process.returncode != 0:
            raise AssertionError(f"the container ended with status {self.process.returncode}:\n{log}")
